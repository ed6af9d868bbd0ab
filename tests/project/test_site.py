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
from dmft.core.references import entries
from dmft.model.runfile import parse_run
from onepass.cli import COMMANDS as ONEPASS
from tests.run_files import run_text
from workbench.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
SCRIPTS = sorted(path for path in (DOCS / "gallery").glob("*.py") if path.name != "make.py")
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SHOWN = r"^(?:\$ )?(?:mpirun -n \d+ |srun )?(dmft|sgd-sim|onepass) (\w+)"       # a command in a block
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("notes/*.md"), *DOCS.glob("gallery/*.md"), *DOCS.glob("notebooks/*.md")])


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
    text = "see [dmft-MR], not `[dmft-h]` or [dmft-MR](x) or [unknown]\n\n    [dmft-h] in a formula\n\nafter [dmft-m]\n"
    assert module.linked(text) == text.replace("see [dmft-MR]", "see [[dmft-MR]](#eq-dmft-mr)").replace(
        "after [dmft-m]", "after [[dmft-m]](#eq-dmft-m)")


def _prose(text: str) -> str:
    """A page without its blocks and names of code."""
    return re.sub(r"```.*?```|`[^`\n]*`|^    [^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)


def _unknown_labels(text: str) -> set[str]:
    """What looks like the label of an equation, is no link, and is not on the page of equations."""
    known = importlib.import_module("equation_labels").labels()
    return set(re.findall(r"(?<![\w!\]*])\[([a-z]+-[A-Za-z]+|ibp|stein|dyadic|lost|columns)\](?![(\[])", _prose(text))) - set(known)


def _anchors(page: Path) -> set[str]:
    """Names by which headings of a page can be linked."""
    headings = re.findall(r"^#{1,3} (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _broken_anchors(page: Path, text: str) -> list[str]:
    links = re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", text)
    pages = [(page.parent / file if file else page, anchor) for file, anchor in links if not file.endswith((".py", ".cu", ".cuh"))]
    return [anchor for other, anchor in pages if anchor not in _anchors(other)]


def _ragged(text: str) -> list[str]:
    """Rows of tables with more or fewer cells than the line under their heading."""
    rows = [line.strip() for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines()]
    cells = [len(re.findall(r"(?<!\\)\|", row)) if row.startswith("|") else 0 for row in rows]
    found, width = [], 0
    for k, row in enumerate(rows):
        width = 0 if not cells[k] else width or (cells[k + 1] if re.match(r"\|[-|: ]+\|$", rows[k + 1]) else 0)
        if width and cells[k] != width:
            found.append(row)
    return found


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda path: path.stem)
def test_labels_anchors_and_tables_of_the_pages_are_whole(page):
    text = page.read_text()
    assert (_unknown_labels(text), _broken_anchors(page, text), _ragged(text)) == (set(), [], [])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_formulas_are_whole(page):
    """Every $$ has its partner, braces and brackets are closed, and columns are those of align*, which latex2mathml knows."""
    pieces = page.read_text().split("\n$$\n")
    assert len(pieces) % 2 == 1
    for formula in pieces[1::2]:
        left, right = (len(re.findall(rf"\\\\{word}(?![a-z])", formula)) for word in ("left", "right"))
        outside = re.sub(r"\\begin\{align\*\}.*?\\end\{align\*\}", "", formula, flags=re.DOTALL)
        assert formula.count("{") == formula.count("}") and left == right, formula
        assert "aligned" not in formula and "&" not in outside, formula


def test_what_is_broken_is_noticed():
    page = DOCS / "faq.md"
    assert _unknown_labels("by [dmft-MX] and [ibp], not [dmft-h], `[dmft-x]`, [a-link](b) or [a word]") == {"dmft-MX"}
    links = "[a](#which-learning-rate) [b](#which-rate) [c](equations.md#observables) [d](gpu.md#none)"
    assert _broken_anchors(page, links) == ["which-rate", "none"]
    tables = "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 |\n\n|z| is\nsmall\n| a \\| b |\n|---|\n| 1 | 2 |\n"
    assert _ragged(tables) == ["| 1 |", "| 1 | 2 |"]


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


def test_the_gallery_is_numbered_without_gaps():
    assert SCRIPTS and [path.name[:3] for path in SCRIPTS] == [f"{k:02d}_" for k in range(1, len(SCRIPTS) + 1)]


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


@pytest.mark.long
def test_code_of_the_guides_runs(results, monkeypatch, tmp_path):
    """With the curves of a simulation in the place of one's own."""
    monkeypatch.chdir(tmp_path)
    sim = results.sim
    mean, error = sim.m.mean(axis=0), sim.m.std(axis=0, ddof=1) / len(sim.m) ** 0.5
    names: dict = {"dmft": dmft, "theory": results.result, "t": sim.t, "m": sim.m, "loss": sim.loss, "mean": mean, "error": error,
                   "frame": {"t": sim.t, "m": mean, "m_error": error}}
    for page in ("howto-compare.md", "howto-own.md"):
        for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            exec(compile(block, page, "exec"), names)
    assert (tmp_path / "mine.png").exists() and "pseudo_huber" in str(parse_run(run_text(problem={"loss": "pseudo_huber"})))


@pytest.mark.long
def test_code_of_readme_and_reference_runs(results, monkeypatch, tmp_path):
    """Word for word, with a small run in the place of the one that is read."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    small = parse_run(run_text(t_max=0.04, theory={"replicas": 2}, simulation={"dimension": 20, "instances": 4}))
    monkeypatch.setattr(dmft, "load_run", lambda path: small)
    monkeypatch.setattr(sgd_sim, "load", lambda path, load=sgd_sim.load: load(results.simulation))
    for page in ("README.md", "docs/howto-convergence.md", "docs/simulator.md"):
        (block,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        exec(compile(block, page, "exec"), {"sgd_sim": sgd_sim})
    assert {"picture.png", "theory.h5"} <= {path.name for path in tmp_path.iterdir()}


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


def test_the_bibliography_of_the_paper_is_that_of_the_package():
    text = (ROOT / "paper" / "paper.bib").read_text()
    assert all(entry in text for entry in entries().values())
    cited = set(re.findall(r"@([a-z]+\d{4}[a-z]+)", (ROOT / "paper" / "paper.md").read_text()))
    assert cited and cited <= set(entries())
