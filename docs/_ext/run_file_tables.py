"""The tables of docs/run-files.md, one a section, from the sections themselves: `make labels` writes them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from dmft.core import schema  # noqa: E402
from dmft.model import registry  # noqa: E402
from dmft.model.clock import PHASE_KEYS  # noqa: E402
from dmft.model.json_schema import mandatory, owners  # noqa: E402
from dmft.model.runfile import FOR_STUDIES, SECTIONS, TheoryConfig  # noqa: E402

BEGIN, END = "<!-- tables: written by make labels -->\n", "<!-- end of tables -->\n"
# Where a key is explained.
LINKS = {"loss": "data-models.md", "data": "data-models.md", "labels": "data-models.md", "clusters": "data-models.md",
         "powers": "closed-models.md", "signal": "closed-models.md", "start": "random-starts.md", "learning_rate": "algorithms.md",
         "minibatch": "algorithms.md", "momentum": "algorithms.md", "update": "extending.md", "observables": "extending.md",
         "history": "histories.md", "waiting_times": "conventions.md", "fdt": "temperature.md", "snapshots": "fields.md",
         "hessian": "hessian.md", "clones": "clones.md", "device": "gpu.md", "units": "networks.md", "label": "networks.md",
         "landscape": "simulator.md", "kernels": "simulator.md", "precision": "simulator.md"}
SCHEDULE = "or a [schedule](algorithms.md)"


def tables() -> str:
    """All of them, as Markdown."""
    parts = []
    for name, cls in SECTIONS.items():
        rows = [_row(field) for field in dataclasses.fields(cls)
                if field.name != "phase" and not (cls is TheoryConfig and field.name in FOR_STUDIES)]
        parts.append(f"### `[{name}]`\n\n{_intro(cls)}\n\n" + _table(("key", "default", "takes", "meaning"), rows))
    phases = [(f"`{key}`", _takes(check)) for key, check in PHASE_KEYS.items()]
    parts.append("### `[[phase]]`\n\nAny number of these tables: what changes from a time (`begin`) or a step (`step`) on "
                 "([algorithms](algorithms.md)).\n\n" + _table(("key", "takes"), phases))
    return "\n" + "\n\n".join(parts) + "\n\n"


def _intro(cls: type) -> str:
    text = (cls.__doc__ or "").partition(": ")[2].partition("\n")[0]
    return text[:1].upper() + text[1:]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _row(field: Any) -> tuple[str, str, str, str]:
    names, role, missing = owners(field), field.metadata.get("role", ""), field.default is dataclasses.MISSING
    needed = [name for name in names if registry.options(registry.find(role, name))[field.name].default is dataclasses.MISSING]
    always = mandatory(field)
    default = "" if always or needed or field.default is None else f"`{schema.to_toml_value(field.default)}`"
    words = [field.metadata["doc"]]
    words += [f"only with `{role} = {' | '.join(names)}`" + (", mandatory there" if needed else "")] if names else []
    words += ["mandatory" + (" where there are samples" if not missing else "")] if always else []
    words += [f"[more]({LINKS[field.name]})"] if field.name in LINKS else []
    return f"`{field.name}`", default, _takes(field.metadata["check"]), "; ".join(words)


def _takes(check: Any) -> str:
    form = schema.form_of(check)
    if "role" in form:
        return " ".join(f"`{name}`" for name in registry.names(form["role"])) + " or a registered name"
    if "enum" in form:
        return " ".join(f"`{name}`" for name in form["enum"])
    wanted = schema.wanted_by(check)
    return f"{wanted}, {SCHEDULE}" if {"type": "object"} in form.get("anyOf", ()) else wanted


def written(page: str) -> str:
    """The page with new tables."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + tables() + END + rest.partition(END)[2]


if __name__ == "__main__":
    place = ROOT / "docs" / "run-files.md"
    place.write_text(written(place.read_text()))
