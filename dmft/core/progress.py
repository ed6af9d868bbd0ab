"""What a command says while it works: a bar on a terminal or in a notebook, a line now and then in a log, only from rank 0."""

from __future__ import annotations

import sys
import time
from typing import Any

from dmft.core import compiling
from dmft.core.parallel import world

LINE_EVERY = 30.0         # seconds between lines in a log
_BAR_EVERY = 0.1          # seconds between redraws on a terminal
_NOTEBOOK_EVERY = 0.5     # and in a notebook, to which every redraw is a message
_WIDTH = 28
LONG_COMPILATION = 5.0    # seconds of compiling that are worth a word
_wipe = ""                # what to write to erase the progress bar on the present line; "" where there is none


def say(*words: Any, quiet: bool = False) -> None:
    """Print a line for the user on standard error, unless quiet; ranks other than 0 are silent."""
    global _wipe
    if quiet or not world().is_root:
        return
    sys.stderr.write(_wipe + " ".join(str(word) for word in words) + "\n")
    sys.stderr.flush()
    _wipe = ""


class Progress:
    """How far a job of `total` units has come. Time spent on compiling is told, and does not count for the time that is left.

    with Progress(steps, "march", quiet) as progress:
        progress.update(done, "m = 0.93")
    """

    def __init__(self, total: float, label: str, quiet: bool = False):
        self.total, self.label = max(float(total), 1e-300), label
        self._silent = quiet or not world().is_root
        self._notebook = type(sys.stderr).__module__.partition(".")[0] == "ipykernel"
        self._every = _NOTEBOOK_EVERY if self._notebook else _BAR_EVERY if sys.stderr.isatty() else LINE_EVERY
        self._start = time.monotonic()
        self._first: tuple[float, float] | None = None      # what was done, and working time, at the first update
        self._warm = False
        self._compiled = compiling.compiled_seconds()
        self._said_compiling = False
        if not self._silent:
            compiling.tell(self._compiling)
        self._shown = self._start if self._every == LINE_EVERY else -1.0     # time of the last output
        self._spoke = False                                                  # whether anything was shown

    def update(self, done: float, note: str = "") -> None:
        """Tell how much is done; cheap enough for every step."""
        if self._silent:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = done, self._worked()       # a resumed job starts in the middle: its speed is measured from here
        elif not self._warm and done > self._first[0]:
            self._first, self._warm = (done, self._worked()), True       # the first step sets up, and says little of the others
        if now - self._shown >= self._every:
            self._shown = now
            self._show(done, note)

    def close(self, note: str = "") -> None:
        """The job is over: leave one line behind if anything was shown."""
        if not self._silent and self._spoke:
            say(f"{self.label}: {time_text(time.monotonic() - self._start)}" + (f"  {note}" if note else ""))
        if not self._silent:
            compiling.tell(None)
        self._silent = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _show(self, done: float, note: str) -> None:
        """Draw the bar, or print a line in a log."""
        global _wipe
        self._spoke = True
        share = min(max(done / self.total, 0.0), 1.0)
        if not self._warm and self._every == LINE_EVERY:
            self._compiling()       # nothing to report yet
            return
        tail = f"{100 * share:3.0f} %{self._remaining(done)}" + (f"  {note}" if note else "")
        if self._every == LINE_EVERY:
            say(f"{self.label}: {tail}")
            return
        line = f"{self.label} [{'#' * round(_WIDTH * share):<{_WIDTH}}] {tail}"
        sys.stderr.write((_wipe or "\r") + line)
        sys.stderr.flush()
        # Notebooks know the carriage return, but not every one the sequence that clears the rest of a line.
        _wipe = f"\r{' ' * len(line)}\r" if self._notebook else "\r\x1b[K"

    def _worked(self) -> float:
        """Seconds since the beginning without those of compiling."""
        return time.monotonic() - self._start - (compiling.compiled_seconds() - self._compiled)

    def _compiling(self) -> None:
        """Say once that the inner loops are being compiled, when that takes long."""
        if not self._said_compiling and compiling.compiled_seconds() - self._compiled > LONG_COMPILATION:
            self._said_compiling = self._spoke = True
            say(f"{self.label}: compiling the inner loops, once for this kind of run; the result is kept on disk")

    def _remaining(self, done: float) -> str:
        assert self._first is not None
        gone = done - self._first[0]
        if gone <= 0.0:
            return ""
        return f", {time_text((self._worked() - self._first[1]) * max(self.total - done, 0.0) / gone)} left"


def time_text(seconds: float) -> str:
    """Seconds as people say them: 4.2 s, 3 min 20 s, 5 h 12 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
