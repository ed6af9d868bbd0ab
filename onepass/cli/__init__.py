"""The command `onepass`: solve, simulate, compare, figure, cite."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType

from dmft.core import command
from dmft.core.progress import say
from dmft.version import __version__


# A command's module is imported when that command is called: start-up stays fast, and an optional package that one command
# needs may be missing for the others.
def _solve() -> ModuleType:
    from onepass.cli import solve

    return solve


def _simulate() -> ModuleType:
    from onepass.cli import simulate

    return simulate


def _compare() -> ModuleType:
    from onepass.cli import compare

    return compare


def _figure() -> ModuleType:
    from onepass.cli import figure

    return figure


def _cite() -> ModuleType:
    from onepass.cli import cite

    return cite


COMMANDS: dict[str, tuple[Callable[[], ModuleType], str]] = {
    "solve": (_solve, "the ODE of a run file"),
    "simulate": (_simulate, "instances of SGD, of its exact chain, or of its SDE"),
    "compare": (_compare, "hold an ODE file against simulations"),
    "figure": (_figure, "a figure of the companion papers"),
    "cite": (_cite, "what to cite for a run, with BibTeX"),
}
_EPILOG = """examples:
  onepass solve runs/arnaboldi/figure1.toml                      the deterministic limit
  onepass simulate runs/arnaboldi/figure1.toml                   SGD on real data
  onepass simulate runs/arnaboldi/figure1.toml --set simulation.process=chain --set simulation.dimension=1000000
  onepass compare ODE.h5 SIM.h5 --plot compare.png
  onepass figure --list

exit codes: 0 done, 2 bad input, 3 diverged, 75 stopped (--resume goes on), 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `onepass`."""
    return command.main_wrapper(_main, arguments)


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = command.Parser(
        prog="onepass",
        description="Low-dimensional limits of one-pass SGD.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onepass {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in words if not word.startswith("-")), None)
    for name, (load, summary) in COMMANDS.items():
        if name != asked:
            subparsers.add_parser(name, help=summary, add_help=False)
            continue
        module = load()
        subparser = subparsers.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(subparser)
        subparser.set_defaults(function=module.run)
    options = parser.parse_args(words)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        warnings.simplefilter("default", UserWarning)
        return options.function(options)
