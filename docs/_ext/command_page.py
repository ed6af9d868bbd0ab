"""The page of the commands: the help of each, as argparse writes it."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from typing import Any

from onepass.cli import COMMANDS as ONEPASS
from sgd_sim.cli import COMMANDS as SIMULATOR
from workbench.cli.commands import COMMANDS


def _page(app: Any, docname: str, source: list[str]) -> None:
    if docname != "commands":
        return
    os.environ["COLUMNS"] = "100"
    for program, commands in (("dmft", COMMANDS), ("sgd-sim", SIMULATOR), ("onepass", ONEPASS)):
        for name, (module_name, summary) in commands.items():
            module = import_module(module_name)
            parser = argparse.ArgumentParser(prog=f"{program} {name}", description=module.__doc__,
                                             formatter_class=argparse.RawDescriptionHelpFormatter)
            module.add_arguments(parser)
            source[0] += _section(f"{program} {name}", summary, parser.format_help())


def _section(title: str, summary: str, text: str) -> str:
    return f"\n## {title}\n\n{summary[:1].upper()}{summary[1:]}.\n\n```text\n{text.strip()}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _page)
    return {"parallel_read_safe": True}
