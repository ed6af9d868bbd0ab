"""Files of every released schema stay loadable: tests/data/schema-N/KIND.h5."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core import store
from dmft.model.runfile import parse_run
from workbench.inspection.kinds import KINDS

DATA = Path(__file__).resolve().parents[1] / "data"
EXAMPLES = sorted(DATA.glob("schema-*/*.h5"))
CURVES = ("m", "loss", "mse", "nu_hat", "nu_hat_direct", "delta_nu", "mu", "q")


def test_every_schema_so_far_has_examples():
    found = {(path.parent.name, path.stem) for path in EXAMPLES}
    for schema in range(1, store.SCHEMA_VERSION + 1):
        assert {(f"schema-{schema}", kind) for kind in KINDS} <= found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_is_whole_small_and_says_what_it_is(path):
    stored = store.load(path)
    assert stored.kind == path.stem and f"schema-{stored.schema_version}" == path.parent.name
    assert path.stat().st_size < 100_000
    assert stored.attrs["outcome"] and stored.attrs["package_version"]


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem == "theory"], ids=lambda path: path.parent.name)
def test_a_theory_file(path):
    arrays = store.load(path).arrays
    n = arrays["t"].size
    for name in CURVES:
        assert arrays[name].shape == arrays[f"{name}_error"].shape == (n,)
    for name in ("M_C", "M_R", "C", "R"):
        assert arrays[f"kernels/{name}"].shape == arrays[f"kernels/{name}_error"].shape == 2 * arrays["kernels/t"].shape
    assert not np.triu(arrays["kernels/M_R"]).any()
    theory = dmft.load(path)
    np.testing.assert_array_equal(theory.m, arrays["m"])
    np.testing.assert_array_equal(theory.kernels.M_C, arrays["kernels/M_C"])


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem == "simulation"], ids=lambda path: path.parent.name)
def test_a_simulation_file(path):
    stored = store.load(path)
    run = parse_run(stored.run_text)
    shape = run.simulation.instances, stored.arrays["t"].size
    for name in ("m", "loss", "q", "mse"):
        assert stored.arrays[name].shape == shape
    assert stored.arrays["diverged"].shape == shape[:1]
    simulation = sgd_sim.load(path)
    np.testing.assert_array_equal(simulation.m, stored.arrays["m"])


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem == "onepass"], ids=lambda path: path.parent.name)
def test_a_onepass_file(path):
    """t and one dataset per statistic, time first."""
    arrays = store.load(path).arrays
    assert set(arrays) > {"t"} and all(array.shape[0] == arrays["t"].size for array in arrays.values())


@pytest.mark.parametrize("folder", sorted(DATA.glob("schema-*")), ids=lambda path: path.name)
def test_old_files_can_be_compared(dmft_main, folder):
    done = dmft_main("compare", str(folder / "theory.h5"), str(folder / "simulation.h5"))
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("max |z| = ")


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem == "convergence"], ids=lambda path: path.parent.name)
def test_a_convergence_study(path):
    study = dmft.load(path)
    assert list(study.axes) == ["samples", "learning_rate"] and "order" in repr(study)
    assert study["learning_rate"].limit["M_C"].shape == 2 * study["learning_rate"].kernel_t.shape
