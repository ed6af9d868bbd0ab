"""Speed of the simulator against the memory of the same machine, measured in the same run.

    python benchmarks/bench_simulator.py [--rounds 100]

N = 1000, alpha = 3: the data of an instance are 12 MB of float32, which may fit into the last-level cache. So the
bandwidth is measured on arrays of that very size, read over and over as a run does, and the limit of a step is
(bytes of the data once)/(that bandwidth). All figures of a round are taken side by side; the best of all rounds
counts, since other work on the machine can only slow a measurement down.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")   # "per core": the NumPy loop gets one as well

import argparse
import threading
import time

import numpy as np
from numba import njit

from dmft.model.runfile import parse_run
from sgd_sim.cpu.trajectory import InstanceTrajectory, SharedTrajectories
from sgd_sim.states import empty_states

RUN = """
[problem]
alpha = 3.0
m0 = 0.2
[algorithm]
kind = "gd"
learning_rate = 0.01
t_max = 1000.0
[simulation]
dimension = 1000
instances = 64
record = [0.0]
"""
PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 1.0}
STARTS = 64
SQUARE = 1024    # size of the matrices whose product gives the speed of arithmetic


@njit(nogil=True, fastmath={"reassoc", "contract"})
def read(data):
    """Read an array once, as fast as one core can."""
    flat, total = data.reshape(-1), np.float32(0.0)
    for i in range(flat.size):
        total += flat[i]
    return total


def seconds(work, threads: int) -> float:
    """Time of work[0](), ..., work[threads - 1]() in as many threads, after one call that warms the caches.

    With one thread its CPU time, which other programs do not add to; with more the time on the clock.
    """
    barrier, times = threading.Barrier(threads), []
    clock = time.thread_time if threads == 1 else time.perf_counter

    def go(job):
        job()
        barrier.wait()
        begin = clock()
        job()
        barrier.wait()
        times.append(clock() - begin)

    workers = [threading.Thread(target=go, args=(job,)) for job in work[:threads]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(times)


def stepping(stepper, steps: int):
    """A job that takes a stepper some steps further."""
    return lambda: stepper.advance(stepper.step + steps)


def numpy_loop(stepper, ell: float, persistence: float | None, steps: int, eta: float = 0.01):
    """Some steps of the plain float64 loop with its two products, on the same data."""
    n = stepper.landscape.w0.size
    h0 = stepper.landscape.h0
    data = stepper.landscape.data[:h0.size, :n].astype(np.float64)
    state = {"w": stepper.lanes.w[:, 0].copy(), "s": np.ones(h0.size)}
    rng = np.random.default_rng(1)

    def step():
        w, s = state["w"], state["s"]
        h = data @ w / np.sqrt(n)
        g = h * (h * h - h0 * h0)
        if persistence is not None:
            switch = rng.random(h0.size) < np.where(s > 0, (1 - ell) * eta / (ell * persistence), eta / persistence)
            state["s"] = s = np.where(switch, 1.0 - s, s)
            g *= s / ell
        w = w - eta * (g @ data) / np.sqrt(n)
        state["w"] = w * np.sqrt(n) / np.linalg.norm(w)

    return lambda: [step() for _ in range(steps)]


def measure(rounds: int) -> dict[str, float]:
    """Best seconds of a step (or of one reading of the data) for every subject."""
    run = parse_run(RUN)
    persistent = run.replace(PERSISTENT)
    gd = [InstanceTrajectory(run, i, empty_states(run), False) for i in range(2)]
    psgd = [InstanceTrajectory(persistent, i, empty_states(persistent), False) for i in range(2)]
    shared_run = run.replace(landscape="shared")
    shared, *halves = (SharedTrajectories(shared_run, starts, empty_states(shared_run), gd[0].landscape)
                       for starts in (np.arange(STARTS), np.arange(STARTS // 2), np.arange(STARTS // 2, STARTS)))
    square = np.ones((SQUARE, SQUARE), np.float32)
    steps = 4
    reading = [lambda i=i: [read(gd[i].landscape.data) for _ in range(steps)] for i in range(2)]
    jobs = {
        "read": (reading, 1, steps), "read on 2": (reading, 2, steps),
        "gd": ([stepping(t, steps) for t in gd], 1, steps), "gd on 2": ([stepping(t, steps) for t in gd], 2, steps),
        "p-sgd": ([stepping(t, steps) for t in psgd], 1, steps),
        "p-sgd on 2": ([stepping(t, steps) for t in psgd], 2, steps),
        "shared": ([stepping(shared, 1)], 1, STARTS), "shared on 2": ([stepping(t, 1) for t in halves], 2, STARTS // 2),
        "sgemm": ([lambda: square @ square], 1, SQUARE**3 / 6e6),   # so many steps of 4 M N operations
        "numpy gd": ([numpy_loop(gd[0], 1.0, None, steps)], 1, steps),
        "numpy p-sgd": ([numpy_loop(psgd[0], 0.5, 1.0, steps)], 1, steps),
    }
    best = dict.fromkeys(jobs, np.inf)
    for _ in range(rounds + 1):
        for name, (work, threads, units) in jobs.items():
            best[name] = min(best[name], seconds(work, threads) / units)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    best = measure(parser.parse_args().rounds)
    megabytes = 12.0
    print("microseconds per step and trajectory (read: of the 12 MB of one data set)")
    for name, value in best.items():
        print(f"  {name:12s} {1e6 * value:8.1f}")
    print(f"bandwidth: {megabytes / best['read'] / 1e3:.1f} GB/s on 1 core, {2 * megabytes / best['read on 2'] / 1e3:.1f} on 2")
    gain = 2 * best["read"] / best["read on 2"]
    table = [
        ("share of the memory-bound limit, GD", best["read"] / best["gd"], 0.8),
        ("share of the memory-bound limit, p-SGD (half the rows)", 0.5 * best["read"] / best["p-sgd"], None),
        ("NumPy loop / GD, per core", best["numpy gd"] / best["gd"], 4.0),
        ("NumPy loop / p-SGD at l = 0.5, per core", best["numpy p-sgd"] / best["p-sgd"], 6.0),
        (f"fresh / shared landscape with {STARTS} starts, 1 core", best["gd"] / best["shared"], 6.0),
        (f"fresh / shared landscape with {STARTS} starts, 2 cores", best["gd on 2"] / best["shared on 2"], 6.0),
        ("  limit / shared: fresh at the memory-bound limit", best["read"] / best["shared"], None),
        ("  shared: its arithmetic over that of a large sgemm", best["sgemm"] / best["shared"], None),
        ("2 cores, GD: gain over gain of the bandwidth", 2 * best["gd"] / best["gd on 2"] / gain, 0.9),
        ("2 cores, p-SGD: gain over gain of the bandwidth", 2 * best["p-sgd"] / best["p-sgd on 2"] / gain, 0.9),
    ]
    print(f"\n{'':56s} measured  demanded")
    for label, value, demanded in table:
        verdict = "" if demanded is None else f"{demanded:8.2f}  {'met' if value >= demanded else 'NOT MET'}"
        print(f"{label:56s} {value:8.2f}  {verdict}")


if __name__ == "__main__":
    main()
