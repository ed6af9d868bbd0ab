"""Run files of onepass as a JSON Schema, from the keys themselves: editors complete them and mark what is wrong."""

from __future__ import annotations

from typing import Any

from dmft.model.json_schema import document_form, section_form
from onepass.model_keys import MODEL_KINDS, initial_section, model_section
from onepass.runfile import ProcessConfig, TimeConfig


def run_file_schema() -> dict[str, Any]:
    """The schema, draft 7. A model has the keys of its kind; [initial] is checked key by key."""
    models = [section_form(model_section(kind)) for kind in MODEL_KINDS]
    for model in models:
        model["required"] = ["kind", *model.get("required", [])]
    initial = [section_form(initial_section(kind)) for kind in MODEL_KINDS]
    sections = {"model": {"description": "the model and its parameters", "anyOf": models},
                "initial": {"description": "statistics at t = 0", "anyOf": [each for n, each in enumerate(initial)
                                                                            if each not in initial[:n]]},
                "time": section_form(TimeConfig), "simulation": section_form(ProcessConfig)}
    return document_form("A run file of onepass", sections, ["model"])
