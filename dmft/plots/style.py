"""What all pictures share: colours that the colour-blind can tell apart (Okabe and Ito), and saving."""

from __future__ import annotations

import os
from pathlib import Path

from dmft.core.errors import FileError, UserError

try:
    from matplotlib.figure import Figure
except ImportError:
    raise UserError("pictures need matplotlib; install the extra [plot]") from None

BLUE, ORANGE, GREEN, PINK, SKY, AMBER, YELLOW, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#000000")
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BLACK)


def new_figure(width: float = 7.0, height: float = 4.5) -> Figure:
    """A figure that needs no screen."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a picture whole or not at all; the format is that of the file name."""
    part = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix or '.png'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(part, dpi=150)
        part.replace(path)
    except (OSError, ValueError) as error:
        part.unlink(missing_ok=True)
        raise FileError(f"{path}: cannot be drawn: {' '.join(str(error).split())}") from None
