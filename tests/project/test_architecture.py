"""The import arrows, read from the source: who may know whom, and the libraries with one owner each."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# From the lowest to the highest: a package may import those before it, and nothing else of ours.
PACKAGES = ("dmft", "sgd_sim", "onepass", "workbench", "reproduction")
# What sgd_sim and onepass share with the theory, so that each can prove the other wrong.
SHARED = ("dmft.core", "dmft.files", "dmft.model", "dmft.version")
# library: the only place that may import it
OWNERS = {"mpi4py": "dmft.core.parallel", "h5py": "dmft.core.store", "matplotlib": "workbench.plots", "cupy": "dmft.core.device"}
# Within a package from the lowest to the highest: a module may import its own layer and those before it.
LAYERS = {"dmft": ("core", "model", "files", "statics", "equations", "samples", "solvers", "committee", "result", "running",
                   "convergence", "api", "cli"),
          "sgd_sim": ("kernels", "models", "landscape", "recording", "predictions", "states", "snapshots", "hessian", "memory",
                      "archive", "cpu", "gpu", "instances", "callbacks", "result", "simulation", "cli"),
          "workbench": ("scans", "cluster", "inspection", "plots", "reporting", "kinds", "api", "cli")}
# What users know below and lives above: these modules name it, and it is imported when it is asked for.
GATES = {"dmft": {"workbench.api"}, "dmft.api": {"workbench.scans.reading"}, "dmft.cli": {"workbench.cli.commands"},
         "dmft.result.theory": {"workbench.plots.theory"},
         "dmft.convergence.study": {"workbench.plots.convergence"}, "sgd_sim.cli": {"workbench.cli.check_simulation"},
         "onepass.cli": {"workbench.cli.cite", "workbench.cli.onepass_compare", "reproduction.companions.command"},
         "workbench.cli.commands": {"reproduction.paper.command"}}
# No files, terminals or pictures in the numerics.
NUMERICS = ("dmft.model", "dmft.statics", "dmft.equations", "dmft.samples", "dmft.solvers", "dmft.committee")
NUMERICS_FREE_OF = ("dmft.core.store", "dmft.core.progress", "dmft.core.command", "dmft.core.parallel.world", "argparse")

MOST_ARGUMENTS = 10
# The signature of a C function, whose arguments are addresses and numbers.
MANY_ARGUMENTS = {"sgd_sim.kernels.rows.call_many"}


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


def _named(source: str) -> set[str]:
    """Modules of ours that a source names in a string."""
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if re.fullmatch(rf"({'|'.join(PACKAGES)})(\.\w+)+", text)}


MODULES = _modules()
NAMED = {module: _named(file.read_text()) for module, file in MODULES.items()}
IMPORTS = {module: _imports(file.read_text(), module) for module, file in MODULES.items()}


def _within(name: str, places: tuple[str, ...] | str) -> bool:
    places = (places,) if isinstance(places, str) else places
    return any(name == place or name.startswith(place + ".") for place in places)


def _offenders(readers: list[str], forbidden) -> list[str]:
    return [f"{reader} imports {name}" for reader in readers for name in sorted(IMPORTS[reader]) if forbidden(name)]


def test_the_sources_are_seen():
    assert {"dmft", "dmft.core.store", "sgd_sim", "onepass"} <= set(MODULES)
    assert "h5py" in IMPORTS["dmft.core.store"] and _imports("from .core import x", "dmft.a") == {"dmft.core", "dmft.core.x"}
    assert _named("a = ['dmft.core', 'dmft is', 'numpy.x', 'workbench.gone']") == {"dmft.core", "workbench.gone"}


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_with_one_owner(library):
    others = [module for module in MODULES if not _within(module, OWNERS[library])]
    assert _offenders(others, lambda name: _within(name, library)) == []


@pytest.mark.parametrize("package", LAYERS)
def test_every_module_has_a_layer(package):
    """A renamed folder must not drop out of the checks below unnoticed."""
    found = {module.split(".")[1] for module in MODULES if _within(module, package) and "." in module}
    assert found - {"__main__", "_cache", "version"} == set(LAYERS[package])


def test_names_in_these_rules_are_there():
    assert [name for name in (*NUMERICS, *SHARED, *GATES) if name not in MODULES] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_form_no_circle(package):
    above = PACKAGES[PACKAGES.index(package) + 1:]
    here = [module for module in MODULES if _within(module, package)]
    assert here and _offenders(here, lambda name: _within(name, above)) == []


@pytest.mark.parametrize(("package", "layer"), [(package, layer) for package in LAYERS for layer in LAYERS[package]])
def test_arrows_run_one_way(package, layer):
    above = tuple(f"{package}.{name}" for name in LAYERS[package][LAYERS[package].index(layer) + 1:])
    here = [module for module in MODULES if _within(module, f"{package}.{layer}")]
    assert _offenders(here, lambda name: _within(name, above)) == []


def test_simulator_and_onepass_share_core_and_model_alone():
    readers = [module for module in MODULES if _within(module, ("sgd_sim", "onepass"))]
    solver = lambda name: _within(name, "dmft") and name != "dmft" and not _within(name, SHARED)  # noqa: E731
    assert _offenders(readers, solver) == []


def test_modules_that_are_named_are_there():
    """A module that is found by its name is no import that a type checker could see."""
    assert {(module, name) for module, names in NAMED.items() for name in names if name not in MODULES} == set()


def test_packages_above_are_named_by_gates_alone():
    above = {module: {name for name in names if PACKAGES.index(name.split(".")[0]) > PACKAGES.index(module.split(".")[0])}
             for module, names in NAMED.items()}
    assert {module: names for module, names in above.items() if names} == GATES


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


@pytest.mark.long
def test_functions_take_few_arguments_by_their_place():
    """What belongs together goes as one NamedTuple, which Numba takes too: arguments by place are swapped too easily."""
    found = {f"{module}.{node.name}" for module, file in MODULES.items() for node in ast.walk(ast.parse(file.read_text()))
             if isinstance(node, ast.FunctionDef) and len(node.args.posonlyargs + node.args.args) > MOST_ARGUMENTS}
    assert found == MANY_ARGUMENTS


def test_an_installed_package_has_its_cuda_sources():
    """Folders of sources are no packages: setup.cfg must name them by their path from one."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    patterns = [pattern.strip() for pattern in setup["options.package_data"]["*"].split(",")]
    packages = [file.parent for file in MODULES.values() if file.name == "__init__.py"]
    shipped = {file for package in packages for pattern in patterns for file in package.glob(pattern)}
    sources = {file for package in PACKAGES for file in (ROOT / package).rglob("*.cu*")}
    assert len(sources) > 5 and sources <= shipped
