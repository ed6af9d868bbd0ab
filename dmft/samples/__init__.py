"""Samples of the effective process: how they are drawn, stepped and split, on CPU and GPU."""
