"""Constructors that declare operations, one for each way to define a derivative."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from autodiff_cli.graph.gradient import gradient
from autodiff_cli.graph.node import Node, Op, Operand, Partial, Precedence, Shape, as_node, register, variable
from autodiff_cli.graph.tape import ShapeError, Tape, infer_shapes

OpFields: TypeAlias = dict[str, Any]  # some fields of an `Op`, shared by several operations


def elementary(name: str, rule: Callable[..., Operand | Sequence[Operand]], **fields: Any) -> Op:
    """Declare an operation with a derivative rule: `rule(z, *inputs)` returns one local derivative per input."""

    def partials(z: Node, *inputs: Node) -> Sequence[Operand]:
        derivatives = rule(z, *inputs)
        return derivatives if isinstance(derivatives, tuple) else (derivatives,)

    return _declare_op(name, rule=partials, **(_input_fields(rule, 1) | fields))


def operator(name: str, symbol: str, level: Precedence, rule: Callable[..., Sequence[Operand]], **fields: Any) -> Op:
    """Declare an elementary operation that the language writes with a symbol."""
    return elementary(name, rule, symbol=symbol, precedence=level, **({"spelling": ""} | fields))


def chooser(name: str, choice: Callable[..., Sequence[tuple[Operand, Operand]]], **fields: Any) -> Op:
    """Declare an operation that selects among its inputs.

    `choice(z, *inputs)` returns a pair (mask, weight) per input. An input receives the gradient times `weight` where
    its mask is true, and a structural zero elsewhere.
    """

    def partials(z: Node, *inputs: Node) -> Sequence[Partial]:
        return [Partial(as_node(weight), as_node(mask)) for mask, weight in choice(z, *inputs)]

    return _declare_op(name, rule=partials, **_input_fields(choice, 1), **fields)


def composite(name: str, expansion: Callable[..., Node], *, is_structural: bool = False, **fields: Any) -> Op:
    """Declare an operation that is defined by its expansion alone.

    Args:
        name: the name of the operation.
        expansion: its definition in terms of other operations.
        is_structural: whether it works on whole arrays, as its expansion does. The field `vjp` may then override
            the derivatives of the expansion with simpler ones.
        fields: other fields of the `Op`.
    """
    if is_structural:
        fields = _structural_fields(expansion) | fields
    else:
        fields["rule"] = lambda z, *inputs: gradient(expansion(*inputs), inputs)
    fields = _input_fields(expansion, 0) | fields
    return _declare_op(name, expansion=expansion, is_composite=True, **fields)


def structural(
    name: str, shape: Callable[..., Shape], *, vjp: Callable[..., Sequence[Node | Partial | None]], **fields: Any
) -> Op:
    """Declare an operation on whole arrays.

    `shape(node, *shapes)` returns the shape of the output, and `vjp(shapes, g, z, *inputs)` the contribution of the
    output's adjoint `g` to the adjoint of each input.
    """
    return _declare_op(name, shape=shape, vjp=vjp, **(_input_fields(vjp, 3) | fields))


def helper(name: str, rule: Callable[..., Any] | None, expansion: Callable[..., Node], **fields: Any) -> Op:
    """Declare an operation that only derivative rules use.

    The tables of numbers may compute it more accurately than its expansion; printed formulas show the expansion.
    """
    if rule is None:
        return composite(name, expansion, spelling="", is_helper=True, **fields)
    return elementary(name, rule, expansion=expansion, spelling="", is_helper=True, **fields)


def _declare_op(name: str, **fields: Any) -> Op:
    return register(Op(name=name, **({"spelling": name} | fields)))


def _input_fields(function: Callable[..., Any], leading: int) -> OpFields:
    """Return the number and the names of an operation's inputs, from the signature of a rule.

    The first `leading` parameters of the rule are not inputs. A variadic operation takes at least two inputs.
    """
    parameters = list(inspect.signature(function).parameters.values())[leading:]
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    names = tuple(p.name for p in named)
    if len(named) < len(parameters):
        return {"min_inputs": 2, "max_inputs": None, "parameters": names}
    return {"min_inputs": sum(p.default is p.empty for p in named), "max_inputs": len(named), "parameters": names}


def _structural_fields(expansion: Callable[..., Node]) -> OpFields:
    """Return the shape function and the derivatives of an operation on whole arrays that is defined by its
    expansion."""

    def shape(node: Node, *input_shapes: Shape) -> Shape:
        leaves = [variable(f"x{k}") for k in range(len(node.inputs))]
        tape = Tape((expansion(*leaves),))
        try:
            return infer_shapes(tape, _leaf_shapes(leaves, input_shapes))[tape.outputs[0]]
        except ShapeError as error:
            # The caller adds this node; users do not know nodes of the expansion.
            raise ShapeError(str(error)) from None

    def vjp(input_shapes: Sequence[Shape], g: Node, _: Node, *inputs: Node) -> Sequence[Node | None]:
        derivatives = gradient(expansion(*inputs), inputs, _leaf_shapes(inputs, input_shapes), Partial(g))
        return [None if partial is None else partial.masked_graph for partial in derivatives]

    return {"shape": shape, "vjp": vjp}


def _leaf_shapes(leaves: Sequence[Node], leaf_shapes: Sequence[Shape]) -> dict[str, Shape]:
    """Return shapes by the names of leaves."""
    return {leaf.text: shape for leaf, shape in zip(leaves, leaf_shapes, strict=True)}
