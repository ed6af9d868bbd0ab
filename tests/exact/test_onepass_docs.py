"""The code in docs/one-pass.md runs, and its assertions hold."""

import re
from pathlib import Path


def test_the_examples_run(capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "one-pass.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    scope: dict = {}
    for block in blocks:
        exec(block, scope)
    assert capsys.readouterr().out.startswith("1.15")
