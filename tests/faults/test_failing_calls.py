"""The k-th write, fsync, rename, open or allocation of a short run fails, for every k: either the old file or the new one is
whole, the message is one line, nothing is left over, and --resume gives the same bits. Inside one process, so that hundreds are
affordable."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from conftest import KILLS  # type: ignore[import-not-found]

import dmft.cli
import onepass.cli
import sgd_sim.cli
from dmft.core import store
from tests.run_files import run_text

MOST = min(60, KILLS + 2)       # of one kind of call; spread evenly where there are more

RUN = run_text(t_max=0.06, theory={"samples": 32, "replicas": 2, "checkpoint_interval": 1e-6},
               simulation={"dimension": 20, "instances": 3, "checkpoint_interval": 1e-6})
ONE_PASS = """
[model]
kind = "QuadraticNetwork"
width = 2
gamma = 0.2
[initial]
M = [[0.3], [0.1]]
Q = [[1.0, 0.1], [0.1, 1.0]]
[time]
t_max = 0.2
points = 3
[simulation]
process = "{}"
dimension = 40
instances = 3
checkpoint_interval = 1e-6
"""
COMMANDS = {"theory": (dmft.cli.main, ["solve"], RUN), "simulation": (sgd_sim.cli.main, ["run"], RUN),
            "study": (dmft.cli.main, ["converge", "--samples", "16,32"], RUN),
            "ode": (onepass.cli.main, ["solve"], ONE_PASS.format("chain")),
            **{process: (onepass.cli.main, ["simulate"], ONE_PASS.format(process)) for process in ("chain", "sgd", "sde")}}
ALLOCATE = ("empty", "zeros", "full", "array", "concatenate", "ascontiguousarray", "empty_like", "zeros_like", "full_like")
PACKAGES = ("dmft.", "sgd_sim.", "onepass.", "workbench.")


class Saboteur:
    """Counts the calls of one kind and lets the k-th fail."""

    def __init__(self, k: int | None):
        self.k, self.count = k, 0

    def strikes(self) -> bool:
        self.count += 1
        return self.count - 1 == self.k

    def call(self, honest):
        def called(*arguments, **options):
            if self.strikes():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return honest(*arguments, **options)
        return called

    def write(self, honest):
        """A disk that refuses a write: the file under HDF5 remembers it."""
        def written(sink, data):
            if self.strikes():
                sink.error = sink.error or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return len(memoryview(data).cast("B"))
            return honest(sink, data)
        return written

    def opener(self, honest, folder: Path, name: str):
        """Only files of the run: Python opens its own sources too."""
        def opened(path, *arguments, **options):
            if str(folder) in os.path.abspath(str(path)) and name in str(path) and self.strikes():
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return honest(path, *arguments, **options)
        return opened

    def allocator(self, honest):
        """Only what the packages ask for themselves."""
        def allocated(*arguments, **options):
            if sys._getframe(1).f_globals.get("__name__", "").startswith(PACKAGES) and self.strikes():
                raise MemoryError("Unable to allocate 1. TiB for an array")
            return honest(*arguments, **options)
        return allocated


def sabotage(patch, kind: str, k: int | None, folder: Path, name: str = "a.h5") -> Saboteur:
    saboteur = Saboteur(k)
    if kind == "write":
        patch.setattr(store._Sink, "write", saboteur.write(store._Sink.write))
    elif kind == "allocation":
        for name in ALLOCATE:
            patch.setattr(np, name, saboteur.allocator(getattr(np, name)))
    elif kind == "open":
        patch.setattr(os, "open", saboteur.opener(os.open, folder, name))
        patch.setattr(builtins, "open", opener := saboteur.opener(builtins.open, folder, name))
        patch.setattr(io, "open", opener)       # what pathlib calls
    else:
        patch.setattr(os, kind, saboteur.call(getattr(os, kind)))
    return saboteur


def some(count: int) -> list[int]:
    """Numbers of the calls to fail: all, or MOST of them, spread evenly."""
    return list(range(count)) if count <= MOST else np.unique(np.linspace(0, count - 1, MOST).astype(int)).tolist()


def go(command: str, folder: Path, *options: str) -> tuple[int, str]:
    main, words, text = COMMANDS[command]
    folder.mkdir(exist_ok=True)
    (folder / "a.toml").write_text(text)
    errors = StringIO()
    with chdir(folder), redirect_stderr(errors), redirect_stdout(StringIO()):
        code = main([*words, "a.toml", "-o", "a.h5", "--quiet", *options])
    return code, errors.getvalue()


@pytest.mark.parametrize("kind", ["fsync", "replace", "open", "write", "allocation"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_call_may_fail(tmp_path, command, kind, fault):
    assert go(command, tmp_path / "whole") == (0, "")
    expected = store.load(tmp_path / "whole" / "a.h5").arrays
    with pytest.MonkeyPatch.context() as patch:
        counted = sabotage(patch, kind, None, tmp_path)
        assert go(command, tmp_path / "counted")[0] == 0
    assert counted.count > 0
    refused = 0
    for k in some(counted.count)[::3 if command == "study" else 1]:          # a study is many runs
        folder = tmp_path / str(k)
        with fault(writing=kind == "write"):
            with pytest.MonkeyPatch.context() as patch:
                sabotage(patch, kind, k, folder)
                try:
                    code, errors = go(command, folder)
                except BaseException as error:
                    raise AssertionError(f"{command}: {kind} number {k}: {error!r}") from error
            # How many checkpoints a run writes depends on the clock: a call may come too late to fail.
            assert code in (0, 2), (kind, k, errors)
            refused += code == 2
            if code == 2:
                assert len(errors.splitlines()) == 1, (kind, k, errors)
                assert ("out of memory" if kind == "allocation" else "a.h5") in errors, (kind, k, errors)
            for path in folder.rglob("*.h5*"):
                assert path.suffix in (".h5", ".checkpoint", ".points"), (kind, k, path.name)
                if path.is_file():
                    store.load(path)
            code, errors = go(command, folder, "--resume")
            assert code == 0, (kind, k, errors)
            arrays = store.load(folder / "a.h5").arrays
            assert arrays.keys() == expected.keys(), (kind, k)
            for name, array in expected.items():
                if not name.endswith("wall_times"):
                    np.testing.assert_array_equal(arrays[name], array, err_msg=f"{kind} {k} {name}")
    assert refused > 0


# What looks at results writes files too.
LOOKS = {"export": ["export", "a.h5", "--csv", "out", "--force"], "plot": ["plot", "a.h5", "-o", "out.png"],
         "compare": ["compare", "a.h5", "s.h5", "--plot", "out.png"], "collect": ["collect", "results", "-o", "out.h5"],
         "report": ["report", "a.h5", "s.h5", "-o", "out.html", "--force"]}


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Path:
    """A folder with a theory and its simulation."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    folder = tmp_path_factory.mktemp("seen")
    for command, name in (("simulation", "s.h5"), ("theory", "a.h5")):
        assert go(command, folder) == (0, "")
        (folder / "a.h5").rename(folder / name)
    (folder / "results").mkdir()
    for name in ("a.h5", "s.h5"):
        shutil.copyfile(folder / name, folder / "results" / name)
    return folder


def look(command: str, folder: Path) -> tuple[int, str]:
    errors = StringIO()
    with chdir(folder), redirect_stderr(errors), redirect_stdout(StringIO()):
        code = dmft.cli.main(LOOKS[command])
    return code, errors.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["open", "replace", "allocation"])
@pytest.mark.parametrize("command", LOOKS)
def test_what_looks_at_results_leaves_nothing_half_written(seen, tmp_path, command, kind, fault):
    """Every file is the old or the new one, whole, and no other is left."""
    shutil.copytree(seen, tmp_path / "whole")
    assert look(command, tmp_path / "whole") == (0, "")
    expected = contents(tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        counted = sabotage(patch, kind, None, tmp_path, "")
        assert look(command, tmp_path / "whole")[0] == 0
    for k in some(counted.count)[::3]:          # pictures take long
        folder = tmp_path / str(k)
        shutil.copytree(tmp_path / "whole", folder)
        with fault():
            with pytest.MonkeyPatch.context() as patch:
                sabotage(patch, kind, k, folder, "")
                try:
                    code, errors = look(command, folder)
                except BaseException as error:
                    raise AssertionError(f"{command}: {kind} number {k}: {error!r}") from error
            left = contents(folder)
            assert code in (0, 2) and (code == 0 or len(errors.splitlines()) == 1), (kind, k, errors)
            assert left.keys() == expected.keys(), (kind, k, set(left) ^ set(expected))
            assert [name for name in left if left[name] != expected[name] and not name.endswith(".h5")] == [], (kind, k)
            shutil.rmtree(folder)
