"""Solve a run at several settings and show how curves and kernels converge: distances, orders, the limit of small steps.

One parameter is varied at a time; every point is compared with the finest of its axis. Points keep their own files in
FILE.h5.points/, so that --resume continues point by point, and added values cost no more than their own points.

examples:
  dmft converge runs/demo.toml --samples 1000,4000,16000
  dmft converge runs/demo.toml --learning-rate 0.02,0.01,0.005 -o steps.h5 --plot steps.png
  dmft converge runs/demo.toml --set theory.method=iterate --mixing 0.25,0.5,1.0
  mpirun -n 4 dmft converge runs/demo.toml --samples 1000,4000 --blocks-per-level 4,8,16
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmft.core.command import EXIT_DIVERGED, EXIT_DONE, EXIT_NOT_CONVERGED, naming, read_job, run_options, speaking
from dmft.core.errors import UserError
from dmft.core.outputs import check_free
from dmft.core.parallel import world
from dmft.core.progress import say
from dmft.core.stopping import StopSignals
from dmft.model.runfile import load_run
from workbench.cli.extras import needs_pictures

# The axes of a study by option, and the keys of the run file that they vary.
KEYS = {"--samples": "theory.samples", "--learning-rate": "algorithm.learning_rate",
        "--blocks-per-level": "theory.blocks_per_level", "--mixing": "theory.mixing"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_options(parser)
    add_axes(parser)
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the study")


def add_axes(parser: argparse.ArgumentParser) -> None:
    """The axes of a study."""
    for option, key in KEYS.items():
        name = key.partition(".")[2]
        read = _list_of(int, "whole numbers") if name in ("samples", "blocks_per_level") else _list_of(float, "numbers")
        parser.add_argument(option, metavar="V1,V2,...", type=read, default=[], help=f"values of {key} to compare; at least two")


def asked(options: argparse.Namespace) -> dict[str, list[Any]]:
    """The axes that were given, by option."""
    return {option: values for option in KEYS if (values := getattr(options, option.strip("-").replace("-", "_")))}


def _list_of(kind: type, what: str) -> Callable[[str], list[Any]]:
    """Reads V1,V2,... as numbers of that kind."""
    def read(text: str) -> list[Any]:
        try:
            return [kind(word) for word in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: write {what} as V1,V2,...") from None

    return read


def run(options: argparse.Namespace) -> int:
    from dmft.convergence.runs import convergence_study, points_folder

    if options.plot:
        needs_pictures()
    if options.device:
        raise UserError("--device: set it with --set theory.device=...")
    job = read_job(options, "convergence", load_run, "theory")
    world().from_root(lambda: check_free(job.output, job.resume, job.force, points_folder(job.output)))
    notes = ("dmft.convergence",)      # but not the notes of every point
    with naming(options.run), speaking(job.quiet, notes), StopSignals(job.time_limit) as stop:
        study = convergence_study(job.run, options.samples, options.learning_rate, options.blocks_per_level, options.mixing,
                                  output=job.output, resume=job.resume, quiet=job.quiet, stop=stop, attrs=job.attrs)
    if world().is_root:
        print(study)
        if options.plot:
            from workbench.plots.convergence import draw
            draw(study, options.plot)
            print(f"picture: {options.plot}")
    say(f"{job.output}: {study.outcome}", quiet=job.quiet)
    return {"diverged": EXIT_DIVERGED, "sweep limit": EXIT_NOT_CONVERGED}.get(study.outcome.split(":")[0], EXIT_DONE)
