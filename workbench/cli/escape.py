"""Show when runs from a random start leave the plateau: the law of the first time at which |m| reaches a level.

Needs a theory file with start = "random". The theory is linear in m: levels should be small, and above 0.5 a warning is given.
The picture shows V = N <m^2> and the share of runs that have reached the level, for each dimension.

examples:
  dmft escape random.theory.h5 --dimension 500,1000,2000 --level 0.3
  dmft escape random.theory.h5 --dimension 1000 --level 0.2 -o escape.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dmft.api import load
from dmft.core.command import EXIT_DONE, speaking
from dmft.core.errors import FileError, UserError
from dmft.core.parallel import world
from dmft.result.escape import PATHS, EscapeLaw
from dmft.result.theory import Theory
from workbench.cli.extras import can_draw
from workbench.inspection.curves import decades


def dimensions_of(words: str) -> list[int]:
    """The dimensions that --dimension names."""
    try:
        found = [int(word) for word in words.split(",")]
    except ValueError:
        raise UserError(f"--dimension {words}: must be whole numbers with commas between them, 500,1000 say") from None
    if min(found) < 2:
        raise UserError(f"--dimension {words}: dimensions are 2 at least")
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help='a theory file with start = "random"')
    parser.add_argument("--dimension", metavar="N,...", required=True, help="dimensions, separated by commas")
    parser.add_argument("--level", metavar="b", type=float, required=True, help="level of |m|, below 0.5")
    parser.add_argument("--paths", metavar="COUNT", type=int, default=PATHS, help=f"random paths behind the law (default {PATHS})")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path, help="the picture (default: FILE.escape.png)")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    dimensions, theory = dimensions_of(options.dimension), load(options.file)
    if not isinstance(theory, Theory):
        raise FileError(f'{options.file}: not a theory file; dmft solve a run file with start = "random" first')
    with speaking(False):
        laws = [theory.escape(options.level, N, options.paths) for N in dimensions]
    print("\n".join(table(laws)))
    if can_draw():
        from workbench.plots.escape import draw  # matplotlib is an extra

        output = options.output or Path(str(options.file).removesuffix(".h5") + ".escape.png")
        draw(theory, laws, output)
        print(f"picture: {output}")
    return EXIT_DONE


def table(laws: list[EscapeLaw]) -> list[str]:
    """Text: the share of runs that have reached the level against time, and the time at which half of them have."""
    first = laws[0]
    lines = [f"share of runs with |m| >= {first.b:g} by time t: sampled paths +- error (lower bound erfc)",
             f"{'t':>10}  " + "  ".join(f"{f'N = {law.N}':>28}" for law in laws)]
    for i in decades(first.t):
        shares = (f"{law.probability[i]:8.4f} +- {law.probability_error[i]:.4f} ({law.bound[i]:.4f})" for law in laws)
        lines.append(f"{first.t[i]:10.4g}  " + "  ".join(share.rjust(28) for share in shares))
    halves = [law.time() for law in laws]
    beyond = f"after {first.t[-1]:g}"
    lines.append(f"{'half by':>10}  " + "  ".join((f"{time:.4g}" if np.isfinite(time) else beyond).rjust(28) for time in halves))
    if first.growth is None:
        lines.append("V does not grow exponentially over the last half of the times: nothing is extrapolated beyond them")
    else:
        lines.append(f"V grows as exp(2 gamma t) with gamma = {first.growth.rate:.4g}; then half by "
                     + ", ".join(f"{law.growth.time(law.b, law.N):.4g} (N = {law.N})" for law in laws if law.growth))
    return lines
