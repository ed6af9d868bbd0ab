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

SHARE = {"tangents": 1 / 16} if "tangents" in inspect.signature(Sampling).parameters else {}  # the default; all samples in 0.1


def answer(asked: dict) -> dict:
    """A march to its end. "late": the number of last steps whose time is taken; "without": parts of the variance reduction to leave
    out."""
    card = gpu("theory") if asked["device"] == "gpu" else None
    clock = time.perf_counter if card else time.process_time
    p = problem(asked["algorithm"], asked["steps"], asked["eta"], asked["alpha"], asked["m0"])
    sampling = Sampling(asked["samples"], asked["seed"], (0,), frozenset(PARTS) - set(asked["without"]), **SHARE)
    march = March(p, sampling, 16, np.array([0]), Comm(), np.float32, card)
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
    held = [march.own(), *([march.carried()] if hasattr(march, "carried") else [])] if asked["late"] else []
    return {"m": march.curves["m"].tolist(), "seconds": ended - began, "late": (ended - last) / max(asked["late"], 1),
            "bytes": sum(array.nbytes for part in held for array in part.values())}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
