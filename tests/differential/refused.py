"""Runs that must be refused, each for its reason: valid cases of the table in runs.py with one thing broken, in the first phase or
in a later one.

A refusal is one line of `REFUSALS`: which cases it can be tried on, what it changes, and words of the message that it expects. One
that stands in a phase is tried with the wrong phase first, and behind a harmless one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dmft
from dmft.core.errors import UserError
from tests.differential.chance import Finding
from tests.differential.plugins import BUMP, CUT_SQUARE, HINGE, HUBER
from tests.differential.runs import EPOCHS, RUNS, labels_of, text_of
from tests.differential.table import Case, Choice

Keys = dict[str, Any]
Needs = Callable[[Choice], bool]
TINY = {"theory.samples": 4, "theory.replicas": 1, "theory.method": "march", "theory.max_sweeps": 1, "theory.clones": None,
        "simulation.clones": None, "simulation.kernels": None}
HARMLESS = {"step": 2, "temperature": 0.1}


@dataclass(frozen=True)
class Refusal:
    """One reason. words: what the message must match; needs: of the options of a case; keys: what is changed (None: taken out);
    phase: the wrong phase, where the reason lies in one."""

    name: str
    words: str
    needs: Needs = lambda chosen: True
    keys: Keys = field(default_factory=dict)
    phase: dict[str, Any] | None = None


def _set(**keys: Any) -> Keys:
    return {name.replace("__", "."): value for name, value in keys.items()}


def _has(**wanted: str | tuple[str, ...]) -> Needs:
    """Cases with these options."""
    return lambda chosen: all(chosen[name] in ((option,) if isinstance(option, str) else option) for name, option in wanted.items())


def _both(*conditions: Needs) -> Needs:
    return lambda chosen: all(condition(chosen) for condition in conditions)


def _teacher(labels: str) -> Needs:
    """Data of a teacher with these labels, said in the run file or by the loss."""
    return lambda chosen: chosen["data"] == "teacher" and labels_of(chosen) == labels


_WARM = _has(start=("warm", "against", "zero"))
_SIGNS = _both(_teacher("sign"), _WARM)
_CLUSTERS = _has(data=("two clusters", "three clusters"))
_NAMELESS = _has(loss=BUMP, data="teacher", labels="by the loss")
_PERSISTENT = _has(algorithm="persistent_sgd")


# Options of a single unit that a network or a closed model would have no use for.
PLAIN = {name: RUNS.defaults[name] for name in (
    "data", "labels", "label noise", "flip", "constraint", "start", "start overlap", "momentum", "observable", "two times",
    "snapshots", "clones", "phase", "method", "estimator")}


def _plain(chosen: Choice) -> bool:
    return PLAIN.items() <= chosen.items() and chosen["algorithm"] in ("gd", "langevin")


# A case of a single unit as one of a network, or of a closed model.
UNITS = _set(network__units=2, problem__m0=[[0.3], [0.1]], problem__loss=None)
ENERGY = _set(problem__data="p_spin", problem__powers=[[3, 1.0]], problem__alpha=None, problem__loss=None, problem__m0=0.1)


def _in_epochs(chosen: Choice) -> bool:
    return chosen["mini-batch"] in EPOCHS


REFUSALS = (
    # a slope that jumps
    Refusal("hinge", "derivative dv jumps", _SIGNS, _set(problem__loss=HINGE)),
    Refusal("phase to a hinge", "derivative dv jumps", _SIGNS, phase={"loss": HINGE}),
    # a random start and the sign of the teacher
    Refusal("random start with a loss that tells the sign", "give away the sign of h0",
            _has(start="random", data="teacher", labels="by the loss", phase=("none", "rate", "heat")),
            _set(problem__loss=HUBER, problem__label_noise=None)),
    Refusal("random start, then a loss that tells the sign", "give away the sign of h0",
            _has(start="random", data="teacher", labels="field"), phase={"loss": "linear"}),
    Refusal("random start by iteration", "no fluctuations of m", _has(start="random"), _set(theory__method="iterate")),
    Refusal("random start with an intercept", "breaks the symmetry",
            _both(_has(start="random", data="three clusters", momentum="none"), lambda chosen: chosen["phase"] != "momentum"),
            _set(problem__bias=True)),
    Refusal("random start with Nesterov", "no fluctuations of m yet", _has(start="random", momentum=("heavy ball", "jumps")),
            _set(algorithm__nesterov=True)),
    # labels, in one phase and across phases
    Refusal("labels that the loss has no sense for", "makes sense with labels",
            _both(_WARM, _has(loss=("logistic", "smooth_hinge"), data="teacher", flip="none", phase="none")),
            _set(problem__labels="field")),
    Refusal("phase to a loss that has no sense for the labels", "makes sense with labels", _both(_teacher("field"), _WARM),
            phase={"loss": "logistic"}),
    Refusal("phase to a loss made for other labels", "made for labels abs",
            _both(_WARM, _has(data="teacher", loss=CUT_SQUARE, labels="by the loss")), phase={"loss": "phase_retrieval"}),
    Refusal("labels nobody names, then logistic", "made for labels sign", _both(_WARM, _NAMELESS), phase={"loss": "logistic"}),
    Refusal("magnitudes, then a loss that wants signs", "tell no sign",
            _both(_teacher("abs"), lambda chosen: chosen["start"] != "random"), phase={"loss": HUBER}),
    Refusal("noise on labels nobody names", "does not say what its labels are", _both(_WARM, _NAMELESS),
            _set(problem__label_noise=0.1)),
    Refusal("flips without signs", "only labels = .sign. have a sign to flip", _teacher("field"), _set(problem__flip=0.1)),
    Refusal("phase retrieval of clusters", "no use for the sign of a label", _both(_CLUSTERS, _has(phase="none")),
            _set(problem__loss="phase_retrieval")),
    Refusal("clusters, then phase retrieval", "no use for the sign of a label", _CLUSTERS, phase={"loss": "phase_retrieval"}),
    Refusal("door of a teacher", "made for clusters", _both(_SIGNS, _has(phase="none")), _set(problem__loss="door")),
    Refusal("a teacher, then a door", "made for clusters", _SIGNS, phase={"loss": "door"}),
    Refusal("unknown loss", "unknown loss 'hing'", keys=_set(problem__loss="hing")),
    Refusal("phase to an unknown loss", r"\[\[phase\]\] \d: loss = .hing.: unknown loss 'hing'", phase={"loss": "hing"}),
    # starts
    Refusal("spectral start of signs", "built for labels abs or field", _both(_SIGNS, _has(start="warm")),
            _set(problem__start="spectral", problem__m0=None, problem__start_variance=None, problem__start_overlap=None)),
    Refusal("spectral start with a variance", "start_variance' is not used",
            _both(_has(start="spectral"), lambda chosen: chosen["constraint"] != "sphere"), _set(problem__start_variance=0.5)),
    Refusal("warm start without m0", "m0", _has(start=("warm", "against")), _set(problem__m0=None)),
    # algorithms
    Refusal("intercept with momentum", "no intercept is learnt with momentum", _has(intercept="learnt"),
            _set(algorithm__momentum=0.3)),
    Refusal("intercept, later momentum", "no intercept is learnt with momentum", _has(intercept="learnt"), phase={"momentum": 0.3}),
    Refusal("Nesterov without momentum", "nesterov",
            _both(_has(momentum="none"), lambda chosen: chosen["phase"] != "momentum"), _set(algorithm__nesterov=True)),
    Refusal("epochs of broken length", "whole number E", _in_epochs, _set(algorithm__batch_fraction=0.3)),
    Refusal("epochs, later of broken length", "whole number E", _in_epochs, phase={"batch_fraction": 0.3}),
    Refusal("chain that is too fast", "switching probabilities", _PERSISTENT, _set(algorithm__persistence=1e-3)),
    Refusal("chain that gets too fast", "switching probabilities", _PERSISTENT, phase={"persistence": 1e-3}),
    Refusal("mini-batches of gradient descent", "batch_fraction' is not used", _has(algorithm="gd"),
            _set(algorithm__batch_fraction=0.5)),
    Refusal("later mini-batches of gradient descent", r"phase\]\] \d: key 'batch_fraction' is not used", _has(algorithm="gd"),
            phase={"batch_fraction": 0.5}),
    Refusal("later persistence of plain SGD", r"phase\]\] \d: key 'persistence' is not used", _has(algorithm="sgd"),
            phase={"persistence": 1.0}),
    Refusal("ridge on the sphere", "ridge' is not used", _has(constraint="sphere"), _set(problem__ridge=0.5)),
    Refusal("later ridge on the sphere", r"phase\]\] \d: key 'ridge' is not used", _has(constraint="sphere"), phase={"ridge": 0.5}),
    Refusal("Langevin dynamics without heat", "temperature", _has(algorithm="langevin"), _set(algorithm__temperature=None)),
    # what looks at a run
    Refusal("hessian without snapshots", "list their times in", _has(snapshots="none"), _set(theory__hessian=True)),
    Refusal("clones of an iteration", "has no pairs of samples", _has(start="warm", snapshots="none"),
            _set(theory__clones=True, theory__method="iterate")),
    Refusal("clones that look ahead", "not with nesterov", _has(intercept="none", start="warm", method=("full", "dyadic")),
            _set(theory__clones=True, algorithm__momentum=0.5, algorithm__nesterov=True)),
    Refusal("snapshots of an iteration", "snapshots", _has(snapshots=("fields", "hessian"), start="warm"),
            _set(theory__method="iterate")),
    Refusal("pairs of times with Nesterov", "of the point ahead", _has(momentum="nesterov"),
            _set(simulation__kernels=True, theory__waiting_times=[0.0])),
    Refusal("unknown observable", "observables", keys=_set(theory__observables=["diff_nothing"])),
    Refusal("snapshots after the end", "snapshots", keys=_set(theory__snapshots=[0.0, 1e6])),
    Refusal("start overlap under a ridge", "start_overlap' is not used",
            _both(_has(start="warm"), lambda chosen: chosen["constraint"] != "sphere"), _set(problem__start_overlap="iid")),
    # networks and closed models: valid runs of their own
    *(Refusal(f"network, {name}", words, _plain, {**UNITS, **keys}) for name, words, keys in (
        ("signs", "made for labels", _set(problem__loss="logistic")),
        ("snapshots", "fields of a single unit", _set(theory__snapshots=[0.0])),
        ("iterate", "solved by the march", _set(theory__method="iterate")),
        ("temperatures", "single unit", _set(theory__fdt=True)),
        ("start", "is not used with", _set(problem__start="random")))),
    *(Refusal(f"closed, {name}", words, _plain, {**ENERGY, **keys}) for name, words, keys in (
        ("mini-batches", "draw mini-batches from", _set(algorithm__kind="sgd", algorithm__batch_fraction=0.5)),
        ("ridge", "live on the sphere", _set(problem__constraint="ridge", problem__ridge=0.1)),
        ("snapshots", "no samples", _set(theory__snapshots=[0.0])),
        ("iterate", "nothing is sampled", _set(theory__method="iterate")),
        ("random start", "must be warm", _set(problem__start="random", problem__m0=None)),
        ("two energies", "give one of the two", _set(problem__Delta_2=0.5)),
        ("alpha", "alpha' is not used", _set(problem__alpha=1.0)))),
    # phases and schedules by themselves
    Refusal("phase that changes nothing", "changes nothing", phase={}),
    Refusal("phase with a key of its own", "did you mean|one of", phase={"eta": 0.1}),
    Refusal("phase that goes below zero", "must be", phase={"temperature": -0.1}),
    Refusal("phase after the end", "does not begin before t_max", keys=_set(phase=[{"step": 10**6, "temperature": 0.1}])),
    Refusal("phase without a step of its own", "at least one step",
            keys=_set(phase=[{"step": 3, "temperature": 0.1}, {"step": 3, "temperature": 0.2}])),
    Refusal("schedule that does not begin at 0", "schedule", keys=_set(algorithm__learning_rate=[[0.1, 0.02]])),
)


def case_for(refusal: Refusal, seed: int, index: int) -> Case:
    """A valid case that the refusal can be tried on."""
    rng = np.random.default_rng([seed, index])
    for _ in range(100_000):
        drawn = RUNS.draw(rng)
        for choice in (drawn, drawn | PLAIN):       # a plain case comes by chance hardly ever
            if refusal.needs(choice) and RUNS.valid(choice):
                return Case(RUNS, seed, index, choice)
    raise AssertionError(f"no case for {refusal.name!r}")


def broken(refusal: Refusal, case: Case) -> str:
    """The run file of a case with one thing wrong."""
    keys = case.keys | TINY
    if refusal.phase is not None:
        wrong = {"step": 5, **refusal.phase}
        keys["phase"] = [wrong] if case.numbers("refused").one_of(True, False) else [HARMLESS, wrong]
    keys |= refusal.keys
    return text_of({name: value for name, value in keys.items() if value is not None})


def judge(refusal: Refusal, case: Case) -> Finding:
    """Whether parser or theory refuse it in one line with the expected words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dmft.solve(dmft.parse_run(broken(refusal, case)), quiet=True)
        except UserError as error:
            said = str(error)
        else:
            said = ""
    good = bool(said) and len(said.splitlines()) == 1 and re.search(refusal.words, said) is not None
    return Finding(0.0 if good else np.inf, 1.0, f"{refusal.name}: {said or 'not refused'}", 1)
