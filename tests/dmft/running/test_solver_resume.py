"""What --resume does beyond continuing: more sweeps, a first guess whose file is gone, a longer run, kernels at chosen times."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dmft
import sgd_sim
from dmft.core import store
from dmft.core.errors import FileError, RunError, Stopped
from dmft.running.runner import TheoryJob
from sgd_sim.archive import to_arrays
from sgd_sim.simulation import SimulationJob
from sgd_sim.states import empty_states
from tests.marks import slow
from tests.small_results import StopAfter
from tests.solver_cases import ALGORITHMS, make_run
from workbench.inspection.live import partial_theory

ITERATE = {"method": "iterate", "steps": 12, "samples": 64, "tolerance": 1e-9}


def interrupted(run, path, polls: int) -> None:
    with pytest.raises(Stopped):
        dmft.solve(run, output=path, quiet=True, stop=StopAfter(polls))


@pytest.mark.long
def test_more_sweeps_for_a_checkpoint_whose_replicas_ended_at_the_limit(tmp_path, caplog):
    """3 sweeps a replica: stopped in the second of two."""
    run = make_run(ALGORITHMS["sgd"], replicas=2, max_sweeps=3, **ITERATE)
    interrupted(run, tmp_path / "a.h5", 5)
    caplog.set_level(logging.INFO, "dmft")
    result = dmft.solve(run.replace(max_sweeps=100), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert "more sweeps allowed" in caplog.text
    assert result.outcome == "converged" and result.attrs["outcomes"] == "converged,converged"
    assert_allclose(result.m, dmft.solve(run.replace(max_sweeps=100), quiet=True).m, rtol=0, atol=1e-7)


@pytest.mark.long
def test_a_first_guess_is_kept_with_the_checkpoint(tmp_path):
    run = make_run(ALGORITHMS["sgd"], replicas=1, **ITERATE)
    dmft.solve(run, output=tmp_path / "first.h5", quiet=True)
    run = run.replace(start_from=str(tmp_path / "first.h5"), replicas=2)
    whole = dmft.solve(run, quiet=True)
    interrupted(run, tmp_path / "a.h5", 2)
    (tmp_path / "first.h5").unlink()
    result = dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert_array_equal(result.replicas["m"], whole.replicas["m"])
    assert_array_equal(result.history, whole.history)


@pytest.mark.long
@pytest.mark.parametrize(("steps", "words"), [(30, "rounding alone"), (201, "is now dyadic")])
def test_a_longer_run_says_what_it_changes(tmp_path, caplog, steps, words):
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1)
    first = dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    caplog.set_level(logging.INFO, "dmft")
    longer = dmft.solve(run.replace(t_max=steps * 0.02), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert words in caplog.text
    if steps == 30:
        assert_allclose(longer.m[:21], first.m, rtol=0, atol=1e-9)


@pytest.mark.long
def test_the_wall_time_of_all_stretches_is_added_up(tmp_path):
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=2)
    interrupted(run, tmp_path / "a.h5", 30)
    checkpoint = store.checkpoint_path(tmp_path / "a.h5")
    header = store.load_header(checkpoint)
    changed = {**header.attrs, "wall_time": 1000.0 + header.attrs["wall_time"]}         # as if it had been slow
    arrays = store.load(checkpoint).arrays
    store.save(checkpoint, "theory", header.run_text, arrays, changed, checkpoint=True)
    result = dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert 1000.0 < result.attrs["wall_time"] < 1000.0 + 600.0
    extended = dmft.solve(run.replace(replicas=3), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert result.attrs["wall_time"] < extended.attrs["wall_time"] < 1000.0 + 1200.0


@pytest.mark.parametrize("simulated", [False, True])
def test_a_checkpoint_of_an_older_version_is_refused_in_one_line(tmp_path, dmft_main, simulated):
    """And so is a look at it. Its layout is what version 1 wrote: of the simulator, the datasets of a result."""
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1).replace(dimension=20, instances=2)
    kind, solve = ("simulation", sgd_sim.simulate) if simulated else ("theory", dmft.solve)
    arrays = to_arrays(run, empty_states(run)) if simulated else {"finished/replicas/half_m": np.zeros(0)}
    place = store.checkpoint_path(tmp_path / "a.h5")
    store.save(place, kind, run.to_toml(), arrays, {"progress": 0.5, "outcomes": ""}, checkpoint=True)
    before = store.checkpoint_path(tmp_path / "a.h5").read_bytes()
    with pytest.raises(FileError, match="checkpoint of another version of this package .* --force"):
        solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert store.checkpoint_path(tmp_path / "a.h5").read_bytes() == before
    if simulated:
        done = dmft_main("inspect", str(tmp_path / "a.h5"))
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "another version" in done.stderr


def test_theories_of_before_are_refused_and_simulations_go_on(tmp_path, monkeypatch):
    """Version 4 of the layout drew the samples of a theory otherwise; nothing of simulations has changed since."""
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1).replace(dimension=20, instances=2)
    theory, simulation = tmp_path / "theory.h5", tmp_path / "simulation.h5"
    with monkeypatch.context() as before:
        for job in (TheoryJob, SimulationJob):
            before.setattr(job, "checkpoint_layout", 4)
        interrupted(run, theory, 5)
        with pytest.raises(Stopped):
            sgd_sim.simulate(run, output=simulation, quiet=True, stop=StopAfter(0))  # its steps are few and long
    with pytest.raises(FileError, match="checkpoint of another version"):
        dmft.solve(run, output=theory, resume=True, quiet=True)
    gone_on = sgd_sim.simulate(run, output=simulation, resume=True, quiet=True)
    assert_array_equal(gone_on.m, sgd_sim.simulate(run, quiet=True).m)


def test_kernels_at_chosen_times():
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1)
    everywhere, chosen = dmft.solve(run, quiet=True), dmft.solve(run.replace(kernel_points=[0.0, 0.1, 0.3]), quiet=True)
    assert_allclose(chosen.kernels.t, [0.0, 0.1, 0.3])
    assert_array_equal(chosen.kernels.M_C, everywhere.kernels.M_C[np.ix_([0, 5, 15], [0, 5, 15])])
    with pytest.raises(RunError, match=r"kernel_points = \[..., 0.5\]: beyond"):
        dmft.solve(run.replace(kernel_points=[0.1, 0.5]), quiet=True)
    for wrong in ([], [0.2, 0.1], -1, "log"):
        with pytest.raises(RunError, match="kernel_points"):
            run.replace(kernel_points=wrong)


@pytest.mark.long
@pytest.mark.parametrize("history", [slow("full"), "dyadic"])
def test_a_kept_state_goes_on(tmp_path, caplog, history):
    """t_max grows twice: what was marched stays to the bit, and the end is that of one long run, up to rounding (sums over longer
    rows). In blocks the longer history has a level more."""
    run = make_run({**ALGORITHMS["persistent"], "momentum": 0.3}, steps=20, samples=64, replicas=2, keep_state=True,
                   history=history, blocks_per_level=4)
    first = dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    caplog.set_level(logging.INFO, "dmft")
    for before, steps in ((20, 30), (30, 70)):
        longer = dmft.solve(run.replace(t_max=steps * 0.02), output=tmp_path / "a.h5", resume=True, quiet=True)
        assert caplog.text.count("continuing from the state that was kept") == (1 if steps == 30 else 2)
        assert f"{100 * before / steps:.0f} % done" in caplog.text      # of both replicas, though one of them waits
        assert_array_equal(longer.m[:21], first.m)
    straight = dmft.solve(run.replace(t_max=70 * 0.02), quiet=True)
    assert_allclose(longer.m, straight.m, rtol=0, atol=1e-9)
    assert_allclose(longer.kernels.C, straight.kernels.C, rtol=0, atol=1e-9)


def test_a_checkpoint_before_the_first_replica_is_done_is_read(tmp_path, dmft_main):
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=2)
    interrupted(run, tmp_path / "a.h5", 5)
    done = dmft_main("inspect", str(tmp_path / "a.h5"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["progress"]["replicas_done"] == 0
    live = partial_theory(store.checkpoint_header(tmp_path / "a.h5"))
    whole = dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert_array_equal(live.m[:5], whole.replicas["m"][0, :5])
    assert np.isnan(live.m[5:]).all() and live.replicas["m"].shape == (1, 21)


@pytest.mark.long
def test_a_kept_state_is_read_and_taken_up_in_the_middle(tmp_path, dmft_main):
    """Stopped while the first of two replicas continues: the checkpoint holds it beside the second one, whose arrays still have the
    length of the shorter run. Twin: a replica that is longer than its run is refused."""
    run = make_run(ALGORITHMS["sgd"], steps=20, samples=64, replicas=2, keep_state=True)
    longer, output = run.replace(t_max=30 * 0.02), tmp_path / "a.h5"
    first = dmft.solve(run, output=output, quiet=True)
    with pytest.raises(Stopped):
        dmft.solve(longer, output=output, resume=True, quiet=True, stop=StopAfter(5))
    checkpoint = store.checkpoint_path(output)
    assert store.load_header(checkpoint).attrs["progress"] == pytest.approx((25 + 20) / (2 * 30))
    live = partial_theory(store.load_header(checkpoint))
    reached = np.isfinite(live.replicas["m"]).sum(axis=1)
    assert reached[0] == 25 and reached[1] == 21 and live.replicas["m"].shape == (2, 31)
    assert_array_equal(live.replicas["m"][:, :21], first.replicas["m"])
    assert np.isfinite(live.kernels.C[24, :25]).all() and np.isnan(live.kernels.C[25:]).all()
    assert dmft_main("inspect", str(checkpoint)).returncode == 0
    result = dmft.solve(longer, output=output, resume=True, quiet=True)
    assert_allclose(result.m, dmft.solve(longer, quiet=True).m, rtol=0, atol=1e-9)
    state = store.load(store.state_path(output))
    store.save(checkpoint, "theory", run.to_toml(), state.arrays, state.attrs, checkpoint=True)
    with pytest.raises(FileError, match="has 31 of axis 'own time', more than the 21 of the run"):
        partial_theory(store.load_header(checkpoint))


@pytest.mark.long
@pytest.mark.parametrize(("change", "longer", "taken"), [
    ({"batch_fraction": [[0.0, 0.5], [0.4, 0.25]]}, 30, False),    # the first mini-batch of the new steps has another law
    ({"batch_fraction": [[0.0, 0.5], [0.44, 0.25]]}, 30, True),
    ({"momentum": [[0.0, 0.3], [0.4, 0.6]]}, 30, False),
    ({"kernel_points": 16}, 30, False),                             # its kernels are kept at other times
])
def test_a_state_is_taken_only_where_the_longer_run_would_have_passed_it(tmp_path, caplog, change, longer, taken):
    run = make_run(ALGORITHMS["sgd"], {"m0": 0.5}, steps=20, samples=16, replicas=1, keep_state=True).replace(**change)
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    caplog.set_level(logging.INFO, "dmft")
    result = dmft.solve(run.replace(t_max=longer * 0.02), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert ("that was kept" in caplog.text) == taken and ("from t = 0" in caplog.text) != taken
    straight = dmft.solve(run.replace(t_max=longer * 0.02), quiet=True)
    assert_allclose(result.m, straight.m, rtol=0, atol=1e-9)
    assert_allclose(result.kernels.M_C, straight.kernels.M_C, rtol=0, atol=1e-7)


@pytest.mark.long
def test_a_state_of_another_kind_is_not_taken(tmp_path, caplog):
    """From full to dyadic the past is laid out anew: the run begins again and says so."""
    run = make_run({"kind": "gd"}, steps=20, samples=64, replicas=1, keep_state=True)
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    caplog.set_level(logging.INFO, "dmft")
    dmft.solve(run.replace(t_max=201 * 0.02), output=tmp_path / "a.h5", resume=True, quiet=True)
    assert "is now dyadic" in caplog.text and "that was kept" not in caplog.text
