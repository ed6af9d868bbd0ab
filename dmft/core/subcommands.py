"""A program with subcommands. Each is a module, found by its name and imported when it is asked for: the program starts fast, a
library that one command needs may be missing for the others, and a command may live in a package above that of its program.

A subcommand's module has `add_arguments(parser)` and `run(options) -> exit code`; its docstring is the help.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from dmft.core.command import EXIT_DONE, Help, Parser, load_plugin
from dmft.core.errors import UserError, did_you_mean
from dmft.core.parallel import world
from dmft.version import __version__

Commands = Mapping[str, tuple[str, str]]        # name: (its module, one line for the overview)


def run_subcommand(program: str, description: str, epilog: str, commands: Commands, words: Sequence[str]) -> int:
    """Run `PROGRAM WORDS...`; returns the exit code."""
    parser = Parser(prog=program, description=description, epilog=epilog, formatter_class=Help)
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked is not None and asked not in commands:
        near = did_you_mean(asked, commands)
        raise UserError(f"no command '{asked}'{near}; there are {', '.join(commands)} (see {program} --help)")
    for name, (module_name, summary) in commands.items():
        if name != asked:
            subparsers.add_parser(name, help=summary, add_help=False)
            continue
        module = import_module(module_name)
        subparser = subparsers.add_parser(name, help=summary, description=module.__doc__, formatter_class=Help)
        module.add_arguments(subparser)
        subparser.set_defaults(function=module.run)
    options, unknown = parser.parse_known_args(list(words))
    if unknown:
        raise UserError(f"unrecognized arguments: {' '.join(unknown)} (see {program} {options.command} --help)")
    for plugin in getattr(options, "plugin", ()):
        load_plugin(str(plugin))
    return options.function(options)


def parser_of(program: str, name: str, module_name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand by itself, for its page and for completion."""
    module = import_module(module_name)
    parser = Parser(prog=f"{program} {name}", description=module.__doc__, formatter_class=Help)
    module.add_arguments(parser)
    return parser


def print_json(value: Any) -> int:
    """Print a value as JSON, once in all ranks; returns the exit code."""
    if world().is_root:
        print(json.dumps(value, indent=2))
    return EXIT_DONE
