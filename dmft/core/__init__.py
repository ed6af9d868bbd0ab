"""Machinery without physics, shared by theory, simulator and onepass: schema, streams, exact sums, ranks, storage, driver."""
