"""dmft converge and convergence_study: small real studies, point by point, and what they look like."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import dmft
from dmft.convergence.axis import compared
from dmft.convergence.runs import Point, named_warnings, points_folder, shared_out, study_points
from dmft.core import store
from dmft.core.errors import ResultWarning, Stopped, UserError
from dmft.equations.kernels import KERNELS
from tests.small_results import SMALL, StopAfter


@pytest.fixture(scope="module")
def small():
    return dmft.parse_run(SMALL).replace(kind="gd", samples=64, replicas=3, t_max=0.16)


@pytest.fixture(scope="module")
def study(small, tmp_path_factory):
    """Samples and learning rates, kept with its file."""
    path = tmp_path_factory.mktemp("study") / "study.h5"
    return dmft.convergence_study(small, samples=[256, 64], learning_rate=[0.01, 0.04, 0.02], output=path, quiet=True), path


@pytest.mark.long
def test_points_go_from_coarse_to_fine_and_are_independent(study):
    result, _ = study
    assert result["samples"].values.tolist() == [64, 256] and result["learning_rate"].values.tolist() == [0.04, 0.02, 0.01]
    assert len(set(result["samples"].seeds)) == 2
    assert result["learning_rate"].t == pytest.approx([0.0, 0.04, 0.08, 0.12, 0.16])
    rows = result.tables()
    assert len(rows["distances"]) == 5 * len(compared(False)) and len(rows["points"]) == 5
    finest = [row for row in rows["distances"] if row["value"] in (256, 0.01)]
    assert all(row["distance"] == 0 for row in finest)
    assert all(row["distance"] > 0 for row in rows["distances"] if row not in finest)


def test_the_numbers_are_those_of_plain_solutions(small, study):
    result, _ = study
    plain = dmft.solve(small.replace(samples=256).replace({"theory.seed": 2}), quiet=True)
    assert np.array_equal(result["samples"].curves["m"][1], plain.m)


def test_the_limit_continues_the_line(study):
    axis = study[0]["learning_rate"]
    assert axis.limit["m"][0] == pytest.approx(0.5) and axis.limit["M_R"].shape == (5, 5)
    assert np.all(axis.limit["m_error"][1:] > 0)
    assert np.allclose(axis.limit["M_C"], axis.limit["M_C"].T) and np.all(np.triu(axis.limit["M_R"]) == 0)


@pytest.mark.long
def test_a_study_reads_back_and_shows_itself(study, dmft_main):
    result, path = study
    again = dmft.load(path)
    assert repr(again) == repr(result) and json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    text = repr(result)
    assert "samples" in text and "learning_rate -> 0" in text and max(map(len, text.splitlines())) < 125
    assert "<pre>" in result._repr_html_()
    done = dmft_main("inspect", str(path), "--json")
    assert json.loads(done.stdout)["study"]["orders"][0]["axis"] == "samples"
    assert dmft_main("export", str(path), "--csv", "tables").returncode == 0
    pytest.importorskip("matplotlib")
    assert dmft_main("plot", str(path), "-o", "study.png").returncode == 0


@pytest.mark.long
def test_a_study_of_a_random_start_looks_at_V(small, tmp_path, dmft_main):
    """m and mu are 0 there: a table of zeros would tell nothing."""
    run = small.replace(start="random")
    result = dmft.convergence_study(run, samples=[64, 256], learning_rate=[0.04, 0.02], output=tmp_path / "a.h5", quiet=True)
    rows = result.tables()["distances"]
    assert {row["quantity"] for row in rows} == {"V", "loss", "nu_hat", "delta_nu", "gain", *KERNELS}
    coarse = {row["quantity"]: row["distance"] for row in rows if row["axis"] == "samples" and row["value"] == 64}
    assert min(coarse.values()) > 0
    plain = dmft.solve(run.replace(samples=256).replace({"theory.seed": 2}), quiet=True)
    assert np.array_equal(result["samples"].curves["V"][1], plain.V)
    assert "(Richardson): V(0.16) = " in repr(result) and repr(dmft.load(tmp_path / "a.h5")) == repr(result)
    assert dmft_main("report", str(tmp_path / "a.h5"), "-o", "a.html").returncode == 0
    pytest.importorskip("matplotlib")
    assert dmft_main("plot", str(tmp_path / "a.h5"), "-o", "study.png").returncode == 0


def test_dataframes(study):
    pandas = pytest.importorskip("pandas")
    frame = study[0].to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and set(frame["quantity"]) == set(compared(False))
    assert list(study[0].to_dataframe("orders")["expected"])[0] == 0.5
    with pytest.raises(UserError, match="no table"):
        study[0].to_dataframe("nonsense")


@pytest.mark.long
def test_a_stopped_study_goes_on_point_by_point(small, study, tmp_path, dmft_main):
    """Stopped inside the second point; the first is kept, and the result is the same to the last bit."""
    path = tmp_path / "study.h5"
    with pytest.raises(Stopped):
        dmft.convergence_study(small, samples=[64, 256], output=path, quiet=True, stop=StopAfter(40))
    kept = sorted(points_folder(path).iterdir())
    assert [file.name for file in kept] == ["samples-256.h5", "samples-64.h5.checkpoint"] and not path.exists()
    before = kept[0].stat().st_mtime_ns
    header = store.load_header(kept[1])        # as if this point had taken 1000 s before the stop
    slow = {**header.attrs, "wall_time": 1000.0}
    store.save(kept[1], "theory", header.run_text, store.load(kept[1]).arrays, slow, checkpoint=True)
    result = dmft.convergence_study(small, samples=[64, 256], output=path, resume=True, quiet=True)
    assert kept[0].stat().st_mtime_ns == before
    for q in ("m", "loss", "nu_hat"):
        assert np.array_equal(result["samples"].curves[q], study[0]["samples"].curves[q])
    assert np.array_equal(result["samples"].table["distance"]["M_R"], study[0]["samples"].table["distance"]["M_R"])
    # The times before and after the stop are added up; `diff` does not compare them.
    assert 1000.0 < result["samples"].wall_times[0] < 1000.0 + 600.0 and 1000.0 < result.attrs["wall_time"] < 1000.0 + 1200.0
    dmft.convergence_study(small, samples=[64, 256], output=tmp_path / "whole.h5", quiet=True)
    assert "the same numbers (running times aside)" in dmft_main("diff", str(path), str(tmp_path / "whole.h5")).stdout
    dmft.convergence_study(small, samples=[64, 128], output=tmp_path / "other.h5", quiet=True)
    told = dmft_main("diff", str(path), str(tmp_path / "other.h5")).stdout
    assert "samples/values differs" in told and "the same numbers" not in told


@pytest.mark.long
def test_mixing_and_blocks(small):
    iterate = small.replace(method="iterate", t_max=0.08)
    axis = dmft.convergence_study(iterate, mixing=[0.5, 1.0], quiet=True)["mixing"]
    assert axis.values.tolist() == [1.0, 0.5] and axis.residuals is not None
    sweeps = np.isfinite(axis.residuals).sum(axis=1)
    assert sweeps[0] < sweeps[1]                                     # undamped is faster
    assert axis.table["distance"]["M_C"][0] < 1e-6                   # and finds the same fixed point
    axis = dmft.convergence_study(small, blocks_per_level=[2, 8], quiet=True)["blocks_per_level"]
    assert 0 < axis.table["distance"]["C"][0] < 0.05 and axis.seeds.tolist() == [1, 1]


@pytest.mark.long
def test_the_command(dmft_main, tmp_path, small):
    Path(tmp_path / "run.toml").write_text(small.to_toml())
    done = dmft_main("converge", "run.toml", "--samples", "32,64", "--quiet", "--plot", "study.png", "-o", "study.h5")
    assert done.returncode == 0, done.stderr
    assert "samples" in done.stdout and (tmp_path / "study.h5").exists() and (tmp_path / "study.png").exists()
    again = dmft_main("converge", "run.toml", "--samples", "32,64", "-o", "study.h5")
    assert again.returncode == 2 and "--resume" in again.stderr
    assert dmft_main("converge", "run.toml", "--samples", "32,64,128", "-o", "study.h5", "--resume", "--quiet").returncode == 0


@pytest.mark.parametrize("words, told", [
    (["--samples", "1000"], "two values"), (["--samples", "a,b"], "whole numbers"), ([], "needs two values"),
    (["--mixing", "0.5,1"], "iterate"), (["--learning-rate", "0.02,-1"], "learning_rate"), (["--samples", "1,2.5"], "whole"),
    (["--samples", "64,1000000000000"], "GiB"),
])
def test_slips_are_one_line(dmft_main, tmp_path, small, words, told):
    Path(tmp_path / "run.toml").write_text(small.to_toml())
    done = dmft_main("converge", "run.toml", *words)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1


def test_points_are_shared_out_evenly(small):
    points = study_points(small, {"samples": [100, 200, 300, 600], "learning_rate": (), "blocks_per_level": (), "mixing": ()})
    assert shared_out(points, 2) == [[3], [2, 1, 0]] and sorted(sum(shared_out(points, 3), [])) == [0, 1, 2, 3]


def test_warnings_name_their_point():
    point = Point("samples", 64.0, dmft.parse_run(SMALL))
    with pytest.warns(ResultWarning, match="^samples = 64: a bias$"), named_warnings(point):
        warnings.warn("a bias", ResultWarning, stacklevel=1)
