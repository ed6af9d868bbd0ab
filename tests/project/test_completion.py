"""Tab completion and the schema of run files, from the parsers and sections themselves."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dmft.model.json_schema import run_file_schema
from dmft.model.runfile import FOR_STUDIES, SECTIONS
from onepass.json_schema import run_file_schema as onepass_schema
from workbench.cli.completion import bash, fish, zsh

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("completion") / "script.bash"
    place.write_text(bash())
    return place


def _completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    function = f"_{words[0].replace('-', '_')}_complete"
    code = f'source "{script}"; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return set(subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(("words", "offered"), [
    (("dmft", "so"), {"solve"}), (("sgd-sim", ""), {"run", "check"}), (("onepass", "sim"), {"simulate"}),
    (("dmft", "solve", "run.toml", "--res"), {"--resume"}), (("dmft", "solve", "run.toml", "--device", ""), {"cpu", "gpu"}),
    (("dmft", "solve", "run.toml", "--set", "theory.sam"), {"theory.samples="}),
    (("dmft", "completion", "z"), {"zsh"}), (("dmft", "plot", "a.h5", "--view", "fd"), {"fdt"}),
])
def test_bash_completes(script, words, offered):
    assert _completed(script, *words) == offered


def test_other_shells_have_the_same_words():
    assert zsh().endswith(bash()) and "bashcompinit" in zsh()
    for line in ("-a solve", "__fish_seen_subcommand_from solve' -l resume", "-l device -r -a 'cpu gpu'"):
        assert line in fish()


def _fits(value: Any, form: dict[str, Any]) -> bool:
    """JSON Schema as far as ours uses it."""
    if "anyOf" in form:
        return any(_fits(value, each) for each in form["anyOf"])
    if "enum" in form:
        return value in form["enum"]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    kinds = {"number": number, "integer": number and float(value).is_integer(), "string": isinstance(value, str),
             "boolean": isinstance(value, bool), "array": isinstance(value, list), "object": isinstance(value, dict)}
    if "type" in form and not kinds[form["type"]]:
        return False
    if form.get("type") in ("number", "integer"):
        return (form.get("minimum", value) <= value <= form.get("maximum", value)
                and not ("exclusiveMinimum" in form and value <= form["exclusiveMinimum"])
                and not ("exclusiveMaximum" in form and value >= form["exclusiveMaximum"]))
    if form.get("type") == "array":
        return all(_fits(each, form["items"]) for each in value)
    if "properties" in form:
        return (set(value) <= set(form["properties"]) and set(form.get("required", ())) <= set(value)
                and all(_fits(each, form["properties"][key]) for key, each in value.items()))
    return True


def test_the_schema_has_every_key_with_its_default():
    found = json.loads(json.dumps(run_file_schema()))["properties"]
    for section, cls in SECTIONS.items():
        keys = {field.name for field in dataclasses.fields(cls)} - {"phase", *(FOR_STUDIES if section == "theory" else ())}
        assert set(found[section]["properties"]) == keys
        for key, form in found[section]["properties"].items():
            assert form["description"] and (form.get("default") in (None, [], "", 0) or _fits(form["default"], form)), key


@pytest.mark.parametrize("path", sorted((ROOT / "runs").rglob("*.toml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_run_files_fit_the_schema(path):
    document = tomllib.loads(path.read_text())
    assert _fits(document, onepass_schema() if "model" in document else run_file_schema())


@pytest.mark.parametrize(("section", "key", "value"), [
    ("model", "widht", 3), ("model", "kind", "Quadratic"), ("model", "order", 3), ("model", "gamma", 0.0),
    ("initial", "start", "warm"), ("initial", "r2", 1.0), ("time", "t_min", 1.0), ("simulation", "process", "ode")])
def test_mistakes_in_one_pass_files_do_not_fit(section, key, value):
    document = tomllib.loads((ROOT / "runs/arnaboldi/figure1.toml").read_text())
    assert _fits(document, onepass_schema())
    document[section][key] = value
    assert not _fits(document, onepass_schema())


def test_schemas_are_json_and_give_no_default_of_mandatory_keys():
    for schema in (run_file_schema(), onepass_schema()):
        json.dumps(schema, allow_nan=False)
    assert "default" not in run_file_schema()["properties"]["problem"]["properties"]["alpha"]


@pytest.mark.parametrize(("section", "key", "value"), [
    ("problem", "alpha", 0.0), ("problem", "alfa", 1.0), ("algorithm", "batch_fraction", 1.5), ("theory", "method", "marsh"),
    ("theory", "samples", 0.5), ("simulation", "record", "often"), ("algorithm", "nesterov", 1), ("theory", "snapshots", [-1.0])])
def test_mistakes_do_not_fit(section, key, value):
    document = tomllib.loads((ROOT / "runs/demo.toml").read_text())
    document[section][key] = value
    assert not _fits(document, run_file_schema())
