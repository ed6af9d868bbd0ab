"""One bit flipped in every kind of place of a file, and files cut at 200 places: noticed in one line, or without effect. What
the numbers say is never changed silently."""

from __future__ import annotations

import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import KILLS  # type: ignore[import-not-found]

import onepass
from dmft.cli import main
from dmft.core import store
from dmft.core.errors import FileError, Stopped
from tests.small_results import StopAfter

KINDS = ("theory", "checkpoint", "simulation", "ode", "ensemble", "one-pass checkpoint")
CUTS = 200
POSITIONS = 4 * max(KILLS, 10)      # bytes of one class; a bit of each
MARKS = (b"TREE", b"SNOD", b"HEAP", b"GCOL")
REACH = 64                          # bytes behind a mark, or behind the name of an attribute, that are its own


@pytest.fixture(scope="module")
def files(results, tmp_path_factory) -> dict[str, Path]:
    """A sound file of every kind."""
    stopped = tmp_path_factory.mktemp("stopped") / "a.h5"
    model = onepass.QuadraticNetwork(2, 1, 0.2, 0.1)
    with pytest.raises(Stopped):
        model.chain(600_000, 3, {"M": [[0.3], [0.1]], "Q": [[1.0, 0.1], [0.1, 1.0]]}, [0.4, 1.0], 1, threads=1,
                    output=stopped, stop=StopAfter(0))
    return {"theory": results.theory, "checkpoint": results.live, "simulation": results.simulation, "ode": results.ode,
            "ensemble": results.ensemble, "one-pass checkpoint": store.checkpoint_path(stopped)}


def classes(path: Path) -> dict[str, np.ndarray]:
    """Bytes of a file by what they are for: superblock, group, attribute, dataset (numbers), header (of objects), checksum."""
    content = path.read_bytes()
    kind = np.full(len(content), "header", object)
    for mark in MARKS:
        place = content.find(mark)
        while place >= 0:
            kind[place:place + REACH] = "group"
            place = content.find(mark, place + 1)
    with h5py.File(path) as file:
        for name in file.attrs:
            place = content.find(name.encode())
            kind[place:place + REACH] = "attribute"

        def numbers(name, item) -> None:
            if isinstance(item, h5py.Dataset) and item.id.get_offset() is not None:
                kind[item.id.get_offset():item.id.get_offset() + item.id.get_storage_size()] = "dataset"

        file.visititems(numbers)
    kind[:96], kind[-store.SEAL_LENGTH:] = "superblock", "checksum"
    return {name: np.flatnonzero(kind == name) for name in sorted(set(kind))}


def read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    stored = store.load(path)
    return stored.arrays, {**stored.attrs, "run": stored.run_text, "kind": stored.kind}


def harmless(path: Path, whole: tuple[dict[str, np.ndarray], dict]) -> bool:
    """Whether a damaged file reads as the whole one; False: it is refused, in one line. Anything else fails."""
    try:
        arrays, attrs = read(path)
    except FileError as error:
        assert str(error).isprintable() and str(path) in str(error), error
        return False
    assert arrays.keys() == whole[0].keys() and attrs.keys() == whole[1].keys()
    assert all(arrays[name].tobytes() == whole[0][name].tobytes() for name in arrays), "the numbers are not the same"
    assert all(np.array_equal(attrs[name], whole[1][name]) for name in attrs)
    return True


def refused(*words: str) -> bool:
    """Whether a command ends with exit code 2 and one line."""
    errors = StringIO()
    with redirect_stderr(errors), redirect_stdout(StringIO()):
        code = main(words)
    return code == 2 and errors.getvalue().count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_of_every_class(files, tmp_path, kind, fault):
    rng, whole, content = np.random.default_rng(7), read(files[kind]), files[kind].read_bytes()
    found = classes(files[kind])
    assert {"superblock", "group", "attribute", "dataset", "header", "checksum"} <= set(found)
    for name, places in found.items():
        chosen = places if len(places) <= POSITIONS else rng.choice(places, POSITIONS, replace=False)
        for turn, place in enumerate(map(int, chosen)):
            path = tmp_path / f"{name}-{place}.h5"
            damaged = bytearray(content)
            damaged[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(damaged)
            with fault():
                if not harmless(path, whole):
                    assert turn or refused("inspect", str(path))
                else:       # the words "sha256" themselves; what they stand behind is whole
                    assert name == "checksum", f"{kind}: a flipped bit in the {name} (byte {place}) goes unnoticed"
            path.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_at_200_places(files, tmp_path, kind, fault):
    whole, content = read(files[kind]), files[kind].read_bytes()
    for length in map(int, np.linspace(0, len(content) - 1, CUTS)):
        path = tmp_path / f"{length}.h5"
        path.write_bytes(content[:length])
        with fault():
            if harmless(path, whole):       # only the checksum, or a part of it, is missing
                assert length >= len(content) - store.SEAL_LENGTH, f"{kind}: {length} of {len(content)} bytes are taken for whole"
        path.unlink()
    shutil.copyfile(files[kind], tmp_path / "last.h5")
    assert harmless(tmp_path / "last.h5", whole)
