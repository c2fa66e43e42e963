"""Readable formulas: `readable` rewrites graphs as a person would write them, while `simplify` is for evaluation.

Every sum is collected in a dictionary of coefficients by term, and every product in one of exponents by base, with
exact numbers. They are then written in a fixed order: numbers first, then symbols, sums and calls. A chain of sums or
products is collected once, at its root. Nodes with other users as well are inlined only if they are short, so the time
is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from autodiff_cli.algebra.collection import power_product, root_product
from autodiff_cli.algebra.conditions import BOOLEAN_OPS, add_guards, truth_value, write_condition, write_guard
from autodiff_cli.algebra.exact import UNIT, ExactNumber, Factors, Product, Terms, add_terms
from autodiff_cli.algebra.forms import FormTable
from autodiff_cli.algebra.simplify import Row, a, b, c, rewrite_by
from autodiff_cli.graph.node import ONE, ZERO, Node, Op, Shape, constant, is_literal
from autodiff_cli.graph.tape import ShapeInference, gc_paused, has_array_operations, topological_order
from autodiff_cli.ops.arithmetic import add, div, mod, mul, neg, not_, round_, sub, where
from autodiff_cli.ops.functions import cos, cosh, exp, hypot, log, pow_, sin, sinh, sqrt, square, tan, tanh

# --- The order of symbols

_TRANSPARENT_OPS = frozenset({mul, neg, pow_})  # operations whose inputs count as symbols of a product


def symbol_order(order: Sequence[Node], names: Sequence[str]) -> tuple[str, ...]:
    """Return the variables of a formula in the order in which its products write them.

    In `x*exp(-a*x)`, `a` comes before `x`, although x is first in the text. Variables that no product orders stay in
    the order of `names`.

    Args:
        order: the nodes of the formula in topological order.
        names: the variables, in order of first appearance.
    """
    listed = list(names)
    position = {name: i for i, name in enumerate(listed)}
    for node in order:
        if node.op is not mul:
            continue
        first, second = _edge_symbol(node.inputs[0], last=True), _edge_symbol(node.inputs[1], last=False)
        if first in position and second in position and position[first] > position[second]:
            listed.insert(position[second], listed.pop(position[first]))
            position = {name: i for i, name in enumerate(listed)}
    return tuple(listed)


def _edge_symbol(node: Node, last: bool) -> str:
    """Return the symbol at the end or the beginning of a product; empty if there is none."""
    while node.op in _TRANSPARENT_OPS:
        node = node.inputs[1] if node.op is mul and last else node.inputs[0]
    return node.text if node.is_input else ""


# --- Chains

_SUM_OPS, _PRODUCT_OPS = frozenset({add, sub}), frozenset({mul, div, neg})
_OTHER_OPS: frozenset[Op] = frozenset()


def find_chains(order: Sequence[Node], roots: Sequence[Node], is_flattened: bool) -> tuple[set[Node], set[Node]]:
    """Find chains of sums and of products, such as a + (b - c) + d.

    An inner node of a chain is used only once in each formula, and only by operations of its own kind. A negation is of
    the kind of its users; if they differ, it is a product. A root is never an inner node.

    Args:
        order: the nodes of the formulas in topological order.
        roots: the formulas.
        is_flattened: whether chains have inner nodes at all; if not, each operation is a chain of its own.

    Returns:
        The nodes that are sums, and the inner nodes of all chains.
    """
    needed = dict.fromkeys(order, 0)  # the formulas that need each node: a bit for each formula
    for i, root in enumerate(roots):
        needed[root] |= 1 << i
    users: dict[Node, frozenset[Op]] = {}
    apart = set(roots)
    sums: set[Node] = set()
    links: set[Node] = set()
    for node in reversed(order):
        op = node.op
        if op is None:
            continue
        kind = _SUM_OPS if op in _SUM_OPS else _PRODUCT_OPS if op in _PRODUCT_OPS else _OTHER_OPS
        if is_flattened and node not in apart and (kind is users[node] or op is neg) and users[node] is not _OTHER_OPS:
            kind = users[node]
            links.add(node)
        if kind is _SUM_OPS:
            sums.add(node)
        bits = needed[node]
        for child in node.inputs:
            if needed[child] & bits or users.setdefault(child, kind) is not kind:
                apart.add(child)
            needed[child] |= bits
    return sums, links


# --- Calls

TWO = constant("2")

_KNOWN_VALUES = (
    *(Row(op(0), ONE) for op in (exp, cos, cosh)),
    *(Row(op(0), ZERO) for op in (sin, tan, sinh, tanh, sqrt)),
    Row(log(1), ZERO), Row(log(constant("e")), ONE), Row(sqrt(1), ONE), Row(round_(1), ONE),
)  # fmt: skip
_SCALAR_CALLS = (
    Row(exp(log(a)), a), Row(log(exp(a)), a), Row(mod(a, a), ZERO),
    Row(where(not_(a), b, c), where(a, c, b)), Row(where(a, b, b), b),
    Row(where(a, b, c), b, lambda a: truth_value(a) is True, (a,)),
    Row(where(a, b, c), c, lambda a: truth_value(a) is False, (a,)),
)  # fmt: skip
_ARRAY_CALL_RULES = rewrite_by(_KNOWN_VALUES)
_SCALAR_CALL_RULES = rewrite_by((*_KNOWN_VALUES, *_SCALAR_CALLS))


def write_call(forms: FormTable, op: Op, inputs: tuple[Node, ...]) -> Node:
    """Write an operation that is neither a sum nor a product nor a power, on inputs that are written already."""
    rewritten = _CALL_RULES.get(op, _extract_sign)(forms, op, inputs) if forms.scalar else None
    return forms.apply(op, *inputs) if rewritten is None else rewritten


# Rules for calls: each returns the readable form of a call, or None if the call stays.


def _hypot(forms: FormTable, _: Op, inputs: tuple[Node, ...]) -> Node | None:
    """Write hypot(1, x) as sqrt(1 + x^2)."""
    if not is_literal(inputs[0], 1):
        return None
    square = power_product(forms, inputs[1], forms.leaf(TWO))
    assert square is not None
    terms = {forms.one: UNIT}
    add_terms(terms, forms.terms_of(forms.product(square)))
    return forms.product(root_product(forms, forms.sum(terms)))


def _extract_sign(forms: FormTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """Move a sign out of an even or odd function: sin(-x) is -sin(x)."""
    opposite = _negation(forms, inputs[0]) if op.parity else None
    if opposite is None:
        return None
    of_opposite = forms.apply(op, opposite)
    return of_opposite if op.parity == 1 else forms.product(Product(-UNIT, {of_opposite: UNIT}))


def _negation(forms: FormTable, node: Node) -> Node | None:
    """Return the negation of a node that is written with a minus in front; None for other nodes."""
    terms = forms.sums.get(node)
    if terms is not None:
        negative = all(coefficient.value < 0 for coefficient in terms.values())
        return forms.sum({term: -coefficient for term, coefficient in terms.items()}) if negative else None
    number, factors = forms.product_of(node)
    return forms.product(Product(-number, factors)) if number.value < 0 else None


_CALL_RULES: dict[Op, Callable[[FormTable, Op, tuple[Node, ...]], Node | None]] = {
    sqrt: lambda forms, _, inputs: forms.product(root_product(forms, inputs[0])),
    hypot: _hypot,
    **dict.fromkeys(BOOLEAN_OPS, write_condition),
}


# --- Formulas


def readable(
    roots: Sequence[Node], names: Sequence[str] = (), shapes: Mapping[str, Shape] | None = None, collect: bool = True
) -> list[Node]:
    """Rewrite formulas as a person would write them: `x*y*x` becomes `x^2*y`, helpers become their definitions.

    Where the originals are finite, the values are the same up to rounding, as long as no intermediate result overflows
    or underflows. Common parts of the formulas are rewritten once.

    Args:
        roots: the formulas.
        names: symbols in the order in which products are written; others come after them, as they appear.
        shapes: the shapes of the variables that are arrays; None if they are not known.
        collect: whether like terms and factors are collected. With arrays they never are, because a term that cancels
            may determine a shape.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(readable([read("x*y*x + (y - x) - y").output])[0])
    'x^2*y - x'
    """
    with gc_paused():
        plain, guards = add_guards(roots)
        scalar = collect and not shapes and not has_array_operations(plain)
        forms = FormTable(names, scalar, _SCALAR_CALL_RULES if scalar else _ARRAY_CALL_RULES)
        return _write_graphs(
            forms, [plain[root] for root in roots], guards, None if shapes is None else ShapeInference(shapes)
        )


def _write_graphs(
    forms: FormTable, roots: Sequence[Node], guards: set[Node], shapes: ShapeInference | None
) -> list[Node]:
    """Write formulas; each chain of sums or products is collected at its root.

    A form without some array of the original may have another shape, and a sum of it another value. Such a form is not
    used.
    """
    order = topological_order(roots)
    sums, links = find_chains(order, roots, is_flattened=forms.scalar)
    new: dict[Node, Node] = {}
    for node in order:
        if node in links:
            continue
        if node.op is None:
            form: Node | None = forms.add_leaf(node)  # None stands for the operation as it is
        elif node in sums:
            terms: Terms = {}
            for member, sign in _chain_members(node, links, sub):
                assert member is not None
                add_terms(terms, forms.terms_of(new[member]), sign)
            form = None if _loses_shape(forms, terms.values()) else forms.sum(terms)
        elif node.op is mul or node.op is div or node.op is neg:
            number, factors = UNIT, Factors()
            for member, sign in _chain_members(node, links, div):
                number = -number if member is None else forms.multiply(number, factors, new[member], sign)
            vanishes = _loses_shape(forms, (number, *factors.values()))
            form = None if vanishes else forms.product(Product(number, factors))
        elif node.op is pow_ or node.op is square:
            exponent = new[node.inputs[1]] if node.op is pow_ else forms.leaf(TWO)
            power = power_product(forms, new[node.inputs[0]], exponent)
            form = None if power is None else forms.product(power)
        elif node in guards:
            form = write_guard(forms, new[node.inputs[0]], new[node.inputs[2]])
        else:
            form = write_call(forms, node.op, tuple([new[child] for child in node.inputs]))
        if form is not None and shapes is not None and not forms.scalar and shapes.infer(form) != shapes.infer(node):
            form = None
        new[node] = forms.apply(node.operation, *(new[child] for child in node.inputs)) if form is None else form
    return [new[root] for root in roots]


def _loses_shape(forms: FormTable, numbers: Iterable[ExactNumber]) -> bool:
    """Whether a term or factor cancels that may determine the shape of an array."""
    return not forms.scalar and any(number.value == 0 for number in numbers)


def _chain_members(root: Node, links: set[Node], inverse: Op) -> Iterator[tuple[Node | None, ExactNumber]]:
    """Yield the members of a chain of sums or products, each with its sign or the sign of its exponent.

    Args:
        root: the last operation of the chain.
        links: its other operations.
        inverse: `sub` for a chain of sums, `div` for one of products. There, None stands for the factor -1.
    """
    stack: list[tuple[Node, ExactNumber]] = [(root, UNIT)]
    while stack:
        node, sign = stack.pop()
        if node is not root and node not in links:
            yield node, sign
        elif node.op is neg:
            stack.append((node.inputs[0], -sign if inverse is sub else sign))
            if inverse is div:
                yield None, UNIT
        else:
            a, b = node.inputs
            stack += [(b, -sign if node.op is inverse else sign), (a, sign)]
