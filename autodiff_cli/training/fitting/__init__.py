"""Running fits: starting values, optimization, intervals, groups of rows, and the comparison of models."""
