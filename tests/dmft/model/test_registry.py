"""What one test registers must not be there for the next: the second test looks for what the first has left."""

from __future__ import annotations

from dmft.model.losses import loss_names, register_loss
from sgd_sim.models.activations import BUILT_IN, register_activation


def test_registering_makes_known():
    register_loss("left_behind", lambda f, y: (f - y) ** 2, lambda f, y: 2.0 * (f - y), lambda f, y: 2.0 + 0.0 * f)
    register_activation("left_behind", lambda x: x, lambda x: 1.0)
    assert "left_behind" in loss_names() and "left_behind" in BUILT_IN


def test_the_next_test_does_not_see_it():
    assert "left_behind" not in loss_names() and "left_behind" not in BUILT_IN
    assert "phase_retrieval" in loss_names() and "erf" in BUILT_IN
