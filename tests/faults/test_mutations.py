"""tests/mutate.py: mutations that still have their place, and verdicts that mean what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import place_of, run_tests
from tests.mutate import MUTATIONS, Bench
from tests.mutations import EQUIVALENT, Mutation

ROOT = Path(__file__).resolve().parents[2]


def test_mutations_have_their_place_and_their_tests():
    gone = [mutation.name for mutation in MUTATIONS if isinstance(place_of(mutation, ROOT), str)]
    assert not gone, "these want a new fragment in tests/mutations_of_*.py"
    assert {test for mutation in MUTATIONS for test in mutation.tests if not (ROOT / test).exists()} == set()
    names = [mutation.name for mutation in MUTATIONS]
    assert len(names) == len(set(names)) >= 60 and set(EQUIVALENT) <= set(names)
    assert all(mutation.old != mutation.new for mutation in MUTATIONS)


def test_a_fragment_must_be_unique(tmp_path):
    (tmp_path / "dmft").mkdir()
    (tmp_path / "dmft" / "a.py").write_text("x = 1\ny = 1\n")
    assert place_of(Mutation("", "dmft", "x = 1", "x = 2", ()), tmp_path) == tmp_path / "dmft" / "a.py"
    assert "not unique (2 places)" in str(place_of(Mutation("", "dmft", "= 1", "= 2", ()), tmp_path))
    assert place_of(Mutation("", "dmft", "z = 1", "z = 2", ()), tmp_path) == "fragment is gone"


def test_the_copied_tree_is_that_of_the_project(tmp_path):
    """A link that became a folder would show tests files twice, and fail those that look through a package."""
    tree = Bench(tmp_path, 0.0).tree

    def files(root: Path) -> set[Path]:
        return {file.relative_to(root) for file in (root / "dmft").rglob("*.py")}

    assert files(tree) == files(ROOT) and (tree / "dmft" / "runs").is_symlink() and (tree / "dmft" / "runs" / "demo.toml").exists()


@pytest.mark.parametrize("body, passed, failed, reason", [
    ("assert True", 1, False, ""), ("assert 1 == 2", 0, True, "FAILED test_it.py::test_it"),
    ("import pytest; pytest.skip('no compiler')", 0, False, "no compiler"),
    ("import time; time.sleep(60)", 0, True, "longer than")])
def test_outcomes(tmp_path, body, passed, failed, reason):
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\nmarkers = slow: long\n")
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    found = run_tests(tmp_path, ("test_it.py",), tmp_path, 20.0 if "60" not in body else 4.0)
    assert (found.passed, found.failed) == (passed, failed) and reason in found.reason
    assert found.hung == ("sleep" in body)
    assert "no tests at" in run_tests(tmp_path, ("gone.py",), tmp_path, 1.0).reason
