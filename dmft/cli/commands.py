"""The subcommands of `dmft`: one module each, imported only when it is asked for, so that the command starts fast.

A subcommand's module has `add_arguments(parser)` and `run(options) -> exit code`; its docstring is the help.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from types import ModuleType

from dmft.core.command import Parser, main_wrapper
from dmft.core.errors import UserError
from dmft.version import __version__


def _solve() -> ModuleType:
    from dmft.cli import solve
    return solve


def _compare() -> ModuleType:
    from dmft.cli import compare
    return compare


def _inspect() -> ModuleType:
    from dmft.cli import inspect
    return inspect


def _diff() -> ModuleType:
    from dmft.cli import diff
    return diff


def _plot() -> ModuleType:
    from dmft.cli import plot
    return plot


def _report() -> ModuleType:
    from dmft.cli import report
    return report


def _export() -> ModuleType:
    from dmft.cli import export
    return export


def _figure() -> ModuleType:
    from dmft.cli import figure
    return figure


def _converge() -> ModuleType:
    from dmft.cli import converge
    return converge


def _limit() -> ModuleType:
    from dmft.cli import limit
    return limit


def _check() -> ModuleType:
    from dmft.cli import check
    return check


def _cite() -> ModuleType:
    from dmft.cli import cite
    return cite


def _escape() -> ModuleType:
    from dmft.cli import escape
    return escape


def _submit() -> ModuleType:
    from dmft.cli import submit
    return submit


def _collect() -> ModuleType:
    from dmft.cli import collect
    return collect


# name: (its module, one line for the overview)
COMMANDS: dict[str, tuple[Callable[[], ModuleType], str]] = {
    "solve": (_solve, "solve the mean-field equations of a run file"),
    "check": (_check, "show what a run will compute and cost, without running it"),
    "compare": (_compare, "compare a theory file with simulations"),
    "inspect": (_inspect, "show what is in a result file or a checkpoint"),
    "diff": (_diff, "show what differs between two files"),
    "plot": (_plot, "draw what is in a file"),
    "report": (_report, "write one page for the browser"),
    "export": (_export, "write the contents of a file as CSV tables"),
    "figure": (_figure, "make a figure of the paper"),
    "converge": (_converge, "solve at several settings: distances, orders, the limit of small steps"),
    "limit": (_limit, "compute where gradient descent ends on a convex loss"),
    "cite": (_cite, "print what to cite for a run, with BibTeX"),
    "escape": (_escape, "show when runs from a random start leave the plateau"),
    "submit": (_submit, "write and submit a Slurm job for a run, or a scan of parameters"),
    "collect": (_collect, "gather the results of a scan into a table and a picture"),
}

_EPILOG = """examples:
  dmft solve runs/demo.toml                             theory; the result goes under runs/out/
  dmft solve runs/demo.toml --set theory.samples=4000   change a key of the run file
  mpirun -n 4 dmft solve runs/demo.toml --resume        more ranks, the same numbers; go on after a stop
  sgd-sim run runs/demo.toml                            the same experiment, simulated
  dmft compare runs/out/demo.theory.h5 runs/out/demo.simulation.h5 --plot demo.png

exit codes: 0 done, 2 bad input, 3 diverged, 4 not converged, 75 stopped (--resume goes on), 130 interrupted
`dmft COMMAND --help` tells more about a command."""


def run_command(words: Sequence[str]) -> int:
    """Run `dmft WORDS...`; returns the exit code."""
    return main_wrapper(lambda _: _run(list(words)))


def _run(words: list[str]) -> int:
    parser = Parser(prog="dmft", description="Dynamical mean-field theory of stochastic gradient descent.",
                    epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"dmft {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked is not None and asked not in COMMANDS:
        raise UserError(f"no command '{asked}'{_meant(asked)}; there are {', '.join(COMMANDS)} (see dmft --help)")
    for name, (module_of, summary) in COMMANDS.items():
        if name != asked:
            subparsers.add_parser(name, help=summary, add_help=False)
            continue
        module = module_of()
        subparser = subparsers.add_parser(name, help=summary, description=module.__doc__,
                                          formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(subparser)
        subparser.set_defaults(function=module.run)
    options = parser.parse_args(words)
    return options.function(options)


def _meant(asked: str) -> str:
    near = difflib.get_close_matches(asked, COMMANDS, 1)
    return f"; did you mean '{near[0]}'?" if near else ""
