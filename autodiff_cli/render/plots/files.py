"""Pictures of fits as files: SVG and HTML by ourselves, PNG by a library that turns the one into the other."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from html import escape
from pathlib import PurePath

from autodiff_cli.data.writing import replacing, replacing_bytes
from autodiff_cli.render.fits.rounding import Rounding
from autodiff_cli.render.plots.svg import WIDTH, to_svg
from autodiff_cli.render.text import on_one_line
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.result.fit import FittedModel

_STYLE = f"""
:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,"Helvetica Neue",Arial,sans-serif;margin:1.5rem auto;padding:0 1rem;max-width:{WIDTH}px}}
svg{{max-width:100%;height:auto}}
table{{border-collapse:collapse;margin:1rem 0}}td,th{{padding:.15rem .9rem .15rem 0;text-align:right}}
td:first-child,th:first-child{{text-align:left}}code{{overflow-wrap:anywhere}}
"""


def check_picture(path: str) -> None:
    """Raise OptionError for a file that no picture can be written to: better before the fit than after it."""
    kind = PurePath(path).suffix.lower()
    if kind not in _WRITERS:
        raise OptionError(f"--plot draws in the terminal, or to a file .svg, .png or .html, not {path}")
    if kind == ".png" and importlib.util.find_spec("cairosvg") is None:
        raise OptionError("a picture in PNG needs cairosvg (pip install cairosvg); .svg and .html need nothing more")


def save_picture(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write the picture of a fit, as its name ends. Raises OSError, and OptionError as `check_picture` does."""
    check_picture(os.fspath(path))
    _WRITERS[PurePath(path).suffix.lower()](fit, path)


def _svg(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    with replacing(path) as stream:
        stream.write(to_svg(fit))


def body(fit: FittedModel) -> str:
    """The picture, the parameters and the formula, as a part of a page."""
    rows = []
    for name, value in fit.parameters.items():
        if not isinstance(value, float):
            continue
        error = fit.stderr[name]
        rounding = Rounding.of(value, error, None)
        shown = rounding.of_value(value), "" if error is None else rounding.of_error(error)
        rows.append(f"<tr><td>{escape(name)}</td><td>{shown[0]}</td><td>{shown[1]}</td></tr>")
    head = "<tr><th>parameter</th><th>value</th><th>standard error</th></tr>"
    table = [f"<table>{head}", *rows, "</table>"] if rows else []
    formula = f"<p><code>{escape(on_one_line(fit.formula))}</code></p>" if 0 < len(fit.formula) <= 300 else ""
    return "\n".join([to_svg(fit).rstrip("\n"), *table, formula])


def _html(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    title = escape(on_one_line(fit.model))
    with replacing(path) as stream:
        stream.write(
            "\n".join(
                [
                    "<!doctype html>",
                    '<html lang="en"><head><meta charset="utf-8">',
                    '<meta name="viewport" content="width=device-width, initial-scale=1">',
                    f"<title>{title}</title><style>{_STYLE}</style></head><body>",
                    body(fit),
                    "</body></html>\n",
                ]
            )
        )


def _png(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    import cairosvg

    content = cairosvg.svg2png(bytestring=to_svg(fit).encode(), scale=2)
    with replacing_bytes(path) as stream:
        stream.write(content)


_WRITERS: dict[str, Callable[[FittedModel, str | os.PathLike[str]], None]] = {
    ".svg": _svg,
    ".html": _html,
    ".png": _png,
}
