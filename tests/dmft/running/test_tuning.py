"""The tuned numbers of the estimator: each is read, a study can change it, and a result says which it had."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import dmft
from benchmarks.tuning import changed
from dmft.equations.tuning import ESTIMATOR, Estimator
from tests.run_files import run_text

ROOT = Path(__file__).resolve().parents[3]
RUN = dmft.parse_run(run_text("gd", t_max=0.4, problem={"m0": 0.2}, theory={"samples": 64, "replicas": 2}))


def test_other_numbers_give_another_solution_and_the_default_the_same():
    default = dmft.solve(RUN, quiet=True)
    assert np.array_equal(dmft.solve(RUN, quiet=True, estimator=Estimator()).m, default.m)
    others = [changed(name, 0.5) for name in ("ridge_prior", "barrier_width", "jitter", "control_fade_time")]
    # read by compiled code
    others += [Estimator(tangent_sum_max=0.01), Estimator(y_outlier=0.01), Estimator(tangent_flush=0.01), Estimator(lost_step=0.01)]
    for other in others:
        assert not np.array_equal(dmft.solve(RUN, quiet=True, estimator=other).m, default.m), str(other)


def test_every_number_is_read():
    sources = "\n".join(file.read_text() for file in (ROOT / "dmft").rglob("*.py") if file.name != "tuning.py")
    assert [each.name for each in fields(Estimator) if not re.search(rf"\.{each.name}\b", sources)] == []


def test_the_page_has_every_number_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", (ROOT / "docs/notes/tuning.md").read_text(), re.MULTILINE))
    assert rows == {each.name: f"{each.default:.4g}" for each in fields(Estimator)}, "python benchmarks/tuning.py"


def test_a_result_says_its_estimator_and_goes_on_with_the_same_alone(tmp_path):
    other, path = Estimator(ridge_prior=4.0), tmp_path / "theory.h5"
    dmft.solve(RUN, output=path, quiet=True, estimator=other)
    assert dmft.load(path).attrs["estimator"] == "ridge_prior=4.0" == str(other) and not str(Estimator())
    longer = RUN.replace(replicas=3)
    with pytest.raises(dmft.UserError, match=r"another estimator.*ridge_prior=4.0.*the default one"):
        dmft.solve(longer, output=path, resume=True, quiet=True)
    assert len(dmft.solve(longer, output=path, resume=True, quiet=True, estimator=other).replicas["m"]) == 3


def test_a_study_scans_a_number(tmp_path):
    path = tmp_path / "study.h5"
    study = dmft.convergence_study(RUN, estimator={"ridge_prior": [1.0, 2.0]}, output=path, quiet=True)
    axis = dmft.load(path)["estimator.ridge_prior"]
    np.testing.assert_array_equal(axis.curves["m"], study["estimator.ridge_prior"].curves["m"])
    np.testing.assert_allclose(axis.curves["m"][-1], dmft.solve(RUN, quiet=True).m)
    assert np.any(axis.curves["m"][0] != axis.curves["m"][1])
    with pytest.raises(dmft.UserError, match="there is no 'prior'"):
        dmft.convergence_study(RUN, estimator={"prior": [1.0, 2.0]}, quiet=True)


def test_numbers_below_zero_are_refused():
    with pytest.raises(dmft.UserError, match="jitter = -1.0"):
        replace(ESTIMATOR, jitter=-1.0)
