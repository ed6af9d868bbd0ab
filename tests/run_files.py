"""Small run files for tests: one base, and what a test changes in it."""

from __future__ import annotations

import json
from typing import Any


def run_text(kind: str = "persistent_sgd", t_max: float = 2.0, **sections: dict[str, Any]) -> str:
    """A run file of 50 steps per unit of time; each section is updated by the keys given for it.

    run_text(t_max=1.6, theory={"samples": 100}, simulation={"dimension": 50})
    """
    content: dict[str, dict[str, Any]] = {
        "problem": {"alpha": 3.0, "m0": 0.5},
        "algorithm": {"kind": kind, "learning_rate": 0.02, "t_max": t_max},
    }
    if kind == "persistent_sgd":
        content["algorithm"] |= {"batch_fraction": 0.5, "persistence": 1.0}
    for name, keys in sections.items():
        content[name] = {**content.get(name, {}), **keys}
    lines = []
    for name, keys in content.items():
        # Numbers, booleans, strings and lists of them are written alike in JSON and TOML.
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"
