"""Ranks watch each other: a rank that stalls is named, a rank that has died ends the job.

Ranks wait for each other inside MPI, which does not tell for whom. So each rank has a thread that sends a sign of life (a
datagram, outside MPI) to the rank before it, and listens for the rank after it. A stopped process sends none; the death of a
process on the same machine is told by the operating system. A rank that was never heard (a network without datagrams) is not
reported as silent.
"""

from __future__ import annotations

import logging
import os
import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from dmft.core.parallel import Comm, world

STALLED = 120.0         # seconds of silence; longer than any step or compilation, during which no thread runs (or DMFT_STALLED)
EVERY = 1.0             # seconds between signs
HERE = "127.0.0.1"
SHOWN = 32              # ranks whose processes are named in the log
_log = logging.getLogger("dmft")


class Member(NamedTuple):
    """A rank as the others know it."""

    rank: int           # in the whole job
    process: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.process} on {self.host})"


@contextmanager
def watched(comm: Comm) -> Iterator[None]:
    """While the block runs, the ranks of `comm`, which all enter it, watch each other."""
    if comm.size == 1:
        yield
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("", 0))
        token = comm.bcast(secrets.token_bytes(16))
        members = comm.gather(Member(world().rank, os.getpid(), socket.gethostname(), own.getsockname()[1]))
        if comm.is_root and comm.size == world().size:      # launchers name a process that died, not its rank
            _log.info("%d ranks: %s%s", comm.size, ", ".join(map(str, members[:SHOWN])), " ..." if comm.size > SHOWN else "")
        watcher = _Watcher(own, token, members, comm)
        watcher.start()
        try:
            yield
        finally:
            watcher.end()


class _Watcher(threading.Thread):
    """The thread of one rank."""

    def __init__(self, own: socket.socket, token: bytes, members: list[Member], comm: Comm):
        super().__init__(daemon=True)
        self.own, self.token, self.comm = own, token, comm
        self.me, self.before = members[comm.rank], members[comm.rank - 1]
        self.after = members[(comm.rank + 1) % comm.size]       # the rank that is watched
        self.limit = float(os.environ.get("DMFT_STALLED", STALLED))
        self.death = _death_of(self.after, self.me)
        self.heard: float | None = None         # when the watched rank gave its last sign of life; None: never
        self.told = False                       # whether its silence was reported
        self.ended = threading.Event()

    def end(self) -> None:
        """Stop watching, at once."""
        self.ended.set()
        with suppress(OSError):
            self.own.sendto(b"", (HERE, self.me.port))      # wakes the thread
        self.join()
        if self.death >= 0:
            os.close(self.death)

    def run(self) -> None:
        while not self.ended.is_set():
            self._send()
            self._listen()
            self._judge()

    def _send(self) -> None:
        near = self.before.host == self.me.host
        with suppress(OSError):                 # then the other rank never hears this one, and does not report it
            self.own.sendto(self.token, (HERE if near else self.before.host, self.before.port))

    def _listen(self) -> None:
        """Receive signs of life for EVERY seconds."""
        until = time.monotonic() + EVERY
        while (left := until - time.monotonic()) > 0.0 and not self.ended.is_set():
            places: list[Any] = [self.own] if self.death < 0 else [self.own, self.death]
            heard, _, _ = select.select(places, [], [], left)
            if self.death in heard:
                self._end_job()
            elif heard and self.own.recv(64) == self.token:
                self.heard = time.monotonic()

    def _judge(self) -> None:
        """Report a silence that is too long, and its end."""
        if self.heard is None or self.ended.is_set():
            return
        silent = time.monotonic() - self.heard
        if silent > self.limit and not self.told:
            _tell(f"{self.after} has not been heard of for {silent:.0f} s: stopped, starved or cut off; the others wait for it")
            self.told = True
        elif silent < 5.0 * EVERY and self.told:
            _tell(f"{self.after} is back")
            self.told = False

    def _end_job(self) -> None:
        """End all ranks because the watched one has died. Said at once: a launcher that notices it too names no rank."""
        if not self.ended.is_set():
            self.comm.abort(f"{self.after} has died; --resume continues from the last checkpoint", 1)


def _tell(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def _death_of(member: Member, me: Member) -> int:
    """A file descriptor that becomes readable when a process of this machine dies; -1 where there is none."""
    if member.host != me.host or not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(member.process)
    except OSError:             # another machine of the same name, or another container
        return -1
