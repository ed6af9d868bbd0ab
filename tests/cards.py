"""Cards for tests: who is given which, and cards that differ from one that is there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dmft.core import device

ASK_FOR_CARDS = ("dmft", "sgd_sim", "reproduction")  # packages


@contextmanager
def given_out(card: Any) -> Iterator[None]:
    """Whoever asks for a card gets this one, in whatever module the question stands; the card of the innermost block counts."""
    def given(*_: Any) -> Any:
        return card

    asked = device.gpu
    assert _answers_become(asked, given) > 1, "nobody asks for a card"
    try:
        yield
    finally:
        _answers_become(given, asked)  # also in modules that were imported meanwhile


def _answers_become(old: Any, new: Any) -> int:
    """Put one function in the place of another in all modules that ask it for cards; returns their number."""
    holders = [module for name, module in list(sys.modules.items())
               if name.split(".")[0] in ASK_FOR_CARDS and getattr(module, "gpu", None) is old]
    for module in holders:
        module.gpu = new  # type: ignore[attr-defined]
    return len(holders)


class Changed:
    """A card that is another one but for some attributes, and for a fragment of the sources that it compiles."""

    def __init__(self, card: Any, old: str = "", new: str = "", **attributes: Any):
        self._card, self._old, self._new, self._attributes = card, old, new, attributes

    def __getattr__(self, name: str) -> Any:
        return self._attributes[name] if name in self._attributes else getattr(self._card, name)

    def kernels(self, text: str, names: Any) -> Any:
        assert self._old in text, f"the sources have no '{self._old}' any more"
        return self._card.kernels(text.replace(self._old, self._new), names)
