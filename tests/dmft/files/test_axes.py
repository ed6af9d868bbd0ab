"""Axes of result files have names, values and units that xarray and netCDF follow; the package's own readers pass over them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import dmft
from dmft.convergence.axis import make_axis
from dmft.convergence.study import Study
from dmft.core import store
from dmft.files.axes import named
from workbench.scans.gathering import _row
from workbench.scans.scan import make_scan


def _axes(path, name: str) -> list[str]:
    """The names of the scales that are attached to a dataset."""
    with h5py.File(path) as file:
        return [axis[0].name.lstrip("/") if len(axis) else axis.label for axis in file[name].dims]


def _bare(path) -> list[str]:
    """The datasets that have an axis without a scale."""
    found: list[str] = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) and not item.is_scale
                        and not all(len(axis) for axis in item.dims) else None)
    return found


@pytest.mark.parametrize(("kind", "name", "axes"), [
    ("theory", "m", ["t"]), ("theory", "replicas/m", ["replica", "t"]), ("theory", "kernels/M_C", ["t_kernel", "t_prime"]),
    ("theory", "columns/chi_error", ["t_column", "t_w"]), ("simulation", "loss", ["instance", "t"]),
    ("simulation", "diverged", ["instance"]), ("ode", "M", ["t", "M_0", "M_1"]), ("ensemble", "risk", ["instance", "t"]),
])
def test_axes_are_scales(results, kind, name, axes):
    assert _axes(getattr(results, kind), name) == axes


def test_scales_carry_values_and_units(results):
    with h5py.File(results.theory) as file:
        assert np.array_equal(file["t_prime"][()], results.result.kernels.t) and file["t_prime"].attrs["units"] == "time"
        assert file["kernels/M_R"].attrs["units"] == "1/time^2" and file["m"].attrs["long_name"] == "overlap with the teacher"


def test_every_axis_has_a_scale(results):
    """Otherwise xarray refuses the file."""
    for path in (results.theory, results.simulation, results.ode, results.ensemble):
        assert _bare(path) == []


def test_axes_of_studies_and_sweeps(results, tmp_path):
    """Every axis has a scale in its group, the points of a study with their values; both are read back as they were."""
    axis = make_axis("learning_rate", [0.04, 0.02], [dmft.load(results.other), results.result])
    study = Study(results.run, {"learning_rate": axis})
    study.save(tmp_path / "study.h5")
    assert _axes(tmp_path / "study.h5", "learning_rate/curves/m") == ["learning_rate/learning_rate", "learning_rate/t"]
    with h5py.File(tmp_path / "study.h5") as file:
        assert file["learning_rate/learning_rate"][()].tolist() == [0.04, 0.02]
    assert np.array_equal(dmft.load(tmp_path / "study.h5").axes["learning_rate"].curves["m"], axis.curves["m"])
    scan = make_scan([row for path in (results.theory, results.other) if (row := _row(path, 1e-7))], None, 1e-7)
    scan.save(tmp_path / "sweep.h5")
    assert _axes(tmp_path / "sweep.h5", "m") == ["row", "times"]
    for path in (tmp_path / "study.h5", tmp_path / "sweep.h5"):
        assert _bare(path) == []


def test_readers_see_no_scales(results):
    """What a file holds is what was computed: no dataset more than the result has."""
    assert set(store.load_header(results.theory).shapes) == set(results.result.datasets)


def test_names_that_are_taken():
    """A dataset with the name of an axis keeps it; lengths that contradict a name get one of their own."""
    arrays = {"t": np.arange(3.0), "unit": np.zeros((3, 2)), "m": np.zeros((3, 2)), "odd": np.zeros((4, 4))}
    found = named(arrays, {"t": ("t",), "unit": ("t", "unit"), "m": ("t", "unit"), "odd": ("t", "unit")}, {}, {}).axes
    assert found == {"t": ("t",), "unit": ("t", "unit_axis"), "m": ("t", "unit_axis"), "odd": ("size_4", "size_4_prime")}


def test_xarray_opens_files(results):
    """With the extra [frames]; in groups, the times of the root are there, too."""
    pytest.importorskip("h5netcdf")
    xarray = pytest.importorskip("xarray")
    tree = xarray.open_datatree(results.theory, engine="h5netcdf")
    assert tree["m"].dims == ("t",) and tree["kernels/C"].dims == ("t_kernel", "t_prime")
    assert float(tree["kernels/C"].sel(t_kernel=0.4, t_prime=0.0, method="nearest")) == results.result.kernels.C[-1, 0]
    assert xarray.open_dataset(results.simulation, engine="h5netcdf")["m"].dims == ("instance", "t")
