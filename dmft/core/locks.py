"""One job per output file."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dmft.core.errors import FileError


def lock_path(target: str | Path) -> Path:
    """The lock file of an output: there while a job holds it, and left behind if that job is killed."""
    return Path(f"{target}.lock")


def begun(target: str | Path) -> str:
    """Why an output has no file yet although a job has begun it; "" where no lock tells of such a job."""
    try:
        holder = lock_path(target).read_bytes()[:200].decode(errors="replace").strip()
    except OSError:
        return ""
    return (f"nothing is here yet: its job ({holder or 'unknown'}) has not come to its first checkpoint, or was killed before it; "
            "--resume begins it again")


@contextmanager
def lock(path: str | Path) -> Iterator[None]:
    """Hold the right to write the result `path`; a second job gets a FileError. Only the root rank may call this.

    The lock is the operating system's (flock), on a file beside the target: it is released when its holder dies, however that
    happens. Whoever holds it removes the temporary files of a killed writer.
    """
    target = Path(path)
    place = lock_path(target)
    handle = _acquire(place, target)
    try:
        for stray in target.parent.glob(f"{_escaped(target.name)}.*part"):
            stray.unlink(missing_ok=True)
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(handle)


def _acquire(place: Path, target: Path) -> int:
    """The open, locked lock file `place` of `target`; FileError while another job holds it."""
    while True:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise FileError(f"{target}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors="replace").strip()
            os.close(handle)
            raise FileError(f"{target}: another job is writing it ({holder or 'unknown'}); wait for it or choose "
                            "another -o") from None
        except OSError:
            return handle        # a file system without locks: continue without one
        # The holder before us may have removed the file between our open and our lock.
        if place.exists() and os.path.samestat(os.fstat(handle), os.stat(place)):
            with suppress(OSError):     # on a full disk the lock holds without its note
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return handle
        os.close(handle)


def _escaped(name: str) -> str:
    """The name as a pattern of `glob` that matches it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
