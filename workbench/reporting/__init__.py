"""One page for the browser that holds everything: curves, kernels, convergence, runs, provenance. Needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from dmft.core.errors import UserError
from dmft.core.whole import whole
from dmft.version import __version__
from workbench.inspection.kinds import Opened
from workbench.reporting.data import other_experiments, page_data
from workbench.reporting.numbers import to_json
from workbench.reporting.tables import page_tables


def write_report(opened: Sequence[Opened], output: Path, title: str = "", notes: str = "") -> None:
    """Write the page, whole or not at all."""
    text = report_page(opened, title, notes)
    with whole(output) as part:
        part.write_text(text, encoding="utf-8")


def report_page(opened: Sequence[Opened], title: str = "", notes: str = "") -> str:
    """The page as text; its title is by default made of the titles of the runs."""
    titles = list(dict.fromkeys(item.run.title for item in opened if item.run is not None and item.run.title))
    others = "".join(f"<li>{escape(line)}</li>" for line in other_experiments(opened))
    parts = {
        "title": escape(title or "; ".join(titles) or "dmft report"),
        "notes": f"<p>{escape(notes)}</p>" if notes else "", "version": escape(__version__),
        "others": f'<ul class="warnings">{others}</ul>' if others else "",
        "files": escape(", ".join(item.path.name for item in opened)), "style": _asset("page.css"), "plotly": _plotly(),
        "script": _asset("page.js"), "tables": page_tables(opened), "data": to_json(page_data(opened)),
    }
    head, *rest = _asset("page.html").split("{{")
    pieces = [head]
    for piece in rest:                      # in one pass, so that placeholders inside the inserted values are not filled
        name, _, tail = piece.partition("}}")
        pieces += [parts[name], tail]
    return "".join(pieces)


def _asset(name: str) -> str:
    return files("workbench.reporting").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("reports need plotly; install the extra [report]") from None
    return get_plotlyjs()
