"""A kind of number: its table of functions, and the rules compiled for it.

Rules become Python functions through generated source. The source comes from the rule table alone; a user's text is
never compiled this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological

N = TypeVar("N")

# These four raise nothing and mean the same for every kind of number; all else goes through the table.
INFIX = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}"}


class Kind(Generic[N]):
    """One kind of number.

    Args:
        name: what to call it in messages.
        table: for each operation that is not a composite, a function of its inputs' values. Composites may be in it
            too, where their expansion would cost digits.
        read: turns the text of a constant (`"0.1"`, `"pi"`) into a number.
    """

    def __init__(self, name: str, table: Mapping[str, Callable[..., N]], read: Callable[[str], N]) -> None:
        self.name = name
        self.read = read
        self._table = table
        self._expansions: dict[tuple[str, int], Callable[..., N]] = {}
        self._partials: dict[tuple[str, int, tuple[int, ...]], Callable[..., tuple[N | None, ...]]] = {}
        self._predicates: dict[tuple[str, str, int], Callable[..., N] | None] = {}

    def tabulates(self, op: Op) -> bool:
        """Whether the table has a function for `op` itself, which only a composite can do without."""
        return op.name in self._table

    def function(self, op: Op, count: int) -> Callable[..., N]:
        """What `op` does to `count` numbers."""
        found = self._table.get(op.name)
        if found is not None:
            return found
        key = (op.name, count)
        if key not in self._expansions:
            expansion = op.expand(count)
            if expansion is None:
                raise NotImplementedError(f"{op.name} is not defined for {self.name}")
            self._expansions[key] = self._compile(op.placeholders(count), "{}", [expansion])
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
            chosen = [rule.partials[k] for k in wanted]
            some = [None if is_literal(p.local, 0) else p for p in chosen]
            roots = [node for p in some if p is not None for node in (p.local, p.mask) if node is not None]
            parts = ["None" if p is None else "{}" if p.mask is None else "({} if {} else None)" for p in some]
            template = "(" + "".join(part + ", " for part in parts) + ")"
            found = self._partials[key] = self._compile((rule.output, *rule.inputs), template, roots)
        return found

    def predicate(self, op: Op, which: str, count: int) -> Callable[..., N] | None:
        """The op's predicate `kink`, `domain` or `singular`, as a function of its inputs; None if it has none."""
        key = (op.name, which, count)
        if key not in self._predicates:
            graph = op.predicate(which, count)
            compiled = None if graph is None else self._compile(op.placeholders(count), "{}", [graph])
            self._predicates[key] = compiled
        return self._predicates[key]

    def _compile(self, parameters: Sequence[Node], template: str, roots: Sequence[Node]) -> Callable[..., Any]:
        """A function of the parameters' values that returns the roots' values in the places of `template`.

        What depends on no parameter is computed once, here.
        """
        names = {node: f"p{i}" for i, node in enumerate(parameters)}
        namespace: dict[str, Any] = {}
        lines: list[str] = []
        for i, node in enumerate(topological(roots)):
            if node in names:
                continue
            names[node] = name = f"t{i}"
            arguments = [names[child] for child in node.inputs]
            if node.op is None:
                namespace[name] = self.read(node.text)
            elif all(argument in namespace for argument in arguments):
                function = self.function(node.op, len(arguments))
                namespace[name] = function(*(namespace[argument] for argument in arguments))
            elif node.op.name in INFIX:
                lines.append(f"    {name} = {INFIX[node.op.name].format(*arguments)}")
            else:
                namespace[f"f_{name}"] = self.function(node.op, len(arguments))
                lines.append(f"    {name} = f_{name}({', '.join(arguments)})")
        header = f"def compiled({', '.join(names[node] for node in parameters)}):"
        result = template.format(*(names[root] for root in roots))
        exec("\n".join([header, *lines, f"    return {result}"]), namespace)
        compiled: Callable[..., Any] = namespace["compiled"]
        return compiled
