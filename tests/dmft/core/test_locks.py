"""The lock of an output: a holder that leaves between our open and our lock must not leave us with a file that is gone."""

from __future__ import annotations

import fcntl
import os

import pytest

from dmft.core.errors import FileError
from dmft.core.locks import lock


def test_a_lock_file_removed_under_us_is_noticed(tmp_path, monkeypatch):
    """The holder before removes the lock file after we have opened it. Our lock is then on a file without a name: who comes
    next would make a new one and write at the same time."""
    target, place = tmp_path / "a.h5", tmp_path / "a.h5.lock"
    honest, taken = fcntl.flock, []

    def flock(handle, how):
        if not taken:
            place.unlink()
        taken.append(handle)
        return honest(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock(target):
        assert len(taken) == 2 and place.exists()
        with pytest.raises(FileError, match=f"process {os.getpid()}"), lock(target):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_replaced_under_us_is_noticed(tmp_path, monkeypatch):
    """The same, but a third job has made a new lock file in between, and holds it."""
    target, place = tmp_path / "a.h5", tmp_path / "a.h5.lock"
    honest, others = fcntl.flock, []

    def flock(handle, how):
        if not others:
            place.unlink()
            others.append(os.open(place, os.O_RDWR | os.O_CREAT))
            honest(others[0], fcntl.LOCK_EX)
        return honest(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(FileError, match="another job is writing it"), lock(target):
        pass
    os.close(others[0])
