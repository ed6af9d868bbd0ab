"""Threads of a worker: every job is done once, failures come out, and a halted pool leaves the rest."""

from __future__ import annotations

import threading
import time

import pytest

from dmft.core.pool import Pool, next_slice


@pytest.mark.parametrize("threads", [1, 3, 20])
def test_every_job_is_done_once(threads):
    pool, done = Pool(), []

    def job(k: int) -> None:
        with pool.lock:
            done.append((k, threading.get_ident()))

    assert not pool.started
    pool.start([lambda k=k: job(k) for k in range(12)], threads)
    assert pool.started
    pool.wait(30.0)
    assert sorted(k for k, _ in done) == list(range(12)) and len({ident for _, ident in done}) <= threads
    assert threading.get_ident() not in {ident for _, ident in done}


def test_threads_work_side_by_side_and_a_job_may_have_parts():
    """Two parts that wait for each other end only if both run at once."""
    pool, both, ended = Pool(), threading.Barrier(2, timeout=30.0), []
    pool.start([lambda: (pool.run([both.wait, both.wait], 2), ended.append(True))], 1)
    pool.wait(30.0)
    assert ended == [True]


def test_a_failure_is_raised_where_it_is_waited_for():
    pool = Pool()
    pool.start([lambda: pool.run([lambda: 1 / 0], 1)], 1)
    with pytest.raises(ZeroDivisionError):
        for _ in range(100):
            pool.wait(0.3)


def test_a_round_ends_in_time_and_a_halted_pool_leaves_the_rest():
    pool, begun = Pool(), []

    def job() -> None:
        begun.append(True)
        while not pool.halted:
            time.sleep(0.001)

    pool.start([job] * 5, 2)
    begin = time.monotonic()
    pool.wait(0.05)
    assert 0.05 <= time.monotonic() - begin < 5.0
    pool.close()
    assert len(begun) <= 2 and not any(thread.is_alive() for thread in pool._running)


def test_a_thread_that_does_not_end_is_abandoned():
    pool, release = Pool(), threading.Event()
    pool.start([release.wait], 1)
    begin = time.monotonic()
    pool.close(patience=0.05)
    assert time.monotonic() - begin < 5.0 and pool._running[0].is_alive()
    release.set()


def test_slices_take_the_time_that_is_wanted():
    assert next_slice(100, taken=0.5, wanted=0.25) == 50
    assert next_slice(100, taken=0.0) == 200 and next_slice(1, taken=1e6) == 1      # never much longer at once, never none
