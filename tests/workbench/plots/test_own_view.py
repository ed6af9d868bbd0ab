"""A picture more: a function in a file, and a line in the table of views."""

from __future__ import annotations

import pytest

from tests.png import png_shape
from workbench.inspection.kinds import VIEWS, View

FILE = '''
from workbench.plots.style import new_figure, save

def draw(result, path):
    figure = new_figure()
    figure.subplots().plot(result.t, 1.0 - result.m)
    return save(figure, path)
'''


@pytest.fixture
def one_more(tmp_path, monkeypatch):
    (tmp_path / "mine_of_distance.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(VIEWS, "distance", View("how far m is from 1", {"theory": "mine_of_distance:draw"}))


def test_a_line_makes_a_view(one_more, results, dmft_main, tmp_path):
    assert "how far m is from 1" in " ".join(dmft_main("plot", "--help").stdout.split())
    assert dmft_main("plot", str(results.theory), "--view", "distance", "-o", "a.png").returncode == 0
    assert png_shape(tmp_path / "a.png")[1] > 500
    refused = dmft_main("plot", str(results.simulation), "--view", "distance", "-o", "b.png")
    assert refused.returncode == 2 and "has no view 'distance', which draws how far m is from 1" in refused.stderr
