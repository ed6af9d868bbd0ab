"""What breaks the site, found within seconds; `make docs` builds all of it."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

import dmft
import onepass
import sgd_sim
from dmft.cli.commands import COMMANDS
from dmft.core.references import entries
from dmft.model.runfile import parse_run
from onepass.cli import COMMANDS as ONEPASS
from tests.run_files import run_text

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
SCRIPTS = sorted(path for path in (DOCS / "gallery").glob("*.py") if path.name != "make.py")
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SHOWN = r"^(?:\$ )?(?:mpirun -n \d+ |srun )?(dmft|sgd-sim|onepass) (\w+)"       # a command in a block
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("gallery/*.md"), *DOCS.glob("notebooks/*.md")])


def _entries(page: Path) -> set[Path]:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL)
    return {page.parent / line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")}


def test_every_page_is_in_a_table_of_contents_and_every_entry_exists():
    listed = _entries(DOCS / "index.md") | _entries(DOCS / "notebooks" / "index.md")
    there = {path.with_suffix("") for path in (*PAGES, *NOTEBOOKS)} - {DOCS / "index"}
    assert listed == there


@pytest.mark.parametrize("package", [dmft, sgd_sim, onepass], ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package):
    text = (DOCS / "api.md").read_text()
    modules = {name for name in package.__all__ if inspect.ismodule(getattr(package, name))}
    for name in set(package.__all__) - {"__version__"}:
        shown = getattr(package, name).__name__ if name in modules else f"{package.__name__}.{name}"
        assert re.search(rf":: {re.escape(shown)}\n", text), name


def test_docstrings_of_the_reference_are_sound_text():
    core = pytest.importorskip("docutils.core")
    plain = importlib.import_module("plain_docstrings").plain
    documented = re.findall(r"auto(?:function|class|module):: (\S+)", (DOCS / "api.md").read_text())
    for name in documented:
        thing, parts = dmft, name.split(".")
        thing = importlib.import_module(parts[0])
        for index, part in enumerate(parts[1:], 2):
            thing = getattr(thing, part, None) or importlib.import_module(".".join(parts[:index]))
        text = "\n".join(plain(inspect.getdoc(thing).splitlines()))
        core.publish_doctree(text, settings_overrides={"report_level": 2, "halt_level": 2, "input_encoding": "unicode"})
    assert plain(["a *b* `c_` d_", "    code"]) == [r"a \*b\* ``c_`` d\_", "", "::", "", "        code"]


def test_labels_of_equations_lead_both_ways():
    module = importlib.import_module("equation_labels")
    known, cited = module.labels(), module.citing()
    assert len(known) >= 15 and set(known) == set(cited)
    assert "dmft.equations.rows" in " ".join(name for names in cited.values() for name in names)
    found = module._pattern().sub("LINK", "see [dmft-MR], not `[x]` or [dmft-MR](x) or [unknown]")
    assert found == "see LINK, not `[x]` or [dmft-MR](x) or [unknown]"


def _run_texts(code: str) -> list[str]:
    """Strings of a script that are run files."""
    return [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and "[problem]" in node.value]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_of_the_gallery_are_whole(script):
    code = script.read_text()
    tree = ast.parse(code)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    assert title and text.strip() and len(code.splitlines()) < 80
    assert any(isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "figure" for node in tree.body)
    for run in _run_texts(code):
        parse_run(run, any_loss=True)


def test_there_are_pictures_enough():
    assert len(SCRIPTS) >= 12 and len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_whole_and_without_stored_output(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    for cell in cells:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            assert cell["outputs"] == [] and compile(code, notebook.name, "exec")
            for run in _run_texts(code):
                parse_run(run, any_loss=True)


def test_commands_that_pages_show_exist():
    known = {"dmft": set(COMMANDS), "onepass": set(ONEPASS), "sgd-sim": {"run", "check"}}
    for page in (ROOT / "README.md", *PAGES):
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
            for program, command in re.findall(SHOWN, block, re.MULTILINE):
                assert command in known[program], (page.name, program, command)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_of_the_pages_is_python(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        compile(block, page.name, "exec")


def test_code_of_the_guides_runs(results):
    names: dict = {}
    for page in ("howto-compare.md", "howto-own.md"):
        for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            exec(compile(block, page, "exec"), names)
    theory = results.result
    late = slice(1, None)     # m(0) is known exactly
    z = names["z_scores"](theory, theory.t[late], (theory.m + theory.m_error)[late], 0.0 * theory.t[late])
    assert z == pytest.approx(-1.0) and "pseudo_huber" in str(parse_run(run_text(problem={"loss": "pseudo_huber"})))


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_bibliography_of_the_paper_is_that_of_the_package():
    text = (DOCS / "paper" / "paper.bib").read_text()
    assert all(entry in text for entry in entries().values())
    cited = set(re.findall(r"@([a-z]+\d{4}[a-z]+)", (DOCS / "paper" / "paper.md").read_text()))
    assert cited and cited <= set(entries())
