"""The dynamics of an instance on a CPU."""
