"""Numbers for a page: short, and never NaN."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

DIGITS = 6


def plain(value: Any) -> Any:
    """Arrays as lists and numbers as floats of six digits; None for what is not finite."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()] if value.ndim else plain(value.item())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def to_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
