"""Run files of closed models: what they mean, and what is refused in one line."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.core.errors import RunError
from dmft.model.data import data_of, data_text
from dmft.model.experiment import theory_experiment
from dmft.model.references import references_of
from dmft.model.runfile import load_run, parse_run

TEXT = """
[problem]
data = "p_spin"
powers = [[3, 1.0]]
m0 = 0.0
[algorithm]
kind = "gd"
learning_rate = 0.1
t_max = 2.0
"""


def test_a_spiked_matrix_tensor():
    """Delta_2 and Delta_p stand for the same f and phi as powers and signal."""
    run = parse_run(TEXT.replace("powers = [[3, 1.0]]", "Delta_2 = 0.5\nDelta_p = 4.0").replace("m0 = 0.0", "m0 = 0.1"))
    model = data_of(run.problem)
    assert model.covariance == model.phi == ((2, 1.0), (3, pytest.approx(1 / 12)))
    assert np.allclose(model.derivatives(), [[0, 2.0, 0.25, 0], [2.0, 0.5, 0, 0]])
    assert data_text(run.problem) == "spiked matrix-tensor, Delta_2 = 0.5, Delta_3 = 4"
    assert parse_run(run.to_toml()) == run and "alpha" not in run.to_toml() and "loss" not in run.to_toml()
    assert {key for key, _ in references_of(run)} == {"crisanti1993spherical", "cugliandolo1993analytical", "sarao2019passed"}
    assert dmft.Experiment(data=dmft.PSpin(Delta_2=0.5, Delta_p=4.0), m0=0.1, kind="gd", learning_rate=0.1, t_max=2.0) == run


@pytest.mark.parametrize(("change", "words"), [
    ("problem.alpha=3.0", ["'alpha' is not used", "no samples"]),
    ("problem.loss=linear", ["'loss' is not used"]),
    ("problem.labels=sign", ["'labels' is not used"]),
    ("problem.powers=[]", ["there is no energy", "powers"]),
    ("problem.powers=[[3, -1.0]]", ["powers", "coefficients > 0"]),
    ("problem.powers=[[2.5, 1.0]]", ["whole powers"]),
    ("problem.powers=[[3, 1.0], [3, 1.0]]", ["each once"]),
    ("problem.Delta_2=0.5", ["give one of the two"]),
    ("problem.start=random", ["must be warm"]),
    ("problem.signal=[[2, 0.5]]", ["m0 = 0 is for ever", "1e-30"]),
    ("problem.order=4", ["order = 4", "Delta_p"]),
    ("theory.target_error=0.01", ["target_error", "dmft converge"]),
    ("theory.observables=[\"m\"]", ["observables"]),
])
def test_what_makes_no_sense_is_refused(tmp_path, change, words):
    """One line that names the key."""
    path = tmp_path / "run.toml"
    path.write_text(TEXT)
    with pytest.raises(RunError) as error:
        load_run(path, [change])
    assert "\n" not in str(error.value) and all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(("changes", "word"), [
    ({"kind": "sgd", "batch_fraction": 0.5}, "mini-batches"), ({"constraint": "ridge", "ridge": 0.5}, "sphere"),
])
def test_mini_batches_and_a_ridge(changes, word):
    with pytest.raises(RunError, match=word) as error:
        parse_run(TEXT).replace(**changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["method", "device"])
def test_what_the_theory_does_not_do(key):
    run = parse_run(TEXT).replace({f"theory.{key}": {"method": "iterate", "device": "gpu"}[key]})
    with pytest.raises(RunError, match=key):
        theory_experiment(run)


def test_samples_are_still_needed_elsewhere():
    with pytest.raises(RunError, match="missing key 'alpha'"):
        parse_run(TEXT.replace('data = "p_spin"\npowers = [[3, 1.0]]', ""))


def test_a_quench_opens_a_phase_of_the_history():
    """A jump of the temperature is a jump of the kernels here, and none where they are sampled."""
    heat = {"kind": "langevin", "temperature": [[0.0, 1.0], [1.0, 0.1]]}
    closed = theory_experiment(parse_run(TEXT).replace(**heat))
    assert closed.jump_n.nonzero()[0].tolist() == [10]
    sampled = dmft.Experiment(alpha=3.0, m0=0.5, learning_rate=0.1, t_max=2.0, **heat)
    assert not theory_experiment(sampled).jump_n.any()
