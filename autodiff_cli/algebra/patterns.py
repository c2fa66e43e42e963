"""Rewrites as tables: a row has a pattern, a formula that replaces it, and a condition.

Both sides of a row are formulas over wildcards, leaves that stand for any nodes: `Row(a + -b, a - b)`. A wildcard that
occurs twice stands for the same node. Rows are tried in their order, at one operation whose inputs are rewritten
already.

The rows of each operation become one Python function through generated source code, so that a table is as fast as a
function written by hand. The source comes from these tables only; text from a user is never compiled this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from autodiff_cli.algebra.table import NodeTable, Rewrite
from autodiff_cli.graph.node import Node, is_literal, variable
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.arithmetic import neg

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
    by_op: dict[Op | None, list[Row]] = {}
    for row in rows:
        by_op.setdefault(row.pattern.op, []).append(row)
    functions = {op: _compile_rows(rows_of_op) for op, rows_of_op in by_op.items()}

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
        rewritten = functions[op](table, *inputs) if op in functions else None
        return then(table, op, inputs) if rewritten is None and then is not None else rewritten

    return rewrite


def _compile_rows(rows: list[Row]) -> Callable[..., Node | None]:
    """Return a function of a table and the inputs of one operation: what the first row that matches replaces it by."""
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
    """Return tests for whether the inputs `x0`, `x1`… are those of a pattern, and the code of each wildcard's node."""
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
