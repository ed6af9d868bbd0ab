"""`dmft cite`, `onepass cite`: BibTeX for exactly what a run uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dmft
from dmft.cli import main as dmft_command
from dmft.core.references import citation, entries
from dmft.model.references import references_of
from dmft.model.runfile import parse_run
from onepass.cli import main as onepass_command
from onepass.model_keys import MODEL_KINDS
from onepass.references import REFERENCES_BY_MODEL
from tests.run_files import run_text

ROOT = Path(__file__).resolve().parents[2]
THEORY = "mignacco2021stochasticity"


@pytest.mark.parametrize("sections, keys", [
    ({}, {THEORY}),
    ({"problem": {"start": "spectral"}}, {THEORY, "mondelli2019fundamental"}),
    ({"problem": {"data": "mixture", "loss": "logistic", "clusters": [[1.0, 0.5, 1.0, 1.0], [-1.0, 0.5, -1.0, 1.0]]}},
     {THEORY, "mignacco2020dynamical"}),
    ({"algorithm": {"momentum": 0.5}}, {THEORY, "polyak1964some"}),
    ({"network": {"units": 1}, "problem": {"m0": [[0.5]]}}, {THEORY, "dandi2024benefits"}),
    ({"algorithm": {"momentum": 0.5, "nesterov": True}}, {THEORY}),
])
def test_a_run_cites_what_it_uses(sections, keys):
    text = run_text(**sections)
    if "start" in sections.get("problem", {}):
        text = text.replace("m0 = 0.5\n", "")
    found = citation(references_of(parse_run(text)))
    assert set(re.findall(r"@\w+\{([^,]+),", found)) == keys | {"learning-dmft"}
    assert f"version = {{{dmft.__version__}}}" in found


def test_entries_are_whole():
    for key, entry in entries().items():
        assert entry.count("{") == entry.count("}") and entry.startswith("@") and entry.endswith("}"), key
        assert all(f"{field} = {{" in entry for field in ("title", "author", "year")), key


def test_every_model_of_onepass_is_cited_and_every_key_is_known():
    assert set(REFERENCES_BY_MODEL) == set(MODEL_KINDS)
    assert {key for reasons in REFERENCES_BY_MODEL.values() for key, _ in reasons} <= set(entries())


@pytest.mark.cli
def test_commands(capsys):
    assert dmft_command(["cite", str(ROOT / "runs/demo.toml")]) == 0
    assert THEORY in capsys.readouterr().out
    one_pass = str(ROOT / "runs/arnaboldi/figure1.toml")
    assert onepass_command(["cite", one_pass]) == 0
    told = capsys.readouterr().out
    assert "arnaboldi2024escaping" in told and THEORY not in told
    assert dmft_command(["cite", one_pass]) == 0 and capsys.readouterr().out == told
