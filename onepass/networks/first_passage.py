"""Exit times measured: on the ODE by an event, on the exact chain and on SGD by running instances until they exit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np

from dmft.core.averages import standard_error
from dmft.core.errors import RunError
from onepass.networks.network import Network

Measure = Callable[[dict[str, np.ndarray]], float]


def risk_measure(net: Network, threshold: float) -> Callable[[dict[str, np.ndarray]], Measure]:
    """Exit when the excess risk has fallen by the fraction `threshold`. Takes the start, gives the measure whose
    sign turns positive at the exit."""

    def excess(statistics: dict[str, np.ndarray]) -> float:
        return float(net.observables(statistics)["risk"]) - net.noise / 2.0

    def at(start: dict[str, np.ndarray]) -> Measure:
        level = (1.0 - threshold) * excess(start)
        return lambda statistics: level - excess(statistics)

    return at


def overlap_measure(level: float) -> Callable[[dict[str, np.ndarray]], Measure]:
    """Exit when max_jr |M_jr| reaches `level`: for a trained second layer, whose first steps change the risk without
    learning anything about the teacher."""
    return lambda start: lambda statistics: float(np.abs(statistics["M"]).max()) - level


def ode_exit(
    net: Network, initial: Mapping[str, np.ndarray], measure, t_max: float = 1000.0, rtol: float = 1e-9
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


def measure_exit(
    net: Network,
    dimension: int,
    instances: int,
    measure,
    t_max: float,
    process: str = "chain",
    initial: Mapping[str, np.ndarray] | None = None,
    seed: int = 1,
    resolution: float = 4e-3,
) -> ExitTimes:
    """Run instances from `initial` (default: random weights) until they exit. The measure is evaluated every
    `resolution` * t_max of time and interpolated linearly in between. `process`: "chain" (exact law) or "sgd" (real data)."""
    begin = {"chain": net.chain_process, "sgd": net.sgd_process}.get(process)
    if begin is None:
        raise RunError(f"process = {process!r}; allowed: chain, sgd")
    x0 = net.start(net.random_start(dimension, instances, seed) if initial is None else initial, dimension)
    x0 = np.broadcast_to(x0, (instances, net.layout.size))
    tau = net.time_step(dimension)
    chunk = max(1, round(resolution * t_max / tau))
    times = np.full(instances, np.nan)

    def one(i: int) -> None:
        walk = begin(x0[i], dimension, seed, i)
        inside = measure(net.layout.unpack(x0[i]))
        before = inside(net.layout.unpack(x0[i]))
        done = 0
        while done * tau < t_max:
            walk.advance(chunk)
            done += chunk
            x = walk.flat()
            if not np.isfinite(x).all():
                return
            now = inside(net.layout.unpack(x))
            if now >= 0.0:
                times[i] = tau * (done - chunk * now / (now - before))
                return
            before = now

    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(one, range(instances)))
    return ExitTimes(times, t_max)
