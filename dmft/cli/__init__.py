"""The command `dmft`: one module per subcommand, found in a table and imported when it is asked for.

A subcommand's module has `add_arguments(parser)` and `run(options) -> exit code`; its docstring is the help.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from dmft.core.command import Parser, main_wrapper
from dmft.version import __version__

# name: (module, one line for the overview)
COMMANDS = {
    "solve": ("dmft.cli.solve", "solve the mean-field equations of a run file"),
    "compare": ("dmft.cli.compare", "hold a theory file against simulations"),
    "inspect": ("dmft.cli.inspect", "show what is in a result file or a checkpoint"),
    "diff": ("dmft.cli.diff", "tell what differs between two files"),
    "plot": ("dmft.cli.plot", "draw what is in a file"),
    "report": ("dmft.cli.report", "write one page for the browser"),
    "export": ("dmft.cli.export", "write the contents of a file as CSV tables"),
    "figure": ("dmft.cli.figure", "make a figure of the paper"),
    "converge": ("dmft.cli.converge", "solve at several settings: distances, orders, the limit of small steps"),
    "submit": ("dmft.cli.submit", "write and submit a Slurm job for a run, or a sweep"),
    "collect": ("dmft.cli.collect", "gather the results of a sweep into a table and a picture"),
}

_EPILOG = """examples:
  dmft solve runs/demo.toml                             theory; the result goes under runs/out/
  dmft solve runs/demo.toml --set theory.samples=4000   change a key of the run file
  mpirun -n 4 dmft solve runs/demo.toml --resume        more ranks, the same numbers; go on after a stop
  sgd-sim run runs/demo.toml                            the same experiment, simulated
  dmft compare runs/out/demo.theory.h5 runs/out/demo.simulation.h5 --plot demo.png

exit codes: 0 done, 2 bad input, 3 diverged, 4 not converged, 75 stopped (--resume goes on), 130 interrupted
`dmft COMMAND --help` tells more about a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `dmft`."""
    return main_wrapper(_main, arguments)


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = Parser(prog="dmft", description="Dynamical mean-field theory of stochastic gradient descent.",
                    epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"dmft {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in words if not word.startswith("-")), None)
    for name, (module_name, summary) in COMMANDS.items():
        if name != asked:
            subparsers.add_parser(name, help=summary, add_help=False)
            continue
        module = import_module(module_name)
        subparser = subparsers.add_parser(name, help=summary, description=module.__doc__,
                                          formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(subparser)
        subparser.set_defaults(function=module.run)
    options = parser.parse_args(words)
    return options.function(options)
