"""Papers and software to cite, as BibTeX: references.bib beside this file is the one list of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from dmft.version import __version__

SOFTWARE = "learning-dmft"


def entries() -> dict[str, str]:
    """{key: BibTeX entry} of everything that can be cited."""
    text = files("dmft.core").joinpath("references.bib").read_text().replace("VERSION", __version__)
    return {found[1]: found[0].strip() for found in re.finditer(r"@\w+\{([^,]+),.*?\n\}", text, re.DOTALL)}


def citation(reasons: Iterable[tuple[str, str]]) -> str:
    """What to cite: the software and each (key, or BibTeX entry of a user; reason), a line of comment before each entry."""
    known, parts = entries(), []
    for key, reason in ((SOFTWARE, "the software"), *reasons):
        parts.append(f"% {reason}\n{key if key.startswith('@') else known[key]}")
    return "\n\n".join(parts)
