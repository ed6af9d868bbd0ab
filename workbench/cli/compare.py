"""Compare a theory file with simulations of the same experiment: a table, a verdict, a picture.

Times are those that all files share. Several simulations at different dimensions N are extrapolated to N = infinity by a
straight line in 1/N. Errors are standard errors of the mean, over replicas and over instances. Times at which a side has
diverged are left out, and named.

The verdict is one of: agree; disagree (|z| is larger than chance explains in a table of this length); cannot tell (the combined
error is above 10 % of the largest value in the simulation, so that it could hide a wrong theory); diverged.

--kernels compares C, M_C and R at pairs of times, too, for simulations made with [simulation] kernels = true. Entries of a kernel
are correlated: the bound on the largest |z| takes that from the instances. The picture has the theory above and the simulation
below the diagonal.

examples:
  dmft compare demo.theory.h5 demo.simulation.h5
  dmft compare demo.theory.h5 n500.h5 n1000.h5 n2000.h5 --plot demo.png
  dmft compare demo.theory.h5 demo.simulation.h5 --observable m --observable loss
  dmft compare demo.theory.h5 n1500.h5 n4000.h5 --kernels --plot kernels.png
  dmft compare demo.theory.h5 --data mine.csv        numbers of your own
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.errors import UserError
from dmft.core.parallel import world
from workbench import api
from workbench.cli.extras import needs_pictures
from workbench.inspection.against import NETWORK_OBSERVABLES, OBSERVABLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("theory", metavar="THEORY.h5", type=Path, help="a theory file")
    parser.add_argument("simulations", metavar="SIM.h5", type=Path, nargs="*", help="simulation files")
    parser.add_argument("--data", metavar="FILE.csv", type=Path, action="append", default=[],
                        help="data of your own, a table headed t,m,m_error or t,instance,m,loss")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the comparison")
    parser.add_argument("--observable", metavar="NAME", action="append",
                        help=f"what to compare: {', '.join(OBSERVABLES)} or an observable of the run (default m, V from a random "
                             f"start, and the observables of the run; of data of your own every curve); of a network "
                             f"{', '.join(NETWORK_OBSERVABLES)}, or one component, C[0,1] (default all, of a and beta what is "
                             "trained); may be repeated")
    parser.add_argument("--dimension", metavar="N", type=int, help="N of your own data, to extrapolate them with others")
    parser.add_argument("--kernels", action="store_true", help="compare two-time kernels, too")
    parser.add_argument("--fields", action="store_true", help="compare quantiles of the fields at the times of [theory] snapshots")


def run(options: argparse.Namespace) -> int:
    if not world().is_root:
        return EXIT_DONE
    if options.plot:
        needs_pictures()
    if not options.simulations and not options.data:
        raise UserError("compare: with what? name simulation files, or --data FILE.csv")
    if options.data and (options.kernels or options.fields):
        raise UserError("--data: numbers of your own have curves alone; leave --kernels and --fields out")
    found = api.compare(options.theory, *options.simulations, *options.data, observable=options.observable, kernels=options.kernels,
                        fields=options.fields, plot=options.plot, dimension=options.dimension)
    print(found)
    if options.plot:
        print(f"picture: {options.plot}")
    print(f"max |z| = {found.max_z:.2f}")
    return EXIT_DONE
