"""The declared layout of files: real files have it, the page on files names it, and anything less is refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import dmft
from dmft.convergence import axis
from dmft.core import store
from dmft.core.errors import FileError
from dmft.files import layouts

ROOT = Path(__file__).resolve().parents[3]


def files_of(results) -> dict[str, Path]:
    return {"theory": results.theory, "theory checkpoint": results.live, "simulation": results.simulation, "onepass": results.ode,
            "ensemble": results.ensemble}


@pytest.mark.parametrize("name", ["theory", "theory checkpoint", "simulation", "onepass", "ensemble"])
def test_real_files_have_their_layout(results, name):
    layouts.check(store.load(files_of(results)[name]))
    layouts.check(store.load_header(files_of(results)[name]))


def test_names_are_those_of_the_writers():
    for start, names in layouts.STUDIED_BY_START.items():
        assert {*layouts.STUDIED, *names, *layouts.KERNELS} == set(axis.compared(start == "random start"))


def test_the_layout_leaves_nothing_out(results):
    """Every dataset that the theory and the simulator write is declared; what a one-pass result holds is free."""
    for kind in ("theory", "simulation"):
        declared = {dataset.name for dataset in layouts.LAYOUTS[kind].datasets}
        assert set(store.load_header(files_of(results)[kind]).shapes) <= declared


def test_the_page_on_files_names_everything():
    text = (ROOT / "docs" / "hdf5.md").read_text()
    for kind, layout in layouts.LAYOUTS.items():
        for dataset in layout.datasets:
            if not dataset.name.startswith(("state/", "finished/", "active/", "parameters/")):
                assert dataset.name.rpartition("/")[2].removesuffix("_error") in text, (kind, dataset.name)
        for attribute in layout.attributes:
            assert attribute.name.replace("{axis}", "AXIS") in text, (kind, attribute.name)


def changed(source: Path, target: Path, change) -> Path:
    """A copy of a file with something done to it by another program."""
    shutil.copyfile(source, target)
    with h5py.File(target, "r+") as file:
        change(file)
    return target


def put(name: str, value):
    def change(file: h5py.File) -> None:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value
    return change


def attribute(name: str, value):
    def change(file: h5py.File) -> None:
        if name in file.attrs:
            del file.attrs[name]
        if value is not None:
            file.attrs[name] = value
    return change


@pytest.mark.parametrize(("change", "words"), [
    (put("m", None), "the dataset 'm' is missing"), (put("kernels/C", None), "the dataset 'kernels/C' is missing"),
    (put("m", np.zeros(20)), "the dataset 'm' has 20 of axis 'time', the run has 21"),
    (put("m", np.zeros((21, 1))), "the dataset 'm' has 2 axes, not 1"), (put("m", 1.0), "has 0 axes"),
    (put("m", "text"), "the dataset 'm' holds no numbers"), (put("m", h5py.Empty("f8")), "the dataset 'm' holds no numbers"),
    (put("m", np.zeros(21, complex)), "the dataset 'm' holds no numbers"),
    (put("t", np.zeros(21)), "the dataset 't' does not hold increasing times"),
    (put("replicas/m", np.zeros((0, 21))), "has 0 of axis 'replica'"),
    (put("state/C_mean", None), "the dataset 'state/C_mean' is missing"),
    (put("x", h5py.ExternalLink("elsewhere.h5", "m")), ""), (put("m", h5py.ExternalLink("elsewhere.h5", "m")), "'m' is missing"),
    (put("m", h5py.SoftLink("/q")), "'m' is missing"),
    (attribute("outcome", None), "the attribute 'outcome' is missing"), (attribute("outcome", 3.0), "'outcome' is not a text"),
    (attribute("wall_time", "long"), "'wall_time' is not a number"),
    (attribute("wall_time", np.nan), "'wall_time' is not a number"),
    (attribute("wall_time", np.zeros(3)), "'wall_time' is not a number"),
    (attribute("outcomes", "done"), "the attribute 'outcomes' has 1 of axis 'replica'"),
])
def test_what_is_missing_is_said(results, tmp_path, change, words):
    path = changed(results.theory, tmp_path / "a.h5", change)
    if not words:           # more than there should be is let be
        assert (dmft.load(path).m == results.result.m).all()
        return
    with pytest.raises(FileError) as error:
        dmft.load(path)
    assert words in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_huge_dataset_is_refused_before_memory_is_asked_for(results, tmp_path):
    """1 TB declared, nothing written."""
    def grow(file: h5py.File) -> None:
        file.create_dataset("replicas/huge", (1 << 37,), "f8", chunks=(1 << 20,))

    path = changed(results.theory, tmp_path / "a.h5", grow)
    assert path.stat().st_size < 1e7
    for look in (store.load, store.load_header, dmft.load):
        with pytest.raises(FileError, match="declares 1099511627776 bytes, more than a file of"):
            look(path)


def test_data_in_other_files_are_not_read(results, tmp_path):
    """A dataset may point into any file of its reader: this package neither writes nor follows that."""
    (tmp_path / "secret").write_bytes(np.arange(21.0).tobytes())

    def point(file: h5py.File) -> None:
        del file["m"]
        file.create_dataset("m", (21,), "f8", external=[(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)])

    path = changed(results.theory, tmp_path / "a.h5", point)
    with pytest.raises(FileError, match="lies in another file"):
        dmft.load(path)
    with h5py.File(tmp_path / "b.h5", "w") as other:
        other["m"] = np.zeros(21)
    path = changed(results.theory, tmp_path / "c.h5", put("m", h5py.ExternalLink(str(tmp_path / "b.h5"), "m")))
    with pytest.raises(FileError, match="has no dataset 'm'"):
        store.read(path, "m")
