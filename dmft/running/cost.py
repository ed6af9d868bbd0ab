"""What a run will cost: memory, time and size of its checkpoint, before it is submitted. An estimate, not a promise.

Times are counts of the work times rates measured once, on one core of a shared 2-core x86-64 server with AVX-512 (`process_time` of
solve and simulate in the cases noted below), those of GPUs on an H200. Another machine, and the traffic on its memory, change them:
expect a factor of two either way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmft.core.courses import LONG_COURSE
from dmft.core.parallel import Comm
from dmft.core.progress import time_text
from dmft.model.data import data_of, make_start
from dmft.model.network import network_of
from dmft.model.network_errors import error_seconds
from dmft.model.runfile import Run
from dmft.model.two_times import SNAPSHOTS_HELD, kernel_bytes, snapshot_bytes
from dmft.running.replica import WHOLE, Setup
from dmft.solvers.blocks import blocks_for
from dmft.solvers.iterate import SUM_BLOCKS, iteration_bytes
from dmft.solvers.march import card_has_equations
from dmft.solvers.resources import abreast, march_bytes

# Seconds for a sample and step of the march: a constant, per packed tangent of the history, and per slot of it. Measured on one
# idle core: 0.98 us a sample after 140 steps of a full history, 0.56 us with 116 slots in blocks, 0.62 with 132 (persistent SGD),
# 0.42 to 0.55 ns a tangent; then what one core does for a solution in every step, 0.9 ms with any number of slots.
MARCH_FULL = (0.6e-6, 0.45e-9)
MARCH_DYADIC = (0.35e-6, 0.5e-9)
MARCH_SLOT = 2.0e-9
MARCH_STEP = 0.9e-3
MARCH_RANDOM = (1.5, 2.0)  # by which a random start makes samples and steps longer
# Without samples: seconds of a step, and per pair of slots of the history.
CLOSED_STEP, CLOSED_PAIR = 20e-6, 1.5e-9
ITERATE_PAIR = 45e-9       # s per sample, sweep and pair of times; measured 32 to 72 ns at 100 and 200 steps
ITERATE_SWEEPS = 60        # sweeps to converge at mixing 0.5; measured 55
# Seconds per entry of the data matrix: to draw it, and to read it in one step of the dynamics.
# Measured: 8 to 11 ns; 0.10 to 0.19 ns up to dimension 1000 and 0.35 ns at 2000, where the cache ends.
DRAW_ENTRY = 10e-9
STEP_ENTRY, STEP_ENTRY_LARGE, LARGE_ENTRIES = 0.16e-9, 0.35e-9, 1e7
# On one H200 (docs/notes/performance.md): seconds of a step of the card, where it does the equations (0.118 ms in all with one
# solution of 4000 samples, 0.191 with eight), or else of the host, and for every solution in it, a thread each (0.31 and 1.18);
# seconds per byte of samples on the card, and bytes a second at which the simulator reads its data.
CARD_STEP, GPU_STEP, GPU_SOLUTION, GPU_BYTE = 0.11e-3, 0.2e-3, 0.09e-3, 0.27e-12
GPU_UNIT_STEP, GPU_UNIT_PAIR = 1.3e-3, 1.2e-9  # of a network: the host's seconds of a step, and per unit and pair of entries of Q
GPU_READ = 4.2e12
CARD_BYTES = 139 << 30  # memory of the card
GPU_UNIT = 0.12  # by which every unit of a network makes a step of the simulator longer: 1.12, 1.22, 1.47 for p = 1, 2, 4
GPU_SHARED_ENTRY, GPU_SHARED_STEP = 0.12e-12, 40e-6  # seconds per entry of shared data and start, and of a step at least
CUDA_BYTES = 1 << 30             # bytes of the host that CUDA takes
START = 4.0                # s to start, where compiled loops are on disk; the first run of a kind takes up to 20 s more
PROCESS = 400 << 20        # bytes of an interpreter with its compiled code
MOST_RECORDS = 200         # recorded times, about
STEP_CURVES = 12           # of a replica that are kept at every step
DISK = 100e6               # bytes a second to a busy shared file system
# Bytes of a packed checkpoint for each of a march in blocks: measured 0.55 to 0.85 after 3000 steps of gradient descent, SGD and
# Langevin, 0.51 after 30 000 of gradient descent.
PACKED = 0.7
PACKED_CURVES = 0.6  # of long curves: measured 0.42 to 0.55 of gradient descent
POLL_SECONDS = 0.5                 # s between two polls of the stop signals by the simulator or by several ranks, at most


@dataclass(frozen=True)
class Cost:
    """What one job needs."""

    seconds: float           # from start to end on the given ranks
    rank_bytes: float        # memory of one rank
    checkpoint_bytes: float
    step_seconds: float      # between two polls of the stop signals: a step of the march, a sweep of the iteration, or LOOK
    card_bytes: float = 0.0  # memory of one GPU, where the run asks for one

    def text(self) -> str:
        """The estimate in one line."""
        card = f"{size_text(self.card_bytes)} of each card, " if self.card_bytes else ""
        return (f"estimate (rough, from measured rates): {time_text(self.seconds)} of running time, {card}"
                f"{size_text(self.rank_bytes)} of memory a rank, checkpoints of {size_text(self.checkpoint_bytes)}")

    @property
    def stop_seconds(self) -> float:
        """Seconds of warning that a job needs before it is ended: 30 + 2 x (one step + two checkpoint writes, one of which may be
        under way when the warning comes)."""
        return 30.0 + 2.0 * (self.step_seconds + 2.0 * self.checkpoint_bytes / DISK)


def size_text(count: float) -> str:
    """Bytes as people say them."""
    if count < 2**20:
        return "less than 1 MiB"
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def estimate(run: Run, kind: str, ranks: int = 1, cores: int = 1, cards: int = 0) -> Cost:
    """The cost of a "theory" or a "simulation" on that many ranks with that many cores each; where the run asks for GPUs, on that
    many cards, which the ranks share (0: a card each)."""
    sharers = -(-ranks // (cards or ranks))
    if kind == "theory":
        return _theory_on_gpu(run, ranks, sharers) if run.theory.device == "gpu" else _theory(run, ranks, cores)
    return _simulation_on_gpu(run, ranks, sharers) if run.simulation.device == "gpu" else _simulation(run, ranks, cores)


def _marched(run: Run) -> int:
    """Steps that the theory takes, with those of a spectral start before t = 0."""
    power = make_start(run.problem).power(run.problem.alpha, run.problem.label_noise)
    return run.algorithm.steps + (power.steps if power else 0)


def _replicas(run: Run) -> int:
    """Replicas that a run is solved with: one where nothing is sampled."""
    return run.theory.replicas if data_of(run.problem).sampled else 1


def _march(run: Run, ranks: int) -> tuple[float, float, float]:
    """Of a march with its companions, a replica on average: seconds of one core that are shared by all cores, seconds that every
    rank needs alone, and bytes on a rank."""
    setup, work, alone = Setup.from_run(run), 0.0, 0.0
    if not setup.sampled:
        sizes = [setup.history(solution).slots for solution in setup.solutions(0)]
        filled = 1.0 if setup.per_level else 1 / 3  # on average, of the pairs of slots
        step = sum(CLOSED_STEP + CLOSED_PAIR * filled * slots**2 for slots in sizes)
        return 0.0, setup.experiment.steps * step, replica_bytes(setup)
    longer = MARCH_RANDOM if setup.experiment.start.random else (1.0, 1.0)
    for solution in setup.solutions(0):
        history, sampling = setup.history(solution), setup.sampling(solution, 0)
        constant, rate = MARCH_FULL if history.full else MARCH_DYADIC
        steps = setup.share(solution) * setup.experiment.steps
        alone += steps * longer[1] * MARCH_STEP
        work += steps * longer[0] * (
            sampling.total * (1 + setup.experiment.clones) * (constant + MARCH_SLOT * history.slots)
            + sampling.carriers * rate * history.packed)
    if setup.experiment.network is not None:
        errors = error_times(setup) * (setup.experiment.steps + 1)
        work = work * run.network.units**2 + errors * error_seconds(setup.experiment.network)
    return work, alone, replica_bytes(setup, min(_replicas(run), ranks) / ranks)


def kept_share(setup: Setup) -> float:
    """Bytes of a checkpoint for each byte of the samples of a march: one, where they are not packed."""
    packed = setup.sampled and setup.per_level is not None and setup.experiment.network is None
    return PACKED if packed else 1.0


def error_times(setup: Setup) -> float:
    """How often the error of a network on new samples is computed of a replica: for the result, and for every companion of both
    solutions that are compared."""
    return 1.0 + 2.0 * sum(setup.share(solution) for solution in setup.solutions(0) if solution != WHOLE)


def replica_bytes(setup: Setup, share: float = 1.0) -> float:
    """Bytes of this share of the samples of a march with all companions, as the first replica has them; without samples, of its
    matrices."""
    if not setup.sampled:
        return sum(8 * 3.0 * setup.history(solution).slots**2 for solution in setup.solutions(0))
    if setup.experiment.network is not None:
        return setup.network_bytes(share)
    return share * sum(march_bytes(setup.history(solution), (drawn := setup.sampling(solution, 0)).total, drawn.carriers, True,
                           np.dtype(setup.stored_type).itemsize, setup.experiment.clones) for solution in setup.solutions(0))


def _theory_on_gpu(run: Run, ranks: int, sharers: int) -> Cost:
    """The march with its samples on cards, on each of which `sharers` ranks take turns. The host holds CUDA, and in a checkpoint
    one array of the samples at a time."""
    on_cpu, groups = _theory(run.replace({"theory.device": "cpu"}), ranks, 1), min(_replicas(run), ranks)
    replicas, held = -(-_replicas(run) // groups), _march(run, ranks)[2]
    at_once = min(replicas, abreast(held, CARD_BYTES / sharers, run.has_network))
    rounds, rest = divmod(replicas, at_once)
    step, last = (sharers * _card_step(run, count, GPU_BYTE * count * held) if count else 0.0 for count in (at_once, rest))
    more = (at_once - 1) * held * ranks * kept_share(Setup.from_run(run))
    return Cost(START + _marched(run) * (rounds * step + last), on_cpu.rank_bytes + CUDA_BYTES,
                on_cpu.checkpoint_bytes + more, max(step, POLL_SECONDS), sharers * at_once * held)


def _card_step(run: Run, replicas: int, reading: float) -> float:
    """Seconds of a step of so many replicas with their companions, whose samples take the card so long. What the card does besides
    comes on top; what the host does comes on top for one solution, and with several goes on beside it, but for a part; of networks,
    whose replicas the host takes one after the other, with what it takes later for errors on new samples."""
    setup, p = Setup.from_run(run), run.network.units
    if setup.experiment.network is None:
        solutions = replicas * sum(setup.share(name) for name in setup.solutions(0))
        if card_has_equations(setup.experiment, setup.wanted, setup.history(WHOLE)):
            return CARD_STEP * len(setup.solutions(0)) + reading    # companions have launches of their own
        host = GPU_STEP + GPU_SOLUTION * solutions
        return max(host, reading) + min(host, reading) / solutions
    filled = 1.0 if setup.per_level else 1 / 3  # on average, of the pairs of slots
    each = (setup.share(name) * (GPU_UNIT_STEP + GPU_UNIT_PAIR * filled * p * (p * setup.history(name).slots) ** 2)
            for name in setup.solutions(0))
    return max(replicas * (sum(each) + error_times(setup) * error_seconds(setup.experiment.network)), reading)


def _lines(run: Run) -> int:
    """Runs of the algorithm: instances, or two copies of each."""
    return run.simulation.instances * (2 if run.simulation.kernels and not run.has_network or run.simulation.clones else 1)


def _simulation_on_gpu(run: Run, ranks: int, sharers: int) -> Cost:
    """The simulation on cards, each of which `sharers` ranks use at the same time: every step reads the rows of the mini-batch
    once, or multiplies all rows of a shared landscape."""
    n, instances, units = run.simulation.dimension, _lines(run), max(run.network.units, 1)
    on_card = min(sharers * -(-instances // ranks), instances)
    bytes_each = (2.0 if run.simulation.precision == "float16" else 4.0) * run.problem.alpha * n * n
    fraction = float(run.algorithm.at_steps("batch_fraction").mean())
    states = instances * (8.0 * n * units + run.problem.alpha * n) + run.simulation.instances * kernel_bytes(run)
    shared = run.simulation.landscape == "shared"
    step = on_card * bytes_each * fraction / GPU_READ * (1.0 + GPU_UNIT * units * run.has_network)
    if shared:
        step = max(on_card * run.problem.alpha * n * n * GPU_SHARED_ENTRY, GPU_SHARED_STEP)
    held = bytes_each * (min(sharers, instances) if shared else on_card) + states
    return Cost(START + run.algorithm.steps * step, PROCESS + CUDA_BYTES + states, states, POLL_SECONDS, held)


def _theory(run: Run, ranks: int, cores: int) -> Cost:
    """The theory on CPUs."""
    theory, steps = run.theory, _marched(run)
    groups = min(_replicas(run), ranks)                  # replicas side by side, each on ranks / groups ranks
    if theory.method == "march":
        work, alone, held = _march(run, ranks)
        polls = steps
        state = held * ranks / groups * kept_share(Setup.from_run(run))
    else:
        polls = min(theory.max_sweeps, ITERATE_SWEEPS)
        counts = (theory.samples, theory.samples // 2)[: 1 + theory.companions]
        work, alone = sum(counts) * 0.5 * steps**2 * ITERATE_PAIR * polls, 0.0
        state = 32.0 * steps**2
        totals = [blocks_for(count, count, Comm(), SUM_BLOCKS).total for count in counts]
        blocks = [-(-total * groups // ranks) for total in totals]
        held = sum(iteration_bytes(steps, count, theory.noise == "fresh") for count in blocks)
    rounds = -(-_replicas(run) // groups)
    replica = work * groups / (ranks * cores) + alone
    curves = STEP_CURVES * (steps + 1) * _replicas(run)
    kept = SNAPSHOTS_HELD * snapshot_bytes(run) + 8.0 * (12 * min(steps + 1, 1000) ** 2 + curves)
    packed = 8.0 * curves * (1.0 - PACKED_CURVES) if steps + 1 >= LONG_COURSE else 0.0
    return Cost(START + rounds * replica, PROCESS + held + kept, state * groups + kept - packed,
                max(replica / polls, POLL_SECONDS))


def _simulation(run: Run, ranks: int, cores: int) -> Cost:
    """The simulation on CPUs."""
    n, count = run.simulation.dimension, _lines(run)
    entries = run.problem.alpha * n * n
    step = STEP_ENTRY if entries < LARGE_ENTRIES else STEP_ENTRY_LARGE
    shared = run.simulation.landscape == "shared"
    drawn = 1 if shared else count
    share = -(-count // ranks) / count                   # of the rank with most instances
    units = max(run.network.units, 1)
    work = entries * (DRAW_ENTRY * (1.0 / share if shared else drawn) + step * units * run.algorithm.steps * count)
    if run.has_network:  # errors are computed by one core, once for the result and once for the file
        records = run.simulation.record
        times = min(run.algorithm.steps + 1, MOST_RECORDS if isinstance(records, str) else len(records))
        work += 2.0 * cores / share * count * times * error_seconds(network_of(run.network, run.problem))
    states = count * (8.0 * n * units + run.problem.alpha * n) + run.simulation.instances * kernel_bytes(run)
    held = 4.0 * entries * (1 if shared else min(cores, -(-count // ranks)))
    return Cost(START + share * work / cores, PROCESS + held + states, states, POLL_SECONDS)
