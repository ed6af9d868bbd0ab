"""Break the code on purpose, one line at a time, and see whether the tests notice. Not part of `make test`.

    python tests/mutate.py --jobs 16 --results mutants.json --table mutants.txt
    python tests/mutate.py --only noise        those whose name contains the word; may be repeated
    python tests/mutate.py --list              what there is, and where
    python tests/mutate.py --seconds 540 ...   end after that time; the same command later continues from its --results

A mutation replaces a fragment of source text, found by itself wherever it now stands below a folder; one whose fragment is
gone, or is no longer unique, is "not run" and wants a new fragment where it is listed (tests/mutations_of_*.py). Every job has a
copy of the tree and a cache of compiled code of its own. A mutation is killed only by tests that pass there without it; where they
cannot (nothing to compile CUDA sources with, a package missing) it is "not run", with the reason. Nothing need be installed but
what the tests import. Exit code 1 when a mutation survives.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutants import Outcome, compiled, importers, place_of, run_tests  # noqa: E402
from tests.mutations import EQUIVALENT, Mutation  # noqa: E402
from tests.mutations_of_simulators import SIMULATOR_MUTATIONS  # noqa: E402
from tests.mutations_of_theory import THEORY_MUTATIONS  # noqa: E402

MUTATIONS = [*THEORY_MUTATIONS, *SIMULATOR_MUTATIONS]

NEEDED = ("dmft", "sgd_sim", "onepass", "workbench", "reproduction", "tests", "runs", "docs", "benchmarks", "slurm", "setup.cfg",
          "pyproject.toml", "ruff.toml")
CHUNK = 4                           # mutations with the same tests that a job takes at a time
SLACK, TIMES = 120.0, 5.0           # tests may take TIMES as long as without the mutation, and SLACK seconds more
NO_TIME = "not run: no time left"
DECIDED = ("killed", "survived", "equivalent")


class Bench:
    """A copy of the tree with its own cache of compiled code, where mutations are tried one after the other."""

    def __init__(self, folder: Path, deadline: float):
        self.tree, self.cache, self.deadline = folder / "tree", folder / "cache", deadline
        self.cache.mkdir(parents=True)
        self.sound: dict[tuple[str, ...], Outcome] = {}
        for name in NEEDED:
            source = ROOT / name
            if source.is_dir():
                # A link stays one: dmft/runs leads to runs, and tests that look through a package do not look there.
                shutil.copytree(source, self.tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "out"))
            elif source.exists():
                shutil.copy2(source, self.tree / name)

    def verdict(self, mutation: Mutation) -> str:
        """What becomes of a mutation: killed, survived, equivalent, or not run, with details after a colon."""
        where = place_of(mutation, self.tree)
        if isinstance(where, str):
            return f"not run: {where}"
        if mutation.tests not in self.sound:        # also fills the cache
            self.sound[mutation.tests] = run_tests(self.tree, mutation.tests, self.cache, self.deadline - time.monotonic())
        sound = self.sound[mutation.tests]
        if sound.hung and time.monotonic() >= self.deadline:
            return NO_TIME
        if sound.failed:
            return f"not run: without it the tests do not pass: {sound.reason}"
        if not sound.passed:
            return f"not run: all its tests are skipped: {sound.reason}"
        limit, left = TIMES * sound.seconds + SLACK, self.deadline - time.monotonic()
        with self._own_cache(mutation, where) as own, _mutated(where, mutation):
            found = run_tests(self.tree, mutation.tests, own, min(limit, left))
        if found.hung and left < limit:
            return NO_TIME
        if found.failed:
            return f"killed: {found.reason}"
        return "equivalent" if mutation.name in EQUIVALENT else "survived"

    @contextmanager
    def _own_cache(self, mutation: Mutation, file: Path) -> Iterator[Path]:
        """The cache without compiled code that may contain the mutated line."""
        own = self.cache.with_name("own")
        shutil.copytree(self.cache, own, copy_function=os.link)
        stale = importers(self.tree, file) if compiled(file, mutation) else set()
        for entry in own.rglob("*.nb[ic]"):
            if entry.name.split(".")[0] in stale or entry.name.split("-")[0].split(".")[0] in stale:
                entry.unlink()
        try:
            yield own
        finally:
            shutil.rmtree(own)


@contextmanager
def _mutated(file: Path, mutation: Mutation) -> Iterator[None]:
    before, stamp = file.read_text(), file.stat().st_mtime_ns
    file.write_text(before.replace(mutation.old, mutation.new))
    try:
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(stamp, stamp))       # code compiled from it is still good


class Results:
    """Verdicts by name, in a JSON file that is written after each of them; one made for other text or other tests is forgotten."""

    def __init__(self, path: Path | None, table: Path | None):
        self.path, self.table, self.lock = path, table, threading.Lock()
        self.rows: dict[str, dict[str, str | float | list[str]]] = {}
        if path and path.exists():
            self.rows = {row["name"]: row for row in json.loads(path.read_text())}

    def decided(self, mutation: Mutation) -> bool:
        row = self.rows.get(mutation.name, {})
        same = row.get("change") == [mutation.folder, mutation.old, mutation.new] and row.get("tests") == list(mutation.tests)
        return same and str(row.get("verdict", "")).startswith(DECIDED)

    def enter(self, mutation: Mutation, verdict: str, seconds: float) -> None:
        with self.lock:
            self.rows[mutation.name] = {"name": mutation.name, "verdict": verdict, "seconds": round(seconds, 1),
                                        "change": [mutation.folder, mutation.old, mutation.new], "tests": list(mutation.tests)}
            if self.path:
                part = self.path.with_name(self.path.name + ".part")
                part.write_text(json.dumps(list(self.rows.values()), indent=1))
                os.replace(part, self.path)
            if self.table:
                self.table.write_text(self.text(list(self.rows)))
            print(f"{verdict:<10.100} | {mutation.name} ({seconds:.0f} s)", flush=True)

    def count(self, names: list[str], verdict: str) -> int:
        return sum(str(self.rows[name]["verdict"]).startswith(verdict) for name in names if name in self.rows)

    def text(self, names: list[str]) -> str:
        lines = ["| mutation | verdict | seconds |", "|---|---|---|"]
        lines += [f"| {name} | {row['verdict']} | {row['seconds']:.0f} |" for name, row in self.rows.items() if name in names]
        counts = ", ".join(f"{self.count(names, verdict)} {verdict}" for verdict in (*DECIDED, "not run"))
        return "\n".join([*lines, "", f"{len(names)} mutations: {counts}"]) + "\n"


class Chunks:
    """Mutations in chunks of the same tests, for jobs to take; a job continues with tests that it has compiled code for."""

    def __init__(self, mutations: list[Mutation]):
        groups: dict[tuple[str, ...], list[Mutation]] = defaultdict(list)
        for mutation in mutations:
            groups[mutation.tests].append(mutation)
        self.chunks = [group[k:k + CHUNK] for group in groups.values() for k in range(0, len(group), CHUNK)]
        self.chunks.sort(key=lambda chunk: -len(chunk) * len(chunk[0].tests))
        self.lock = threading.Lock()

    def take(self, known: dict[tuple[str, ...], Outcome]) -> list[Mutation]:
        with self.lock:
            chosen = next((chunk for chunk in self.chunks if chunk[0].tests in known), self.chunks[0] if self.chunks else [])
            if chosen:
                self.chunks.remove(chosen)
            return chosen


def work(bench: Bench, chunks: Chunks, results: Results) -> None:
    """One job: chunks until there are none, or no time is left."""
    while chunk := chunks.take(bench.sound):
        for mutation in chunk:
            begin = time.monotonic()
            try:
                verdict = NO_TIME if begin > bench.deadline else bench.verdict(mutation)
            except OSError as error:
                verdict = f"not run: {error}"
            results.enter(mutation, verdict, time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="part of the names of the mutations wanted; may be repeated")
    parser.add_argument("--first", type=int, default=0, help="number of the mutation to begin with, from 0")
    parser.add_argument("--list", action="store_true", help="show the mutations, run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time, a process each")
    parser.add_argument("--seconds", type=float, default=86400.0, help="end after this time; what is left is not run")
    parser.add_argument("--results", type=Path, help="JSON file of the verdicts; those it holds already are not made again")
    parser.add_argument("--table", type=Path, help="text file for the table")
    options = parser.parse_args()
    words = options.only or [""]
    chosen = [mutation for mutation in MUTATIONS if any(word in mutation.name for word in words)][options.first:]
    if options.list:
        for mutation in chosen:
            where = place_of(mutation, ROOT)
            shown = where.relative_to(ROOT) if isinstance(where, Path) else f"{mutation.folder}: {where.upper()}"
            print(f"{mutation.name}\n    {shown}\n    {mutation.old}\n    {mutation.new}")
        return 0
    deadline, names = time.monotonic() + options.seconds, [mutation.name for mutation in chosen]
    results = Results(options.results, options.table)
    chunks = Chunks([mutation for mutation in chosen if not results.decided(mutation)])
    with tempfile.TemporaryDirectory(prefix="mutate") as folder:
        jobs = [threading.Thread(target=work, args=(Bench(Path(folder, str(k)), deadline), chunks, results))
                for k in range(max(1, min(options.jobs, len(chunks.chunks))))]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
    text = results.text(names)
    print("\n" + text, end="")
    if options.table:
        options.table.write_text(text)
    return 1 if results.count(names, "survived") else 0


if __name__ == "__main__":
    sys.exit(main())
