"""The experiment, shared by theory and simulator: run files, losses, constraints, mini-batches, observables."""
