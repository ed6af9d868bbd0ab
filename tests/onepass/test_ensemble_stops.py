"""Ensembles of onepass stop anywhere, continue to the same bits, and grow."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

import onepass
from dmft.core import store
from dmft.core.errors import Stopped, UserError
from dmft.core.stopping import EXIT_INTERRUPTED, EXIT_STOPPED
from onepass.process import Single, from_bytes, to_bytes
from onepass.request import request
from tests.marks import with_slow
from tests.small_results import StopAfter

SPHERE = onepass.QuadraticNetwork(2, 1, 0.2, 0.1, constraint="sphere")
START = {"M": [[0.3], [0.1]], "Q": [[1.0, 0.1], [0.1, 1.0]]}


def _problem(u, n):
    x = np.zeros(n)
    x[0], x[1] = u[0], np.sqrt(u[1])
    problem = onepass.Problem(lambda x, rng: x + rng.standard_normal(x.size) / np.sqrt(n),
                              lambda x: np.array([x[0], x[1:] @ x[1:]]), 1.0 / n)
    return problem, x


OWN = onepass.EffectiveDynamics({"m": (), "r2": ()}, f=lambda u: u, sgd=_problem)
SPIKED = onepass.SpikedTensor(3, 2.0)
MIXTURE = onepass.BinaryMixture(10.0, 0.1)
MODELS = {
    "quadratic": (SPHERE, START),
    "trained": (onepass.Committee("erf", 2, 1, 0.2, second_layer="trained"), START),
    "multi-index": (onepass.MultiIndexNetwork("product", 2, 2, 0.3, constraint="sphere"),
                    {"M": [[0.3, 0.1], [0.1, 0.2]], "Q": [[1.0, 0.1], [0.1, 1.0]]}),
    "spiked": (SPIKED, {"m": 0.3, "r2": 0.8}),
    "rescaled": (onepass.SpikedNearZero(3, 0.5).at(60), {"m": 0.3, "r2": 0.8}),
    "mixture": (MIXTURE, {"v": [0.3, -0.2], "m": [0.2, 0.1], "R": [[0.5, 0.1], [0.1, 0.4]]}),
    "own": (OWN, {"m": 0.3, "r2": 0.8}),
}
CASES = [(name, process) for name in MODELS for process in ("chain", "sgd") if (name, process) != ("own", "chain")]


@pytest.mark.parametrize("name, process", CASES)
def test_a_process_cut_anywhere_and_put_into_a_fresh_one_goes_on_to_the_same_bits(name, process):
    model, start = MODELS[name]
    walk = request(model, process, 60, 3, start, [1.0], 5).walk()
    whole, cut, fresh, twin = (walk.begin(np.array([2]), 0) for _ in range(4))
    whole.advance(12)
    cut.advance(1)
    cut.advance(4)
    fresh.restore(cut.snapshot())
    fresh.advance(7)
    np.testing.assert_array_equal(fresh.flat(), whole.flat())
    assert isinstance(twin, Single)
    arrays = [item for item in twin.process.moving if isinstance(item, np.ndarray) and item.dtype == float]
    from_bytes(arrays, to_bytes([item for item in cut.process.moving if isinstance(item, np.ndarray) and item.dtype == float]))
    twin.advance(7)     # the arrays without the place in the random numbers
    assert not np.array_equal(twin.flat(), whole.flat())


def test_sphere_weights_are_scaled_when_read_and_a_cut_there_changes_bits():
    """Why the weights of SGD on the sphere are brought to their norm at records alone: doing it at a cut rounds once more."""
    walk = request(SPHERE, "sgd", 200, 1, START, [1.0], 1).walk()
    whole, cut = walk.begin(np.array([0]), 0), walk.begin(np.array([0]), 0)
    whole.advance(40)
    for _ in range(40):
        cut.advance(1)
        cut.flat()
    assert not np.array_equal(whole.flat(), cut.flat())
    np.testing.assert_allclose(whole.flat(), cut.flat(), rtol=1e-12)


# What runs each process, how the work of an instance grows with the dimension, and a dimension to start from.
LONG = {"chain": ("chain", 1, 20_000), "simulate": ("sgd", 2, 1000), "diffuse": ("sde", 0, 1000)}


def _dimension_of_long_instances(process: str, power: int, dimension: int) -> int:
    """One whose instances take 1.5 s in one thread of this machine, so that one is under way whenever the driver looks."""
    if power == 0:
        return dimension
    walk = request(SPHERE, process, dimension, 1, START, [1.0], 3).walk()
    tried = walk.begin(np.array([0]), 0)
    tried.advance(1)            # compiled code is there
    begin = time.perf_counter()
    tried.advance(int(walk.steps[-1]) - 1)
    return int(dimension * (1.5 / (time.perf_counter() - begin)) ** (1 / power))


@pytest.mark.long
@pytest.mark.parametrize("method", with_slow(LONG, "simulate", "diffuse"))
def test_a_stopped_ensemble_goes_on_to_the_same_bits(method, tmp_path):
    process, instances = LONG[method][0], 70 if method == "diffuse" else 3
    dimension = _dimension_of_long_instances(*LONG[method])
    output, times = tmp_path / "a.h5", [0.0, 0.4, 1.0]
    run = getattr(SPHERE, method)
    more = {"step": 0.001} if method == "diffuse" else {}
    whole = run(dimension, instances, START, times, seed=3, **more)
    with pytest.raises(Stopped) as stopped:
        run(dimension, instances, START, times, seed=3, **more, threads=1, output=output, stop=StopAfter(2))
    assert stopped.value.exit_code == EXIT_STOPPED and not output.exists()
    place, path = "active/0/instances/own", store.checkpoint_path(output)
    steps, columns = store.read(path, f"{place}/step"), store.read(path, f"{place}/columns")
    assert ((steps > 0) & (columns < 3)).any()              # an instance under way is kept
    with pytest.raises(Stopped) as stopped:
        run(dimension, instances, START, times, seed=3, **more, threads=2, output=output, resume=True, stop=StopAfter(2, 2))
    assert stopped.value.exit_code == EXIT_INTERRUPTED
    assert (store.read(path, f"{place}/step") >= steps).all()
    resumed = run(dimension, instances, START, times, seed=3, **more, threads=2, output=output, resume=True)
    for name in ("M", "Q", "risk"):
        np.testing.assert_array_equal(resumed[name], whole[name])
        np.testing.assert_array_equal(onepass.load(output)[name], whole[name])
    assert not path.exists() and whole.source == process
    with pytest.raises(UserError, match="simulation.seed"):
        run(dimension, instances, START, times, seed=4, **more, output=output, resume=True)
    with pytest.raises(UserError, match="initial.M"):
        run(dimension, instances, {**START, "M": [[0.2], [0.1]]}, times, seed=3, **more, output=output, resume=True)


@dataclass
class Plain:
    """A user's process, which does not tell what moves in it, and is slow."""

    inner: Single

    def advance(self, steps):
        time.sleep(0.2)
        self.inner.advance(steps)

    def flat(self):
        return self.inner.flat()[0]


class PlainTensor(onepass.SpikedTensor):
    def chain_process(self, x0, dimension, seed, instance):
        return Plain(Single(super().chain_process(x0, dimension, seed, instance)))


@pytest.mark.slow
def test_a_process_without_snapshots_begins_its_instance_again(tmp_path):
    output, times = tmp_path / "a.h5", np.arange(4) * 0.1
    start = {"m": 0.3, "r2": 0.8}
    with pytest.raises(Stopped):
        PlainTensor(3, 2.0).chain(50, 3, start, times, threads=1, output=output, stop=StopAfter(3))
    with pytest.raises(UserError, match="dmft inspect"):
        onepass.load(store.checkpoint_path(output))
    resumed = PlainTensor(3, 2.0).chain(50, 3, start, times, output=output, resume=True)
    np.testing.assert_array_equal(resumed.m, SPIKED.chain(50, 3, start, times).m)


@pytest.mark.long
def test_paths_of_the_sde_do_not_depend_on_their_company_or_on_threads():
    few = SPHERE.diffuse(100, 3, START, [0.3, 0.5])
    many = SPHERE.diffuse(100, 70, START, [0.3, 0.5], threads=3)
    np.testing.assert_array_equal(few.M, many.M[:3])
    assert not np.array_equal(few.M[0], few.M[1])


@pytest.mark.parametrize("method", LONG)
def test_an_ensemble_grows_to_the_bits_of_a_larger_one(method, tmp_path):
    output, run = tmp_path / "a.h5", getattr(SPIKED, method)
    starts = SPIKED.random_start(50, 9, seed=2)
    few = {name: array[:4] for name, array in starts.items()}
    run(50, 4, few, [0.1, 0.2], output=output)
    before = output.read_bytes()
    run(50, 4, few, [0.1, 0.2], output=output, resume=True)
    assert output.read_bytes() == before                    # complete: left alone
    grown = run(50, 9, starts, [0.1, 0.2], output=output, resume=True)
    np.testing.assert_array_equal(grown.m, run(50, 9, starts, [0.1, 0.2]).m)
    with pytest.raises(UserError, match="initial.hash"):
        run(50, 9, SPIKED.random_start(50, 9, seed=3), [0.1, 0.2], output=output, resume=True)


def test_an_sde_whose_step_would_change_is_not_grown():
    """The step of the spiked model resolves the fastest start: a wilder one among the new instances changes all paths."""
    calm = request(SPIKED, "sde", 50, 2, {"m": np.array([0.1, 0.2]), "r2": np.ones(2)}, [0.1], 1)
    wild = request(SPIKED, "sde", 50, 3, {"m": np.array([0.1, 0.2, 0.3]), "r2": np.array([1.0, 1.0, 30.0])}, [0.1], 1)
    with pytest.raises(UserError, match="the step of the SDE"):
        wild.check_growth(calm, "a.h5")
    wild.first(2).check_growth(calm, "a.h5")


def test_a_path_of_the_sde_that_explodes_leaves_the_others_alone():
    limit = onepass.SpikedNearZero(4, 0.5, diverging=True)
    starts = {"m": np.array([0.1, 40.0, 0.2]), "r2": np.ones(3)}
    paths = limit.diffuse(1, 3, starts, [0.0, 0.02])
    calm = limit.diffuse(1, 1, {"m": 0.1, "r2": 1.0}, [0.0, 0.02])
    assert paths.diverged.tolist() == [False, True, False]
    np.testing.assert_array_equal(paths.m[0], calm.m[0])
