"""dmft plot: a readable picture of every kind of file, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.inspection.opening import open_file

image = pytest.importorskip("matplotlib.image")


@pytest.mark.parametrize("kind", ("theory", "live", "simulation", "ode", "ensemble"))
def test_every_kind_has_a_picture(results, dmft_main, tmp_path, kind, recwarn):
    done = dmft_main("plot", str(getattr(results, kind)), "-o", "picture.png")
    assert done.returncode == 0 and done.stdout == "picture: picture.png\n"
    pixels = image.imread(tmp_path / "picture.png")
    assert min(pixels.shape[:2]) > 300 and np.ptp(pixels[..., :3]) > 0.5
    assert [str(w.message) for w in recwarn if "matplotlib" in str(w.filename)] == []


def _drawn(figure):
    """The figure with its layout done, and what measures its texts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def _collisions(figure) -> list[str]:
    """Tick labels of one axis that overprint each other, anywhere in a figure."""
    renderer, found = _drawn(figure), []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for which in (axis.get_major_ticks(), axis.get_minor_ticks()) for tick in which]
            boxes = [(tick.label1.get_window_extent(renderer), tick.label1.get_text()) for tick in ticks
                     if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text()]
            found += [f"{a} / {b}" for i, (one, a) in enumerate(boxes) for other, b in boxes[i + 1:] if one.overlaps(other)]
    return found


@pytest.mark.parametrize("count", (1, 7, 8, 20))
def test_no_colour_comes_twice(count):
    from workbench.plots.style import colours

    assert len(set(colours(count))) == count


def test_a_constant_does_not_hide_the_curves_beside_it():
    """A ridge is constant; delta_nu and mu, drawn into the same panel after it, have to be seen."""
    from dmft.result.comparison import Curve
    from workbench.plots.curves import draw_curve
    from workbench.plots.style import new_figure

    axis, t = new_figure().subplots(), np.linspace(0.0, 1.0, 5)
    draw_curve(axis, Curve(t, np.full(5, 0.1), np.zeros(5), 4), 0.1, True)
    low, high = axis.get_ylim()
    assert 0.09 < low < 0.1 < high < 0.11
    draw_curve(axis, Curve(t, t - 0.5, np.zeros(5), 4), 0.1, True)
    low, high = axis.get_ylim()
    assert low < -0.5 and high > 0.5


@pytest.mark.long
@pytest.mark.parametrize("first, last", [(0.02, 0.4), (0.02, 2.0), (0.01, 100.0), (1e-4, 1e4), (0.3, 0.9), (0.5, 0.55)])
def test_tick_labels_of_time_do_not_overprint(first, last):
    from dmft.result.comparison import Curve
    from workbench.plots.curves import draw_curve, tidy_ticks
    from workbench.plots.style import new_figure

    figure = new_figure(6.5, 2.8)
    left, right = figure.subplots(1, 2)
    t = np.concatenate(([0.0], np.geomspace(first, last, 20)))
    draw_curve(left, Curve(t, t, 0.1 * t, 4), first, True)
    right.loglog(t[1:], t[1:])
    tidy_ticks(right.xaxis)
    tidy_ticks(right.yaxis)
    assert _collisions(figure) == []
    assert left.get_xlabel() == "$t$" and len([tick for tick in right.get_yticks() if first <= tick <= last]) >= 2


def test_the_test_of_collisions_sees_them():
    """The negative twin: matplotlib's own labels on a short logarithmic axis in a small panel."""
    from workbench.plots.style import new_figure

    figure = new_figure(1.6, 1.6)
    axis = figure.subplots()
    axis.semilogx([0.3, 0.9], [1.0, 2.0])
    axis.set_xticks([0.3, 0.32, 0.34, 0.9])
    assert _collisions(figure) != []


@pytest.mark.long
def test_no_label_of_a_theory_or_a_comparison_overprints(results):
    """Panels, heat maps and colour bars."""
    import dmft

    theory = open_file(results.theory).result
    assert _collisions(theory.plot()) == []
    assert _collisions(dmft.compare(theory, results.sim, observable=["m", "loss"]).plot()) == []


def test_what_is_constant_up_to_rounding_is_shown_as_constant():
    """q = 1 on the sphere: an axis from 0.95 to 1.05, not one of 1e-16; what really moves a little is left alone."""
    from dmft.result.comparison import Curve
    from workbench.plots.curves import draw_curve
    from workbench.plots.style import new_figure

    t = np.linspace(0.0, 1.0, 5)
    for size, low in ((1e-15, 0.95), (1e-6, 1.0 - 1e-6)):
        axis = new_figure().subplots()
        draw_curve(axis, Curve(t, 1.0 + size * np.array([0.0, 1.0, -1.0, 0.5, 0.0]), 0 * t, 4), 0.1, True)
        assert axis.get_ylim()[0] == pytest.approx(low, rel=1e-6)


def test_nine_components_are_named(results, tmp_path):
    """A 3 x 3 matrix: six different curves when it is symmetric, nine when not, all in the legend."""
    from dmft.result.comparison import Curve
    from workbench.plots import onepass

    t = np.linspace(0.0, 1.0, 5)

    def matrix(symmetric: bool) -> dict[str, Curve]:
        return {f"Q[{i},{j}]": Curve(t, t * (i + j if symmetric else 3 * i + j), 0 * t, 1) for i in range(3) for j in range(3)}

    for symmetric, count in ((True, 6), (False, 9)):
        axis = onepass.draw(matrix(symmetric), "", None).axes[0]
        assert len(axis.get_legend().get_texts()) == count == len(axis.lines)


def test_the_panels_of_a_theory(results):
    """Twelve panels, each with data, labels and, where promised, a band."""
    from workbench.plots import theory

    axes = theory.draw(open_file(results.theory).result, None).axes[:12]
    assert all(axis.get_xlabel() and (axis.get_ylabel() or axis.get_title()) for axis in axes)
    assert [axis.get_xscale() for axis in axes[:4]] == ["symlog", "linear", "symlog", "linear"]
    assert all(axis.collections for axis in axes[:4])
    labels = [text.get_text() for text in axes[4].get_legend().get_texts()]
    assert any("A.29" in label for label in labels) and any("A.19" in label for label in labels)
    assert len(axes[6].lines) >= 3 and len(axes[7].lines) == len(axes[6].lines)


@pytest.mark.long
def test_a_theory_draws_itself_whatever_was_imported(results, run_python, tmp_path):
    """Nobody has to import what draws it first."""
    code = ("import sys; from dmft.core import store; from dmft.result.theory import theory_of; "
            f"theory = theory_of(store.load({str(results.theory)!r})); "
            "assert 'workbench' not in sys.modules; theory.plot('theory.png')")
    done = run_python("-c", code)
    assert done.returncode == 0 and (tmp_path / "theory.png").read_bytes()[:4] == b"\x89PNG", done.stderr


def test_a_name_without_a_known_format(results, dmft_main, tmp_path):
    done = dmft_main("plot", str(results.theory), "-o", "picture.nonsense")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []
