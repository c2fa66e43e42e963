"""Lessons as text, as pages, and as documents."""
