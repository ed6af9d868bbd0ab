"""The options that the studies of this folder share; each is a script, started as `python runs/studies/NAME.py`."""

from __future__ import annotations

import argparse
from pathlib import Path


def read_options(about: str | None, quick: str, alphas: tuple[float, ...] = (), device: bool = False,
                 **sizes: int) -> argparse.Namespace:
    """--quick, --output, and one option with its default for each of `sizes`; `quick` says what --quick does. alphas: the default
    of --alpha, which takes several, where a study has it; device: whether it can use a card."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    if alphas:
        parser.add_argument("--alpha", metavar="A", type=float, nargs="+", default=alphas, help=f"default {alphas}")
    if device:
        parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="that computes theory and simulation")
    for name, default in sizes.items():
        home = "theory" if name in ("samples", "replicas") else "simulation"
        parser.add_argument(f"--{name}", metavar="N", type=int, default=default, help=f"{home}.{name} (default {default})")
    parser.add_argument("--output", metavar="DIR", type=Path, default=Path("runs/out/studies"),
                        help="results, from which a second start continues, and pictures (default runs/out/studies)")
    return parser.parse_args()
