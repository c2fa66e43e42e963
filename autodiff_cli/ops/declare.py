"""How the tables of operations are written: one short constructor per way to differentiate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from autodiff_cli.graph.gradient import NOTHING, gradient, tangent
from autodiff_cli.graph.node import Node, Operand, as_node, variable
from autodiff_cli.graph.op import Op, Partial, Precedence, Shape
from autodiff_cli.graph.registry import register
from autodiff_cli.graph.shapes import ShapeError, shapes
from autodiff_cli.graph.tape import Tape

Fields: TypeAlias = dict[str, Any]  # some of the fields of an Op, for several operations to share


def elementary(name: str, rule: Callable[..., Operand | Sequence[Operand]], **fields: Any) -> Op:
    """An operation with a rule of its own: `rule(z, *inputs)` gives one local derivative per input."""

    def partials(z: Node, *inputs: Node) -> Sequence[Operand]:
        found = rule(z, *inputs)
        return found if isinstance(found, tuple) else (found,)

    return _declared(name, rule=partials, **_inputs(rule, 1), **fields)


def operator(name: str, symbol: str, level: Precedence, rule: Callable[..., Sequence[Operand]], **fields: Any) -> Op:
    """An elementary operation that the language writes with a symbol instead of a name."""
    return elementary(name, rule, symbol=symbol, precedence=level, **({"spelling": ""} | fields))


def chooser(name: str, choice: Callable[..., Sequence[tuple[Operand, Operand]]], **fields: Any) -> Op:
    """An operation that selects: `choice(z, *inputs)` gives (mask, weight) per input. It hands on `weight` times its
    gradient to the inputs whose mask holds, and structurally nothing to the others."""

    def partials(z: Node, *inputs: Node) -> Sequence[Partial]:
        return [Partial(as_node(weight), as_node(mask)) for mask, weight in choice(z, *inputs)]

    return _declared(name, rule=partials, **_inputs(choice, 1), **fields)


def composite(name: str, expansion: Callable[..., Node], *, on_arrays: bool = False, **fields: Any) -> Op:
    """An operation without a rule of its own: it is what it expands to.

    Args:
        on_arrays: whether it is structural, since its expansion is; `vjp` and `jvp` may say more simply how derivatives
            pass through it.
    """
    if on_arrays:
        fields = _passing(expansion) | fields
    else:
        fields["rule"] = lambda z, *inputs: gradient(expansion(*inputs), inputs)
    return _declared(name, expansion=expansion, is_composite=True, **_inputs(expansion, 0), **fields)


def structural(
    name: str,
    shape: Callable[..., Shape],
    *,
    vjp: Callable[..., Sequence[Node | Partial | None]],
    jvp: Callable[..., Sequence[Node | Partial | None]],
    **fields: Any,
) -> Op:
    """An operation on whole arrays: `shape(node, *shapes)` is that of its output, `vjp(shapes, g, z, *inputs)` and
    `jvp(shapes, tangents, z, *inputs)` are what each input and each tangent contributes."""
    return _declared(name, shape=shape, vjp=vjp, jvp=jvp, **(_inputs(vjp, 3) | fields))


def helper(name: str, rule: Callable[..., Any] | None, expansion: Callable[..., Node], **fields: Any) -> Op:
    """An operation that serves rules only: tables of numbers may compute it more carefully than its expansion does,
    people read the expansion."""
    if rule is None:
        return composite(name, expansion, spelling="", helper=True, **fields)
    return elementary(name, rule, expansion=expansion, spelling="", helper=True, **fields)


def _declared(name: str, **fields: Any) -> Op:
    return register(Op(name=name, **({"spelling": name} | fields)))


def _inputs(function: Callable[..., Any], leading: int) -> Fields:
    """How many inputs an operation has and what they are called, read off the signature of a rule, without its
    `leading` parameters. One that takes any number takes two or more."""
    parameters = list(inspect.signature(function).parameters.values())[leading:]
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    names = tuple(p.name for p in named)
    if len(named) < len(parameters):
        return {"least": 2, "most": None, "parameters": names}
    return {"least": sum(p.default is p.empty for p in named), "most": len(named), "parameters": names}


def _passing(expansion: Callable[..., Node]) -> Fields:
    """What shape a definition on whole arrays has, and how derivatives pass through it."""

    def shape(node: Node, *found: Shape) -> Shape:
        # Constants (an index, say) are part of the node, so the definition keeps them.
        places = [child if child.is_constant else variable(f"x{k}") for k, child in enumerate(node.inputs)]
        tape = Tape((expansion(*places),))
        try:
            return shapes(tape, _sizes(places, found))[tape.outputs[0]]
        except ShapeError as error:
            raise ShapeError(str(error)) from None  # of this node, not of one of its definition

    def vjp(found: Sequence[Shape], g: Node, _: Node, *inputs: Node) -> Sequence[Node | None]:
        arrived = gradient(expansion(*inputs), inputs, _sizes(inputs, found), Partial(g))
        return [None if partial is NOTHING else partial.selected for partial in arrived]

    def jvp(found: Sequence[Shape], d: Sequence[Node], _: Node, *inputs: Node) -> Sequence[Node]:
        graph, sizes = expansion(*inputs), _sizes((*inputs, *d), (*found, *found))
        return [tangent(graph, {x: dx}, sizes) for x, dx in zip(inputs, d, strict=True)]

    return {"shape": shape, "vjp": vjp, "jvp": jvp}


def _sizes(places: Sequence[Node], found: Sequence[Shape]) -> dict[str, Shape]:
    """The shapes of leaves, by name."""
    return {place.text: shape for place, shape in zip(places, found, strict=True)}
