"""The tables of the page, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from dmft.convergence.study import Study
from dmft.core.averages import is_rounding
from dmft.core.schema import to_toml_value
from dmft.result.comparison import AGREE, DIVERGED, VERDICTS, compare, judged_together
from dmft.result.theory import Theory
from workbench.inspection.against_kernels import kernels_against
from workbench.inspection.by_component import compared
from workbench.inspection.curves import opened_curves
from workbench.inspection.facts import facts
from workbench.inspection.kinds import Opened
from workbench.reporting.data import file_labels, same_experiment
from workbench.scans.scan import Scan

MOST_ROWS = 24


def page_tables(opened: Sequence[Opened]) -> str:
    """Comparisons, convergence, scans, checks and warnings, run parameters, provenance."""
    labels = file_labels(opened)
    known = [facts(item) for item in opened]
    return "\n".join(filter(None, (_comparisons(opened, labels), _studies(opened, labels), _scans(opened, labels),
                                   _checks(known, labels), _runs(known, labels), _provenance(known, labels))))


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]], marked: Sequence[bool] = ()) -> str:
    """An HTML table of plain values; marked rows stand out."""
    lines = ["<tr>" + "".join(f"<th>{escape(str(cell))}</th>" for cell in head) + "</tr>"]
    for i, row in enumerate(rows):
        mark = ' class="marked"' if i < len(marked) and marked[i] else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(_cell(cell))}</td>" for cell in row) + "</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _section(title: str, body: str, intro: str = "") -> str:
    return f"<section><h2>{escape(title)}</h2>" + (f"<p>{escape(intro)}</p>" if intro else "") + body + "</section>"


def _comparisons(opened: Sequence[Opened], labels: list[str]) -> str:
    """Every theory against the simulations of the same experiment."""
    parts = []
    simulations = [(item, label) for item, label in zip(opened, labels) if item.kind == "simulation"]
    for item, label in zip(opened, labels):
        if not isinstance(item.result, Theory):
            continue
        same = [(other, name) for other, name in simulations if item.run and other.run and same_experiment(item.run, other.run)]
        if same:
            names = ", ".join(name for _, name in same)
            parts.append(f"<h3>{escape(label)} against {escape(names)}</h3>" + _comparison(item, [other for other, _ in same]))
    intro = "z is the difference in combined standard errors; several dimensions are extrapolated to infinity."
    return _section("Theory against simulation", "".join(parts), intro) if parts else ""


def _comparison(theory: Opened, simulations: list[Opened]) -> str:
    ours, theirs = opened_curves(theory), [opened_curves(item) for item in simulations]
    dimensions = [item.result.run.simulation.dimension for item in simulations]
    rows, worst, bound, verdicts, run = [], np.nan, 0.0, [AGREE], theory.result.run
    names = [name for name in ours if name.partition("[")[0] in compared(run) and all(name in curves for curves in theirs)] if (
        run.has_network) else ["m", "loss"]
    whole = [compare(name, ours[name], [curves[name] for curves in theirs], dimensions, 1e-3 * run.algorithm.first_rate)
             for name in names]
    for result in judged_together([result.where(result.usable) for result in whole if result.usable.any()]):
        verdicts.append(result.verdict)
        worst, bound = np.fmax(worst, result.worst), max(bound, result.bound)
        for i in np.unique(np.linspace(0, result.t.size - 1, MOST_ROWS).astype(int)):
            sides = [(float(side.mean[i]), float(side.error[i])) for side in (result.theory, result.simulation)]
            shown = [(mean, 0.0 if is_rounding(error, mean) else error) for mean, error in sides]
            rows.append((result.observable, float(result.t[i]), *shown[0], *shown[1], round(float(result.z[i]), 2)))
    if not rows:
        return "<p>no common time at which both are finite; nothing to compare</p>"
    verdict = DIVERGED if theory.result.outcome.startswith("diverged") else max(verdicts, key=VERDICTS.index)
    return table(("", "t", "theory", "error", "simulation", "error", "z"), rows, [abs(row[-1]) > bound for row in rows]) + (
        f"<p>max |z| = {worst:.2f}; 99 % of tables stay below {bound:.1f}. Verdict: {verdict}.</p>") + _kernels(theory, simulations)


def _kernels(theory: Opened, simulations: list[Opened]) -> str:
    """z of the two-time kernels at pairs of times, where simulations have these."""
    measured = [item.result for item in simulations if item.result.kernels is not None]
    if not measured:
        return ""
    ours, dimensions, parts = theory.result, [one.run.simulation.dimension for one in measured], []
    for kernel in kernels_against(ours.kernels.single, int(ours.averaged.sum()), [one.kernels for one in measured], dimensions,
                                  1e-3 * ours.run.algorithm.first_rate):
        z = kernel.table(kernel.pairs.z)
        parts.append(f"<h4>z of {kernel.pairs.observable}(t, t'), t down, t' across</h4>" + table(
            ("t", *(f"{t:.3g}" for t in kernel.t)), [(float(t), *(float(x) for x in line)) for t, line in zip(kernel.t, z)])
            + f"<p>{escape(kernel.summary())}</p>")
    return "".join(parts)


def _studies(opened: Sequence[Opened], labels: list[str]) -> str:
    parts = []
    for item, label in zip(opened, labels):
        if not isinstance(item.result, Study):
            continue
        rows = item.result.tables()
        parts.append(f"<h3>{escape(label)}: orders</h3>" + table(
            ("axis", "quantity", "order", "error", "expected"), [tuple(row.values()) for row in rows["orders"]]))
        distances = table(tuple(rows["distances"][0]), [tuple(row.values()) for row in rows["distances"]])
        parts.append(f"<details><summary>distances</summary>{distances}</details>")
        axis = item.result.axes.get("learning_rate")
        if axis is not None and axis.limit:
            t, limit, main = axis.t, axis.limit, axis.main
            some = np.unique(np.linspace(0, t.size - 1, 12).astype(int))
            parts.append("<h4>limit of small learning rates (Richardson)</h4>" + table(
                ("t", main, "error", "loss", "error"), [tuple(float(array[i]) for array in (
                    t, limit[main], limit[f"{main}_error"], limit["loss"], limit["loss_error"])) for i in some]))
    return _section("Convergence tables", "".join(parts)) if parts else ""


def _scans(opened: Sequence[Opened], labels: list[str]) -> str:
    """The tables of scans, a row for each result and time."""
    parts = []
    for item, label in zip(opened, labels):
        if isinstance(item.result, Scan):
            columns = {name: values for name, values in item.result.table().items() if name != "file"}
            rows = list(zip(*(np.asarray(values, object).tolist() for values in columns.values())))
            parts.append(f"<h3>{escape(label)}</h3>" + table(tuple(columns), rows))
    return _section("Scans", "".join(parts), "m and loss of every result at some times; share: of the instances that have "
                    "learnt.") if parts else ""


def _checks(known: list[dict[str, Any]], labels: list[str]) -> str:
    parts = []
    for found, label in zip(known, labels):
        warnings = "".join(f"<li>{escape(text)}</li>" for text in found["warnings"])
        parts.append(f"<h3>{escape(label)}</h3>")
        if "progress" in found:
            parts.append(f"<p>Live: {100 * found['progress']['share']:.1f} % done at its last checkpoint.</p>")
        if found["checks"]:
            verdicts = {True: "fine", False: "check", None: ""}
            parts.append(table(("check", "value", ""),
                               [(c["name"], c["value"], verdicts[c["fine"]] or c["meaning"]) for c in found["checks"]],
                               [c["fine"] is False for c in found["checks"]]))
        parts.append(f'<ul class="warnings">{warnings}</ul>' if warnings else "<p>No warnings.</p>")
    return _section("Checks", "".join(parts))


def _runs(known: list[dict[str, Any]], labels: list[str]) -> str:
    """Keys down, files across; keys in which the files differ are marked."""
    flat = [{f"{section}.{key}": value for section, keys in found["run"].items() if isinstance(keys, dict)
             for key, value in keys.items()} for found in known]
    keys = list(dict.fromkeys(key for run in flat for key in run))
    rows = [[key, *(to_toml_value(run[key]) if key in run else "–" for run in flat)] for key in keys]
    return _section("Run parameters", table(("key", *labels), rows, [len(set(row[1:])) > 1 for row in rows])) if rows else ""


def _provenance(known: list[dict[str, Any]], labels: list[str]) -> str:
    found = [{"kind": item["kind"], "outcome": item["outcome"], "schema": item["schema_version"], **item["provenance"]}
             for item in known]
    keys = list(dict.fromkeys(key for item in found for key in item))
    return _section("Provenance", table(("", *labels), [[key, *(item.get(key) for item in found)] for key in keys]))
