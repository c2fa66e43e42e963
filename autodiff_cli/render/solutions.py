"""Reports of `solve`, `minimize` and `maximize`: tables of points, what is proven, and plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autodiff_cli.data.json_records import to_document
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render.formatting import number_formats, shortest_text, single_line
from autodiff_cli.render.report import Column, Paper, Report, Style, TextTable, number_columns
from autodiff_cli.solving.solutions import Bounds, BoxProblem, Coordinate, Optima, Solution

_NEARLY_ZERO = 1e-9  # bounds of an optimum within which it is reported as 0, with the error
_MAX_UNRESOLVED = 10  # boxes that the text lists


def solution_report(solution: Solution, problem: BoxProblem | None, digits: int | None) -> Report:
    """Report all zeros in a box.

    Args:
        problem: the problem, to draw it; None for no plot.
        digits: the number of digits to show; those that are proven by default.
    """

    def write(paper: Paper) -> None:
        _write_title(paper, solution, digits)
        names = [*solution.box]
        if solution.roots:
            paper.heading("zeros")
            rows = [
                (*(_number_text(root.point[name], root.enclosure[name], digits) for name in names),)
                for root in solution.roots
            ]
            _write_rows(paper, number_columns(*names), rows, "zero")
        _write_unresolved(paper, solution, digits)
        paper.line()
        count = pluralize(len(solution.roots), "zero")
        if solution.complete:
            found = f"{count}, proven" if solution.roots else "no zeros, proven"
            paper.line(f"Complete: {found} ({_boxes_text(solution.boxes)}).", Style.STRONG)
        else:
            paper.line(f"Incomplete: {count} proven; there may be others in the unresolved boxes.", Style.WARNING)
        if problem is not None:
            write_plot(paper, problem, [root.point for root in solution.roots])

    return Report(write, lambda: [to_document(solution)])


def optima_report(optima: Optima, problem: BoxProblem | None, digits: int | None) -> Report:
    """Report all stationary points in a box, and the global optimum; or the end of a local search.

    Args:
        problem: the problem, to draw it; None for no plot.
        digits: the number of digits to show; those that are proven by default.
    """

    def write(paper: Paper) -> None:
        _write_title(paper, optima, digits)
        names = [*(optima.box or optima.start)]
        word = "maximum" if optima.is_maximum else "minimum"
        best = set(optima.global_.points if optima.global_ else ())
        if optima.points:
            paper.heading("stationary points" if optima.box else f"local {word}")
            rows = [
                (
                    *(_number_text(point.point[name], point.enclosure[name], digits) for name in names),
                    _number_text(point.value, point.value_enclosure, digits),
                    ("global " if optima.complete and i in best and point.kind == word else "")
                    + point.kind
                    + (", on an edge" if point.on_edge else "")
                    + (", at a kink" if point.at_kink else ""),
                )
                for i, point in enumerate(optima.points)
            ]
            _write_rows(paper, (*number_columns(*names, "value"), Column("kind")), rows, "point")
        _write_unresolved(paper, optima, digits)
        paper.line()
        if optima.global_ is not None:
            low, high = optima.global_.value_enclosure
            paper.line(f"global {word} {_optimum_text(low, high, digits)}", Style.STRONG)
            count = pluralize(len(optima.points), "point")
            if optima.complete:
                paper.line(f"Complete: {count}, proven ({_boxes_text(optima.boxes)}).")
            else:
                paper.line(f"Incomplete: {count} proven; there may be others in the unresolved boxes.", Style.WARNING)
        elif optima.points:
            paper.line(f"Proven: exactly one stationary point nearby, a {optima.points[0].kind}. There may be others.")
        else:
            paper.line(f"The search ended without a proven {word}; try another start, or ranges.", Style.WARNING)
        if problem is not None:
            write_plot(paper, problem, [point.point for point in optima.points])

    def document() -> dict[str, Any]:
        fields = to_document(optima)
        optimum = fields.pop("global_")
        return fields if optimum is None else {**fields, "global": optimum}

    return Report(write, lambda: [document()])


def _optimum_text(low: float | str, high: float | str, digits: int | None) -> str:
    """Return what is known of an optimum, in words."""
    if low == high and math.isinf(float(low)):
        return "does not exist: the formula is undefined in the whole box"
    if math.isinf(float(low)) or math.isinf(float(high)):
        known = [f"at least {low}"] * math.isfinite(float(low)) + [f"at most {high}"] * math.isfinite(float(high))
        return f"is {known[0]}; no bound on the other side is proven" if known else "is not bounded by what is proven"
    if float(low) <= 0 <= float(high) and max(abs(float(low)), float(high)) < _NEARLY_ZERO:
        width = max(abs(float(low)), float(high))
        return f"= 0, within {1.05 * width:.1e}" if width else "= 0"
    return f"= {_number_text(low, (low, high), digits)}" if _agrees(low, high) else f"is between {low} and {high}"


def _write_title(paper: Paper, result: Solution | Optima, digits: int | None) -> None:
    show = number_formats(digits)[0]
    paper.line(single_line(result.expression), Style.STRONG)
    start = result.start if isinstance(result, Optima) else {}
    parts = [f"{name} between {show(low)} and {show(high)}" for name, (low, high) in result.box.items()]
    parts += [f"{name} = {show(value)}" for name, value in (start or result.fixed).items()]
    paper.line(("from " if start else "with ") + ", ".join(parts))


def _write_rows(paper: Paper, columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]], noun: str) -> None:
    first, last = paper.head_and_tail(len(rows))
    paper.table(TextTable(columns, [*rows[:first], *rows[len(rows) - last :]]))
    paper.write_omitted(len(rows) - first - last, noun)


def _write_unresolved(paper: Paper, result: Solution | Optima, digits: int | None) -> None:
    if not result.unresolved:
        return
    paper.heading("unresolved")
    show = number_formats(digits)[0]
    names = [*result.box]
    rows = [tuple(f"{show(low)} .. {show(high)}" for low, high in box.values()) for box in result.unresolved]
    paper.table(TextTable(tuple(map(Column, names)), rows[:_MAX_UNRESOLVED]))
    if len(rows) > _MAX_UNRESOLVED:
        paper.line(f"  … {len(rows) - _MAX_UNRESOLVED:,} more; --json has all", Style.FAINT)


def _boxes_text(count: int) -> str:
    return "1 box examined" if count == 1 else f"{count:,} boxes examined"


def _number_text(number: Coordinate, bounds: Bounds, digits: int | None) -> str:
    """Return a number with the digits that its bounds prove, or with so many digits."""
    if isinstance(number, str):
        return number
    if digits is not None:
        return number_formats(digits)[0](number)
    low, high = map(float, bounds)
    if low == high:
        return shortest_text(number)
    size = max(abs(low), abs(high))
    if high - low >= size:
        return "0" if size < 1e-15 else f"{number:.1g}"
    for count in range(16, 1, -1):
        text = f"{low:.{count}g}"
        if text == f"{high:.{count}g}":
            return text
    return shortest_text(number)


def _agrees(low: Coordinate, high: Coordinate) -> bool:
    """Whether bounds are so near that one number stands for both."""
    a, b = float(low), float(high)
    return abs(b - a) <= 1e-9 * max(abs(a), abs(b))


# --- Plots ---

_CURVE_POINTS = 400  # of a curve
_PLOT_ROWS = 16  # lines of a plot of a curve
_MAP_SIZE = (60, 20)  # columns and lines of a map
_LEVELS = " .:-=+*#%@"  # from the lowest values to the highest; each stands for as many places


def write_plot(paper: Paper, problem: BoxProblem, points: Sequence[Mapping[str, Coordinate]]) -> None:
    """Draw a function over its range, with the points found; a function of two unknowns as a map of its levels."""
    import numpy as np

    from autodiff_cli.render.plots import Panel, write_panel
    from autodiff_cli.training.result.prediction import FittedCurve

    names = [*problem.unknowns]
    ends = problem.record["box"]
    title = single_line(problem.formula.text)
    if len(problem.outputs()) > 1 or len(names) not in (1, 2):
        paper.line("--plot draws one formula of one or two unknowns.", Style.WARNING)
        return
    found = {name: np.array([float(point[name]) for point in points]) for name in names}
    if len(names) == 1:
        (name,) = names
        x = np.linspace(ends[name][0], ends[name][1], _CURVE_POINTS)
        at = found[name]
        marked = (at, problem.evaluate({name: at})[0]) if len(at) else None
        curve = FittedCurve(title, x, problem.evaluate({name: x})[0])
        write_panel(paper, Panel("plot", name, title, [curve], marked, rows=_PLOT_ROWS, note="points found"))
        return
    paper.heading("map")
    columns, rows = min(_MAP_SIZE[0], paper.width - 4), _MAP_SIZE[1]
    x, y = (
        np.linspace(ends[name][0], ends[name][1], count) for name, count in zip(names, (columns, rows), strict=True)
    )
    values = problem.evaluate(dict(zip(names, np.meshgrid(x, y), strict=True)))[0]
    finite = np.sort(values[np.isfinite(values)])
    ranks = np.searchsorted(finite, values, side="right") * len(_LEVELS) // (len(finite) + 1)
    marks = np.array([*_LEVELS])[np.clip(ranks, 0, len(_LEVELS) - 1)]
    places = (
        np.clip(np.searchsorted(axis, found[name]), 0, len(axis) - 1) for axis, name in ((y, names[1]), (x, names[0]))
    )
    marks[(*places,)] = "o"
    for line in marks[::-1]:
        paper.verbatim("".join(line))
    across, up = (
        f"{name} from {number_formats(6)[0](low)} to {number_formats(6)[0](high)}" for name, (low, high) in ends.items()
    )
    paper.line(f"  across: {across}; up: {up}; o: points found; {_LEVELS.strip()}: from low to high", Style.FAINT)
