"""Intervals that do without the shape of a normal distribution: by profile likelihood, and by the bootstrap."""
