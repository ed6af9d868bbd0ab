"""Print a script with which the Tab key completes dmft, sgd-sim and onepass: commands, options, their choices, keys after --set.

examples:
  source <(dmft completion bash)                        for this shell; put the line into ~/.bashrc to keep it
  source <(dmft completion zsh)                         the same in ~/.zshrc, after compinit
  dmft completion fish > ~/.config/fish/completions/dmft.fish
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from collections.abc import Callable, Iterator

from dmft.core.command import EXIT_DONE
from dmft.core.parallel import world
from dmft.core.subcommands import Commands, parser_of
from dmft.model.runfile import SECTIONS
from onepass.cli import COMMANDS as ONEPASS
from sgd_sim.cli import COMMANDS as SIMULATOR
from workbench.cli.commands import COMMANDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), help="for which shell")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        print(SHELLS[options.shell]())
    return EXIT_DONE


@dataclasses.dataclass(frozen=True)
class Word:
    """An option of a subcommand: what it is called, and what may follow it (None: nothing; empty: anything, files among it)."""

    names: tuple[str, ...]
    values: tuple[str, ...] | None
    help: str


def _programs() -> dict[str, Commands]:
    return {"dmft": COMMANDS, "sgd-sim": SIMULATOR, "onepass": ONEPASS}


def _keys() -> tuple[str, ...]:
    """Keys of run files as --set takes them."""
    return tuple(f"{section}.{field.name}=" for section, cls in SECTIONS.items() for field in dataclasses.fields(cls))


def _words(module_name: str) -> Iterator[Word]:
    """The options of a subcommand, and the choices of its first argument, as one without a name."""
    for action in parser_of("", "", module_name)._actions:
        told = tuple(map(str, action.choices)) if action.choices else ()
        values = None if action.nargs == 0 else _keys() if action.option_strings[:1] == ["--set"] else told
        if action.option_strings or told:
            yield Word(tuple(action.option_strings), values, (action.help or "").replace("%%", "%"))


def bash() -> str:
    """A function for each program; a value is completed where its option comes before it, else files are."""
    lines = []
    for program, commands in _programs().items():
        cases, name = [], f"_{program.replace('-', '_')}_complete"
        for command, (module, _) in commands.items():
            words = list(_words(module))
            listed = " ".join(option for word in words for option in word.names)
            first = " ".join(value for word in words if not word.names for value in word.values or ())
            cases.append(f"    {command}) options={shlex.quote(listed)}; first={shlex.quote(first)}\n      case \"$before\" in")
            cases += [f"        {'|'.join(word.names)}) values={shlex.quote(' '.join(word.values))};;" for word in words
                      if word.names and word.values]
            cases.append("      esac;;")
        lines += [f"{name}() {{", '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
                  '  local options="" values="" first=""',
                  f"  if [ $COMP_CWORD -eq 1 ]; then COMPREPLY=($(compgen -W {shlex.quote(' '.join(commands))} -- \"$word\"))",
                  "    return; fi",
                  '  case "${COMP_WORDS[1]}" in', *cases, "  esac",
                  '  [ $COMP_CWORD -eq 2 ] && values="${values:-$first}"',
                  '  if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$word"))',
                  '    [ "$before" = --set ] && compopt -o nospace 2>/dev/null',
                  '  elif [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))',
                  '  else COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null; fi', "}",
                  f"complete -F {name} {program}"]
    return "\n".join(lines)


def zsh() -> str:
    """Through the functions of bash, which zsh understands."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash()


def fish() -> str:
    """One line for each word."""
    lines = []
    for program, commands in _programs().items():
        for command, (module, summary) in commands.items():
            lines.append(f"complete -c {program} -n __fish_use_subcommand -f -a {command} -d {shlex.quote(summary)}")
            for word in _words(module):
                names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names)
                values = "" if word.values is None else f" -r -a {shlex.quote(' '.join(word.values))}" if word.values else " -r"
                lines.append(f"complete -c {program} -n '__fish_seen_subcommand_from {command}' {names}{values} "
                             f"-d {shlex.quote(word.help)}")
    return "\n".join(lines)


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
