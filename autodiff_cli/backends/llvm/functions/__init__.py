"""What each operation does to vectors: a kind of number like floats and arrays, whose results are instructions."""
