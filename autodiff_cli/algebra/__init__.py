"""Passes that rewrite graphs: `simplify` for evaluation, `readable` for people, `rewriting` for accuracy."""
