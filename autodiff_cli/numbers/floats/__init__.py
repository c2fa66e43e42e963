"""Floats: the table, and a module per family of functions."""
