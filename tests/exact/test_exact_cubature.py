"""The package against [cubature]: the first rows of phase retrieval, with its curvatures of either sign, to all digits."""

from __future__ import annotations

import pytest

from dmft.samples.sampling import PARTS
from tests.exact import cubature, laws
from tests.exact.package import disagreements, iterate, march, solutions
from tests.exact.setting import Setting
from tests.solver_cases import make_run

pytestmark = pytest.mark.statistical

ETA = 0.01
SPHERE = Setting(alpha=3.0, eta=ETA, m0=0.5, steps=3)
RIDGE = SPHERE._replace(ridge=0.5)
HOT = SPHERE._replace(temperature=0.5)
LINGERS = laws.persistent(0.4, ETA, 0.04, 3)
# run, setting, law of s; then those of the twin
CASES = {
    "gd": ({"kind": "gd"}, SPHERE, laws.full_batch(3), SPHERE, laws.bernoulli(0.8, 3)),
    "langevin": ({"kind": "langevin", "temperature": 0.5}, HOT, laws.full_batch(3), SPHERE, laws.full_batch(3)),
    "bernoulli": ({"kind": "sgd", "batch_fraction": 0.4}, RIDGE, laws.bernoulli(0.4, 3), RIDGE, LINGERS),
    "persistent": ({"kind": "persistent_sgd", "batch_fraction": 0.4, "persistence": 0.04}, SPHERE, LINGERS,
                   SPHERE, laws.chain(0.4, 0.375, 0.25, 3)),
}


def run_of(name: str):
    algorithm, setting, *_ = CASES[name]
    problem = {"alpha": setting.alpha, "m0": setting.m0}
    if setting.ridge is not None:
        problem |= {"constraint": "ridge", "ridge": setting.ridge}
    return make_run(algorithm, problem, steps=3, eta=ETA)


def check(name: str, found) -> None:
    _, setting, paths, other, others = CASES[name]
    assert disagreements(found, cubature.solve(setting, paths)) == []
    assert disagreements(found, cubature.solve(other, others))


@pytest.mark.parametrize("parts", [PARTS, ()], ids=["reduced", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_march(name, parts):
    check(name, solutions(run_of(name), 24, 4096, parts=parts))


@pytest.mark.slow
def test_iteration():
    check("persistent", solutions(run_of("persistent"), 16, 2048, iterate))


@pytest.mark.gpu
@pytest.mark.slow
def test_card(card):
    check("persistent", solutions(run_of("persistent"), 12, 256, march(None, card)))
