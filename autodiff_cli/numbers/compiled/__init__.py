"""The functions of floats as machine code, for whole arrays."""
