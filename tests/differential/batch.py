"""Random runs, each computed in two ways that must agree.

    python -m tests.differential --cases 1000 --seed 7 --processes 16      all judges
    python -m tests.differential --cases 1000 --part 2/5 --keep 2.json     the second fifth of these, kept
    python -m tests.differential --cases 1000 --add 1.json 2.json ...      the tables of such parts together
    python -m tests.differential --judge card --cases 50                   one of them; may be repeated
    python -m tests.differential --judge simulation --seed 7 --case 12     one case, or several, with their run files

Prints what failed, each case shrunk to the features that it needs to fail, with its run file; how many cases every pair of features
had; and the largest difference of every judge against its bound. Exit code 1 when something failed.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.differential import onepass_runs, plugins, ranks, refused, same, theory_simulation
from tests.differential.chance import CHANCE, Finding, bound, left_out
from tests.differential.onepass_runs import ONEPASS
from tests.differential.other_runs import CLOSED, NETWORKS
from tests.differential.runs import RUNS, run_text
from tests.differential.table import Case, Table, coverage_text, made_again, shrunk

# judge: of how many cases it sees one, and its table. Statistics cost most; a start of the ranks is shared.
SHARES: dict[str, tuple[float, Table]] = {
    "simulation": (1.0, RUNS), "histories": (0.3, RUNS), "iteration": (0.1, RUNS), "card": (0.1, RUNS), "stops": (0.1, RUNS),
    "growth": (0.1, RUNS), "ranks": (0.05, RUNS), "onepass": (0.2, ONEPASS), "refused": (1.0, RUNS),
    "networks": (0.1, NETWORKS), "networks, histories": (0.1, NETWORKS), "networks, stops": (0.1, NETWORKS),
    "closed, histories": (0.1, CLOSED), "closed, stops": (0.1, CLOSED)}

STATISTICAL = ("simulation", "onepass", "networks")
NO_TIME = "no time was left"
EVERY = 100     # cases, between lines that say how far it is
KEEP_EVERY = 10     # cases, between two writes of what is kept: a part that is killed has lost no more


@dataclass(frozen=True)
class Verdict:
    """What became of a case: a finding, or the traceback of what went wrong."""

    judge: str
    case: Case
    finding: Finding
    seconds: float
    text: str       # the run file


def case_of(judge: str, seed: int, k: int) -> Case:
    """Case k of a judge: that of its table, but for refusals, which choose theirs."""
    if judge == "refused":
        return refused.case_for(refused.REFUSALS[k % len(refused.REFUSALS)], seed, k)
    return SHARES[judge][1].case(seed, k)


def finding_of(judge: str, cases: int, case: Case) -> Finding:
    """The finding of one case; whatever goes wrong is one, too."""
    ways: dict[str, Callable[[Case], Finding]] = {
        "simulation": partial(theory_simulation.judge, cases=cases), "networks": partial(theory_simulation.judge, cases=cases),
        "onepass": partial(onepass_runs.judge, cases=cases),
        "refused": lambda case: refused.judge(refused.REFUSALS[case.index % len(refused.REFUSALS)], case),
        **{name: partial(same.judge, name) for name in same.JUDGES}}
    try:
        return ways[judge if judge in ways else judge.partition(", ")[2]](case)
    except Exception:
        return Finding(float("inf"), 1.0, traceback.format_exc(limit=-3), 0)


def verdict_of(task: tuple[str, int, Case, float]) -> Verdict:
    """A case judged before the deadline (seconds since the epoch), and shrunk where it fails."""
    judge, cases, case, deadline = task
    if time.time() > deadline:
        return Verdict(judge, case, left_out(NO_TIME), 0.0, "")
    began, finding = time.perf_counter(), finding_of(judge, cases, case)
    seconds = time.perf_counter() - began
    if finding.failed and judge != "refused":
        case = shrunk(case, lambda smaller: time.time() < deadline and finding_of(judge, cases, smaller).failed)
        finding = finding_of(judge, cases, case)
    return Verdict(judge, case, finding, seconds, _text(judge, case))


def _text(judge: str, case: Case) -> str:
    if judge == "refused":
        return refused.broken(refused.REFUSALS[case.index % len(refused.REFUSALS)], case)
    return f"{case.choice['model']}({case.keys})\n" if case.table is ONEPASS else run_text(case)


def told(verdict: Verdict) -> str:
    """A failure in full."""
    line = f"{verdict.judge}: {verdict.finding.size:.3g} (bound {verdict.finding.limit:.3g}) in {verdict.finding.where}"
    return f"{line}\n{verdict.case}\n{verdict.text}"


def summary(judge: str, verdicts: Sequence[Verdict], cases: int) -> str:
    """One row of the table."""
    judged = [verdict.finding for verdict in verdicts if not verdict.finding.left_out]
    worst = max(judged, key=lambda finding: finding.size, default=None)
    failed = sum(finding.failed for finding in judged)
    limit = bound(cases) if judge in STATISTICAL else 1.0
    where = worst.where.splitlines()[0] if worst and worst.where and judge != "refused" else ""
    return (f"| {judge} | {len(judged)} | {len(verdicts) - len(judged)} | {sum(finding.numbers for finding in judged)} | "
            f"{worst.size if worst else 0.0:.3g} ({limit:.3g}) | {where} | {failed} | {sum(v.seconds for v in verdicts):.0f} |")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20, help="of theory against simulation; other judges see a share of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="k/n: only the k-th of n parts")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep what was found in a JSON file")
    parser.add_argument("--add", type=Path, nargs="+", metavar="FILE", help="compute nothing: the tables of kept parts")
    parser.add_argument("--case", type=int, nargs="+", help="only these")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no case is begun")
    parser.add_argument("--judge", action="append", choices=list(SHARES), help="may be repeated; default: all")
    parser.add_argument("--except", action="append", choices=list(SHARES), default=[], dest="but", help="not these")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args(arguments)
    plugins.register()
    part, parts = map(int, asked.part.split("/"))
    deadline, tasks, batches, on_ranks = time.time() + asked.seconds, [], {}, []
    for judge in [judge for judge in asked.judge or SHARES if judge not in asked.but]:
        share = 1.0 if asked.judge else SHARES[judge][0]
        count = batches[judge] = max(1, round(share * asked.cases))
        wanted = range(part - 1, count, parts) if asked.case is None else asked.case
        if judge == "ranks":
            on_ranks = [case_of(judge, asked.seed, k) for k in wanted]
        else:
            tasks += [(k / count, (judge, count, case_of(judge, asked.seed, k), deadline)) for k in wanted]
    tasks.sort(key=lambda task: task[0])        # all judges side by side, so that a batch cut short has seen something of each
    verdicts: list[Verdict] = [verdict for path in asked.add or () for verdict in _kept(path)]
    if asked.add:
        tasks, on_ranks = [], []
        print(*(told(verdict) for verdict in verdicts if verdict.finding.failed), sep="\n")
    with get_context("spawn").Pool(asked.processes, plugins.register) if asked.processes > 1 else _Here() as pool:
        for verdict in pool.imap_unordered(verdict_of, [task for _, task in tasks]):
            verdicts.append(verdict)
            if verdict.finding.failed:
                print(told(verdict), flush=True)
            if asked.keep and len(verdicts) % KEEP_EVERY == 0:
                _keep(asked.keep, verdicts)
            if len(verdicts) % EVERY == 0:
                print(f"{len(verdicts)} of {len(tasks)} cases, {sum(each.finding.failed for each in verdicts)} failed", flush=True)
    if on_ranks and time.time() < deadline:
        verdicts += _on_ranks(on_ranks)
    if asked.keep:
        _keep(asked.keep, verdicts)
    for table in (RUNS, ONEPASS, NETWORKS):
        seen = [verdict.case for verdict in verdicts
                if verdict.case.table is table and verdict.judge in STATISTICAL and not verdict.finding.left_out]
        if seen:
            print(f"\n{table.name}: fewest cases of any two options of two features\n{coverage_text(table, seen)}")
    print(f"\nseed {asked.seed}; by chance a |z| is beyond its bound in {CHANCE:g} of all batches; other differences\n"
          "are in units of what they may be\n")
    print("| judge | cases | left out | numbers | largest (bound) | where | failed | seconds |\n" + "|---" * 8 + "|")
    for judge, count in batches.items():
        print(summary(judge, [verdict for verdict in verdicts if verdict.judge == judge], count))
    return int(any(verdict.finding.failed for verdict in verdicts))


def _keep(path: Path, verdicts: list[Verdict]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps([asdict(verdict) | {"case": verdict.case.name} for verdict in verdicts]))
    part.replace(path)


def _kept(path: Path) -> list[Verdict]:
    """The verdicts of a part."""
    return [Verdict(**{**one, "case": made_again(*one["case"]), "finding": Finding(**one["finding"])})
            for one in json.loads(path.read_text())]


def _on_ranks(cases: list[Case]) -> list[Verdict]:
    began, findings = time.perf_counter(), ranks.judge(cases)
    seconds = (time.perf_counter() - began) / len(cases)
    verdicts = [Verdict("ranks", case, finding, seconds, run_text(case)) for case, finding in zip(cases, findings)]
    for verdict in verdicts:
        if verdict.finding.failed:
            print(told(verdict), flush=True)
    return verdicts


class _Here:
    """A pool of this process."""

    imap_unordered = staticmethod(map)

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass
