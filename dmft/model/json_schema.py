"""Run files as a JSON Schema, from the sections themselves: editors complete keys and names, and mark what is wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from dmft.core.schema import form_of, wanted_by
from dmft.model import registry
from dmft.model.clock import PHASE_KEYS
from dmft.model.runfile import FOR_STUDIES, SECTIONS, TheoryConfig


def run_file_schema() -> dict[str, Any]:
    """The schema, draft 7: what every key takes, its default and its meaning. Which keys go together is checked by `dmft check`."""
    sections = {name: section_form(cls) for name, cls in SECTIONS.items()}
    sections["algorithm"]["properties"].pop("phase")
    phase = {"type": "array", "description": "what changes later in the run",
             "items": _object({key: value_form(check) for key, check in PHASE_KEYS.items()})}
    return document_form("A run file of dmft and sgd-sim", {**sections, "phase": phase}, ["problem", "algorithm"])


def document_form(title: str, sections: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of a whole run file, which may have a title beside its sections."""
    words = {"type": "string", "description": "what the run is, for titles"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_object({"title": words, **sections}),
            "required": required}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def section_form(cls: type) -> dict[str, Any]:
    """The schema of a section."""
    fields = {field.name: field for field in dataclasses.fields(cls) if not (cls is TheoryConfig and field.name in FOR_STUDIES)}
    found = _object({name: _key(field) for name, field in fields.items()})
    found["description"] = (cls.__doc__ or "").partition("\n")[0]
    needed = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    return {**found, "required": needed} if needed else found


def _key(field: Any) -> dict[str, Any]:
    check, known = field.metadata["check"], field.default not in (dataclasses.MISSING, None, math.inf) and not mandatory(field)
    wanted = wanted_by(check) if "role" not in form_of(check) else ""
    words = "; ".join(filter(None, (field.metadata["doc"], wanted and f"must be {wanted}", owner_text(field))))
    return {**value_form(check), "description": words, **({"default": _plain(field.default)} if known else {})}


def value_form(check: Any) -> dict[str, Any]:
    """What a key takes; a key that names physics: the names that are built in, any other, or a table."""
    form = form_of(check)
    if "role" not in form:
        return form
    return {"anyOf": [{"enum": registry.names(form["role"])}, {"type": "string"}, {"type": "object"}]}


def owners(field: Any) -> list[str]:
    """Names of those members of a role that a flat key belongs to; [] for a key of the section itself."""
    role = field.metadata.get("role", "")
    return [name for name in registry.names(role) if field.name in registry.options(registry.find(role, name))] if role else []


def owner_text(field: Any) -> str:
    """What a flat key goes with, in words; "" for a key of the section itself."""
    names = owners(field)
    return f"only with {field.metadata['role']} = {' or '.join(names)}" if names else ""


def mandatory(field: Any) -> bool:
    """Whether a run file must give a key, although it may have a default in Python: alpha, wherever there are samples."""
    laws = [registry.find("data", name) for name in registry.names("data")]
    return field.default is dataclasses.MISSING or any(field.name in law.needs for law in laws if law)


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
