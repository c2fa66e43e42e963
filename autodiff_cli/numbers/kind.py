"""Kinds of numbers: a table of functions for each, and derivative rules compiled for it.

Derivative rules become Python functions through generated source code. The source comes from the table of operations
only; text from a user is never compiled this way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from autodiff_cli.graph.codegen import INFIX, Fragment, FunctionSyntax, Notation, call_notation, straight_line_code
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.graph.tape import topological_order

N = TypeVar("N")
_WIDTH = 80  # characters of an expression: long expressions compile and run faster than one line per operation

_PYTHON = FunctionSyntax(
    function="def {name}({parameters}):\n{lines}    return {result}\n",
    line="    {name} = {value}\n",
    sequence="({},)",
    nothing="None",
    selected="({} if {} else None)",
)


class Kind(Generic[N]):
    """A kind of number, such as floats, arrays of floats, or balls: what each operation does to it.

    Args:
        name: the name in messages.
        table: for each operation, a function of the values of its inputs. A composite needs an entry only where its
            expansion would lose accuracy.
        parse_constant: converts the text of a constant (`"0.1"`, `"pi"`) to a number.
        infix: the operations that Python's own operators compute.

    Attributes:
        parse_derivative: converts the text of a constant to a derivative. Its class may have arithmetic of its own.
    """

    def __init__(
        self,
        name: str,
        table: Mapping[str, Callable[..., N]],
        parse_constant: Callable[[str], N],
        infix: Mapping[str, Notation] = INFIX,
    ) -> None:
        self.name = name
        self.parse_constant = parse_constant
        self.parse_derivative = parse_constant
        self.table = table
        self._infix = infix
        self._parse_rule_constant = parse_constant  # for constants within compiled rules
        self._expansions: dict[tuple[str, int], Callable[..., N]] = {}
        self._partials: dict[tuple[str, int, tuple[int, ...]], Callable[..., tuple[N | None, ...]]] = {}
        self._predicates: dict[tuple[str, str, int], Callable[..., N] | None] = {}

    def with_constants(self, parse_constant: Callable[[str], N], parse_derivative: Callable[[str], N]) -> Kind[N]:
        """Return a copy that parses constants and derivatives differently and shares the compiled rules."""
        kind = copy.copy(self)
        kind.parse_constant, kind.parse_derivative = parse_constant, parse_derivative
        return kind

    def function(self, op: Op, count: int) -> Callable[..., N]:
        """Return the function that applies `op` to `count` numbers.

        Raises:
            NotImplementedError: if the table lacks the operation and it has no expansion.
        """
        entry = self.table.get(op.name)
        if entry is not None:
            return entry
        key = (op.name, count)
        if key not in self._expansions:
            expansion = op.expand(count)
            if expansion is None:
                raise NotImplementedError(f"{op.name} is not defined for {self.name}")
            self._expansions[key] = self._compile(op.placeholders(count), [expansion], "{}")
        return self._expansions[key]

    def partials(self, op: Op, count: int, positions: tuple[int, ...]) -> Callable[..., tuple[N | None, ...]]:
        """Return the function that computes the partial derivatives of `op` for the inputs at `positions`.

        The function takes the output, then the inputs. None is a structural zero: the derivative is 0 everywhere, or
        its mask is false.
        """
        key = (op.name, count, positions)
        function = self._partials.get(key)
        if function is None:
            rule = op.derivative_rule(count)
            roots, result = _PYTHON.rule_result([rule.partials[k] for k in positions])
            function = self._partials[key] = self._compile(rule.places, roots, result)
        return function

    def predicate(self, op: Op, name: str, count: int) -> Callable[..., N] | None:
        """Return the predicate `kink`, `domain` or `singular` of `op` as a function of its inputs; None if it has
        none."""
        key = (op.name, name, count)
        if key not in self._predicates:
            graph = op.predicate(name, count)
            self._predicates[key] = None if graph is None else self._compile(op.placeholders(count), [graph], "{}")
        return self._predicates[key]

    def compile_form(self, form: Callable[..., Node], count: int) -> Callable[..., N]:
        """Return a function of `count` numbers that computes the graph that `form` returns for as many nodes."""
        parameters = [variable(f"x{k}") for k in range(count)]
        return self._compile(parameters, [form(*parameters)], "{}")

    def _compile(self, parameters: Sequence[Node], roots: Sequence[Node], result: str) -> Callable[..., Any]:
        """Return a function of the parameters that computes the roots and fills them into the template `result`.

        Nodes that depend on no parameter are evaluated once, when the function is compiled.
        """
        names = {node: Fragment(f"p{i}") for i, node in enumerate(parameters)}
        constant_values = self.constant_values(roots)
        constants = {node: Fragment(f"c{i}") for i, node in enumerate(constant_values)}
        namespace: dict[str, Any] = {fragment.text: constant_values[node] for node, fragment in constants.items()}

        def write(node: Node, operands: Sequence[Fragment]) -> Fragment:
            assert node.op is not None
            notation, count = self._infix.get(node.op.name), len(operands)
            if notation is None:
                name = f"{node.op.name}_{count}"
                namespace[name] = self.function(node.op, count)
                notation = call_notation(name, count)
            return notation.format(operands)

        code = straight_line_code(roots, names | constants, write, _WIDTH)
        exec(_PYTHON.write_function("compiled", [names[node].text for node in parameters], code, result), namespace)
        compiled: Callable[..., Any] = namespace["compiled"]
        return compiled

    def constant_values(self, roots: Sequence[Node], known: Mapping[Node, N] = MappingProxyType({})) -> dict[Node, N]:
        """Return the values of the elementwise nodes of graphs that depend on no input leaf except those with known
        values, and on no operation without a function."""
        values = dict(known)
        for node in topological_order(roots):
            is_fixed = not node.is_input and (node.op is None or not node.op.is_structural)
            if is_fixed and all(child in values for child in node.inputs):
                with suppress(NotImplementedError):
                    values[node] = self._evaluate(node, [values[child] for child in node.inputs])
        return values

    def _evaluate(self, node: Node, inputs: Sequence[N]) -> N:
        return self._parse_rule_constant(node.text) if node.op is None else self.function(node.op, len(inputs))(*inputs)
