"""Tables of nodes, in which equal nodes are one node (hash consing): the basis of all passes that rewrite graphs.

A pass goes through a graph once, inputs first, and creates each node by `NodeTable.apply`. That asks the rules of the
pass for the form of an operation on these inputs, and returns the stored node for inputs that it had before.

Rules are rows of tables: a row has a pattern, a formula that replaces it, and a condition. Both sides are formulas over
wildcards, leaves that stand for any nodes: `Row(a + -b, a - b)`. A wildcard that occurs twice stands for the same node.
Rows are tried in their order. The rows of an operation are compiled to one Python function, through generated source
code, so that a table is as fast as a function written by hand. The source comes from these tables only; text from a
user is never compiled this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.graph.node import Node, Op, is_literal, variable
from autodiff_cli.graph.tape import group_pairs, rebuild, with_inputs
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

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
