"""Show what the scatter of m(0) does to m(t): warm starts whose overlap is m0 only on average (start_overlap = "iid"), as the
paper's eqs. 11 and 12 have it, to leading order in 1/N.

Solves the theory at m0 and at m0 +- --step with the same random numbers. Printed are m(t), dm/dm0, and for each N the standard
deviation over runs that the start brings in, and what it adds to the mean, beside runs with m(0) = m0 exactly. With phase
retrieval all errors of the first steps are amplified: look at the errors before you trust late times.

examples:
  dmft spread runs/demo.toml --dimension 1000,4000
  dmft spread runs/fig2/gd.toml --dimension 1000 --set algorithm.t_max=10 --set theory.samples=16384
"""

from __future__ import annotations

import argparse

from dmft.convergence.start_law import START_STEP, StartLaw, start_law
from dmft.core.averages import error_text
from dmft.core.command import EXIT_DONE, naming, plugin_option, set_options, speaking
from dmft.core.parallel import world
from dmft.model.runfile import load_run
from workbench.cli.escape import dimensions_of
from workbench.inspection.curves import decades


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN.toml", help="run file with a warm start on the sphere")
    parser.add_argument("--dimension", metavar="N,...", required=True, help="dimensions, separated by commas")
    parser.add_argument("--step", metavar="D", type=float, default=START_STEP,
                        help=f"distance of the starts (default {START_STEP})")
    set_options(parser)
    plugin_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    dimensions = dimensions_of(options.dimension)
    with naming(options.run), speaking(options.quiet):
        law = start_law(load_run(options.run, options.overrides), options.step, options.quiet)
    if world().is_root:
        print("\n".join(table(law, dimensions)))
    return EXIT_DONE


def table(law: StartLaw, dimensions: list[int]) -> list[str]:
    """Text: one line for each of some times."""
    told = "".join(f"  {f'N = {n}: spread':>18}  {'shift of the mean':>20}" for n in dimensions)
    rows = [f"{'t':>8}  {'m':>18}  {'dm/dm0':>16}{told}"]
    for i in decades(law.t):
        text = (f"{law.t[i]:8.4g}  {law.m[i]:8.4f} +- {error_text(law.m_error[i]):>6}  "
                f"{law.slope[i]:7.3f} +- {error_text(law.slope_error[i]):>5}")
        for n in dimensions:
            shift, error = law.shift(n)[i], law.shift_error(n)[i]
            text += f"  {law.spread(n)[i]:18.4f}  {shift:+10.5f} +- {error_text(error):>6}"
        rows.append(text)
    return rows
