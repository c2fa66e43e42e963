"""Pictures of fits: panels of points, lines and bands, in the terminal and in files."""
