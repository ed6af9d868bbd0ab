"""The subcommands of `dmft`, one module each."""

from __future__ import annotations

from collections.abc import Sequence

from dmft.core.command import main_wrapper
from dmft.core.subcommands import Commands, run_subcommand

# name: (its module, one line for the overview)
COMMANDS: Commands = {
    "solve": ("workbench.cli.solve", "solve the mean-field equations of a run file"),
    "check": ("workbench.cli.check", "show what a run will compute and cost, without running it"),
    "plan": ("workbench.cli.plan", "work out how many samples an accuracy needs"),
    "compare": ("workbench.cli.compare", "compare a theory file with simulations"),
    "inspect": ("workbench.cli.inspect", "show what is in a result file or a checkpoint"),
    "diff": ("workbench.cli.diff", "show what differs between two files"),
    "plot": ("workbench.cli.plot", "draw what is in a file"),
    "report": ("workbench.cli.report", "write one page for the browser"),
    "export": ("workbench.cli.export", "write the contents of a file as CSV tables or as netCDF"),
    "figure": ("reproduction.paper.command", "make a figure of the paper"),
    "converge": ("workbench.cli.converge", "solve at several settings: distances, orders, the limit of small steps"),
    "limit": ("workbench.cli.limit", "compute where gradient descent ends on a convex loss"),
    "cite": ("workbench.cli.cite", "print what to cite for a run, with BibTeX"),
    "escape": ("workbench.cli.escape", "show when runs from a random start leave the plateau"),
    "hessian": ("workbench.cli.hessian", "show the Hessian of the training loss along a run"),
    "spread": ("workbench.cli.spread", "show how the scatter of a warm start spreads later"),
    "scan": ("workbench.cli.scan", "solve or simulate a grid of parameters on this machine"),
    "submit": ("workbench.cli.submit", "write and submit a Slurm job for a run, or a scan of parameters"),
    "collect": ("workbench.cli.collect", "gather the results of a scan into a table and a picture"),
    "schema": ("workbench.cli.schema", "print the JSON Schema of run files, for editors"),
    "completion": ("workbench.cli.completion", "print a script that completes commands in your shell"),
}

_EPILOG = """examples:
  dmft solve runs/demo.toml                             theory; the result goes under runs/out/
  dmft solve runs/demo.toml --set theory.samples=4000   change a key of the run file
  mpirun -n 4 dmft solve runs/demo.toml --resume        more ranks, the same numbers; continue after a stop
  sgd-sim run runs/demo.toml                            the same experiment, simulated
  dmft compare runs/out/demo.theory.h5 runs/out/demo.simulation.h5 --plot demo.png

exit codes: 0 done, 2 bad input, 3 diverged, 4 not converged, 75 stopped (--resume continues), 130 interrupted

`dmft COMMAND --help` says more about a command."""


def run_command(words: Sequence[str]) -> int:
    """Run `dmft WORDS...`; returns the exit code."""
    return main_wrapper(lambda _: run_subcommand("dmft", "Dynamical mean-field theory of stochastic gradient descent.", _EPILOG,
                                                 COMMANDS, words))
