"""Zeros, stationary points and global minima, found by branch and prune and proven in interval and ball arithmetic."""

MAX_BOXES = 100_000  # default limit of the boxes that a search examines
