"""The pages of `autodiff serve`: boxes to type into, above the walk or alone."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from autodiff_cli.render.page.html import Addition, policy
from autodiff_cli.render.text import visible

_FOLDER = Path(__file__).parent
_PAGE = Path(__file__).parents[1]


def addition(formula: str, values: str, message: str) -> Addition:
    """What stands above the walk through a formula: the boxes that it was typed into, and what there is to say.

    Args:
        formula: as it was typed, like `values`.
        message: lines of text.
    """
    return Addition("", _box(formula, values, message), _part("served.css"), _part("box.js"), {})


def home(formula: str, values: str, message: str) -> str:
    """The page without a walk: boxes for a formula, and for a model with a file."""
    style = (_PAGE / "page.css").read_text(encoding="utf-8") + _part("served.css")
    script = _part("box.js") + _part("fit.js")
    return _part("home.html").format(
        policy=policy(script, style, "connect-src 'self'"),
        style=style,
        box=_box(formula, values, message),
        script=script,
    )


def _box(formula: str, values: str, message: str) -> str:
    said = f'<pre class="said" role="alert" tabindex="0">{escape(visible(message))}</pre>' if message else ""
    return _part("box.html").format(formula=escape(formula), values=escape(values), said=said)


@cache
def _part(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")
