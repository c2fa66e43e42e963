"""Conditions in readable formulas: deciding those that are always true or false, and writing all others.

`x > 0 and x < 1` is written `0 < x < 1`, and `n - 1 > 0` is written `n > 1`. Some helper operations are 0 by convention
where their formula has no value (`Op.vanishes`). Readable formulas show that by a guard, a `where` such as
`where(x == 0 and n > 0, 0, x^n*log(x))`, unless its condition can never hold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from autodiff_cli.algebra.exact import Product, literal_value
from autodiff_cli.algebra.forms import FormTable
from autodiff_cli.algebra.simplify import Sign, sign_of
from autodiff_cli.graph.node import ONE, ZERO, Node, Op, is_literal
from autodiff_cli.graph.tape import expand_helpers, rebuild, substitute, topological_order, with_inputs
from autodiff_cli.numbers.floats import CONSTANTS, FLOATS
from autodiff_cli.ops import arithmetic
from autodiff_cli.ops.arithmetic import and_, equal, greater, greater_equal, less, less_equal, not_, or_, where
from autodiff_cli.ops.functions import digamma, exp, gamma_density, lgamma, log, vanishing_product

COMPARISONS: Mapping[Op, Callable[[Any, Any], bool]] = {
    equal: operator.eq, arithmetic.not_equal: operator.ne,
    less: operator.lt, less_equal: operator.le, greater: operator.gt, greater_equal: operator.ge,
}  # fmt: skip
# The comparison with its operands exchanged.
FLIPPED_COMPARISONS = {less: greater, less_equal: greater_equal, greater: less, greater_equal: less_equal}
LOGICAL_OPS = (and_, or_, not_)
_FINITE_CONSTANTS = {name: value for name, value in CONSTANTS.items() if math.isfinite(value)}


def decide(op: Op, inputs: tuple[Node, ...]) -> bool | None:
    """Decide whether a comparison, or `and`, `or`, `not`, holds; None if that depends on the values of variables.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> x = variable("x")
    >>> decide(less, (x, x)), decide(less, (constant("2"), constant("pi"))), decide(less, (x, constant("2")))
    (False, True, None)
    """
    if op in COMPARISONS:
        left, right = map(_known_value, inputs)
        if left is not None and right is not None:
            return COMPARISONS[op](left, right)
        # A number is equal to itself, unless it is nan.
        return False if inputs[0] is inputs[1] and (op is less or op is greater) else None
    truths = [truth_value(node) for node in inputs]
    if op is not_:
        return None if truths[0] is None else not truths[0]
    settles = op is or_
    return settles if settles in truths else None if None in truths else not settles


def truth_value(node: Node) -> bool | None:
    """Return whether a literal is true, that is, not 0; None for other nodes.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> truth_value(constant("0")), truth_value(constant("0.5")), truth_value(variable("x"))
    (False, True, None)
    """
    value = _known_value(node)
    return None if value is None else value != 0


def _known_value(node: Node) -> Fraction | float | None:
    """Return the value of a literal, a negated literal or a finite constant such as pi; None for other nodes."""
    return _FINITE_CONSTANTS[node.text] if node.is_constant and node.text in _FINITE_CONSTANTS else literal_value(node)


# --- Readable forms

BOOLEAN_OPS = (*COMPARISONS, *LOGICAL_OPS)  # operations whose value is 0 or 1


def write_guard(forms: FormTable, condition: Node, formula: Node) -> Node:
    """Return a formula that is 0 by convention where a condition holds."""
    decision = truth_value(condition)
    if decision is not None and (forms.scalar or not decision):
        return forms.zero if decision else formula
    redundant = (condition, *_zero_conditions(forms, condition))
    if formula in forms.guards and any(forms.guards[formula].condition is other for other in redundant):
        return formula
    return forms.guard(condition, formula)


def _zero_conditions(forms: FormTable, condition: Node) -> list[Node]:
    """Return the conditions of guarded formulas that a condition compares with 0.

    A guarded formula is 0 exactly where its own guard holds, so a second guard for its zeros is redundant.
    """
    equations = [part for part in (condition, *condition.inputs) if part.op is equal]
    return [forms.guards[part.inputs[0]].condition for part in equations if part.inputs[0] in forms.guards]


def write_condition(forms: FormTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """Return the readable form of a comparison, or of `and`, `or`, `not`; None if it is the operation itself."""
    decision = decide(op, inputs)
    if decision is not None:
        return forms.leaf(ONE if decision else ZERO)
    if op is not_:
        return None
    if op in LOGICAL_OPS:
        return _join(forms, op, *inputs)
    return _number_on_the_right(forms, op, inputs[0]) if is_literal(inputs[1], 0) else None


def _join(forms: FormTable, op: Op, a: Node, b: Node) -> Node | None:
    """Return two conditions as one if the other is redundant, or as a chained comparison; None if neither."""
    for one, other in ((a, b), (b, a)):
        if one.op in BOOLEAN_OPS and (other is one or truth_value(other) is not None):
            return one
    return _comparison_chain(forms, a, b) if op is and_ else None


def _comparison_chain(forms: FormTable, a: Node, b: Node) -> Node | None:
    """Return two comparisons in the directions that form a chain; None if they cannot, or already do."""
    if a.op not in FLIPPED_COMPARISONS or b.op not in FLIPPED_COMPARISONS:
        return None
    if a.inputs[1] is b.inputs[0]:
        return None
    low, high = _ascending(forms, a), _ascending(forms, b)
    if low.inputs[1] is high.inputs[0]:
        return forms.apply(and_, low, high)
    return forms.apply(and_, high, low) if high.inputs[1] is low.inputs[0] else None


def _ascending(forms: FormTable, comparison: Node) -> Node:
    if comparison.operation in (less, less_equal):
        return comparison
    return forms.apply(FLIPPED_COMPARISONS[comparison.operation], *comparison.inputs[::-1])


def _number_on_the_right(forms: FormTable, op: Op, difference: Node) -> Node | None:
    """Write a comparison of a difference with 0 as a comparison with a number: n - 1 > 0 as n > 1."""
    terms = forms.sums.get(difference, {})
    if len(terms) != 2 or forms.one not in terms:
        return None
    (term,) = (term for term in terms if term is not forms.one)
    sign = terms[term]
    if sign.magnitude != 1:
        return None
    number = forms.product(Product(-terms[forms.one].times(sign), {}))
    return forms.apply(op if sign.value > 0 else FLIPPED_COMPARISONS.get(op, op), term, number)


# --- Guards

# The density of a gamma distribution is written with a power and gamma(a) up to this shape parameter a; for larger ones
# by logarithms, since the power and gamma(a) could overflow.
_MAX_POWER_SHAPE = 20.0
_MAX_NODES = 100  # formulas with more nodes are not evaluated to decide a condition


def add_guards(roots: Sequence[Node]) -> tuple[dict[Node, Node], set[Node]]:
    """Replace helper operations by their definitions, with guards where these have no value.

    Returns:
        The new node of each node of the graphs, and the `where` nodes that are guards.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.language.printer import to_text
    >>> from autodiff_cli.ops.functions import direction
    >>> slope = direction(variable("x"), variable("h"))
    >>> nodes, guards = add_guards([slope])
    >>> to_text(nodes[slope])
    'where(h == 0, 0, x/h)'
    """
    guards: set[Node] = set()
    signs: dict[Node, Sign] = {}

    def finish(op: Op, inputs: tuple[Node, ...], definition: Node) -> Node:
        if op is gamma_density and inputs[0].op is not arithmetic.sub:
            return _gamma_density_form(inputs, definition)  # the slope of gammainc, which has a value from a = 0 on
        predicate = op.predicate("vanishes", len(inputs))
        condition = _edge_condition(*inputs) if op is vanishing_product else None
        if predicate is not None:
            (condition,) = substitute([predicate], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))
        condition = None if condition is None else _possible_condition(condition, signs)
        if condition is None:
            return definition
        guard = where(condition, ZERO, definition)
        guards.add(guard)
        return guard

    return expand_helpers(roots, finish), guards


def _edge_condition(a: Node, b: Node) -> Node | None:
    """Return the condition that a is 0 where b is infinite as a logarithm or digamma; None if b has none.

    Choices have their own conditions.
    """
    nodes = topological_order([b])
    edges = [equal(n.inputs[0], ZERO) for n in nodes if n.op in (log, digamma) and not n.inputs[0].is_constant]
    if not edges or where in [node.op for node in nodes]:
        return None
    # An exponential is a density by logarithms, which is 0 at the edge although exponentials count as positive.
    return reduce(or_, edges) if a.op is exp else and_(reduce(or_, edges), equal(a, ZERO))


def _gamma_density_form(inputs: Sequence[Node], definition: Node) -> Node:
    """Return x^(a-1)·exp(-x)/gamma(a), by logarithms unless a is known to be small, so that no factor overflows."""
    a, x = inputs
    value = _evaluate(a, {})
    if value is not None and value <= _MAX_POWER_SHAPE:
        return definition
    by_logarithms = exp((a - 1) * log(x) - x - lgamma(a))
    return by_logarithms if value is not None else where(equal(x, 0), x ** (a - 1), by_logarithms)


def _evaluate(root: Node, known: Mapping[Node, float]) -> float | None:
    """Return the value of a small formula without variables other than the known ones; None for other formulas."""
    return None if _is_large(root) else FLOATS.constant_values([root], known).get(root)


def _possible_condition(condition: Node, signs: dict[Node, Sign]) -> Node | None:
    """Return a condition without the parts that always hold; None if it never holds."""
    if (decision := decide(condition.operation, condition.inputs)) is not None:
        return ONE if decision else None
    a, b = condition.inputs
    if condition.operation is equal and is_literal(b, 0) and sign_of(a, signs) is Sign.POSITIVE:
        return None
    if condition.operation is not and_:
        return condition
    first, second = _possible_condition(a, signs), _possible_condition(b, signs)
    if first is None or second is None:
        return None
    if first is ONE or second is ONE:
        return second if first is ONE else first
    holds = _holds_where_equal(first, second)
    return condition if holds is None else first if holds else None


def _holds_where_equal(equation: Node, condition: Node) -> bool | None:
    """Return whether a condition holds where an equation does, as x > 0 where x == 0; None if it is unknown."""
    if equation.op is not equal or not equation.inputs[0].is_input or not equation.inputs[1].is_constant:
        return None
    leaf, literal = equation.inputs
    value = _evaluate(condition, {leaf: FLOATS.parse_constant(literal.text)})
    return None if value is None else bool(value)


def _is_large(root: Node) -> bool:
    """Whether a formula has more than `_MAX_NODES` nodes."""
    visited: set[Node] = set()
    stack = [root]
    while stack and len(visited) <= _MAX_NODES:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            stack += node.inputs
    return len(visited) > _MAX_NODES


def with_pairwise_choices(root: Node) -> Node:
    """Return a graph with `max` and `min` replaced by pairwise choices, which interval arithmetic can sometimes decide.

    At a tie any mean of the slopes is valid, so a tie must not be decided: its condition is 0/0.
    """

    def choose(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op not in (arithmetic.max_, arithmetic.min_):
            return with_inputs(node, inputs)
        best = inputs[0]
        for x in inputs[1:]:
            lead = best - x if node.op is arithmetic.max_ else x - best
            best = where(lead / arithmetic.abs_(lead) > 0, best, x)
        return best

    return rebuild([root], choose)[root]
