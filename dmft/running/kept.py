"""The state of a finished march that was kept (theory.keep_state), and whether a longer run can continue from it."""

from __future__ import annotations

import numpy as np

from dmft.core import store
from dmft.core.checkpoint import check_layout
from dmft.files.layouts import CHECKPOINTS
from dmft.model.runfile import parse_run
from dmft.running.replica import COARSE, WHOLE, Setup


def resumable_state(result: store.Stored, setup: Setup) -> store.Stored | None:
    """The header of the state kept beside a result, if the longer run of `setup` can continue from it; else None. It cannot where
    there is no such state or it belongs to another run, and where the longer run keeps its history in another way, needs entries
    of kernels that were not kept, or changes a setting at the step at which the shorter run ended."""
    if result.is_checkpoint or setup.run.theory.method != "march":
        return None
    state = store.state_header(result.path)
    if state is None or state.run_text != result.run_text:
        return None
    check_layout(state, CHECKPOINTS[state.kind])
    old, e = Setup.from_run(parse_run(result.run_text, any_loss=True)), setup.experiment
    end = old.experiment.steps
    visible = end - e.hidden
    known = all(np.isin(new[new < visible], before).all() for new, before in zip(setup.kept, old.kept))
    known = known and all(setup.history(which).extends(old.history(which)) for which in (WHOLE, COARSE))
    unchanged = e.batches.law(end) == e.batches.law(end - 1) and e.update.unchanged(end)
    return state if old.per_level == setup.per_level and known and unchanged else None
