"""What a run goes on from: its checkpoint, or a finished result that has grown."""

from __future__ import annotations

from pathlib import Path

from dmft.core import store
from dmft.model.resume import grown
from dmft.model.runfile import Run
from sgd_sim.archive import unpack
from sgd_sim.states import States, empty_states, grown_states


def resumed_states(run: Run, output: Path) -> States:
    """The states to go on from; empty ones when there is nothing. RunError when the run is another one."""
    stored = store.load_checkpoint(output)
    if stored is None:
        if not output.exists():
            return empty_states(run)
        stored = store.load(output)
    states = unpack(stored)[1]
    grown(stored.run_text, run, "simulation", str(stored.path))
    return grown_states(states, run)
