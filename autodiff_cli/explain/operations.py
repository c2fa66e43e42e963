"""What there is to know about an operation, read from its record: nothing here knows a formula."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, as_node, is_literal, variable
from autodiff_cli.graph.op import ZERO, Op, Shape
from autodiff_cli.graph.shapes import ShapeError, shape_of
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.language.code import SPELLINGS
from autodiff_cli.language.errors import suggest
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops import all_ops, function

ADJOINT = "g"  # what the adjoint of a structural operation's output is called
_ANY = ("x", "y")  # the inputs of an operation that takes any number of them
# Shapes to show a structural operation by: the first with which it works.
_SHAPES: Sequence[Shape] = ((2, 2), (3,), ())


class Description(NamedTuple):
    """An operation in words and formulas, all in the expression language.

    Attributes:
        op: the record.
        call: how it is written, with names for its inputs.
        derivatives: by input; for an operation on whole arrays, what the adjoint `g` of its output contributes to the
            adjoint of each input, and nothing for an input that takes none.
        textbook: the derivative of an operation on one number as books have it, in its own value; None where that is
            the same.
        definition: what it stands for, if that is how it is defined.
        kink: where the derivative is one-sided, and `domain`, where it is defined, and `singular`, where the value or
            a slope is infinite or undefined; None where that is nowhere, or everywhere.
    """

    op: Op
    call: str
    derivatives: dict[str, str]
    textbook: str | None
    definition: str | None
    kink: str | None
    domain: str | None
    singular: str | None


def described(op: Op) -> Description:
    """The description of an operation."""
    names = _input_names(op)
    inputs = [variable(name) for name in names]
    place = dict(zip(op.placeholders(len(names)), inputs, strict=True))
    call = op(*inputs)

    def text(graph: Node | None) -> str | None:
        return None if graph is None else to_text(simplify(rebuild([graph], place))[0], share=False)

    derivatives = _passed(op, names) if op.structural else _slopes(op, call, names)
    return Description(
        op,
        to_text(call, share=False),
        {name: to_text(simplify([graph])[0], share=False) for name, graph in derivatives.items()},
        None if op.textbook is None else to_text(as_node(op.textbook(call, *inputs)), share=False),
        text(op.expand(len(names))),
        text(op.predicate("kink", len(names))),
        text(op.predicate("domain", len(names))),
        text(op.predicate("singular", len(names))),
    )


def operations() -> Iterator[Op]:
    """The operations of the language, in the order of the table."""
    return (op for op in all_ops() if not op.helper)


def named(name: str) -> tuple[Op, ...]:
    """The operations that are called, or written as, `name` (`**` is `^`); empty if there are none."""
    symbol = SPELLINGS.get(name, name)
    return function(name) or tuple(op for op in operations() if name and symbol in (op.name, op.symbol))


def close_name(name: str) -> str | None:
    """The name of an operation that `name` may be a misspelling of."""
    return suggest(name, [name for op in operations() for name in (op.spelling, op.name, *op.aliases) if name])


def curves(op: Op) -> list[Formula]:
    """An operation on one number, and its derivative if that is not the same everywhere, as expressions of `x`; empty
    for any other operation."""
    if op.structural or not op.accepts(1):
        return []
    x = variable("x")
    value = Formula(op(x), {"x": x})
    return [expression for expression in (value, value.derivative("x")) if expression.variables]


def _input_names(op: Op) -> tuple[str, ...]:
    """The names that the record gives the inputs, and more where any number of them is taken."""
    names = [*op.parameters]
    if op.most is None:
        free = (name for name in _ANY if name not in names)
        names += itertools.islice(free, max(op.least, len(_ANY)) - len(names))
    return tuple(names)


def _slopes(op: Op, call: Node, names: Sequence[str]) -> dict[str, Node]:
    rule = op.partials(len(names))
    place = {rule.output: call, **dict(zip(rule.inputs, call.inputs, strict=True))}
    slopes = [ZERO if p.mask is not None and is_literal(p.mask, 0) else p.selected for p in rule.partials]
    return dict(zip(names, rebuild(slopes, place), strict=True))


def _passed(op: Op, names: Sequence[str]) -> dict[str, Node]:
    inputs = [variable(name) for name in names]
    call = op(*inputs)
    for shapes in itertools.product(_SHAPES, repeat=len(names)):
        try:
            shape_of(call, shapes)
            passage = op.passage(shapes)
        except ShapeError:
            continue
        place = {passage.output: call, passage.adjoint: variable(ADJOINT)}
        place |= dict(zip(passage.inputs, inputs, strict=True))
        kept = {name: back for name, back in zip(names, passage.back, strict=True) if back is not None}
        return dict(zip(kept, rebuild([*kept.values()], place), strict=True))
    return {}
