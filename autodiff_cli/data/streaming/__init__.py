"""Columns that are larger than memory: read in chunks, again in every pass."""
