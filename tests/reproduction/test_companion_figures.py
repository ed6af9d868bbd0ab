"""Figures of the companion papers: each can be computed and drawn in its quick form."""

import csv
import math

import numpy as np
import pytest

from onepass.cli import main
from reproduction.companions.command import COMPANION_FIGURES
from reproduction.companions.table import NumberRow, mean_row, write_csv

FAST = ("bocchi3", "bocchi5", "arnaboldi3")


@pytest.mark.long
@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in COMPANION_FIGURES])
@pytest.mark.filterwarnings("ignore:gamma")
def test_quick_figure_is_drawn_with_its_numbers(name, tmp_path, capsys):
    path = tmp_path / f"{name}.png"
    assert main(["figure", name, "--quick", "-o", str(path)]) == 0
    with path.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert 0 < len(printed) <= len(rows) and all(row["value"] for row in rows)
    # NaN: an instance did not exit; inf: alpha_c is never reached above the stability limit
    assert sum(not math.isfinite(float(row["value"])) for row in rows) < len(rows) / 2
    numbers = {(row["quantity"], f"{float(row['value']):.6g}") for row in rows}
    for line in printed:    # every printed number is in the file, under the same name
        assert any(line.startswith(quantity + " ") and value in line.split() for quantity, value in numbers), line
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size > 10000


def test_every_figure_finds_its_drawing():
    """Drawings are named by strings, which nothing else would check before a figure has been computed."""
    assert [name for name, figure in COMPANION_FIGURES.items() if not callable(figure.drawn_by())] == []


def test_a_row_is_written_as_it_is_computed(tmp_path):
    rows = [mean_row("x", "here", np.array([1.0, 3.0, np.nan])), NumberRow("y", "there", np.float64(0.1))]
    write_csv(rows, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text().split() == ["quantity,place,value,error", "x,here,2.0,1.0", "y,there,0.1,"]
    assert rows[0].text().split() == ["x", "here", "2", "+-", "1"]


def test_list_and_unknown_names(capsys):
    assert main(["figure", "--list"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in COMPANION_FIGURES if name not in listed] == [] and len(COMPANION_FIGURES) >= 3
    assert main(["figure", "bochi1"]) == 2
    assert "did you mean 'bocchi1'" in capsys.readouterr().err


def test_a_folder_is_no_picture(tmp_path, capsys):
    assert main(["figure", "bocchi1", "-o", str(tmp_path)]) == 2
    assert "is a folder; name the picture" in capsys.readouterr().err


BARE = "import sys; sys.modules['matplotlib'] = None; from onepass.cli import main; sys.exit(main({}))"


@pytest.mark.long
def test_the_list_needs_no_matplotlib(run_python):
    """The drawings, and matplotlib with them, are imported only when a picture is drawn."""
    done = run_python("-c", BARE.format(["figure", "--list"]))
    assert done.returncode == 0 and "bocchi5" in done.stdout
    done = run_python("-c", BARE.format(["figure", "bocchi5"]))
    assert done.returncode == 2 and "matplotlib" in done.stderr
