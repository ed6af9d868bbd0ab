"""Batch jobs: what goes into a Slurm script, and the grid of a scan."""
