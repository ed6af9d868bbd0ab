"""The package against the exact answers of the linear loss: [lin-volterra] and [lin-enumerate], every law of the mini-batches.

m, q, loss, delta_nu, mu and all entries of C, R, M_C and M_R at once, with bounds by chance (tests/exact/package.py). The twin of a
case is the answer to another question, which must be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from dmft.equations.history import History
from tests.exact import laws, lin_volterra, quadratic
from tests.exact.package import disagreements, iterate, march, solutions
from tests.exact.setting import Answer, Setting
from tests.solver_cases import make_run

pytestmark = pytest.mark.statistical
SLOW = pytest.mark.slow  # a cheaper case beside each tests the same code

ETA = 0.1
RIDGE = Setting(alpha=2.0, eta=ETA, m0=0.3, steps=10, ridge=0.2, label_noise=0.5)
SPHERE = RIDGE._replace(ridge=None)
LONG, HOT = RIDGE._replace(steps=24), {"temperature": 0.3}
SGD = {"kind": "sgd", "batch_fraction": 0.5}
LINGERS = {"kind": "persistent_sgd", "batch_fraction": 0.4, "persistence": 0.5}


class Case(NamedTuple):
    """A run, its answer, and an answer that is wrong for it."""

    algorithm: dict
    setting: Setting
    answer: Callable[[Setting], Answer]
    twin: Callable[[Setting], Answer]


def modes(law: str = "full batch", **changes: Any) -> Callable[[Setting], Answer]:
    """[lin-volterra], perhaps of another setting."""
    return lambda setting: lin_volterra.solve(setting._replace(**changes), law, 0.5)


def paths(law: Callable[[int], laws.Paths], **changes: Any) -> Callable[[Setting], Answer]:
    """[lin-enumerate]. law: of so many rows."""
    return lambda setting: quadratic.linear(setting._replace(**changes), law(setting.steps + 1))


def lingering(rows: int) -> laws.Paths:
    return laws.persistent(0.4, ETA, 0.5, rows)


CASES = {
    "gd": Case({"kind": "gd"}, LONG, modes(), modes(label_noise=0.3)),
    "langevin": Case({"kind": "langevin", **HOT}, LONG._replace(**HOT), modes(), modes(temperature=0.0)),
    "bernoulli": Case(SGD, LONG, modes("bernoulli"), modes()),
    "without replacement": Case({**SGD, "minibatch": "without_replacement"}, LONG, modes("bernoulli"),
                                modes("with_replacement")),
    "with replacement": Case({**SGD, "minibatch": "with_replacement"}, LONG, modes("with_replacement"), modes("bernoulli")),
    "persistent": Case(LINGERS, RIDGE, paths(lingering), paths(lambda rows: laws.bernoulli(0.4, rows))),
    # twin: the rates of the chain the wrong way round
    "persistent, hot": Case({**LINGERS, **HOT}, RIDGE._replace(**HOT), paths(lingering),
                            paths(lambda rows: laws.chain(0.4, 0.3, 0.2, rows))),
    "persistent, hot, sphere": Case({**LINGERS, **HOT}, SPHERE._replace(**HOT), paths(lingering),
                                    paths(lingering, temperature=0.0)),
    # twin: the factor 1/l
    "persistent, not rescaled": Case({**LINGERS, "rescale_gradient": False}, SPHERE,
                                     paths(lambda rows: laws.persistent(0.4, ETA, 0.5, rows, scale=1.0)), paths(lingering)),
    "reshuffled": Case({**SGD, "minibatch": "reshuffled"}, RIDGE, paths(lambda rows: laws.epochs(2, rows)),
                       paths(lambda rows: laws.bernoulli(0.5, rows))),
    # twins: the first rate all along, and a heat that is not lowered by the momentum
    "schedules": Case({**SGD, "learning_rate": [[0.0, ETA], [0.45, 0.05]], "t_max": 0.8, "temperature": [[0.0, 0.3], [0.25, 0.0]]},
                      RIDGE._replace(steps=11, eta=np.repeat([ETA, 0.05], [5, 6]), temperature=np.repeat([0.3, 0.0], [3, 8])),
                      paths(lambda rows: laws.bernoulli(0.5, rows)), paths(lambda rows: laws.bernoulli(0.5, rows), eta=ETA)),
    "momentum": Case({**LINGERS, **HOT, "momentum": 0.6}, RIDGE._replace(**HOT, momentum=0.6), paths(lingering),
                     paths(lingering, temperature=0.3 / 0.4)),
    "momentum, sphere": Case({"kind": "gd", "momentum": 0.6}, SPHERE._replace(momentum=0.6, steps=24), paths(laws.full_batch),
                             paths(laws.full_batch, momentum=0.55)),
    "cyclic": Case({"kind": "sgd", "batch_fraction": 0.25, "minibatch": "cyclic"}, SPHERE,
                   paths(lambda rows: laws.epochs(4, rows, cyclic=True)), paths(lambda rows: laws.epochs(4, rows))),
}


def run_of(case: Case):
    problem = {"loss": "linear", "alpha": case.setting.alpha, "m0": case.setting.m0, "label_noise": case.setting.label_noise}
    if case.setting.ridge is not None:
        problem |= {"constraint": "ridge", "ridge": case.setting.ridge}
    return make_run(case.algorithm, problem, steps=case.setting.steps, eta=ETA)


@pytest.mark.parametrize("name", CASES)
def test_march(name):
    case = CASES[name]
    found = solutions(run_of(case), 24, 512)
    assert disagreements(found, case.answer(case.setting)) == []
    assert disagreements(found, case.twin(case.setting))


@pytest.mark.parametrize("name", [name if name in ("bernoulli", "persistent") else pytest.param(name, marks=SLOW)
                                  for name in CASES])
def test_march_without_variance_reduction(name):
    case = CASES[name]
    found = solutions(run_of(case), 24, 1024, parts=())
    assert disagreements(found, case.answer(case.setting)) == []
    assert disagreements(found, case.twin(case.setting))


@pytest.mark.long
@pytest.mark.parametrize("name", ["persistent", pytest.param("cyclic", marks=SLOW)])
def test_iteration(name):
    case = CASES[name]
    found = solutions(run_of(case), 12, 256, iterate)
    assert disagreements(found, case.answer(case.setting)) == []
    assert disagreements(found, case.twin(case.setting))


@pytest.mark.gpu
@pytest.mark.parametrize("per_level", [None, pytest.param(2, marks=SLOW)], ids=["full", "dyadic"])
def test_card(card, per_level):
    case = CASES["persistent"]
    found = solutions(run_of(case), 12, 96, march(per_level, card))
    assert disagreements(found, case.answer(case.setting)) == []
    assert disagreements(found, case.twin(case.setting))


@pytest.mark.long
@pytest.mark.parametrize("name, per_level", [("bernoulli", 4), ("langevin", 4), pytest.param("bernoulli", 3, marks=SLOW),
                                             pytest.param("with replacement", 4, marks=SLOW)])
def test_dyadic_history(name, per_level):
    """Far more steps than blocks: curves, and columns at waiting steps. m of Langevin dynamics has no noise, and is off by what
    merging does to it (next tests), and so is R. With 2 blocks R is off by more than its noise."""
    case = CASES[name]._replace(setting=CASES[name].setting._replace(steps=80))
    found = solutions(run_of(case), 16, 256, march(per_level))
    assert found.single.sum() > 300
    assert disagreements(found, case.answer(case.setting), exact=2e-3) == []
    assert disagreements(found, case.twin(case.setting), exact=2e-3)


def test_merged_blocks_cost_little(monkeypatch):
    """m of gradient descent has no noise here, so that one small march shows what blocks do to it: an error of 8.6e-6, 4.2e-7
    and 1.3e-7 with 4, 8 and 16 blocks of a level; bounds are twice that. Twin: means over blocks alone, without the slopes inside
    them, err by 9.0e-5, 2.3e-5 and 4.1e-6."""
    case = CASES["gd"]._replace(setting=LONG._replace(steps=120))
    exact, run = case.answer(case.setting).m, run_of(case)

    def errors() -> np.ndarray:
        return np.array([np.abs(solutions(run, 2, 64, march(blocks)).values["m"] - exact).max() for blocks in (4, 8, 16)])

    right, bound = errors(), np.array([1.7e-5, 8.4e-7, 2.6e-7])
    assert np.all(right < bound)
    monkeypatch.setattr(History, "slopes", False)
    assert np.all(errors() > 2 * bound)


def test_merged_blocks_cost_columns_of_the_response_little():
    """R(t, t_w) of gradient descent has no noise either. It jumps at t_w, so that slopes inside blocks do not help: errors of
    7.5e-3, 8.7e-4, 2.2e-4 and 5.2e-5 with 2, 4, 8 and 16 blocks of a level, right after t_w; bounds are twice that. Twin: half the
    blocks."""
    case = CASES["gd"]._replace(setting=LONG._replace(steps=80))
    exact, run = case.answer(case.setting).R, run_of(case)
    right = np.array([np.nanmax(np.abs(solutions(run, 2, 64, march(blocks)).values["R"] - exact)[:, np.tri(len(exact), dtype=bool)])
                      for blocks in (2, 4, 8, 16)])
    bound = np.array([1.5e-2, 1.75e-3, 4.4e-4, 1.05e-4])
    assert np.all(right < bound) and np.all(right[:-1] > bound[1:])


def _reversed(row: np.ndarray) -> np.ndarray:
    """The steps that have been, the last one first."""
    used = np.count_nonzero(row)
    return np.append(row[:used][::-1], row[used:])


BROKEN = {
    "memory left out": lambda row: row._replace(K_R=0 * row.K_R),
    "memory in the wrong order": lambda row: row._replace(K_R=_reversed(row.K_R)),
    "noise of mini-batches drawn with replacement": lambda row: row._replace(M_C_now=1.5 * row.M_C_now),
    "multiplier without alpha": lambda row: row._replace(delta_nu=0.5 * row.delta_nu),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_march_is_seen(other_rows, name):
    """Twins in the package: the same comparison, with one line of physics broken."""
    other_rows(BROKEN[name])
    case = CASES["bernoulli"]
    assert disagreements(solutions(run_of(case), 12, 256), case.answer(case.setting))
