"""The simulator on a GPU against that on the CPU: the same mini-batches, data and noise, so the same curves up to
rounding. Without a GPU its sources are compiled for the host and tested all the same."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import sgd_sim
from dmft.core.errors import RunError
from dmft.model.losses import register_loss
from dmft.model.runfile import Run, parse_run
from sgd_sim.cli import main
from sgd_sim.cpu.trajectory import InstanceTrajectory
from sgd_sim.gpu.trajectories import LAUNCH_STEPS, GpuTrajectories, gpu_batches
from sgd_sim.states import States, empty_states
from tests.cards import Changed
from tests.marks import slow, with_slow
from tests.run_files import run_text

pytestmark = pytest.mark.gpu

PERSISTENT = {"kind": "persistent_sgd", "batch_fraction": 0.5, "persistence": 0.1}
SGD = {"kind": "sgd", "batch_fraction": 0.4}
TWO = {"loss": "logistic", "data": "mixture", "clusters": ((1, 0.3, 1, 0.5), (-1, 0.7, -1, 1.5))}
DOOR = {"loss": "door", "data": "mixture", "clusters": ((0, 0.5, -1, 0.25), (1, 0.25, 1, 0.25), (-1, 0.25, 1, 0.25))}
CASES = {
    "gd": {},
    "bernoulli": SGD,
    "without_replacement": {**SGD, "minibatch": "without_replacement"},
    "with_replacement": {**SGD, "minibatch": "with_replacement"},
    "persistent": PERSISTENT,
    "langevin": {"kind": "langevin", "temperature": [[0.0, 0.5], [0.06, 0.0]]},
    "both noises, not rescaled": {**PERSISTENT, "temperature": 0.3, "rescale_gradient": False},
    "ridge": {"constraint": "ridge", "ridge": 0.4, "m0": -0.3},
    "random start": {"start": "random"},
    "float16": {**PERSISTENT, "precision": "float16"},
    "a row for all warps": {"dimension": 1030, "alpha": 0.1, "t_max": 0.06, "record": [0.04]},
    "the paper's start": {"start_overlap": "iid"},
    "linear": {"loss": "linear"},
    "noisy magnitudes": {"label_noise": 0.2},
    "noisy squares": {"labels": "square", "label_noise": 0.3, **SGD},
    "noisy fields": {"loss": "linear", "label_noise": 0.5, "constraint": "ridge", "ridge": 0.2},
    "flipped signs": {"loss": "logistic", "flip": 0.1, **PERSISTENT},
    "noisy signs": {"loss": "smooth_hinge", "label_noise": 0.3, "temperature": 0.2, "kind": "langevin"},
    "signs in float16": {"loss": "logistic", "flip": 0.1, "precision": "float16"},
    "two clusters, intercept": {**TWO, "bias": True, "constraint": "ridge", "ridge": 0.3, **PERSISTENT},
    "two clusters, intercept, a row for all warps": {**TWO, "bias": True, "dimension": 1030, "alpha": 0.3, "t_max": 0.06,
                                                     "record": [0.04], **SGD},
    "clusters in float16": {**TWO, "bias": True, "precision": "float16"},
    "eta, T": {"kind": "langevin", "temperature": ((0.0, 0.5), (0.1, 0.0)),
               "learning_rate": {"kind": "power", "start": 0.02, "exponent": 0.5, "steps": 10.0}},
    "l, ridge": {"kind": "sgd", "batch_fraction": ((0.0, 0.3), (0.2, 0.8)), "constraint": "ridge",
                 "ridge": ((0.0, 1.0), (0.1, 0.2))},
    "l of fixed size": {"kind": "sgd", "batch_fraction": ((0.0, 0.3), (0.2, 0.8)), "minibatch": "without_replacement"},
    "jump": {**PERSISTENT, "batch_fraction": ((0.0, 0.5), (0.1, 0.25), (0.2, 0.7))},
    "relax": {**PERSISTENT, "batch_fraction": ((0.0, 0.5), (0.1, 0.25), (0.2, 0.7)), "batch_change": "relax"},
    "heavy ball": {"momentum": ((0.0, 0.8), (0.2, 0.4)), "learning_rate": 0.01, "temperature": 0.2, "kind": "langevin"},
    "nesterov": {"momentum": 0.7, "nesterov": True, **PERSISTENT},
    "nesterov, a row for all warps": {"momentum": 0.7, "nesterov": True, "dimension": 1030, "alpha": 0.1, "t_max": 0.06,
                                      "record": [0.04]},
    "reshuffled": {"kind": "sgd", "batch_fraction": 0.2, "minibatch": "reshuffled"},
    "cyclic": {"kind": "sgd", "batch_fraction": 0.2, "minibatch": "cyclic", "momentum": 0.5},
    "phases": {**TWO, "bias": True, "phase": (
        {"step": 3, "loss": "smooth_hinge"}, {"step": 9, "loss": "linear", "learning_rate": 0.01},
        {"step": 12, "loss": "logistic"})},
    "three clusters, door": {**DOOR, **SGD, "minibatch": "with_replacement"},
}
# Where nothing but the emulated card is there, the others have been through the same code.
LONG = ("both noises, not rescaled", "random start", "a row for all warps", "noisy magnitudes", "noisy squares", "noisy fields",
        "noisy signs", "signs in float16", "two clusters, intercept, a row for all warps", "clusters in float16", "eta, T",
        "l, ridge", "l of fixed size", "relax", "nesterov, a row for all warps", "phases", "three clusters, door")


def run_of(**changes) -> Run:
    """A few more steps than one launch makes, not all of them recorded; rows of more than one chunk."""
    return parse_run(run_text("gd", t_max=0.02 * (LAUNCH_STEPS + 4), problem={"alpha": 6.5, "m0": 0.3}, simulation={
        "dimension": 60, "instances": 2, "record": [0.0, 0.04, 0.02 * (LAUNCH_STEPS + 4)]})).replace(changes)


def on_gpu(run: Run, card, stops=(), instances=None, kind=GpuTrajectories) -> States:
    """All instances to the end, in one batch; with a fresh batch from what was posted at every stop."""
    states, instances = empty_states(run), np.arange(run.simulation.instances) if instances is None else np.array(instances)
    for last in (*stops, run.algorithm.steps):
        stepper = kind(run, instances, states, card)
        stepper.advance(last)
        stepper.post(states)
    return states


def on_cpu(run: Run, states: States | None = None) -> States:
    """All instances to the end, from their start or from where `states` left them."""
    states = empty_states(run) if states is None else states
    for i in range(states.step.size):
        trajectory = InstanceTrajectory(run, i, states, False)
        trajectory.advance(run.algorithm.steps)
        trajectory.post(states)
    return states


def assert_close(got: States, want: States, rounding: float = 3e-6) -> None:
    np.testing.assert_array_equal(got.s, want.s)
    np.testing.assert_array_equal((got.step, got.diverged_at), (want.step, want.diverged_at))
    np.testing.assert_allclose(got.w, want.w, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(got.b, want.b, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(got.before, want.before, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(got.curves, want.curves, rtol=rounding)


@pytest.mark.parametrize("case", with_slow(CASES, *LONG))
def test_the_gpu_does_what_the_cpu_does(card, case):
    run = run_of(**CASES[case])
    assert_close(on_gpu(run, card), on_cpu(run))


def test_a_stopped_run_goes_on_on_the_other_device(card):
    run, states = run_of(**PERSISTENT), empty_states(run_of(**PERSISTENT))
    stepper = GpuTrajectories(run, np.arange(run.simulation.instances), states, card)
    stepper.advance(3)
    stepper.post(states)
    assert_close(on_cpu(run, states), on_cpu(run))


@pytest.mark.parametrize("changes", [{}, TWO], ids=["teacher", "mixture"])
def test_data_are_those_of_the_cpu(card, changes):
    """A last bit may differ where the compilers fuse differently, and then one in 8000 may round to another float16."""
    for precision in ("float32", "float16"):
        run = run_of(precision=precision, dimension=600, alpha=0.1, instances=1, **changes)
        data = card.get(GpuTrajectories(run, np.array([0]), empty_states(run), card).data[0])[0]
        landscape = InstanceTrajectory(run, 0, empty_states(run), False).landscape
        want = landscape.data[:60, :600]
        np.testing.assert_allclose(data[:, :600].astype(np.float32), want, rtol=1e-3, atol=2e-6)
        assert np.mean(data[:, :600] == want) > 0.9 and np.all(data[:, 600:] == 0)


def test_spectral_start(card):
    """The power iterations stop within 1e-7 of each other a step, not of the eigenvector."""
    run = run_of(start="spectral", t_max=0.02, record=[0.02])
    assert_close(on_gpu(run, card), on_cpu(run), 1e-3)


@pytest.mark.parametrize("changes", [{}, {**TWO, "bias": True}, {"loss": "logistic", "flip": 0.2, "precision": "float16"}],
                         ids=["fields", "clusters", "signs"])
def test_shared_landscape(card, changes):
    run = run_of(landscape="shared", **PERSISTENT, **changes)
    want, landscape = empty_states(run), InstanceTrajectory(run, 0, empty_states(run), False).landscape
    for i in range(2):
        trajectory = InstanceTrajectory(run, i, want, False, landscape)
        trajectory.advance(run.algorithm.steps)
        trajectory.post(want)
    assert_close(on_gpu(run, card), want)


@pytest.mark.parametrize("changes", [
    slow(PERSISTENT), slow({**SGD, "minibatch": "without_replacement"}),
    {**SGD, "batch_fraction": 0.2, "minibatch": "reshuffled", "momentum": 0.6, "nesterov": True}],
    ids=["persistent", "fixed size", "epochs, nesterov"])
def test_an_instance_depends_on_itself_alone(card, changes):
    """The same bits alone, in a batch, after a stop, and whatever is recorded."""
    run = run_of(**changes)
    states = on_gpu(run, card)
    for other in (on_gpu(run, card, stops=(2, 3)), on_gpu(run, card, instances=[1])):
        np.testing.assert_array_equal(other.w[1], states.w[1])
        np.testing.assert_array_equal(other.curves[1], states.curves[1])
    np.testing.assert_array_equal(on_gpu(run.replace(record="linear"), card).w, states.w)
    with pytest.raises(AssertionError):     # another seed is another instance
        np.testing.assert_array_equal(on_gpu(run.replace({"simulation.seed": 2}), card).w, states.w)


def test_divergence_ends_one_instance(card):
    run = run_of(learning_rate=1.2, t_max=14.4, record=[0.0, 1.2, 6.0, 14.4], alpha=1.0, constraint="ridge", ridge=0.1, instances=4)
    want, got = on_cpu(run), on_gpu(run, card)
    assert (want.diverged_at > 0).any()
    np.testing.assert_array_equal(got.diverged_at, want.diverged_at)
    np.testing.assert_array_equal(got.step, want.step)
    np.testing.assert_array_equal(np.isnan(got.curves), np.isnan(want.curves))


def test_small_losses_are_right(card):
    run = run_of(m0=0.95, alpha=4.0, dimension=30, learning_rate=0.05, t_max=20.0, record=[8.0, 20.0], instances=1)
    want, got = on_cpu(run).curves[0], on_gpu(run, card).curves[0]
    assert want[1, 1] < 1e-12
    np.testing.assert_allclose(got[1], want[1], rtol=1e-3)
    np.testing.assert_allclose(1.0 - got[0], 1.0 - want[0], rtol=1e-3, atol=2e-16)


@pytest.mark.usefixtures("on_this_card")
def test_the_whole_way_and_on(card, tmp_path):
    """The command with --device gpu: what it writes is what a batch gives; more instances later are only computed themselves."""
    run = run_of(**PERSISTENT)
    (tmp_path / "a.toml").write_text(run.to_toml())
    command = ["run", str(tmp_path / "a.toml"), "-o", str(tmp_path / "a.h5"), "--device", "gpu", "--quiet"]
    assert main(command) == 0
    assert main([*command, "--resume", "--set", "simulation.instances=3"]) == 0
    want = on_gpu(run.replace({"simulation.instances": 3, "simulation.device": "gpu"}), card)
    got = sgd_sim.load(tmp_path / "a.h5").states
    np.testing.assert_array_equal(got.w, want.w)
    np.testing.assert_array_equal(got.curves, want.curves)


QUARTIC = """
template <typename real> __device__ real loss_v(real f, real y) { real d = f - y; return real(0.25) * d * d * d * d; }
template <typename real> __device__ real loss_dv(real f, real y) { real d = f - y; return d * d * d; }
template <typename real> __device__ real loss_d2v(real f, real y) { real d = f - y; return real(3) * d * d; }
template <typename real> __device__ real loss_dv_dy(real f, real y) { real d = f - y; return real(-3) * d * d; }
"""


# Compiled once, for all that are registered with them.
QUARTIC_OF_NUMBERS = [njit(f) for f in (lambda f, y: 0.25 * (f - y) ** 4, lambda f, y: (f - y) ** 3,
                                        lambda f, y: 3.0 * (f - y) ** 2)]


def quartic(name: str, cuda: str) -> str:
    register_loss(name, *QUARTIC_OF_NUMBERS, cuda=cuda)
    return name


@pytest.mark.parametrize("cuda", ["", QUARTIC], ids=["translated", "given"])
def test_a_loss_of_ones_own(card, cuda):
    """Three Python functions are enough; a CUDA source may be given all the same."""
    run = run_of(loss=quartic(f"quartic_{len(cuda)}", cuda))
    gpu_batches(run, np.arange(1), np.zeros(1), card)
    assert_close(on_gpu(run, card), on_cpu(run))


def test_the_cuda_source_of_a_loss_is_held_against_its_functions(card):
    """Before anything is computed with it, be it given or translated."""
    for name, right, wrong in (("dv", "return d * d * d;", "return d * d;"), ("d2v", "real(3)", "real(2)"),
                               ("dv_dy", "real(-3)", "real(3)"), ("v", "0.25", "0.5")):
        slip = run_of(loss=quartic(f"slip_in_{name}", QUARTIC.replace(right, wrong)))
        with pytest.raises(RunError, match=rf"loss_{name} in the CUDA source of 'slip_in_{name}' is not its {name}"):
            gpu_batches(slip, np.arange(1), np.zeros(1), card)
    with pytest.raises(RunError, match="loss_v in the CUDA source of 'mistranslated' is not its v"):
        gpu_batches(run_of(loss=quartic("mistranslated", "")), np.arange(1), np.zeros(1), Changed(card, "(f - y)", "(f + y)"))


def test_batches_hold_what_the_card_holds(card):
    run, steps = run_of(dimension=100, instances=7), np.array([0, 0, 4, 0, 0, 0, 0])
    some = Changed(card, free_bytes=lambda: 1_700_000)
    assert [batch.tolist() for batch in gpu_batches(run, np.arange(7), steps, some)] == [[0, 1, 3], [4, 5, 6], [2]]
    with pytest.raises(RunError, match="dimension = 100: an instance at alpha = 6.5 needs"):
        gpu_batches(run, np.arange(7), steps, Changed(card, free_bytes=lambda: 1000))


def test_what_a_gpu_does_not_take_is_one_line(card):
    with pytest.raises(RunError, match="at most 16384"):
        gpu_batches(run_of(dimension=20000), np.arange(1), np.zeros(1), card)
    register_loss("in_a_list", lambda f, y: [(f - y) ** 2][0], lambda f, y: 2.0 * (f - y), lambda f, y: 2.0 + 0.0 * f)
    with pytest.raises(RunError, match=r"the loss 'in_a_list': <lambda>: `\[\(f - y\) \*\* 2\]\[0\]` cannot be") as caught:
        gpu_batches(run_of(loss="in_a_list"), np.arange(1), np.zeros(1), card)
    assert "\n" not in str(caught.value)
