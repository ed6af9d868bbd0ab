"""NVIDIA's compiler of kernels, NVRTC, which needs no card: what the host's compiler takes need not be CUDA, and it leaves out what
stands behind `#if` for certain cards.

It reads a source and goes no further, which takes a tenth of the time (-dlto leaves the rest to a linker). Assembly within it, and
whether registers suffice, it does not see then.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from pathlib import Path

CARDS = (b"compute_70", b"compute_90")  # the oldest of docs/gpu.md, and an H200


@lru_cache
def library() -> ctypes.CDLL | None:
    """NVRTC of the package registry; None where it is not installed."""
    found = importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.cuda_nvrtc")
    if not found or not found.submodule_search_locations:
        return None
    return ctypes.CDLL(str(next(Path(found.submodule_search_locations[0]).glob("lib/libnvrtc.so.*"))))


@lru_cache
def errors(text: str) -> str:
    """What NVRTC has against a source; nothing where it takes it, or is not installed."""
    return "\n".join(filter(None, (_errors(text, card) for card in CARDS))) if library() else ""


def _errors(text: str, card: bytes) -> str:
    nvrtc, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    flags = (ctypes.c_char_p * 3)(b"--std=c++17", b"-arch=" + card, b"-dlto")
    assert nvrtc and nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None) == 0
    refused = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return (log.value.decode() or "refused without a word") if refused else ""
