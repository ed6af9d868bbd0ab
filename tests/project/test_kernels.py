"""No CUDA kernel goes without a test that runs it on the host."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests import nvrtc
from tests.emulate import COMPILER, HostGpu
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


@pytest.mark.skipif(not COMPILER or nvrtc.library() is None, reason="no C++ compiler, or no NVRTC (nvidia-cuda-nvrtc-cu12)")
def test_sources_that_are_cpp_and_no_cuda_are_refused():
    source = 'extern "C" __global__ void count(int *number) {{ *number = {0}; }}'
    HostGpu().kernels(source.format("__popc(7)"), ("count",))
    with pytest.raises(AssertionError, match="getenv"):
        HostGpu().kernels(source.format('getenv("HOME") != 0'), ("count",))
    for_some_cards = "\n#if __CUDA_ARCH__ >= 800\n__device__ int slip = nowhere;\n#endif\n"
    with pytest.raises(AssertionError, match="nowhere"):
        HostGpu().kernels(source.format("7") + for_some_cards, ("count",))
