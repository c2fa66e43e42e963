"""From a model and data to parameters: reading data, objectives, optimizers, statistics."""
