"""Pictures, one file per kind. The only package that knows matplotlib, an extra: without it, importing any of them is one line."""

from __future__ import annotations

from importlib.util import find_spec

from dmft.core.errors import UserError

if find_spec("matplotlib") is None:
    raise UserError("pictures need matplotlib; install the extra [plot]")
