"""What all pictures share: colours that the colour-blind can tell apart (Okabe and Ito), and saving."""

from __future__ import annotations

from pathlib import Path

from matplotlib import colormaps, colors
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dmft.core.errors import FileError
from dmft.core.whole import whole

BLUE, ORANGE, GREEN, PINK, SKY, AMBER, YELLOW, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#000000")
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BLACK)
BAND = 2.0      # standard errors: half the height of every band and bar

__all__ = ["AMBER", "BAND", "BLACK", "BLUE", "CYCLE", "GREEN", "ORANGE", "PINK", "SKY", "YELLOW", "Figure", "Line2D", "Patch",
           "colours", "new_figure", "save", "scale_colour", "tinted"]


def scale_colour(share: float) -> str:
    """The colour of a number between 0 and 1 on a scale that prints well."""
    return colors.to_hex(colormaps["viridis"](share))


def colours(count: int) -> list[str]:
    """So many different colours: those of the cycle, or a scale where these are too few."""
    return list(CYCLE[:count]) if count <= len(CYCLE) else [scale_colour(k / (count - 1) * 0.95) for k in range(count)]


def tinted(colour: str, share: float) -> str:
    """A colour mixed with white, of which it keeps `share`."""
    red, green, blue = (share * part + (1.0 - share) for part in colors.to_rgb(colour))
    return colors.to_hex((red, green, blue))


def new_figure(width: float = 7.0, height: float = 4.5) -> Figure:
    """A figure that needs no screen."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path | None) -> Figure:
    """Write a picture whole or not at all, in the format of the file name; with None only return it."""
    if path is not None:
        try:
            with whole(path, ".png") as part:
                figure.savefig(part, dpi=150)
        except ValueError as error:     # a format that matplotlib does not know
            raise FileError(f"{path}: cannot be drawn: {' '.join(str(error).split())}") from None
    return figure
