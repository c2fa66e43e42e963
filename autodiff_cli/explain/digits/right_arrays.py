"""The right digits of formulas with arrays, element by element.

What is in doubt is asked of whole arrays whose results are moved, in one pass for all ways to move them. Some of the
elements of large arrays nearly always are, and long floats clear most of them. Only for the elements that are left
arrays are written out, each number a node of its own, and balls say what is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.unroll import Nodes, TooManyOperationsError, elements, unroll
from autodiff_cli.explain.digits.right import DIGITS, DOUBT, SHOWN, VALUE, corrected, with_right
from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.fine import FINE, FINER
from autodiff_cli.numbers.arrays.moved import is_undecided, start_array_moves
from autodiff_cli.numbers.arrays.table import ARRAYS, quiet
from autodiff_cli.numbers.floats.moved import TINY, WAYS

MOST = 50_000  # operations on numbers that are computed with proven digits
_LARGE = 1 << 14  # elements of an array that is judged by what it is made of
_MADE_OF = {"outer": 2, "broadcast_like": 1}  # how many of its inputs
_SMALL = 1000  # numbers of a point, all ways to move which are gone at once

Mask = NDArray[np.bool_]


class Spoilt(NamedTuple):
    """What is found of the numbers of a formula.

    Attributes:
        right: the right digits of those that have fewer than 12, by the name of the number.
        unknown: how many are in doubt whose right digits would take more than `MOST` operations.
    """

    right: dict[str, str]
    unknown: int

    def told(self, warnings: list[Caveat], node: int, label: str) -> list[Caveat]:
        """Warnings, with what there is to say of these numbers."""
        if not self.unknown:
            return with_right(warnings, self.right, node, label)
        what = "1 number that is printed" if self.unknown == 1 else f"{self.unknown:,} numbers that are printed"
        message = (
            f"{label}: rounding may have spoilt {what}; with its arrays written out the formula has more than "
            f"{MOST:,} operations, so that the right digits are not computed"
        )
        return [*warnings, Caveat(node, "precision", message)]


def checked_arrays(trace: Trace, graphs: Mapping[str, Node]) -> list[Caveat]:
    """The warnings of a trace with arrays, with the right digits for whatever is spoilt.

    Args:
        graphs: the value (`VALUE`), and the derivative towards each variable, by its name.
    """
    found = {name: trace.value if name == VALUE else trace.gradient[name] for name in graphs}
    spoilt = spoilt_numbers(graphs, found, trace.point, trace.expression.leaves, trace.unheld)
    if any(caveat.kind in ("singular", "domain") for caveat in trace.warnings):
        # of an edge that floats round across
        spoilt = spoilt._replace(right={name: text for name, text in spoilt.right.items() if text != "nan"})
    if not spoilt.right and not spoilt.unknown:
        return trace.warnings
    output = trace.tape.outputs[0]
    return spoilt.told(trace.warnings, output, trace.labels[output])


def spoilt_numbers(
    graphs: Mapping[str, Node],
    found: Mapping[str, Any],
    place: Mapping[str, Any],
    leaves: Mapping[str, Node],
    unheld: Mapping[str, Any] = MappingProxyType({}),
) -> Spoilt:
    """What rounding has spoilt of the values of graphs at numbers and arrays.

    Args:
        graphs: by name. Their elements are called as those of a variable: `v[0]`.
        found: their values as floats give them.
        place: the value of every leaf, by its name.
        leaves: by their names.
        unheld: as for `corrected`.
    """
    moved_by = _moved_by(graphs, found, place)
    doubtful = {
        name: ~(far <= DOUBT * np.abs(found[name])) | np.isinf(far) for name, far in moved_by.items() if far.any()
    }
    doubtful = {name: mask for name, mask in doubtful.items() if mask.any()}
    if unheld:
        doubtful = {name: np.ones(np.shape(found[name]), dtype=bool) for name in graphs}
    finer: dict[str, Any] = {}
    if doubtful and not unheld and _count(place) >= _SMALL:
        finer = _in_long_floats({name: graphs[name] for name in doubtful}, place)
        for name, fine in finer.items():
            doubtful[name] &= ~_is_cleared(found[name], fine, moved_by[name])
        doubtful = {name: mask for name, mask in doubtful.items() if mask.any()}
    if not doubtful:
        return Spoilt({}, 0)
    try:
        numbers, written = written_out([graphs[name] for name in doubtful], place, leaves)
    except TooManyOperationsError:
        right: dict[str, str] = {}
        for name, mask in doubtful.items():
            if name in finer:
                right |= _as_long_floats_say(name, mask, finer[name], moved_by[name])
        return Spoilt(right, sum(int(np.count_nonzero(mask)) for mask in doubtful.values()) - len(right))
    exact: dict[str, Node] = {}
    shown: dict[str, float] = {}
    for (name, mask), array in zip(doubtful.items(), written, strict=True):
        called, floats = elements(name, mask.shape), np.broadcast_to(found[name], mask.shape)
        for index in map(tuple, np.argwhere(mask)):
            label = called[index].text
            exact[label], shown[label] = np.broadcast_to(array, mask.shape)[index], float(floats[index])
    return Spoilt(corrected(shown, point_of(numbers, place), with_balls(exact), unheld), 0)


def written_out(
    graphs: Sequence[Node], place: Mapping[str, Any], leaves: Mapping[str, Node]
) -> tuple[dict[str, Nodes], list[Nodes]]:
    """The elements of every leaf, by its name, and the graphs of the elements of graphs.

    Raises TooManyOperationsError.
    """
    if _count(place) > MOST:
        raise TooManyOperationsError
    numbers = {name: elements(name, np.shape(x)) for name, x in place.items()}
    return numbers, unroll(graphs, {leaves[name]: array for name, array in numbers.items()}, MOST)


def point_of(numbers: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, float]:
    """The value of every element, by its name."""
    return {
        leaf.text: float(x)
        for name, array in numbers.items()
        for leaf, x in zip(array.reshape(-1).tolist(), np.ravel(place[name]), strict=True)
    }


def with_balls(graphs: Mapping[str, Node]) -> Any:
    """What gives the proven digits of some of these graphs of numbers, by their names: see `corrected`."""
    from autodiff_cli.autodiff.digits import evaluate

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        chosen = [*names]
        return dict(zip(chosen, evaluate([graphs[name] for name in chosen], SHOWN, leaves=leaves).known, strict=True))

    return exact


def _moved_by(graphs: Mapping[str, Node], found: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """How far elements go when results are moved: as `how_far` has it, but for large products of vectors, as slopes of
    matrices are, and for numbers that are spread out; these go as far as what they are made of makes them go."""
    spread = {
        name: {f"{name} {k}": part for k, part in enumerate(graph.inputs[: _MADE_OF.get(graph.op.name, 0)])}
        for name, graph in graphs.items()
        if graph.op is not None and np.size(found[name]) > _LARGE
    }
    spread = {name: parts for name, parts in spread.items() if parts}
    if not spread:
        return how_far(graphs, found, place)
    each = {label: part for parts in spread.values() for label, part in parts.items()}
    tape = Tape([*each.values()])
    with quiet():
        values = forward(tape, ARRAYS, with_ways(place))
        own = {label: _one_point(values[i]) for label, i in zip(each, tape.outputs, strict=True)}
        whole = {name: graph for name, graph in graphs.items() if name not in spread}
        moved_by = how_far({**whole, **each}, {**found, **own}, place)
        for name, parts in spread.items():
            sizes, moves = [np.abs(own[label]) for label in parts], [moved_by.pop(label) for label in parts]
            if not _is_within_range(sizes):
                moved_by |= how_far({name: graphs[name]}, found, place)
            elif all(np.all(far <= DOUBT / 2 * size) for far, size in zip(moves, sizes, strict=True)):
                moved_by[name] = np.zeros(())
            elif len(parts) == 1:
                moved_by[name] = np.broadcast_to(moves[0], np.shape(found[name]))
            else:
                moved_by[name] = np.outer(moves[0], sizes[1] + moves[1]) + np.outer(sizes[0], moves[1])
    return moved_by


def _is_within_range(sizes: Sequence[Any]) -> bool:
    """Whether no product of these overflows, or vanishes."""
    least = math.prod(float(np.min(size, where=size > 0, initial=math.inf)) for size in sizes)
    return least >= TINY and math.prod(float(np.max(size)) for size in sizes) < math.inf


def how_far(graphs: Mapping[str, Node], found: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """How far elements go when results are moved; infinitely far where they are not numbers with all digits, or a
    comparison cannot be made."""
    tape, given = Tape([*graphs.values()]), with_ways(place)
    # Products of matrices of which each element is several numbers are slower than as many products.
    at_once = [WAYS] if _count(place) < _SMALL else [(way,) for way in WAYS]
    farthest: dict[str, Any] = {name: np.zeros(np.shape(found[name])) for name in graphs}
    with quiet():
        for ways in at_once:
            values = forward(tape, start_array_moves(*ways), given)
            for name, i in zip(graphs, tape.outputs, strict=True):
                own = np.asarray(found[name])
                far = np.abs(values[i] - own[..., None])
                far = far[..., 0] if far.shape[-1] == 1 else far.max(axis=-1)  # nan of a nan
                farthest[name] = np.maximum(farthest[name], math.inf if is_undecided() else far)
    for name in graphs:
        size = np.abs(found[name])
        farthest[name] = np.where((size == 0) | ((size >= TINY) & (size < math.inf)), farthest[name], math.inf)
    return farthest


def _one_point(values: Any) -> Any:
    """An array without the axis of its rows, of which there is one; a constant has none."""
    return np.asarray(values)[..., 0] if np.ndim(values) else np.asarray(values)


def _count(place: Mapping[str, Any]) -> int:
    return sum(map(np.size, place.values()))


def _in_long_floats(graphs: Mapping[str, Node], place: Mapping[str, Any]) -> dict[str, Any]:
    """The values of graphs, computed in long floats; none where these have no more digits, or not all operations."""
    if FINER == 1:
        return {}
    tape = Tape([*graphs.values()])
    given = {name: np.asarray(x, dtype=np.longdouble)[..., None] for name, x in place.items()}
    try:
        with quiet():
            values = forward(tape, FINE, given)
    except NotImplementedError:
        return {}
    return {name: _one_point(values[i]) for name, i in zip(graphs, tape.outputs, strict=True)}


def _error(fine: Any, far: Any) -> Any:
    """The relative error of long floats where results of floats that are moved go so far.

    These are moved by more than they are rounded, and long floats are rounded by less, in proportion.
    """
    return np.where(fine == 0, math.inf, far * FINER / np.abs(fine))


def _is_cleared(own: Any, fine: Any, far: Any) -> Mask:
    """Where floats have 12 digits for certain: long floats say so, and their own error is too small to matter."""
    with quiet():
        close = np.abs(own - fine) <= 0.9 * 10.0**-DIGITS * np.abs(fine)
        return np.asarray(close & (_error(fine, far) < 0.1 * 10.0**-DIGITS))


def _as_long_floats_say(name: str, mask: Mask, fine: Any, far: Any) -> dict[str, str]:
    """The right digits of elements, as many as long floats have for certain; of those that have 12."""
    from flint import fmpq

    from autodiff_cli.numbers.balls.number import short_text

    called, right = elements(name, mask.shape), {}
    with quiet():
        error = np.broadcast_to(_error(fine, far), mask.shape)
    for index in map(tuple, np.argwhere(mask & (error < 10.0**-DIGITS))):
        digits = min(SHOWN, math.floor(-math.log10(error[index])))
        right[called[index].text] = short_text(
            fmpq(*np.broadcast_to(fine, mask.shape)[index].as_integer_ratio()), digits
        )
    return right


def with_ways(place: Mapping[str, Any]) -> dict[str, Any]:
    """The values of leaves with an axis for the ways to move, at the end, where they are arrays."""
    return {name: x[..., None] if np.ndim(x) else np.float64(x) for name, x in place.items()}


def is_doubtful(own: Any, moved: Any) -> Mask:
    """Where numbers are not those of results that were moved, but for their last digits, or have not all digits."""
    size = np.abs(own)
    right = (np.abs(own - moved) <= DOUBT * size) & np.isfinite(own) & ((own == 0) | (size >= TINY))
    return np.asarray(~right)
