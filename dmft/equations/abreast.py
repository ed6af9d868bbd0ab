"""Steps of several solutions side by side, a thread each: what a card with several replicas waits for. Compiled when first called,
which takes some seconds, so that whoever has one solution at a time, or one thread, never does."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from numba import get_num_threads, njit, prange

from dmft.core.compiled import UNCOUNTED
from dmft.equations.rows import estimates
from dmft.equations.steps import advance_all, steps_from_rows


@njit(**UNCOUNTED, parallel=True)
def _estimates(places, sums, use, given, by, rule, tables, solutions):
    for k in prange(len(places)):
        estimates(places[k : k + 1], sums[k : k + 1], use, given, by, rule, tables, solutions)


@njit(**UNCOUNTED, parallel=True)
def _steps_from_rows(places, known, drawn, given, by, rule, tables, solutions):
    for k in prange(len(places)):
        steps_from_rows(places[k : k + 1], known, drawn, given, by, rule, tables, solutions)


@njit(**UNCOUNTED, parallel=True)
def _advance_all(places, drawn, given, by, tables, solutions):
    for k in prange(len(places)):
        advance_all(places[k : k + 1], drawn, given, by, tables, solutions)


ABREAST = {estimates: _estimates, steps_from_rows: _steps_from_rows, advance_all: _advance_all}


def for_all(function: Callable[..., None], places: Sized, *rest: Any) -> None:
    """A function of the solutions at some places."""
    (ABREAST[function] if len(places) > 1 and get_num_threads() > 1 else function)(places, *rest)
