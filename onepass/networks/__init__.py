"""Two-layer networks: drift, exact chain, landscape, exit times."""
