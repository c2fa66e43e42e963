"""Fast evaluation of graphs over many rows. Backends receive graphs, gradients included, and know no rules."""
