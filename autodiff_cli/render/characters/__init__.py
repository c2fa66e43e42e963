"""Graphs drawn in characters, and the walk through both passes."""
