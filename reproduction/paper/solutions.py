"""Solutions of a theory side by side, each in a process of its own: what a card with many cores beside it is quickest at, where
there is no MPI. Solutions alone, without the companions that `dmft solve` has for bias and history; seed and index are those of
its replicas, and so are the numbers. Processes share the card by NVIDIA's service (dmft/core/sharing.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from dmft.core.averages import mean_and_error
from dmft.core.device import gpu
from dmft.core.parallel import Comm
from dmft.core.provenance import provenance
from dmft.core.sharing import share_cards
from dmft.model.experiment import known_errors
from dmft.model.runfile import Run, parse_run
from dmft.running.replica import WHOLE, Setup
from dmft.samples.card_steps import LAUNCHED_AHEAD
from dmft.samples.gpu import Card
from dmft.solvers.march import March
from reproduction.paper.numbers import DRAWN, Lines

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
WARM_UP = 20  # steps of the first process, which compiles for the others
CLOCK_EVERY = 64  # steps between two looks at the clock


def solution(text: str, index: int, deadline: float | None = None, steps: int | None = None) -> tuple[dict[str, np.ndarray], int]:
    """Curves (n+1,) of replica `index` of a run, and the steps that were made until the deadline (of time.time), or until it
    diverged."""
    run = parse_run(text)
    card = gpu("theory") if run.theory.device == "gpu" else None
    setup = Setup.from_run(run, gpu=card)
    march = March(setup.experiment, setup.sampling(WHOLE, index), setup.blocks(WHOLE), setup.wanted, Comm(), setup.stored_type,
                  Card(card, LAUNCHED_AHEAD) if card else None)
    while not march.done and (steps is None or march.n < steps):
        if deadline is not None and march.n % CLOCK_EVERY == 0 and time.time() > deadline:
            break
        march.step()
    if card:
        card.wait()
    curves = {**march.curves, **known_errors(run, march.curves)}
    found = {name: np.asarray(curves[name], float) for name in DRAWN if name in curves}
    good = np.isfinite(found["m"]) & np.isfinite(found["loss"])
    return found, int(np.argmin(np.append(good, False))) - 1


def side_by_side(run: Run, processes: int, deadline: float | None, say: Callable[[str], None]) -> Lines | None:
    """All replicas of a run, so many at a time. Up to the time that all of them reached, if the deadline came first; None where
    that is no time at all, or where fewer than two are left. Solutions that diverged before are left out."""
    began, replicas = time.time(), run.theory.replicas
    text = run.replace({"theory.waiting_times": [0.0]}).to_toml()    # figures show no columns
    if run.theory.device == "gpu" and (turns := share_cards(processes)):
        say(f"processes take turns on the card: {turns}")
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with ProcessPoolExecutor(min(processes, replicas), get_context("spawn")) as pool:
            pool.submit(solution, text, 0, None, WARM_UP).result()
            waiting = [pool.submit(solution, text, index, deadline) for index in range(replicas)]
            found = []
            for k, future in enumerate(waiting):
                found.append(future.result())
                say(f"solution {k + 1} of {replicas}: {time.time() - began:.0f} s")
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    late = deadline is not None and time.time() > deadline
    whole = [curves for curves, last in found if last == run.algorithm.steps or late]
    reached = min((last for _, last in found if last == run.algorithm.steps or late), default=0)
    if len(whole) < 2 or reached < 1:
        return None
    statistics = {}
    for name in whole[0]:
        mean, error = mean_and_error(np.array([curves[name][: reached + 1] for curves in whole]))
        statistics[name] = {"mean": mean, "error": error}
    made: dict[str, Any] = {key: provenance()[key] for key in ("package_version", "revision")}
    t = run.algorithm.first_rate * np.arange(reached + 1)
    made |= {"wall_time": time.time() - began, "diverged": len(found) - len(whole)}
    return Lines(run, t, len(whole), statistics, made, None)
