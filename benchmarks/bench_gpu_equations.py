"""Where a step of the march spends its time on a GPU: the equations of a step on the card and on the host, in turn, and then kernel
by kernel. Needs an NVIDIA GPU and CuPy.

python benchmarks/bench_gpu_equations.py [STEPS]      (default: 3000)

ms a step are those of the last steps, when the history is full; so are the times of kernels, taken by events of the card, for which
they are launched one by one. `noise_given_past` goes beside `row_and_step`, `enter_step` beside the samples. Short kernels seem
longer than they are where the host is late to launch them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_gpu import bandwidth  # noqa: E402
from benchmarks.bench_gpu_march import BLOCKS_PER_LEVEL, FEW, Case, bytes_read  # noqa: E402
from benchmarks.common import GD, SHARE, problem, table  # noqa: E402
from dmft.core.device import Gpu, gpu  # noqa: E402
from dmft.core.errors import UserError  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.samples.card_steps import VISIT  # noqa: E402
from dmft.samples.gpu import Card, GpuSamples  # noqa: E402
from dmft.samples.sampling import PARTS, Sampling  # noqa: E402
from dmft.samples.tiling import Tiling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from dmft.solvers.march import March  # noqa: E402

MANY = 100_000  # samples of a large solution
LATE = 4 * VISIT  # steps at the end whose time is taken
LOOKED_AT = 2 * VISIT  # steps whose kernels are timed one by one
ROUNDS = 2  # of both ways


class ByTheHost(March):
    """A march whose equations are the host's."""

    def equations_on_card(self, tiling: Tiling) -> bool:
        return False


def marches(kind: type[March], steps: int, samples: int, solutions: int, card: Gpu) -> list[March]:
    p, company = problem(GD, steps, m0=0.5), Card(card, VISIT)
    return [kind(p, Sampling(samples, 1, (k,), frozenset(PARTS), SHARE), BLOCKS_PER_LEVEL, Wanted.plain(p.steps), Comm(),
                 np.float32, company) for k in range(solutions)]


def step_to(several: list[March], n: int) -> None:
    while several[0].n < n:
        step_together(several, Comm())


def took(kind: type[March], steps: int, samples: int, solutions: int, card: Gpu) -> tuple[float, float]:
    """Seconds from the second visit of the host on, and of a step at the end."""
    several = marches(kind, steps, samples, solutions, card)
    step_together(several, Comm())
    first = time.perf_counter()
    step_to(several, steps - LATE)
    card.wait()
    late, n = time.perf_counter(), several[0].n
    step_to(several, steps)
    card.wait()
    end = time.perf_counter()
    return end - first, (end - late) / (steps - n)


class Timed:
    """A kernel with events of the card before and after each launch."""

    def __init__(self, cupy: Any, kernel: Any):
        self._cupy, self._kernel, self._pairs = cupy, kernel, []

    def __call__(self, *arguments: Any) -> None:
        pair = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        pair[0].record(self._cupy.cuda.get_current_stream())
        self._kernel(*arguments)
        pair[1].record(self._cupy.cuda.get_current_stream())
        self._pairs.append(pair)

    def microseconds(self) -> list[float]:
        return [1e3 * self._cupy.cuda.get_elapsed_time(*pair) for pair in self._pairs]


def kernel_times(steps: int, samples: int, solutions: int, card: Gpu) -> dict[str, list[float]]:
    """Of every kernel, from so many steps on."""
    import cupy  # noqa: PLC0415 - only where there is a card

    several = marches(March, steps + 2 * LOOKED_AT, samples, solutions, card)
    step_to(several, steps)
    assert isinstance(several[0].samples, GpuSamples)
    company, found = several[0].samples.company, {}
    for owner in (company, company.steps):
        owner.kernel = {name: found.setdefault(name, Timed(cupy, kernel)) for name, kernel in owner.kernel.items()}
    company.fields = [company.kernel["fields"]]
    run = company.queue.run
    company.queue.run = lambda name, launches, record=True: run(name, launches, False)  # events are not recorded in graphs
    step_to(several, steps + LOOKED_AT)
    card.wait()
    return {name: kernel.microseconds() for name, kernel in found.items() if kernel.microseconds()}


def main() -> None:
    steps = int((sys.argv[1:] + ["3000"])[0])
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    limit = bandwidth(card, card.zeros(2 << 30, np.float32))
    sizes = [(samples, solutions) for samples in (FEW, MANY) for solutions in (1, 8)]
    rows: list[list[object]] = []
    for samples, solutions in sizes:
        read = solutions * bytes_read(Case("gd", GD, steps, samples))
        times = np.array([[took(kind, steps, samples, solutions, card) for kind in (March, ByTheHost)] for _ in range(ROUNDS)])
        whole, late = times.min(axis=0).T
        rows.append([solutions, samples, *(f"{seconds:.2f}" for seconds in whole), *(f"{1e3 * seconds:.3f}" for seconds in late),
                     *(f"{read / seconds / limit:.0%}" for seconds in late)])
    table(f"march of {steps} steps on {card.name}, the better of {ROUNDS} in turn", [
        "solutions", "K", "s, equations on the card", "on the host", "ms a step at the end, card", "host", "bandwidth, card",
        "host"], rows)
    rows = []
    for samples, solutions in sizes:
        for name, us in kernel_times(steps, samples, solutions, card).items():
            rows.append([solutions, samples, name, f"{len(us) / LOOKED_AT:.2g}", *(f"{x:.0f}" for x in (np.median(us), max(us)))])
    table("kernels", ["solutions", "K", "kernel", "launches a step", "median, us", "largest"], rows)


if __name__ == "__main__":
    main()
