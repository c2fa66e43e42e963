"""Tables of nodes with rules, simplification of graphs for evaluation, and signs that are known in advance.

In a `NodeTable`, equal nodes are one node (hash consing): the basis of all passes that rewrite graphs. A pass goes
through a graph once, inputs first, and creates each node by `NodeTable.apply`. It asks the rules of the pass for
the form of an operation on these inputs, and returns the stored node for inputs that it had before.

Rules are rows of tables: a row has a pattern, a formula that replaces it, and a condition. Both sides are formulas over
wildcards, leaves that stand for any nodes: `Row(a + -b, a - b)`. A wildcard that occurs twice stands for the same node.
Rows are tried in their order. The rows of an operation are compiled to one Python function, through generated source
code, so that a table is as fast as a function written by hand. The source comes from these tables only; text from a
user is never compiled this way.

`simplify` removes factors of 1, which differentiation creates, and other operations that round nothing. So results keep
every bit, also the sign of a zero, and comparisons fall on the same side. Only slopes of powers may differ in their
last digits. Each rule looks at one operation and its inputs, which are simplified already. `readable` goes further,
for people.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.algebra.exact import exact_number, literal_value
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import ONE, ZERO, Node, Op, constant, get_op, is_literal, variable
from autodiff_cli.graph.tape import expand_helpers, group_pairs, infer, rebuild, with_inputs
from autodiff_cli.numbers.floats import CONSTANTS, FLOATS
from autodiff_cli.ops.arithmetic import abs_, add, div, max_, min_, mul, neg, sub, where
from autodiff_cli.ops.functions import (
    cbrt,
    gamma_density,
    hypot,
    log,
    log2,
    log10,
    log_base,
    pow_,
    pow_slope_base,
    sqrt,
    square,
)

# Returns the node for an operation on nodes of a table; None if that is the operation itself.
Rewrite: TypeAlias = Callable[["NodeTable", Op, tuple[Node, ...]], Node | None]


def _build_node(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node:
    """Return the node of an operation; an element of a `stack` is returned directly.

    >>> from autodiff_cli.language.program import read
    >>> (element,) = share([read("[x, y][1]").output])
    >>> element
    <input y>
    """
    if op.name == "index" and len(inputs) > 1 and inputs[0].op is not None and inputs[0].op.name == "stack":
        (array, position, *rest) = inputs
        if position.text.isdecimal() and int(position.text) < len(array.inputs):
            element = array.inputs[int(position.text)]
            return table.apply(op, element, *rest) if rest else element
    return Node(op, inputs)


class NodeTable:
    """A table of nodes, by operation and inputs, or by the text of a leaf.

    Args:
        rewrite: the rules of the table; None for none.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.arithmetic import add
    >>> table = NodeTable()
    >>> x, again = table.leaf(variable("x")), table.leaf(variable("x"))
    >>> x is again, table.apply(add, x, x) is table.apply(add, again, x)
    (True, True)
    """

    __slots__ = ("_leaves", "_nodes", "_rewrite")

    def __init__(self, rewrite: Rewrite | None = None) -> None:
        self._rewrite = rewrite
        self._leaves: dict[tuple[str, bool], Node] = {}
        self._nodes: dict[tuple[object, ...], Node] = {}

    def leaf(self, node: Node) -> Node:
        """Return the leaf of the table that equals a leaf."""
        return self._leaves.setdefault((node.text, node.is_constant), node)

    def apply(self, op: Op, *inputs: Node) -> Node:
        """Return the node for an operation on nodes of the table, as the rules rewrite it."""
        key = (op, *inputs)
        node = self._nodes.get(key)
        if node is None:
            node = None if self._rewrite is None else self._rewrite(self, op, inputs)
            node = self._nodes[key] = _build_node(self, op, inputs) if node is None else node
        return node

    def rebuild(self, roots: Sequence[Node], replace: Mapping[Node, Node] | None = None) -> list[Node]:
        """Return graphs with all their nodes in this table.

        Args:
            roots: the graphs.
            replace: nodes of the table, by the nodes in whose place they stand.
        """

        def create(node: Node, inputs: tuple[Node, ...]) -> Node:
            return self.leaf(node) if node.op is None else self.apply(node.op, *inputs)

        new = rebuild(roots, create, replace)
        return [new[root] for root in roots]


def share(roots: Sequence[Node]) -> list[Node]:
    """Merge equal sub-expressions of graphs (common subexpression elimination), and replace `[a, b][0]` by `a`.

    >>> from autodiff_cli.language.program import read
    >>> (total,) = share([read("sin(x) + sin(x)").output])
    >>> total.inputs[0] is total.inputs[1]
    True
    """
    return NodeTable().rebuild(roots)


def with_subtraction(root: Node) -> Node:
    """Write `x - 2*y` for `x + -2*y`, and `x + 2*y` for `x - -2*y`. The value stays the same to the last bit.

    >>> from autodiff_cli.graph.node import constant, variable
    >>> from autodiff_cli.language.printer import to_text
    >>> x, y = variable("x"), variable("y")
    >>> to_text(with_subtraction(x + constant(-2.5) * y + constant(-1.0)))
    'x - 2.5*y - 1'
    """

    def rewrite(node: Node, inputs: tuple[Node, ...]) -> Node:
        positive = _negated_product(inputs[1]) if node.op in (add, sub) else None
        if positive is None:
            return with_inputs(node, inputs)
        return (sub if node.op is add else add)(inputs[0], positive)

    return rebuild([root], rewrite)[root]


def _negated_product(node: Node) -> Node | None:
    """Return the negation of a negative number, or of a product that begins with one; None for others."""
    steps: list[Node] = []
    while node.op in (mul, div):
        steps.append(node)
        node = node.inputs[0]
    if node.op is not neg or not node.inputs[0].is_constant:
        return None
    node = node.inputs[0]
    for step in reversed(steps):
        node = Node(step.op, (node, step.inputs[1]))
    return node


# --- Rewrites as rows of a table

a, b, c = map(variable, "abc")  # wildcards, for all tables


class Row(NamedTuple):
    """A rewrite.

    Attributes:
        pattern: an operation on wildcards, numbers and other operations.
        replacement: the formula that replaces it.
        condition: whether the row applies; None if it always does.
        arguments: the wildcards whose nodes the condition takes.
    """

    pattern: Node
    replacement: Node
    condition: Callable[..., bool] | None = None
    arguments: tuple[Node, ...] = ()


def rewrite_by(rows: Iterable[Row], then: Rewrite | None = None) -> Rewrite:
    """Return a rewrite for a `NodeTable` that applies the first row that matches.

    Args:
        rows: the table.
        then: the rewrite where no row matches; by default the operation stays.

    >>> table = NodeTable(rewrite_by([Row(neg(-a), a), Row(a + -b, a - b)]))
    >>> x, y = variable("x"), variable("y")
    >>> table.rebuild([neg(-x), x + -(-(-y)), x + y])
    [<input x>, <sub of 2>, <add of 2>]
    """
    by_op = group_pairs((row.pattern.op, row) for row in rows)
    functions = {op: _compile_rows(rows_of_op) for op, rows_of_op in by_op.items()}

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
        rewritten = functions[op](table, *inputs) if op in functions else None
        return then(table, op, inputs) if rewritten is None and then is not None else rewritten

    return rewrite


def _compile_rows(rows: list[Row]) -> Callable[..., Node | None]:
    """Return a function of a table and the inputs of one operation, which returns the replacement by the first
    match.
    """
    namespace: dict[str, Any] = {"is_literal": is_literal, "neg": neg}

    def name_of(value: object) -> str:
        name = f"v{id(value)}"
        namespace[name] = value
        return name

    lines = [f"def rewrite(table, {', '.join(f'x{k}' for k in range(len(rows[0].pattern.inputs)))}):"]
    for row in rows:
        tests, places = _match(row.pattern, name_of)
        if row.condition is not None:
            tests.append(f"{name_of(row.condition)}({', '.join(places[argument] for argument in row.arguments)})")
        lines.append(f"    if {' and '.join(tests) or 'True'}:")
        lines.append(f"        return {_build(row.replacement, places, name_of)}")
    exec("\n".join([*lines, "    return None"]), namespace)
    function: Callable[..., Node | None] = namespace["rewrite"]
    return function


def _match(pattern: Node, name_of: Callable[[object], str]) -> tuple[list[str], dict[Node, str]]:
    """Return tests for whether the inputs `x0`, `x1`… match a pattern, and the code of each wildcard's node."""
    tests: list[str] = []
    places: dict[Node, str] = {}
    parts = [(child, f"x{k}") for k, child in enumerate(pattern.inputs)]
    for node, place in parts:
        if node.op is not None:
            tests.append(f"{place}.op is {name_of(node.op)}")
            parts += [(child, f"{place}.inputs[{k}]") for k, child in enumerate(node.inputs)]
        elif node.is_input:
            tests += [f"{place} is {places[node]}"] if node in places else []
            places.setdefault(node, place)
        elif node.text == "0":  # a negated 0 is 0 too
            tests.append(f"({place}.is_constant or {place}.op is neg) and is_literal({place}, 0)")
        elif node.text[0].isdigit():
            tests.append(f"{place}.is_constant and is_literal({place}, {node.text})")
        else:
            tests.append(f"{place}.is_constant and {place}.text == {node.text!r}")
    return tests, places


def _build(replacement: Node, places: dict[Node, str], name_of: Callable[[object], str]) -> str:
    """Return code that creates a replacement. It recurses over the replacement, which is small."""
    if replacement.is_input:
        return places[replacement]
    if replacement.op is None:
        return f"table.leaf({name_of(replacement)})"
    inputs = ", ".join(_build(child, places, name_of) for child in replacement.inputs)
    return f"table.apply({name_of(replacement.op)}, {inputs})"


_MAX_EXACT_INTEGER = 2**53  # floats represent every integer up to here


def simplify(roots: Sequence[Node]) -> list[Node]:
    """Simplify graphs for evaluation.

    Literals are folded, factors of 1 removed, signs combined, and equal sub-expressions shared. The order of operations
    stays.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify([read("1*x + (2 + 3)*y - 0").output])[0])
    'x + 5*y'
    """
    return NodeTable(SIMPLIFICATION_RULES).rebuild(roots)


def simplify_text(graph: Node) -> Node:
    """Simplify a graph that is only read: it has a quotient in place of a product with a reciprocal, which is rounded
    otherwise. Helper operations are replaced by their definitions.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(simplify_text(read("1*x*(1/y)").output))
    'x/y'
    """
    return NodeTable(TEXT_RULES).rebuild([expand_helpers([graph])[graph]])[0]


def _literal(table: NodeTable, value: Fraction) -> Node:
    size = table.leaf(constant(str(abs(value)) if value.denominator == 1 else repr(float(abs(value)))))
    return table.apply(neg, size) if value < 0 else size


def _fold(op: Op, inputs: tuple[Node, ...]) -> Fraction | None:
    """Return the result of arithmetic on literals; None if inputs are not literals, or floats have another result."""
    if op is neg and inputs[0].is_constant:
        return None
    numbers = [number for node in inputs if (number := literal_value(node)) or (number == 0 and node.is_constant)]
    result = _ARITHMETIC[op](*numbers) if len(numbers) == len(inputs) else None
    if result is None or abs(result) > _MAX_EXACT_INTEGER:
        return None
    decimal = any(number.denominator > 1 for number in numbers)  # 1/2 stays a quotient, 0.5 a decimal
    is_short = result.denominator == 1 or (decimal and Fraction(repr(float(result))) == result)
    # As texts, which differ for 0 and -0.
    return result if is_short and repr(FLOATS.table[op.name](*map(float, numbers))) == repr(float(result)) else None


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    is_short = exponent.denominator == 1 and 0 <= exponent <= 64 and (base or exponent)
    return base ** int(exponent) if is_short else None


_ARITHMETIC: dict[Op, Callable[..., Fraction | None]] = {
    add: lambda a, b: a + b,
    sub: lambda a, b: a - b,
    mul: lambda a, b: a * b,
    div: lambda a, b: a / b if b else None,
    neg: lambda a: -a,
    pow_: _power,
}


def _is_doubling(a: Node, b: Node) -> bool:
    """Whether a and b are whole numbers, one of them 2, 4 or 8, so that a*(b*c) and (a*b)*c are the same float."""
    return a.is_constant and b.is_constant and (a.text + b.text).isdecimal() and bool({a.text, b.text} & {*"248"})


def _fold_arithmetic(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    folded = _fold(op, inputs) if op in _ARITHMETIC else None
    return None if folded is None else _literal(table, folded)


_ROWS = (
    Row(a - 0, a), Row(a + -b, a - b), Row(-a + b, b - a), Row(a - -b, a + b), Row(neg(-a), a),
    Row(1 * a, a), Row(a * 1, a), Row(-a * b, -(a * b)), Row(a * -b, -(a * b)),
    Row(a * b, b * a, lambda a, b: b.is_constant and not a.is_constant, (a, b)),
    Row(a * (b * c), (a * b) * c, _is_doubling, (a, b)),
    Row(a * a, a**2), Row(a / 1, a), Row(-a / b, -(a / b)), Row(a / -b, -(a / b)),
    Row(a**1, a), Row(square(a), a**2), Row(log_base(a, 2), log2(a)), Row(log_base(a, 10), log10(a)),
    # The slope of a^0 is 0 everywhere, and so is 0*a^0, which has the shape of the slope.
    Row(pow_slope_base(a, b), b * a**b, lambda b: literal_value(b) == 0, (b,)),
    Row(pow_slope_base(a, b), b * a ** (b - 1), lambda b: _fold(sub, (b, ONE)) is not None, (b,)),
    Row(get_op("scaled_slope_base")(c, a, b), c * pow_slope_base(a, b), lambda c: bool(literal_value(c)), (c,)),
    # An incomplete gamma function has the slope 0 where gamma(a), its divisor, has a pole.
    Row(gamma_density(a, b), ZERO, lambda a: (n := literal_value(a)) is not None and n <= 0 and n % 1 == 0, (a,)),
)  # fmt: skip

SIMPLIFICATION_RULES = rewrite_by(_ROWS, then=_fold_arithmetic)  # for a `NodeTable`
# For graphs that people read: zeros may have another sign, and quotients are rounded otherwise.
_TEXT_ROWS = (
    Row(a + 0, a), Row(0 + a, a), Row(0 - a, -a), Row(-(a - b), b - a),
    Row((1 / a) * b, b / a), Row(a * (1 / b), a / b),
    Row(where(c, a, a), a), Row(where(0, a, b), b), Row(0 * a, ZERO), Row(0 / a, ZERO),
)  # fmt: skip
TEXT_RULES = rewrite_by(_TEXT_ROWS, then=SIMPLIFICATION_RULES)


# --- Signs


class Sign(enum.IntEnum):
    """The sign of a number that is known in advance, for all points at which the number has a value."""

    UNKNOWN = 0
    NONNEGATIVE = 1
    POSITIVE = 2


def sign_of(node: Node, known: dict[Node, Sign] | None = None) -> Sign:
    """Return the sign of a number.

    Args:
        node: the number.
        known: the signs of nodes that were inferred before; it grows.

    >>> x = variable("x")
    >>> [sign_of(node).name for node in (1 + x * x, x * x, sqrt(x), x)]
    ['POSITIVE', 'NONNEGATIVE', 'NONNEGATIVE', 'UNKNOWN']
    """
    signs = {} if known is None else known
    return infer(node, signs, lambda node: _sign(node, [signs[child] for child in node.inputs]))


def _sign(node: Node, signs: Sequence[Sign]) -> Sign:
    """Return the sign of a node, given the signs of its inputs."""
    op, inputs = node.op, node.inputs
    if op is None:
        literal = exact_number(node.text) if node.is_constant else None
        value = CONSTANTS.get(node.text, 0) if literal is None and node.is_constant else literal and literal.value
        return Sign.POSITIVE if value is not None and value > 0 else Sign.UNKNOWN
    if op.is_positive:
        return Sign.POSITIVE
    rule = _SIGN_RULES.get(op)
    sign = Sign.UNKNOWN if rule is None else rule(signs)
    if op is mul and inputs[0] is inputs[1]:
        return max(sign, Sign.NONNEGATIVE)
    exponent = exact_number(inputs[-1].text) if op in (pow_, log) and inputs[-1].is_constant else None
    if op is pow_ and exponent is not None and exponent.value % 2 == 0:
        return max(sign, Sign.NONNEGATIVE)
    return Sign.POSITIVE if op is log and exponent is not None and exponent.value > 1 else sign


# The sign of an operation, given the signs of its inputs.
_SIGN_RULES: dict[Op, Callable[[Sequence[Sign]], Sign]] = {
    add: lambda signs: max(signs) if min(signs) else Sign.UNKNOWN,
    max_: max,
    **dict.fromkeys((mul, div, cbrt, min_), min),
    **dict.fromkeys((sqrt, abs_, square, hypot), lambda signs: max(Sign.NONNEGATIVE, *signs)),
    pow_: lambda signs: Sign.POSITIVE if signs[0] is Sign.POSITIVE else Sign.UNKNOWN,
}


def is_increasing(node: Node) -> bool:
    """Whether a function of one number is certainly increasing on its domain.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.ops.functions import cos, exp
    >>> x = variable("x")
    >>> is_increasing(exp(x)), is_increasing(cos(x))
    (True, False)
    """
    if node.op is None or len(node.inputs) != 1 or node.op.is_structural:
        return False
    argument = variable("x")
    [slope] = simplify(gradient_nodes(node.op(argument), [argument]))
    return sign_of(slope) is Sign.POSITIVE
