"""What a command says while it works: a bar on a terminal, a line now and then in a log, only from rank 0."""

from __future__ import annotations

import sys
import time
from typing import Any

from dmft.core.parallel import world

LINE_EVERY = 30.0         # seconds between lines in a log
_BAR_EVERY = 0.1          # seconds between redraws on a terminal
_WIDTH = 28
_open_bar = False         # whether the cursor of the terminal stands behind a bar


def say(*words: Any, quiet: bool = False) -> None:
    """Print a line for the user on standard error, unless quiet; ranks other than 0 are silent."""
    global _open_bar
    if quiet or not world().is_root:
        return
    if _open_bar:
        sys.stderr.write("\r\x1b[K")
        _open_bar = False
    sys.stderr.write(" ".join(str(word) for word in words) + "\n")
    sys.stderr.flush()


class Progress:
    """How far a job of `total` units has come.

    with Progress(steps, "march", quiet) as progress:
        progress.update(done, "m = 0.93")
    """

    def __init__(self, total: float, label: str, quiet: bool = False):
        self.total, self.label = max(float(total), 1e-300), label
        self._silent = quiet or not world().is_root
        self._terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._first_done: float | None = None
        self._shown = self._start if not self._terminal else -1.0
        self._spoke = False

    def update(self, done: float, note: str = "") -> None:
        """Tell how much is done; cheap enough for every step."""
        if self._silent:
            return
        now = time.monotonic()
        if self._first_done is None:
            self._first_done = done       # a resumed job starts in the middle: its speed is measured from here
        if now - self._shown >= (_BAR_EVERY if self._terminal else LINE_EVERY):
            self._shown = now
            self._show(done, note)

    def close(self, note: str = "") -> None:
        """The job is over: leave one line behind if anything was shown."""
        global _open_bar
        if not self._silent and self._spoke:
            if _open_bar:
                sys.stderr.write("\r\x1b[K")
                _open_bar = False
            say(f"{self.label}: {time_text(time.monotonic() - self._start)}" + (f"  {note}" if note else ""))
        self._silent = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _show(self, done: float, note: str) -> None:
        global _open_bar
        self._spoke = True
        share = min(max(done / self.total, 0.0), 1.0)
        tail = f"{100 * share:3.0f} %{self._remaining(done)}" + (f"  {note}" if note else "")
        if self._terminal:
            bar = "#" * round(_WIDTH * share)
            sys.stderr.write(f"\r\x1b[K{self.label} [{bar:<{_WIDTH}}] {tail}")
            sys.stderr.flush()
            _open_bar = True
        else:
            say(f"{self.label}: {tail}")

    def _remaining(self, done: float) -> str:
        gone = done - (self._first_done or 0.0)
        if gone <= 0.0:
            return ""
        return f", {time_text((time.monotonic() - self._start) * max(self.total - done, 0.0) / gone)} left"


def time_text(seconds: float) -> str:
    """Seconds as people say them: 4.2 s, 3 min 20 s, 5 h 12 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
