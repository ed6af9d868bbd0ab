"""Binary and XOR Gaussian mixtures."""
