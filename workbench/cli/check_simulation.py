"""Read RUN.toml and show what its simulation will compute: the completed run, memory, an estimate of the time here and on a
GPU, and warnings. Exit code 0, or 2 for bad input and for what does not fit into memory.

examples:
  sgd-sim check runs/demo.toml
"""

from __future__ import annotations

import argparse

from dmft.core.parallel import Comm
from dmft.model.runfile import Run
from sgd_sim import simulation
from workbench.cli import check
from workbench.cli.check import add_arguments as add_arguments


def run(options: argparse.Namespace) -> int:
    return check.show(options, "simulation", _check)


def _check(run: Run, comm: Comm) -> None:
    if run.simulation.device == "cpu":
        simulation.check(run, comm)
