"""Fixtures of the unit tests."""

from conftest_results import edited, results

__all__ = ["edited", "results"]
