"""Imports as a successor meets them: at the head of a file, by name, without circles; and class names that mean one thing.

test_architecture.py says who may know whom; here is how they may say so.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.project.test_architecture import IMPORTS, MODULES, PACKAGES, ROOT, _within

# Commands load what they need when they are called, so that `dmft --help` does not wait for all of it; and matplotlib, plotly are
# extras. Curves of checkpoints are unpacked by compiled code, for which no other file should wait.
MAY_LOAD_LATE = ("dmft.cli", "workbench.cli", "workbench.api", "workbench.kinds", "reproduction.paper.command",
                 "reproduction.companions.command", "dmft.core.courses")
# `import dmft` is light: what it offers is imported when it is first asked for.
GATES = ("dmft",)
# Commands, kinds of files and pictures are found by the names of their modules; test_architecture.py sees that these are there.
FINDS_BY_NAME = {"dmft", "dmft.api", "dmft.cli", "dmft.core.subcommands", "dmft.result.pictures", "workbench.inspection.kinds",
                 "reproduction.companions.command"}
# Class names in two files, with the reason why both are right.
TWICE_ON_PURPOSE = {"Experiment": "users write dmft.Experiment(...), a function that makes the Run of a run file; the class, which "
                                  "no user sees, is what theory and simulator make of a Run, and a hundred files call it so"}
# Constants that several modules have, each its own, because they are found by this name or play one part in each program.
ROLES = {"KIND", "COMMANDS", "_EPILOG"}
# Constants of CUDA sources that Python has by the same name: samples of a warp, which for networks their tiling decides.
OF_A_TILING = {"ACROSS"}


def _trees() -> dict[str, ast.Module]:
    return {module: ast.parse(file.read_text()) for module, file in MODULES.items()}


TREES = _trees()


def _late_imports(tree: ast.Module) -> list[str]:
    """Project modules that are imported inside a function."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or "."] if not node.level else ["dmft"]
                found += [name for name in names if _within(name, PACKAGES)]
    return found


def _finds_by_string(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import) and any(alias.name.split(".")[0] in ("import_module", "importlib")
                                                                  for alias in node.names if not _resources(node)):
            return True
        if isinstance(node, ast.Name) and node.id == "__import__":
            return True
    return False


def _resources(node: ast.Import | ast.ImportFrom) -> bool:
    """importlib.resources and importlib.metadata find files and versions, not modules."""
    return isinstance(node, ast.ImportFrom) and node.module in ("importlib.resources", "importlib.metadata")


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected groups of more than one module (Tarjan), each sorted."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def _graph() -> dict[str, set[str]]:
    """Who imports whom, module by module, inside functions and under TYPE_CHECKING too; a package is left out where one of
    its modules is meant."""
    graph = {}
    for module, names in IMPORTS.items():
        known = {name for name in names if name in MODULES} - {module}
        graph[module] = {name for name in known if not any(other.startswith(name + ".") for other in known)
                         and not module.startswith(name + ".")}
    return graph


def _classes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and len(node.name) > 1 and node.name[0].isupper():  # called like a class
                found[node.name].append(module)
    return {name: places for name, places in found.items() if len(places) > 1}


def _of_something(tree: ast.Module) -> list[str]:
    """Public functions at the top of a module whose names end in `_of`."""
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and re.fullmatch(r"[^_].*_of", node.name)]


def _constants(tree: ast.Module) -> set[str]:
    """Names in capitals that a module assigns at its top."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)
               for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name) and node.id.isupper()}


def _defined(source: str) -> dict[str, set[str]]:
    """Constants of a CUDA source, by #define or as the names of an enum, and what they stand for. Alternatives of one file (#if)
    are one constant."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, text in re.findall(r"^ *#define (\w+) +(.+?)(?: *//.*)?$", source, re.MULTILINE):
        found[name].add(" ".join(text.split()))
    for names in re.findall(r"\benum \{([^{}]*)\}", source):
        for place, name in enumerate(names.split(",")):
            found[name.split("=")[0].strip()].add(str(place))
    return found


def _injected(tree: ast.Module) -> dict[str, str]:
    """Constants that a module puts before a CUDA source, and what they are called in Python: dictionaries of names in capitals,
    where `defines` and `enum` are known."""
    known = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    if not known & {"defines", "enum"}:
        return {}
    found = {}
    for node in ast.walk(tree):
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []
        if names and all(isinstance(name, str) and name.isupper() for name in names) and any(len(name) > 1 for name in names):
            found |= {key.value: _called(value) for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant)}
    return found


def _called(value: ast.expr) -> str:
    """The last name of an expression that tells what it is: `units` of network.units, `identity` of int(self.identity)."""
    match value:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Call(args=[first, *_]):
            return _called(first)
        case ast.JoinedStr(values=parts):
            return " ".join(_called(part.value) for part in parts if isinstance(part, ast.FormattedValue))
    return ast.unparse(value)


def test_imports_stand_at_the_head_of_a_file():
    late = {module for module, tree in TREES.items() if not _within(module, MAY_LOAD_LATE)
            and module not in GATES and _late_imports(tree)}
    assert late == set()


def test_modules_are_found_by_a_string_in_few_places():
    assert {module for module, tree in TREES.items() if _finds_by_string(tree)} == FINDS_BY_NAME


def test_imports_run_in_no_circle():
    assert {" ".join(circle) for circle in circles(_graph())} == set()


def test_a_class_name_means_one_thing():
    twice = _classes()
    assert set(twice) - set(TWICE_ON_PURPOSE) == set(), twice
    assert set(TWICE_ON_PURPOSE) <= set(twice), "a name that is no longer used twice"


def test_a_function_that_says_of_what_it_is_means_one_thing():
    """Names such as `schedule_of` tell so little that a second one would be taken for the first."""
    found = defaultdict(list)
    for module, tree in TREES.items():
        for name in _of_something(tree):
            found[name].append(module)
    assert len(found) > 20 and {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def test_a_constant_means_one_thing():
    found = defaultdict(list)
    for module, tree in TREES.items():
        for name in _constants(tree):
            found[name].append(module)
    twice = {name: modules for name, modules in found.items() if len(modules) > 1}
    assert {name: twice[name] for name in set(twice) - ROLES} == {}
    assert set(twice) >= ROLES, "a name that is no longer used twice"


def test_a_constant_of_cuda_sources_means_one_thing():
    """In one source and another, and beside the constants of Python: what is injected has the name that it has there."""
    defined, injected = defaultdict(dict), defaultdict(set)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.cu*")):
            for name, texts in _defined(file.read_text()).items():
                defined[name][file.name] = texts
    for tree in TREES.values():
        for name, called in _injected(tree).items():
            injected[name].add(called)
    in_python = {name for tree in TREES.values() for name in _constants(tree)} - ROLES - OF_A_TILING
    assert {name: files for name, files in defined.items() if len({tuple(sorted(texts)) for texts in files.values()}) > 1} == {}
    assert {name: called for name, called in injected.items() if len({each.lower() for each in called}) > 1} == {}
    assert set(defined) & (set(injected) | in_python) == set()
    assert {name: called for name, called in injected.items() if name in in_python and called != {name}} == {}
    assert {"THREADS", "ALL_LANES", "FIELDS"} <= set(defined) and {"LANES", "UNITS", "ROWS_HELD", "SIZE", "DRAW"} <= set(injected)


def test_the_checks_see_what_they_look_for():
    assert _constants(ast.parse("A, _B = 1, 2\nC: int = 3\nd = E[0]\ndef f():\n    G = 1\nfrom x import H\n")) == {"A", "_B", "C"}
    assert _defined("#define A 1 // one\n  #define B(x) x\n#define C (A + 1)\nenum { D, E };") == {
        "A": {"1"}, "C": {"(A + 1)"}, "D": {"0"}, "E": {"1"}}
    assert _of_something(ast.parse("def a_of(): pass\ndef _b_of(): pass\nclass D:\n    def e_of(self): pass")) == ["a_of"]
    told = ast.parse("from x import enum\nenum({'N': self.n, 'KIND_OF': int(a.kind), 'NO': f'({NO}ll)', **{}})\n"
                     "{'T': T, 'row': 1}\n{'X': 2}")
    assert _injected(told) == {"N": "n", "KIND_OF": "kind", "NO": "NO"}
    bad = ast.parse("import dmft\ndef f():\n    from dmft.core import store\n    import sgd_sim.cli\n    import numpy\n")
    assert _late_imports(bad) == ["dmft.core", "sgd_sim.cli"]
    assert _finds_by_string(ast.parse("from importlib import import_module")) and _finds_by_string(ast.parse("__import__(\'x\')"))
    assert _finds_by_string(ast.parse("import importlib"))
    assert not _finds_by_string(ast.parse("from importlib.resources import files"))
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
