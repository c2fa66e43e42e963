"""The result of a fit: the fitted model, its statistics, diagnosis, predictions, and model files."""
