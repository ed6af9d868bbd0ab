"""What tests/mutate.py needs to know of a mutated source file: where it is, what was compiled from it, what tests say of it."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.mutations import Mutation

PACKAGES = ("dmft", "sgd_sim", "onepass", "workbench", "reproduction")
SOURCES, CUDA = (".py", ".sh"), (".cu", ".cuh")


def place_of(mutation: Mutation, tree: Path) -> Path | str:
    """The only file below the mutation's folder with its fragment, once; or why there is none."""
    kinds = CUDA if "cuda" in mutation.folder else SOURCES
    files = [file for file in sorted((tree / mutation.folder).rglob("*")) if file.suffix in kinds]
    hits = [(file, file.read_text().count(mutation.old)) for file in files if mutation.old in file.read_text()]
    if not hits:
        return "fragment is gone"
    if len(hits) > 1 or hits[0][1] > 1:
        return f"fragment is not unique ({sum(count for _, count in hits)} places)"
    return hits[0][0]


def compiled(file: Path, mutation: Mutation) -> bool:
    """Whether the mutated line is, or may be, part of what Numba compiles: not in a plain function or method."""
    if file.suffix != ".py":
        return False
    text = file.read_text()
    line = text[:text.index(mutation.old)].count("\n") + 1
    inside = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
              and node.lineno <= line <= (node.end_lineno or 0)]
    return not inside or any(word in ast.unparse(mark) for word in ("njit", "cfunc", "register_jitable")
                             for node in inside for mark in node.decorator_list)


def importers(tree: Path, file: Path) -> set[str]:
    """Names of the modules (without their packages) that import a file, directly or not, and its own. Compiled code of these
    may hold a copy of what the file says."""
    texts = {path: path.read_text() for package in PACKAGES for path in (tree / package).rglob("*.py")}
    found, queue = {file}, [file]
    while queue:
        asks = re.compile(rf"^\s*(from|import)\b.*\b{queue.pop().stem}\b", re.MULTILINE)
        new = {path for path, text in texts.items() if path not in found and asks.search(text)}
        found |= new
        queue += new
    return {path.stem for path in found}


class Outcome(NamedTuple):
    """How tests ended."""

    passed: int
    failed: bool
    hung: bool
    seconds: float
    reason: str         # the first failure, or why tests were skipped


def run_tests(tree: Path, tests: tuple[str, ...], cache: Path, limit: float) -> Outcome:
    """Run tests of a tree, with a cache of compiled code, until the first fails; a hang is a failure."""
    missing = [test for test in tests if not (tree / test.partition("::")[0]).exists()]
    if missing:
        return Outcome(0, True, False, 0.0, f"no tests at {', '.join(missing)}")
    environment = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": "1",
                   "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rsfE", "--tb=line", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        said, _ = process.communicate(timeout=max(limit, 0.1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)      # with the commands that tests have started
        process.communicate()
        return Outcome(0, True, True, time.monotonic() - begin, f"they take longer than {limit:.0f} s")
    passed, seconds = re.search(r"(\d+) passed", said), time.monotonic() - begin
    return Outcome(int(passed[1]) if passed else 0, process.returncode not in (0, 5), False, seconds, _reason(said))


def _reason(said: str) -> str:
    """The line of pytest's summary that tells most."""
    for mark in ("FAILED ", "ERROR ", "SKIPPED ", "E  "):
        for line in said.splitlines():
            if line.startswith(mark):
                return " ".join(line.split())[:160].replace("|", "/")
    return " ".join(said.split())[-160:].replace("|", "/")
