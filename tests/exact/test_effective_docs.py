"""The code in docs/effective-dynamics.md runs, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_examples_run(capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "effective-dynamics.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    scope: dict = {}
    for block in blocks:
        exec(block, scope)
    assert "m_star" in capsys.readouterr().out
