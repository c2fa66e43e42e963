"""Other views of a trace: path by path, forward mode, the tape as a framework stores it, and its named parts."""
