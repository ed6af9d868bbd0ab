"""Inspection of result files and live checkpoints of every kind: checks, tables, differences. Reads files, computes no physics."""
