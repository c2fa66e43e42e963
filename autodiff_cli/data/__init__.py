"""Tables of data: reading files, and writing them as a whole or not at all."""
