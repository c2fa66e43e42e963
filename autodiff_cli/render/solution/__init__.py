"""A trace as a worked solution, set by LaTeX."""
