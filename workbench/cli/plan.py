"""Work out how many samples and replicas of the theory an accuracy needs, and what they cost here and on a GPU.

Noise and bias are estimated from a finished theory (--from), or from a quick pilot with a few thousand samples. The noise of a
replica falls as 1/sqrt(samples), and more replicas average it out; the bias falls as 1/samples, and more replicas do not help.
The target is CURVE:ERROR@TIME, where the error is absolute or, with %, relative.

examples:
  dmft plan runs/demo.toml --target m:0.2%@2
  dmft plan runs/demo.toml --target loss:0.001@2 --from runs/out/demo.theory.h5
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.api import load, solve
from dmft.convergence.planning import Accuracy, SamplePlan, Target, accuracy, pilot_of, plan, same_problem
from dmft.core.command import EXIT_DONE, naming, plugin_option, set_options, speaking
from dmft.core.errors import UserError
from dmft.core.parallel import world
from dmft.core.progress import say, time_text
from dmft.model.runfile import Run, load_run
from dmft.result.theory import Theory
from dmft.running.cost import estimate, size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", help="run file")
    parser.add_argument("--target", metavar="CURVE:ERROR@TIME", required=True, help="the accuracy you want, e.g. m:0.2%%@5")
    parser.add_argument("--from", dest="file", metavar="FILE.h5", type=Path, help="a theory from which to estimate noise and bias")
    set_options(parser)
    plugin_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    target = Target.parse(options.target)
    with naming(options.run), speaking(options.quiet):
        asked = load_run(options.run, options.overrides)
        known = accuracy(_theory(asked, target, options), target)
        found = plan(known, target)
    if world().is_root:
        print("\n".join(_lines(asked, target, known, found)))
    return EXIT_DONE


def _theory(asked: Run, target: Target, options: argparse.Namespace) -> Theory:
    if options.file:
        found = load(options.file)
        if not isinstance(found, Theory):
            raise UserError(f"{options.file}: no theory; --from wants a file of dmft solve")
        same_problem(asked, found)
        return found
    pilot = pilot_of(asked, target)
    say(f"pilot: {pilot.theory.replicas} x {pilot.theory.samples} samples to t = {target.t:g}", quiet=options.quiet)
    return solve(pilot, quiet=options.quiet)


def _lines(asked: Run, target: Target, known: Accuracy, found: SamplePlan) -> list[str]:
    """The plan in words."""
    what = f"{target.curve}({target.t:g})"
    bias = "not known" if known.bias != known.bias else f"{known.bias:+.2g} +- {known.bias_error:.2g}"
    chosen = asked.replace({"theory.samples": found.samples, "theory.replicas": found.replicas, "theory.target_error": 0.0})
    lines = [f"{what} = {known.value:.5g}; a replica of {known.samples} samples scatters by {known.spread:.2g} (from "
             f"{known.replicas} replicas, good to {100 / (2 * (known.replicas - 1)) ** 0.5:.0f} %), bias {bias}",
             f"wanted: {what} to {found.wanted:.2g}",
             f"take --set theory.samples={found.samples} --set theory.replicas={found.replicas}: "
             f"noise {found.noise:.2g}, bias {'not known' if found.bias != found.bias else f'{found.bias:+.2g}'}"]
    for where, device in (("here", "cpu"), ("on a GPU", "gpu")):
        try:
            run = chosen.replace({"theory.device": device})
        except UserError:
            continue  # not everything runs on a card
        cost = estimate(run, "theory", world().size, cards=1)
        card = f", {size_text(cost.card_bytes)} of the card" if cost.card_bytes else ""
        lines.append(f"{where}: about {time_text(cost.seconds)} to t = {asked.algorithm.t_max:g}, {size_text(cost.rank_bytes)} of "
                     f"memory{card}")
    return lines
