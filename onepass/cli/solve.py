"""Integrate the deterministic limit of a run file and store its statistics: one path, or one from each of [initial] starts."""

from __future__ import annotations

import argparse

from dmft.core import command
from dmft.core.driver import drive
from dmft.core.progress import say
from dmft.core.stopping import StopSignals
from onepass import runfile
from onepass.result import Ensemble, Trajectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = command.read_job(options, "ode", runfile.load_run, "simulation")
    with command.naming(options.run), command.speaking(job.quiet), StopSignals(job.time_limit) as stop:
        path, worked = drive(runfile.solve_job(job.run), job.output, job.resume, job.quiet, stop, job.attrs)
    diverged = path.attrs["outcome"] == "diverged"
    if worked and diverged:
        say(f"the ODE diverged; what was reached is in {job.output}")
    elif worked:
        _summary(path, job.quiet)
        say(f"wrote {job.output}", quiet=job.quiet)
    return command.EXIT_DIVERGED if diverged else command.EXIT_DONE


def _summary(path: Trajectory, quiet: bool) -> None:
    if "risk" not in path.arrays:
        return
    if isinstance(path, Ensemble):
        risk, error = path.mean().risk[-1], path.error().risk[-1]
        say(f"t = {path.t[-1]:g}: risk = {risk:.6g} +- {error:.2g}, {path.instances} starts", quiet=quiet)
    else:
        say(f"t = {path.t[-1]:g}: risk = {path.risk[-1]:.8g}", quiet=quiet)
