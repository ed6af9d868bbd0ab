"""Solve the mean-field equations of a run file and store curves, kernels and their errors.

examples:
  dmft solve runs/demo.toml -o demo.theory.h5
  dmft solve runs/demo.toml --set algorithm.learning_rate=0.01 --set theory.replicas=16 -o fine.h5
  dmft solve runs/demo.toml --resume                    continue after a stop, or extend a finished result
  mpirun -n 4 dmft solve runs/demo.toml                 the result does not depend on the number of ranks
  dmft solve mine.toml --plugin my_loss.py              a loss of your own (dmft.register_loss)
"""

from __future__ import annotations

import argparse

from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, EXIT_NOT_CONVERGED, naming, read_job, run_options, speaking
from dmft.core.progress import say
from dmft.core.stopping import StopSignals
from dmft.model.runfile import load_run
from dmft.running.runner import solve_job

EXIT_CODES = {"diverged": EXIT_DIVERGED, "sweep limit": EXIT_NOT_CONVERGED}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = read_job(options, "theory", load_run, "theory")
    with naming(options.run), speaking(job.quiet), StopSignals(job.time_limit) as stop:
        result, worked = solve_job(job.run, job.output, job.resume, job.quiet, stop, job.attrs)
    if worked:
        say(f"{job.output}: {result}", quiet=job.quiet)
    return EXIT_CODES.get(result.outcome, EXIT_DONE)
