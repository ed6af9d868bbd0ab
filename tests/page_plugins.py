"""The examples of docs/extending.md as plug-ins of a user, and runs with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dmft
from dmft.core.command import load_plugin

PAGE = (Path(__file__).resolve().parents[1] / "docs/extending.md").read_text()
BALL, CUBIC = {"kind": "ball", "radius": 1.3}, {"kind": "cubic", "strength": (0.5 / 6) ** 0.5}


@pytest.fixture(autouse=True)
def plugins(tmp_path):
    """The examples of the page, each in a file of its own."""
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "name=" in block]
    for i, block in enumerate(blocks):
        (tmp_path / f"plugin_{i}.py").write_text(block)
        load_plugin(str(tmp_path / f"plugin_{i}.py"))


def make(**settings) -> dmft.Run:
    """A small run, changed by `settings`."""
    return dmft.Experiment({"alpha": 2.0, "m0": 0.3, "kind": "gd", "learning_rate": 0.1, "t_max": 2.4, "loss": "linear"} | settings)
