"""The documents say what the code does."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dmft.cli import main
from dmft.model.runfile import FOR_STUDIES, SECTIONS, load_run, parse_run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
LABEL = re.compile(r"\[((?:dmft|sgd|sim|fdt|hess|persistent|random|start|closed|c)-[A-Za-z]+|mse|loss|ridge|stein|ibp|"
                   r"dyadic|lost|schedule|phases|momentum|epochs|draws|columns)\]")


def _toml_of(document: str) -> dict:
    text = re.search(r"```toml\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert text
    return tomllib.loads(text[1])


def test_the_tables_of_run_files_are_those_of_the_sections():
    """`make labels` writes them."""
    page = (ROOT / "docs/run-files.md").read_text()
    own = "import sys; from run_file_tables import written; print(written(sys.stdin.read()), end='')"
    alone = {"cwd": ROOT / "docs/_ext", "check": True, "capture_output": True, "text": True}     # others register physics of theirs
    assert page == subprocess.run([sys.executable, "-c", own], input=page, **alone).stdout
    assert all(f"| `{field.name}` |" in page for name, cls in SECTIONS.items() for field in dataclasses.fields(cls)
               if field.name != "phase" and not (name == "theory" and field.name in FOR_STUDIES))


def test_the_run_file_of_the_page_is_valid():
    parse_run(re.search(r"```toml\n(.*?)```", (ROOT / "docs/run-files.md").read_text(), re.DOTALL)[1])


def test_the_run_file_of_the_readme_is_that_of_the_demo():
    demo = tomllib.loads((ROOT / "runs/demo.toml").read_text())
    shown = _toml_of("README.md")
    assert shown == {name: demo[name] for name in shown}


@pytest.mark.parametrize("path", sorted((ROOT / "runs").rglob("*.toml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_run_file_that_is_shipped_is_valid(path):
    text = path.read_text()
    if "[model]" not in text:           # onepass has its own run files
        load_run(path)


def _links(document: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()) if not link.startswith("http")]


@pytest.mark.parametrize("document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
                                      *sorted((ROOT / "docs/notes").glob("*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    assert [link for link in _links(document) if not (document.parent / link).exists()] == []


def _docstring_labels() -> set[str]:
    found: set[str] = set()
    for package in ("dmft", "sgd_sim"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    found |= set(LABEL.findall(ast.get_docstring(node) or ""))
    return found


def test_equations_and_docstrings_cite_each_other():
    documented = set(re.findall(r"\*\*\[([A-Za-z-]+)\]\*\*", (ROOT / "docs/equations.md").read_text()))
    assert len(documented) >= 15 and all(LABEL.fullmatch(f"[{label}]") for label in documented)
    cited = _docstring_labels()
    assert documented - cited == set(), "equations that no docstring cites"
    assert cited - documented == set(), "labels that docs/equations.md does not explain"


def test_the_packages_are_drawn_as_they_are_and_no_arrow_leads_back_up():
    module, page = importlib.import_module("structure"), (ROOT / "docs/inside.md").read_text()
    found = module.arrows(module.IMPORTS)
    assert page == module.written(page, module.drawing(found)), "make labels"
    assert [(reader, read) for reader, read in found if module.PARTS.index(reader) > module.PARTS.index(read)] == []
    assert module.arrows({"dmft.core.x": ["dmft.model", "numpy"], "sgd_sim": ["workbench.api", "sgd_sim.cpu"]}) == {
        ("dmft.core", "dmft.model"), ("sgd_sim", "workbench")}


def test_the_table_of_labels_leads_to_their_lines():
    module = importlib.import_module("equation_labels")
    text, found = (ROOT / "docs/equations.md").read_text(), module.places()
    assert text == module.written(text, module.table()), "make labels"
    marked = {path: {line for line, _ in module.labelled((ROOT / path).read_text(), "  # [" if path.endswith("py") else "// [")}
              for where in found.values() for path, _, _ in where}
    for label, where in found.items():
        assert any(line in marked[path] for path, line, _ in where), f"{label}: only docstrings name it, and no line that computes"
        for path, line, _ in where:
            here = (ROOT / path).read_text().splitlines()[line - 1 : line + 12]
            assert f"[{label}]" in "\n".join(here) and line > 1, (label, path, line)
    source = '"""Eq. [loss]."""\nv = 1  # [loss], [mse] and so on\n# [mse]\n'
    assert module.labelled(source, "  # [") == [(2, "loss"), (2, "mse")]


def test_the_page_on_clusters_tells_what_check_says_of_a_card(capsys):
    """Of a card alone: it is the same on every machine."""
    command, told = re.search(r"^\$ dmft (check runs/longtimes.*)\n(?:time on this machine.*\n)(time on one H200 GPU.*)$",
                              (ROOT / "docs" / "howto-cluster.md").read_text(), re.MULTILINE).groups()
    assert main([str(ROOT / word) if word.startswith("runs/") else word for word in command.split()]) == 0
    assert told in capsys.readouterr().out.splitlines()
