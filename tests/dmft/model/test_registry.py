"""What one test registers must not be there for the next."""

from __future__ import annotations

from dmft.model.activations import BUILT_IN, register_activation
from dmft.model.losses import register_loss
from dmft.model.preprocessing import preprocessing_names, register_preprocessing
from dmft.model.registry import names
from tests.conftest import registries_restored


def _known() -> list[bool]:
    return ["left_behind" in known for known in (names("loss"), BUILT_IN, preprocessing_names())]


def _register() -> None:
    register_loss("left_behind", lambda f, y: (f - y) ** 2, lambda f, y: 2.0 * (f - y), lambda f, y: 2.0 + 0.0 * f)
    register_activation("left_behind", lambda x: x, lambda x: 1.0)
    register_preprocessing("left_behind", lambda y: min(y * y, 1.0))


def test_what_is_registered_is_forgotten():
    with registries_restored():
        _register()
        assert _known() == [True, True, True]
    assert _known() == [False, False, False] and "phase_retrieval" in names("loss") and "erf" in BUILT_IN
    _register()
    assert _known() == [True, True, True]      # without it, it stays: until this test ends, as every test is inside one
