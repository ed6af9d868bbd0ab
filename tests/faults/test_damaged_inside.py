"""Files that are HDF5 but not whole inside: whatever looks at them says so in one line, and never fails with a traceback."""

from __future__ import annotations

import os
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import dmft
from dmft.cli import main
from dmft.core import store
from tests.small_results import SMALL

pytest.importorskip("matplotlib")

KINDS = ("theory", "simulation", "ode", "ensemble", "study", "sweep", "checkpoint")
PER_KIND = int(os.environ.get("DAMAGED_FILES", "12"))       # damaged files of each kind


@pytest.fixture(scope="module")
def whole(results, tmp_path_factory) -> dict[str, Path]:
    """A sound file of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    run = dmft.parse_run(SMALL).replace(kind="gd", samples=32, replicas=2, t_max=0.16)
    dmft.convergence_study(run, samples=[32, 64], learning_rate=[0.04, 0.02], output=folder / "study.h5", quiet=True)
    for path in (results.theory, results.other, results.simulation):
        shutil.copyfile(path, folder / path.name)
    files = {"theory": results.theory, "simulation": results.simulation, "ode": results.ode, "ensemble": results.ensemble,
             "study": folder / "study.h5", "sweep": folder / "sweep" / "sweep.h5", "checkpoint": results.live}
    assert command("collect", str(folder), "-o", str(files["sweep"]))[0] == 0
    return files


def command(*words: str) -> tuple[int, str, str]:
    out, errors = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(words)
    return code, out.getvalue(), errors.getvalue()


def commands(path: Path, whole: dict[str, Path], turn: int) -> list[list[str]]:
    """What looks into files; pictures take long, so of those two take turns."""
    drawn = ["plot", str(path), "-o", f"{turn}.png"], ["report", str(path), "-o", f"{turn}.html"]
    return [["inspect", str(path)], ["export", str(path), "--csv", f"tables{turn}"], ["diff", str(path), str(whole["theory"])],
            ["compare", str(path), str(whole["simulation"])], ["compare", str(whole["theory"]), str(path)], drawn[turn % 2]]


def damages(file: h5py.File, rng: np.random.Generator) -> str:
    """Do one harm to a file; tells what."""
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    if rng.random() < 0.25:
        return _harm_attribute(file, rng)
    name = str(rng.choice(names))
    old = file[name][()]
    shape = np.shape(old)
    ways = {"missing": None, "text": "not a number", "empty": h5py.Empty("f8"), "one number": 1.0,
            "no rows": np.zeros((0, *shape[1:])), "a row less": old[:-1] if shape else 2.0, "an axis more": np.zeros((*shape, 2)),
            "an axis less": old[0] if len(shape) > 1 and len(old) else 3.0, "NaN": np.full(shape, np.nan),
            "infinite": np.full(shape, np.inf), "negative": -np.abs(old.astype(float)) - 1, "complex": np.zeros(shape, complex),
            "huge": np.full(shape, 1e300), "a link": h5py.SoftLink("/nowhere"), "elsewhere": h5py.ExternalLink("other.h5", "m"),
            "zeros": np.zeros(shape), "whole": np.zeros(shape, np.int8)}
    way = str(rng.choice(list(ways)))
    del file[name]
    if way != "missing":
        file[name] = ways[way]
    return f"{name}: {way}"


def _harm_attribute(file: h5py.File, rng: np.random.Generator) -> str:
    name = str(rng.choice(list(file.attrs)))
    values: list[Any] = ["", "\x1b[31mred\nline", "{}", "[1, 2]", -1, 1e400, np.zeros(3), np.zeros((2, 2)), "x" * 3000, None, True]
    value = values[rng.integers(len(values))]
    del file.attrs[name]
    if value is not None:
        file.attrs[name] = value
    return f"attribute {name}: {value!r:.40}"


def sealed(path: Path) -> None:
    """Checkpoints are read with their checksum alone."""
    with open(path, "rb") as file:
        length = len(file.read())
    seal = store._seal(path, length)
    with open(path, "ab") as file:
        file.write(seal)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_one_line_and_no_traceback(whole, tmp_path, kind, fault):
    rng = np.random.default_rng(KINDS.index(kind))
    refused = 0
    for turn in range(PER_KIND):
        path = tmp_path / (f"{turn}.h5.checkpoint" if kind == "checkpoint" else f"{turn}.h5")
        shutil.copyfile(whole[kind], path)
        with open(path, "r+b") as raw:          # without its checksum: edited by another program
            raw.truncate(path.stat().st_size - store.SEAL_LENGTH)
        with h5py.File(path, "r+") as file:
            harm = damages(file, rng)
        if kind == "checkpoint":
            sealed(path)
        for words in commands(path, whole, turn):
            with chdir(tmp_path), fault():
                try:
                    code, out, errors = command(*words)
                except Exception as error:
                    raise AssertionError(f"{kind}, {harm}: dmft {words[0]} fails: {error!r}") from error
            assert code in (0, 2), (harm, words[0], errors)
            assert "\x1b" not in out + errors, (harm, words[0])
            if code == 2:
                refused += words[0] == "inspect"
                assert len(errors.splitlines()) == 1 and errors[:-1].isprintable(), (harm, words[0], errors)
    assert refused > PER_KIND / 4
