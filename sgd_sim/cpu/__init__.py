"""The dynamics of instances on a CPU: starts, steps and trajectories, from the loops in sgd_sim/kernels."""
