"""Averages over independent repetitions (replicas, instances, seeds), with the standard error of the mean.

Repetitions are on the first axis. A single one has no error bar: its error is NaN, never zero.
"""

from __future__ import annotations

import numpy as np

ERROR_ROUNDING = 1e-12        # relative to numbers of order one: a standard error below it is rounding


def standard_error(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean of values (count, ...), shape (...); NaN when count < 2."""
    count = len(values)
    if count < 2:
        return np.full(np.shape(values)[1:], np.nan)
    return np.std(values, axis=0, ddof=1) / np.sqrt(count)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of values (count, ...), each of shape (...)."""
    return np.mean(values, axis=0), standard_error(values)


def finite_mean(values: np.ndarray) -> np.ndarray:
    """Mean over the repetitions that are finite, entry by entry; NaN where none is."""
    good = np.isfinite(values)
    count = good.sum(axis=0)
    total = np.where(good, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def finite_error(values: np.ndarray) -> np.ndarray:
    """Standard error of `finite_mean`; NaN where fewer than two repetitions are finite."""
    good = np.isfinite(values)
    count = good.sum(axis=0)
    squares = np.where(good, (values - finite_mean(values)) ** 2, 0.0).sum(axis=0)
    return np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1)), np.nan)


def welford_error(squares: np.ndarray, count: int) -> np.ndarray:
    """Standard error of a mean whose summed squared deviations are known; NaN when count < 2."""
    if count < 2:
        return np.full_like(squares, np.nan)
    return np.sqrt(squares / (count * (count - 1)))


def error_text(error: float, form: str = ".2g") -> str:
    """A standard error for people: "0" where it is only rounding (an exact start, say), "-" where there is none."""
    return number_text(0.0 if abs(error) < ERROR_ROUNDING else error, form)


def is_rounding(error: float, value: float) -> bool:
    """Whether a standard error is only the rounding of its mean, however small that is: a loss may be 1e-20 and have one."""
    return abs(error) <= ERROR_ROUNDING * abs(value)


def with_error(value: float, error: float, repetition: str = "instance") -> str:
    """A mean to the last digit of its standard error, or plain words where a single repetition leaves none."""
    if np.isnan(error):
        return f"{value:.5g} (one {repetition}: no error bar)"
    if is_rounding(error, value) or np.isinf(error):
        return f"{value:.6g} +- {0 if np.isfinite(error) else error}"
    first, last = (int(np.floor(np.log10(size))) for size in (abs(value) or error, error))
    return f"{f'{value:#.{max(first - last + 2, 1)}g}'.rstrip('.')} +- {f'{error:#.2g}'.rstrip('.')}"


def number_text(value: float, form: str) -> str:
    """A number for people: "-" in its place where there is none (NaN)."""
    width = form.split(".")[0]
    if np.isnan(value):
        return format("-", width if width.startswith(("<", ">")) else ">" + width)
    text = format(value, form)
    return format(0.0, form) if float(text) == 0.0 else text  # no -0.00
