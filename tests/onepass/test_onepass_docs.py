"""The code in the documents on one-pass SGD runs, and its assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onepass import runfile


@pytest.mark.long
@pytest.mark.parametrize(("name", "blocks", "said"), [("effective-dynamics", 2, "m_star"), ("one-pass", 4, "1.15")])
def test_the_examples_run(name, blocks, said, capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / f"{name}.md").read_text()
    found = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(found) == blocks
    scope: dict = {}
    for block in found:
        exec(block, scope)
    assert said in capsys.readouterr().out


def test_the_run_file_of_the_page_is_valid_and_shows_the_defaults():
    text = (Path(__file__).resolve().parents[2] / "docs" / "one-pass.md").read_text()
    run = runfile.parse_run(re.findall(r"```toml\n(.*?)```", text, re.S)[0])
    assert run.simulation == runfile.ProcessConfig()
    assert run.time == runfile.TimeConfig()
