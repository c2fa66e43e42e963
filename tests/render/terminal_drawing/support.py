"""Texts of drawings in characters."""

from __future__ import annotations

from autodiff_cli.render.character_drawing import Line


def plain_text(line: Line) -> str:
    """Return the text of a line without styles."""
    return "".join(run.text for run in line)
