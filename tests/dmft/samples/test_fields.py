"""The loss of all samples, compiled: with a loss of the package it is compiled once and then found on disk."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.model.classification import door
from dmft.model.losses import PHASE, Loss, register_loss
from dmft.samples.fields import make_fields
from dmft.samples.state import Fields, Learning, SampleState

LOSSES = {"phase retrieval": PHASE, "a door of another width": door(0.3)}


def compiled_here(loss: Loss) -> int:
    """How often this process compiles the fields of a loss, instead of finding them."""
    integers = {"name": np.int64, "line": np.int64}
    state = SampleState(*(np.ones(3, integers.get(name, np.float64)) for name in SampleState._fields))
    evaluate = make_fields(loss)
    evaluate(state, Learning(*np.ones((3, 3))), 0.2, 0.0, 0.1, 1.0, False, 4.0, Fields(*np.empty((4, 3))))
    return sum(evaluate.stats.cache_misses.values())


@pytest.mark.cli
def test_losses_of_the_package_are_found_on_disk(run_python):
    for loss in LOSSES.values():
        compiled_here(loss)
    again = run_python("-c", "from tests.dmft.samples.test_fields import LOSSES, compiled_here\n"
                             "print([compiled_here(loss) for loss in LOSSES.values()])")
    assert again.stdout.strip() == "[0, 0]", again.stderr


@pytest.mark.long
def test_a_loss_of_a_user_leaves_nothing_on_disk():
    loss = register_loss("mine", lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y, lambda f, y: 1.0 + 0.0 * f)
    compiled_here(loss)
    assert make_fields(loss)._cache.cache_path is None  # it would be another entry for every process, and none would be found
