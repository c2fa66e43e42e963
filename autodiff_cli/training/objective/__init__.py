"""What a fit makes small, as a function of the parameters."""
