"""What fits say: the epochs as they pass, parameters and figures, networks, predictions."""
