"""Strict TOML: sections described by frozen dataclasses, every mistake answered by one line.

A section is a frozen dataclass whose fields are made by `option`, with a check that turns a TOML value into
the value kept or raises ValueError("what is allowed"). `parse` reads text and overrides into such sections:
unknown keys are reported first (with "did you mean"), then missing ones, wrong types and ranges. `dump` writes
sections back, defaults included.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dmft.core.errors import RunError, did_you_mean

Check = Callable[[Any], Any]
_NO_DEFAULT = object()


def option(check: Check, default: Any = _NO_DEFAULT, doc: str = "") -> Any:
    """A field of a section. Without a default the key is mandatory. Type checkers see a default that is given by its name."""
    metadata = {"check": check, "doc": doc}
    if default is _NO_DEFAULT:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


# --- checks -----------------------------------------------------------------------------------------------

def told_as(check: Check, **form: Any) -> Check:
    """A check that also says, in the words of JSON Schema, what it takes."""
    check.form = form  # type: ignore[attr-defined]
    return check


def form_of(check: Check) -> dict[str, Any]:
    """What a check takes, as a JSON Schema; {} for one that does not say."""
    return dict(getattr(check, "form", {}))


def wanted_by(check: Check) -> str:
    """What a check takes, in the words of its complaint."""
    try:
        check(object())
    except ValueError as error:
        return str(error)
    return ""


def interval(low: float | None, high: float | None, above: bool, below: bool) -> str:
    """The bounds as text: "> 0 and <= 1"."""
    parts = []
    if low is not None:
        parts.append(f"{'>' if above else '>='} {low:g}")
    if high is not None:
        parts.append(f"{'<' if below else '<='} {high:g}")
    return " and ".join(parts)


def number(low: float | None = None, high: float | None = None, above: bool = False, below: bool = False) -> Check:
    """A finite number in [low, high]; `above` and `below` leave the ends out. Integers are taken as floats."""
    wanted = " ".join(("a number", interval(low, high, above, below))).strip()

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(wanted)
        try:
            result = float(value)
        except OverflowError:
            raise ValueError(wanted) from None
        small = low is not None and (result < low or (above and result == low))
        large = high is not None and (result > high or (below and result == high))
        if small or large or not math.isfinite(result):
            raise ValueError(wanted)
        return result

    bounds = {"exclusiveMinimum" if above else "minimum": low, "exclusiveMaximum" if below else "maximum": high}
    return told_as(check, type="number", **{name: bound for name, bound in bounds.items() if bound is not None})


def integer(low: int | None = None, high: int | None = 2**63 - 1) -> Check:
    """A whole number in [low, high]; 1e4, a float in TOML, is taken as one."""
    shown_high = None if high == 2**63 - 1 else high
    wanted = " ".join(("a whole number", interval(low, shown_high, False, False))).strip()

    def check(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(wanted)
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(wanted)
        return value

    bounds = {"minimum": low, "maximum": shown_high}
    return told_as(check, type="integer", **{name: bound for name, bound in bounds.items() if bound is not None})


def choice(*names: str) -> Check:
    """One of the given strings."""
    def check(value: Any) -> str:
        if isinstance(value, str) and value in names:
            return value
        raise ValueError(f"one of {', '.join(names)}" + did_you_mean(value, names))

    return told_as(check, enum=list(names))


def boolean(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def text(value: Any) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


told_as(boolean, type="boolean")
told_as(text, type="string")


def array(shape_doc: str, ndim: int, check: Check) -> Check:
    """Nested lists of numbers of depth `ndim` (no ragged rows), kept as nested tuples; `shape_doc` is shown."""
    def convert(value: Any, depth: int) -> Any:
        if depth == 0:
            return check(value)
        if not isinstance(value, (list, tuple)):
            raise ValueError(shape_doc)
        rows = tuple(convert(item, depth - 1) for item in value)
        if depth > 1 and len({len(row) for row in rows}) > 1:
            raise ValueError(f"{shape_doc}, all rows of the same length")
        return rows

    form = form_of(check)
    for _ in range(ndim):
        form = {"type": "array", "items": form}
    return told_as(lambda value: convert(value, ndim), **form)


# --- reading ----------------------------------------------------------------------------------------------

def read_text(path: str | Path) -> str:
    """The text of a run file, or a RunError that says why not."""
    try:
        return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise RunError(f"{path}: not a run file (not UTF-8 text)") from None
    except TypeError:
        raise RunError(f"a run or the path of a run file is wanted, not a {type(path).__name__}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        shipped = Path(__file__).parents[1] / path         # dmft/runs: the run files that are installed with the package
        hint = f"; the package has one, {shipped}" if isinstance(error, FileNotFoundError) and shipped.is_file() else ""
        raise RunError(f"{path}: cannot be read: {reason}{hint}") from None


class Unset(str):
    """An override that takes a key out, `section.key`, as after --unset."""


def as_words(overrides: Iterable[str]) -> list[str]:
    """Overrides as words of a command line, in their order."""
    return [word for text in overrides for word in ("--unset" if isinstance(text, Unset) else "--set", text)]


def read_toml(content: str, source: str, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """TOML text with `section.key=value` overrides (or Unset keys) applied, as nested dicts, nothing else checked."""
    try:
        document = tomllib.loads(content)
    except RecursionError:
        raise RunError(f"{source}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise RunError(f"{source}: not valid TOML: {_one_line(str(error))}") from None
    for override in overrides:
        if isinstance(override, Unset):
            _take_out(document, override, source)
        else:
            _apply_override(document, override)
    return document


def _take_out(document: dict[str, Any], name: str, source: str) -> None:
    """One --unset: `section.key` (or `key` at the top level)."""
    section, _, key = name.strip().rpartition(".")
    table = document.get(section) if section else document
    if not isinstance(table, dict) or key not in table:
        raise RunError(f"--unset {show(name)}: {source} has no such key; write section.key, e.g. algorithm.temperature")
    del table[key]


def _apply_override(document: dict[str, Any], override: str) -> None:
    """One --set: `section.key=value` (or `key=value` at the top level)."""
    name, equals, value = override.partition("=")
    path = [part.strip() for part in name.split(".")]
    if not equals or not all(path) or len(path) > 2:
        raise RunError(f"--set {show(override)}: write section.key=value, e.g. theory.samples=4000")
    table = document
    if len(path) == 2:
        table = document.setdefault(path[0], {})
        if not isinstance(table, dict):
            raise no_section(f"--set {show(override)}", path[0], table)
    table[path[-1]] = toml_value(value)


def toml_value(content: str) -> Any:
    """A value from the command line: TOML if it parses, else the string itself."""
    try:
        parsed = tomllib.loads(f"value = {content}")
    except (ValueError, RecursionError):
        return content.strip()
    return parsed["value"] if set(parsed) == {"value"} else content.strip()


def parse(document: Mapping[str, Any], source: str, sections: Mapping[str, type],
          top: Mapping[str, Check] | None = None) -> dict[str, Any]:
    """Build the sections from a TOML document; returns {name: section instance or top-level value}.

    Sections whose keys all have defaults may be left out. The order of complaints is: unknown sections and
    keys, missing keys, wrong values.
    """
    top = dict(top or {})
    tables = {name: document.get(name, {}) for name in sections}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise no_section(source, name, table)
    known_keys = {name: [field.name for field in dataclasses.fields(cls)] for name, cls in sections.items()}
    _refuse_unknown(document, tables, source, known_keys, list(top))
    for name, cls in sections.items():
        for field in dataclasses.fields(cls):
            if field.default is dataclasses.MISSING and field.name not in tables[name]:
                raise missing_key(source, name, field.name, field.metadata["doc"])
    result: dict[str, Any] = {}
    for key, check in top.items():
        if key in document:
            result[key] = _checked(check, document[key], f"{source}: {key}")
    for name, cls in sections.items():
        fields = {field.name: field for field in dataclasses.fields(cls)}
        values = {key: _checked(fields[key].metadata["check"], value, f"{source}: [{name}] {key}")
                  for key, value in tables[name].items()}
        result[name] = cls(**values)
    return result


def no_section(source: str, name: str, found: Any) -> RunError:
    """The error for what is no section although it has the name of one; [[name]] makes a list of them."""
    if isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
        return RunError(f"{source}: [[{name}]] makes a list of sections; write [{name}]")
    return RunError(f"{source}: [{name}] must be a section, got {show(found)}")


def missing_key(source: str, section: str, key: str, doc: str, why: str = "") -> RunError:
    """The error for a mandatory key that is not there; doc: what the key means, why: the settings that need it."""
    return RunError(f"{source}: [{section}] missing key '{key}'" + (f" ({doc})" if doc else "") + why)


def _refuse_unknown(document: Mapping[str, Any], tables: Mapping[str, dict], source: str,
                    known_keys: Mapping[str, list[str]], top: list[str]) -> None:
    """RunError for the first section or key that is not known, with the section it belongs to or the nearest name."""
    for name in document:
        if name in known_keys or name in top:
            continue
        if isinstance(document[name], dict):
            raise RunError(f"{source}: unknown section [{_plain(name)}]" + did_you_mean(name, known_keys))
        homes = [f"[{section}]" for section, keys in known_keys.items() if name in keys]
        hint = f"; it belongs to {' or '.join(homes)}" if homes else did_you_mean(name, [*top, *known_keys])
        raise RunError(f"{source}: unknown key '{_plain(name)}' at the top level{hint}")
    for section, table in tables.items():
        for key in table:
            if key in known_keys[section]:
                continue
            homes = [f"[{other}]" for other, keys in known_keys.items() if key in keys]
            hint = f"; it belongs to {' or '.join(homes)}" if homes else did_you_mean(key, known_keys[section])
            raise RunError(f"{source}: [{section}] unknown key '{_plain(key)}'{hint}")


def _checked(check: Check, value: Any, where: str) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise RunError(f"{where} = {show(value)}: must be {error}") from None


def bad_value(source: str, section: str, key: str, value: Any, allowed: str) -> RunError:
    """The error for a value that is wrong in view of other keys."""
    return RunError(f"{source}: [{section}] {key} = {show(value)}: must be {allowed}")


def _one_line(content: str) -> str:
    return " ".join(content.split())


def _plain(name: str) -> str:
    """A key from the file as printable text of at most 60 characters."""
    shown = name if name.isprintable() else repr(name)[1:-1]
    return shown if len(shown) <= 60 else shown[:57] + "..."


def show(value: Any) -> str:
    """A value as TOML would have it, shortened to fit one line."""
    if value is None:
        return "(not set)"
    try:
        shown = to_toml_value(value)
    except (TypeError, ValueError, RecursionError):
        shown = f"a {type(value).__name__}"
    return _plain(shown)


class Table(Mapping):
    """An inline table of a run file as an immutable value, which can be compared, hashed and written back."""

    def __init__(self, entries: Mapping[str, Any]):
        self._entries = tuple(entries.items())

    def __getitem__(self, key: str) -> Any:
        return dict(self._entries)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    def __repr__(self) -> str:
        return repr(dict(self._entries))


# --- writing ----------------------------------------------------------------------------------------------

def to_toml_value(value: Any) -> str:
    """A bool, number, string or (nested) list as TOML text that reads back to the same value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{to_toml_value(str(k))} = {to_toml_value(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no TOML form for {type(value).__name__}")


def dump(top: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML text of top-level values and sections."""
    lines = [f"{key} = {to_toml_value(value)}" for key, value in top.items()]
    for name, table in sections.items():
        lines += ["", f"[{name}]"] + [f"{key} = {to_toml_value(value)}" for key, value in table.items()]
    return "\n".join(lines).lstrip("\n") + "\n"
