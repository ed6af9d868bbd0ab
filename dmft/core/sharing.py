"""Ranks that share a card work on it at the same time, not in turn: NVIDIA's Multi-Process Service (MPS).

Left alone, a card turns from one process to the next, and eight solutions take as long as one after the other. The first process
that shares a card starts the service, for this user (and this step of a Slurm job) on this node alone; the last one stops it. They
meet in a folder of their own, and learn of each other by locks of the operating system, which are released however a process ends.
After a kill the service waits for the next job of the user, which takes it over.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
USUAL = Path("/tmp/nvidia-mps/control")  # noqa: S108 - where a service that an administrator started listens
SWITCH = "DMFT_MPS"  # 0: never start the service
OWN_CARDS = ("SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK")  # where every rank sees a card of its own, and may open no other
MOST_RANKS = 48  # that the service takes on one card
SERVICE_PATIENCE = 5.0  # seconds that the service may take to start


def visible_cards() -> int:
    """Cards that CUDA will find. CUDA itself is not asked, because the service has to be there before it starts."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return len([name for name in named.split(",") if name.strip()])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def served() -> bool:
    """Whether a service is there for this process."""
    return PIPES in os.environ or USUAL.exists()


def share_cards(ranks: int) -> str:
    """Let so many ranks of this node work on its cards at the same time; each of them calls this before CUDA starts. Returns why
    that could not be had, "" otherwise."""
    cards = visible_cards()
    if ranks < 2 or ranks <= cards or served() or any(name in os.environ for name in OWN_CARDS):
        return ""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH} is 0"
    if ranks > MOST_RANKS * max(cards, 1):
        return f"more than {MOST_RANKS} on a card"
    if shutil.which(CONTROL) is None:
        return f"{CONTROL} is not installed"
    try:
        meeting = _meeting()
        users = os.open(meeting / "users", os.O_RDWR | os.O_CREAT, 0o600)
        with _alone(meeting):
            service = _found(meeting) or _started(meeting)
            fcntl.flock(users, fcntl.LOCK_SH)
    except (OSError, subprocess.SubprocessError) as error:
        return f"NVIDIA's service for it did not start ({error})"
    os.environ[PIPES] = os.environ[LOGS] = str(service)
    atexit.register(_leave, meeting, service, users)
    return ""


def _meeting() -> Path:
    """The folder in which processes meet; OSError where somebody else could write into it."""
    job = f"{os.environ.get('SLURM_JOB_ID', '0')}.{os.environ.get('SLURM_STEP_ID', '0')}"
    meeting = Path(tempfile.gettempdir()) / f"dmft-mps-{os.getuid()}-{os.uname().nodename}-{job}"
    meeting.mkdir(mode=0o700, exist_ok=True)
    found = meeting.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{meeting} is not yours alone")
    return meeting


@contextmanager
def _alone(meeting: Path) -> Iterator[None]:
    """While one process starts or stops the service, others wait."""
    gate = os.open(meeting / "gate", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


def _found(meeting: Path) -> Path | None:
    """Where the service listens that another process started; None where none lives."""
    try:
        service = meeting / (meeting / "service").read_text()
        os.kill(int((service / f"{CONTROL}.pid").read_text()), 0)
    except (OSError, ValueError):
        return None
    return service


def _environment(service: Path) -> dict[str, str]:
    """That of the service. It sees all cards: which of them a process sees is for the process to say."""
    own = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return own | {PIPES: str(service), LOGS: str(service)}


def _started(meeting: Path) -> Path:
    """Where the service listens that this process has started; a folder of its own, so that nobody meets one that is ending."""
    service = Path(tempfile.mkdtemp(dir=meeting))
    try:
        subprocess.run([CONTROL, "-d"], env=_environment(service), timeout=SERVICE_PATIENCE, check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(service, ignore_errors=True)
        raise
    (meeting / "service").write_text(service.name)
    return service


def _leave(meeting: Path, service: Path, users: int) -> None:
    """The last process stops the service, without waiting for it: it ends after the last process that it serves, this one."""
    with suppress(OSError), _alone(meeting):
        fcntl.flock(users, fcntl.LOCK_UN)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        (meeting / "service").unlink(missing_ok=True)
        subprocess.Popen(["/bin/sh", "-c", 'echo quit | "$0"; rm -rf "$1"', CONTROL, str(service)], env=_environment(service),
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(users)
