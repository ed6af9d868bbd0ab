"""Marches on demand: a process that answers every line of JSON with a line of JSON, in the checkout that PYTHONPATH names.

It also runs in checkouts of version 0.1, so that before and after can be measured side by side (benchmarks/checkouts.py).
"""

from __future__ import annotations

import inspect
import json
import sys
import time

import numpy as np

from benchmarks.common import problem
from dmft.core.device import gpu
from dmft.core.parallel import Comm

try:
    from dmft.samples.sampling import PARTS, Sampling
    from dmft.solvers.march import March
except ImportError:  # version 0.1
    from dmft.march import March
    from dmft.sampling import PARTS, Sampling

try:
    from dmft.equations import history
    from dmft.equations.kernels import Wanted
except ImportError:  # version 0.2
    Wanted = None

SHARE = {"tangents": 1 / 16} if "tangents" in inspect.signature(Sampling).parameters else {}  # the default; all samples in 0.1


def answer(asked: dict) -> dict:
    """A march to its end. "late": the number of last steps whose time is taken; "without": parts of the variance reduction to leave
    out; "blocks": of a level of the history; "early": a block that begins at step s holds at most 1 + s/early steps, 0 for the
    default; "means": whether kernels are constant across blocks."""
    card = gpu("theory") if asked["device"] == "gpu" else None
    clock = time.perf_counter if card else time.process_time
    p = problem(asked["algorithm"], asked["steps"], asked["eta"], asked["alpha"], asked["m0"])
    sampling = Sampling(asked["samples"], asked["seed"], (0,), frozenset(PARTS) - set(asked["without"]), **SHARE)
    kept = Wanted.plain(asked["steps"]) if Wanted else np.array([0])
    if asked["early"]:
        rule = history.fences
        history.fences = lambda steps, early, *rest: rule(steps, asked["early"], *rest)
    march = March(p, sampling, asked["blocks"], kept, Comm(), np.float32, card)
    if asked["early"]:
        history.fences = rule
    if asked["means"]:  # with the weights of version 0.2
        march.history.rule = march.history.rule._replace(slopes=False)
    began = clock()
    last = began
    while not march.done:
        if march.n == asked["steps"] - asked["late"]:
            if card:
                card.wait()
            last = clock()
        march.step()
    if card:
        card.wait()
    ended = clock()
    names = "per_sample", "per_tangent", "own", "carried"  # the last two in earlier versions
    held = [getattr(march, name)() for name in names if hasattr(march, name)] if asked["late"] else []
    return {"m": march.curves["m"].tolist(), "seconds": ended - began, "late": (ended - last) / max(asked["late"], 1),
            "bytes": sum(array.nbytes for part in held for array in part.values()),
            "columns": {name: array[-1].tolist() for name, array in march.columns.items()} if Wanted else {}}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
