"""Numbers and drawing of the figures."""
