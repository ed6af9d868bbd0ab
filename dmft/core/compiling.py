"""How long Numba has been compiling in this process, so that progress does not take it for work; and silence on its experiments."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

from numba.core import event
from numba.core.errors import NumbaExperimentalFeatureWarning

# The loops of networks take functions as arguments, which Numba calls experimental, once a function: no user can mend that.
warnings.simplefilter("ignore", NumbaExperimentalFeatureWarning)


class _Listener(event.Listener):
    """Adds up the time of compilations; those inside others count once."""

    def __init__(self) -> None:
        self.depth, self.begun, self.total = 0, 0.0, 0.0
        self.heard: Callable[[], None] | None = None  # called when a function has been compiled

    def on_start(self, event: event.Event) -> None:
        if self.depth == 0:
            self.begun = time.monotonic()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.total += time.monotonic() - self.begun
        if self.heard:
            self.heard()


_listener = _Listener()
event.register("numba:compile", _listener)


def compiled_seconds() -> float:
    """Seconds spent so far, with those of a compilation under way."""
    return _listener.total + (time.monotonic() - _listener.begun if _listener.depth else 0.0)


def tell(heard: Callable[[], None] | None) -> None:
    """From now on call `heard` whenever a function has been compiled; None: nobody."""
    _listener.heard = heard
