"""Differential tests: random runs over all features, computed in two ways that must agree (`python -m tests.differential -h`)."""
