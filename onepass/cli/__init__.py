"""The command `onepass`: solve, simulate, compare, exponents, figure, cite, schema."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from dmft.core import command
from dmft.core.progress import say
from dmft.core.subcommands import Commands, run_subcommand

COMMANDS: Commands = {
    "solve": ("onepass.cli.solve", "solve the ODE of a run file"),
    "simulate": ("onepass.cli.simulate", "run instances of SGD, of its exact chain, or of its SDE"),
    "compare": ("workbench.cli.onepass_compare", "compare an ODE file with simulations"),
    "exponents": ("onepass.cli.exponents", "exponents of a teacher, and the order in which its directions are learnt"),
    "figure": ("reproduction.companions.command", "draw a figure of the companion papers"),
    "cite": ("workbench.cli.cite", "print what to cite for a run, with BibTeX"),
    "schema": ("onepass.cli.schema", "print the JSON Schema of run files, for editors"),
}
_EPILOG = """examples:
  onepass solve runs/arnaboldi/figure1.toml                      the deterministic limit
  onepass simulate runs/arnaboldi/figure1.toml                   SGD on real data
  onepass simulate runs/arnaboldi/figure1.toml --set simulation.process=chain --set simulation.dimension=1000000
  onepass compare ODE.h5 SIM.h5 --plot compare.png
  onepass figure --list

exit codes: 0 done, 2 bad input, 3 diverged, 75 stopped (--resume continues), 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `onepass`."""
    return command.main_wrapper(_main, arguments)


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        warnings.simplefilter("default", UserWarning)
        return run_subcommand("onepass", "Low-dimensional limits of one-pass SGD.", _EPILOG, COMMANDS, words)
