"""Batch jobs: what goes into a Slurm script, and how a sweep is cut into points."""
