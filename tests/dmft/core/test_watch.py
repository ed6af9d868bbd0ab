"""Ranks that watch each other: who is silent is named, who is dead ends the job, strangers are not heard."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from dmft.core.parallel import Comm
from dmft.core.watch import HERE, Member, _Watcher, watched

HOST = socket.gethostname()
TOKEN = b"sixteen letters."


@pytest.fixture
def ward():
    """A process that another rank would be."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def watcher(ward):
    """Rank 0 of two, and what it says when it ends the job."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("", 0))
        ended: list[str] = []
        comm = SimpleNamespace(rank=0, size=2, abort=lambda message, code: ended.append(message))
        members = [Member(0, os.getpid(), HOST, own.getsockname()[1]), Member(1, ward.pid, HOST, 9)]
        made = _Watcher(own, TOKEN, members, comm)
        yield made, ended


def test_a_dead_rank_ends_the_job_with_its_number(watcher, ward):
    watch, ended = watcher
    watch._listen()
    assert ended == []                      # silent, but alive
    ward.kill()
    begin = time.monotonic()
    watch.start()
    while not ended:
        assert time.monotonic() - begin < 10.0
        time.sleep(0.01)
    watch.end()
    assert ended[:1] == [f"rank 1 (process {ward.pid} on {HOST}) has died; --resume continues from the last checkpoint"]


def test_a_rank_that_was_never_heard_is_not_called_silent(watcher, capsys):
    """Some networks pass no datagrams."""
    watch, _ = watcher
    watch.limit = 0.0
    watch._judge()
    assert capsys.readouterr().err == ""


def test_a_silent_rank_is_named_once_and_so_is_its_return(watcher, ward, capsys):
    watch, ended = watcher
    watch.limit = 100.0
    for silent in (99.0, 101.0, 200.0, 0.0, 0.0):
        watch.heard = time.monotonic() - silent
        watch._judge()
    named = f"rank 1 (process {ward.pid} on {HOST})"
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{named} has not been heard of for 101 s") and second == f"{named} is back" and ended == []


@pytest.mark.long
def test_only_signs_with_the_token_of_this_job_count(watcher):
    watch, _ = watcher
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for word, heard in ((b"", False), (b"x" * 60, False), (TOKEN, True)):
            other.sendto(word, (HERE, watch.me.port))
            watch._listen()
            assert (watch.heard is not None) is heard


def test_one_rank_alone_watches_nobody():
    before = len(os.listdir("/proc/self/fd"))
    with watched(Comm()):
        assert len(os.listdir("/proc/self/fd")) == before
