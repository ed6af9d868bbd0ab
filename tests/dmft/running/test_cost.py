"""What a run is said to need: on a card never more than it has, in rounds of the replicas that fit; errors of networks as often as
they are computed."""

from __future__ import annotations

import pytest

from dmft.core.parallel import Comm
from dmft.model.experiment import known_errors
from dmft.model.network import network_of
from dmft.model.network_errors import error_seconds
from dmft.model.runfile import parse_run
from dmft.running.cost import CARD_BYTES, DISK, PACKED, START, estimate, replica_bytes
from dmft.running.replica import Replica, Setup
from dmft.solvers.resources import MEMORY_SHARE
from tests.network_cases import UNEQUAL, network_run
from tests.run_files import run_text

LARGE = {"samples": 100_000, "device": "gpu"}


def on_card(replicas: int, ranks: int = 1, cards: int = 1, **changes):
    run = parse_run(run_text("gd", t_max=30.0, algorithm={"learning_rate": 0.01}, theory={**LARGE, "replicas": replicas}))
    return estimate(run.replace(changes), "theory", ranks, cards=cards)


def test_replicas_beyond_the_card_wait_for_the_next_round():
    """A replica takes 1 GiB. Card, checkpoint (which is packed) and warning do not grow once the card is full; the time does."""
    few, full, many = (on_card(replicas) for replicas in (8, 200, 1000))
    assert few.card_bytes < MEMORY_SHARE * CARD_BYTES / 10
    for cost in (full, many):
        assert 0.95 * MEMORY_SHARE * CARD_BYTES < cost.card_bytes <= MEMORY_SHARE * CARD_BYTES
        assert 0.99 * PACKED < cost.checkpoint_bytes / cost.card_bytes < 1.01 * PACKED
        assert cost.stop_seconds < 1.02 * (30.0 + 4.0 * PACKED * MEMORY_SHARE * CARD_BYTES / DISK)
    assert (many.seconds - START) / (full.seconds - START) == pytest.approx(5.0, rel=0.02)


def test_the_last_round_has_the_replicas_that_are_left():
    """As many as fit, and one more: one more step of one, not another round of all."""
    fit = int(MEMORY_SHARE * CARD_BYTES / on_card(1).card_bytes)
    one, full, more = (on_card(replicas).seconds - START for replicas in (1, fit, fit + 1))
    assert full + 0.5 * one < more < full + 2.0 * one


def test_ranks_that_share_a_card_share_its_memory():
    apart, together = on_card(1000, ranks=4, cards=4), on_card(1000, ranks=4, cards=1)
    assert max(apart.card_bytes, together.card_bytes) <= MEMORY_SHARE * CARD_BYTES
    assert apart.checkpoint_bytes > 3.5 * together.checkpoint_bytes


def test_a_replica_larger_than_the_card_is_told_with_its_size():
    assert on_card(2, samples=100_000_000).card_bytes > CARD_BYTES


def test_checkpoints_of_a_full_history_and_of_networks_are_not_packed():
    """Against the same memory in blocks, where they are; a network in blocks is as large as with its full history."""
    march = parse_run(run_text("gd", t_max=2.0, theory={"samples": 100_000, "replicas": 1}))
    network = network_run(UNEQUAL, t_max=0.2).replace({"theory.samples": 100_000})
    for run, packed in ((march, PACKED), (network, 1.0)):
        for history, share in (("full", 1.0), ("dyadic", packed)):
            each = run.replace({"theory.history": history})
            cost, held = estimate(each, "theory"), replica_bytes(Setup.from_run(each))
            assert cost.checkpoint_bytes == pytest.approx(share * held, rel=0.05)


@pytest.mark.cli
def test_the_warning_of_a_job_does_not_grow_with_its_replicas(dmft_main, tmp_path):
    """It is what a full card takes to be written, twice, on a busy file system: an hour, where a day leaves eight."""
    text = run_text("gd", t_max=30.0, algorithm={"learning_rate": 0.01}, theory={**LARGE, "replicas": 1000})
    (tmp_path / "a.toml").write_text(text)
    done = dmft_main("submit", "a.toml", "--gpus", "1", "--time", "24:00:00", "-o", "a.h5", "--dry-run")
    assert done.returncode == 0 and "warning: the last" not in done.stdout, done.stderr
    warned = int(done.stdout.partition("--signal=B:USR1@")[2].split()[0])
    assert 3500 < warned < 3850


TIMES = [(True, "dyadic", 4.0), (True, "full", 3.0), (False, "dyadic", 1.0), (False, "full", 1.0)]


@pytest.mark.parametrize(("companions", "history", "times"), TIMES)
def test_errors_of_a_network_are_paid_for_once_and_twice_for_a_companion(companions, history, times):
    """Labels of five directions, whose errors take long, against labels whose errors are closed forms."""
    run = network_run({"units": 1, "directions": 5, "label": "product", "m0": 0.0, "alpha": 2.0, "kind": "gd", "t_max": 5.0,
                       "learning_rate": 0.1, "replicas": 4}).replace({"theory.companions": companions, "theory.history": history})
    plain = run.replace(label="network")
    gap, each = (cost(run) - cost(plain) for cost in (lambda run: estimate(run, "theory").seconds,
                                                      lambda run: error_seconds(network_of(run.network, run.problem))))
    assert gap / (4 * 51 * each) == pytest.approx(times, rel=1e-6)


@pytest.mark.parametrize(("companions", "history", "times"), TIMES)
def test_errors_of_a_network_are_computed_so_often(monkeypatch, companions, history, times):
    """By replicas that end, here at their start; and once more for the result."""
    run = network_run(UNEQUAL, t_max=0.2).replace({"theory.samples": 16, "theory.replicas": 4, "theory.history": history,
                                                   "theory.companions": companions})
    setup, computed = Setup.from_run(run), []
    monkeypatch.setattr("dmft.running.replica.known_errors", lambda *given: computed.append(given) or known_errors(*given))
    monkeypatch.setattr("dmft.running.replica.CommitteeMarch.outcome", "done")
    for index in range(4):
        Replica(setup, index, Comm()).solution()
    assert len(computed) / 4 + 1 == times
