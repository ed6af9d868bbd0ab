"""No CUDA kernel goes without a test that runs it on the host."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.launched import LAUNCHED, ROOT, kernels_of, not_launched

PACKAGES = ("dmft", "sgd_sim", "onepass", "workbench", "reproduction")
SOURCES = {str(file.relative_to(ROOT)): file.read_text()
           for package in PACKAGES for file in sorted((ROOT / package).rglob("*.cu*"))}
LISTED = [(file, name) for kernels in LAUNCHED.values() for file, names in kernels.items() for name in names.split()]


def test_every_kernel_is_run_by_a_test():
    """A new kernel goes into tests/launched.py, beside the test that runs it."""
    found = [(file, name) for file, source in SOURCES.items() for name in kernels_of(source)]
    assert sorted(LISTED) == sorted(found) and len(found) > 30


@pytest.mark.parametrize("file", SOURCES)
def test_kernels_are_written_in_the_form_that_is_looked_for(file):
    assert len(kernels_of(SOURCES[file])) == SOURCES[file].count("__global__")


def test_lines_of_cuda_sources_are_at_most_132_characters():
    """As long as ruff allows in Python."""
    most = tomllib.loads((ROOT / "ruff.toml").read_text())["lint"]["pycodestyle"]["max-line-length"]
    long = [f"{file}:{number}: {len(line)}" for file, source in SOURCES.items()
            for number, line in enumerate(source.splitlines(), 1) if len(line) > most]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("test", LAUNCHED)
def test_the_tests_are_there(test):
    file, name, case = re.fullmatch(r"(.*)::(\w+)\[emulated-?(.*)\]", test).groups()
    source = (ROOT / "tests" / file).read_text()
    assert re.search(rf"^def {name}\(card\b", source, re.MULTILINE) and (not case or f'"{case}"' in source)


def test_a_kernel_that_was_not_launched_is_seen():
    test, kernels = next(iter(LAUNCHED.items()))
    launched = {(name, kernels_of(SOURCES[file])[name]) for file, names in kernels.items() for name in names.split()}
    assert not_launched(f"tests/{test}", launched) == [] == not_launched("tests/another.py::test", set())
    gone = ("exact_totals", kernels_of(SOURCES["dmft/core/cuda/exact_sum.cuh"])["exact_totals"])
    assert not_launched(f"tests/{test}", launched - {gone}) == ["exact_totals of dmft/core/cuda/exact_sum.cuh"]
