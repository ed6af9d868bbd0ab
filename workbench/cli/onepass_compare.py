"""Compare the ODE with simulations: for every statistic and time the entry that differs most, in standard errors; and a verdict.

The ODE is the limit of infinite dimension: simulations differ from it by O(1/d) besides their error. The verdict is one of: agree;
disagree (|z| is larger than chance explains in a table of this size); cannot tell (the error is above 10 % of the largest value of
a statistic, so that it could hide a wrong ODE); diverged. With start = "random" every instance is compared with the ODE from its
own start.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.core import schema
from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from onepass.result import Ensemble, Trajectory, load
from workbench.inspection.against_ode import against_ode, from_each_start, verdict_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ode", metavar="ODE.h5", type=Path, help="a file of onepass solve")
    parser.add_argument("simulations", metavar="SIM.h5", type=Path, nargs="+", help="files of onepass simulate")
    parser.add_argument("--statistic", action="append", help="compare these alone (default: all); may be repeated")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the comparison")


def run(options: argparse.Namespace) -> int:
    return world().from_root(lambda: _compare(options))


def _compare(options: argparse.Namespace) -> int:
    if options.plot:
        from workbench.plots.onepass_compare import (
            draw_comparison,  # before the work: without matplotlib this ends here
        )
    ode = load(options.ode)
    if isinstance(ode, Ensemble) and ode.source == "ode":       # onepass solve with starts > 1
        ode = ode.mean()
    if isinstance(ode, Ensemble):
        raise FileError(f"{options.ode}: an ensemble ({ode.source}); the first file must come from onepass solve")
    ensembles = [_ensemble(path) for path in options.simulations]
    found, pairs = [], []
    for note in _reservations(ode):
        print(note)
    for path, paths in zip(options.simulations, ensembles, strict=True):
        if ode.run_text.split("[time]")[0] != paths.run_text.split("[time]")[0]:
            print(f"note: {path}: another model or start than the ODE")
        pairs.append(from_each_start(paths) if _random(paths) else (ode, paths))
        found.append(against_ode(*pairs[-1], _names(*pairs[-1], options.statistic, path), str(path)))
        print(found[-1])
    if options.plot:
        draw_comparison(pairs, "mean of the ODEs from the starts of all instances" if _random(ode) else "ODE", options.plot)
        print(f"picture: {options.plot}")
    print(*verdict_lines(found), sep="\n")
    print(f"max |z| = {np.fmax.reduce([one.max_z for one in found]):.2f}")
    return EXIT_DONE


def _reservations(ode: Trajectory) -> list[str]:
    """Why an ODE may differ from its own simulations in any dimension."""
    keys, notes = schema.read_toml(ode.run_text, "run"), []
    if _random(ode):
        notes.append('note: start = "random": every instance is compared with the ODE from its own start; ODE: their mean')
    if keys.get("model", {}).get("reduction") == "mean_field":
        notes.append('note: reduction = "mean_field": this ODE is an approximation for wide networks, off by O(1/width)')
    return notes


def _random(result: Trajectory) -> bool:
    """Whether starts were drawn."""
    return schema.read_toml(result.run_text, "run").get("initial", {}).get("start") == "random"


def _ensemble(path: Path) -> Ensemble:
    paths = load(path)
    if not isinstance(paths, Ensemble):
        raise FileError(f"{path}: one path ({paths.source}); the other files must come from onepass simulate")
    if paths.instances - int(paths.diverged.sum()) < 2:
        raise FileError(f"{path}: fewer than two finite instances; there is no error to compare with")
    return paths


def _names(ode: Trajectory, paths: Ensemble, wanted: list[str] | None, source: Path) -> list[str]:
    both = [name for name in ode.arrays if name in paths.arrays]
    for name in wanted or []:
        if name not in both:
            raise FileError(f"{source}: no statistic {name!r} in both files; there are {', '.join(both)}")
    return wanted or both
