"""Graphs as drawings: SVG, Mermaid, DOT."""
