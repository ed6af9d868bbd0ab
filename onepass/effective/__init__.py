"""Effective dynamics of summary statistics, and its checks."""
