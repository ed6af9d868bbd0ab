"""The features of run files of theory and simulation, as a table, and the run file of a case.

Numbers are such that nothing explodes and everything counts: steps of a few hundredths, some twenty of them; alpha is a multiple of
1/2 and mini-batches are parts of 40 samples, so that rows and batches are whole numbers in the dimensions of the judges.
"""

from __future__ import annotations

from typing import Any

from dmft.core import schema
from tests.differential.plugins import BUMP, CUT_SQUARE, HINGE, HUBER, MARGIN, PLUGINS, SOFT_ABS, WRONG_SIDE
from tests.differential.table import Case, Choice, Feature, Numbers, Option, Table

# loss: the labels it is made for
MADE_FOR = {"phase_retrieval": "abs", "linear": "field", "logistic": "sign", "smooth_hinge": "sign", "door": "sign"} | {
    name: labels for name, labels in PLUGINS.items() if name != HINGE}
SIGNS_ALONE = ("logistic", "smooth_hinge", "door")      # the losses that take no other labels
EVEN = ("phase_retrieval", SOFT_ABS)        # in the label, whatever it is
STEEP = ("phase_retrieval", CUT_SQUARE, "door")         # cubic forces: smaller steps
EPOCHS = ("reshuffled", "cyclic")
FRACTIONS = (0.2, 0.25, 0.5)                # whole parts of an epoch, and of 40 samples


def labels_of(chosen: Choice) -> str:
    """What the labels are: those of the run file, or of its first loss."""
    return MADE_FOR[chosen["loss"]] if chosen["labels"] == "by the loss" else chosen["labels"]


def _loss_goes_with_data(loss: str):
    def allowed(chosen: Choice) -> bool:
        if chosen["data"] == "teacher":
            return loss != "door"
        return loss not in ("phase_retrieval",)

    return allowed


def _labels_go_with_loss(labels: str):
    def allowed(chosen: Choice) -> bool:
        if chosen["data"] != "teacher" or chosen["loss"] in SIGNS_ALONE and labels != "sign":
            return False
        return chosen["loss"] != "phase_retrieval" or labels in ("abs", "square")

    return allowed


def _phase_loss(chosen: Choice) -> str:
    """The loss of a later phase: one that the labels of the run suit."""
    if chosen["data"] != "teacher":
        return "logistic" if chosen["loss"] != "logistic" else "smooth_hinge"
    said, labels = chosen["labels"] != "by the loss", labels_of(chosen)
    others = {"abs": ("phase_retrieval", SOFT_ABS), "square": ("phase_retrieval", CUT_SQUARE) if said else (CUT_SQUARE,),
              "field": ("linear", HUBER), "sign": ("logistic", "smooth_hinge", MARGIN), "": (BUMP, HUBER)}[labels]
    return next((loss for loss in others if loss != chosen["loss"]), chosen["loss"])


def _even_in_teacher(chosen: Choice, loss: str) -> bool:
    """Whether a sample tells nothing of the sign of h0."""
    if chosen["data"] != "teacher":
        return chosen["data"] == "three clusters"
    labels = labels_of(chosen)
    plain = chosen["label noise"] == "none" and (labels in ("", "field") or labels == MADE_FOR[chosen["loss"]] == "abs")
    return loss in EVEN or (labels in ("abs", "square") and not plain)


def _spectral(chosen: Choice) -> bool:
    return chosen["data"] == "teacher" and labels_of(chosen) in ("abs", "field")


def _when(**wanted: str | tuple[str, ...]):
    """Allowed where features have these options; an underscore stands for a blank."""
    def allowed(chosen: Choice) -> bool:
        return all(chosen[name.replace("_", " ")] in ((option,) if isinstance(option, str) else option)
                   for name, option in wanted.items())

    return allowed


def _eta(case: Case) -> float:
    if case.choice["loss"] == MARGIN and labels_of(case.choice) != "sign":      # its curvature is y^2, and labels have tails
        return case.numbers("eta").real(0.003, 0.008)
    return case.numbers("eta").real(0.015, 0.03) if case.choice["loss"] in STEEP else case.numbers("eta").real(0.03, 0.08)


def _steps(case: Case) -> int:
    return case.numbers("steps").whole(14, 22)


def _jump(key: str, low: float, high: float, steps: bool = False):
    """A schedule of two listed values, that change in the first half of the run: by time, or by step."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        at, scale = numbers.whole(3, _steps(case) // 2), _eta(case) if key == "algorithm.learning_rate" else 1.0
        values = numbers.real(low, high) * scale, numbers.real(low, high) * scale
        if steps:
            return {key: {"kind": "steps", "points": [[0, values[0]], [at, values[1]]]}}
        return {key: [[0.0, values[0]], [round(at * _eta(case), 12), values[1]]]}

    return keys


def _formula(key: str, low: float, high: float):
    """A schedule by a formula, over steps or over time."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        scale = _eta(case) if key == "algorithm.learning_rate" else 1.0
        over = {"steps": float(numbers.whole(4, 20))} if numbers.one_of(True, False) else {
            "time": round(numbers.whole(4, 20) * _eta(case), 12)}
        kind = numbers.one_of("linear", "cosine", "power")
        start, end = scale * numbers.real(low, high), scale * numbers.real(low, high)
        rest = {"exponent": numbers.real(0.2, 0.5)} if kind == "power" else {"end": end}
        return {key: {"kind": kind, "start": start, **rest, **over}}

    return keys


def _label_noise(numbers: Numbers, case: Case) -> dict[str, Any]:
    """Little of it before a spectral start, whose leading eigenvalue drowns in noise."""
    return {"problem.label_noise": numbers.real(0.05, 0.5) * (0.1 if case.choice["start"] == "spectral" else 1.0)}


def _set(**keys: Any):
    """Fixed keys; a double underscore stands for the dot."""
    return lambda numbers, case: {name.replace("__", "."): value for name, value in keys.items()}


def _real(key: str, low: float, high: float, **also: Any):
    """A number, and fixed keys beside it."""
    fixed = {name.replace("__", "."): value for name, value in also.items()}
    return lambda numbers, case: {key: numbers.real(low, high), **fixed}


def _clusters(*rows: tuple[float, float, float]):
    """Clusters (c, probability, label) with random spreads; those at c and -c are alike."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        spreads = {abs(c): numbers.real(0.3, 1.2) for c in dict.fromkeys(abs(c) for c, _, _ in rows)}
        return _plain_numbers(numbers, case) | {
            "problem.data": "mixture", "problem.clusters": [[c, share, label, spreads[abs(c)]] for c, share, label in rows]}

    return keys


def _early(key: str, first: int, **also: Any):
    """Two times in the first eight steps of the run, the first of them `first` steps after its start, and fixed keys beside."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        times = [round(step * 0.5 * _eta(case), 12) for step in (first, numbers.whole(8, 14))]
        return {key: times, **{name.replace("__", "."): value for name, value in also.items()}}

    return keys


def _fraction(numbers: Numbers, case: Case) -> dict[str, Any]:
    fraction = numbers.one_of(*FRACTIONS)
    if case.choice["algorithm"] == "persistent_sgd":
        return {"algorithm.batch_fraction": fraction, "algorithm.persistence": round(_eta(case) * numbers.whole(6, 12), 12)}
    return {"algorithm.batch_fraction": fraction}


def _fractions_change(numbers: Numbers, case: Case) -> dict[str, Any]:
    first, second = numbers.one_of((0.25, 0.5), (0.5, 0.2), (0.2, 0.5))
    at = numbers.whole(4, _steps(case) // 2)
    return _fraction(numbers, case) | {"algorithm.batch_fraction": {"kind": "steps", "points": [[0, first], [at, second]]}}


def _phase(*settings: Any):
    """A phase in the middle of the run, at a step or a time: a schedule of eta may leave three quarters of the steps.
    settings: (key, value from numbers and case)."""
    def keys(numbers: Numbers, case: Case) -> dict[str, Any]:
        step = numbers.whole(_steps(case) // 2, _steps(case) // 2 + 2)
        by_time = case.choice["rate"] == "constant" and numbers.one_of(True, False)
        where = {"begin": round(step * _eta(case), 12)} if by_time else {"step": step}
        return {"phase": [{**where, **{key: value(numbers, case) for key, value in settings}}]}

    return keys


def _two_phases(numbers: Numbers, case: Case) -> dict[str, Any]:
    """Another loss, and then other settings under it."""
    steps = _steps(case)
    return {"phase": [{"step": numbers.whole(3, steps // 2 - 1), "loss": _phase_loss(case.choice)},
                      {"step": numbers.whole(steps // 2, steps // 2 + 2), "learning_rate": numbers.real(0.3, 1.0) * _eta(case),
                       "temperature": numbers.real(0.05, 0.3)}]}


def _plain_numbers(numbers: Numbers, case: Case) -> dict[str, Any]:
    """What every run needs."""
    eta, alphas = _eta(case), (4.0, 6.0) if case.choice["start"] == "spectral" else (1.0, 1.5, 2.0, 3.0)
    return {"problem.alpha": numbers.one_of(*alphas), "algorithm.kind": case.choice["algorithm"],
            "algorithm.learning_rate": eta, "algorithm.t_max": round(_steps(case) * eta, 12),
            "theory.seed": numbers.whole(0, 10**6), "simulation.seed": numbers.whole(0, 10**6), "simulation.record": "linear"}


_NEW_LOSS = ("loss", lambda numbers, case: _phase_loss(case.choice))
_NEW_RATE = ("learning_rate", lambda numbers, case: numbers.real(0.4, 1.5) * _eta(case))
_NEW_HEAT = ("temperature", lambda numbers, case: numbers.real(0.05, 0.4))
_MINI = ("sgd", "persistent_sgd")


def _keeps_evenness(chosen: Choice) -> bool:
    """Whether a phase with another loss can be: from a random start that one must be even, too."""
    another = _phase_loss(chosen)
    return another != chosen["loss"] and (chosen["start"] != "random" or _even_in_teacher(chosen, another))


RUNS = Table("runs", (
    Feature("data", (
        Option("teacher", _plain_numbers, weight=4.0),
        Option("two clusters", _clusters((1.0, 0.4, 1.0), (-1.0, 0.6, -1.0))),
        Option("three clusters", _clusters((0.0, 0.5, -1.0), (1.0, 0.25, 1.0), (-1.0, 0.25, 1.0))),
    )),
    Feature("loss", tuple(Option(loss, _set(problem__loss=loss), _loss_goes_with_data(loss)) for loss in MADE_FOR)),
    Feature("labels", (
        Option("by the loss", weight=2.0),
        *(Option(labels, _set(problem__labels=labels), _labels_go_with_loss(labels))
          for labels in ("abs", "field", "square", "sign")),
    )),
    Feature("label noise", (
        Option("none", weight=2.0),
        Option("noisy", _label_noise, lambda chosen: chosen["data"] == "teacher" and bool(labels_of(chosen))),
    )),
    Feature("flip", (
        Option("none"),
        Option("flipped", _real("problem.flip", 0.05, 0.3),
               lambda chosen: chosen["data"] == "teacher" and labels_of(chosen) == "sign"),
    )),
    Feature("constraint", (
        Option("sphere", weight=2.0),
        Option("ridge", _real("problem.ridge", 0.1, 1.0, problem__constraint="ridge")),
        Option("ridge jumps", lambda n, c: {"problem.constraint": "ridge", **_jump("problem.ridge", 0.1, 1.0)(n, c)}),
        Option("ridge formula", lambda n, c: {"problem.constraint": "ridge", **_formula("problem.ridge", 0.1, 1.0)(n, c)}),
    )),
    Feature("start", (
        Option("warm", _real("problem.m0", 0.2, 0.7), weight=3.0),
        Option("against", _real("problem.m0", -0.6, -0.2)),
        Option("zero", _set(problem__m0=0.0)),
        Option("random", _set(problem__start="random"), lambda chosen: _even_in_teacher(chosen, chosen["loss"]), weight=3.0),
        Option("spectral", lambda n, c: {"problem.start": "spectral", "problem.preprocessing": n.one_of(
            "mondelli_montanari", "truncated", "subset")}, _spectral),
    )),
    Feature("start overlap", (
        Option("exact", weight=2.0),
        Option("iid", _set(problem__start_overlap="iid"), _when(constraint="sphere", start=("warm", "against", "zero"))),
    )),
    Feature("start variance", (
        Option("one"),
        Option("another", _real("problem.start_variance", 0.4, 1.5),
               lambda chosen: chosen["constraint"] != "sphere" and chosen["start"] != "spectral"),
    )),
    Feature("intercept", (
        Option("none"),
        Option("learnt", _set(problem__bias=True), lambda chosen: chosen["data"] != "teacher" and chosen["start"] != "random"),
    )),
    Feature("algorithm", (
        Option("gd"),
        Option("sgd", _fraction, weight=2.0),
        Option("persistent_sgd", _fraction),
        Option("langevin"),
    )),
    Feature("mini-batch", (
        Option("bernoulli"),
        *(Option(law, _set(algorithm__minibatch=law), _when(algorithm="sgd"))
          for law in ("without_replacement", "with_replacement", *EPOCHS)),
    )),
    Feature("batch", (
        Option("constant"),
        Option("changes", _fractions_change, _when(algorithm=_MINI)),
        Option("relaxes", lambda n, c: _fractions_change(n, c) | {"algorithm.batch_change": "relax"},
               _when(algorithm="persistent_sgd"), weight=2.0),
    )),
    Feature("heat", (
        Option("none", allowed=_when(algorithm=("gd", *_MINI)), weight=2.0),
        Option("constant", _real("algorithm.temperature", 0.05, 0.4)),
        Option("jumps", _jump("algorithm.temperature", 0.0, 0.5, steps=True)),
        Option("formula", _formula("algorithm.temperature", 0.05, 0.5)),
    )),
    Feature("momentum", (
        Option("none", weight=2.0),
        Option("heavy ball", _real("algorithm.momentum", 0.2, 0.7), _when(intercept="none")),
        Option("nesterov", _real("algorithm.momentum", 0.2, 0.7, algorithm__nesterov=True),
               lambda chosen: chosen["intercept"] == "none" and chosen["start"] != "random"),
        Option("jumps", _jump("algorithm.momentum", 0.1, 0.7), _when(intercept="none")),
    )),
    Feature("rate", (
        Option("constant", weight=2.0),
        Option("jumps", _jump("algorithm.learning_rate", 0.5, 1.3)),
        Option("steps", _jump("algorithm.learning_rate", 0.5, 1.3, steps=True)),
        Option("formula", _formula("algorithm.learning_rate", 0.5, 1.3)),
    )),
    Feature("rescaled", (
        Option("yes", weight=2.0),
        Option("no", _set(algorithm__rescale_gradient=False)),
    )),
    Feature("phase", (
        Option("none", weight=2.0),
        Option("loss", _phase(_NEW_LOSS), _keeps_evenness),
        Option("rate", _phase(_NEW_RATE)),
        Option("heat", _phase(_NEW_HEAT)),
        Option("ridge", _phase(("ridge", lambda n, c: n.real(0.1, 1.0))), lambda chosen: chosen["constraint"] != "sphere"),
        Option("momentum", _phase(("momentum", lambda n, c: n.real(0.1, 0.6))), _when(intercept="none")),
        Option("batch", _phase(("batch_fraction", lambda n, c: n.one_of(*FRACTIONS))), _when(algorithm=_MINI)),
        Option("loss, then rate and heat", _two_phases, _keeps_evenness),
    )),
    Feature("method", (
        Option("full", _set(theory__history="full")),
        Option("dyadic", _set(theory__history="dyadic", theory__blocks_per_level=6)),
        Option("iterate", _set(theory__method="iterate", theory__mixing=1.0, theory__tolerance=1e-12, theory__max_sweeps=80),
               lambda chosen: chosen["start"] != "random"),
    )),
    Feature("estimator", (
        Option("reduced variance", weight=3.0),
        Option("plain", _set(theory__variance_reduction=False)),
        Option("without [ibp]", _set(theory__variance_reduction=["sobol", "weights", "stein"])),
    )),
    Feature("observable", (
        Option("none", weight=2.0),
        Option("registered", _set(theory__observables=[WRONG_SIDE])),
    )),
    Feature("two times", (
        Option("none", weight=2.0),
        Option("kernels", _early("theory.waiting_times", 0, simulation__kernels=True),
               lambda chosen: chosen["momentum"] != "nesterov"),
        Option("temperatures", _early("theory.waiting_times", 0, theory__fdt=True)),
    )),
    Feature("snapshots", (
        Option("none", weight=2.0),
        Option("fields", _early("theory.snapshots", 3), lambda chosen: chosen["method"] != "iterate"),
        Option("hessian", _early("theory.snapshots", 3, theory__hessian=True), lambda chosen: chosen["method"] != "iterate"),
    )),
    Feature("clones", (
        Option("none", weight=3.0),
        Option("pairs", _set(theory__clones=True, simulation__clones=True), lambda chosen: chosen["method"] != "iterate"
               and chosen["momentum"] != "nesterov" and chosen["two times"] != "kernels"),
    )),
    Feature("landscape", (
        Option("fresh", weight=3.0),
        Option("shared", _set(simulation__landscape="shared")),
    )),
    Feature("precision", (
        Option("float32", weight=3.0),
        Option("float16", _set(simulation__precision="float16")),
    )),
))


def run_text(case: Case, **changes: Any) -> str:
    """The run file of a case; changes: keys set otherwise (None: left out), a double underscore for the dot."""
    keys = case.keys | {name.replace("__", "."): value for name, value in changes.items()}
    return text_of({name: value for name, value in keys.items() if value is not None})


def text_of(keys: dict[str, Any]) -> str:
    """A run file from {"section.key": value} and a list of phases."""
    sections: dict[str, dict[str, Any]] = {"problem": {}, "network": {}, "algorithm": {}, "theory": {}, "simulation": {}}
    for name, value in keys.items():
        if name != "phase":
            section, _, key = name.partition(".")
            sections[section][key] = value
    phases = "".join(schema.dump({}, {"phase": phase}).replace("[phase]", "[[phase]]") for phase in keys.get("phase", []))
    return schema.dump({}, {name: section for name, section in sections.items() if section}) + phases
