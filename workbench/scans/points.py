"""The grid of a scan: `section.key=v1,v2,...` or `section.key=first:last:count` after --grid (dmft scan) or --array (dmft submit),
one result file per point. A key given with `--with` varies together with the one before it, value by value."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmft.core.errors import RunError
from dmft.core.schema import toml_value

MOST_JOBS = 10000     # sites rarely allow larger arrays


@dataclass(frozen=True)
class GridPoint:
    """One point of a grid: `section.key=value` texts for --set, and a name for its files."""

    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Keys and values, for file names: alpha-2.5_m0-0.1."""
        return "_".join(_file_name(text.partition(".")[2] or text) for text in self.settings)


class Along(str):
    """The text `section.key=v1,v2,...` of a --with, as opposed to that of a --grid or --array."""


def grid(arrays: Sequence[str], option: str = "--grid") -> list[GridPoint]:
    """All combinations of the values of the arrays, the last varying fastest; those of an Along are paired with those before.
    option: what the user calls an array."""
    axes: list[list[tuple[str, ...]]] = []
    for array in arrays:
        values = _values(array, option)
        if not isinstance(array, Along):
            axes.append([(value,) for value in values])
            continue
        if not axes:
            raise RunError(f"--with {str(array)!r}: write it after the {option} that it goes with")
        if len(values) != len(axes[-1]):
            raise RunError(f"--with {str(array)!r}: {len(values)} for the {len(axes[-1])} values of the {option} before it")
        axes[-1] = [(*before, value) for before, value in zip(axes[-1], values, strict=True)]
    points = [GridPoint(sum(settings, ())) for settings in itertools.product(*axes)]
    if len(points) > MOST_JOBS:
        raise RunError(f"{option}: {len(points)} points are too many; at most {MOST_JOBS} go into one scan")
    names = [point.name for point in points]
    for name in names:
        if names.count(name) > 1:
            raise RunError(f"{option}: the point {name} comes twice")
    return points


def _values(array: str, option: str) -> list[str]:
    key, equals, values = array.partition("=")
    listed = _range(values) or [value.strip() for value in _split(values)]
    short = re.fullmatch(r"[-+.\deE]*(:[-+.\deE]*)+", values) and not _range(values)       # a range, but not first:last:count
    if not equals or key.count(".") != 1 or not all(listed) or short:
        given = "--with" if isinstance(array, Along) else option
        raise RunError(f"{given} {str(array)!r}: write section.key=v1,v2,... or section.key=first:last:count, e.g. "
                       "problem.alpha=2,2.5,3 or problem.alpha=2:4:9")
    return [f"{key.strip()}={value}" for value in listed]


def _range(values: str) -> list[str]:
    """Evenly spaced values of first:last:count; none where it is something else."""
    parts = values.split(":")
    try:
        first, last, count = float(parts[0]), float(parts[1]), int(parts[2])
    except (ValueError, IndexError):
        return []
    if len(parts) != 3 or count < 2:
        return []
    return [f"{value:.12g}" for value in np.linspace(first, last, count)]


def _split(values: str) -> list[str]:
    """Cut at commas outside brackets and quotes: a value may itself be a TOML list."""
    parts, depth, quoted = [""], 0, False
    for letter in values:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _file_name(setting: str) -> str:
    key, _, value = setting.partition("=")
    shown = re.sub(r"[^A-Za-z0-9.+-]+", "-", str(toml_value(value)))
    return f"{key}-{shown.strip('-') if '[' in value else shown}"
