"""The theory of two-layer committees: the equations, samples and march of a network with p units. Beside that of a single unit."""
