"""Dynamical mean-field theory of stochastic gradient descent: `dmft.load_run`, `dmft.solve`, `dmft.load`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dmft._cache import name_cache

name_cache()        # before anything is compiled

from dmft.core.errors import UserError  # noqa: E402
from dmft.model.losses import register_loss  # noqa: E402
from dmft.model.runfile import Run, load_run, parse_run  # noqa: E402
from dmft.version import __version__  # noqa: E402

# The solver is imported when it is first asked for: sgd_sim and onepass share dmft.core alone.
_LAZY = {"solve": "dmft.running.runner", "load": "dmft.inspection.loading", "convergence_study": "dmft.convergence.runs"}

__all__ = ["Run", "UserError", "__version__", "load_run", "parse_run", "register_loss"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dmft' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
