"""Draw the pictures of the gallery: python docs/gallery/make.py [NAME ...].

Each script beside this file makes a matplotlib Figure called `figure`. A picture newer than its script is left as it is.
"""

from __future__ import annotations

import runpy
import sys
import time
import warnings
from pathlib import Path

import matplotlib

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
STYLE = {"figure.dpi": 110, "savefig.dpi": 110, "axes.grid": True, "grid.alpha": 0.25, "axes.spines.top": False,
         "axes.spines.right": False, "figure.constrained_layout.use": True, "legend.frameon": False, "font.size": 10}


def main(names: list[str]) -> None:
    """Draw the pictures of these scripts, or all that are not there yet."""
    sys.path.insert(0, str(HERE.parents[1]))
    matplotlib.use("Agg")
    PICTURES.mkdir(exist_ok=True)
    for script in sorted(HERE.glob("*.py")):
        place = PICTURES / f"{script.stem}.png"
        if script.name == "make.py" or (names and script.stem not in names):
            continue
        if not names and place.exists() and place.stat().st_mtime > script.stat().st_mtime:
            continue
        begin = time.monotonic()
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)      # small runs warn of what they are: small
            runpy.run_path(str(script))["figure"].savefig(place)
        print(f"{place.name}: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
