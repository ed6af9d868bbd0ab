"""Pictures, one file per kind. Only this package imports matplotlib; without that extra, importing any picture ends in one line."""

from __future__ import annotations

from importlib.util import find_spec

from dmft.core.errors import UserError

if find_spec("matplotlib") is None:
    raise UserError("pictures need matplotlib; install the extra [plot]")
