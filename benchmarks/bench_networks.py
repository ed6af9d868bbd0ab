"""Networks: a step with p = 1, 2, 4 units, one unit against the scalar solver, and the time and errors of the published cases.

    python benchmarks/bench_networks.py [steps host scalar cases simulator]          (default: all; docs/networks.md)
    python benchmarks/bench_networks.py steps --samples 2048

steps: persistent SGD at eta = 0.02 to t = 20 in blocks of history, milliseconds of one core for steps 300 to 320, and for the whole
march what follows from these. host: the part of a step with p = 4 that stays on the host where samples are on a card: with
NUMBA_NUM_THREADS=1 time of that core, else of the clock. scalar: the same random numbers through both solvers. cases: `dmft solve`
of the run files. simulator: one instance of N = 2000 with p units, whose data are read once for all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
from numba import get_num_threads  # noqa: E402

import dmft  # noqa: E402
from benchmarks.common import table  # noqa: E402
from dmft.committee.march import CommitteeMarch, committee_bytes  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.equations.tuning import Estimator  # noqa: E402
from dmft.model.experiment import Experiment  # noqa: E402
from dmft.samples.sampling import Sampling  # noqa: E402
from dmft.solvers.forward import Forward  # noqa: E402
from dmft.solvers.march import March  # noqa: E402
from sgd_sim.cpu.network import NetworkTrajectory  # noqa: E402
from sgd_sim.states import empty_states  # noqa: E402

FIRST, TIMED, ROUNDS = 300, 20, 3  # of several rounds the best counts: other work on the machine only adds time
PERSISTENT = {"alpha": 3.0, "kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0, "learning_rate": 0.02}
CASES = {"A": "unequal", "B": "persistent", "C": "square", "D": "smooth", "E": "relu", "F": "trained"}
RUNS = Path(__file__).resolve().parent.parent / "runs/networks"


def _sampling(samples: int) -> Sampling:
    return Sampling(samples, 1, (0,), frozenset({"sobol", "ibp", "stein"}), 1 / 16)


def _steps(march: Forward, count: int) -> float:
    """Seconds of one core for so many steps."""
    begin = time.process_time()
    for _ in range(count):
        march.step()
    return time.process_time() - begin


def steps(samples: int) -> None:
    """p = 1, 2, 4 at t = 20; goals: p = 2 within four times p = 1, p = 4 within ten."""
    rows, first = [], []
    for p in (1, 2, 4):
        m0 = [[0.3 if r == s else 0.1 for s in range(2)] for r in range(p)]
        experiment = Experiment.from_run(dmft.Experiment(units=p, directions=2, m0=m0, t_max=20.0, **PERSISTENT))
        assert experiment.network is not None
        march = CommitteeMarch(experiment, _sampling(samples), 12, Wanted.plain(experiment.steps), Comm(), np.float32)
        whole = _steps(march, FIRST)
        each = _steps(march, TIMED) / TIMED
        whole += each * (experiment.steps + 1 - FIRST)  # steps take longer with the history, up to slots that are all in use
        first = first or [each, whole]
        held = committee_bytes(experiment.network, march.history, _sampling(samples), np.float32) / 1e6
        rows.append([str(p), str(march.history.slots), f"{1e3 * each:.1f}", f"{each / first[0]:.1f}", f"{whole:.0f}",
                     f"{whole / first[1]:.1f}", f"{held:.0f}"])
    table(f"networks, {samples} samples", ["units", "slots", "ms/step", "over p = 1", "s to t = 20", "over p = 1", "MB"], rows)


def host(samples: int) -> None:
    """What a step takes besides its samples, of which there are few here; before the samples can go on, and as a whole."""
    rows, p, clock = [], 4, time.process_time if get_num_threads() == 1 else time.perf_counter
    for name, per_level, count in (("full history", None, FIRST), ("dyadic", 12, 1000)):
        run = dmft.Experiment(units=p, directions=2, m0=[[0.3 if r == s else 0.1 for s in range(2)] for r in range(p)],
                              t_max=0.02 * count, **PERSISTENT)
        experiment = Experiment.from_run(run)
        sampling = Sampling(512, 1, (0,), frozenset({"sobol", "ibp"}), 1 / 16, Estimator(least_carriers=32))
        march = CommitteeMarch(experiment, sampling, per_level, Wanted.plain(count), Comm(), np.float32)
        advance, spent, moves = march.samples.advance, [], []

        def timed(drive, plan, advance=advance, moves=moves):
            begin = clock()
            advance(drive, plan)
            moves.append((begin, clock()))

        march.samples.advance = timed
        for _ in range(count):
            totals = [march.comm.sum_exact(lines) for lines in march.terms()]
            begin = clock()
            march.take(totals)
            spent.append((moves[-1][0] - begin, clock() - begin - (moves[-1][1] - moves[-1][0])))
        first, whole = 1e3 * np.array(spent).T
        rows.append([name, str(march.history.slots), *(f"{part.mean():.2f}" for part in (first, whole)),
                     *(f"{part[-TIMED:].mean():.2f}" for part in (first, whole))])
    table(f"the host's part of a step, p = {p}, {get_num_threads()} threads",
          ["history", "slots", "ms before samples go on", "in all", "at the end: before", "in all"], rows)


def scalar(samples: int) -> None:
    """Phase retrieval as one unit of a network, and by the scalar solver, with the same random numbers."""
    unit = {"units": 1, "activation": "square", "second_layer": [0.5**0.5], "teacher_weights": [0.5**0.5], "m0": [[0.5]]}
    rows = []
    for name, per_level, t_max, begin, dtype in (("full history, 100 steps", None, 2.0, 0, np.float64),
                                                 ("dyadic, steps 300 to 320", 12, 20.0, FIRST, np.float32)):
        network = Experiment.from_run(dmft.Experiment(t_max=t_max, **unit, **PERSISTENT))
        single = Experiment.from_run(dmft.Experiment(t_max=t_max, m0=0.5, **PERSISTENT))
        wanted, spent = Wanted.plain(network.steps), []
        for _ in range(ROUNDS):
            marches = (CommitteeMarch(network, _sampling(samples), per_level, wanted, Comm(), dtype),
                       March(single, _sampling(samples), per_level, wanted, Comm(), dtype))
            for march in marches:
                _steps(march, begin)
            spent.append([_steps(march, TIMED if begin else network.steps) for march in marches])
        ours, theirs = np.min(spent, axis=0)
        rows.append([name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}"])
    table(f"one unit, {samples} samples", ["march", "network, s", "scalar, s", "ratio"], rows)


def cases(samples: int) -> None:
    """Cases A to F as their run files say; goal: errors of 0.001 in m and C within two minutes of two cores."""
    rows = []
    for case, name in CASES.items():
        run = dmft.load_run(RUNS / f"{name}.toml")
        begin, spent = time.perf_counter(), time.process_time()
        theory = dmft.solve(run, quiet=True)
        largest = max(float(theory.curves[f"{curve}_error"].max()) for curve in ("m", "C"))
        rows.append([case, f"{name}.toml", f"{run.theory.replicas} x {run.theory.samples}", f"{time.perf_counter() - begin:.0f}",
                     f"{time.process_time() - spent:.0f}", f"{largest:.5f}"])
    table("cases", ["case", "run file", "replicas x samples", "s", "s of cores", "largest error of m, C"], rows)


def simulator(samples: int) -> None:
    """A step of the simulator with p = 1, 2, 4 units against p single runs."""
    rows, first = [], 0.0
    for p in (1, 2, 4):
        run = dmft.Experiment(units=p, directions=2, m0=[[0.3, 0.1]] * p, t_max=2.0, dimension=2000, instances=1, record=[0.0, 2.0],
                              alpha=3.0, kind="gd", learning_rate=0.02)
        trajectory = NetworkTrajectory(run, 0, empty_states(run), False)
        trajectory.advance(5)
        each = np.inf
        for k in range(ROUNDS):
            begin = time.process_time()
            trajectory.advance(10 + 5 * k)
            each = min(each, (time.process_time() - begin) / 5)
        first = first or each
        rows.append([str(p), f"{1e3 * each:.1f}", f"{each / first:.2f}"])
    table("simulator, N = 2000, M = 6000, one core", ["units", "ms/step", "over p = 1"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["steps", "host", "scalar", "cases", "simulator"])
    parser.add_argument("--samples", type=int, default=8192)
    options = parser.parse_args()
    for part in options.parts:
        {"steps": steps, "host": host, "scalar": scalar, "cases": cases, "simulator": simulator}[part](options.samples)


if __name__ == "__main__":
    main()
