"""dmft plot: a readable picture of every kind of file, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.inspection.opening import open_file

matplotlib = pytest.importorskip("matplotlib")


@pytest.mark.parametrize("kind", ("theory", "live", "simulation", "ode", "ensemble"))
def test_every_kind_has_a_picture(results, dmft_main, tmp_path, kind, recwarn):
    done = dmft_main("plot", str(getattr(results, kind)), "-o", "picture.png")
    assert done.returncode == 0 and done.stdout == "picture: picture.png\n"
    pixels = matplotlib.image.imread(tmp_path / "picture.png") if hasattr(matplotlib, "image") else None
    if pixels is not None:
        assert min(pixels.shape[:2]) > 300 and np.ptp(pixels[..., :3]) > 0.5
    assert [str(w.message) for w in recwarn if "matplotlib" in str(w.filename)] == []


def test_the_panels_of_a_theory(results, monkeypatch, tmp_path):
    """Twelve panels, each with data, labels and, where promised, a band."""
    from dmft.plots import theory

    figures = []
    monkeypatch.setattr(theory, "save", lambda figure, path: figures.append(figure))
    theory.draw(open_file(results.theory).result, tmp_path / "x.png")
    axes = figures[0].axes[:12]
    assert all(axis.get_xlabel() and (axis.get_ylabel() or axis.get_title()) for axis in axes)
    assert [axis.get_xscale() for axis in axes[:4]] == ["log", "linear", "log", "linear"]
    assert all(axis.collections for axis in axes[:4])
    labels = [text.get_text() for text in axes[4].get_legend().get_texts()]
    assert any("A.29" in label for label in labels) and any("A.19" in label for label in labels)
    assert len(axes[6].lines) >= 3 and len(axes[7].lines) == len(axes[6].lines)


def test_a_name_without_a_known_format(results, dmft_main, tmp_path):
    done = dmft_main("plot", str(results.theory), "-o", "picture.nonsense")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []
