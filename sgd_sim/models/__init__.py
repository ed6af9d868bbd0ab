"""One-pass SGD on vectors of full length, for the models of onepass."""
