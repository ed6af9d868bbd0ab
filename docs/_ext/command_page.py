"""The page of the commands: the help of each, as argparse writes it."""

from __future__ import annotations

import os
from typing import Any

from dmft.core.subcommands import parser_of
from onepass.cli import COMMANDS as ONEPASS
from sgd_sim.cli import COMMANDS as SIMULATOR
from workbench.cli.commands import COMMANDS


def _page(app: Any, docname: str, source: list[str]) -> None:
    if docname != "commands":
        return
    os.environ["COLUMNS"] = "90"
    for program, commands in (("dmft", COMMANDS), ("sgd-sim", SIMULATOR), ("onepass", ONEPASS)):
        for name, (module_name, summary) in commands.items():
            source[0] += _section(f"{program} {name}", summary, parser_of(program, name, module_name).format_help())


def _section(title: str, summary: str, text: str) -> str:
    return f"\n## {title}\n\n{summary[:1].upper()}{summary[1:]}.\n\n```text\n{text.strip()}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _page)
    return {"parallel_read_safe": True}
