"""Read a run file as `dmft solve` would and show, without running it, what will be computed: the completed run with every default,
steps, history and kernels, memory, an estimate of the time here and on a GPU, and warnings (an unstable step, few samples for a
small m0, no error bars). With theory.target_error a pilot of a few thousand samples is solved, if that takes less than a minute, to
tell how many replicas it will take. `sgd-sim check` does the same for the simulation.

exit codes: 0 the run can be computed, 2 it cannot (bad input, too large for the memory)

examples:
  dmft check runs/demo.toml
  dmft check runs/demo.toml --set theory.samples=1000000
  mpirun -n 4 dmft check runs/demo.toml                 memory and time on four ranks
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

from dmft.api import solve
from dmft.convergence.planning import Target, pilot_of, replicas_for_target
from dmft.core.command import EXIT_DONE, naming, run_file_options
from dmft.core.errors import DmftWarning, UserError
from dmft.core.parallel import Comm, world
from dmft.core.progress import say, time_text
from dmft.model.data import is_sampled
from dmft.model.runfile import Run, load_run
from dmft.running.cost import estimate
from dmft.running.preview import preview

SHORT_PILOT, LONG_PILOT = 20.0, 60.0  # s: of one with all samples, and of one that is worth its time to somebody who only asks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_file_options(parser)


def run(options: argparse.Namespace) -> int:
    return show(options, "theory")


def show(options: argparse.Namespace, kind: str, check: Callable[[Run, Comm], None] = lambda run, comm: None) -> int:
    """Print what a run of that kind will compute; check(run, comm) refuses what cannot be computed here."""
    with naming(options.run):
        asked = load_run(options.run, options.overrides)
        check(asked, world())
        told = str(preview(asked, kind, world()))
        if kind == "theory" and asked.theory.target_error > 0 and is_sampled(asked.problem):
            told += "\n" + _until_target(asked, world())
    if world().is_root:
        print(told)
    return EXIT_DONE


def _timed(run: Run, comm: Comm) -> tuple[Run, float]:
    return run, estimate(run, "theory", comm.size, comm.threads()).seconds


def _until_target(asked: Run, comm: Comm) -> str:
    """How many replicas theory.target_error takes, and how long; from a pilot."""
    first, target = asked.theory.replicas, asked.theory.target_error
    at_the_end = Target("m", target, False, asked.algorithm.last_time)
    # With few samples the scatter falls faster than 1/sqrt(samples): as many as the run has, where that is quick.
    pilot, seconds = _timed(pilot_of(asked, at_the_end, asked.theory.samples), comm)
    if seconds > SHORT_PILOT:
        pilot, seconds = _timed(pilot_of(asked, at_the_end), comm)
    if seconds > LONG_PILOT:
        return (f"target_error = {target:g}: the times are those of the first {first} replicas; dmft plan works out how many it "
                f"will take (its pilot takes about {time_text(seconds)})")
    say(f"pilot of {pilot.theory.replicas} x {pilot.theory.samples} samples for target_error: about {time_text(seconds)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmftWarning)  # of the pilot, not of the run
        solved = solve(pilot, quiet=True)
    try:
        replicas, bias = replicas_for_target(asked, solved)
    except UserError as error:
        return f"warning: {error}"
    whole = estimate(asked.replace({"theory.replicas": replicas}), "theory", comm.size, comm.threads())
    told = (f"target_error = {target:g}: about {replicas} replicas instead of {first}, about {time_text(whole.seconds)} on this "
            f"machine (from a pilot of {pilot.theory.replicas} x {pilot.theory.samples} samples)")
    if bias > target:
        told += (f"\nwarning: the bias of {asked.theory.samples} samples is about {bias:.2g}, above the target, and replicas do "
                 f"not lower it: take theory.samples of about {asked.theory.samples * bias / target:.2g}")
    return told
