"""Compute where gradient descent ends on a convex loss, from the static equations: exact, without samples and time steps. Below it,
what Bayes-optimal learning reaches on the same data, where that is known: bayes_... (the posterior mean, by message passing),
best_... with unlimited time, and thresholds in alpha for labels that do not tell a sign. cosine = m/sqrt(q), of the angle between
weights and teacher, and errors on new samples can be compared; m itself depends on the norm (bayes_overlap is m = q of the
posterior mean).

examples:
  dmft limit runs/data/logistic-flips.toml
  dmft limit runs/demo.toml                   phase retrieval: not convex, but alpha_IT and alpha_AMP
  dmft limit runs/data/logistic-flips.toml --set problem.ridge=0.1 --json
  dmft limit mine.toml --plugin my_loss.py    a loss of your own, registered with convex=True
"""

from __future__ import annotations

import argparse
import json
import logging

from dmft.core.command import EXIT_DONE, naming, run_file_options, speaking
from dmft.core.errors import RunError
from dmft.core.parallel import world
from dmft.model.runfile import Run, load_run
from dmft.statics.bayes import BayesOptimal, bayes
from dmft.statics.limits import ConvexLimit, fixed_point


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_file_options(parser)
    parser.add_argument("--json", action="store_true", help="print the same as JSON, for scripts")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        with naming(options.run), speaking(options.json):
            asked = load_run(options.run, options.overrides)
            numbers = reference_numbers(asked)
        if options.json:
            print(json.dumps(numbers, indent=1))
        else:
            print("\n".join(f"{name:<16}{value:.10f}" for name, value in numbers.items()))
    return EXIT_DONE


def reference_numbers(asked: Run) -> dict[str, float]:
    """Numbers of the limit and of Bayes-optimal learning, by name; RunError with the reason if there are neither."""
    try:
        ends = limit_numbers(fixed_point(asked))
    except RunError as reason:
        ends, missing = {}, reason
    try:
        best = bayes_numbers(bayes(asked))
    except RunError:
        best = {}
    if not ends and not best:
        raise missing
    if not ends:
        logging.getLogger("dmft").info("note: no limit of gradient descent: %s", missing)
    return ends | best


def bayes_numbers(found: BayesOptimal) -> dict[str, float]:
    """The numbers of Bayes-optimal learning by name; best_... (unlimited time) only where they differ."""
    numbers = {"bayes_cosine": found.cosine, "bayes_overlap": found.overlap}
    numbers |= {f"bayes_{name}": value for name, value in found.errors.items()}
    if found.best_overlap > found.overlap:
        numbers |= {"best_cosine": found.best_cosine, "best_overlap": found.best_overlap}
        numbers |= {f"best_{name}": value for name, value in found.best_errors.items()}
    return numbers | found.thresholds


def limit_numbers(found: ConvexLimit) -> dict[str, float]:
    """The numbers of a fixed point by name, as far as its data model defines them."""
    numbers = {name: value for name, value in vars(found).items() if name != "errors" and value is not None}
    return {"cosine": found.cosine} | numbers | found.errors
