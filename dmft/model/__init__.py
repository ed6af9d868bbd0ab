"""The experiment, shared by theory and simulator: run files, data models, losses, constraints, mini-batches, schedules, starts,
observables, and the layout of result files."""
