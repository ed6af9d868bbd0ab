"""The code in the documents on one-pass SGD runs, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(("name", "blocks", "said"), [("effective-dynamics", 2, "m_star"), ("one-pass", 3, "1.15")])
def test_the_examples_run(name, blocks, said, capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / f"{name}.md").read_text()
    found = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(found) == blocks
    scope: dict = {}
    for block in found:
        exec(block, scope)
    assert said in capsys.readouterr().out
