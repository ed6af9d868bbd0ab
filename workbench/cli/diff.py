"""Show what differs between two files: in their runs, and which curves and kernels differ by more than chance explains.

examples:
  dmft diff coarse.h5 fine.h5
  dmft diff theory.h5 theory.h5.checkpoint
"""

from __future__ import annotations

import argparse
from math import isnan
from pathlib import Path

from dmft.core.averages import number_text
from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from dmft.core.schema import to_toml_value
from dmft.core.text import visible
from workbench.inspection.difference import Difference, Judged, difference, span
from workbench.inspection.opening import open_file

_LEGEND = """  |z|: the entry furthest out, in combined standard errors; rms z: root mean square over a stretch of t (kernels: t')
  chance: at most 1 dataset in 100 exceeds one of its two bounds by chance, fewer the more its entries are correlated"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", type=Path, help="a result file or a checkpoint")
    parser.add_argument("b", metavar="B", type=Path, help="another one, to compare it with")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        a, b = open_file(options.a), open_file(options.b)
        print(f"A: {a.path}: {a.kind}{', live' if a.live else ''}\nB: {b.path}: {b.kind}{', live' if b.live else ''}")
        _print(difference(a, b))
    return EXIT_DONE


def _print(found: Difference) -> None:
    print("\nRUNS")
    for key, old, new in found.run or [("the same", "", "")]:
        print(f"  {key}" if key == "the same" else f"  {key}: {_shown(old)} -> {_shown(new)}")
    if found.provenance:
        print("\nMADE BY")
        for key, old, new in found.provenance:
            print(f"  {visible(key)}: {_shown(old)} -> {_shown(new)}")
    for side, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            print(f"\nONLY IN {side}\n  {visible(', '.join(names[:12]))}{more}")
    if found.compared:
        print("\nCURVES AND KERNELS, worst first")
        print(f"  {'':<14}{'entries':>8}  {'|B - A|/|A|':>11}  {'|z|':>8}  {'chance':>6}  {'at':<20}"
              f"  {'rms z':>8}  {'chance':>6}  in")
        for one in found.compared:
            print(f"  {one.name:<14}{one.entries:>8}  {one.relative:>11.3g}  {_judged(one.single):<38}  {_judged(one.stretch)}")
        if not all(isnan(one.ratio) for one in found.compared):
            print(_LEGEND)
        for one in found.compared:
            if one.one_sided:
                print(f"  {one.name} is finite in one of the two alone at t = {_stretches(one.one_sided)}")
    for side, lines in zip("AB", found.systematic):
        if lines:
            print("\n".join([f"\nBEYOND THE ERROR BARS OF {side}", *(f"  {line}" for line in lines)]))
    for name in found.datasets or ():
        print(f"  {visible(name)} differs")
    print(f"\n{found.verdict}")


def _judged(test: Judged) -> str:
    return f"{number_text(test.z, '>8.3g')}  {number_text(test.bound, '>6.3g')}  {test.at:<20}"


def _stretches(times: list[tuple[float, float]], most: int = 4) -> str:
    return ", ".join(span(first, last) for first, last in times[:most]) + (
        f" and {len(times) - most} more stretches" if len(times) > most else "")


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    return visible(to_toml_value(value) if isinstance(value, (str, bool, int, float, tuple, list)) else str(value))
