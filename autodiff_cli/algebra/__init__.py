"""Passes that rewrite graphs: `simplify` for evaluating, `readable` for people."""
