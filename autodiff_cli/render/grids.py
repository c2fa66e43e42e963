"""Arrays as aligned rows, for those who read text: numbers while they fit, shades beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autodiff_cli.explain.jacobians import has_jacobian, jacobian
from autodiff_cli.explain.record import BackwardStep, ForwardStep, Trace, shape_of
from autodiff_cli.render.numbers import LARGEST_IN_TABLE, Show

WIDTH = 72  # columns of rows
SHADES, PLAIN_SHADES = " ░▒▓█", " .:*#"  # from 0 to the largest size
_MOST_ROWS, _MOST_SHADED = 12, 10  # of numbers, of shades
_GAP = "  "


def is_grid(x: Any) -> bool:
    """Whether an array is more than what stands within a line."""
    shape = shape_of(x)
    return bool(shape) and x.size > LARGEST_IN_TABLE


def grid(x: Any, show: Show, label: str = "", shades: str = SHADES) -> Iterator[str]:
    """The rows of an array, one below the other, beside its label; a vector is one row.

    Of an array with more axes, the last one makes the rows. Where the numbers need too much room, a character stands
    for each by its size, of a still larger array for some of each row and each column.
    """
    rows = x.reshape(-1, x.shape[-1]).tolist()
    texts = [[show(number) for number in row] for row in rows[:_MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    before = f"{label}{_GAP}" if label else ""
    if len(rows) <= _MOST_ROWS and len(before) + sum(widths) + len(_GAP) * (len(widths) - 1) <= WIDTH:
        lines = [
            _GAP.join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts
        ]
    else:
        lines = [*_shaded(rows, WIDTH - len(before), shades)]
        lines.append(f"the fuller, the larger in size, up to {show(_largest(rows))}")
    for count, line in enumerate(lines):
        yield f"{before if count == 0 else ' ' * len(before)}{line}"


def _shaded(rows: Sequence[Sequence[float]], width: int, shades: str) -> list[str]:
    picked = [[row[k] for k in _some(len(row), width - 2)] for row in (rows[k] for k in _some(len(rows), _MOST_SHADED))]
    largest, steps = _largest(rows), len(shades) - 1

    def shade(x: float) -> str:
        if x != x or abs(x) == float("inf"):
            return "!"
        return shades[0 if x == 0 or not largest else max(1, round(abs(x) / largest * steps))]

    return [f"|{''.join(map(shade, row))}|" for row in picked]


def _largest(rows: Sequence[Sequence[float]]) -> float:
    """The largest size of a number that is finite."""
    return max((abs(x) for row in rows for x in row if abs(x) < float("inf")), default=0.0)


def _some(count: int, most: int) -> list[int]:
    """Of so many, all or at most `most` that are spread evenly."""
    return [*range(count)] if count <= most else [k * count // most for k in range(most)]


def going_in(trace: Trace, step: ForwardStep) -> Iterator[tuple[str, Any]]:
    """The large arrays that a step takes from the reader, with their names, and the one that it makes."""
    for i in dict.fromkeys(step.inputs):
        if trace.tape.nodes[i].op is None and is_grid(trace.values[i]):
            yield trace.labels[i], trace.values[i]
    if is_grid(step.value):
        yield trace.labels[step.node], step.value


def handed_back_by(trace: Trace, step: BackwardStep) -> Iterator[tuple[str, Any]]:
    """The large array of slopes by which a step hands back an adjoint, with its name."""
    if trace.arrived[step.node] is not None and has_jacobian(trace, step.node):
        slopes = jacobian(trace, step.node)
        if is_grid(slopes):
            yield "Jacobian" if shape_of(step.adjoint) else "slope", slopes
