"""The right digits of formulas with arrays, element by element.

What is in doubt is asked of whole arrays whose results are moved, in one pass for all ways to move them. Only for the
elements in doubt arrays are written out, each number a node of its own, and balls say what is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.unroll import Nodes, TooManyOperationsError, elements, unroll
from autodiff_cli.explain.digits.right import DOUBT, SHOWN, VALUE, corrected, with_right
from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.moved import is_undecided, start_array_moves
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.numbers.floats.moved import TINY, WAYS

MOST = 50_000  # operations on numbers that are computed with proven digits
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
    spoilt = spoilt_numbers(graphs, found, trace.point, trace.expression.leaves)
    if any(caveat.kind in ("singular", "domain") for caveat in trace.warnings):
        # of an edge that floats round across
        spoilt = spoilt._replace(right={name: text for name, text in spoilt.right.items() if text != "nan"})
    output = trace.tape.outputs[0]
    return spoilt.told(trace.warnings, output, trace.labels[output])


def spoilt_numbers(
    graphs: Mapping[str, Node], found: Mapping[str, Any], place: Mapping[str, Any], leaves: Mapping[str, Node]
) -> Spoilt:
    """What rounding has spoilt of the values of graphs at numbers and arrays.

    Args:
        graphs: by name. Their elements are called as those of a variable: `v[0]`.
        found: their values as floats give them.
        place: the value of every leaf, by its name.
        leaves: by their names.
    """
    doubtful = in_doubt(graphs, found, place)
    if not doubtful:
        return Spoilt({}, 0)
    try:
        numbers, written = written_out([graphs[name] for name in doubtful], place, leaves)
    except TooManyOperationsError:
        return Spoilt({}, sum(int(np.count_nonzero(mask)) for mask in doubtful.values()))
    exact: dict[str, Node] = {}
    shown: dict[str, float] = {}
    for (name, mask), array in zip(doubtful.items(), written, strict=True):
        called, floats = elements(name, mask.shape), np.broadcast_to(found[name], mask.shape)
        for index in map(tuple, np.argwhere(mask)):
            label = called[index].text
            exact[label], shown[label] = np.broadcast_to(array, mask.shape)[index], float(floats[index])
    return Spoilt(corrected(shown, point_of(numbers, place), with_balls(exact)), 0)


def written_out(
    graphs: Sequence[Node], place: Mapping[str, Any], leaves: Mapping[str, Node]
) -> tuple[dict[str, Nodes], list[Nodes]]:
    """The elements of every leaf, by its name, and the graphs of the elements of graphs.

    Raises TooManyOperationsError.
    """
    if sum(map(np.size, place.values())) > MOST:
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


def in_doubt(graphs: Mapping[str, Node], found: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Mask]:
    """Which elements are not the same, but for their last digits, when results are moved, or are not numbers with all
    digits; only graphs that have such."""
    tape, given = (
        Tape([*graphs.values()]),
        {name: x[..., None] if np.ndim(x) else np.float64(x) for name, x in place.items()},
    )
    # Products of matrices of which each element is several numbers are slower than as many products.
    at_once = [WAYS] if sum(map(np.size, place.values())) < _SMALL else [(way,) for way in WAYS]
    masks = {name: np.zeros(np.shape(x), dtype=bool) for name, x in found.items()}
    with quiet():
        for ways in at_once:
            values = forward(tape, start_array_moves(*ways), given)
            for name, i in zip(graphs, tape.outputs, strict=True):
                masks[name] |= is_doubtful(np.asarray(found[name])[..., None], values[i]).any(axis=-1) | is_undecided()
    return {name: mask for name, mask in masks.items() if mask.any()}


def with_ways(place: Mapping[str, Any]) -> dict[str, Any]:
    """The values of leaves with an axis for the ways to move, at the end, where they are arrays."""
    return {name: x[..., None] if np.ndim(x) else np.float64(x) for name, x in place.items()}


def is_doubtful(own: Any, moved: Any) -> Mask:
    """Where numbers are not those of results that were moved, but for their last digits, or have not all digits."""
    size = np.abs(own)
    right = (np.abs(own - moved) <= DOUBT * size) & np.isfinite(own) & ((own == 0) | (size >= TINY))
    return np.asarray(~right)
