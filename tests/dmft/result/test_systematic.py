"""The rule by which systematic errors are told: rarely by chance, and surely where they are."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.averages import mean_and_error
from dmft.files.layouts import COLUMNS, CURVES, IDENTITIES
from dmft.result.systematic import BIAS_SIGMAS, SYSTEMATIC_CHANCE, shown, systematic_errors

T, ROWS, WAITS = np.linspace(0.0, 5.0, 65), np.linspace(0.0, 5.0, 21), np.array([0.0, 1.0, 2.0])


def drawn(rng: np.random.Generator, replicas: int, bias: dict[str, float]) -> dict[str, np.ndarray]:
    """Datasets of a result whose curves are random walks about 0 and whose halves wander off from them as far again; with a bias
    that grows with t, in units of that wandering at the end."""
    arrays = {"t": T, "columns/t": ROWS, "columns/t_w": WAITS, "replicas/m": np.zeros((replicas, T.size)),
              "state/bias/count": np.array([replicas, 1])}
    for name in (*CURVES, *(f"columns/{name}" for name in COLUMNS)):
        grid = T if "/" not in name else ROWS
        shape = (replicas, grid.size) if "/" not in name else (replicas, grid.size, WAITS.size)
        curve, gap = (np.cumsum(rng.standard_normal(shape), axis=1) for _ in range(2))
        drift = bias.get(name, 0.0) * np.sqrt(grid.size / replicas) * grid / grid[-1]
        gap = gap + drift.reshape(-1, *(1,) * (gap.ndim - 2))
        for place, values in ((name, curve), (f"bias/{name}", gap)):
            arrays[place], arrays[f"{place}_error"] = mean_and_error(values)
    return arrays


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("replicas", [4, 8])
def test_chance_alone_seldom_warns(replicas):
    """Of 200 results without any bias at most SYSTEMATIC_CHANCE have something certain, within three errors; something shows in
    most of them, which is why it is called chance: 1.5 errors, the bound when only m was looked at, would warn of them all."""
    rng, warned, told = np.random.default_rng(1), 0, 0
    for _ in range(200):
        found = systematic_errors(drawn(rng, replicas, {}))
        warned += any(one.certain for one in found)
        told += any(one.shows for one in found)
    assert warned <= 200 * SYSTEMATIC_CHANCE + 3 * np.sqrt(200 * SYSTEMATIC_CHANCE) and told > 150


@pytest.mark.parametrize("name", ["q", "mu", "columns/R"])
def test_a_real_bias_is_found_in_any_dataset(name):
    """Ten times the error of its estimate at the end, 16 replicas: it is the first that is told, without "chance". A residual with
    the same bias is not."""
    found = systematic_errors(arrays := drawn(np.random.default_rng(2), 16, {name: 10.0, IDENTITIES[0]: 10.0}))
    assert [one.name for one in found if one.certain] == [name] and found[0].name == name and found[0].shows
    assert shown(arrays)[0].startswith(f"finite-sample bias of {name}: +") and found[0].value > BIAS_SIGMAS * found[0].error
    assert "chance" not in shown(arrays)[0] and IDENTITIES[0] not in {one.name for one in found}


def test_what_nobody_knows_is_not_called_small():
    """Companions that diverged leave NaN where the result has numbers; one replica has no errors."""
    arrays = drawn(np.random.default_rng(3), 4, {})
    arrays["bias/q"] = np.where(T > 3, np.nan, arrays["bias/q"])
    arrays["bias/mu_error"] = np.full_like(T, np.nan)
    found = {one.name: one for one in systematic_errors(arrays)}
    assert np.isnan(found["q"].ratio) and found["q"].unknown and np.isnan(found["mu"].ratio) and not found["mu"].unknown
    assert not found["q"].shows and not found["mu"].certain and np.isfinite(found["loss"].ratio)
