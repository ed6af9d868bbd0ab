"""Measured exit times: of the ODE by an event, of the exact chain and of SGD by running instances until they exit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.averages import standard_error
from dmft.core.driver import drive
from dmft.core.errors import RunError
from dmft.core.stopping import Stop
from dmft.core.store import Stored
from onepass.ensemble import CHECKPOINT_INTERVAL, InstancesJob
from onepass.instances import Walk
from onepass.model import Model
from onepass.process import Batch, Moving, Process, Single
from onepass.request import instance_starts

Measure = Callable[[dict[str, np.ndarray]], float]


def risk_measure(net: Model, threshold: float) -> Callable[[dict[str, np.ndarray]], Measure]:
    """Exit when the excess risk has fallen by the fraction `threshold`. Returns a function of the start that returns the measure:
    a function of the statistics that becomes positive at the exit."""

    def excess(statistics: dict[str, np.ndarray]) -> float:
        return float(net.observables(statistics)["risk"]) - getattr(net, "noise", 0.0) / 2.0

    def at(start: dict[str, np.ndarray]) -> Measure:
        level = (1.0 - threshold) * excess(start)
        return lambda statistics: level - excess(statistics)

    return at


def overlap_measure(level: float, name: str = "M") -> Callable[[dict[str, np.ndarray]], Measure]:
    """Exit when the largest entry of a statistic reaches `level` in size: max_jr |M_jr| of networks (the measure for a trained
    second layer, whose first steps change the risk without learning anything about the teacher), |m| of spiked tensors."""
    return lambda start: lambda statistics: float(np.abs(statistics[name]).max()) - level


def ode_exit(
    net: Model, initial: Mapping[str, np.ndarray], measure, t_max: float = 1000.0, rtol: float = 1e-9
) -> float:
    """Exit time of the ODE, infinite if it does not exit before t_max."""
    start = net.layout.unpack(net.start(initial))
    inside = measure(start)

    def exits(_: float, statistics: dict[str, np.ndarray]) -> float:
        return inside(statistics)

    exits.terminal = True  # type: ignore[attr-defined]
    found = net.solve(initial, [t_max], rtol=rtol, events={"exit": exits}).events["exit"]
    return float(found[0]) if len(found) else float("inf")


@dataclass(frozen=True)
class ExitTimes:
    """Exit times (instances,) of an ensemble; NaN where an instance had not exited by t_max."""

    times: np.ndarray
    t_max: float

    @property
    def share(self) -> float:
        """Share of instances that exited."""
        return float(np.mean(np.isfinite(self.times)))

    @property
    def mean(self) -> float:
        """Mean over those that exited."""
        return float(np.nanmean(self.times)) if self.share else float("nan")

    @property
    def error(self) -> float:
        """Standard error of that mean."""
        return float(standard_error(self.times[np.isfinite(self.times)]))


class ExitProcess:
    """An instance whose measure is evaluated every `chunk` steps, and which stops when it is positive. `flat` is the exit time,
    interpolated linearly between the last two evaluations (NaN: not yet)."""

    def __init__(self, process: Process, unpack: Callable[[np.ndarray], dict[str, np.ndarray]], measure, x0: np.ndarray,
                 chunk: int, tau: float):
        self.process, self.unpack, self.chunk, self.tau = process, unpack, chunk, tau
        self.inside: Measure = measure(unpack(x0))
        self.seen = np.array([0.0, self.inside(unpack(x0)), np.nan])      # steps taken, last measure, exit time
        self.lost = np.zeros(1, bool)

    def advance(self, steps: int) -> None:
        while steps > 0 and np.isnan(self.seen[2]) and not self.lost[0]:
            done = int(self.seen[0])
            taken = min(steps, self.chunk - done % self.chunk)
            self.process.advance(taken)
            steps -= taken
            self.seen[0] = done = done + taken
            if done % self.chunk == 0:
                self._look(done)

    def _look(self, done: int) -> None:
        x = self.process.flat()
        self.lost[0] = not np.isfinite(x).all()
        if self.lost[0]:
            return
        before, now = self.seen[1], self.inside(self.unpack(x))
        if now >= 0.0:
            self.seen[2] = self.tau * (done - self.chunk * now / (now - before))
        self.seen[1] = now

    def flat(self) -> np.ndarray:
        return self.seen[2:].copy()

    @property
    def moving(self) -> Moving:
        return (*getattr(self.process, "moving", ()), self.seen, self.lost)


class ExitJob(InstancesJob):
    """Instances run until they exit. Their measure is a function, which no file can describe, so there are no output files."""

    def __init__(self, walk: Walk, t_max: float):
        super().__init__(walk, "exit times", None, "", CHECKPOINT_INTERVAL)
        self.t_max = t_max

    def compare(self, stored_text: str, source: str) -> list[str]:
        raise RunError(f"{source}: exit times are not kept in files")

    def take_up(self, header: Stored, grew: Sequence[str]) -> bool:
        return False

    def finish(self, attrs: dict[str, Any], output: Path | None) -> ExitTimes:
        return ExitTimes(self.flat[:, 0, 0], self.t_max)

    def load(self, output: Path) -> ExitTimes:
        raise RunError(f"{output}: exit times are not kept in files")


def measure_exit(
    model: Model,
    dimension: int,
    instances: int,
    measure,
    t_max: float,
    process: str = "chain",
    initial: Mapping[str, np.ndarray] | None = None,
    seed: int = 1,
    resolution: float = 4e-3,
    stop: Stop | None = None,
) -> ExitTimes:
    """Run instances from `initial` (default: random weights) until they exit. The measure is evaluated every
    `resolution` * t_max of time and interpolated linearly in between. `process`: "chain" (exact law) or "sgd" (real data).
    Instances are spread over threads and ranks as in every ensemble; all ranks must call it, and all get the result."""
    begin = {"chain": model.chain_process, "sgd": model.sgd_process}.get(process)
    if begin is None:
        raise RunError(f"process = {process!r}; allowed: chain, sgd")
    starts = model.random_start(dimension, instances, seed) if initial is None else initial  # type: ignore[attr-defined]
    x0 = instance_starts(model, starts, instances, dimension)
    tau = model.time_step(dimension)
    chunk = max(1, round(resolution * t_max / tau))

    def watched(indices: np.ndarray, step: int) -> Batch:
        i = int(indices[0])
        return Single(ExitProcess(begin(x0[i].copy(), dimension, seed, i), model.layout.unpack, measure, x0[i], chunk, tau))

    last = chunk * int(np.ceil(t_max / (chunk * tau)))
    return drive(ExitJob(Walk(x0[:, :1], np.array([last]), watched, False), t_max), stop=stop).result
