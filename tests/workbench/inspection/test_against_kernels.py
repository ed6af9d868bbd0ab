"""Two-time kernels of theory and simulation against each other: the bound, the verdict, the table, the picture, the report."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import FileError
from dmft.result.comparison import DISAGREE, equivalent_tests, instances_curve
from dmft.result.theory import Kernels
from sgd_sim.result import SimulatedKernels
from tests.png import png_shape
from tests.run_files import run_text
from workbench.inspection.against_kernels import kernels_against
from workbench.inspection.opening import open_file
from workbench.reporting import report_page

T = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6])
INSTANCES, ERROR = 30, 0.01


def smooth_noise(rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, 6, 6) deviations of a symmetric kernel, of order one, that are much alike at neighbouring times."""
    modes = np.array([np.outer(a, a) for a in (np.ones(6), np.exp(-T), np.exp(-5 * T))])
    return np.tensordot(rng.standard_normal((count, 3)), modes, 1) + 0.1 * (lambda x: x + np.swapaxes(x, 1, 2))(
        rng.standard_normal((count, 6, 6)))


# Standard deviations (6, 6) of a kernel with this noise.
SPREAD = ERROR * np.sqrt(np.var(smooth_noise(np.random.default_rng(0), 4000), axis=0))


def sides(seed: int, shift: np.ndarray | float = 0.0, dimensions: int = 1) -> tuple[Kernels, list[SimulatedKernels]]:
    """A theory with errors, and simulations with the same true kernel, except that the theory is off by `shift` in C."""
    rng, true = np.random.default_rng(seed), 1.0 / (1.0 + np.abs(T[:, None] - T))
    C = true + shift + ERROR * smooth_noise(rng, 1)[0]
    theory = Kernels(T, *([C] * 4), *([SPREAD] * 4))
    found = []
    for k in range(dimensions):
        finite = 0.3 / (k + 1) if dimensions > 1 else 0.0     # what N = k + 1 adds
        values = true + finite + ERROR * np.sqrt(INSTANCES) * smooth_noise(rng, INSTANCES)
        found.append(SimulatedKernels(T, T, values, values, values))
    return theory, found


def test_tests_that_are_copies_count_once_and_others_each():
    rng = np.random.default_rng(1)
    one = rng.standard_normal((40, 1))
    for values, low, high in ((one + 1e-3 * rng.standard_normal((40, 30)), 1.0, 1.4), (rng.standard_normal((40, 30)), 22.0, 30.0)):
        assert low <= equivalent_tests([values], [instances_curve(np.arange(30), values)], [100]) <= high


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("dimensions, tables, most", [(1, 100, 5), (2, 60, 4)])
def test_chance_alone_rarely_disagrees(dimensions, tables, most):
    """1 % of tables by construction; 100 have more than five, and 60 more than four, with a probability below 0.1 %."""
    verdicts = []
    for seed in range(tables):
        theory, simulations = sides(seed, dimensions=dimensions)
        (found, *_) = kernels_against(theory, 8, simulations, range(1, dimensions + 1), 1e-6)
        verdicts.append(found.pairs.verdict)
        assert 2.0 < found.pairs.tests < 21 and found.pairs.bound < 4.5
    assert verdicts.count(DISAGREE) <= most


def test_a_wrong_kernel_is_found():
    """Twin: a theory that is off by six errors at two pairs of times."""
    shift = np.zeros((6, 6))
    shift[4, 1] = shift[1, 4] = shift[4, 2] = 8 * np.sqrt(2) * ERROR
    theory, simulations = sides(3, shift)
    found = {one.pairs.observable: one for one in kernels_against(theory, 8, simulations, [1], 1e-6)}
    assert found["C"].pairs.verdict == DISAGREE and found["C"].pairs.z.size == 21 and found["R"].pairs.z.size == 15
    worst = np.nanargmax(np.abs(found["C"].pairs.z))
    assert (found["C"].row[worst], found["C"].column[worst]) in ((4, 1), (4, 2))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Theory and two simulations of a small run."""
    folder = tmp_path_factory.mktemp("kernels")
    run = dmft.parse_run(run_text("gd", t_max=0.4, problem={"alpha": 2.0}, theory={
        "samples": 512, "replicas": 4, "kernel_points": [0.0, 0.1, 0.2, 0.4], "waiting_times": [0.0, 0.1]},
        simulation={"dimension": 60, "instances": 12, "kernels": True}))
    dmft.solve(run, output=folder / "theory.h5")
    for n in (60, 120):
        sgd_sim.simulate(run.replace(dimension=n), output=folder / f"n{n}.h5")
    sgd_sim.simulate(run.replace(kernels=False), output=folder / "plain.h5")
    return folder


@pytest.mark.long
@pytest.mark.cli
def test_the_command(files, dmft_main, tmp_path):
    done = dmft_main("compare", *(str(files / name) for name in ("theory.h5", "n60.h5", "n120.h5")),
                      "--kernels", "--plot", str(tmp_path / "a.png"))
    assert done.returncode == 0, done.stderr
    assert "C(t, t'): z" in done.stdout and re.search("R: (agree|cannot tell); 6 pairs", done.stdout)
    assert re.search("M_C: (agree|cannot tell); 6 pairs", done.stdout) and "disagree" not in done.stdout
    assert min(png_shape(tmp_path / "a.png")[:2]) > 1000


def test_in_python_and_in_the_report(files):
    theory, sims = dmft.load(files / "theory.h5"), [sgd_sim.load(files / f"n{n}.h5") for n in (60, 120)]
    found = dmft.compare(theory, *sims, kernels=True)
    assert [kernel.pairs.observable for kernel in found.kernels] == ["C", "M_C", "R"] and found.verdict != DISAGREE
    again = dmft.compare(files / "theory.h5", files / "n60.h5", files / "n120.h5", kernels=True)
    np.testing.assert_array_equal(again.kernels[0].pairs.z, found.kernels[0].pairs.z)
    page = report_page([open_file(files / name) for name in ("theory.h5", "n60.h5", "n120.h5")])
    assert "z of M_C(t, t&#x27;)" in page or "z of M_C(t, t')" in page
    with pytest.raises(FileError, match="simulate with .simulation. kernels = true"):
        dmft.compare(theory, files / "plain.h5", kernels=True)
