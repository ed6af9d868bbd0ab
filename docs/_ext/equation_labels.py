"""Labels of equations as links: [dmft-h] in a docstring or on a page leads to its line in equations.md, and a table at the end of
that page leads back. In the sources of the page it leads to lines of code, for an editor or a code host, and is written by
`make labels`; on the site it leads to the descriptions of functions."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
PAGE = "equations"
DEFINED = re.compile(r"\*\*\[([A-Za-z-]+)\]\*\*")
BEGIN, END = "<!-- make labels -->\n", "<!-- end of labels -->\n"
REFERENCE = "dmft/equations/reference.py"


def labels() -> list[str]:
    """All labels, in the order of the page."""
    return DEFINED.findall((ROOT / "docs" / f"{PAGE}.md").read_text())


def citing() -> dict[str, list[str]]:
    """{label: full names of the functions, classes and modules whose docstrings cite it}."""
    found: dict[str, list[str]] = defaultdict(list)
    known = set(labels())
    for package in ("dmft", "sgd_sim"):
        for file in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for name, node in _documented(ast.parse(file.read_text()), module):
                for label in sorted(set(re.findall(r"\[([A-Za-z-]+)\]", ast.get_docstring(node) or "")) & known):
                    found[label].append(name)
    return found


def places() -> dict[str, list[tuple[str, int, str]]]:
    """{label: [(file, line, name)]}: lines of code with a comment at their end that begins with the label, in the function `name`;
    functions and classes whose docstring says "Eq. [label]", where no line within them does; and lines of CUDA sources, without a
    name."""
    found: dict[str, list[tuple[str, int, str]]] = {label: [] for label in labels()}
    for package in ("dmft", "sgd_sim"):
        for file in sorted((ROOT / package).rglob("*.py")):
            text, path = file.read_text(), str(file.relative_to(ROOT))
            _, *nodes_of = _documented(ast.parse(text), "")
            for number, label in labelled(text, "  # ["):
                inside = [name for name, node in nodes_of if node.lineno <= number <= node.end_lineno]
                found[label].append((path, number, inside[-1].lstrip(".") if inside else ""))
            for name, node in nodes_of:
                for said in re.findall(r"\bEqs?\. ([^.]*)\.", ast.get_docstring(node) or ""):
                    for label in set(re.findall(r"\[([A-Za-z-]+)\]", said)) & set(found):
                        if not any(place[0] == path and place[2] == name[1:] for place in found[label]):
                            found[label].append((path, node.lineno, name.lstrip(".")))
        for file in sorted((ROOT / package).rglob("*.cu*")):
            for number, label in labelled(file.read_text(), "// ["):
                found[label].append((str(file.relative_to(ROOT)), number, ""))
    return {label: sorted(set(where)) for label, where in found.items()}


def labelled(text: str, mark: str) -> list[tuple[int, str]]:
    """Lines of code of a source, counted from 1, with the labels in the comment that begins with `mark` at their end."""
    known, found = set(labels()), []
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.partition(mark)
        found += [(number, label) for label in re.findall(r"\[([A-Za-z-]+)\]", f"[{comment}") if code.strip() and label in known]
    return found


def table() -> str:
    """The table of the page: where the solver and the simulator, and where reference.py, compute what a label names."""
    def links(where: list[tuple[str, int, str]]) -> str:
        functions: dict[tuple[str, str], list[int]] = defaultdict(list)
        for path, line, name in where:
            functions[path, name].append(line)
        return ", ".join(f"{name or Path(path).name} " + " ".join(f"[{path}:{line}](../{path}#L{line})" if k == 0 else
                                                                  f"[{line}](../{path}#L{line})" for k, line in enumerate(lines))
                         for (path, name), lines in functions.items())

    rows = []
    for label, where in places().items():
        exact = [place for place in where if place[0] == REFERENCE]
        rows.append(f"| [{label}] | {links([place for place in where if place not in exact])} | {links(exact)} |")
    return "\n".join(["| label | solver and simulator | reference |", "|---|---|---|", *rows]) + "\n"


def written(text: str, new: str) -> str:
    """A page with another table between its marks."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}{new}{END}{rest.partition(END)[2]}"


def _documented(tree: ast.Module, module: str) -> list[tuple[str, Any]]:
    """Modules, classes and functions at the top, and methods."""
    found: list[tuple[str, Any]] = [(module, tree)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.append((f"{module}.{node.name}", node))
        if isinstance(node, ast.ClassDef):
            found += [(f"{module}.{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef)]
    return found


def _pattern() -> re.Pattern[str]:
    return re.compile(r"(?<![\w\]`*\[])\[(" + "|".join(map(re.escape, labels())) + r")\](?![(\[])")


def linked(text: str) -> str:
    """Markdown with its labels as links, but for those in code."""
    parts = re.split(r"(```.*?```|`[^`\n]*`|^    [^\n]*$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if index % 2 else _pattern().sub(lambda found: f"[[{found[1]}]](#eq-{found[1].lower()})", part)
                   for index, part in enumerate(parts))


def _page(app: Any, docname: str, source: list[str]) -> None:
    """Markdown: labels outside code become links; the page of equations ends in the way back."""
    if docname == PAGE:
        source[0] = written(source[0], "")
    source[0] = linked(source[0])
    if docname == "inside":
        source[0] += _inside()
    if docname == PAGE:
        source[0] = written(source[0], _way_back())


def _way_back() -> str:
    """The table of labels and of what cites them."""
    rows = [f"| [[{label}]](#eq-{label.lower()}) | " + ", ".join(f"{{py:obj}}`{name}`" for name in names) + " |"
            for label, names in sorted(citing().items())]
    text = "\nThe code whose docstring names a label; [Inside](inside.md) shows it.\n\n"
    return text + "\n".join(["| label | cited by |", "|---|---|", *rows]) + "\n"


def _inside() -> str:
    """autodoc of everything that cites a label: functions, and classes with the methods that do."""
    names = sorted({name for found in citing().values() for name in found})
    properties, blocks = _properties(), []
    for name in names:
        module, _, last = name.rpartition(".")
        path = ROOT / Path(*name.split("."))
        if path.with_suffix(".py").exists() or path.is_dir():
            blocks.append(f".. rubric:: {name}\n\n.. py:module:: {name}\n   :no-index-entry:\n\n"
                          f".. automodule:: {name}\n   :no-index:\n   :no-members:\n")
        elif last[0].isupper():
            blocks.append(f".. autoclass:: {name}\n   :no-members:\n{_elsewhere(name)}")
        elif module.rpartition(".")[2][0].isupper():
            kind = "autoproperty" if name in properties else "automethod"
            blocks.append(f".. {kind}:: {name}\n{_elsewhere(name)}")
        else:
            blocks.append(f".. autofunction:: {name}\n")
    return "\n```{eval-rst}\n" + "\n".join(blocks) + "```\n"


def _elsewhere(name: str) -> str:
    """An option for what the page of the Python interface describes already."""
    return "   :no-index:\n" if name.startswith(("dmft.result.theory.", "sgd_sim.result.")) else ""


def _properties() -> set[str]:
    """Full names of all methods that are read like fields."""
    found = set()
    for package in ("dmft", "sgd_sim"):
        for file in (ROOT / package).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for name, node in _documented(ast.parse(file.read_text()), module):
                decorators = [getattr(each, "id", "") for each in getattr(node, "decorator_list", [])]
                if {"property", "cached_property"} & set(decorators):
                    found.add(name)
    return found


def _docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    pattern = _pattern()
    lines[:] = [line if line.startswith("    ") else pattern.sub(lambda found: f":ref:`[{found[1]}] <eq-{found[1].lower()}>`", line)
                for line in lines]


def _targets(app: Any, doctree: nodes.document) -> None:
    """Every bold label of the page of equations is a target."""
    if app.env.docname != PAGE:
        return
    domain = app.env.get_domain("std")
    for strong in doctree.findall(nodes.strong):
        found = re.fullmatch(r"\[([A-Za-z-]+)\]", strong.astext())
        if found:
            name = f"eq-{found[1].lower()}"
            strong["ids"].append(name)
            strong["classes"].append("equation-label")
            domain.anonlabels[name] = (PAGE, name)
            domain.labels[name] = (PAGE, name, f"[{found[1]}]")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _page)
    app.connect("autodoc-process-docstring", _docstring, priority=600)      # after the text was made plain
    app.connect("doctree-read", _targets)
    return {"parallel_read_safe": False}


if __name__ == "__main__":
    page = ROOT / "docs" / f"{PAGE}.md"
    page.write_text(written(page.read_text(), table()))
