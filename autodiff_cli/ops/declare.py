"""How the tables of operations are written: one short constructor per way to differentiate."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from autodiff_cli.graph.node import Node, Operand
from autodiff_cli.graph.op import Op, Partial, Precedence, Shape, register

Fields: TypeAlias = dict[str, Any]  # some of the fields of an Op, for several operations to share


def _arity(function: Callable[..., Any], leading: int) -> tuple[int, int | None]:
    """The least and most inputs, read off the signature of a rule (its first parameter, `z`, not counted). One with any
    number of inputs takes two or more."""
    parameters = list(inspect.signature(function).parameters.values())[leading:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2, None
    return sum(p.default is p.empty for p in parameters), len(parameters)


def elementary(name: str, rule: Callable[..., Operand | Sequence[Operand]], **fields: Any) -> Op:
    """An operation with a rule of its own: `rule(z, *inputs)` gives one local derivative per input."""
    least, most = _arity(rule, 1)

    @functools.wraps(rule)  # the names of the inputs are read off its signature
    def locals_of(z: Node, *inputs: Node) -> Sequence[Operand]:
        found = rule(z, *inputs)
        return found if isinstance(found, tuple) else (found,)

    fields.setdefault("spelling", name)
    return register(Op(name=name, least=least, most=most, rule=locals_of, **fields))


def operator(name: str, symbol: str, level: Precedence, rule: Callable[..., Sequence[Operand]], **fields: Any) -> Op:
    """An elementary operation that the language writes with a symbol instead of a name."""
    fields.setdefault("spelling", "")
    return elementary(name, rule, symbol=symbol, precedence=level, **fields)


def chooser(name: str, choice: Callable[..., Sequence[tuple[Operand, Operand]]], **fields: Any) -> Op:
    """An operation that routes: `choice(z, *inputs)` gives (mask, weight) per input."""
    least, most = _arity(choice, 1)
    fields.setdefault("spelling", name)
    return register(Op(name=name, least=least, most=most, choice=choice, **fields))


def composite(name: str, expansion: Callable[..., Node], **fields: Any) -> Op:
    """An operation without a rule of its own: it is what it expands to."""
    least, most = _arity(expansion, 0)
    fields.setdefault("spelling", name)
    return register(Op(name=name, least=least, most=most, expansion=expansion, **fields))


def structural(
    name: str,
    shape: Callable[..., Shape],
    *,
    vjp: Callable[..., Sequence[Node | Partial | None]],
    jvp: Callable[..., Sequence[Node | None]],
    least: int,
    most: int | None,
    **fields: Any,
) -> Op:
    """An operation on whole arrays: `shape(node, *shapes)` is that of its output, `vjp(shapes, g, z, *inputs)` and
    `jvp(shapes, tangents, z, *inputs)` are what each input and each tangent contributes."""
    fields.setdefault("spelling", name)
    return register(Op(name=name, least=least, most=most, shape=shape, vjp=vjp, jvp=jvp, structural=True, **fields))


def helper(name: str, rule: Callable[..., Any] | None, expansion: Callable[..., Node]) -> Op:
    """An operation that serves rules only: tables of numbers may compute it more carefully than its expansion does,
    people read the expansion."""
    if rule is None:
        return composite(name, expansion, spelling="", helper=True)
    return elementary(name, rule, expansion=expansion, spelling="", helper=True)
