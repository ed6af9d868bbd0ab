"""Processes that march in a checkout of this package, this one or another, for comparisons side by side in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from benchmarks.common import GD

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Checkout:
    """So many processes, each with one thread, that answer requests (benchmarks/marches.py). On a card they take turns, unless
    NVIDIA's service for processes that share one was started before (nvidia-cuda-mps-control -d)."""

    def __init__(self, root: Path, processes: int, device: str):
        self.device, self.blocks = device, 12 if root == ROOT else 16  # the default of each version
        environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        self.processes = [subprocess.Popen([sys.executable, str(HERE / "marches.py")], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True, cwd=root, env=environment) for _ in range(processes)]
        self.free: SimpleQueue[subprocess.Popen] = SimpleQueue()
        for process in self.processes:
            self.free.put(process)

    def march(self, algorithm: str, steps: int, eta: float, alpha: float, m0: float, samples: int, seed: int,
              without: Sequence[str] = (), late: int = 0, blocks: int = 0, early: int = 0, means: bool = False) -> dict:
        """One march, by the next process that is free. blocks: of a level of the history, 0 for the default of its version; early:
        its rule of the start, 0 for the default."""
        asked = {"algorithm": algorithm, "steps": steps, "eta": eta, "alpha": alpha, "m0": m0, "samples": samples, "seed": seed,
                 "without": list(without), "late": late, "device": self.device, "blocks": blocks or self.blocks, "early": early,
                 "means": means}
        process = self.free.get()
        process.stdin.write(json.dumps(asked) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        if not (line := process.stdout.readline()):  # type: ignore[union-attr]
            raise SystemExit(f"a process of {process.args} died, see above")
        self.free.put(process)
        return json.loads(line)

    def warm_up(self) -> None:
        """A few steps by every process, so that later ones take no time to compile. The first process fills the cache for the
        others."""
        asked = {"algorithm": GD, "steps": 20, "eta": 0.01, "alpha": 3.0, "m0": 0.5, "samples": 1024, "seed": 1}
        self.march(**asked)
        self.marches([asked] * len(self.processes))

    def marches(self, requests: Sequence[dict]) -> list[dict]:
        """All of them, as many at a time as there are processes, in their order."""
        with ThreadPoolExecutor(len(self.processes)) as pool:
            return list(pool.map(lambda request: self.march(**request), requests))

    def close(self) -> None:
        for process in self.processes:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
