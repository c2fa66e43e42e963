"""What a fit says of its parameters, and models on disk."""
