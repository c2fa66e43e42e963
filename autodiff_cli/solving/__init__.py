"""Zeros, stationary points and global minima, found by branch and prune and proven in interval and ball arithmetic."""
