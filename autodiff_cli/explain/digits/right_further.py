"""The right digits of derivatives beyond the gradient: of higher order, along a direction, of second order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from autodiff_cli.autodiff.forward import forward, tangents
from autodiff_cli.autodiff.taylor import derivatives
from autodiff_cli.explain.digits.right import SHOWN, corrected, in_doubt
from autodiff_cli.explain.record import shape_of
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.further import Further
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")
Computation = Callable[[Kind[Any], Mapping[str, Any]], dict[str, Any]]


def right_further(
    formula: Formula,
    point: Mapping[str, float],
    further: Further,
    unheld: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """The right digits of what has fewer than 12 of them: by `derivative`, `directional`, and `hessian.x.y`.

    Args:
        formula: of numbers.
        point: a value for every variable.
        further: what floats give.
        unheld: as for `corrected`.
    """
    right: dict[str, str] = {}
    point = {
        name: x for name, x in point.items() if not shape_of(x)
    }  # what is made of arrays is 0, as in `checked_right`
    for found, compute in _computations(formula, further, point):
        doubtful = [*found] if unheld else in_doubt(found, lambda kind, compute=compute: compute(kind, point))  # type: ignore[misc]
        if doubtful:
            chosen = {name: found[name] for name in doubtful}
            right |= corrected(chosen, point, settled(compute), unheld)
    return right


def _computations(
    formula: Formula, further: Further, names: Collection[str]
) -> Iterator[tuple[dict[str, float], Computation]]:
    """What was asked for of the variables `names`, and how it is computed with any kind of number."""
    if further.derivative is not None:
        leaf = formula.leaves[further.variable]
        tape = Tape((formula.output,), [leaf])

        def of_order(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            return {"derivative": derivatives(tape, leaf, kind, point, further.order)[-1]}

        yield {"derivative": float(further.derivative)}, of_order
    if further.directional is not None and further.direction is not None:
        rates = {name: rate for name, rate in further.direction.items() if name in names}

        def along(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            seeds = {name: kind.rate(repr(float(rate))) for name, rate in rates.items()}
            slope = tangents(formula.tape, kind, forward(formula.tape, kind, point), seeds)[-1]
            return {"directional": kind.read("0") if slope is None else slope}

        yield {"directional": float(further.directional)}, along
    if further.hessian is not None:
        hessian = {row: of for row, of in further.hessian.items() if row in names}
        slopes = gradient_nodes(formula.output, [formula.leaves[name] for name in hessian])
        found = {f"hessian.{row}.{column}": float(of[column]) for row, of in hessian.items() for column in hessian}
        yield found, of_second_order(dict(zip(hessian, slopes, strict=True)), [*hessian])


def of_second_order(slopes: Mapping[str, Node], columns: Sequence[str]) -> Computation:
    """The derivatives of graphs of numbers, by the names of rows, towards the leaves that are the columns."""
    tape = Tape([*slopes.values()])

    def compute(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
        values, one, nothing = forward(tape, kind, point), kind.rate("1"), kind.read("0")
        found = {}
        for column in columns:
            moved = tangents(tape, kind, values, {column: one})
            for row, i in zip(slopes, tape.outputs, strict=True):
                rate = moved[i]
                found[f"hessian.{row}.{column}"] = nothing if rate is None else rate
        return found

    return compute


def settled(compute: Computation) -> Callable[[Mapping[str, Any], Iterable[str]], dict[str, Any]]:
    """A computation with balls, until its numbers have the digits: see `corrected`."""

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        from autodiff_cli.autodiff.digits import settle

        chosen = [*names]

        def numbers(kind: Kind[Any], _: int | None) -> list[Any]:
            found = compute(kind, leaves)
            return [found[name] for name in chosen]

        return dict(zip(chosen, settle(numbers, SHOWN, count=len(chosen)).known, strict=True))

    return exact
