"""The tool that holds a rebuild to its numbers: it sees a changed bit, and says where."""

from __future__ import annotations

import numpy as np
import pytest

import onepass
from dmft.model import registry
from onepass.model import Model
from tests import same_numbers
from tests.number_cases import ALGORITHMS, DATA, MODELS, NETWORKS, RUNS, STARTS
from tests.same_numbers import compare, difference, kept, main

ONE = ["--only", "onepass chain/SpikedTensor matrix"]


@pytest.mark.cli
def test_a_changed_bit_is_found(tmp_path, capsys):
    file, other = tmp_path / "a.npz", tmp_path / "b.npz"
    assert main(["keep", str(file), *ONE]) == 0 and main(["compare", str(file), *ONE]) == 0
    assert "onepass chain/SpikedTensor matrix: same bits\n0 of 1 cases differ" in capsys.readouterr().out
    (name, arrays), = kept(file).items()
    arrays["m"][1, 0] = np.nextafter(arrays["m"][1, 0], 2.0)
    same_numbers.keep(other, {name: arrays})
    assert main(["compare", str(other), *ONE]) == 1
    assert "in m[1, 0]\n1 of 1 cases differ" in capsys.readouterr().out
    assert main(["compare", str(other), *ONE, "--tolerance", "1e-15"]) == 0


def test_differences_that_no_tolerance_forgives():
    old = np.array([1.0, np.nan, -4.0])
    assert difference(old, old.copy()) == (0.0, "") and difference(old, old + [0.0, 0.0, 1.0]) == (0.25, "[2]")
    for new in (old[:2], old.astype(np.float32), np.array([1.0, 0.0, -4.0])):
        assert difference(old, new)[0] == np.inf
    assert difference(np.array([1, 2]), np.array([1, 3])) == (np.inf, "[1]")
    assert compare({"m": old}, {})[0] == np.inf and compare({"m": old}, {"m": old, "q": old}) == (0.0, "same bits (new: q)")


def test_every_piece_of_physics_is_among_the_cases():
    assert len(RUNS) == len(ALGORITHMS) + len(DATA) + len(STARTS)       # no name hides another
    for key in ("minibatch", "loss", "labels", "constraint", "start", "kind"):
        used = {run.get(key) for run in RUNS.values()} | {"bernoulli", "phase_retrieval", "abs", "field", "sphere", "warm", "gd"}
        assert used >= {name for name in registry.names(key) if registry.find(key, name).built_in}, key
    assert {run.get("constraint", "units") for run in NETWORKS.values()} == set(registry.names("network.constraint"))
    models = {value for value in vars(onepass).values() if isinstance(value, type) and issubclass(value, Model)}
    assert {type(model) for model, _ in MODELS.values()} == models - {onepass.EffectiveDynamics, onepass.Rescaled}
