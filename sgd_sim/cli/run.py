"""Simulate every instance of RUN.toml and write their curves to a result file.

examples:
  sgd-sim run runs/demo.toml                                   simulate; the result goes under runs/out/
  sgd-sim run runs/demo.toml --set simulation.dimension=2000   change a key of the run file
  sgd-sim run runs/demo.toml --resume                          continue after a stop, or extend a finished result
  mpirun -n 4 sgd-sim run runs/demo.toml -o demo.h5            instances spread over ranks, the same numbers

exit codes: 0 done, 2 bad input, 3 every instance diverged, 75 stopped (--resume continues), 130 interrupted
"""

from __future__ import annotations

import argparse

from dmft.core import command
from dmft.core.averages import with_error
from dmft.core.progress import say
from dmft.core.stopping import StopSignals
from dmft.model.runfile import load_run
from sgd_sim.result import SOLVED, SimulationResult
from sgd_sim.simulation import simulate_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = command.read_job(options, "simulation", load_run, "simulation")
    with command.naming(options.run), command.speaking(job.quiet), StopSignals(job.time_limit) as stop:
        result, worked = simulate_job(job.run, job.output, job.resume, job.quiet, stop, job.attrs)
    if worked:
        _summary(result, str(job.output), job.quiet)
    return command.EXIT_DIVERGED if result.diverged.all() else command.EXIT_DONE


def _summary(result: SimulationResult, path: str, quiet: bool) -> None:
    """The last lines of a run."""
    if not result.diverged.all():
        mean, error, share = result.mean(), result.error(), result.share_below(SOLVED)
        network = result.run.has_network
        shown = f"mse = {with_error(mean.mse[-1], error.mse[-1])}" if network and "mse" in mean else \
            f"m = {with_error(mean.m[-1], error.m[-1])}" if not network else "a network"
        say(f"t = {result.t[-1]:g}: {shown}, "
            f"loss = {with_error(mean.loss[-1], error.loss[-1])}, loss < {SOLVED:g} in {100 * share.share[-1]:.1f} % "
            f"({100 * share.low[-1]:.1f} to {100 * share.high[-1]:.1f}) of {result.instances} instance"
            f"{'s' if result.instances != 1 else ''}", quiet=quiet)
    say(f"wrote {path}", quiet=quiet)
