"""Results as small HTML tables for notebooks: a heading, a few rows, curves as inline SVG lines. No plotting library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

import numpy as np

WIDTH, HEIGHT = 160, 36         # of a drawn curve, in pixels
DRAWN_POINTS = 120               # of a curve that are drawn


def sparkline(t: np.ndarray, values: np.ndarray) -> str:
    """A curve as an SVG line without axes; empty when fewer than two values are finite."""
    good = np.flatnonzero(np.isfinite(values))
    if good.size < 2 or t[good[-1]] == t[good[0]]:
        return ""
    some = good[np.unique(np.linspace(0, good.size - 1, DRAWN_POINTS).astype(int))]
    x = (t[some] - t[some[0]]) / (t[some[-1]] - t[some[0]]) * (WIDTH - 4) + 2
    low, high = float(values[some].min()), float(values[some].max())
    y = HEIGHT - 3 - (values[some] - low) / (high - low or 1.0) * (HEIGHT - 6)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
    return (f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><polyline points="{points}" fill="none" stroke="#0072B2" '
            'stroke-width="1.5"/></svg>')


def html_card(title: str, facts: Mapping[str, object], curves: Iterable[tuple[str, str, str]] = ()) -> str:
    """A table: heading, one row a fact, one row a curve (name, value at the end, SVG)."""
    rows = [f'<tr><td style="text-align:left">{escape(name)}</td><td colspan="2" style="text-align:left">{escape(str(value))}'
            "</td></tr>" for name, value in facts.items()]
    rows += [f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{escape(text)}</td>'
             f"<td>{svg}</td></tr>" for name, text, svg in curves]
    head = f'<thead><tr><th colspan="3" style="text-align:left">{escape(title)}</th></tr></thead>'
    return f'<table>{head}<tbody>{"".join(rows)}</tbody></table>'
