"""Several models of the same data, side by side."""
