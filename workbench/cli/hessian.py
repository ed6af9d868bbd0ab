"""Show the Hessian of the training loss along a run: edges of its bulk, lowest and largest eigenvalue, their overlaps with the
teacher, and on the sphere the softest direction along it.

Theory files need [theory] snapshots = [...] and hessian = true (without it edges alone are known), simulation files snapshots;
both may be given, and the picture then has the eigenvalues of the simulation under the density of the theory. Tails are those
that a data set of dimension N shows.

examples:
  dmft hessian run.theory.h5
  dmft hessian run.theory.h5 run.simulation.h5 --instances 6 -o hessian.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from dmft.core.progress import Progress
from workbench.cli.extras import can_draw
from workbench.inspection.hessian import HessianAlong, simulated_along, theory_along
from workbench.inspection.opening import open_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a theory file, a simulation file, or one of each")
    parser.add_argument("--instances", metavar="COUNT", type=int, default=4, help="instances that are diagonalised (default 4)")
    parser.add_argument("--dimension", metavar="N", type=int, help="of the data set whose tails are seen (default: the run's)")
    parser.add_argument("-o", "--output", metavar="FILE.png", type=Path, help="the picture (default: FILE.hessian.png)")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    found: list[HessianAlong] = []
    for path in options.files:
        opened = open_file(path)
        if opened.live or opened.kind not in ("theory", "simulation"):
            raise FileError(f"{path}: not a finished theory or simulation; dmft hessian wants one of these")
        with Progress(1.0, f"hessian, {opened.kind}") as progress:
            if opened.kind == "theory":
                found.append(theory_along(opened.result, options.dimension, progress.update))
            else:
                found.append(simulated_along(opened.result, options.instances, progress.update))
        print(found[-1])
    if can_draw():
        from workbench.plots.hessian import draw  # matplotlib is an extra

        output = options.output or Path(str(options.files[0]).removesuffix(".h5") + ".hessian.png")
        draw(found, output)
        print(f"picture: {output}")
    return EXIT_DONE
