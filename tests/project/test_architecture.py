"""The import arrows, read from the source: who may know whom, and the libraries with one owner each."""

from __future__ import annotations

import ast
import configparser
from pathlib import Path

import pytest

from dmft.cli.commands import COMMANDS as DMFT
from onepass.cli import COMMANDS as ONEPASS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dmft", "sgd_sim", "onepass", "reproduction")
# library: the only place that may import it
OWNERS = {"mpi4py": "dmft.core.parallel", "h5py": "dmft.core.store", "matplotlib": "dmft.plots", "cupy": "dmft.core.device"}
# Packages of dmft from the lowest to the highest: a module may import its own package and those before it.
LAYERS = ("core", "model", "equations", "samples", "solvers", "result", "running", "convergence", "scans", "inspection",
          "cluster", "plots", "reporting", "cli")
# No files, terminals or pictures in the numerics.
NUMERICS = ("dmft.model", "dmft.equations", "dmft.samples", "dmft.solvers")
NUMERICS_FREE_OF = ("dmft.core.store", "dmft.core.progress", "dmft.core.command", "dmft.core.parallel.world", "argparse")
# What may know several of dmft, sgd_sim and onepass.
SHELL = ("dmft.api", "dmft.cli", "dmft.plots", "dmft.inspection", "dmft.reporting", "sgd_sim.cli", "onepass.cli")


def _modules() -> dict[str, Path]:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def _imports(source: str, module: str) -> set[str]:
    """Full names of all modules that a source imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[:-node.level], *([base] if base else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


MODULES = _modules()
IMPORTS = {module: _imports(file.read_text(), module) for module, file in MODULES.items()}


def _within(name: str, places: tuple[str, ...] | str) -> bool:
    places = (places,) if isinstance(places, str) else places
    return any(name == place or name.startswith(place + ".") for place in places)


def _offenders(readers: list[str], forbidden) -> list[str]:
    return [f"{reader} imports {name}" for reader in readers for name in sorted(IMPORTS[reader]) if forbidden(name)]


def test_the_sources_are_seen():
    assert {"dmft", "dmft.core.store", "sgd_sim", "onepass"} <= set(MODULES)
    assert "h5py" in IMPORTS["dmft.core.store"] and _imports("from .core import x", "dmft.a") == {"dmft.core", "dmft.core.x"}


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_with_one_owner(library):
    others = [module for module in MODULES if not _within(module, OWNERS[library])]
    assert _offenders(others, lambda name: _within(name, library)) == []


def test_every_module_has_a_layer():
    """A renamed package must not drop out of the checks below unnoticed."""
    packages = {module.split(".")[1] for module in MODULES if module.count(".") >= 2 and _within(module, "dmft")}
    assert packages == set(LAYERS)
    assert all(any(_within(module, package) for module in MODULES) for package in (*NUMERICS, *SHELL))


@pytest.mark.parametrize("layer", LAYERS)
def test_arrows_run_one_way(layer):
    above = tuple(f"dmft.{name}" for name in LAYERS[LAYERS.index(layer) + 1:]) + (("dmft.api",) if layer != "cli" else ())
    here = [module for module in MODULES if _within(module, f"dmft.{layer}")]
    assert _offenders(here, lambda name: _within(name, above)) == []


def test_simulator_and_onepass_share_core_and_model_alone():
    readers = [module for module in MODULES if _within(module, ("sgd_sim", "onepass")) and not _within(module, SHELL)]
    known = ("dmft", "dmft.core", "dmft.model", "dmft.version")
    solver = lambda name: _within(name, "dmft") and name not in known and not _within(name, known[1:])  # noqa: E731
    assert _offenders(readers, solver) == []


def test_the_solver_knows_neither_simulator_nor_onepass():
    solver = [module for module in MODULES if _within(module, "dmft") and not _within(module, SHELL)]
    assert _offenders(solver, lambda name: _within(name, ("sgd_sim", "onepass"))) == []


def test_nobody_imports_the_figures_of_the_papers():
    others = [module for module in MODULES if not _within(module, "reproduction")]
    assert _offenders(others, lambda name: _within(name, "reproduction")) == []


@pytest.mark.parametrize("commands", [DMFT, ONEPASS], ids=["dmft", "onepass"])
def test_commands_are_found_by_the_names_of_modules_that_are_there(commands):
    assert [name for name, _ in commands.values() if name not in MODULES] == []


def test_numerics_know_no_files_ranks_or_terminals():
    numerics = [module for module in MODULES if _within(module, NUMERICS)]
    assert _offenders(numerics, lambda name: _within(name, NUMERICS_FREE_OF)) == []


def test_no_pickles_and_no_global_seeds():
    assert _offenders(list(MODULES), lambda name: _within(name, ("pickle", "random", "shelve"))) == []
    seeds = [module for module, file in MODULES.items() if "random.seed(" in file.read_text()]
    assert seeds == []


def test_files_stay_small():
    long = {module: length for module, file in MODULES.items() if (length := len(file.read_text().splitlines())) > 400}
    assert long == {}


def test_an_installed_package_has_its_cuda_sources():
    """Folders of sources are no packages: setup.cfg must name them by their path from one."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    patterns = [pattern.strip() for pattern in setup["options.package_data"]["*"].split(",")]
    packages = [file.parent for file in MODULES.values() if file.name == "__init__.py"]
    shipped = {file for package in packages for pattern in patterns for file in package.glob(pattern)}
    sources = {file for package in PACKAGES for file in (ROOT / package).rglob("*.cu*")}
    assert len(sources) > 5 and sources <= shipped
