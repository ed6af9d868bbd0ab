"""The page of the gallery: every script of docs/gallery with its picture (docs/gallery/make.py draws them) and its code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "gallery"


def scripts() -> list[Path]:
    """In the order of the page."""
    return sorted(path for path in FOLDER.glob("*.py") if path.name != "make.py")


def _page(app: Any, docname: str, source: list[str]) -> None:
    if docname != "gallery/index":
        return
    for path in scripts():
        code = path.read_text()
        title, _, text = (ast.get_docstring(ast.parse(code)) or path.stem).partition("\n")
        body = code.split('"""', 2)[2].strip().removeprefix("from __future__ import annotations").strip()
        source[0] += (f"\n## {title.rstrip('.')}\n\n{text.strip()}\n\n![{title}](pictures/{path.stem}.png)\n\n"
                      f"<details><summary><code>docs/gallery/{path.name}</code></summary>\n\n```python\n{body}\n```\n\n</details>\n")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _page)
    return {"parallel_read_safe": True}
