"""The figures of Mignacco, Urbani and Zdeborova (2021) as data: FIGURES maps each name to its description.

Beside them stand `gmm2` and `gmm3`, the Gaussian mixtures of Mignacco, Krzakala, Urbani and Zdeborova (2020), `longtimes`, theory
and simulation to t = 1000, and three whose result is a table: `validation`, `headline` and `dimensions`.
"""

from __future__ import annotations

from reproduction.paper import dimensions, longtimes, mixtures, ridge, scans, validation
from reproduction.paper import learning_curves as paper
from reproduction.paper.figure import PaperFigure

FIGURES: dict[str, PaperFigure] = {figure.name: figure for figure in (
    paper.FIG1, paper.FIG2, paper.FIG3, scans.FIG4, paper.FIG5, paper.FIG6, paper.FIG7,
    ridge.FIGB1, ridge.FIGB2, scans.FIGB3, scans.FIGB4, mixtures.GMM2, mixtures.GMM3, longtimes.LONGTIMES, validation.VALIDATION,
    dimensions.HEADLINE, dimensions.DIMENSIONS_FIGURE)}
PAPER = tuple(name for name in FIGURES if name.startswith("fig"))
