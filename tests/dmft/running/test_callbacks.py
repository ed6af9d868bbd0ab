"""Callbacks: what they are told is what the result holds, and watching changes no number."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.model.runfile import parse_run
from tests.run_files import run_text

RUN = parse_run(run_text(t_max=0.2, theory={"samples": 64, "replicas": 2},
                         simulation={"dimension": 40, "instances": 4, "record": "linear"}))


def test_a_callback_of_solve_sees_every_step_of_every_replica():
    seen = []
    theory = dmft.solve(RUN, quiet=True, callback=seen.append)
    steps = theory.t.size
    for replica in range(2):
        mine = [each for each in seen if each.worker == replica]
        np.testing.assert_allclose([each.t for each in mine], theory.t)
        np.testing.assert_array_equal([each.m for each in mine], theory.replicas["m"][replica])
        np.testing.assert_array_equal([each.loss for each in mine], theory.replicas["loss"][replica])
    assert len(seen) == 2 * steps and [len(each.times) for each in seen[:steps]] == list(range(1, steps + 1))
    shares = [each.share for each in seen]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)
    t, m, loss, *_ = seen[-1]
    assert (t, m, loss) == (seen[-1].t, seen[-1].curves["m"][-1], seen[-1].curves["loss"][-1])
    with pytest.raises(ValueError, match="read-only"):
        seen[-1].curves["m"][0] = 0.0
    np.testing.assert_array_equal(dmft.solve(RUN, quiet=True).m, theory.m)


@pytest.mark.long
def test_a_callback_of_an_iteration_sees_every_sweep():
    seen = []
    theory = dmft.solve(RUN.replace(method="iterate", replicas=1, max_sweeps=400), quiet=True, callback=seen.append)
    assert len(seen) == len(theory.history) and seen[-1].m == theory.m[-1] != seen[0].m


def test_what_a_callback_raises_ends_the_run():
    def enough(reached):
        if reached.t > 0.1:
            raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        dmft.solve(RUN, quiet=True, callback=enough)


def test_a_callback_of_simulate_sees_the_means_of_the_instances():
    seen = []
    sim = sgd_sim.simulate(RUN, callback=seen.append)
    last = seen[-1]
    np.testing.assert_array_equal(last.curves["m"], sim.m)
    np.testing.assert_allclose(last.times, sim.t)
    assert (last.m, last.loss) == pytest.approx((sim.mean().m[-1], sim.mean().loss[-1])) and last.share == 1.0
    np.testing.assert_array_equal(sgd_sim.simulate(RUN).m, sim.m)
