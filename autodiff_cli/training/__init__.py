"""Fitting models to data: options, losses, rows, objectives, methods, and the results of fits."""
