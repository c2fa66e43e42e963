"""Files that several read at once."""
