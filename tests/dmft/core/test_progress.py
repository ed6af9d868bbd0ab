"""What a command says: a bar on a terminal, lines in a log, nothing when quiet."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from dmft.core import progress
from dmft.core.progress import Progress, say, time_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    class Clock:
        now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def _run(clock, stream, quiet=False):
    with redirect_stderr(stream), Progress(100, "march", quiet) as bar:
        for done in range(100):
            bar.update(done, "m = 0.5")
            clock.now += 1.0
    return stream.getvalue()


def test_a_log_gets_a_line_every_thirty_seconds(clock):
    lines = _run(clock, io.StringIO()).splitlines()
    assert len(lines) == 4
    assert lines[0] == "march:  30 %, 1 min 10 s left  m = 0.5"
    assert lines[-1] == "march: 1 min 40 s"


def test_a_terminal_gets_a_bar_that_is_wiped(clock):
    text = _run(clock, Terminal())
    assert text.count("\r") > 50 and "[#######" in text
    assert text.endswith("\r\x1b[Kmarch: 1 min 40 s\n")


class OutStream(io.StringIO):
    """Stands for the standard error of a notebook."""


OutStream.__module__ = "ipykernel.iostream"


def shown(text: str) -> list[str]:
    """What is read in the end: a carriage return goes back to the start of the line, and what follows is written over it."""
    lines = []
    for line in text.split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part):]
        lines.append(seen.rstrip())
    return lines


def test_a_notebook_gets_a_bar_without_control_sequences(clock):
    text = _run(clock, OutStream())
    assert text.count("#]") + text.count("# ") > 20 and "\x1b" not in text
    assert shown(text) == ["march: 1 min 40 s", ""]


def test_quiet_is_silent(clock):
    assert _run(clock, Terminal(), quiet=True) == ""
    with redirect_stderr(io.StringIO()) as stream:
        say("nothing", quiet=True)
    assert stream.getvalue() == ""


def test_other_ranks_are_silent(clock, monkeypatch):
    class Other:
        is_root = False
    monkeypatch.setattr(progress, "world", Other)
    assert _run(clock, io.StringIO()) == _run(clock, Terminal()) == ""


def test_a_resumed_job_measures_its_own_speed(clock):
    with redirect_stderr(io.StringIO()) as stream, Progress(100, "march") as bar:
        bar.update(40)
        bar.update(50)
        clock.now += 40.0
        bar.update(90)
    assert stream.getvalue().splitlines()[0] == "march:  90 %, 10.0 s left"


def test_the_first_step_is_no_measure(clock):
    """It draws samples and reads compiled code."""
    with redirect_stderr(io.StringIO()) as stream, Progress(100, "march") as bar:
        bar.update(0)
        clock.now += 100.0
        bar.update(1)
        clock.now += 30.0
        bar.update(31)
    assert stream.getvalue().splitlines()[:2] == ["march:   1 %", "march:  31 %, 1 min 9 s left"]


@pytest.mark.parametrize("seconds, text", [(4.21, "4.2 s"), (200, "3 min 20 s"), (18720, "5 h 12 min")])
def test_times(seconds, text):
    assert time_text(seconds) == text


def test_compiling_is_told_and_is_no_work(clock):
    """A minute of compiling before the first step does not count for what is left, and is told once; twin: a minute of work does
    count."""
    from numba.core import event

    def left(kind: str) -> list[str]:
        with redirect_stderr(io.StringIO()) as stream, Progress(100, "march") as bar:
            bar.update(0)
            bar.update(1)
            for _ in range(2):
                event.broadcast(event.Event(kind, event.EventStatus.START))
                clock.now += 30.0
                event.broadcast(event.Event(kind, event.EventStatus.END))
                bar.update(1)
            clock.now += 40.0
            bar.update(41)
        return stream.getvalue().splitlines()

    told = left("numba:compile")
    assert told[0].startswith("march: compiling the inner loops, once") and sum("compiling" in line for line in told) == 1
    assert told[-2] == "march:  41 %, 59.0 s left"
    assert left("numba:run_pass")[-2] == "march:  41 %, 2 min 27 s left"
