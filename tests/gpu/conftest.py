"""What the GPU tests run on: a card where there is one, and the same sources on the host."""

from __future__ import annotations

import pytest

from dmft.core.device import gpu
from dmft.core.errors import UserError
from tests.gpu.emulate import COMPILER, HostGpu


@pytest.fixture(params=["emulated", "card"])
def card(request):
    """A Gpu."""
    if request.param == "emulated":
        if COMPILER is None:
            pytest.skip("no C++ compiler to run CUDA sources on the host")
        return HostGpu()
    try:
        return gpu("theory")
    except UserError as error:
        pytest.skip(f"no GPU here: {error}")
