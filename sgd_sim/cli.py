"""sgd-sim: the command line of the simulator."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from dmft.core import command, store
from dmft.core.errors import Stopped
from dmft.core.locks import lock
from dmft.core.parallel import world
from dmft.core.progress import Progress, say
from dmft.model.runfile import load_run
from dmft.version import __version__
from sgd_sim import archive
from sgd_sim.ensemble import Ensemble
from sgd_sim.result import SimulationResult, make_result
from sgd_sim.resuming import resumed_states
from sgd_sim.simulation import check
from sgd_sim.states import States, empty_states

SOLVED = 1e-7     # training loss below which the teacher counts as found, as in the paper


_EPILOG = """examples:
  sgd-sim run runs/demo.toml                                   simulate; the result goes under runs/out/
  sgd-sim run runs/demo.toml --set simulation.dimension=2000   change a key of the run file
  sgd-sim run runs/demo.toml --resume                          go on after a stop, or extend a finished result
  mpirun -n 4 sgd-sim run runs/demo.toml -o demo.h5            instances spread over ranks, the same numbers

exit codes: 0 done, 2 bad input, 3 every instance diverged, 75 stopped (--resume goes on), 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `sgd-sim`."""
    return command.main_wrapper(_main, arguments)


def _main(arguments: Sequence[str] | None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = command.Parser(prog="sgd-sim", description="Simulate learning dynamics at finite dimension.", epilog=_EPILOG,
                            formatter_class=layout)
    parser.add_argument("--version", action="version", version=f"sgd-sim {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run_parser = commands.add_parser("run", help="run the instances of a run file", description=run_job.__doc__,
                                     epilog=_EPILOG, formatter_class=layout)
    command.run_options(run_parser)
    options = parser.parse_args(arguments)
    return run_job(options)


def run_job(options: argparse.Namespace) -> int:
    """Simulate every instance of RUN.toml and write their curves to a result file."""
    job = command.read_job(options, "simulation", load_run)
    comm, begin = world(), time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(command.naming(options.run))
        check(job.run)
        comm.from_root(lambda: stack.enter_context(lock(job.output)))
        states = comm.from_root(lambda: resumed_states(job.run, job.output)) if job.resume else empty_states(job.run)
        if bool(states.finished(job.run.algorithm.steps).all()) and comm.from_root(lambda: _holds(job)):
            say(f"{job.output}: complete, nothing to do", quiet=job.quiet)
            return command.EXIT_DONE
        stop = stack.enter_context(command.StopSignals(job.time_limit))

        before = states.progress(job.run.algorithm.steps)     # by earlier jobs, for the rate of this one
        if before:
            say(f"{job.output}: going on, {100 * before:.0f} % done", quiet=job.quiet)

        def attrs() -> store.Attributes:
            return {**job.attrs, "ranks": comm.size, "wall_time": time.monotonic() - begin}

        def save(current: States) -> None:
            archive.save_checkpoint(job.output, job.run, current, {**attrs(), "progress_before": before})

        with Progress(1.0, "sgd-sim", job.quiet) as progress:
            stopped = Ensemble(job.run, states, comm, lambda: stop.flags, save, progress.update).go()
        if stopped:
            raise Stopped(f"stopped, {archive.outcome(job.run, states)} done; {job.output}: go on with --resume"
                          if comm.is_root else "stopped", command.exit_code_of(stopped))
        comm.from_root(lambda: archive.save(job.output, job.run, states, attrs()))
        comm.from_root(lambda: store.remove_checkpoint(job.output))
    if comm.is_root:
        _summary(make_result(job.run, states), str(job.output), job.quiet)
    everything = comm.from_root(lambda: bool((states.diverged_at >= 0).all()))
    return command.EXIT_DIVERGED if everything else command.EXIT_DONE


def _holds(job: command.Job) -> bool:
    """Whether the output is the result of this very run."""
    return job.output.exists() and store.load_header(job.output).run_text == job.run.to_toml()


def _summary(result: SimulationResult, path: str, quiet: bool) -> None:
    """The last lines of a run."""
    diverged = int(result.diverged.sum())
    if diverged:
        first = np.nanmin(np.where(result.states.diverged_at >= 0, result.states.diverged_at, np.nan))
        say(f"warning: {diverged} of {result.instances} instances diverged, the first at t = "
            f"{first * result.run.algorithm.learning_rate:g}; a smaller learning_rate may help")
    if diverged < result.instances:
        mean, error, share = result.mean(), result.error(), result.share_below(SOLVED)
        say(f"t = {result.t[-1]:g}: m = {mean.m[-1]:.6f} +- {error.m[-1]:.2g}, loss = {mean.loss[-1]:.6g} +- "
            f"{error.loss[-1]:.2g}, loss < {SOLVED:g} in {100 * share.share[-1]:.1f} % "
            f"({100 * share.low[-1]:.1f} to {100 * share.high[-1]:.1f}) of {result.instances} instances", quiet=quiet)
    say(f"wrote {path}", quiet=quiet)
