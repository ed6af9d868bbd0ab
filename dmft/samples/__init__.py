"""Samples of the effective process: how they are drawn and stepped, on CPU and GPU."""
