"""Figures of the companion papers: each can be computed and drawn in its quick form."""

import pytest

from onepass.cli import main
from onepass.cli.figure import FIGURES

FAST = ("bocchi3", "bocchi5", "arnaboldi3", "benarous1")


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in FIGURES])
@pytest.mark.filterwarnings("ignore:gamma")
def test_quick_figure_is_drawn(name, tmp_path):
    path = tmp_path / f"{name}.png"
    assert main(["figure", name, "--quick", "--quiet", "-o", str(path)]) == 0
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size > 10000


def test_list_and_unknown_names(capsys):
    assert main(["figure", "--list"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in FIGURES if name not in listed] == [] and len(FIGURES) >= 3
    assert main(["figure", "bochi1"]) == 2
    assert "did you mean 'bocchi1'" in capsys.readouterr().err


BARE = "import sys; sys.modules['matplotlib'] = None; from onepass.cli import main; sys.exit(main({}))"


def test_the_list_needs_no_matplotlib(run_python):
    """The drawings, and matplotlib with them, are imported only when a picture is drawn."""
    done = run_python("-c", BARE.format(["figure", "--list"]))
    assert done.returncode == 0 and "bocchi5" in done.stdout
    done = run_python("-c", BARE.format(["figure", "bocchi5"]))
    assert done.returncode == 2 and "matplotlib" in done.stderr
