"""Who imports whom, drawn on docs/inside.md from the imports that tests/project/test_architecture.py reads, by `make labels`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from equation_labels import written  # noqa: E402

from tests.project.test_architecture import IMPORTS, LAYERS, PACKAGES, _within  # noqa: E402

# From the highest to the lowest: the packages, and within dmft its own.
PARTS = (*reversed(PACKAGES[1:]), *(f"dmft.{layer}" for layer in reversed(LAYERS["dmft"])))


def arrows(imports: Mapping[str, Iterable[str]]) -> set[tuple[str, str]]:
    """(part that imports, part that is imported)."""
    def part(name: str) -> str | None:
        return next((each for each in PARTS if _within(name, each)), None)

    pairs = {(part(module), part(name)) for module, names in imports.items() for name in names}
    return {(reader, read) for reader, read in pairs if reader and read and reader != read}


def drawing(found: set[tuple[str, str]]) -> str:
    """A row for each part, with a dot for each one that it imports; from the dots a line goes down to the row of that one."""
    rows = []
    for row, part in enumerate(PARTS):
        dots = {PARTS.index(read) for reader, read in found if reader == part}
        end, text = max(row, *dots, 0), f"{part:18}"
        for lane in range(1, len(PARTS)):
            known = lane >= row and any(read == PARTS[lane] and reader in PARTS[:row] for reader, read in found)
            line = ("┘" if lane == end else "┴") if lane == row else "┼" if lane < end else "│"
            text += "──" if lane <= end else "  "
            text += "●" if lane in dots else line if known else "─" if lane < end else " "
        rows.append(text.rstrip())
    return "```text\n" + "\n".join(rows) + "\n```\n"


if __name__ == "__main__":
    page = ROOT / "docs" / "inside.md"
    page.write_text(written(page.read_text(), drawing(arrows(IMPORTS))))
