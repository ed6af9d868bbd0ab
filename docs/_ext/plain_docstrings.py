"""Docstrings of this project are plain text with `names` in backticks; reStructuredText would read markup into them.

Words keep their characters, backticks become literals, and indented lines become a literal block.
"""

from __future__ import annotations

import re
from typing import Any

_LITERAL = re.compile(r"(`[^`]*`)")


def plain(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText that shows as it is written."""
    result: list[str] = []
    block = False
    for line in lines:
        indented = bool(line[:1].isspace() and line.strip())
        if indented and not block:
            result += ["", "::", ""]
        elif block and line.strip() and not indented:
            result.append("")
        if indented:
            block = True
            result.append("    " + line)
            continue
        block = block and not line.strip()
        item = re.match(r"(- )(.*)", line)
        result.append(item[1] + _escaped(item[2]) if item else _escaped(line))
    return result


def _escaped(text: str) -> str:
    parts = _LITERAL.split(text)
    return "".join(f"``{part[1:-1]}``" if part.startswith("`") and len(part) > 2 else re.sub(r"([*_|\\`])", r"\\\1", part)
                   for part in parts)


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "class" and getattr(obj, "__doc__", "") and obj.__doc__.startswith(f"{obj.__name__}("):
        lines[:] = []           # the signature that a dataclass without a docstring shows
        return
    lines[:] = plain(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True}
