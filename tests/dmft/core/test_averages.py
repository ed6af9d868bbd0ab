"""Means and standard errors over repetitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmft.core.averages import (
    error_text,
    finite_error,
    finite_mean,
    mean_and_error,
    number_text,
    standard_error,
    welford_error,
    with_error,
)


def test_standard_error_of_three():
    """Values 1, 2, 6: mean 3, variance 7, so sqrt(7/3)."""
    mean, error = mean_and_error(np.array([[1.0], [2.0], [6.0]]))
    assert mean == pytest.approx([3.0]) and error == pytest.approx([np.sqrt(7.0 / 3.0)])
    assert standard_error(np.array([1.0, 2.0, 6.0])) == pytest.approx(np.sqrt(7.0 / 3.0))
    assert welford_error(np.array([14.0]), 3) == pytest.approx(error)


def test_one_repetition_has_no_error_bar():
    assert np.isnan(standard_error(np.ones((1, 4)))).all() and standard_error(np.ones((1, 4))).shape == (4,)
    assert np.isnan(welford_error(np.zeros(2), 1)).all() and np.isnan(finite_error(np.ones((1, 2)))).all()


def test_repetitions_that_are_not_finite_are_left_out():
    values = np.array([[1.0, 1.0, np.nan], [3.0, np.nan, np.nan], [5.0, np.inf, np.nan]])
    assert finite_mean(values) == pytest.approx([3.0, 1.0, np.nan], nan_ok=True)
    assert finite_error(values) == pytest.approx([np.sqrt(4.0 / 3.0), np.nan, np.nan], nan_ok=True)


def test_standard_errors_are_written_once():
    """Theory and simulation take them from here; a second formula would drift apart."""
    root = Path(__file__).resolve().parents[3]
    files = [file for package in ("dmft", "sgd_sim") for file in (root / package).rglob("*.py")]
    assert len(files) > 100 and [file.name for file in files if "ddof=1" in file.read_text()] == ["averages.py"]


def test_rounding_is_shown_as_zero():
    assert error_text(5.2e-17) == "0" and error_text(0.0123) == "0.012" and error_text(float("nan"), "<4.1g") == "-   "


def test_a_single_repetition_is_told_in_words():
    assert with_error(0.5, float("nan"), repetition="replica") == "0.5 (one replica: no error bar)"


@pytest.mark.parametrize(("value", "error", "text"), [
    (0.5, 0.0123, "0.500 +- 0.012"), (-0.93456, 0.001, "-0.9346 +- 0.0010"), (1.5e-9, 2.3e-10, "1.50e-09 +- 2.3e-10"),
    (0.001, 0.02, "0.001 +- 0.020"), (123.4, 12.0, "123 +- 12"), (0.2, 1e-17, "0.2 +- 0"),
    (1.5e-20, 2e-21, "1.50e-20 +- 2.0e-21"), (0.0, 0.0, "0 +- 0")])
def test_a_mean_ends_where_its_error_ends(value, error, text):
    assert with_error(value, error) == text


def test_numbers_that_round_to_zero_have_no_sign():
    shown = [number_text(value, "7.2f") for value in (-0.001, -0.01, np.nan)]
    assert shown == ["   0.00", "  -0.01", "      -"]
