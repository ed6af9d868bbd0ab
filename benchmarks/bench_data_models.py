"""Data models: the cost of a mixture compared with phase retrieval, and gradient descent at long times against its fixed point.

    python benchmarks/bench_data_models.py cost                            seconds of a solution, models in turn
    python benchmarks/bench_data_models.py cost --before PATH              also phase retrieval of another checkout, in turn
    python benchmarks/bench_data_models.py cost --before PATH --equal      the same without [ibp], tangents on all samples
    python benchmarks/bench_data_models.py limit --samples 16384           m at long times, and its fixed point
    python benchmarks/bench_data_models.py strata                          errors of m and b with and without exact shares
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import dmft  # noqa: E402
from benchmarks.common import seconds, table  # noqa: E402
from dmft.model.mixture import Mixture  # noqa: E402
from dmft.model.runfile import parse_run  # noqa: E402
from dmft.model.teacher import Teacher  # noqa: E402

TWO = 'data = "mixture"\nclusters = [[1, 0.3, 1, {0}], [-1, 0.7, -1, {0}]]\n'
RIDGE = 'constraint = "ridge"\nridge = {}\n'
MODELS = {"phase retrieval": "", "two clusters, logistic": 'loss = "logistic"\n' + TWO.format(1.0),
          "two clusters, square loss": 'loss = "linear"\n' + TWO.format(1.0),
          "signs, 10 % flipped, logistic (with pairs)": 'loss = "logistic"\nflip = 0.1\n'}
LIMITS = {  # problem, learning rate, last time
    "P1 noisy linear teacher": ('alpha = 2\nloss = "linear"\nlabel_noise = 0.5\n' + RIDGE.format(0.5), 0.2, 24.0),
    "P3 two clusters, logistic": ('alpha = 2\nloss = "logistic"\n' + TWO.format(1.0) + RIDGE.format(0.3), 0.4, 40.0),
    "P6 the same on the sphere": ('alpha = 2\nloss = "logistic"\n' + TWO.format(1.0), 0.4, 32.0),
}
TIMED = """
import sys, time
sys.path.insert(0, {root!r})
import dmft
run = dmft.load_run({run!r})
dmft.solve(run.replace(seed=2), quiet=True)
for line in sys.stdin:
    began = time.process_time()
    dmft.solve(run, quiet=True)
    print(time.process_time() - began, flush=True)
"""


def cost_text(problem: str, options: argparse.Namespace) -> str:
    return (f'[problem]\nalpha = 3\nm0 = 0.4\n{problem}\n[algorithm]\nkind = "persistent_sgd"\nbatch_fraction = 0.5\n'
            f"persistence = 1.0\nlearning_rate = 0.02\nt_max = {0.02 * options.steps}\n"
            f"[theory]\nsamples = {options.samples}\nreplicas = 1\nhistory = \"{options.history}\"\n"
            + ('variance_reduction = ["sobol", "weights", "stein"]\n' if options.equal else ""))


def cost(options: argparse.Namespace) -> None:
    """Times are medians over rounds, in each of which every model runs once; ratios are medians of the ratios within a round."""
    runs = {name: parse_run(cost_text(problem, options)) for name, problem in MODELS.items()}
    other = None
    folder = tempfile.TemporaryDirectory()
    if options.before:
        file = Path(folder.name) / "phase.toml"
        file.write_text(cost_text("", options))
        code = TIMED.format(root=str(Path(options.before).resolve()), run=str(file))
        other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 cwd=options.before, env={**os.environ, "PYTHONPATH": ""})
    for run in runs.values():
        dmft.solve(run.replace(seed=2), quiet=True)  # compile
    times: dict[str, list[float]] = {name: [] for name in runs}
    times |= {"phase retrieval, checkout before": []} if other else {}
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(seconds(lambda run=run: dmft.solve(run, quiet=True)))
            if other and name == "phase retrieval":
                other.stdin.write("go\n")
                other.stdin.flush()
                times["phase retrieval, checkout before"].append(float(other.stdout.readline()))
    if other:
        other.stdin.close()
        other.wait()
    folder.cleanup()
    ours = np.array(times["phase retrieval"])
    rows = [[name, f"{np.median(found):.2f}", f"{np.median(np.array(found) / ours):.3f}"] for name, found in times.items()]
    table(f"one solution: {options.samples} samples, {options.steps} steps, persistent SGD; CPU seconds, {options.rounds} rounds",
          ["model", "median", "over phase retrieval"], rows)


def limit(options: argparse.Namespace) -> None:
    rows = []
    for name, (problem, eta, t_max) in LIMITS.items():
        run = parse_run(f'[problem]\nm0 = 0.2\n{problem}\n[algorithm]\nkind = "gd"\nlearning_rate = {eta}\nt_max = {t_max}\n'
                        f"[theory]\nsamples = {options.samples}\nreplicas = {options.replicas}\n")
        theory, end = dmft.solve(run, quiet=True), dmft.fixed_point(run)
        for curve, wanted in (("m", end.m), ("q", end.q), ("loss", end.loss)):
            found, error = theory.curves[curve][-1], theory.curves[f"{curve}_error"][-1]
            rows.append([name, curve, f"{found:.6f} +- {error:.6f}", f"{wanted:.6f}", f"{found - wanted:+.6f}"])
    table(f"gradient descent at its last time, {options.replicas} x {options.samples} samples, against the fixed point",
          ["problem", "curve", "theory", "fixed point", "difference"], rows)


def strata(options: argparse.Namespace) -> None:
    """Standard deviation over replicas of m, q and b at t = 2, with exact (the default) or random shares of clusters and flips."""
    rows = []
    cases = {"two clusters, bias": ('loss = "logistic"\nbias = true\n' + TWO.format(1.0) + RIDGE.format(0.3), Mixture),
             "signs, 10 % flipped": ('loss = "logistic"\nflip = 0.1\n' + RIDGE.format(0.3), Teacher)}
    for name, (problem, model) in cases.items():
        run = parse_run(f'[problem]\nalpha = 2\nm0 = 0.2\n{problem}\n[algorithm]\nkind = "gd"\nlearning_rate = 0.05\nt_max = 2.0\n'
                        f"[theory]\nsamples = {options.samples}\nreplicas = {options.replicas}\n")
        exact = dmft.solve(run, quiet=True)
        kept, model.strata = model.strata, property(lambda self: (1.0,))
        drawn = model.draw
        model.draw = lambda self, h0, u, drawn=drawn: drawn(self, h0, u)._replace(stratum=np.zeros(len(h0), np.int64))
        members, edges = getattr(model, "members", None), np.cumsum([c[1] for c in run.problem.clusters])[:-1]
        if members is not None:
            model.members = lambda self, u, edges=edges: np.searchsorted(edges, u, side="right")
        plain = dmft.solve(run, quiet=True)
        model.strata, model.draw = kept, drawn
        if members is not None:
            model.members = members
        for curve in ("m", "q", "loss", "b"):
            if curve in exact.curves:
                a, b = (np.std(found.replicas[curve][:, -1], ddof=1) for found in (exact, plain))
                rows.append([name, curve, f"{a:.5f}", f"{b:.5f}", f"{(b / max(a, 1e-300)) ** 2:.2f}"])
    table(f"standard deviation over {options.replicas} replicas of {options.samples} samples",
          ["problem", "curve", "exact shares", "shares as drawn", "ratio of variances"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "limit", "strata"))
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--replicas", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", metavar="PATH", help="another checkout")
    parser.add_argument("--history", choices=("auto", "full", "dyadic"), default="auto")
    parser.add_argument("--equal", action="store_true", help="without [ibp]: all samples have tangents, as before it")
    given = parser.parse_args()
    {"cost": cost, "limit": limit, "strata": strata}[given.what](given)
