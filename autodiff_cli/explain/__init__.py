"""Explanations of a computation at a point: its trace, its warnings, its steps in words, and its accuracy."""
