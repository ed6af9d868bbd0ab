"""Integrate the deterministic limit of a run file and store its statistics."""

from __future__ import annotations

import argparse
import time

from dmft.core import command, store
from dmft.core.parallel import world
from dmft.core.progress import say
from onepass import runfile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    command.run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = command.read_job(options, "ode", runfile.load_run, "simulation")
    return world().from_root(lambda: _solve(job))


def _solve(job: command.CommandJob) -> int:
    """Integrate on the root rank alone: one path is too little work to share."""
    begin = time.monotonic()
    the_run: runfile.OnePassRun = job.run
    if job.resume and job.output.exists() and not _longer(job, the_run):
        say(f"{job.output}: complete, nothing to do", quiet=job.quiet)
        return command.EXIT_DIVERGED if store.load_header(job.output).attrs.get("outcome") == "diverged" else command.EXIT_DONE
    path = the_run.solve(the_run.start(), the_run.time.grid())
    path.run_text = the_run.to_toml()
    path.attrs.update(job.attrs, wall_time=time.monotonic() - begin, ranks=world().size)
    path.save(job.output)
    if path.attrs["outcome"] == "diverged":
        say(f"the ODE diverged; what was reached is in {job.output}")
        return command.EXIT_DIVERGED
    if "risk" in path.arrays:
        say(f"t = {path.t[-1]:g}: risk = {path.risk[-1]:.8g}", quiet=job.quiet)
    say(f"wrote {job.output}", quiet=job.quiet)
    return command.EXIT_DONE


def _longer(job: command.CommandJob, the_run: runfile.OnePassRun) -> bool:
    """True if the stored path ends before the t_max of the run; any other change of the run file is refused."""
    old = runfile.parse_run(store.load_header(job.output).run_text, str(job.output))
    simulated = () if the_run.initial_keys["start"] == "random" else ("simulation.",)
    ignored = ("simulation.process", "simulation.instances", "simulation.checkpoint_interval", *simulated)
    return bool(runfile.grown(old, the_run, ("time.t_max", "time.points"), ignored, str(job.output)))
