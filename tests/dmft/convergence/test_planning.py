"""How many samples an accuracy takes: noise and bias apart, from a theory that is there."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.convergence.planning import Accuracy, Target, accuracy, pilot_of, plan, replicas_for_target
from dmft.core.errors import UserError


def test_targets():
    assert Target.parse("m:0.2%@5") == ("m", 0.002, True, 5.0) and Target.parse("loss:1e-3@0.5") == ("loss", 1e-3, False, 0.5)
    for wrong in ("m", "m:0.2", "m:0@5", "m:0.1@0", "m:a@5", "m:1%@-1"):
        with pytest.raises(UserError, match="--target"):
            Target.parse(wrong)


@pytest.mark.parametrize(("spread", "bias"), [(0.01, 0.0), (0.01, 0.02), (1e-4, 0.02), (0.2, 1e-4)])
def test_a_plan_keeps_what_it_promises(spread, bias):
    """Noise and bias, by the laws 1/sqrt(K R) and 1/K, are within the target together; twin: half the samples are not, where the
    bias asks for them, and half the replicas where the noise does."""
    known, target = Accuracy(0.5, spread, bias, 0.1 * bias, 1000, 8), Target("m", 0.002, False, 1.0)
    found = plan(known, target)
    total = lambda K, R: np.hypot(1.2 * bias * 1000 / K, spread * (1000 / K / R) ** 0.5)  # noqa: E731
    assert total(found.samples, found.replicas) <= 0.002 * 1.0001
    assert found.noise == pytest.approx(spread * (1000 / found.samples / found.replicas) ** 0.5)
    if found.samples > 2000:
        assert 1.2 * bias * 1000 / (0.5 * found.samples) > 0.5 * 0.002
    if found.replicas > 4:
        assert total(found.samples, found.replicas / 2) > 0.002


def test_what_a_theory_knows(results):
    """Value, scatter of a replica and bias are those of the file; a relative target is one of the value."""
    theory = results.result
    known = accuracy(theory, Target("m", 0.01, True, 0.4))
    assert known.value == theory.m[-1] and known.spread == pytest.approx(theory.replicas["m"][:, -1].std(ddof=1))
    assert known.bias == theory.bias["m"][-1] and known.samples == 200
    assert plan(known, Target("m", 0.01, True, 0.4)).wanted == pytest.approx(0.01 * theory.m[-1])
    for wrong in (Target("energy", 0.1, False, 0.4), Target("m", 0.1, False, 9.0)):
        with pytest.raises(UserError, match="--target"):
            accuracy(theory, wrong)
    with pytest.raises(UserError, match="beyond algorithm.t_max"):
        pilot_of(results.run, Target("m", 0.1, False, 9.0))
    assert pilot_of(results.run, Target("m", 0.1, False, 0.2)).algorithm.t_max == 0.2


def test_replicas_that_a_target_error_takes(results):
    """The error falls as 1/sqrt(replicas samples) from that of the pilot, the bias as 1/samples; never fewer than asked for."""
    worst, pilot = float(np.max(results.result.m_error)), results.result
    for factor, samples, wanted in ((0.5, 200, 16), (0.5, 800, 4), (0.25, 400, 32), (2.0, 200, 4)):
        replicas, bias = replicas_for_target(results.run.replace(target_error=factor * worst, samples=samples), pilot)
        assert abs(replicas - wanted) <= 1
        assert bias <= 200 / samples * np.max(np.abs(pilot.bias["m"]))
