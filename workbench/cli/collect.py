"""Gather the results of a scan (theory, simulation or both) into one table and a picture.

The table has a row per result file in DIR: the keys in which the runs differ, m and loss at a few times with their
errors and, of simulations, the share of instances whose training loss is below a threshold, with its 95 % binomial
interval. The picture shows m, and that share, against the scanned key (threshold curves), for each dimension; where two keys
make a grid, as a map over both unless --against names one.

examples:
  dmft collect runs/out/demo                                 writes runs/out/demo/sweep.h5 and sweep.png
  dmft collect runs/out/demo --times 10,100 --threshold 1e-6
  dmft collect runs/out/demo --against problem.m0 -o m0.h5 --plot m0.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core import store
from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError, UserError
from dmft.core.parallel import world
from sgd_sim.result import SOLVED
from workbench.cli.extras import can_draw, needs_pictures
from workbench.scans.gathering import gathered, table_lines, unfinished
from workbench.scans.scan import Scan, make_scan

MOST_DIVERGED = 3  # results that are named in a line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder with the result files, searched to any depth")
    parser.add_argument("-o", "--output", metavar="FILE.h5", type=Path, help="the table (default: DIR/sweep.h5)")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="the picture (default: beside the table)")
    parser.add_argument("--times", metavar="T1,T2,...",
                        help="times to tabulate (default: a quarter, half and all of the shortest run)")
    parser.add_argument("--threshold", metavar="X", type=float, default=SOLVED,
                        help=f"training loss below which an instance has succeeded (default {SOLVED:g})")
    parser.add_argument("--against", metavar="section.key",
                        help="key on the horizontal axis (default: a map over two keys, or the one with most values)")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    if options.plot:
        needs_pictures()
    output = options.output or options.folder / "sweep.h5"
    rows = gathered(options.folder, options.threshold)
    if left := unfinished(options.folder):
        print(f"note: {len(left)} unfinished results left out, e.g. {left[0]}")
    scan = make_scan(rows, listed_times(options.times), options.threshold)
    against = _axis(scan, options.against)
    show(scan, output, options.plot, against)
    return EXIT_DONE


def show(scan: Scan, output: Path, picture: Path | None = None, against: str | None = None) -> None:
    """Print and keep the table of a scan, and draw it."""
    if output.exists() and store.load_header(output).kind != "sweep":
        raise FileError(f"{output}: exists and is not a table of a scan; -o names another")
    print("\n".join(table_lines(scan)))
    if bad := [row.path.name for row in scan.rows if row.diverged]:
        more = f" and {len(bad) - MOST_DIVERGED} more" if len(bad) > MOST_DIVERGED else ""
        print(f"diverged, in whole or in part: {', '.join(bad[:MOST_DIVERGED])}{more} ({len(bad)} of {len(scan.rows)} results); "
              "dmft inspect says when, and a smaller learning rate may help")
    scan.save(output)
    print(f"table: {output}")
    if not can_draw():
        print("no picture: matplotlib is missing; install the extra [plot]")
        return
    from workbench.plots.scan import draw  # matplotlib is an extra

    place = picture or output.with_suffix(".png")
    draw(scan, place, against)
    print(f"picture: {place}")


def listed_times(text: str | None) -> list[float] | None:
    try:
        times = None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        times = []
    if times is not None and (not times or not all(0.0 <= time < float("inf") for time in times)):
        raise UserError(f"--times {text!r}: write times >= 0 separated by commas, e.g. 1,10")
    return times


def _axis(scan: Scan, wanted: str | None) -> str | None:
    """The key for the axis of the picture, if one is wanted."""
    if wanted is None:
        return None
    numbers = scan.numeric()
    if wanted not in numbers:
        raise UserError(f"--against {wanted}: not a number that differs between these results "
                        f"(there is {', '.join(numbers) or 'none'})")
    return wanted
