"""The facts about a file as text for a terminal."""

from __future__ import annotations

from typing import Any

from dmft.core.averages import ERROR_ROUNDING, error_text, number_text
from dmft.core.progress import time_text
from dmft.core.schema import to_toml_value
from dmft.core.text import visible

# By kind of result: the section of the run file that does not affect it.
_OTHER_HALF = {"theory": "simulation", "convergence": "simulation", "simulation": "theory"}


def page(facts: dict[str, Any]) -> str:
    """The text that `dmft inspect` prints."""
    parts = [_head(facts)]
    if "progress" in facts:
        parts.append(_section("progress", _progress(facts["progress"])))
    start = facts["attributes"].get("spectral_start")
    parts.append(_section("run", [*_run(facts["run"], _OTHER_HALF.get(facts["kind"], "")),
                                  *([f"spectral start: {start}"] if start else [])]))
    if facts["curves"]:
        parts.append(_section("key figures", curve_lines(facts["curves"])))
    if "study" in facts:
        parts.append(_section("study", facts["study"]["text"].splitlines()))
    if facts["checks"]:
        parts.append(_section("checks", [_check(check) for check in facts["checks"]]))
    parts.append(_section("made by", _provenance(facts)))
    parts.append(_section("arrays", _arrays(facts["arrays"])))
    parts.append(_section("warnings", facts["warnings"] or ["none"]))
    return "\n\n".join(parts)


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([title.upper(), *(f"  {visible(line)}" for line in lines)])


def _head(facts: dict[str, Any]) -> str:
    what = f"checkpoint of a {facts['kind']} run" if facts["checkpoint"] else f"{facts['kind']} result"
    title = facts["run"].get("title", "")
    shown = f"\n{visible(str(title))}" if title else ""
    return visible(f"{facts['file']}: {what}, {facts['outcome'] or 'no outcome stored'}") + shown


def _progress(progress: dict[str, Any]) -> list[str]:
    left = progress["seconds_left"]
    lines = [f"{100 * progress['share']:.1f} % done, {100 * progress['rate_per_hour']:.3g} % an hour, "
             + (f"{time_text(left)} left" if left is not None else "no rate yet"),
             f"checkpoint written {time_text(progress['checkpoint_age'])} ago"]
    if "replicas_done" in progress:
        under_way = ", ".join(f"t = {replica['t']:g}" for replica in progress["replicas_under_way"])
        lines.append(f"replicas done: {progress['replicas_done']}; under way: {under_way or 'none'}")
    if "instances_done" in progress:
        lines.append(f"instances done: {progress['instances_done']}")
    return lines


def _run(tables: dict[str, Any], without: str) -> list[str]:
    lines = []
    for section, table in tables.items():
        heads = [(f"[{section}] ", table)] if isinstance(table, dict) and section != without else []
        if isinstance(table, list):  # [[phase]]
            heads = [(f"[[{section}]] ", each) for each in table]
        for head, each in heads:
            # Empty texts are defaults that say nothing.
            words = [f"{key} = {to_toml_value(value)}" for key, value in each.items() if value != ""]
            lines += _wrapped(head, words)
    return lines


def _wrapped(head: str, words: list[str], width: int = 112) -> list[str]:
    lines, line = [], head
    for i, word in enumerate(words):
        piece = word + (", " if i < len(words) - 1 else "")
        if len(line) + len(piece) > width and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += piece
    return [*lines, line.rstrip()]


def curve_lines(rows: list[dict[str, Any]]) -> list[str]:
    """A table of curves, a line for each time."""
    names = [name for name in rows[0] if name != "t" and not name.endswith("_error")]
    lines = [f"{'t':>10}" + "".join(f"  {name:>12} +- {'error':<8}" for name in names)]
    for row in rows:
        lines.append(f"{row['t']:10.4g}" + "".join(f"  {_with_error(name, row[name], row[name + '_error'])}" for name in names))
    return [line.rstrip() for line in lines]


def _with_error(name: str, value: float | None, error: float | None) -> str:
    """A mean that is only rounding (m of a start at m0 = 0) is shown as 0, as its error is; a loss can be as small as it is."""
    if name != "loss" and value is not None and abs(value) < ERROR_ROUNDING:
        value = 0.0
    known = float("nan") if error is None else error
    return f"{_number(value, '12.6g')} +- {number_text(known, '<8.2g') if name == 'loss' else error_text(known, '<8.2g')}"


def _number(value: float | None, form: str) -> str:
    width = form.lstrip("<").split(".")[0]
    return format("-", form[0] + width if form.startswith("<") else ">" + width) if value is None else format(value, form)


def _check(check: dict[str, Any]) -> str:
    verdict = {True: "fine", False: "CHECK", None: ""}[check["fine"]]
    value = "-" if check["value"] is None else f"{check['value']:.3g}"
    note = f"  ({check['meaning']})" if check["fine"] is None else ""
    return f"{verdict:<6}{value:>10}  {check['name']}{note}"


def _provenance(facts: dict[str, Any]) -> list[str]:
    found = {key: value for key, value in facts["provenance"].items() if value != ""}
    lines = []
    if "wall_time" in found:
        ranks = found.pop("ranks", 1)
        lines.append(f"{time_text(found.pop('wall_time'))} on {ranks} rank{'s' if ranks != 1 else ''}")
    lines += _wrapped("", [f"{key.replace('_version', '')} {value}" for key, value in found.items()])
    return lines + [f"schema {facts['schema_version']}"]


def _arrays(arrays: list[dict[str, Any]]) -> list[str]:
    """One line per array; those that only --resume needs share one line."""
    shown = [array for array in arrays if "min" in array]
    width = max((len(array["name"]) for array in shown), default=0)
    lines = []
    for array in shown:
        shape = " x ".join(map(str, array["shape"])) or "one number"
        span = f"{array['min']:.5g} .. {array['max']:.5g}" if array["min"] is not None else "nothing finite"
        holes = f", {array['not_finite']} not finite" if array["not_finite"] else ""
        lines.append(f"{array['name']:<{width}}  {shape:>14}  {span}{holes}")
    if len(shown) < len(arrays):
        lines.append(f"and {len(arrays) - len(shown)} arrays for --resume alone")
    return lines
