"""Programs with subcommands: one module each, imported only when it is asked for, so that a program starts fast and a package that
one subcommand needs may be missing for the others.

A subcommand's module has `add_arguments(parser)` and `run(options) -> exit code`; its docstring is the help.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from dmft.core.command import Parser
from dmft.core.errors import UserError
from dmft.version import __version__

# name of a subcommand: (its module, one line for the overview)
Table = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Subcommands:
    """What `NAME --help` tells, and the table of subcommands."""

    name: str
    description: str
    epilog: str
    commands: Table

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options of a command line; `function(options)` runs the subcommand that it asks for."""
        parser = Parser(prog=self.name, description=self.description, epilog=self.epilog,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--version", action="version", version=f"{self.name} {__version__}")
        subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
        asked = next((word for word in words if not word.startswith("-")), None)
        if asked is not None and asked not in self.commands:
            near = difflib.get_close_matches(asked, self.commands, 1)
            raise UserError(f"no command '{asked}'" + (f"; did you mean '{near[0]}'?" if near else "")
                            + f"; there are {', '.join(self.commands)} (see {self.name} --help)")
        for name, (place, summary) in self.commands.items():
            if name != asked:
                subparsers.add_parser(name, help=summary, add_help=False)
                continue
            module = import_module(place)
            subparser = subparsers.add_parser(name, help=summary, description=module.__doc__,
                                              formatter_class=argparse.RawDescriptionHelpFormatter)
            module.add_arguments(subparser)
            subparser.set_defaults(function=module.run)
        return parser.parse_args(words)
