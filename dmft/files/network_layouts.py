"""The layouts of files of networks (docs/networks.md): curves have axes of units and directions after time, kernels after times."""

from __future__ import annotations

from dmft.files.declared import (
    BYTES,
    COLUMNS,
    KERNELS,
    MEASURES,
    PROGRESS,
    STUDY_ATTRIBUTES,
    STUDY_POINTS,
    TIMES,
    TOLD,
    WHOLE_NUMBERS,
    Attribute,
    Dataset,
    FileLayout,
    each,
    with_errors,
)
from dmft.model.curves import ERRORS, NETWORK, CurveDefinition, studied

_PAIR = ("saved", "saved", "unit", "unit")
_COLUMN = ("row", "waiting", "unit", "unit")
_CURVES = tuple(curve for curve in NETWORK if curve.theory)
_STUDIED = tuple(curve for curve in _CURVES if curve.name in studied(False))
_STUDIED_NAMES = (*(curve.name for curve in _STUDIED), *KERNELS)
_SOLVED = tuple(curve for curve in _CURVES if curve.theory != ERRORS)  # by a march; errors follow from these


def _with(curve: CurveDefinition, group: str) -> str:
    """The group of a curve that is there where others are, or of one that some runs have, or files of earlier versions have not."""
    return group if curve.always or curve.residual else f"{group}/{curve.name}"


def _told(place: str, endings: tuple[str, str]) -> tuple[Dataset, ...]:
    """What companions tell of curves."""
    return tuple(Dataset(f"{place}{what}/{curve.name}{ending}", ("time", *curve.axes), group=_with(curve, f"{place}{what}"))
                 for what in TOLD for curve in _CURVES for ending in endings)


def _sums(place: str) -> tuple[Dataset, ...]:
    """Means and summed squares over replicas: of kernels, and of what companions tell."""
    parts = ("_mean", "_squares")
    told_columns = (Dataset(f"{place}{what}/columns/{name}{part}", _COLUMN, group=f"{place}{what}/columns")
                    for what in TOLD for name in COLUMNS for part in parts)
    return (*each((f"{name}{part}" for name in KERNELS for part in parts), _PAIR, place + "{}", group=place),
            *_told(place, parts), *told_columns,
            *each((f"{name}{part}" for name in COLUMNS for part in parts), _COLUMN, place + "columns/{}", group=f"{place}columns"),
            *each(("count", *(f"{what}/count" for what in TOLD)), (2,), place + "{}", type=WHOLE_NUMBERS, optional=True))


def _over(curves, axes: tuple[str, ...], pattern: str = "{}", endings: tuple[str, ...] = ("",), group: str = ""
          ) -> tuple[Dataset, ...]:
    return tuple(Dataset(pattern.format(curve.name + ending), (*axes, *curve.axes), group=_with(curve, group)) for curve in curves
                 for ending in endings)


NETWORK_LAYOUTS = {
    "theory": FileLayout(
        (Dataset("t", ("time",), TIMES), *_over(_CURVES, ("time",), endings=("", "_error")),
         *_over(_CURVES, ("replica", "time"), "replicas/{}"),
         *_told("", ("", "_error")),
         Dataset("kernels/t", ("saved",), TIMES), Dataset("kernels/t_last", ("saved",)),
         *each(with_errors(KERNELS), _PAIR, "kernels/{}"), *_sums("state/"),
         Dataset("columns/t", ("row",), TIMES, group="columns"), Dataset("columns/t_w", ("waiting",), TIMES, group="columns"),
         *each(with_errors(COLUMNS), _COLUMN, "columns/{}", group="columns"),
         *(one for what in TOLD for one in each(with_errors(COLUMNS), _COLUMN, f"{what}/columns/{{}}", group=f"{what}/columns"))),
        (Attribute("outcome", "text", optional=False), Attribute("outcomes", "text", axis="replica")), {"time": 2, "saved": 2}),
    "theory checkpoint": FileLayout(
        (*_over(_SOLVED, ("time",), "active/{{i}}/whole/shared/curves/{}"),
         *each(KERNELS, _PAIR, "active/{{i}}/whole/shared/kernels/{}"),
         *each(COLUMNS, _COLUMN, "active/{{i}}/whole/shared/columns/{}", group="own columns"),
         *_over(_SOLVED, ("finished", "time"), "finished/replicas/{}", group="finished"), *_sums("finished/state/")),
        PROGRESS, {"finished": 0}),
    "convergence": FileLayout(
        (*STUDY_POINTS,
         *(Dataset(f"{{axis}}/{measure}/{q}", ("points",)) for measure in MEASURES for q in _STUDIED_NAMES),
         *each(_STUDIED_NAMES, (2,), "{{axis}}/order/{}"),
         *_over(_STUDIED, ("points", "common"), "{{axis}}/curves/{}", ("", "_error"), group="curves"),
         *_over(_STUDIED, ("common",), "{{axis}}/limit/{}", ("", "_error"), group="limit"),
         *each(with_errors(KERNELS), _PAIR, "{{axis}}/limit/{}", group="limit")),
        STUDY_ATTRIBUTES, {"common": 0, "saved": 0}),
    "simulation": FileLayout(
        (Dataset("t", ("time",), TIMES),
         *_over([curve for curve in NETWORK if curve.simulation], ("instance", "time")),
         *each(("columns/t_w", "kernels/t"), ("waiting",), type=TIMES, group="two times"),
         Dataset("columns/t", ("time",), TIMES, group="two times"),
         Dataset("kernels/C", ("instance", "waiting", "waiting", "unit", "unit"), group="two times"),
         Dataset("columns/C", ("instance", "time", "waiting", "unit", "unit"), group="two times"),
         Dataset("diverged", ("instance",), WHOLE_NUMBERS), Dataset("state/record", ("time",), WHOLE_NUMBERS),
         Dataset("state/step", ("instance",), WHOLE_NUMBERS), Dataset("state/diverged_at", ("instance",), WHOLE_NUMBERS),
         Dataset("state/w", ("instance", "parameter")), Dataset("state/b", ("instance",)),
         Dataset("state/before", ("instance", "parameter"), optional=True), Dataset("state/s", ("instance", "byte"), BYTES)),
        PROGRESS, {"byte": 0}),
    "simulation checkpoint": FileLayout(
        (Dataset("active/{i}/instances/shared/record", ("time",), WHOLE_NUMBERS),
         *each(("step", "diverged_at"), ("instance",), "active/{{i}}/instances/own/{}", type=WHOLE_NUMBERS),
         Dataset("active/{i}/instances/own/curves", ("instance", "curve", "time")),
         Dataset("active/{i}/instances/own/w", ("instance", "parameter")),
         Dataset("active/{i}/instances/own/pairs", ("instance", 1, "time", "waiting", "unit", "unit"), group="two times"),
         Dataset("active/{i}/instances/own/kept_w", ("instance", "waiting", "parameter"), group="two times"),
         Dataset("active/{i}/instances/own/s", ("instance", "byte"), BYTES)),
        PROGRESS, {"byte": 0}),
}
