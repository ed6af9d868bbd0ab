"""Networks on a GPU: a march with p = 1, 2, 4 units and its share of the card's read bandwidth, and the simulator with p = 1, 2, 4.
Needs an NVIDIA GPU and CuPy.

    python benchmarks/bench_gpu_networks.py [march simulator]          (default: both; docs/networks.md)

march: 65 536 samples, of which a sixteenth have tangents, full history of 300 steps. Seconds of the whole march of one solution,
and of two in turn, as two replicas go; and the share of the bandwidth at which the kernels of all steps would then read what they
have to at least, each array once in every kernel: goal 60 % with p = 4. Then, with the history full, the kernels of a step alone,
launched again and again; and where the time of a step of one solution goes, as the host sees it. simulator: instances of N = 2000
and M = 6000, gradient descent; goal: p = 4 below 2.5 times p = 1.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dmft  # noqa: E402
from benchmarks.bench_gpu import bandwidth, step_seconds  # noqa: E402
from benchmarks.common import table  # noqa: E402
from dmft.committee.card_matrices import CardMatrices  # noqa: E402
from dmft.committee.gpu import GpuUnits  # noqa: E402
from dmft.committee.march import CommitteeMarch  # noqa: E402
from dmft.core.device import Gpu, gpu  # noqa: E402
from dmft.core.errors import UserError  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.model.experiment import Experiment  # noqa: E402
from dmft.samples.sampling import Sampling  # noqa: E402
from dmft.solvers.blocks import step_together  # noqa: E402
from sgd_sim.gpu.networks import GpuNetworks  # noqa: E402
from sgd_sim.states import empty_states  # noqa: E402

SAMPLES, STEPS, AGAIN = 65_536, 300, 20
INSTANCES = 128
UNITS = (1, 2, 4)


def overlaps(units: int) -> list[list[float]]:
    return [[0.3 if r == s else 0.1 for s in range(2)] for r in range(units)]


def bytes_read(samples: GpuUnits, past: int) -> float:
    """What the kernels of a step read at least with so many steps in the past: G and H in the sums, H and X in the step after them;
    of the tangents every row from a source on, and the present row four times (bounds, sums, next row, storing it)."""
    p, item = samples.network.units, samples.past["H"].itemsize
    return p * (samples.count * past * (8.0 + 3.0 * item) + samples.carriers * item * (past * (past + 1) / 2 + 4.0 * past))


def again(samples: GpuUnits, card: Gpu, name: tuple, launches) -> float:
    """Seconds of what a queue has recorded, launched once more; the best of a few."""
    best = np.inf
    for _ in range(AGAIN):
        samples.queue.wait()
        begin = time.perf_counter()
        samples.queue.run(name, launches)
        samples.queue.wait()
        best = min(best, time.perf_counter() - begin)
    return best


def solutions(units: int, card: Gpu, count: int) -> list[CommitteeMarch]:
    """So many solutions at their start."""
    run = dmft.Experiment(units=units, directions=2, m0=overlaps(units), alpha=3.0, kind="persistent_sgd", batch_fraction=0.5,
                          persistence=1.0, learning_rate=0.02, t_max=0.02 * STEPS)
    experiment, parts = Experiment.from_run(run), frozenset({"sobol", "ibp"})
    wanted = Wanted.plain(experiment.steps)
    return [CommitteeMarch(experiment, Sampling(SAMPLES, 1, (replica,), parts, 1 / 16), None, wanted, Comm(), gpu=card)
            for replica in range(count)]


def marched(units: int, card: Gpu, count: int) -> tuple[list[GpuUnits], float, float]:
    """The samples of so many solutions at their end, which went in turn; the seconds it took, and the loss of the first."""
    made = solutions(units, card, count)
    step_together(made, Comm())  # compiles
    begin = time.perf_counter()
    while made[0].n < STEPS:
        step_together(made, Comm())
    card.wait()
    seconds = time.perf_counter() - begin
    return [each.samples for each in made if isinstance(each.samples, GpuUnits)], seconds, made[0].curves["loss"][STEPS - 1]


class Stopwatch:
    """Seconds that methods of some objects take."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def watch(self, name: str, owner: Any, method: str) -> None:
        inner = getattr(owner, method)

        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            result = inner(*arguments)
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - begin
            return result

        setattr(owner, method, timed)


def host_times(units: int, card: Gpu) -> dict[str, float]:
    """Microseconds of a step of one solution, on average, and what the host does in them."""
    (made,), comm, clock = solutions(units, card, 1), Comm(), Stopwatch()
    step_together([made], comm)
    samples, weights, by = made.samples, made.weights, clock.spent
    assert isinstance(samples, GpuUnits) and isinstance(weights.matrices, CardMatrices)
    for name, owner, method in (
            ("wait for sums", samples.queue, "wait"), ("terms", made, "terms"), ("add up blocks", comm, "sums_exact"),
            ("take", made, "take"), ("let samples go", samples, "advance"), ("begin sums", samples, "begin_sums"),
            ("wait for matrices", weights.matrices.queue, "wait"), ("launch matrices", weights.matrices.queue, "run"),
            ("enter the past", weights, "advance"), ("step of the row", weights, "step_from_row")):
        clock.watch(name, owner, method)
    begin, steps = time.perf_counter(), 0
    while made.n < STEPS:
        step_together([made], comm)
        steps += 1
    card.wait()
    found = {"a step": time.perf_counter() - begin, **by}
    found["read sums"] = found.pop("terms") - found["wait for sums"]
    return {name: 1e6 * seconds / steps for name, seconds in found.items()}


def march(card: Gpu) -> None:
    limit, rows, times = bandwidth(card, card.zeros(2 << 30, np.float32)), [], []
    for p in UNITS:
        marched(p, card, 1)  # the host's loops are compiled as matrices grow
        (samples,), alone, loss = marched(p, card, 1)
        sums = again(samples, card, ("sums", 0, samples.n % 2), samples._sums)
        samples.n -= 1  # the last step once more, which changes samples that nobody needs any more
        moves = again(samples, card, ("step", False, samples.n % 2), partial(samples._step, False))
        last, whole = bytes_read(samples, STEPS), sum(bytes_read(samples, n) for n in range(1, STEPS + 1))
        del samples
        _, two, _ = marched(p, card, 2)
        times.append((p, host_times(p, card)))
        rows.append([str(p), f"{alone:.2f}", f"{whole / alone / limit:.0%}", f"{two:.2f}", f"{2 * whole / two / limit:.0%}",
                     f"{1e3 * sums:.2f}", f"{1e3 * moves:.2f}", f"{last / 1e9:.2f}", f"{last / (sums + moves) / limit:.0%}",
                     f"{loss:.5f}"])
    table(f"march of networks on {card.name}, {SAMPLES} samples, {STEPS} steps, read bandwidth measured {limit / 1e12:.2f} TB/s",
          ["units", "march, s", "of the bandwidth", "two, s", "of the bandwidth", "sums at the end, ms", "step, ms", "GB",
           "of the bandwidth", "loss at the end"], rows)
    names = list(times[0][1])
    table("microseconds of a step of one solution; the step of the row, waits and launches of matrices are parts of take",
          ["units", *names], [[str(p), *(f"{found[name]:.0f}" for name in names)] for p, found in times])


def simulator(card: Gpu) -> None:
    rows, first = [], 0.0
    for p in UNITS:
        run = dmft.Experiment(units=p, directions=2, m0=overlaps(p), t_max=20.0, dimension=2000, instances=INSTANCES,
                              record=[0.0, 20.0], alpha=3.0, kind="gd", learning_rate=0.02)
        stepper = GpuNetworks(run, np.arange(INSTANCES), empty_states(run), card)
        each = step_seconds(stepper, 60)
        first = first or each
        rows.append([str(p), f"{1e3 * each:.2f}", f"{4.0 * INSTANCES * 6000 * 2000 / each / 1e12:.2f}", f"{each / first:.2f}"])
    table(f"simulator on {card.name}, {INSTANCES} instances, N = 2000, M = 6000", ["units", "ms/step", "TB/s", "over p = 1"], rows)


def main() -> None:
    try:
        card = gpu("theory")
    except UserError as error:
        return print(f"left out: {error}")
    for part in sys.argv[1:] or ("march", "simulator"):
        {"march": march, "simulator": simulator}[part](card)


if __name__ == "__main__":
    main()
