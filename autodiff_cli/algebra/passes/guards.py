"""Values by convention, in formulas for reading: `where(x == 0 and n > 0, 0, x^n*log(x))`.

Some helpers are 0 where the formula that they stand for has no value (`Op.vanishes`). What people read says so by a
guard, unless its condition can be seen never to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from autodiff_cli.algebra.passes.truths import decided
from autodiff_cli.algebra.signs import is_positive
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.graph.template import Template
from autodiff_cli.numbers.floats.table import FLOATS
from autodiff_cli.ops.arithmetic import and_, equal, sub
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.elementary import exp, log
from autodiff_cli.ops.gamma import gamma_density, lgamma

_SMALL_SHAPE = 20.0  # of a gamma distribution, up to which its density is written with a power
_MOST = 100  # nodes that are evaluated to decide something


def guarded(roots: Sequence[Node]) -> tuple[dict[Node, Node], set[Node]]:
    """For each node of graphs the one without helpers, and the `where` nodes that guard what stands for some of them.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.language.printer import to_text
    >>> from autodiff_cli.ops.elementary import direction
    >>> slope = direction(variable("x"), variable("h"))
    >>> made, guards = guarded([slope])
    >>> to_text(made[slope])
    'where(h == 0, 0, x/h)'
    """
    guards: set[Node] = set()

    def finish(op: Op, inputs: tuple[Node, ...], definition: Node) -> Node:
        if op is gamma_density and inputs[0].op is not sub:
            return _density(inputs, definition)  # the slope of gammainc itself, which has a value from a = 0 on
        condition = _condition(op, inputs)
        if condition is None:
            return definition
        guard = where(condition, ZERO, definition)
        guards.add(guard)
        return guard

    return without_helpers(roots, finish), guards


def _condition(op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """Where a helper on these inputs is 0 by convention; None if it is so nowhere."""
    predicate = _predicate(op, len(inputs))
    return None if predicate is None else _possible(predicate.build(inputs)[0])


def _density(inputs: Sequence[Node], definition: Node) -> Node:
    """x^(a-1)·exp(-x)/gamma(a); where a is not known to be small, so that neither power nor gamma overflow."""
    a, x = inputs
    known = None if _is_large(a) else _constant(a)
    if known is not None and known <= _SMALL_SHAPE:
        return definition
    by_logarithms = exp((a - 1) * log(x) - x - lgamma(a))
    return by_logarithms if known is not None else where(equal(x, 0), x ** (a - 1), by_logarithms)


def _constant(root: Node) -> float | None:
    """The value of a formula without variables; None for others."""
    values: dict[Node, float] = {}
    for node in topological([root]):
        if node.is_input:
            return None
        inputs = [values[child] for child in node.inputs]
        values[node] = FLOATS.read(node.text) if node.op is None else FLOATS.function(node.op, len(inputs))(*inputs)
    return values[root]


@cache
def _predicate(op: Op, count: int) -> Template | None:
    graph = op.predicate("vanishes", count)
    return None if graph is None else Template(op.placeholders(count), [graph])


def _possible(condition: Node) -> Node | None:
    """A condition without the parts of it that hold anyway; None if it never holds."""
    assert condition.op is not None
    if (settled := decided(condition.op, condition.inputs)) is not None:
        return ONE if settled else None
    a, b = condition.inputs
    if condition.op is equal and is_literal(b, 0) and is_positive(a):
        return None
    if condition.op is not and_:
        return condition
    first, second = _possible(a), _possible(b)
    if first is None or second is None:
        return None
    if first is ONE or second is ONE:
        return second if first is ONE else first
    holds = _where_equal(first, second)
    return condition if holds is None else first if holds else None


def _where_equal(equation: Node, condition: Node) -> bool | None:
    """Whether a condition holds where a variable has a certain value, as x > 0 where x == 0; None if that depends."""
    if equation.op is not equal or not equation.inputs[0].is_input or not equation.inputs[1].is_constant:
        return None
    leaf, value = equation.inputs
    order = topological([condition]) if not _is_large(condition) else []
    if not order or any(node.is_input and node is not leaf for node in order):
        return None
    values: dict[Node, float] = {leaf: FLOATS.read(value.text)}
    for node in order:
        if node.op is not None:
            values[node] = FLOATS.function(node.op, len(node.inputs))(*(values[child] for child in node.inputs))
        elif node is not leaf:
            values[node] = FLOATS.read(node.text)
    return bool(values[condition])


def _is_large(root: Node) -> bool:
    """Whether a formula is too long to be evaluated for a guard's sake."""
    seen: set[Node] = set()
    waiting = [root]
    while waiting and len(seen) <= _MOST:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inputs
    return len(seen) > _MOST
