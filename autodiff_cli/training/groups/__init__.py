"""One fit per group of rows, all with the same kernels."""
