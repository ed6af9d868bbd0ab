"""Solutions of equal shape that go by the same launches on a card: each has the same bits as alone."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations.kernels import Wanted
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.samples import card_steps, launches
from dmft.samples.gpu import Card
from dmft.samples.sampling import PARTS, Sampling
from dmft.samples.tiling import TILING
from dmft.solvers.blocks import step_together
from dmft.solvers.march import March
from tests.dmft.samples.test_gpu_march import SMALL, problem
from tests.emulate import HostGpu

pytestmark = pytest.mark.gpu
STEPS = 16


def marches_on(cards, extra: str = "m0 = 0.4", parts=PARTS, by: Estimator = ESTIMATOR) -> list[March]:
    """Replica k of a run, on the k-th of these."""
    p, tiling = problem("persistent", STEPS, extra), SMALL if isinstance(cards[0].gpu, HostGpu) else TILING
    return [March(p, Sampling(20, 3, (k,), frozenset(parts), estimator=by), 4, Wanted.plain(STEPS), Comm(), np.float64, on, tiling)
            for k, on in enumerate(cards)]


def stepped(marches: list[March], times: int = STEPS + 1) -> list[March]:
    for _ in range(times):
        step_together(marches, Comm())
    return marches


@pytest.mark.parametrize("extra", ["m0 = 0.4", 'start = "random"'])
def test_in_company_as_alone(card, extra):
    alone = [stepped([march])[0] for march in marches_on([Card(card) for _ in range(5)], extra)]
    together = stepped(marches_on([Card(card)] * 5, extra))
    several = 2 if "random" in extra else 1  # a second one where the host does the equations
    assert len({march.company for march in together}) == several and len({march.company for march in alone}) == 5
    for one, other in zip(alone, together, strict=True):
        for name, curve in one.curves.items():
            np.testing.assert_array_equal(other.curves[name], curve, err_msg=name)
        for name, rows in one.random_start().items():
            np.testing.assert_array_equal(other.random_start()[name], rows, err_msg=name)
    assert len({march.curves["loss"][-1] for march in together}) == 5


def test_one_that_is_ahead_waits_and_one_that_ended_is_left_out(card):
    """The first has made five steps before the others begin; the last goes no further than seven."""
    want = [stepped([march])[0] for march in marches_on([Card(card) for _ in range(5)])]
    first, *others = got = marches_on([Card(card)] * 5)
    assert len({march.company for march in got}) == 1
    stepped([first], 5)
    stepped(others, 5)
    stepped(got, 2)
    stepped(got[:4], STEPS - 6)
    for one, other in zip(want, got, strict=True):
        upto = 7 if other is got[4] else STEPS + 1
        np.testing.assert_array_equal(other.curves["m"][:upto], one.curves["m"][:upto])
        assert np.isnan(other.curves["m"][upto:]).all()


@pytest.mark.backwards
@pytest.mark.parametrize("few", [launches.FEW_CARRIERS, 0], ids=["few tangents", "many"])
def test_several_steps_a_visit_are_the_same_steps(card, monkeypatch, few):
    """Six, eight and all steps, of which at most eight are launched at a time, against one. The last visits are longer than what
    the host has pages for, which are written anew while others are collected. Few tangents and many go beside the rest in other
    ways."""
    monkeypatch.setattr(launches, "FEW_CARRIERS", few)
    want = [stepped([march])[0] for march in marches_on([Card(card) for _ in range(3)])]
    monkeypatch.setattr(card_steps, "LAUNCHED_AHEAD", 8)
    for visit, visits in ((6, 3), (8, 3), (STEPS, 2), (STEPS + 1, 1)):
        got = stepped(marches_on([Card(card, visit)] * 3), visits)
        for one, other in zip(want, got, strict=True):
            assert other.done
            for group, arrays in one.tables().items():
                for name, array in arrays.items():
                    np.testing.assert_array_equal(other.tables()[group][name], array, err_msg=name)


@pytest.mark.backwards
def test_a_solution_that_diverges_in_the_middle_of_a_visit(card):
    """It has the state that it would have if the host had looked at once; another one goes on. Two of three have sums of more than
    50, which is too large here."""
    def solved(visit: int) -> list[March]:
        marches = marches_on([Card(card, visit)] * 3, by=Estimator(largest=50.0))
        while going := [march for march in marches if not march.done]:
            step_together(going, Comm())
        return marches

    want, got = solved(1), solved(STEPS + 1)
    assert [march.n for march in want] == [7, 4, STEPS]
    for one, other in zip(want, got, strict=True):
        assert one.diverged == other.diverged == (one.n < STEPS) and one.n == other.n
        found = flatten(other.shared())
        for name, array in flatten(one.shared()).items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_stop_between_visits_changes_no_bit(card):
    """Another card goes on from what a checkpoint holds, in the middle of a history whose blocks have been merged."""
    want = stepped(marches_on([Card(card)]))[0]
    first = stepped(marches_on([Card(card, 8)]), 1)[0]
    second = marches_on([Card(card, 16)])[0]
    assert first.n == 8
    parts = first.shared(), first.per_sample(), first.per_tangent()
    second.restore(*({k: np.array(v) for k, v in flatten(part).items()} for part in parts))
    stepped([second], 1)
    assert second.done
    for name, curve in want.curves.items():
        np.testing.assert_array_equal(second.curves[name], curve, err_msg=name)


def test_sums_over_ranks_are_those_of_the_card(card):
    """Where samples are on several ranks the host adds up their sums: the same bits."""
    want = stepped(marches_on([Card(card)] * 2))
    got = marches_on([Card(card)] * 2)
    for _ in range(STEPS + 1):
        got[0].take_of(got, Comm().sums_exact(got[0].terms_of(got)))
    for one, other in zip(want, got, strict=True):
        for name, curve in one.curves.items():
            np.testing.assert_array_equal(other.curves[name], curve, err_msg=name)


@pytest.mark.parametrize("right, wrong, parts", [
    ("keys = mine(keys, 2)", "keys = keys", ("ibp",)),
    ("rates = mine(rates, 1), keys", "keys", PARTS),
    ("if (!on[blockIdx.z]) return;", "", PARTS),
], ids=["random numbers of another", "driven as another", "those that wait move on"])
def test_a_mixed_up_company_is_seen(card, right, wrong, parts):
    """Twin of both."""

    class Broken(type(card)):
        def kernels(self, text, names):
            assert right in text or "move" not in names
            return super().kernels(text.replace(right, wrong), names)

    broken = object.__new__(Broken)
    broken.__dict__.update(card.__dict__)
    want = [stepped([march], 8)[0] for march in marches_on([Card(card) for _ in range(3)], parts=parts)]
    got = marches_on([Card(broken)] * 3, parts=parts)
    stepped(got[:1], 4)
    stepped(got[1:], 4)
    stepped(got, 4)
    assert any(np.any(one.curves["m"][:8] != other.curves["m"][:8]) for one, other in zip(want, got, strict=True))
