"""The layouts of files of networks (docs/networks.md): curves have axes of units and directions after time, kernels after times."""

from __future__ import annotations

from dmft.files.declared import (
    BYTES,
    KERNELS,
    PROGRESS,
    TIMES,
    TOLD,
    WHOLE_NUMBERS,
    Attribute,
    Dataset,
    FileLayout,
    each,
    with_errors,
)
from dmft.model.curves import ERRORS, NETWORK

_PAIR = ("saved", "saved", "unit", "unit")
_CURVES = tuple(curve for curve in NETWORK if curve.theory)
_SOLVED = tuple(curve for curve in _CURVES if curve.theory != ERRORS)  # by a march; errors follow from these


def _sums(place: str) -> tuple[Dataset, ...]:
    """Means and summed squares over replicas: of kernels, and of what companions tell."""
    parts = ("_mean", "_squares")
    told = (Dataset(f"{place}{what}/{curve.name}{part}", ("time", *curve.axes), group=f"{place}{what}")
            for what in TOLD for curve in _CURVES for part in parts)
    return (*each((f"{name}{part}" for name in KERNELS for part in parts), _PAIR, place + "{}", group=place), *told,
            *each(("count", *(f"{what}/count" for what in TOLD)), (2,), place + "{}", type=WHOLE_NUMBERS, optional=True))


def _over(curves, axes: tuple[str, ...], pattern: str = "{}", endings: tuple[str, ...] = ("",), **options) -> tuple[Dataset, ...]:
    return tuple(Dataset(pattern.format(curve.name + ending), (*axes, *curve.axes), **options) for curve in curves
                 for ending in endings)


NETWORK_LAYOUTS = {
    "theory": FileLayout(
        (Dataset("t", ("time",), TIMES), *_over(_CURVES, ("time",), endings=("", "_error")),
         *_over(_CURVES, ("replica", "time"), "replicas/{}"),
         *(one for what in TOLD for one in _over(_CURVES, ("time",), f"{what}/{{}}", ("", "_error"), group=what)),
         Dataset("kernels/t", ("saved",), TIMES), Dataset("kernels/t_last", ("saved",)),
         *each(with_errors(KERNELS), _PAIR, "kernels/{}"), *_sums("state/")),
        (Attribute("outcome", "text", optional=False), Attribute("outcomes", "text", axis="replica")), {"time": 2, "saved": 2}),
    "theory checkpoint": FileLayout(
        (*_over(_SOLVED, ("time",), "active/{{i}}/whole/shared/curves/{}"),
         *each(KERNELS, _PAIR, "active/{{i}}/whole/shared/kernels/{}"),
         *_over(_SOLVED, ("finished", "time"), "finished/replicas/{}", group="finished"), *_sums("finished/state/")),
        PROGRESS, {"finished": 0}),
    "simulation": FileLayout(
        (Dataset("t", ("time",), TIMES),
         *_over([curve for curve in NETWORK if curve.simulation], ("instance", "time")),
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
         Dataset("active/{i}/instances/own/s", ("instance", "byte"), BYTES)),
        PROGRESS, {"byte": 0}),
}
