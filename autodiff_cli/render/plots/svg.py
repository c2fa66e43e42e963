"""A picture of a fit as an SVG image: self-contained, and light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.plots.dates import moment, moments
from autodiff_cli.render.plots.panels import Line, Panel, label, panels, ticks
from autodiff_cli.render.text import on_one_line, shortened
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 20, 34, 46
_HEIGHT = 150  # of a panel of share 1, without what is around
_DECADES = 2  # from which on only whole powers of ten are marked
_DIGITS = 2  # after the point, of places in pixels
_INK = ("#b3261e", "#1f5fa8")  # of curves, one after the other
_LONGEST = 90  # characters of a title

# Colours are attributes, for readers that know no style sheets; these take their place in the dark.
_STYLE = """
.plot text{font-family:system-ui,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
@media screen and (prefers-color-scheme:dark){
.plot .paper{fill:#16181c}.plot text{fill:#e6e6e6}.plot .faint{fill:#a8a8a8}
.plot .grid{stroke:#33363c}.plot .axis{stroke:#8a8a8a}.plot .reference{stroke:#9a9a9a}
.plot .point{fill:#c9ccd1}.plot .band{fill:#7a3530}.plot .curve0{stroke:#ff8a80}.plot .curve1{stroke:#8ab8ff}}
"""


def to_svg(fit: FittedModel) -> str:
    """The image."""
    drawn = panels(fit)
    heights = [_TOP + _HEIGHT * panel.share + _BOTTOM for panel in drawn]
    height = 40 + sum(heights)
    title = shortened(on_one_line(fit.model), _LONGEST)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" width="{WIDTH}" height="{height:g}" '
        f'viewBox="0 0 {WIDTH} {height:g}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape('; '.join(panel.title for panel in drawn))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="26" font-size="15" font-weight="600" fill="#1c1c1c">{escape(title)}</text>',
    ]
    top = 40.0
    for panel, room in zip(drawn, heights, strict=True):
        parts += [f'<g transform="translate(0 {top:g})">', *_Axes(panel).drawn(), "</g>"]
        top += room
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axes:
    """A panel, and where its numbers lie."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._x, self._y = panel.limits()
        self._height = _HEIGHT * panel.share

    def drawn(self) -> Iterator[str]:
        """The panel as shapes."""
        panel = self._panel
        clip = f"clip-{panel.title.split()[0].strip(',')}"
        right, bottom = WIDTH - _RIGHT, _TOP + self._height
        yield f'<text x="{_LEFT}" y="20" font-weight="600" fill="#1c1c1c">{escape(panel.title)}</text>'
        yield from self._legend()
        yield from self._scales(bottom)
        frame = f'x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{self._height:g}"'
        yield f'<clipPath id="{clip}"><rect {frame}/></clipPath>'
        yield f'<g clip-path="url(#{clip})">'
        yield from self._contents()
        yield "</g>"
        yield f'<rect class="axis" {frame} fill="none" stroke="#777777"/>'

    def _scales(self, bottom: float) -> Iterator[str]:
        panel, right = self._panel, WIDTH - _RIGHT
        for value, says in self._marks():
            x = self._across(np.array([value]))[0]
            yield f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom:g}" stroke="#e6e6e6"/>'
            yield _text(x, bottom + 17, says, "middle")
        for value in ticks(*self._y, max(2, int(self._height // 32))):
            y = self._down(np.array([value]))[0]
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}" stroke="#e6e6e6"/>'
            yield _text(_LEFT - 8, y + 4, label(value, is_exponent=panel.is_logarithmic), "end")
        yield _text((_LEFT + right) / 2, bottom + 36, shortened(panel.across, 60), "middle", "faint")
        middle = _TOP + self._height / 2
        turned = f' transform="rotate(-90 18 {middle:g})"'
        yield _text(18, middle, shortened(panel.y_name, 30), "middle", "faint", turned)

    def _marks(self) -> Iterator[tuple[float, str]]:
        """What is marked across, and how."""
        panel, span = self._panel, self._x[1] - self._x[0]
        if panel.origin is not None:
            yield from ((value, moment(value, span, panel.origin)) for value in moments(*self._x, 8, panel.origin))
            return
        is_whole = panel.x_name == "epoch" or (panel.goes_by_ratio and span >= _DECADES)
        for value in ticks(*self._x, 8, whole=is_whole):
            yield value, label(value, is_exponent=panel.goes_by_ratio)

    def _contents(self) -> Iterator[str]:
        panel = self._panel
        if panel.band is not None:
            band = panel.band
            fine = np.isfinite(band.low) & np.isfinite(band.high)
            there = self._path(band.x[fine], band.high[fine])
            back = self._path(band.x[fine][::-1], band.low[fine][::-1])
            yield f'<path class="band" d="{there}L{back[1:]}Z" fill="#f3c6c1" fill-opacity="0.8"/>'
        for line in panel.lines:
            if line.is_reference:
                d = self._path(line.x, line.y)
                yield f'<path class="reference" d="{d}" fill="none" stroke="#777777" stroke-dasharray="5 4"/>'
        yield from self._points()
        for number, line in enumerate(line for line in panel.lines if not line.is_reference):
            ink = _INK[number % len(_INK)]
            for x, y in _pieces(line):
                d = self._path(x, y)
                yield f'<path class="curve{number}" d="{d}" fill="none" stroke="{ink}" stroke-width="1.8"/>'

    def _points(self) -> Iterator[str]:
        if self._panel.points is None:
            return
        xs, ys = self._panel.points
        fine = np.isfinite(xs) & np.isfinite(ys)
        many = int(np.count_nonzero(fine))
        radius, opacity = (2.6, 0.75) if many <= 300 else (1.5, 0.45)
        places = zip(self._across(xs[fine]), self._down(ys[fine]), xs[fine], ys[fine], strict=True)
        yield f'<g class="point" fill="#33363b" fill-opacity="{opacity:g}">'
        for px, py, x, y in places:
            says = f"<title>{10**x if self._panel.goes_by_ratio else x:g}, {y:g}</title>" if many <= 300 else ""
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:g}">{says}</circle>'
        yield "</g>"

    def _legend(self) -> Iterator[str]:
        """The names of curves and bands, and what is to be known, in the line of the title, from the right."""
        panel, x = self._panel, float(WIDTH - _RIGHT)
        entries = [(line.name, f"curve{k}", _INK[k % 2]) for k, line in enumerate(panel.lines) if not line.is_reference]
        if len(entries) == 1 and panel.points is None:
            entries = []
        if panel.band is not None:
            entries.append((panel.band.name, "band", "#f3c6c1"))
        for name, kind, ink in entries[::-1]:
            yield _text(x, 20, name, "end", "faint")
            x -= 6.9 * len(name) + 8
            paint = f'fill="{ink}"' if kind == "band" else f'stroke="{ink}" stroke-width="2"'
            shape = f"M{x - 18:.0f} 12h18v8h-18z" if kind == "band" else f"M{x - 18:.0f} 16h18"
            yield f'<path class="{kind}" d="{shape}" {paint}/>'
            x -= 32
        if panel.note:
            yield _text(x, 20, panel.note, "end", "faint")

    def _path(self, x: Array, y: Array) -> str:
        places = zip(self._across(x), self._down(y), strict=True)
        return "M" + "L".join(f"{round(px, _DIGITS):g} {round(py, _DIGITS):g}" for px, py in places)

    def _across(self, x: Array) -> list[float]:
        low, high = self._x
        found = _LEFT + (x - low) / (high - low) * (WIDTH - _RIGHT - _LEFT)
        return [float(value) for value in found]

    def _down(self, y: Array) -> list[float]:
        low, high = self._y
        found = _TOP + (high - np.clip(y, low - (high - low), high + (high - low))) / (high - low) * self._height
        return [float(value) for value in found]


def _pieces(line: Line) -> Iterator[tuple[Array, Array]]:
    """The parts of a line where it is finite."""
    fine = np.isfinite(line.x) & np.isfinite(line.y)
    ends = np.flatnonzero(np.diff(np.concatenate(([False], fine, [False])).astype(int)))
    for start, end in ends.reshape(-1, 2).tolist():
        yield line.x[start:end], line.y[start:end]


def _text(x: float, y: float, text: str, anchor: str, kind: str = "", more: str = "") -> str:
    ink = "#666666" if kind else "#333333"
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"{more}>{escape(text)}</text>'
    )
