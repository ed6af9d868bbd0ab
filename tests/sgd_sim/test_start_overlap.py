"""Warm starts whose overlap is exact, or scatters as in eqs. 11 and 12 of the paper: [start-law]."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.errors import RunError, UserError
from dmft.model.constraints import Sphere
from dmft.model.data import make_start
from dmft.model.runfile import parse_run
from dmft.model.starts import on_sphere
from tests.run_files import run_text

M0, SIZE, DRAWS = 0.5, 40, 20_000
RUN = run_text("gd", t_max=0.3, problem={"m0": 0.2, "start_overlap": "iid"}, theory={"samples": 2048, "replicas": 4},
               simulation={"dimension": 150, "instances": 400, "record": [0.0, 0.3]})


def overlaps(how: str) -> np.ndarray:
    problem, rng = parse_run(run_text(problem={"m0": M0, "start_overlap": how})).problem, np.random.default_rng(3)
    w0 = on_sphere(rng.standard_normal(SIZE))
    starts = np.array([make_start(problem).weights(Sphere(), w0, rng.standard_normal(SIZE)) for _ in range(DRAWS)])
    np.testing.assert_allclose((starts**2).sum(axis=1), SIZE, rtol=1e-12)
    return starts @ w0 / SIZE


@pytest.mark.statistical
def test_the_overlap_of_the_papers_start_scatters():
    """Mean m0 (1 - 1/N), variance (1 - m0^2)/N up to a relative 1/N. The twins: a mean of m0, and the variance 1/N of a z that the
    projection would not shorten, are far outside; an exact start does not scatter at all."""
    m = overlaps("iid")
    error, variance = m.std() / np.sqrt(DRAWS), m.var(ddof=1)
    assert abs(m.mean() - M0 * (1 - 1 / SIZE)) < 4 * error < abs(m.mean() - M0)
    spread_error = variance * np.sqrt(2 / DRAWS)
    assert abs(variance - (1 - M0**2) / SIZE) < 4 * spread_error + variance / SIZE < abs(variance - 1 / SIZE)
    assert np.abs(overlaps("exact") - M0).max() < 1e-12


@pytest.mark.long
@pytest.mark.statistical
def test_what_the_scatter_becomes():
    """The regression of m(t) on m(0) over runs has the slope dm/dm0 of the theory; the twin, a scatter that stays as it is,
    fails."""
    run = parse_run(RUN)
    m = sgd_sim.simulate(run, quiet=True).m
    centred = m - m.mean(axis=0)
    square = (centred[:, 0]**2).sum()
    slope = centred[:, 0] @ centred[:, 1] / square
    error = np.sqrt(((centred[:, 1] - slope * centred[:, 0])**2).sum() / (len(m) - 2) / square)
    law = dmft.start_law(run)
    total = np.hypot(error, law.slope_error[-1])
    assert abs(slope - law.slope[-1]) < 4 * total < abs(slope - 1.0)
    assert law.slope[0] == pytest.approx(1.0, abs=1e-9) and law.m[0] == pytest.approx(0.2)
    assert law.spread(150)[0] == pytest.approx(np.sqrt(0.96 / 150)) and law.shift(150)[0] == pytest.approx(-0.2 / 150, abs=1e-9)
    assert centred[:, 0].std(ddof=1) == pytest.approx(law.spread(150)[0], rel=4 / np.sqrt(800))


def test_where_it_is_refused():
    with pytest.raises(RunError, match="start_overlap' is not used with constraint"):
        parse_run(run_text(problem={"constraint": "ridge", "ridge": 0.1, "start_overlap": "iid"}))
    with pytest.raises(RunError, match="start_overlap' is not used with start"):
        parse_run(run_text(problem={"start": "random", "start_overlap": "iid"}).replace("m0 = 0.5\n", ""))
    with pytest.raises(RunError, match="exact, iid"):
        parse_run(run_text(problem={"start_overlap": "paper"}))
    with pytest.raises(UserError, match="sphere alone"):
        dmft.start_law(parse_run(run_text(problem={"constraint": "ridge", "ridge": 0.1})))
    with pytest.raises(UserError, match="between -1 and 1"):
        dmft.start_law(parse_run(RUN), step=0.9)


def test_the_command(dmft_main, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(RUN)
    done = dmft_main("spread", str(file), "--dimension", "100,400", "--quiet", "--set", "theory.samples=128",
                     "--set", "algorithm.t_max=0.04")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 4 and "N = 100: spread" in lines[0]
    assert "0.0980" in lines[1] and "0.0490" in lines[1]    # sqrt(0.96/N)
