"""Tell where gradient descent ends on a convex loss, from the static equations: any digits, no samples, no time steps.

examples:
  dmft limit runs/data/logistic-flips.toml
  dmft limit runs/data/logistic-flips.toml --set problem.ridge=0.1 --json
"""

from __future__ import annotations

import argparse
import json

from dmft.core.command import EXIT_DONE, naming, set_options
from dmft.core.parallel import world
from dmft.equations.limits import ConvexLimit, fixed_point
from dmft.model.runfile import load_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    set_options(parser)
    parser.add_argument("--json", action="store_true", help="the same for scripts")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        asked = load_run(options.run, options.overrides)
        with naming(options.run):
            numbers = limit_numbers(fixed_point(asked))
        if options.json:
            print(json.dumps(numbers, indent=1))
        else:
            print("\n".join(f"{name:<16}{value:.10f}" for name, value in numbers.items()))
    return EXIT_DONE


def limit_numbers(found: ConvexLimit) -> dict[str, float]:
    """The numbers of a fixed point by name, those that its data model has."""
    numbers = {name: value for name, value in vars(found).items() if name != "errors" and value is not None}
    return numbers | found.errors
