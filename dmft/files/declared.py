"""What the layout of a file is made of: datasets and attributes with their types and axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

KERNELS = ("M_C", "M_R", "C", "R")
COLUMNS = (*KERNELS, "chi")  # at waiting times
MEASURES = ("distance", "noise", "z_rms", "z_max", "replica_distance")  # of the points of a convergence study
TOLD = ("bias", "history_error")  # what companions tell: of finitely many samples, of blocks

# Kinds of numpy numbers that a dataset may hold.
NUMBERS, WHOLE_NUMBERS, BYTES, TIMES = "number", "whole number", "byte", "times"
DTYPES = {NUMBERS: "biuf", WHOLE_NUMBERS: "biu", BYTES: "u", TIMES: "biuf"}


@dataclass(frozen=True)
class Dataset:
    """A dataset of a layout. `name` may contain {axis} or {i}, which stand for every axis of a study and every worker under way, or
    end in "*", for any name. `axes` are names of axes or lengths. The datasets of a `group` are all there or none; a dataset
    without a group must be there unless it is optional."""

    name: str
    axes: tuple[str | int, ...]
    type: str = NUMBERS
    group: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Attribute:
    """type: text, number, whole number, flag, whole numbers, list (JSON), table (JSON). axis: the length of a list, or the number
    of words of a text that holds one for each."""

    name: str
    type: str
    optional: bool = True
    axis: str = ""


@dataclass(frozen=True)
class FileLayout:
    """The layout of one kind of file."""

    datasets: tuple[Dataset, ...]
    attributes: tuple[Attribute, ...] = ()
    least: Mapping[str, int] | None = None      # least lengths of axes (1 where not named)
    # Axes that every worker under way has for itself, each with the axis of the file that it is not longer than: a worker that
    # waits in the state of a shorter run (theory.keep_state) has the times of that run.
    own_axes: Mapping[str, str] = field(default_factory=dict)


def each(names: Iterable[str], axes: tuple[str | int, ...], pattern: str = "{}", **options: Any) -> tuple[Dataset, ...]:
    return tuple(Dataset(pattern.format(name), axes, **options) for name in names)


def with_errors(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}{ending}" for name in names for ending in ("", "_error"))


PROGRESS = (Attribute("progress", "number"), Attribute("progress_before", "number"))
# What the files of every convergence study have.
STUDY_POINTS = (*each(("values", "seeds", "wall_times"), ("points",), "{{axis}}/{}"), Dataset("{axis}/t", ("common",), TIMES),
                Dataset("{axis}/kernel_t", ("saved",), TIMES))
STUDY_ATTRIBUTES = (Attribute("axes", "text", optional=False), Attribute("outcomes_{axis}", "text", optional=False, axis="points"),
                    Attribute("beyond_{axis}", "text"))
