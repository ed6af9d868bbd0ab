"""The list of cases that are left to `pytest -m slow`."""

from __future__ import annotations

from pathlib import Path

from tests.long_cases import LONG_CASES

TESTS = Path(__file__).resolve().parents[1]


def test_long_cases_are_still_there():
    """A renamed test would leave the list without a word, and make `make test` longer."""
    for file, cases in LONG_CASES.items():
        (path,) = TESTS.rglob(file)
        for case in cases:
            assert f"def {case.split('[')[0]}(" in path.read_text(), case
