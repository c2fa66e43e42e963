"""What a kernel does, in which loops, and where its values lie: of graphs, before a line of code is written."""
