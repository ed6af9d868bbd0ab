"""The march on a GPU against the march on the CPU: same numbers, up to rounding. Without a GPU its sources are compiled
for the host and tested all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmft.core.parallel import Comm
from dmft.core.tree import flatten
from dmft.equations import reference
from dmft.equations.kernels import Wanted
from dmft.equations.tuning import ESTIMATOR, Estimator
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.runfile import parse_run
from dmft.samples.formulas import overshoots
from dmft.samples.sampling import PARTS, Sampling, draw
from dmft.samples.tiling import TILING, Tiling
from dmft.solvers.march import March
from tests import own_physics  # noqa: F401
from tests.emulate import COMPILER, HostGpu
from tests.marks import slow, with_slow
from tests.spoilt import spoilt_step

pytestmark = pytest.mark.gpu

ALGORITHMS = {
    "gd": 'kind = "gd"',
    "sgd": 'kind = "sgd"\nbatch_fraction = 0.5',
    "poisson": 'kind = "sgd"\nbatch_fraction = 0.5\nminibatch = "with_replacement"',
    "persistent": 'kind = "persistent_sgd"\nbatch_fraction = 0.3\npersistence = 0.3',        # not 0.5: p_on = p_off there
    "langevin": 'kind = "langevin"\ntemperature = 0.2',
}


def problem(algorithm: str, steps: int, extra: str = 'm0 = 0.4', loss: str = "phase_retrieval") -> Experiment:
    return Experiment.from_run(parse_run(f"""
[problem]
alpha = 2.0
loss = "{loss}"
{extra}
[algorithm]
{ALGORITHMS[algorithm]}
learning_rate = 0.02
t_max = {0.02 * steps}
"""))


# Few warps, and few numbers loaded at a time, so that slots and parts come in turns in a small test too.
SMALL = Tiling(own=1, ahead=2, rows_ahead=3, warps=1, row_shares=2, spread=6, equations=64)


def march_of(p: Experiment, per_level: int | None, dtype, gpu=None, parts=PARTS, samples: int = 16, carriers: int = 16,
             pairs: int = 0, tiling: Tiling | None = None, by: Estimator = ESTIMATOR) -> March:
    sampling = Sampling(samples, 3, (0,), frozenset(parts), 0.01, estimator=replace(by, least_carriers=carriers), pairs=pairs)
    tiling = tiling or (SMALL if isinstance(gpu, HostGpu) else TILING)
    return March(p, sampling, per_level, Wanted.plain(p.steps - p.hidden), Comm(), dtype, gpu, tiling)


def solved(*arguments, **options) -> March:
    march = march_of(*arguments, **options)
    while not march.done:
        march.step()
    return march


def assert_same_curves(want: March, got: March, rtol: float = 1e-8) -> None:
    for name, curve in want.curves.items():
        # The multiplier as sampled, and what a row fails the identities by, are differences of numbers of order one, divided by
        # eta: the linear loss, whose past is nearly singular, shows rounding of up to 5e-9 in them. So is nu_hat, with 1.8e-8,
        # and the correction of the multiplier, with 7e-9, for mirrored samples on an H200.
        delicate = "gap" in name or name.startswith("nu_hat") or name == "delta_nu"
        np.testing.assert_allclose(got.curves[name], curve, rtol=rtol, atol=5e-8 if delicate else 1e-9, err_msg=name)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_gpu_march_is_the_march(card, algorithm):
    p = problem(algorithm, 26)
    want, got = (solved(p, 4, np.float64, gpu) for gpu in (None, card))
    assert want.history.levels > 2
    # Without mini-batches M_C is nearly singular, and the weights of chi on its past amplify rounding.
    close = 1e-6 if algorithm in ("gd", "langevin") else 1e-8
    for name, curve in want.curves.items():
        np.testing.assert_allclose(got.curves[name], curve, rtol=close, atol=close / 10, err_msg=name)
    for name, kernel in want.kernels.items():
        np.testing.assert_allclose(got.kernels[name], kernel, rtol=10 * close, atol=close, err_msg=name)


def test_pivots_are_held_to_what_the_estimator_says_on_both(card):
    """To a tenth of the variance here, which those of gradient descent are below."""
    p, by = problem("gd", 12), Estimator(jitter=0.01, least_of_jitter=10.0)
    want, got, other = solved(p, 4, np.float64, by=by), solved(p, 4, np.float64, card, by=by), solved(p, 4, np.float64)
    assert want.weights.number("floored") == got.weights.number("floored") > 5 > other.weights.number("floored")
    assert_same_curves(want, got)


@pytest.mark.parametrize("extra, loss, parts", [
    ('constraint = "ridge"\nridge = 0.3\nm0 = 0.4', "linear", PARTS),
    ("m0 = 0.0", "phase_retrieval", PARTS),
    ("m0 = 0.4", "phase_retrieval", ()),
], ids=["ridge, linear", "mirrored", "plain"])
def test_constraints_losses_and_plain_sampling(card, extra, loss, parts):
    p = problem("persistent", 36, extra, loss)
    want, got = (solved(p, None, np.float64, gpu, parts) for gpu in (None, card))
    assert_same_curves(want, got)


TWO = 'data = "mixture"\nclusters = [[1, 0.3, 1, 0.5], [-1, 0.7, -1, 2]]\nbias = true\nconstraint = "ridge"\nridge = 0.3\nm0 = 0.4'
THREE = 'data = "mixture"\nclusters = [[0, 0.5, -1, 0.5], [1, 0.25, 1, 0.5], [-1, 0.25, 1, 0.5]]\nm0 = 0.4'


@pytest.mark.parametrize("extra, loss, pairs", [
    slow("flip = 0.1\nm0 = 0.4", "logistic", 6),
    (TWO, "smooth_hinge", 0),
    slow(THREE, "door", 0),
    slow('labels = "square"\nlabel_noise = 0.3\nm0 = 0.4', "phase_retrieval", 0),
], ids=["flips", "two clusters, bias", "three clusters", "noisy squares"])
def test_data_models(card, extra, loss, pairs):
    p = problem("persistent", 20, extra, loss)
    want, got = (solved(p, None, np.float64, gpu, pairs=pairs) for gpu in (None, card))
    assert ("b" in want.curves) == ("bias" in extra) and want.curves["mu"][5] != 0
    assert_same_curves(want, got)


def test_the_gpu_march_solves_the_equations(card):
    """Against the plain statement of the theory, which knows neither blocks nor cards."""
    p = problem("persistent", 12)
    got = solved(p, None, np.float64, card, parts=())
    sampling = Sampling(16, 3, (0,), frozenset())
    draws = draw(p, sampling, np.arange(16))
    kernels, weights, _ = reference.solve(p, draws, draws.weight / draws.weight.sum(), sampling.keys)
    np.testing.assert_allclose(got.curves["m"], weights.m, rtol=1e-9)
    np.testing.assert_allclose(got.curves["delta_nu"], kernels.delta_nu, rtol=1e-8)


CHANGING = {
    "schedules": 'kind = "persistent_sgd"\nbatch_fraction = [[0.0, 0.5], [0.2, 0.25]]\npersistence = 0.3\n'
                 "learning_rate = [[0.0, 0.02], [0.1, 0.01]]",
    "heavy ball": 'kind = "sgd"\nbatch_fraction = 0.5\nlearning_rate = 0.01\nmomentum = 0.7\ntemperature = 0.1',
    "nesterov": 'kind = "sgd"\nbatch_fraction = 0.5\nlearning_rate = 0.01\nmomentum = 0.7\nnesterov = true',
    "own rule": 'kind = "sgd"\nbatch_fraction = 0.5\nlearning_rate = 0.01\nmomentum = 0.6\nupdate = "two_shares"',
    "reshuffled": 'kind = "sgd"\nbatch_fraction = 0.25\nminibatch = "reshuffled"\nlearning_rate = 0.01',
    "cyclic": 'kind = "sgd"\nbatch_fraction = 0.25\nminibatch = "cyclic"\nlearning_rate = 0.01',
    "spectral": 'kind = "sgd"\nbatch_fraction = 0.5\nminibatch = "reshuffled"\nlearning_rate = 0.005',
}


@pytest.mark.parametrize("name", with_slow(CHANGING, "cyclic", "spectral"))
def test_settings_that_change(card, name):
    """Schedules with jumps inside the blocks, momentum, epochs, and two losses one after the other."""
    start = 'start = "spectral"' if name == "spectral" else "m0 = 0.4"
    text = f"[problem]\nalpha = 5.0\n{start}\n[algorithm]\nt_max = {0.02 if name == 'spectral' else 0.3}\n{CHANGING[name]}\n"
    p = theory_experiment(parse_run(text))
    want, got = (solved(p, 4, np.float64, gpu) for gpu in (None, card))
    assert bool(p.hidden) == (name == "spectral") and (name != "schedules" or np.count_nonzero(p.jump_n) == 2)
    for each, curve in want.curves.items():
        np.testing.assert_allclose(got.curves[each], curve, rtol=1e-6, atol=1e-7, err_msg=each)


def test_single_precision_tangents(card):
    p = problem("gd", 26)
    want, got = (solved(p, 4, np.float32, gpu) for gpu in (None, card))
    np.testing.assert_allclose(got.curves["m"], want.curves["m"], atol=1e-6)


def test_overshooting_samples_are_bounded_alike(card):
    p = replace(problem("persistent", 26), eta_n=np.full(26, 0.15))
    want, got = (solved(p, 4, np.float64, gpu) for gpu in (None, card))
    assert want.curves["unstable"][:5].max() > 0.01 and np.isfinite(want.curves["m"][:8]).all()
    np.testing.assert_allclose(got.curves["m"], want.curves["m"], rtol=1e-7)
    assert got.diverged == want.diverged


def test_what_is_no_number_is_not_bounded(card):
    """A bound would make a number of it, and nobody would see that something is wrong."""
    p = replace(problem("persistent", 26), eta_n=np.full(26, 0.15))
    want, got = (march_of(p, None, np.float64, gpu) for gpu in (None, card))
    for march in (want, got):
        march.step()
    found, on_card = map(spoilt_step, (want, got))
    assert overshoots(0.15, want.samples.fields.gp[::2]).any()
    for name, lost in found.items():
        assert lost.reshape(len(lost), -1)[::2, 0].all() and not lost[1::2].any()
        np.testing.assert_array_equal(on_card[name], lost, err_msg=name)


def test_samples_without_tangents(card):
    """A quarter of the samples carries tangents; the identity completes the response alike on both."""
    p = problem("persistent", 26)
    want, got = (solved(p, 4, np.float64, gpu, samples=32, carriers=8) for gpu in (None, card))
    assert len(want.samples.tangents.row) == 8 == got.samples.carriers
    assert_same_curves(want, got)


@pytest.mark.parametrize("own, parts", [(1, 4), (3, 2)])
def test_blocks_in_several_parts(card, own, parts):
    """Samples enough for blocks of more than one part, the last block shorter, and samples with tangents that its parts cannot
    share out evenly."""
    p = problem("persistent", 5)
    want, got = (solved(p, 4, np.float64, gpu, samples=8450, carriers=300, tiling=SMALL._replace(own=own)) for gpu in (None, card))
    assert got.blocks.total == 17 and got.samples.company.parts == parts
    for name, curve in want.curves.items():
        np.testing.assert_allclose(got.curves[name], curve, rtol=1e-8, atol=1e-9, err_msg=name)


def test_nobody_reads_what_merged_blocks_leave(card):
    """Slots of the past and rows of the tangents that hold nothing are not cleared; whatever is there, nothing changes."""
    plain, poisoned = (march_of(problem("persistent", 26), 4, np.float64, card, samples=50) for _ in range(2))
    history, samples, used = poisoned.history, poisoned.samples, 0
    while not plain.done:
        plain.step()
        poisoned.step()
        card.wait()
        empty = np.flatnonzero(history.size == 0)
        used = max(used, history.size.max())
        for array in samples.past:
            array[empty, : samples.count] = np.nan
        for slot in empty:
            samples.tangents.T[history.offset[slot] : history.offset[slot] + history.stop[slot]] = np.nan
    assert used > 2
    for name, curve in plain.curves.items():
        np.testing.assert_array_equal(poisoned.curves[name], curve, err_msg=name)


FILL = """extern "C" __global__ void fill(double *out) {
    extern __shared__ __align__(16) double shared[];
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shared[threadIdx.x];
}
"""


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA sources on the host")
def test_too_little_shared_memory_is_seen():
    """Twin of every emulated test: a kernel that is given less than it writes must fail there."""
    card = HostGpu()
    kernel, out = card.kernels(FILL, ["fill"])["fill"], card.zeros(4)
    kernel((1,), (4,), (out,), 32)
    np.testing.assert_array_equal(out, np.arange(4))
    with pytest.raises(AssertionError, match="fill wrote beyond its 24 bytes"):
        kernel((1,), (4,), (out,), 24)


NEIGHBOUR = FILL.replace("shared[threadIdx.x];\n}", "shared[threadIdx.x > 0 ? threadIdx.x - 1 : 0];\n}")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA sources on the host")
def test_a_missing_barrier_is_seen():
    """Twin of every test backwards: threads that read what their neighbours write must fail there without a barrier, which they do
    not where the neighbours come first."""
    for wrong, source in ((False, NEIGHBOUR), (True, NEIGHBOUR.replace("    __syncthreads();\n", ""))):
        for card in (HostGpu(), HostGpu(backwards=True)):
            kernel, out = card.kernels(source, ["fill"])["fill"], card.zeros(4)
            kernel((1,), (4,), (out,), 32)
            assert np.array_equal(out, [0, 0, 1, 2]) != (wrong and card.backwards)


def test_a_broken_merge_is_seen(card):
    """Twin: tangents that forget what a merged block held must change the result."""
    p = problem("gd", 26)
    want = solved(p, 4, np.float64)

    class Forgetful(type(card)):
        def kernels(self, text, names):
            broken = text.replace("moved + rows[(offset[newer] + j) * stride];",
                                  "rows[(offset[newer] + j) * stride];")
            assert broken != text or "merge_rows" not in names
            return super().kernels(broken, names)

    forgetful = object.__new__(Forgetful)
    forgetful.__dict__.update(card.__dict__)
    got = solved(p, 4, np.float64, forgetful)
    assert np.abs(got.curves["m"] - want.curves["m"]).max() > 1e-6


@pytest.mark.parametrize("name", ["persistent", "nesterov"])
@pytest.mark.parametrize("back", [False, True], ids=["card to CPU", "CPU to card"])
def test_a_checkpoint_goes_on_on_the_other_device(card, name, back):
    """In the middle of a history whose blocks have been merged, with samples for more blocks on the CPU than on the card."""
    p = problem("persistent", 26) if name == "persistent" else theory_experiment(parse_run(
        f"[problem]\nalpha = 5.0\nm0 = 0.4\n[algorithm]\nt_max = 0.26\n{CHANGING[name]}\n"))
    sampling, grid = Sampling(300, 3, (0,), frozenset(PARTS), 0.1, Estimator(least_carriers=30)), Wanted.plain(26)
    first, second = (March(p, sampling, 4, grid, Comm(), np.float64, gpu) for gpu in ((None, card) if back else (card, None)))
    assert first.blocks.total != second.blocks.total
    for _ in range(17):
        first.step()
    for _ in range(4):  # what it has done before is gone
        second.step()
    assert not any(first.samples.per_sample()[f"past/{name}"][:, first.history.size == 0].any() for name in "HGXY")
    parts = first.shared(), first.per_sample(), first.per_tangent()
    second.restore(*({k: np.array(v) for k, v in flatten(part).items()} for part in parts))
    for march in (first, second):
        while not march.done:
            march.step()
    np.testing.assert_allclose(first.curves["m"], second.curves["m"], rtol=1e-9)


@pytest.mark.parametrize("parts", [slow(PARTS), ("sobol",)], ids=["all parts", "sobol alone"])
def test_rows_of_a_random_start(card, parts):
    """Sums with the weight h0^2: on the card as on the CPU."""
    p = problem("persistent", 20, 'start = "random"')
    want, got = (solved(p, 4, np.float64, gpu, parts, carriers=8).random_start() for gpu in (None, card))
    assert np.isfinite(want["K1"]).all() and np.abs(want["K1"]).max() > 0.1
    for name, rows in want.items():
        np.testing.assert_allclose(got[name], rows, rtol=1e-7, atol=1e-7 * np.abs(rows).max(), err_msg=name)


def test_a_lost_sample_is_lost_on_both(card, redrawn):
    def tail(draws, experiment, how):
        draws.k[4] = draws.y[4] = 9.0
        draws.weight[4] = 5e-5 * draws.weight.sum()

    redrawn(tail)
    p = replace(problem("persistent", 14), eta_n=np.full(14, 0.04))
    want, got = (solved(p, 4, np.float64, gpu) for gpu in (None, card))
    assert 0.0 == want.curves["lost"][0] < want.curves["lost"][-1] < 1e-4
    assert_same_curves(want, got)


def test_a_sample_on_the_barrier_has_a_bounded_response_on_both(card, redrawn):
    """Its Y, 95 at the start, grows by a third a step there."""
    def on_barrier(draws, experiment, how):
        draws.k[4] = draws.y[4] = 6.0
        draws.h[4] = -experiment.m0 * 6.0
        draws.weight[4] = 1e-6 * draws.weight.sum()

    redrawn(on_barrier)
    p = replace(problem("gd", 26), eta_n=np.full(26, 0.01))
    marches = [march_of(p, 4, np.float64, gpu) for gpu in (None, card)]
    found = []
    for march in marches:
        march.samples.state.Y[4] = 95.0
        Y = []
        while not march.done:
            march.step()
            Y.append(march.samples.per_sample()["state/Y"][4])
        found.append(np.array(Y))
    assert found[0].max() == ESTIMATOR.y_max and found[0][-1] < ESTIMATOR.y_max
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7)
    assert_same_curves(*marches)
