"""Write the contents of a file for other programs: as CSV tables (curves, replicas or instances, kernels, with the meaning and
unit of each column), or as one netCDF file with named axes and units.

examples:
  dmft export runs/out/demo.theory.h5 --csv tables/
  dmft export runs/out/demo.theory.h5 --netcdf demo.nc      for ncview, Panoply, R, Julia, ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dmft.core.command import EXIT_DONE
from dmft.core.errors import FileError
from dmft.core.parallel import world
from dmft.core.whole import whole
from workbench.inspection.opening import open_file
from workbench.inspection.tables import export_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a result file or a checkpoint")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", metavar="DIR", type=Path, help="folder for the tables")
    form.add_argument("--netcdf", metavar="FILE.nc", type=Path, help="netCDF file (needs the extra [frames])")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty, or over a file")


def run(options: argparse.Namespace) -> int:
    if world().is_root:
        for path in _netcdf(options) if options.netcdf else _csv(options):
            print(path)
    return EXIT_DONE


def _csv(options: argparse.Namespace) -> list[Path]:
    folder = options.csv
    if folder.exists() and not folder.is_dir():
        raise FileError(f"--csv {folder}: a file; name a folder for the tables")
    if folder.exists() and any(folder.iterdir()) and not options.force:
        raise FileError(f"--csv {folder}: the folder is not empty; --force writes into it all the same")
    return export_csv(open_file(options.file), folder)


def _netcdf(options: argparse.Namespace) -> list[Path]:
    """The classic format, which needs nothing beyond SciPy."""
    place, opened = options.netcdf, open_file(options.file)
    if place.exists() and not options.force:
        raise FileError(f"{place}: exists; --force writes over it")
    if not hasattr(opened.result, "to_xarray"):
        raise FileError(f"{opened.path}: a {opened.kind} file has no netCDF form; --csv writes its tables")
    with whole(place) as part:
        opened.result.to_xarray().to_netcdf(part, format="NETCDF3_64BIT", engine="scipy")
    return [place]
