"""Spiked matrices and tensors."""
