"""Hold the ODE against simulations: per statistic and time the entry that is furthest off, in standard errors.

The ODE is the limit of infinite dimension: simulations differ from it by O(1/d) besides their error.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from dmft.result.comparison import Comparison, Curve, compare, instances_curve
from onepass.result import Ensemble, Trajectory, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ode", metavar="ODE.h5", type=Path, help="a file of onepass solve")
    parser.add_argument("simulations", metavar="SIM.h5", type=Path, nargs="+", help="files of onepass simulate")
    parser.add_argument("--statistic", action="append", help="compare these alone (default: all); may be repeated")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the comparison")


def run(options: argparse.Namespace) -> int:
    return world().from_root(lambda: _compare(options))


def _compare(options: argparse.Namespace) -> int:
    ode = load(options.ode)
    if isinstance(ode, Ensemble):
        raise FileError(f"{options.ode}: an ensemble ({ode.source}); the first file must come from onepass solve")
    ensembles = []
    for path in options.simulations:
        paths = load(path)
        if not isinstance(paths, Ensemble):
            raise FileError(f"{path}: one path ({paths.source}); the other files must come from onepass simulate")
        if paths.instances - int(paths.diverged.sum()) < 2:
            raise FileError(f"{path}: fewer than two finite instances; there is no error to compare with")
        ensembles.append(paths)
    worst = np.nan      # until something was compared
    for path, paths in zip(options.simulations, ensembles, strict=True):
        if ode.run_text.split("[time]")[0] != paths.run_text.split("[time]")[0]:
            print(f"note: {path}: another model or start than the ODE")
        worst = np.fmax(worst, _table(ode, paths, options, path))
    if options.plot:
        from dmft.plots.onepass_compare import draw_comparison

        draw_comparison(ode, ensembles, options.plot)
        print(f"picture: {options.plot}")
    print(f"max |z| = {worst:.2f}")
    return EXIT_DONE


def _names(ode: Trajectory, paths: Ensemble, wanted: list[str] | None, source: Path) -> list[str]:
    both = [name for name in ode.arrays if name in paths.arrays]
    for name in wanted or []:
        if name not in both:
            raise FileError(f"{source}: no statistic {name!r} in both files; there are {', '.join(both)}")
    return wanted or both


def entries(ode: Trajectory, paths: Ensemble, name: str) -> list[tuple[str, Comparison]]:
    """One comparison per entry of a statistic that varies; symmetric entries once."""
    flat_ode = ode[name].reshape(len(ode.t), -1)
    flat = paths[name][~paths.diverged].reshape(int((~paths.diverged).sum()), len(paths.t), -1)
    shape = ode[name].shape[1:]
    found = []
    for i in range(flat_ode.shape[1]):
        index = tuple(int(j) for j in np.unravel_index(i, shape)) if shape else ()
        if name in ("Q", "R") and index[0] > index[1]:
            continue
        if not np.ptp(flat[..., i]):
            continue
        theory = Curve(ode.t, flat_ode[:, i], np.zeros(len(ode.t)), 10**9)
        label = name + (f"[{','.join(map(str, index))}]" if index else "")
        found.append((label, compare(label, theory, [instances_curve(paths.t, flat[..., i])], [1], 1e-9)))
    return found


def _table(ode: Trajectory, paths: Ensemble, options: argparse.Namespace, source: Path) -> float:
    print(f"{source}: {paths.source}, d = {paths.attrs.get('dimension')}, {paths.instances} instances")
    print(f"{'t':>10}  {'entry':<10} {'ODE':>13}  {'simulation':>13} +- {'error':<9}  {'z':>7}")
    worst, left_out = np.nan, []
    for name in _names(ode, paths, options.statistic, source):
        found = entries(ode, paths, name)
        if not found:
            continue
        if found[0][1].t.size == 0:
            raise FileError(f"{options.ode} and {source}: no time in common")
        for i, t in enumerate(found[0][1].t):
            told = [(label, c) for label, c in found if np.isfinite(c.z[i])]
            left_out += [f"{label} at t = {t:g}" for label, c in found if not np.isfinite(c.z[i])]
            if not told:
                continue
            label, c = max(told, key=lambda pair: abs(pair[1].z[i]))
            print(f"{t:10.4g}  {label:<10} {c.theory.mean[i]:13.7f}  {c.simulation.mean[i]:13.7f} +- "
                  f"{c.simulation.error[i]:<9.2g}  {c.z[i]:7.2f}")  # fmt: skip
            worst = np.fmax(worst, abs(float(c.z[i])))
    if left_out:
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        print(f"note: {source}: {', '.join(left_out[:3])}{more} left out, where the ODE or the simulation is not finite")
    return worst
