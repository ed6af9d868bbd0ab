"""Replicas of a solution: running them over ranks, adding them up, checkpoints, cost."""
