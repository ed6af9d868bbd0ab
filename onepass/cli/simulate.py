"""Run independent instances in finite dimension: SGD on real data, the exact chain of the statistics, or the SDE.

Instances are spread over ranks and threads; the random numbers of an instance depend on its number alone, so the result does not
depend on either. A stopped run keeps all its instances, finished or not, in a checkpoint, from which --resume continues.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core import command
from dmft.core.progress import say
from dmft.core.stopping import StopSignals
from onepass import runfile
from onepass.ensemble import run_job
from onepass.result import Ensemble


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = command.read_job(options, "simulation", runfile.load_run, "simulation")
    with command.naming(options.run), command.speaking(job.quiet), StopSignals(job.time_limit) as stop:
        result, worked = run_job(runfile.ensemble_job(job.run), job.output, job.resume, job.quiet, stop, job.attrs)
    if worked:
        _summary(result, job.output, job.quiet)
    return command.EXIT_DIVERGED if result.diverged.all() else command.EXIT_DONE


def _summary(result: Ensemble, output: Path, quiet: bool) -> None:
    """The last lines of a run."""
    kept = result.instances - int(result.diverged.sum())
    if kept > 1 and "risk" in result.arrays:
        risk, error = result.mean().risk[-1], result.error().risk[-1]
        say(f"t = {result.t[-1]:g}: risk = {risk:.6g} +- {error:.2g}, {kept} instances", quiet=quiet)
    say(f"wrote {output}", quiet=quiet)
