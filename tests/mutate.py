"""Break the code on purpose, one line at a time, and see whether the tests notice. Not part of `make test`.

    python tests/mutate.py                     every mutation, a table at the end
    python tests/mutate.py --only noise        those whose name contains the word
    python tests/mutate.py --list              what there is
    python tests/mutate.py --seconds 1200      stop after that time; --first 30 goes on

A mutation replaces a fragment of source text, found by itself wherever it now stands below a folder; one whose fragment is
gone, or is no longer unique, is skipped with a notice and wants a new fragment in tests/mutations.py. Each is applied in a
temporary copy of the tree, in which the named tests run until the first fails. Exit code 1 when a mutation survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutations import EQUIVALENT, MUTATIONS, Mutation  # noqa: E402

PACKAGES = ("dmft", "sgd_sim", "onepass")
NEEDED = (*PACKAGES, "tests", "runs", "docs", "benchmarks", "slurm", "setup.cfg", "pyproject.toml", "ruff.toml")
SOURCES, CUDA = (".py", ".sh"), (".cu", ".cuh")
PATIENCE = 900.0        # seconds for the tests of one mutation; a hang counts as noticed


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


@contextmanager
def mutated(file: Path, mutation: Mutation) -> Iterator[None]:
    before, stamp = file.read_text(), file.stat().st_mtime_ns
    file.write_text(before.replace(mutation.old, mutation.new))
    try:
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(stamp, stamp))       # code compiled from it is still good


def _compiled(file: Path, mutation: Mutation) -> bool:
    """Whether the mutated line is, or may be, part of what Numba compiles: not in a plain function or method."""
    if file.suffix != ".py":
        return False
    text = file.read_text()
    line = text[:text.index(mutation.old)].count("\n") + 1
    inside = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
              and node.lineno <= line <= (node.end_lineno or 0)]
    return not inside or any("njit" in ast.unparse(mark) or "cfunc" in ast.unparse(mark)
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


class Bench:
    """A copy of the tree, with a cache of compiled code that mutations do not touch."""

    def __init__(self, folder: Path):
        self.tree, self.cache = folder / "tree", folder / "cache"
        self.tree.mkdir()
        for name in NEEDED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.tree / name, ignore=shutil.ignore_patterns("__pycache__", "out"))
            elif source.exists():
                shutil.copy2(source, self.tree / name)
        self.cache.mkdir()

    def passes(self, tests: tuple[str, ...], cache: Path) -> bool:
        """Whether the tests pass; a file of tests that has moved is an error, not a pass."""
        missing = [test for test in tests if not (self.tree / test.partition("::")[0]).exists()]
        if missing:
            raise FileNotFoundError(f"no tests at {', '.join(missing)}")
        environment = {**os.environ, "PYTHONPATH": str(self.tree), "NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": "1",
                       "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
        try:
            done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (0, 1, 2):    # 2: a mutation that breaks an import
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return done.returncode == 0

    def survives(self, mutation: Mutation, file: Path) -> bool:
        """Whether all tests still pass. Compiled code that may contain the mutated line is made anew, in a cache of its own."""
        own = self.cache.with_name("own")
        shutil.copytree(self.cache, own, copy_function=os.link)
        stale = importers(self.tree, file) if _compiled(file, mutation) else set()
        for entry in own.rglob("*.nb[ic]"):
            if entry.name.split(".")[0] in stale or entry.name.split("-")[0].split(".")[0] in stale:
                entry.unlink()
        try:
            with mutated(file, mutation):
                return self.passes(mutation.tests, own)
        finally:
            shutil.rmtree(own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the mutations wanted")
    parser.add_argument("--first", type=int, default=0, help="number of the mutation to begin with, from 0")
    parser.add_argument("--list", action="store_true", help="show the mutations, run nothing")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutation after this time")
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation.name][options.first:]
    if options.list:
        for mutation in chosen:
            where = place_of(mutation, ROOT)
            shown = where.relative_to(ROOT) if isinstance(where, Path) else f"{mutation.folder}: {where.upper()}"
            print(f"{mutation.name}\n    {shown}\n    {mutation.old}\n    {mutation.new}")
        return 0
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutate") as folder:
        bench = Bench(Path(folder))
        sound: dict[tuple[str, ...], bool] = {}
        for mutation in chosen:
            if time.monotonic() - began > options.seconds:
                rows.append((mutation.name, "not run", ""))
                continue
            start = time.monotonic()
            where = place_of(mutation, bench.tree)
            if isinstance(where, str):
                verdict = f"skipped: {where}"
            else:
                try:
                    if mutation.tests not in sound:         # fills the cache; tests that fail anyway notice nothing
                        sound[mutation.tests] = bench.passes(mutation.tests, bench.cache)
                    if not sound[mutation.tests]:
                        verdict = "skipped: the tests fail without it"
                    else:
                        verdict = "survived" if bench.survives(mutation, where) else "killed"
                except (FileNotFoundError, RuntimeError) as error:
                    verdict = f"skipped: {error}"
            if verdict == "survived" and mutation.name in EQUIVALENT:
                verdict = "equivalent"
            rows.append((mutation.name, verdict, f"{time.monotonic() - start:.0f} s"))
            print(f"{verdict:<10} {mutation.name}  ({rows[-1][2]})", flush=True)
    print("\n| mutation | verdict | time |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    survived = [name for name, verdict, _ in rows if verdict == "survived"]
    count = sum(verdict == "killed" for _, verdict, _ in rows)
    print(f"\n{count} killed, {len(survived)} survived, {len(rows) - count - len(survived)} other")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
