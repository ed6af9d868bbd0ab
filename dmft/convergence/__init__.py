"""Convergence studies: runs at several settings, fitted orders, limits."""
