"""Gather the results of a scan (theory, simulation or both) into one table and a picture.

The table has a row per result file in DIR: the keys in which the runs differ, m and loss at a few times with their
errors and, of simulations, the share of instances whose training loss is below a threshold, with its 95 % binomial
interval. The picture shows m, and that share, against the scanned key (threshold curves), for each dimension.

examples:
  dmft collect runs/out/demo                                 writes runs/out/demo/sweep.h5 and sweep.png
  dmft collect runs/out/demo --times 10,100 --threshold 1e-6
  dmft collect runs/out/demo --against problem.m0 -o m0.h5 --plot m0.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sgd_sim
from dmft.core import store
from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError, UserError
from dmft.core.parallel import world
from dmft.files import layouts
from dmft.model.runfile import parse_run
from sgd_sim.result import SOLVED
from workbench.cli.extras import can_draw, needs_pictures
from workbench.scans.scan import SCANNED_KINDS, Scan, ScanRow, make_scan, value_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder with the result files, searched to any depth")
    parser.add_argument("-o", "--output", metavar="FILE.h5", type=Path, help="the table (default: DIR/sweep.h5)")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="the picture (default: beside the table)")
    parser.add_argument("--times", metavar="T1,T2,...",
                        help="times to tabulate (default: a quarter, half and all of the shortest run)")
    parser.add_argument("--threshold", metavar="X", type=float, default=SOLVED,
                        help=f"training loss below which an instance has succeeded (default {SOLVED:g})")
    parser.add_argument("--against", metavar="section.key", help="key on the horizontal axis (default: the one with most values)")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    if options.plot:
        needs_pictures()
    output = options.output or options.folder / "sweep.h5"
    rows = [row for path in _results(options.folder) if (row := _row(path, options.threshold))]
    if not rows:
        raise FileError(f"{options.folder}: no result of a theory or simulation in it; name the folder of a scan")
    scan = make_scan(rows, _times(options.times), options.threshold)
    against = _axis(scan, options.against)
    if output.exists() and store.load_header(output).kind != "sweep":
        raise FileError(f"{output}: exists and is not a table of a scan; -o names another")
    _print_table(scan)
    scan.save(output)
    print(f"table: {output}")
    if not can_draw():
        print("no picture: matplotlib is missing; install the extra [plot]")
        return EXIT_DONE
    from workbench.plots.scan import draw  # matplotlib is an extra

    picture = options.plot or output.with_suffix(".png")
    draw(scan, against, picture)
    print(f"picture: {picture}")
    return EXIT_DONE


def _results(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FileError(f"{folder}: not a folder; name the one that holds the result files of a scan")
    open_points = [path for path in folder.rglob("*.checkpoint") if not path.with_suffix("").exists()]
    if open_points:
        print(f"note: {len(open_points)} unfinished results left out, e.g. {open_points[0].with_suffix('')}")
    return sorted(folder.rglob("*.h5"))


def _row(path: Path, threshold: float) -> ScanRow | None:
    """A result as a row of the table; None for files of other kinds."""
    header = store.load_header(path)
    if header.kind not in SCANNED_KINDS:
        return None
    experiment = parse_run(header.run_text, str(path), any_loss=True)
    layouts.check(header)
    if experiment.has_network:
        raise FileError(f"{path}: a network, whose overlaps are matrices: tables of scans hold one m; use dmft compare or export")
    if header.kind == "theory":
        t, m, m_error, loss, loss_error = (store.read(path, name) for name in ("t", "m", "m_error", "loss", "loss_error"))
        return ScanRow(path, "theory", experiment, header.shapes["replicas/m"][0], t, m, m_error, loss, loss_error)
    result = sgd_sim.load(path)
    mean, error, share = result.mean(), result.error(), result.share_below(threshold)
    return ScanRow(path, "simulation", experiment, result.instances, result.t, mean.m, error.m, mean.loss, error.loss,
                   share.share, share.low, share.high)


def _times(text: str | None) -> list[float] | None:
    try:
        times = None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        times = []
    if times is not None and (not times or not all(0.0 <= time < float("inf") for time in times)):
        raise UserError(f"--times {text!r}: write times >= 0 separated by commas, e.g. 1,10")
    return times


def _axis(scan: Scan, wanted: str | None) -> str:
    """The key for the axis of the picture."""
    if wanted is None:
        return scan.axis()
    numbers = scan.numeric()
    if wanted not in numbers:
        raise UserError(f"--against {wanted}: not a number that differs between these results "
                        f"(there is {', '.join(numbers) or 'none'})")
    return wanted


def _print_table(scan: Scan) -> None:
    keys = list(scan.parameters)
    names = [key.partition(".")[2] for key in keys]
    heads = ["file of", *names, *(f"m({time:g})" for time in scan.times)]
    shares = np.isfinite(scan.arrays["share"]).any()
    if shares:
        heads += [f"loss < {scan.threshold:g} at {time:g}" for time in scan.times]
    lines = [heads]
    for i, row in enumerate(scan.rows):
        line = [row.kind, *("" if (value := value_of(row, key)) is None else str(value) for key in keys)]
        line += [f"{m:.5f} +- {error:.1g}" for m, error in zip(scan.arrays["m"][i], scan.arrays["m_error"][i])]
        if shares:
            line += ["" if np.isnan(share) else f"{100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})" for share, low, high
                     in zip(*(scan.arrays[name][i] for name in ("share", "share_low", "share_high")))]
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        print("  ".join(word.rjust(width) for word, width in zip(line, widths)))
