"""The command `sgd-sim`: run, check."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dmft.core.command import main_wrapper
from dmft.core.subcommands import Commands, run_subcommand

COMMANDS: Commands = {
    "run": ("sgd_sim.cli.run", "run the instances of a run file"),
    "check": ("workbench.cli.check_simulation", "show what a run will compute and cost, without running it"),
}
_EPILOG = """examples:
  sgd-sim run runs/demo.toml                                   simulate; the result goes under runs/out/
  sgd-sim check runs/demo.toml                                 what it will cost, without running it
  sgd-sim run runs/demo.toml --resume                          continue after a stop, or extend a finished result

exit codes: 0 done, 2 bad input, 3 every instance diverged, 75 stopped (--resume continues), 130 interrupted

`sgd-sim COMMAND --help` says more about a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `sgd-sim`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return main_wrapper(lambda _: run_subcommand("sgd-sim", "Simulate learning dynamics at finite dimension.", _EPILOG, COMMANDS,
                                                 words))
