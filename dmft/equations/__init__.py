"""The equations of the theory on arrays: rows of the kernels, the macroscopic recursion, the noise, the history."""
