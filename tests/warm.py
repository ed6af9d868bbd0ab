"""Plug-in of `make test` (`pytest -n 2 -p tests.warm`): the two workers begin by compiling the large kernels, each a half of them.

What is compiled is kept on disk for all processes, but workers that begin with tests both compile nearly everything, at the same
time. The halves are tiny runs of number_cases.py; with a cache that is full they take a second.
"""

from __future__ import annotations

import os
import warnings

SHARES = {
    "gw0": ("march/gd", "dyadic/gd", "march/random", "dyadic/random", "iterate/gd", "onepass chain/MultiIndexNetwork",
            "onepass simulate/Committee erf", "onepass diffuse/BinaryMixture"),
    "gw1": ("fresh/gd", "shared/gd", "march/network", "dyadic/network", "fresh/network"),
}


def pytest_sessionstart() -> None:
    """Before a worker collects its tests."""
    names = SHARES.get(os.environ.get("PYTEST_XDIST_WORKER", ""), ())
    if not names:
        return
    from tests.number_cases import CASES

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # of so few samples
        for name in names:
            CASES[name]()
