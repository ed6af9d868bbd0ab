"""Figures 4, B.3 and B.4: scans over batch size, persistence time, temperature and learning rate."""

from __future__ import annotations

from dataclasses import replace

from reproduction.paper.figure import Panel, PaperFigure, Series, Size, scan
from reproduction.paper.learning_curves import FIG2, THREE

# Values of figure 4; l = 1, tau = 1, T = 0 and SGD are runs of figure 2, and taken from there.
BATCHES = (0.01, 0.05, 0.1, 0.3, 0.9, 0.95)
SMALL_STEPS = {0.01: 0.0025, 0.05: 0.0025, 0.1: 0.005}  # learning rates of the caption
PERSISTENCES = (0.05, 0.1, 0.5, 1.0, 2.0, 5.0)
TEMPERATURES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
COOLING = 700.0


def _batches() -> list[Series]:
    return [Series(f"batch_{ell:g}", "batch_size", rf"$\ell = {ell:g}$",
                   {"algorithm.batch_fraction": ell, "algorithm.learning_rate": SMALL_STEPS.get(ell, 0.01)},
                   shade, theory=ell >= 0.3)
            for ell, shade in zip(BATCHES, scan(len(BATCHES)))]


def _persistences(run: str, values: tuple[float, ...]) -> list[Series]:
    return [Series(f"persistence_{tau:g}", run, rf"$\tau = {tau:g}$", {"algorithm.persistence": tau}, shade)
            for tau, shade in zip(values, scan(len(values)))]


def _temperatures() -> list[Series]:
    return [Series(f"temperature_{T:g}", "temperature", f"$T = {T:g}$", _schedule(T), shade)
            for T, shade in zip(TEMPERATURES, scan(len(TEMPERATURES)))]


def _schedule(temperature: float, cooling: float = COOLING) -> dict[str, object]:
    return {"algorithm.temperature": [[0.0, temperature], [cooling, 0.0]]}


_SHARED_GD, _SHARED_SGD, _SHARED_TAU = (replace(one, of=FIG2) for one in THREE)
_LEFT_PANEL, _RIGHT = _batches(), _temperatures()
_CENTRE = [replace(_SHARED_TAU, label=one.label, shade=one.shade) if tau == 1.0 else one
           for tau, one in zip(PERSISTENCES, _persistences("persistence", PERSISTENCES))]
_FOUR = (("left: batch size, $\\tau = 1$", [*_LEFT_PANEL, _SHARED_GD]),
         ("centre: persistence, $\\ell = 0.5$", [*_CENTRE, _SHARED_SGD]), ("right: temperature", [_SHARED_GD, *_RIGHT]))
# How far the theory goes that does not go to the end: to where m = 1, or until its band of two errors is wider than 0.02.
_THEORY_ENDS = {**dict.fromkeys(("batch_0.3", "persistence_0.5", "persistence_2", "persistence_5"), 200.0),
                **dict.fromkeys(("batch_0.9", "batch_0.95", "persistence_0.05", "persistence_0.1"), 300.0)}


def _cooled_at(cooling: float) -> dict[str, dict[str, object]]:
    """A shorter run cools earlier."""
    return {series.name: _schedule(T, cooling) for series, T in zip(_RIGHT, TEMPERATURES)}


FIG4 = PaperFigure(
    "fig4", "median overlap and loss over batch size (left), persistence time (centre), temperature (right)",
    series=(*_LEFT_PANEL, *_CENTRE, _SHARED_SGD, _SHARED_GD, *_RIGHT),
    panels=(
        *(Panel(title, tuple(s.name for s in group), statistic="median") for title, group in _FOUR),
        *(Panel("", tuple(s.name for s in group), "loss", "median", log_y=True, legend=False) for _, group in _FOUR),
    ),
    columns=3,
    sizes={
        "quick": Size({"simulation.dimension": 200, "simulation.instances": 24, "algorithm.t_max": 100.0},
                      {"theory.samples": 2000, "theory.replicas": 3, "theory.blocks_per_level": 8, "algorithm.t_max": 0.5},
                      by_series=_cooled_at(70.0)),
        "standard": Size({"simulation.dimension": 500, "simulation.instances": 24, "algorithm.t_max": 200.0},
                         {"theory.samples": 4000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 1.0},
                         by_series=_cooled_at(140.0)),
        "full": Size(theory={"theory.samples": 32_768, "theory.replicas": 8},
                     theory_by_series={**{name: {"algorithm.t_max": end} for name, end in _THEORY_ENDS.items()},
                                       **{one.name: {"theory.samples": 16_384} for one in _RIGHT}}),
    },
    note="Batches of 0.1 and below: learning rate 0.005 and 0.0025, as in the paper; no theory there.",
)

RATES = (0.01, 0.001, 0.0005, 0.0001)
_RATE_KINDS = (("gd", "GD"), ("sgd", "SGD"), ("persistent_sgd", "persistent SGD"))


def _rate(run: str, label: str, eta: float, tint: float) -> Series:
    return Series(f"{run}_eta{eta:g}", run, rf"{label}, $\eta = {eta:g}$", {"algorithm.learning_rate": eta}, tint=tint)


_COARSE = (0.01, 0.0025)  # learning rates of the smaller versions
_TINTS = {0.01: 0.45, 0.0025: 0.9, 0.001: 0.7, 0.0005: 0.85, 0.0001: 1.0}
_RATE_SERIES = tuple(_rate(run, label, eta, tint) for run, label in _RATE_KINDS for eta, tint in _TINTS.items())


def _with_rates(rates: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{run}_eta{eta:g}" for run, _ in _RATE_KINDS for eta in rates)


FIGB3 = PaperFigure(
    "figB3", "learning-rate scan: SGD tends to GD, persistent SGD does not",
    series=_RATE_SERIES,
    panels=(Panel("", tuple(s.name for s in _RATE_SERIES)),
            Panel("", tuple(s.name for s in _RATE_SERIES), "loss", legend=False)),
    columns=2,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 40, "algorithm.t_max": 3.0},
                      {"theory.samples": 2000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 0.5},
                      only=_with_rates(_COARSE)),
        "standard": Size({"simulation.dimension": 500, "simulation.instances": 50, "algorithm.t_max": 5.0},
                         {"theory.samples": 8000, "theory.replicas": 4, "theory.blocks_per_level": 8, "algorithm.t_max": 1.0},
                         only=_with_rates((0.01, 0.0025, 0.001))),
        "full": Size(theory={"theory.samples": 32_768}, only=_with_rates(RATES),  # 100 000 steps take a minute of a card and more
                     theory_by_series={name: {"theory.samples": 16_384} for name in _with_rates((0.0001,))}),
    },
)

_SINGLE = _persistences("persistent_sgd", (0.05, 0.5, 2.0, 5.0))
FIGB4 = PaperFigure(
    "figB4", "single runs of persistent SGD at several persistence times",
    series=tuple(_SINGLE),
    panels=tuple(Panel(s.label, (s.name,), statistic="instances", legend=k == 0) for k, s in enumerate(_SINGLE)),
    columns=2,
    sizes={
        "quick": Size({"simulation.dimension": 300, "simulation.instances": 24, "algorithm.t_max": 100.0}, None),
        "standard": Size({"simulation.dimension": 500, "simulation.instances": 50, "algorithm.t_max": 200.0}, None),
        "full": Size(theory=None),
    },
)
