"""Solve the mean-field equations of a run file and store curves, kernels and their errors.

examples:
  dmft solve runs/demo.toml -o demo.theory.h5
  dmft solve runs/demo.toml --set algorithm.learning_rate=0.01 --set theory.replicas=16 -o fine.h5
  dmft solve runs/demo.toml --resume                    go on after a stop, or extend a finished result
  mpirun -n 4 dmft solve runs/demo.toml                 the result does not depend on the number of ranks
  dmft solve mine.toml --plugin my_loss.py              a loss of your own (dmft.register_loss)
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

import dmft
from dmft.core.command import (
    EXIT_DIVERGED,
    EXIT_DONE,
    EXIT_NOT_CONVERGED,
    StopSignals,
    naming,
    read_job,
    run_options,
)
from dmft.core.locks import lock
from dmft.core.parallel import world
from dmft.core.progress import say
from dmft.model.runfile import load_run
from dmft.running.runner import outcome_if_complete

EXIT_CODES = {"diverged": EXIT_DIVERGED, "sweep limit": EXIT_NOT_CONVERGED}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_options(parser)


def run(options: argparse.Namespace) -> int:
    job = read_job(options, "theory", load_run)
    with ExitStack() as stack:
        stack.enter_context(naming(options.run))
        world().from_root(lambda: stack.enter_context(lock(job.output)))
        if job.resume and (outcome := world().from_root(lambda: outcome_if_complete(job.run, job.output))):
            say(f"{job.output}: complete ({outcome}); nothing to do", quiet=job.quiet)
            return EXIT_DONE
        stop = stack.enter_context(StopSignals(job.time_limit))
        result = dmft.solve(job.run, output=job.output, resume=job.resume, quiet=job.quiet, stop=stop, attrs=job.attrs)
    say(f"{job.output}: {result!r}", quiet=job.quiet)
    return EXIT_CODES.get(result.outcome, EXIT_DONE)
