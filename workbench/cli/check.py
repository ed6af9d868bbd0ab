"""Read a run file as `dmft solve` would and show, without running it, what will be computed: the completed run with every default,
steps, history and kernels, memory, an estimate of the time here and on a GPU, and warnings (an unstable step, few samples for a
small m0, no error bars). `sgd-sim check` does the same for the simulation.

exit codes: 0 the run can be computed, 2 it cannot (bad input, too large for the memory)

examples:
  dmft check runs/demo.toml
  dmft check runs/demo.toml --set theory.samples=1000000
  mpirun -n 4 dmft check runs/demo.toml                 memory and time on four ranks
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from dmft.core.command import EXIT_DONE, load_plugin, naming, set_options
from dmft.core.parallel import Comm, world
from dmft.model.runfile import Run, load_run
from dmft.running.preview import preview


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    set_options(parser)
    parser.add_argument("--plugin", metavar="FILE.py", action="append", default=[], help="Python file with plug-ins")


def run(options: argparse.Namespace) -> int:
    return show(options, "theory")


def show(options: argparse.Namespace, kind: str, check: Callable[[Run, Comm], None] = lambda run, comm: None) -> int:
    """Print what a run of that kind will compute; check(run, comm) refuses what cannot be computed here."""
    for plugin in options.plugin:
        load_plugin(plugin)
    with naming(options.run):
        asked = load_run(options.run, options.overrides)
        check(asked, world())
        told = preview(asked, kind, world())
    if world().is_root:
        print(told)
    return EXIT_DONE
