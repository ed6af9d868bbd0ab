"""What must give the same numbers: full and dyadic histories, march and iteration, CPU and CUDA source, a stop and none, ranks.
Runs are tiny here, since random numbers are equal; a difference is told in units of what it may be.

Bounds that are not 0 are rounding: the past is kept in single precision where the history is dyadic, and M_C is nearly singular
without mini-batches or heat, which amplifies it.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import dmft
import sgd_sim
from dmft.core import store
from dmft.core.errors import RunError, Stopped
from dmft.running.replica import Setup
from sgd_sim.landscape import TEST_ROWS
from tests.cards import given_out
from tests.differential.chance import Finding, left_out
from tests.differential.other_runs import CLOSED
from tests.differential.plugins import WRONG_SIDE
from tests.differential.runs import run_text
from tests.differential.table import Case
from tests.emulate import COMPILER, HostGpu
from tests.small_results import StopAfter

Arrays = Mapping[str, np.ndarray]
SMALL = {"theory__samples": 48, "theory__replicas": 2, "simulation__dimension": 40, "simulation__instances": 3}
FULL = {"theory__method": "march", "theory__history": "full"}
MARCH = {"theory__method": "march"}
ROUNDING = {"full": 1e-6, "dyadic": 2e-4}       # of sums in another order, relative to the largest number of a curve
DOUBLE = 1e-9
MANY = 512                                      # samples, where it is not rounding that differs
EXPLODED = 10.0                                 # times the loss at the start
TAILS = 3.0                                     # the same, where samples overshoot
SINGLE = 1e-3                                   # of simulations on a card: sums in single precision, amplified by large steps
FLIPS = 2                                       # of labels whose field is zero up to rounding, in a run
DELICATE = ("gap", "nu_hat", "mu", "delta_nu")  # differences of numbers of order one, divided by eta
# Curves that say how well the estimator does, or that depend on single samples crossing a line.
NOT_COMPARED = ("unstable", "lost", "training_error", WRONG_SIDE)


def parsed(case: Case, **changes: Any) -> dmft.Run:
    return dmft.parse_run(run_text(case, **{**SMALL, **changes}))


def curves(theory: dmft.Theory) -> Arrays:
    return {name: array for name, array in theory.curves.items()
            if not name.startswith(NOT_COMPARED) and f"{name}_error" in theory.curves}


def recorded(simulation: sgd_sim.SimulationResult) -> Arrays:
    return {name: simulation.curve(name) for name in simulation.curves}


def apart(ours: Arrays, theirs: Arrays, allowed: float) -> Finding:
    """The largest difference of arrays of the same names, in units of `allowed` times the largest number of an array (0: bits)."""
    if ours.keys() != theirs.keys():
        return Finding(np.inf, 1.0, f"only one has {sorted(set(ours) ^ set(theirs))}", 0)
    size, where = 0.0, ""
    for name, array in ours.items():
        if array.shape != theirs[name].shape:
            return Finding(np.inf, 1.0, f"shapes of {name}", 0)
        if array.tobytes() == theirs[name].tobytes():
            continue
        both = np.isfinite(array) & np.isfinite(theirs[name])
        same = array.dtype.kind == "f" and np.array_equal(np.isfinite(array), np.isfinite(theirs[name]))
        unit = allowed * (100.0 if any(word in name for word in DELICATE) else 1.0) * max(np.abs(array[both]).max(initial=0.0), 0.1)
        gap = np.abs(np.where(both, array, 0.0) - np.where(both, theirs[name], 0.0)).max() / max(unit, 1e-300) if same else np.inf
        if gap >= size:
            size, where = float(gap), name
    return Finding(size, 1.0, where, sum(array.size for array in ours.values()))


def worst(*findings: Finding) -> Finding:
    found = max(findings, key=lambda finding: finding.size)
    return Finding(found.size, found.limit, found.where, sum(finding.numbers for finding in findings))


def explodes(theory: dmft.Theory) -> bool:
    """Samples overshoot, and whatever differs in the last digit grows without bound; or a replica is lost on the way. Where few
    samples overshoot, those with the largest labels, the loss is made by them, and a finite dimension often has none."""
    if not theory.sampled:
        return False
    grown = np.max(theory.loss) / theory.loss[0]       # no number where it diverged
    overshot = "unstable" in theory.curves and np.nanmax(theory.curves["unstable"]) > 0.0
    return bool(not grown <= EXPLODED or overshot and grown > TAILS or not theory.averaged.all())


def histories(case: Case) -> Finding:
    """A dyadic history in which nothing is merged yet is the full one, digit for digit where it is kept in double precision; with
    many blocks it comes closer than with two (the error is of second order in the share of the past that a block covers), unless
    both are within one per cent. That takes some samples: with a few of them one alone moves everything. What is beyond is computed
    again with four times as many, by which chance is halved, and a wrong history is not."""
    def solved(**changes: Any) -> dmft.Theory:
        return dmft.solve(parsed(case, **{**MARCH, **changes}), quiet=True)

    with patch.object(Setup, "stored_type", np.float64):
        whole = apart(curves(solved(**FULL)), curves(solved(theory__history="dyadic", theory__blocks_per_level=1000)), DOUBLE)
    for samples in (MANY, 4 * MANY):
        full = solved(**FULL, theory__samples=samples)
        if explodes(full):
            return whole
        coarse, fine = (apart(curves(full), curves(solved(theory__history="dyadic", theory__blocks_per_level=blocks,
                                                          theory__samples=samples)), ROUNDING["dyadic"]) for blocks in (2, 8))
        found = worst(whole, Finding(fine.size / max(coarse.size, 50.0), 1.0, f"{fine.where}, 8 blocks against 2", fine.numbers))
        if whole.failed or not found.failed:
            break
    return found


def iteration(case: Case) -> Finding:
    """Undamped, with frozen random numbers, it ends at the march."""
    if case.choice["start"] == "random":
        return left_out("no iteration from a random start")
    without = {"theory__snapshots": None, "theory__hessian": None, "theory__clones": None}      # a march alone has them
    sweeps = {"theory__method": "iterate", "theory__mixing": 1.0, "theory__tolerance": 1e-13, "theory__max_sweeps": 400}
    iterated = dmft.solve(parsed(case, **sweeps, **without), quiet=True)
    if iterated.outcome in ("sweep limit", "diverged"):
        return left_out(f"the iteration ended with {iterated.outcome!r}")
    return apart(curves(dmft.solve(parsed(case, **FULL, **without), quiet=True)), curves(iterated), ROUNDING["full"])


def up_to_flips(ours: Arrays, theirs: Arrays, training: int) -> Arrays:
    """Theirs, where shares of wrong labels differ from ours by one sample at no more than FLIPS times: its field is zero up to
    rounding then. training: number of samples of the training set."""
    found = dict(theirs)
    for name, count in (("error_fresh", TEST_ROWS), ("training_error", training)):
        if name in ours and name in theirs and ours[name].shape == theirs[name].shape:
            flips = ours[name] != theirs[name]
            if flips.sum() <= FLIPS and np.allclose(np.abs(ours[name] - theirs[name])[flips] * count, 1.0):
                found[name] = ours[name]
    return found


def card(case: Case) -> Finding:
    """CUDA sources compiled for the host."""
    if COMPILER is None:
        return left_out("no C++ compiler")
    history = "full" if case.choice["method"] == "full" else "dyadic"
    theory = {**MARCH, "theory__history": history, "theory__samples": 24, "theory__replicas": 1, "theory__clones": None}
    on_cpu, simulated = dmft.solve(parsed(case, **theory), quiet=True), recorded(sgd_sim.simulate(parsed(case)))
    with given_out(HostGpu()):
        on_card = dmft.solve(parsed(case, **theory, theory__device="gpu"), quiet=True)
        run = parsed(case, simulation__device="gpu")
        others = up_to_flips(simulated, recorded(sgd_sim.simulate(run)), round(run.problem.alpha * run.simulation.dimension))
        simulations = apart(simulated, others, SINGLE)
    return simulations if explodes(on_cpu) else worst(apart(curves(on_cpu), curves(on_card), ROUNDING[history]), simulations)


def stored(path: Path) -> Arrays:
    """What two files must share to the last bit: all there is."""
    return store.load(path).arrays


def stops(case: Case) -> Finding:
    """Stopped at a random moment and taken up from its file: the same bits."""
    numbers, run = case.numbers("stops"), parsed(case)
    most = run.theory.replicas * (run.algorithm.steps if run.theory.method == "march" else 10)
    findings = []
    ways = [(dmft.solve, numbers.whole(0, most)), (sgd_sim.simulate, numbers.whole(0, 2))]
    for compute, polls in ways[:1] if case.table is CLOSED else ways:
        with tempfile.TemporaryDirectory() as folder:
            path, whole = Path(folder, "result.h5"), Path(folder, "whole.h5")
            with suppress(Stopped):
                compute(run, output=path, quiet=True, stop=StopAfter(polls))
            compute(run, output=whole, quiet=True)
            compute(run, output=path, quiet=True, resume=True)
            findings.append(apart(stored(whole), stored(path), 0.0))
    return worst(*findings)


def growth(case: Case) -> Finding:
    """A later t_max for a finished result: simulations have the bits of one go, the march its numbers up to rounding (sums over
    longer rows). What it had so far stays, up to rounding where a longer run lays out its past in another way and begins again."""
    # Pairs of samples keep no state, and the past of simulated kernels is gone at the end.
    changes = {**MARCH, "theory__keep_state": True, "theory__clones": None, "simulation__kernels": None}
    whole = parsed(case, **changes)
    steps, t = whole.algorithm.steps, whole.algorithm.clock.t
    try:
        short = dmft.parse_run(run_text(case, **{**SMALL, **changes, "algorithm__t_max": float(t[-4])}))
    except RunError:
        return left_out("a phase begins in the last steps")
    findings = []
    for compute in (dmft.solve, sgd_sim.simulate):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "result.h5")
            first = compute(short, output=path, quiet=True)
            longer = compute(whole, output=path, quiet=True, resume=True)
        straight = compute(whole, quiet=True)
        if compute is dmft.solve:
            findings.append(apart(curves(straight), curves(longer), ROUNDING[case.choice["method"].replace("iterate", "dyadic")]))
            if (first.averaged == longer.averaged).all():     # a replica that explodes later is left out of all means
                findings.append(apart({"m": first.m}, {"m": longer.m[:first.m.size]}, ROUNDING["full"]))
            assert first.m.size < steps + 1
        else:
            findings.append(apart(recorded(straight), recorded(longer), 0.0))
    return worst(*findings)


JUDGES: dict[str, Callable[[Case], Finding]] = {"histories": histories, "iteration": iteration, "card": card, "stops": stops,
                                               "growth": growth}


def judge(name: str, case: Case) -> Finding:
    """One of JUDGES on one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return JUDGES[name](case)
