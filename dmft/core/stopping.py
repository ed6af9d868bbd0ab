"""How a job is asked to stop: signals and a time limit, remembered until the job polls them."""

from __future__ import annotations

import signal
import time
from typing import Any, Protocol

EXIT_STOPPED, EXIT_INTERRUPTED = 75, 130


class Stop(Protocol):
    """Anything that may ask a job to stop."""

    @property
    def flags(self) -> int:
        """This rank's wish: bit 1 stop, bit 2 interrupted; 0 to continue."""


class Never:
    """Never asks a job to stop."""

    flags = 0


class StopSignals:
    """Remembers that the job was asked to stop, for its loop to poll.

    SIGTERM, SIGUSR1 and a time limit mean exit 75, SIGINT means 130; a second SIGINT ends the job at once.

    with StopSignals(time_limit) as stop:
        for step in ...:
            if stop.flags on any rank: save a checkpoint and raise Stopped(message, exit_code_of(flags))
    """

    def __init__(self, time_limit: float | None = None):
        self._flags = 0
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        if number == signal.SIGINT and self._flags & 2:
            raise KeyboardInterrupt
        self._flags |= 2 if number == signal.SIGINT else 1

    @property
    def flags(self) -> int:
        """This rank's wish: bit 1 stop, bit 2 interrupted. To be agreed over ranks."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._flags |= 1
        return self._flags


def exit_code_of(flags: int) -> int:
    """Exit code of agreed stop flags; 0 when there are none."""
    if flags & 2:
        return EXIT_INTERRUPTED
    return EXIT_STOPPED if flags & 1 else 0
