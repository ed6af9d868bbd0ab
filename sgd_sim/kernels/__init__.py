"""Compiled loops over rows, tiles, normals and mini-batches, and the plain numbers that they read. They know no landscape."""
