"""Hold a theory file against simulations of the same experiment: a table, a verdict, a picture.

Times are those that all files share. Several simulations at different dimensions N are carried to N = infinity by a
straight line in 1/N. Errors are standard errors of the mean, over replicas and over instances. Times at which a side has
diverged are left out, and named.

examples:
  dmft compare demo.theory.h5 demo.simulation.h5
  dmft compare demo.theory.h5 n500.h5 n1000.h5 n2000.h5 --plot demo.png
  dmft compare demo.theory.h5 demo.simulation.h5 --observable m --observable loss
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from dmft.model import layouts
from dmft.model.runfile import Run, changes, parse_run
from dmft.result.comparison import Comparison, Curve, compare, instances_curve

OBSERVABLES = ("m", "loss", "mse", "q")
# Changes between the runs of the files that do not make them different experiments.
_FREE = ("title", "algorithm.t_max")
_SOUND = ("done", "converged", "noise floor")     # outcomes of a theory that stands
_MOST_NAMED = 6                                   # times named one by one in a note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("theory", metavar="THEORY.h5", type=Path, help="a theory file")
    parser.add_argument("simulations", metavar="SIM.h5", type=Path, nargs="+", help="simulation files")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the comparison")
    parser.add_argument("--observable", choices=OBSERVABLES, action="append",
                        help="what to compare (default m); may be repeated")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    theory, theory_run = _read(options.theory, "theory")
    simulations = [_read(path, "simulation") for path in options.simulations]
    for path, (_, run_of) in zip(options.simulations, simulations):
        _note_differences(theory_run, run_of, path)
    outcome = str(theory.attrs.get("outcome", "unknown"))
    if outcome not in _SOUND:
        print(f"note: {options.theory}: the outcome of the theory is '{outcome}'")
    dimensions = [run_of.simulation.dimension for _, run_of in simulations]
    comparisons = []
    for name in options.observable or ["m"]:
        curves = [_instances(stored, name) for stored, _ in simulations]
        result = compare(name, _theory(theory, name), curves, dimensions, 1e-3 * theory_run.algorithm.learning_rate)
        if result.t.size == 0:
            raise FileError(f"{options.theory} and {', '.join(map(str, options.simulations))}: no time in common; "
                            "simulate with the same learning_rate")
        result = _finite(result, f"{options.theory} and {', '.join(map(str, options.simulations))}")
        _print_table(result, dimensions)
        comparisons.append(result)
    _print_bias(theory)
    worst = max(float(np.max(np.abs(result.z))) for result in comparisons)
    _print_verdict(comparisons, dimensions)
    if options.plot:
        from dmft.plots.compare import draw
        draw(comparisons, theory_run.algorithm.learning_rate, theory_run.title, options.plot)
        print(f"picture: {options.plot}")
    print(f"max |z| = {worst:.2f}")
    return EXIT_DONE


def _read(path: Path, kind: str) -> tuple[store.Stored, Run]:
    stored = store.load(path)
    if stored.kind != kind:
        raise FileError(f"{path}: a {stored.kind} file, but a {kind} file is wanted (dmft compare THEORY.h5 SIM.h5 ...)")
    layouts.check(stored, needed=("t",))
    return stored, parse_run(stored.run_text, str(path), any_loss=True)


def _dataset(stored: store.Stored, name: str) -> np.ndarray:
    if name not in stored.arrays:
        raise FileError(f"{stored.path}: has no dataset '{name}'")
    return stored.arrays[name]


def _theory(stored: store.Stored, name: str) -> Curve:
    replicas = stored.arrays.get("replicas/m")
    count = 1 if replicas is None else replicas.shape[0]
    return Curve(_dataset(stored, "t"), _dataset(stored, name), _dataset(stored, f"{name}_error"), count)


def _instances(stored: store.Stored, name: str) -> Curve:
    curve = instances_curve(_dataset(stored, "t"), _dataset(stored, name))
    if curve.count == 0:
        raise FileError(f"{stored.path}: every instance diverged; nothing to compare")
    left_out = stored.arrays[name].shape[0] - curve.count
    if left_out:
        print(f"note: {stored.path}: {left_out} diverged or unfinished instances left out")
    return curve


def _finite(result: Comparison, source: str) -> Comparison:
    """The comparison at the times at which both sides are finite: NaN is no agreement."""
    lost = result.t[~result.usable]
    if lost.size == result.t.size:
        raise FileError(f"{source}: no common time at which {result.observable} is finite on both sides; nothing to compare")
    if lost.size:
        few = lost.size <= _MOST_NAMED
        named = ", ".join(f"{t:g}" for t in lost) if few else f"{lost[0]:g} ... {lost[-1]:g} ({lost.size} times)"
        print(f"note: {result.observable}: t = {named} left out, where theory or simulation is not finite (diverged)")
    return result.where(result.usable)


def _note_differences(theory: Run, simulation: Run, path: Path) -> None:
    differences = [f"{key} {old} / {new}" for key, old, new in changes(theory, simulation)
                   if not key.startswith(("theory.", "simulation.")) and key not in _FREE]
    if differences:
        print(f"note: {path} is another experiment than the theory: {', '.join(differences)}")


def _print_table(result: Comparison, dimensions: list[int]) -> None:
    what = f"N = {dimensions[0]}" if len(set(dimensions)) == 1 else "N -> infinity"
    print(f"{result.observable}: theory against simulation, {what}")
    print(f"{'t':>10}  {'theory':>12} +- {'error':<9}  {'simulation':>12} +- {'error':<9}  {'z':>7}")
    for i, t in enumerate(result.t):
        print(f"{t:10.4g}  {result.theory.mean[i]:12.6f} +- {result.theory.error[i]:<9.2g}  "
              f"{result.simulation.mean[i]:12.6f} +- {result.simulation.error[i]:<9.2g}  {result.z[i]:7.2f}")
    freedom = result.degrees_of_freedom
    print(f"{result.theory.count} replicas, {result.simulation.count} instances: z has {freedom.min():.0f} to "
          f"{freedom.max():.0f} degrees of freedom (Student); 99 % of tables stay below |z| = {result.bound:.1f}")
    if result.theory.count < 2:
        print("note: one replica gives no error bar of the theory; z uses that of the simulation alone")


def _print_bias(theory: store.Stored) -> None:
    bias = theory.arrays.get("bias/m")
    if bias is not None and np.isfinite(bias).any():
        print(f"finite-sample bias of the theory's m: estimated {np.nanmax(np.abs(bias)):.2g} at most")


def _print_verdict(comparisons: list[Comparison], dimensions: list[int]) -> None:
    apart = [result.observable for result in comparisons if np.max(np.abs(result.z)) > result.bound]
    if not apart:
        print("verdict: theory and simulation agree within their errors")
        return
    print(f"verdict: theory and simulation differ in {', '.join(apart)} by more than their errors")
    if len(set(dimensions)) == 1:
        print("a finite dimension shifts simulations by O(1/N): give simulations at several N to extrapolate")
