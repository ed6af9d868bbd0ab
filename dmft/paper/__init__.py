"""The figures of Mignacco, Urbani and Zdeborova (2021) as data: FIGURES maps each name to its description.

Beside them stand `longtimes`, theory and simulation to t = 1000, and `validation`, whose result is a table.
"""

from __future__ import annotations

from dmft.paper import learning_curves as paper
from dmft.paper import longtimes, ridge, scans, validation
from dmft.paper.figure import PaperFigure

FIGURES: dict[str, PaperFigure] = {figure.name: figure for figure in (
    paper.FIG1, paper.FIG2, paper.FIG3, scans.FIG4, paper.FIG5, paper.FIG6, paper.FIG7,
    ridge.FIGB1, ridge.FIGB2, scans.FIGB3, scans.FIGB4, longtimes.LONGTIMES, validation.VALIDATION)}
