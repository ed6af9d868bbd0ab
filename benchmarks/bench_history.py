"""What a history of blocks costs m: the systematic error against a much finer history, with equal random numbers.

    python benchmarks/bench_history.py                       a small table on the CPU
    python benchmarks/bench_history.py --device gpu --samples 16384 --seeds 16 --t-max 100 --blocks 8 16 --finest 64 --processes 12

Differences are means over seeds of m - m(finest), in 1e-4, each with its standard error. Samples on a barrier amplify any change,
so that two histories part by more than their systematic difference: that is what the error bars show. "means": kernels constant
across blocks instead of linear; "q0": a block that begins at step s holds at most 1 + s/q0 steps (by default half the blocks a
level). Seconds are those of a march among so many processes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from benchmarks.bench_late import CASES, ETA  # noqa: E402
from benchmarks.checkouts import ROOT, Checkout  # noqa: E402
from benchmarks.common import table  # noqa: E402

NOW, BEFORE = "as it is", "before"
SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)  # of t_max at which m is compared


def differences(checkouts: dict[str, Checkout], case: str, options: argparse.Namespace) -> None:
    """The table of one case."""
    algorithm, alpha, m0 = CASES[case]
    steps = round(options.t_max / ETA)
    at = [round(share * steps) for share in SHARES]
    ways = [("finest", NOW, options.finest, 0, False), *((f"{blocks} blocks", NOW, blocks, 0, False) for blocks in options.blocks),
            *((f"{options.blocks[0]} blocks, q0 = {early}", NOW, options.blocks[0], early, False) for early in options.early),
            *((f"{blocks} blocks, means", NOW, blocks, 0, True) for blocks in options.means),
            *((f"{blocks} blocks, before", BEFORE, blocks, 0, False) for blocks in options.blocks_before)]
    m, seconds = np.empty((options.seeds, len(ways), len(at))), np.empty(len(ways))
    for k, (_, which, blocks, early, means) in enumerate(ways):
        found = checkouts[which].marches([
            {"algorithm": algorithm, "steps": steps, "eta": ETA, "alpha": alpha, "m0": m0, "samples": options.samples,
             "seed": 9000 + seed, "blocks": blocks, "early": early, "means": means} for seed in range(options.seeds)])
        m[:, k] = np.array([each["m"] for each in found])[:, at]
        seconds[k] = np.mean([each["seconds"] for each in found])
    through = np.isfinite(m).all(axis=(1, 2))
    m = m[through]
    rows = [["m", f"{options.finest}", *(f"{x.mean():.4f}({1e4 * x.std(ddof=1) / len(x) ** 0.5:.0f})" for x in m[:, 0].T),
             f"{seconds[0]:.1f}"]]
    for k, (label, *_) in enumerate(ways[1:], 1):
        gaps = 1e4 * (m[:, k] - m[:, 0])
        rows.append(["difference", label, *(f"{x.mean():+.1f}({x.std(ddof=1) / len(x) ** 0.5:.1f})" for x in gaps.T),
                     f"{seconds[k]:.1f}"])
    table(f"{case}: {len(m)} of {options.seeds} solutions of {options.samples} samples, eta = {ETA}, {options.device}; differences "
          "in 1e-4", ["", "history", *(f"t = {share * options.t_max:g}" for share in SHARES), "seconds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--t-max", type=float, default=4.0)
    parser.add_argument("--blocks", type=int, nargs="*", default=[8, 12])
    parser.add_argument("--early", type=int, nargs="*", default=[], metavar="Q0", help="with the first number of blocks")
    parser.add_argument("--means", type=int, nargs="*", default=[])
    parser.add_argument("--finest", type=int, default=48)
    parser.add_argument("--before", type=Path, metavar="PATH", help="a checkout of an earlier version")
    parser.add_argument("--blocks-before", type=int, nargs="*", default=[])
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), metavar="CASE", default=list(CASES), help="; ".join(CASES))
    options = parser.parse_args()
    roots = {NOW: ROOT} | ({BEFORE: options.before.resolve()} if options.before else {})
    checkouts = {which: Checkout(root, options.processes, options.device) for which, root in roots.items()}
    for checkout in checkouts.values():
        checkout.warm_up()
    for case in options.cases:
        differences(checkouts, case, options)
    for checkout in checkouts.values():
        checkout.close()


if __name__ == "__main__":
    main()
