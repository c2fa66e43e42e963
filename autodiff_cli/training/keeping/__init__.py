"""Fits that are interrupted and go on: what is kept of them, and in which file."""
