"""A kind of number: its table of functions, and the rules compiled for it.

Rules become Python functions through generated source. The source comes from the rule table alone; a user's text is
never compiled this way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.straight import INFIX, Fragment, Notation, Syntax, call, straight_lines
from autodiff_cli.graph.tape import topological

N = TypeVar("N")
_WIDTH = 80  # of an expression; one is compiled, and runs, faster than a line for each operation

_PYTHON = Syntax(
    function="def {name}({parameters}):\n{lines}    return {result}\n",
    line="    {name} = {value}\n",
    sequence="({},)",
    nothing="None",
    selected="({} if {} else None)",
)


class Kind(Generic[N]):
    """One kind of number.

    Args:
        name: what to call it in messages.
        table: for each operation that is not a composite, a function of its inputs' values. Composites may be in it
            too, where their expansion would cost digits.
        read: turns the text of a constant (`"0.1"`, `"pi"`) into a number.
        infix: the operations of the table that are those of Python's own operators.

    Attributes:
        rate: makes a number that is a derivative, of its text; where that is another class, arithmetic is its own.
    """

    def __init__(
        self,
        name: str,
        table: Mapping[str, Callable[..., N]],
        read: Callable[[str], N],
        infix: Mapping[str, Notation] = INFIX,
    ) -> None:
        self.name = name
        self.read = read
        self.rate = read
        self.table = table
        self._infix = infix
        self._inner = read  # within what is compiled
        self._expansions: dict[tuple[str, int], Callable[..., N]] = {}
        self._partials: dict[tuple[str, int, tuple[int, ...]], Callable[..., tuple[N | None, ...]]] = {}
        self._predicates: dict[tuple[str, str, int], Callable[..., N] | None] = {}

    def with_constants(self, read: Callable[[str], N], rate: Callable[[str], N]) -> Kind[N]:
        """The same kind of number, and what is compiled for it, for graphs whose constants and derivatives differ."""
        found = copy.copy(self)
        found.read, found.rate, found._inner = read, rate, self._inner
        return found

    def function(self, op: Op, count: int) -> Callable[..., N]:
        """What `op` does to `count` numbers."""
        found = self.table.get(op.name)
        if found is not None:
            return found
        key = (op.name, count)
        if key not in self._expansions:
            expansion = op.expand(count)
            if expansion is None:
                raise NotImplementedError(f"{op.name} is not defined for {self.name}")
            self._expansions[key] = self._compile(op.placeholders(count), [expansion], "{}")
        return self._expansions[key]

    def partials(self, op: Op, count: int, wanted: tuple[int, ...]) -> Callable[..., tuple[N | None, ...]]:
        """The local derivatives of `op` towards the inputs at the positions `wanted`.

        The function takes the output and then the inputs. None stands for structurally nothing: the partial is 0
        everywhere, or its mask does not hold.
        """
        key = (op.name, count, wanted)
        found = self._partials.get(key)
        if found is None:
            rule = op.partials(count)
            roots, result = _PYTHON.rule([rule.partials[k] for k in wanted])
            found = self._partials[key] = self._compile((rule.output, *rule.inputs), roots, result)
        return found

    def predicate(self, op: Op, which: str, count: int) -> Callable[..., N] | None:
        """The op's predicate `kink`, `domain` or `singular`, as a function of its inputs; None if it has none."""
        key = (op.name, which, count)
        if key not in self._predicates:
            graph = op.predicate(which, count)
            compiled = None if graph is None else self._compile(op.placeholders(count), [graph], "{}")
            self._predicates[key] = compiled
        return self._predicates[key]

    def _compile(self, parameters: Sequence[Node], roots: Sequence[Node], result: str) -> Callable[..., Any]:
        """A function of the parameters' values that returns the roots' values in the places of `result`.

        What depends on no parameter is computed once, here.
        """
        names = {node: Fragment(f"p{i}") for i, node in enumerate(parameters)}
        known: dict[Node, N] = {}
        for node in topological(roots):
            if node not in names and all(child in known for child in node.inputs):
                known[node] = self._computed(node, [known[child] for child in node.inputs])
        constants = {node: Fragment(f"c{i}") for i, node in enumerate(known)}
        namespace: dict[str, Any] = {piece.text: known[node] for node, piece in constants.items()}

        def write(node: Node, operands: Sequence[Fragment]) -> Fragment:
            assert node.op is not None
            notation, count = self._infix.get(node.op.name), len(operands)
            if notation is None:
                name = f"{node.op.name}_{count}"
                namespace[name] = self.function(node.op, count)
                notation = call(name, count)
            return notation.of(operands)

        lines = straight_lines(roots, names | constants, write, _WIDTH)
        exec(_PYTHON.written("compiled", [names[node].text for node in parameters], lines, result), namespace)
        compiled: Callable[..., Any] = namespace["compiled"]
        return compiled

    def _computed(self, node: Node, inputs: Sequence[N]) -> N:
        return self._inner(node.text) if node.op is None else self.function(node.op, len(inputs))(*inputs)
