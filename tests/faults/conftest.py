"""Small runs to be killed, cut and corrupted; and the count of faults, printed at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import chdir, contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from dmft.core import store
from dmft.core.errors import FileError
from tests.conftest import mpirun
from tests.run_files import run_text

HANG = 60.0                                          # seconds after a fault in which everything must end
PATIENCE = 600.0                                     # seconds for a whole run, on a busy machine
TRIALS = 20                                          # of what must come while a run is at work
KILLS = int(os.environ.get("FAULT_KILLS", "50"))     # SIGKILLs at random moments; CI takes fewer

RUN = run_text(t_max=1.6, theory={"samples": 100, "replicas": 2, "checkpoint_interval": 0.05},
               simulation={"dimension": 400, "instances": 200, "checkpoint_interval": 0.05})
COMMANDS = {"theory": ("dmft", "solve"), "simulation": ("sgd_sim", "run")}
_count = {"tried": 0, "survived": 0, "in the middle of a write": 0}


class Bench:
    """A folder with a run, and commands started in it as users do."""

    def __init__(self, folder: Path, kind: str = "theory"):
        self.folder, self.kind = folder, kind
        self.output = folder / "a.h5"
        self.checkpoint = store.checkpoint_path(self.output)
        folder.mkdir(exist_ok=True)
        (folder / "a.toml").write_text(RUN)

    def words(self, *options: str, ranks: int = 1) -> list[str]:
        module, verb = COMMANDS[self.kind]
        command = [sys.executable, "-m", module, verb, "a.toml", "-o", "a.h5", "--quiet", *options]
        return command if ranks == 1 else [mpirun(), "-n", str(ranks), *command]

    def start(self, *options: str, ranks: int = 1) -> subprocess.Popen:
        return subprocess.Popen(self.words(*options, ranks=ranks), cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True)

    def go(self, *options: str, ranks: int = 1, **settings) -> subprocess.CompletedProcess:
        """Run to the end; a hang fails the test."""
        return subprocess.run(self.words(*options, ranks=ranks), cwd=self.folder, capture_output=True, text=True,
                              timeout=PATIENCE, **settings)

    def refused(self, *options: str, saying: str, ranks: int = 1, **settings) -> None:
        """Exit 2 and one clear line. What is refused at once is asked for in this process, which saves its start."""
        if ranks == 1 and not settings:
            code, errors = self._inside(*options)
        else:
            done = self.go(*options, ranks=ranks, **settings)
            code, errors = done.returncode, done.stderr
        assert code == 2 and saying in errors, (code, errors)
        assert len(errors.strip().splitlines()) == 1, errors

    def _inside(self, *options: str) -> tuple[int, str]:
        main = import_module(f"{COMMANDS[self.kind][0]}.cli").main
        errors = StringIO()
        with chdir(self.folder), redirect_stderr(errors):
            code = main(self.words(*options)[3:])
        return code, errors.getvalue()

    def interrupted(self, share: float = 0.2) -> None:
        """Bring the run to where it has a checkpoint and is not done."""
        for _ in range(TRIALS):
            process = self.start("--resume")
            wait_until(lambda process=process: process.poll() is not None or self._reached(share))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=HANG)
            if process.returncode == 75:
                assert self.checkpoint.exists() and not self.output.exists(), errors
                return
            self.too_late(errors)
        raise AssertionError("the run was always over before the signal came")

    def _reached(self, share: float) -> bool:
        try:
            return self.checkpoint.exists() and store.load_header(self.checkpoint).attrs.get("progress", 1.0) >= share
        except FileError:       # removed this very moment, because the run is done
            return True

    def too_late(self, errors: str) -> None:
        """On a busy machine a run may be over before a test gets its turn: the result is whole; make room for another trial."""
        store.load(self.output)
        assert not errors.strip(), errors
        self.output.unlink()

    def resumes_to(self, expected: dict[str, np.ndarray]) -> None:
        done = self.go("--resume")
        assert done.returncode == 0, done.stderr
        self.holds(expected)
        left = sorted(path.name for path in self.folder.iterdir())
        assert left == ["a.h5", "a.toml"], "strays are left behind"

    def holds(self, expected: dict[str, np.ndarray]) -> None:
        """The result has every bit of the undisturbed one."""
        arrays = store.load(self.output).arrays
        assert arrays.keys() == expected.keys()
        different = [name for name in expected if not np.array_equal(arrays[name], expected[name],
                                                                     equal_nan=expected[name].dtype.kind == "f")]
        assert different == []


def wait_until(condition, seconds: float = PATIENCE, nap: float = 0.01) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "hangs"
        time.sleep(nap)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "bench")


@pytest.fixture
def simulation(tmp_path):
    return Bench(tmp_path / "bench", "simulation")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """{kind: arrays of the result that nothing happened to}."""
    results = {}
    for kind in COMMANDS:
        bench = Bench(tmp_path_factory.mktemp(kind) / "bench", kind)
        done = bench.go("--set", f"{kind}.checkpoint_interval=1000")
        assert done.returncode == 0, done.stderr
        results[kind] = store.load(bench.output).arrays
    return results


@pytest.fixture
def fault():
    """fault(writing): count a fault, in the middle of a write or not; it has survived when the block ends well."""
    @contextmanager
    def counted(writing: bool = False):
        _count["tried"] += 1
        _count["in the middle of a write"] += writing
        yield
        _count["survived"] += 1

    return counted


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):         # a process of pytest-xdist hands its count on
        session.config.workeroutput["faults"] = dict(_count)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, number in getattr(node, "workeroutput", {}).get("faults", {}).items():
        _count[name] += number


def pytest_terminal_summary(terminalreporter):
    if _count["tried"]:
        terminalreporter.write_line(f"faults: {_count['tried']} tried, {_count['survived']} survived "
                                    f"({_count['in the middle of a write']} kills came in the middle of a write)")
