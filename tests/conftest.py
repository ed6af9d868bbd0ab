"""Fixtures that start commands as users do, from this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import emulate
from tests.launched import LAUNCHED, not_launched
from tests.results import edited, results
from tests.run_files import run_text

__all__ = ["edited", "results"]

ROOT = Path(__file__).resolve().parent.parent
ALL_KERNELS = {f"tests/{test.split('[')[0]}" for test in LAUNCHED}  # tests that launch them
# Commands started by tests must find this checkout, whatever folder they run in.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def registries_restored() -> Iterator[None]:
    """What is registered inside (all that run files name, observables, activations, preprocessings) is forgotten afterwards."""
    from dmft.model import activations, curves, links, preprocessing, registry

    tables = [table for table in vars(activations).values() if isinstance(table, dict) and "erf" in table]
    assert tables, "the activations are elsewhere now"
    tables += [preprocessing._registered, curves.registered, links.BUILT_IN_LINKS, *registry.members.values()]
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, content in zip(tables, before):
            table.clear()
            table.update(content)


@pytest.fixture(autouse=True)
def nothing_left_registered():
    """What one test registers is not there for the next."""
    with registries_restored():
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Backwards go the tests that launch all kernels, and those that are marked."""
    def wanted(item: pytest.Item) -> bool:
        chosen, both = getattr(item, "callspec", None), item.get_closest_marker("backwards")
        return not (chosen and chosen.params.get("card") == "backwards") or bool(both) or item.nodeid.split("[")[0] in ALL_KERNELS

    left_out = [item for item in items if not wanted(item)]
    items[:] = [item for item in items if wanted(item)]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that tests/launched.py names for some kernels has launched them."""
    emulate.launched.clear()
    yield
    missing = not_launched(item.nodeid, emulate.launched)
    assert not missing, f"not launched: {', '.join(missing)}"


@pytest.fixture
def demo_text() -> str:
    """A small valid run file."""
    return run_text()


@pytest.fixture
def run_python(tmp_path):
    """run_python(*arguments, ranks=1): `python arguments...` in a fresh folder, under mpirun for more ranks."""
    def start(*arguments: str, ranks: int = 1, timeout: float = 60.0) -> subprocess.CompletedProcess:
        command = [sys.executable, *arguments]
        if ranks > 1:
            command = [mpirun(), "-n", str(ranks), *command]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout)

    return start


def mpirun() -> str:
    """The launcher beside this Python, or the one on the path; without one the test is skipped."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        pytest.skip("no mpirun")
    return found


@pytest.fixture
def with_cupy(monkeypatch):
    """with_cupy(module): what `import cupy` gives from now on; None: it is not installed, as on most machines."""
    from dmft.core.device import gpu

    gpu.cache_clear()
    yield lambda cupy: monkeypatch.setitem(sys.modules, "cupy", cupy)
    gpu.cache_clear()


@pytest.fixture
def other_rows(monkeypatch):
    """other_rows(change): every row that a march estimates is change(row) from now on, for twins with broken physics."""
    from dmft.equations.weights import WeightDynamics

    honest, steps = WeightDynamics.estimate_rows, WeightDynamics.steps_from_rows

    def changed(change):
        def estimate_rows(self, *arguments):
            honest(self, *arguments)
            self.row = change(self.row)

        monkeypatch.setattr(WeightDynamics, "estimate_rows", estimate_rows)
        # What was found out about the row as it was is not that of the other one.
        monkeypatch.setattr(WeightDynamics, "steps_from_rows", lambda self, places, known: steps(self, places, False))

    return changed


@pytest.fixture
def redrawn(monkeypatch):
    """redrawn(change): samples of a march are drawn as always, then change(draws, experiment, how) changes them in place."""
    from dmft.samples import sampling
    from dmft.solvers import march

    def changed(change):
        def draw(experiment, how, index):
            draws = sampling.draw(experiment, how, index)
            change(draws, experiment, how)
            return draws

        monkeypatch.setattr(march, "draw", draw)

    return changed


@pytest.fixture
def dmft_main(tmp_path, monkeypatch, capsys):
    """dmft_main(*arguments): the command `dmft` in a fresh folder, inside this process (no start-up time)."""
    from dmft.cli import main

    def start(*arguments: str) -> subprocess.CompletedProcess:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:           # --help and --version
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    return start


@pytest.fixture(params=["emulated", "backwards", "card"])
def card(request):
    """A Gpu: a real card where there is one, and the same sources compiled for the host; backwards: with the last thread first."""
    from dmft.core.device import gpu
    from dmft.core.errors import UserError
    from tests.emulate import COMPILER, HostGpu

    if request.param != "card":
        if COMPILER is None:
            pytest.skip("no C++ compiler to run CUDA sources on the host")
        return HostGpu(request.param == "backwards")
    try:
        return gpu("theory")
    except UserError as error:
        pytest.skip(f"no GPU here: {error}")


@pytest.fixture
def on_this_card(card):
    """Theory and simulator compute on `card` where a run asks for one."""
    from tests.cards import given_out

    with given_out(card):
        yield
