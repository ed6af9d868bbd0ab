"""Solve or simulate every point of a grid on this machine, several at a time, and gather all of it into one table and a picture.

Each point has a result file of its own in the folder of the scan, DIR/alpha-2.5_m0-0.1.theory.h5. What is there already is not
computed again: the same command continues after a stop, and a larger grid adds to a smaller one. On a cluster, `dmft submit
--array` does the same with jobs, and `dmft collect` gathers their results.

exit codes: 0 done, 2 bad input, 3 some results diverged (the table names them), 75 stopped, 130 interrupted (the same command
continues)

examples:
  dmft scan runs/demo.toml --grid problem.alpha=2:4:9                        nine values from 2 to 4
  dmft scan runs/demo.toml --grid problem.alpha=2,3,4 --grid algorithm.batch_fraction=0.1,0.5,1
  dmft scan runs/demo.toml --grid problem.alpha=2,3 --with problem.m0=0.3,0.2       pairs instead of a grid
  dmft scan runs/demo.toml --grid problem.alpha=2:4:5 --simulate --processes 4
  dmft scan runs/demo.toml --grid problem.alpha=2:4:5 --compare --times 1,2         theory and simulation
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dmft.core.command import (
    EXIT_DIVERGED,
    EXIT_DONE,
    default_output,
    naming,
    plugin_option,
    seconds,
    set_options,
    speaking,
)
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.stopping import StopSignals
from dmft.model.runfile import load_run
from sgd_sim.result import SOLVED
from workbench.cli.collect import listed_times, show
from workbench.scans.local import kinds_of, run_scan
from workbench.scans.points import Along, grid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", type=Path, help="run file")
    parser.add_argument("--grid", metavar="section.key=VALUES", action="append", default=[],
                        help="v1,v2,... or first:last:count; several make a grid")
    parser.add_argument("--with", dest="grid", metavar="section.key=VALUES", action="append", type=Along,
                        help="values of another key, one for each value of the --grid before it: pairs instead of a grid")
    set_options(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--simulate", action="store_true", help="simulations instead of theories")
    what.add_argument("--compare", action="store_true", help="theories and simulations")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="folder of the scan (default: a name under runs/out/)")
    parser.add_argument("--processes", metavar="P", type=int, default=os.cpu_count() or 1,
                        help="results at a time, each on one core (default: as many as this machine has)")
    parser.add_argument("--times", metavar="T1,T2,...",
                        help="times of the table (default: a quarter, half and all of the shortest run)")
    parser.add_argument("--threshold", metavar="X", type=float, default=SOLVED,
                        help=f"training loss below which an instance has succeeded (default {SOLVED:g})")
    plugin_option(parser)
    parser.add_argument("--time-limit", metavar="HH:MM:SS", help="stop with checkpoints (exit 75) after this time")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    if world().size > 1:
        raise UserError("dmft scan: runs its points side by side by itself; start it without mpirun, or use dmft submit --array")
    if options.processes < 1:
        raise UserError(f"--processes {options.processes}: at least 1")
    if not options.grid:
        raise UserError("--grid: which values? e.g. --grid problem.alpha=2:4:9")
    folder = options.output or default_output(options.run, "theory").parent / options.run.stem
    with naming(options.run), speaking(options.quiet), StopSignals(seconds(options.time_limit)) as stop:
        base, kinds = load_run(options.run, options.overrides), kinds_of(options.simulate, options.compare)
        found = run_scan(base, grid(options.grid, "--grid"), folder, kinds, options.processes, options.threshold, stop,
                         listed_times(options.times), options.plugin, options.quiet)
    show(found, folder / "sweep.h5")
    return EXIT_DIVERGED if any(row.diverged for row in found.rows) else EXIT_DONE
