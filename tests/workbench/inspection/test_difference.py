"""The verdict of dmft diff: chance alone exceeds its bounds as rarely as promised, and what differs is told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import dmft
from dmft.core.averages import mean_and_error
from dmft.result.comparison import CHANCE, Curve, chance_bounds, compare
from tests.run_files import run_text
from workbench.inspection.curves import opened_curves
from workbench.inspection.difference import Difference, curve_difference, kernel_difference, kernels_of
from workbench.inspection.opening import open_file

pytestmark = pytest.mark.statistical

TIMES, PAIRS = 32, 400
MOST = int(binom.isf(1e-4, PAIRS, CHANCE))          # false alarms that a rate of CHANCE explains


def _side(rng: np.random.Generator, count: int, modes: np.ndarray) -> Curve:
    """A dataset (n,) or (P, P) of `count` replicas: normal amplitudes times modes (k, ...)."""
    values = np.tensordot(rng.standard_normal((count, len(modes))), modes, axes=1)
    return Curve(np.arange(modes.shape[1]) / 10, *mean_and_error(values), count)


def _modes(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """From entries that move as one to entries that know nothing of each other."""
    if kind == "one":
        return np.ones((1, *shape))
    if kind == "independent":
        return np.eye(np.prod(shape)).reshape(-1, *shape)
    waves = np.cos(np.arange(6)[:, None] * np.linspace(0.0, np.pi, shape[0])) / (1.0 + np.arange(6)[:, None])
    return waves if len(shape) == 1 else np.einsum("ai,bj->abij", waves, waves).reshape(-1, *shape)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["one", "smooth", "independent"])
@pytest.mark.parametrize("shape", [(TIMES,), (TIMES, TIMES)], ids=["curve", "kernel"])
def test_chance_exceeds_the_bounds_of_one_dataset_in_a_hundred(kind, shape):
    """Pairs of the same law with 4 replicas each. Twin: the bounds of a single test, which forget the count, cry wolf."""
    rng, modes = np.random.default_rng([len(shape), len(kind)]), _modes(kind, shape)
    judge = curve_difference if len(shape) == 1 else kernel_difference
    found = [judge("C", _side(rng, 4, modes), _side(rng, 4, modes), 1e-6) for _ in range(PAIRS)]
    assert sum(one.ratio > 1.0 for one in found) <= MOST
    if kind != "one":
        assert sum(one.single.z > chance_bounds(1, np.array(6.0)) for one in found) > MOST


@pytest.mark.long
def test_the_bounds_are_not_idle():
    """At one entry its stretch is the entry itself, and its bound that of half of CHANCE, of which Welch's degrees of freedom leave
    more than a half for 4 replicas on each side."""
    rng, pairs, modes = np.random.default_rng(3), 2500, np.ones((1, 1))
    alarms = sum(curve_difference("m", _side(rng, 4, modes), _side(rng, 4, modes), 1e-6).ratio > 1.0 for _ in range(pairs))
    assert binom.ppf(1e-4, pairs, CHANCE / 4) <= alarms <= binom.isf(1e-4, pairs, CHANCE / 2)


@pytest.mark.long
def test_few_replicas_against_many():
    """4 replicas against 32 of the same law. Twin: Welch's degrees of freedom are too many where the error of the 4 is small by
    chance, and alarms with them three times as many as promised; those of the smaller side hold."""
    rng, pairs, modes = np.random.default_rng(4), 2000, np.ones((1, 1))
    alarms = welch = 0
    for _ in range(pairs):
        a, b = _side(rng, 4, modes), _side(rng, 32, modes)
        alarms += curve_difference("m", a, b, 1e-6).ratio > 1.0
        z = compare("m", a, [b], [1], 1e-6)
        welch += z.worst > chance_bounds(1, z.degrees_of_freedom, CHANCE / 2)[0]
    most = binom.isf(1e-4, pairs, CHANCE / 2)
    assert alarms <= most < welch


def _verdict(*found, same_numbers: bool = False) -> str:
    return Difference([], [], [], [], list(found), same_numbers).verdict


def test_twelve_errors_in_the_first_column_of_a_kernel():
    """Few replicas: no single entry is beyond chance, the column is. Twin: the same pair without the shift."""
    rng, modes = np.random.default_rng(5), _modes("smooth", (TIMES, TIMES))
    a, b = _side(rng, 4, modes), _side(rng, 4, modes)
    shifted = b.mean.copy()
    shifted[:, 0] = a.mean[:, 0] + 12.0 * np.hypot(a.error, b.error)[:, 0]
    found = kernel_difference("C", a, replace(b, mean=shifted), 1e-6)
    assert found.stretch.at == "t' = 0" and found.stretch.z == pytest.approx(12.0)
    assert found.single.ratio < 1.0 < found.stretch.ratio
    assert _verdict(found) == "differ beyond their errors: C"
    assert _verdict(kernel_difference("C", a, b, 1e-6)) == "agree within their errors"


def test_one_entry_far_out():
    """A single wrong number among a thousand, which drowns in its stretch."""
    rng, modes = np.random.default_rng(6), _modes("independent", (TIMES, TIMES))
    a, b = _side(rng, 4, modes), _side(rng, 4, modes)
    wrong = b.mean.copy()
    wrong[30, 20] = a.mean[30, 20] + 40.0 * np.hypot(a.error, b.error)[30, 20]
    found = kernel_difference("C", a, replace(b, mean=wrong), 1e-6)
    assert found.stretch.ratio < 1.0 < found.single.ratio and found.single.at == "t = 3, t' = 2"
    assert kernel_difference("C", a, b, 1e-6).ratio < 1.0


def test_what_cannot_be_judged():
    """Equal numbers; one replica on a side; exact curves without any error; the same random numbers."""
    rng = np.random.default_rng(7)
    a, b = (_side(rng, 4, _modes("smooth", (TIMES,))) for _ in range(2))
    assert _verdict(curve_difference("m", a, a, 1e-6)) == "the same numbers"
    single, exact = np.full(TIMES, np.nan), np.zeros(TIMES)
    for one, two in ((a, Curve(b.t, b.mean, single, 1)), (Curve(a.t, a.mean, single, 1), b),
                     (Curve(a.t, a.mean, exact, 1), Curve(b.t, b.mean, exact, 1))):
        found = curve_difference("m", one, two, 1e-6)
        gap = np.abs(b.mean - a.mean)
        assert np.isnan(found.ratio) and found.relative == gap.max() / np.abs(a.mean).max()
        assert _verdict(found).endswith(f"the largest relative difference is {found.relative:.2g} "
                                        f"(m at t = {a.t[gap.argmax()]:g})")
    found = curve_difference("m", a, b, 1e-6)
    assert _verdict(found) == "agree within their errors" and "only another seed" in _verdict(found, same_numbers=True)
    far = curve_difference("m", a, replace(b, mean=b.mean + 100.0), 1e-6)
    assert _verdict(far, same_numbers=True) == _verdict(far) == "differ beyond their errors: m"


@pytest.mark.long
@pytest.mark.cli
def test_two_seeds_agree_and_a_smeared_kernel_does_not(tmp_path, dmft_main):
    """Real marches. The smeared one has the mean of C(t, t') over the first four t' in their place, as a compressed history gives
    it. Twin: the rule that looks at curves alone lets this pair pass, too."""
    text = run_text("gd", t_max=1.0, problem={"alpha": 2.5, "m0": 0.3}, theory={"samples": 1024, "replicas": 4, "history": "full"})
    paths = [tmp_path / "one.h5", tmp_path / "two.h5"]
    for seed, path in enumerate(paths, 1):
        dmft.solve(dmft.parse_run(text).replace({"theory.seed": seed}), output=path, quiet=True)
    assert dmft_main("diff", *map(str, paths)).stdout.splitlines()[-1] == "agree within their errors"
    one, two = map(open_file, paths)
    for name, curve in opened_curves(one).items():
        old = compare(name, curve, [opened_curves(two)[name]], [1], 1e-6)
        assert not old.worst > old.bound
    C = kernels_of(two.result)["C"]
    smeared = C.mean.copy()
    smeared[20:, :4] = C.mean[20:, :4].mean(axis=1, keepdims=True)
    found = kernel_difference("C", kernels_of(one.result)["C"], replace(C, mean=smeared), 1e-6)
    assert _verdict(found) == "differ beyond their errors: C" and found.stretch.at == "t' = 0"
