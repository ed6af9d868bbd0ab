"""Show what differs between two files: in their runs, and where curves and kernels differ by more than their errors.

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
from workbench.inspection.difference import Difference, difference
from workbench.inspection.opening import open_file


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
    if found.curves:
        print(f"\nCURVES\n  {'':<14}{'times':>6}  {'largest B - A':>14}  {'at t':>8}  {'max |z|':>8}  {'chance':>7}  "
              "beyond chance at t")
        for c in found.curves:
            print(f"  {c.name:<14}{c.common:>6}  {c.largest:>14.4g}  {c.at:>8.4g}  {number_text(c.z, '>8.3g')}  {c.bound:>7.2f}  "
                  f"{_stretches(c.apart)}")
        for c in found.curves:
            if c.one_sided:
                print(f"  {c.name} is finite in one of the two alone at t = {_stretches(c.one_sided)}")
    if found.kernels:
        print(f"\nKERNELS\n  {'':<14}{'times':>6}  {'|B - A|/|A|':>14}  {'rms z':>8}  share beyond 5 errors")
        for k in found.kernels:
            print(f"  {k.name:<14}{k.common:>6}  {k.relative:>14.3g}  {number_text(k.z, '>8.3g')}  {number_text(k.share, '<.3g')}")
    apart = [c.name for c in found.curves if c.apart]
    if found.datasets is not None:
        for name in found.datasets:
            print(f"  {visible(name)} differs")
        whole = not found.datasets and not found.only_a and not found.only_b
        print("\nthe same numbers (running times aside)" if whole else f"\n{len(found.datasets)} datasets differ")
        return
    same = not any(c.largest for c in found.curves) and not any(k.relative for k in found.kernels)
    both = " where both are finite" if any(c.one_sided for c in found.curves) else ""
    blind = [c.name for c in found.curves if c.largest and isnan(c.z)]
    if not found.curves:
        print("\nno curves in common")
    elif same:
        print(f"\nthe same numbers{both}")
    elif blind and not apart:
        print(f"\ndiffer, and no error bars tell by how much: {', '.join(blind)}")
    else:
        print("\ndiffer beyond their errors: " + ", ".join(apart) if apart else f"\nagree within their errors{both}")


def _stretches(times: list[tuple[float, float]], most: int = 4) -> str:
    where = ", ".join(f"{first:g}" if first == last else f"{first:g} .. {last:g}" for first, last in times[:most])
    return (where or "-") + (f" and {len(times) - most} more stretches" if len(times) > most else "")


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    return visible(to_toml_value(value) if isinstance(value, (str, bool, int, float, tuple, list)) else str(value))
