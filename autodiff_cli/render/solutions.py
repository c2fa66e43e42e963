"""Reports of `solve`, `minimize` and `maximize`: tables of points, proofs, and plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autodiff_cli.data.json_records import to_document
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render.formatting import shortest_text, single_line
from autodiff_cli.render.report import Column, Paper, Report, Style, TextTable, dot_plot, number_columns
from autodiff_cli.solving.solutions import Bounds, BoxProblem, Coordinate, GlobalOptimum, Optima, Solution

_NEARLY_ZERO = 1e-9  # bounds of an optimum within which it is reported as 0, with the error
_NEARLY_EQUAL = 1e-9  # relative difference of bounds for which one number stands for both
_MAX_UNRESOLVED = 10  # boxes that the text lists


def solution_report(solution: Solution, problem: BoxProblem | None) -> Report:
    """Report all zeros in a box.

    Args:
        problem: the problem, to draw it; None for no plot.
    """

    def write(paper: Paper) -> None:
        _write_title(paper, solution)
        names = [*solution.box]
        rows = [_point_texts(paper, names, root.point, root.enclosure) for root in solution.roots]
        paper.titled_table("zeros", TextTable(number_columns(*names), rows))
        _write_unresolved(paper, solution)
        _write_verdict(paper, solution, len(solution.roots), "zero")
        if problem is not None:
            write_plot(paper, problem, [root.point for root in solution.roots])

    return Report(write, lambda: [to_document(solution)])


def optima_report(optima: Optima, problem: BoxProblem | None) -> Report:
    """Report all stationary points in a box, and the global optimum; or the end of a local search.

    Args:
        problem: the problem, to draw it; None for no plot.
    """

    def write(paper: Paper) -> None:
        _write_title(paper, optima)
        names = [*(optima.box or optima.start)]
        word = "maximum" if optima.is_maximum else "minimum"
        best = set(optima.global_.points if optima.global_ else ())
        rows = [
            (
                *_point_texts(paper, names, point.point, point.enclosure),
                _number_text(paper, point.value, point.value_enclosure),
                ("global " if optima.complete and i in best and point.kind == word else "")
                + point.kind
                + (", on an edge" if point.on_edge else "")
                + (", at a kink" if point.at_kink else ""),
            )
            for i, point in enumerate(optima.points)
        ]
        title = "stationary points" if optima.box else f"local {word}"
        paper.titled_table(title, TextTable((*number_columns(*names, "value"), Column("kind")), rows))
        _write_unresolved(paper, optima)
        if optima.global_ is not None:
            is_bound = optima.unresolved and not optima.global_.attained
            subject = f"global {word}" if not is_bound else "supremum" if optima.is_maximum else "infimum"
            paper.line(f"{subject} {_optimum_text(paper, optima, optima.global_)}", Style.STRONG)
            if is_bound:
                paper.line("Values in the unresolved boxes may approach it without reaching it.", Style.WARNING)
            _write_verdict(paper, optima, len(optima.points), "point")
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


def _optimum_text(paper: Paper, optima: Optima, optimum: GlobalOptimum) -> str:
    """Return an optimum, or its bounds, in words."""
    (low, high), best = optimum.value_enclosure, [optima.points[k].value for k in optimum.points]
    if optima.complete and best and isinstance(best[0], str):
        return f"= {best[0]}"  # floats may not tell such a number from 0 or infinity
    least, most = float(low), float(high)
    if least == most and math.isinf(least):
        return "does not exist: the formula is undefined in the whole box"
    if math.isinf(least) or math.isinf(most):
        bounds = [f"at least {low}"] * math.isfinite(least) + [f"at most {high}"] * math.isfinite(most)
        return f"is {bounds[0]}; no bound on the other side is proven" if bounds else "has no proven bound"
    size = max(abs(least), abs(most))
    if least <= 0 <= most and size < _NEARLY_ZERO:
        return f"= 0, within {1.05 * size:.1e}" if size else "= 0"
    if most - least <= _NEARLY_EQUAL * size:
        return f"= {_number_text(paper, low, (low, high))}"
    return f"is between {low} and {high}"


def _write_title(paper: Paper, result: Solution | Optima) -> None:
    show = paper.in_full
    paper.line(single_line(result.expression), Style.STRONG)
    start = result.start if isinstance(result, Optima) else {}
    parts = [f"{name} between {show(low)} and {show(high)}" for name, (low, high) in result.box.items()]
    parts += [f"{name} = {show(value)}" for name, value in (start or result.fixed).items()]
    paper.line(("from " if start else "with ") + ", ".join(parts))


def _write_unresolved(paper: Paper, result: Solution | Optima) -> None:
    show = paper.in_full
    rows = [tuple(f"{show(low)} .. {show(high)}" for low, high in box.values()) for box in result.unresolved]
    paper.titled_table("unresolved", TextTable(tuple(map(Column, result.box)), rows), _MAX_UNRESOLVED)
    for point, error in result.nearly[:_MAX_UNRESOLVED] if isinstance(result, Solution) else ():
        place = ", ".join(f"{name} = {show(x) if isinstance(x, float) else x}" for name, x in point.items())
        paper.line(
            f"  At {place} there is a multiple zero, several zeros too close to distinguish, or none: "
            f"all equations are 0 within {error:.1e}."
        )
    paper.line()


def _write_verdict(paper: Paper, result: Solution | Optima, count: int, noun: str) -> None:
    may_be_more = isinstance(result, Solution) and not all(root.unique for root in result.roots)
    points = "at least " * may_be_more + (pluralize(count, noun) if count else f"no {noun}s")
    if result.complete:
        boxes = f"{result.boxes:,} box{'' if result.boxes == 1 else 'es'} examined"
        paper.line(f"Complete: {points}, proven ({boxes}).", Style.STRONG)
    else:
        paper.line(f"Incomplete: {points} proven; there may be others in the unresolved boxes.", Style.WARNING)


def _point_texts(
    paper: Paper, names: Sequence[str], point: Mapping[str, Coordinate], bounds: Mapping[str, Bounds]
) -> tuple[str, ...]:
    return tuple(_number_text(paper, point[name], bounds[name]) for name in names)


def _number_text(paper: Paper, number: Coordinate, bounds: Bounds) -> str:
    """Return a number with the digits that its bounds prove, or with as many as the paper's numbers have."""
    if isinstance(number, str):
        return number
    if paper.digits is not None:
        return paper.in_full(number)
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


# --- Plots ---

_CURVE_POINTS = 400  # computed points of a curve
_PLOT_ROWS = 16  # lines of a plot of a curve
_CONTOUR_ROWS = 20  # lines of a plot of contours
_CONTOURS = 9
_MAX_CONTOUR_WIDTH = 60  # terminal columns
_SCALE_WIDTH = 20  # terminal columns beside the plot


def write_plot(paper: Paper, problem: BoxProblem, points: Sequence[Mapping[str, Coordinate]]) -> None:
    """Draw a function over its range, with the points found; one of two unknowns by its contours."""
    import numpy as np

    from autodiff_cli.render.plots import Panel, write_panel
    from autodiff_cli.training.result.fitted_model import FittedCurve

    names = [*problem.unknowns]
    ends = problem.record["box"]
    title = single_line(problem.formula.text)
    if len(problem.outputs()) > 1 or len(names) not in (1, 2):
        paper.line("--plot draws one formula of one or two unknowns.", Style.WARNING)
        return
    coordinates = {name: np.array([float(point[name]) for point in points]) for name in names}
    if len(names) == 1:
        (name,) = names
        x = np.linspace(ends[name][0], ends[name][1], _CURVE_POINTS)
        at = coordinates[name]
        marked = (at, problem.evaluate({name: at})[0]) if len(at) else None
        curve = FittedCurve(title, x, problem.evaluate({name: x})[0])
        write_panel(paper, Panel("plot", name, title, [curve], marked, rows=_PLOT_ROWS, note="points found"))
        return
    columns = max(min(paper.width - _SCALE_WIDTH, _MAX_CONTOUR_WIDTH) // 10 * 10, 10)
    x, y = (
        np.linspace(ends[name][0], ends[name][1], dots)
        for name, dots in zip(names, (2 * columns, 4 * _CONTOUR_ROWS), strict=True)
    )
    values = problem.evaluate(dict(zip(names, np.meshgrid(x, y), strict=True)))[0]
    finite = np.sort(values[np.isfinite(values)])
    levels = np.searchsorted(finite, values) * (_CONTOURS + 1) // (len(finite) + 1)
    is_border = (levels[1:, 1:] != levels[:-1, 1:]) | (levels[1:, 1:] != levels[1:, :-1])
    rows, places = np.nonzero(is_border)
    dots = x[places + 1].tolist(), y[rows + 1].tolist()
    marked_points = [column.tolist() for column in coordinates.values()]
    paper.heading("contours")
    paper.verbatim(*dot_plot(ends, dots, marked_points, (columns, _CONTOUR_ROWS)))
    shares = f"{_CONTOURS} contour lines, with equal areas between them"
    paper.line(f"  {names[1]} over {names[0]}, o: points found, dots: {shares}", Style.FAINT)
