"""Theory against simulation: every curve that both have, at some times of the run, in the limit of large sizes.

Both sides have corrections that are no noise: of order 1/K with K samples in the theory, of order 1/N in simulations. Each is
computed at two sizes and extrapolated, which leaves orders 1/K^2 and 1/N^2. A case beyond its bound is computed again with other
seeds at four times the sizes (LARGE): what is left of the corrections is sixteen times smaller there and errors are half as
large, while a disagreement of theory and simulation stays. It fails if it is beyond the bound in both.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

import dmft
import sgd_sim
from dmft.result.comparison import squared_overlaps
from tests.differential.chance import Estimate, Finding, bound, extrapolated, gaps, largest, left_out, mean_of
from tests.differential.runs import run_text
from tests.differential.same import explodes
from tests.differential.table import Case

FACTOR = 4          # between the two sizes of a side
TIMES = 6           # of the run at which curves are compared, besides 0
STARTS = 4          # on each data set of a shared landscape, whose mean is then one instance


class Sizes(NamedTuple):
    """K and N of the smaller size; replicas and instances of both, instances of the smaller dimension first."""

    samples: int = 500
    replicas: int = 8
    dimension: int = 80
    instances: tuple[int, int] = (96, 64)

    @property
    def larger(self) -> Sizes:
        return self._replace(samples=4 * self.samples, dimension=4 * self.dimension, replicas=2 * self.replicas)


SMALL = Sizes()
LARGE = SMALL.larger
SIZES = (SMALL, LARGE)
# curve of a simulation: curve of the theory, where the names differ
SAME_AS = {"mse_fresh": "mse", "error_fresh": "error"}
PAIRS = ("C", "M_C", "R")       # at pairs of times


class Diverged(Exception):
    """Something exploded, and what is left is no sample of anything."""


def theory(case: Case, samples: int, replicas: int, seed: int, **changes: Any) -> dmft.Theory:
    run = dmft.parse_run(run_text(case, **{"theory__method": "march", "theory__samples": samples, "theory__replicas": replicas,
                                           "theory__seed": seed, **changes}))
    found = dmft.solve(run, quiet=True)
    if found.outcome != "done" or explodes(found):
        raise Diverged(f"theory: {found.outcome}, loss up to {np.nanmax(found.loss):.3g}")
    return found


def simulation(case: Case, dimension: int, instances: int, seed: int, **changes: Any) -> dict[str, np.ndarray]:
    """Curves by name, (independent instances, times): on a shared landscape means over some starts, from several data sets."""
    shared = case.choice.get("landscape") == "shared"
    per_set, sets = (STARTS, max(instances // 2, 2)) if shared else (instances, 1)
    runs = [dmft.parse_run(run_text(case, **{"simulation__dimension": dimension, "simulation__instances": per_set,
                                             "simulation__seed": seed + k, **changes})) for k in range(sets)]
    results = [sgd_sim.simulate(run, quiet=True) for run in runs]
    if any(result.diverged.any() for result in results):
        raise Diverged(f"simulation at N = {dimension}")
    names = [name for name in results[0].curves if name != "V"]
    found = {name: np.stack([getattr(result, "error_from_overlaps" if name == "error" else name) for result in results])
             for name in names}                                               # (sets, instances, times, ..)
    if results[0].columns is not None:
        found |= {f"{name}(t, t_w)": np.stack([getattr(result.columns, name) for result in results]) for name in PAIRS}
    if "V" in results[0].curves:
        m = np.sqrt((found["m"] ** 2).mean(axis=1)) if shared else found["m"][0]
        found["V"] = squared_overlaps(results[0].t, m, dimension, runs[0].problem.start_variance)[None]
    if shared:
        return {name: values[0] if name == "V" else values.mean(axis=1) for name, values in found.items()}
    return {name: values[0] for name, values in found.items()}


def estimates(case: Case, sizes: Sizes, **changes: Any) -> tuple[Any, Any, np.ndarray]:
    """Theory and simulation, each {curve: terms of its extrapolation}, and the steps at which both have all; changes: of the
    theory's run."""
    seeds = case.numbers("judge").whole(0, 10**6) + 1000 * SIZES.index(sizes)
    theories = [theory(case, K, sizes.replicas, seeds + k, **changes)
                for k, K in enumerate((sizes.samples, FACTOR * sizes.samples))]
    simulations = [simulation(case, N, count, seeds + 100 + 200 * k)
                   for k, (N, count) in enumerate(zip((sizes.dimension, FACTOR * sizes.dimension), sizes.instances))]
    rows, ours = np.arange(theories[0].t.size), {}
    for name in theories[0].curves:
        if not name.endswith("_error") or name == "training_error":
            pair = [Estimate(one.curves[name], one.curves[f"{name}_error"] ** 2, int(one.averaged.sum())) for one in theories]
            ours[name] = extrapolated(*pair, FACTOR)
    if theories[0].columns is not None:
        rows = np.searchsorted(theories[0].t, theories[0].columns.t)        # columns of many steps have fewer rows
        for name in PAIRS:
            pair = [Estimate(_at(rows, getattr(one.columns, name)), _at(rows, getattr(one.columns, f"{name}_error") ** 2),
                             int(one.averaged.sum())) for one in theories]
            ours[f"{name}(t, t_w)"] = extrapolated(*pair, FACTOR)
    theirs = {name: extrapolated(*(Estimate.of(one[name]) for one in simulations), FACTOR) for name in simulations[0]}
    return ours, theirs, rows


def _at(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values that are known at some steps, as an array over all of them."""
    found = np.full((rows[-1] + 1, *values.shape[1:]), np.nan)
    found[rows] = values
    return found


def compared(case: Case, sizes: Sizes, **changes: Any) -> dict[str, np.ndarray]:
    """|z| by curve, each at some times."""
    ours, theirs, rows = estimates(case, sizes, **changes)
    at = rows[np.unique(np.linspace(0, rows.size - 1, TIMES + 1).round().astype(int))]

    def some(terms):
        return [(weight, Estimate(each.mean[at], each.variance[at], each.count)) for weight, each in terms]

    found = {}
    for name in theirs:
        if (other := SAME_AS.get(name, name)) in ours:
            z = gaps(some(ours[other]), some(theirs[name]))
            # there is no pair of times before t_w, and no M_C at the end, where no mini-batch is drawn any more
            found[name] = z[np.isfinite(mean_of(some(theirs[name])))] if name.endswith("(t, t_w)") else z
    return found


def judge(case: Case, cases: int, **changes: Any) -> Finding:
    """The largest |z| of a case, one of so many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for sizes in SIZES:
                found = largest(compared(case, sizes, **changes), bound(cases))
                if not found.failed:
                    break
        except Diverged as reason:
            return left_out(f"diverged: {reason}")
    return found
