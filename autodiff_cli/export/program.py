"""What is exported, as graphs: the value of a formula and its derivatives, ready to be written in a language."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical
from autodiff_cli.language.printer import to_text
from autodiff_cli.numbers.floats.table import FLOATS

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula

MOST_OPERATIONS = 200_000  # of the value and its derivatives, arrays written out
MOST_OF_HESSIAN = 100  # numbers towards which there are second derivatives; the code grows with the square


class ExportError(ValueError):
    """What cannot be written in a language as asked for."""


class TooLargeError(ValueError):
    """More code than is written."""


@dataclass(frozen=True)
class Variable:
    """A variable: its name, its shape, and the input leaves that stand for it, one for each element where arrays are
    written out."""

    name: str
    shape: Shape
    leaves: tuple[Node, ...]

    @property
    def is_whole(self) -> bool:
        """Whether an array is one leaf."""
        return self.leaves[0].text == self.name

    @property
    def count(self) -> int:
        """How many numbers it is, where arrays are written out."""
        return len(self.leaves)

    def position(self, k: int) -> tuple[int, ...]:
        """Where in the array the k-th number stands, row by row."""
        found: list[int] = []
        for length in reversed(self.shape):
            k, index = divmod(k, length)
            found.insert(0, index)
        return tuple(found)


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes:
        name: of the function.
        wrt: the variables to differentiate towards; None for all.
        gradient: whether derivatives are wanted at all.
        hessian: whether second derivatives are wanted too.
        note: what the value is, for a comment.
    """

    name: str = "f"
    wrt: tuple[str, ...] | None = None
    gradient: bool = True
    hessian: bool = False
    note: str = ""


@dataclass(frozen=True)
class ExportProgram:
    """A value and its derivatives.

    Attributes:
        name: of the function.
        text: the formula, for a comment.
        note: what the value is, for a comment too.
        variables: in order of first appearance.
        values: the formula's graph; where an array is written out, one for each of its numbers.
        shape: of the value where it is written out; else ().
        has_gradient: whether derivatives are wanted.
        wrt: the variables that the derivatives are towards.
        gradient: the derivatives, by variable: one graph for each of its leaves.
        hessian: the second derivatives: rows and columns are the leaves of the variables `wrt`; None if not wanted.
        called: the names of intermediates.
    """

    name: str
    text: str
    note: str
    variables: tuple[Variable, ...]
    values: tuple[Node, ...]
    shape: Shape
    has_gradient: bool
    wrt: tuple[Variable, ...]
    gradient: Mapping[str, tuple[Node, ...]]
    hessian: Sequence[Sequence[Node]] | None
    called: Mapping[Node, str]

    @property
    def roots(self) -> list[Node]:
        """All graphs, the value first."""
        slopes = [node for nodes in self.gradient.values() for node in nodes]
        return [*self.values, *slopes, *(node for row in self.hessian or () for node in row)]


Tidy = Callable[[Sequence[Node], bool], list[Node]]


def for_evaluating(roots: Sequence[Node], is_scalar: bool) -> list[Node]:
    """Graphs without what says nothing. Parts without variables that are infinite or undefined are so by name, since
    compilers refuse to compute them."""
    return with_numbers(simplify(roots, is_scalar), lambda number: not math.isfinite(number))


def for_tensors(roots: Sequence[Node], is_scalar: bool) -> list[Node]:
    """The same with all parts without variables as numbers, since functions of tensors take no numbers."""
    return with_numbers(simplify(roots, is_scalar), lambda _: True)


def with_numbers(roots: Sequence[Node], of: Callable[[float], bool]) -> list[Node]:
    """Graphs in which parts without variables are numbers, where these are such numbers.

    >>> from autodiff_cli.language.lowering import read
    >>> to_text(with_numbers([read("x + 1/0 + sqrt(2)").output], math.isinf)[0])
    'x + inf + sqrt(2)'
    """
    values: dict[Node, float] = {}
    for node in topological(roots):
        if node.op is None:
            if node.is_constant:
                values[node] = FLOATS.read(node.text)
        elif not node.op.structural and all(child in values for child in node.inputs):
            values[node] = FLOATS.function(node.op, len(node.inputs))(*(values[child] for child in node.inputs))
    found = {node: constant(value) for node, value in values.items() if node.op is not None and of(value)}
    return rebuild(roots, found)


def program(formula: Formula, wanted: Wanted, has_arrays: bool = False, tidy: Tidy = for_evaluating) -> ExportProgram:
    """The graphs of a formula and of its derivatives.

    Args:
        has_arrays: whether the language has arrays; else they are written out. Second derivatives always are.
        tidy: what is done to all graphs together; it is told whether all is numbers.

    Raises:
        ExpressionError: for a name in `wrt` that is no variable, an array whose shape is not declared, and an output
            that is an array where derivatives are wanted.
        TooLargeError: for more than is written.
    """
    for unknown in sorted(formula.arrays):
        raise ExpressionError(f"the code depends on the shape of `{unknown}`: declare it", suggestion=f"{unknown}: 3")
    names = _towards(formula, wanted)
    if wanted.gradient:
        formula.check_output(formula.shapes)
    with formula.placed():
        output, *named = share([formula.output, *formula.names])
        leaves = [formula.leaves[name] for name in names]
        slopes = gradient_nodes(output, leaves, formula.shapes) if leaves else []
    graphs = [output, *slopes, *named]
    variables = {name: Variable(name, formula.shapes.get(name, ()), (leaf,)) for name, leaf in formula.leaves.items()}
    parts: list[tuple[Node, ...]] = [(graph,) for graph in graphs]
    is_scalar = not any(node.op is not None and node.op.structural for node in topological(graphs))
    is_written_out = not is_scalar and (wanted.hessian or not has_arrays)
    if is_written_out:
        variables, parts = _written_out(variables, graphs)
        is_scalar = True
    values, slope_parts, named_parts = parts[0], parts[1 : 1 + len(slopes)], parts[1 + len(slopes) :]
    wrt = tuple(variables[name] for name in names)
    hessian = _hessian(wrt, [slope for part in slope_parts for slope in part]) if wanted.hessian else None
    made = ExportProgram(
        name=wanted.name,
        text=to_text(formula.output, formula.names, shapes=formula.shapes),
        note=wanted.note,
        variables=tuple(variables.values()),
        values=values,
        shape=(Shapes(formula.shapes).of(output) or ()) if is_written_out else (),
        has_gradient=wanted.gradient,
        wrt=wrt,
        gradient={variable.name: part for variable, part in zip(wrt, slope_parts, strict=True)},
        hessian=hessian,
        called={
            part[0]: name for part, name in zip(named_parts, formula.names.values(), strict=True) if len(part) == 1
        },
    )
    return _tidied(made, tidy, is_scalar)


def _towards(formula: Formula, wanted: Wanted) -> list[str]:
    """The names of the variables to differentiate towards."""
    names = [*formula.variables] if wanted.wrt is None else [*map(canonical, wanted.wrt)]
    formula.check_names(names)
    return list(dict.fromkeys(names)) if wanted.gradient else []


def _written_out(
    variables: Mapping[str, Variable], graphs: Sequence[Node]
) -> tuple[dict[str, Variable], list[tuple[Node, ...]]]:
    """Variables and graphs with each element of an array on its own."""
    from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements, unroll

    places = {variable.leaves[0]: elements(variable.name, variable.shape) for variable in variables.values()}
    try:
        parts = [tuple(part.reshape(-1)) for part in unroll(graphs, places, MOST_OPERATIONS)]
    except TooManyOperationsError as error:
        raise TooLargeError(str(error)) from None
    scalars = {
        variable.name: Variable(variable.name, variable.shape, tuple(places[variable.leaves[0]].reshape(-1)))
        for variable in variables.values()
    }
    return scalars, parts


def _hessian(wrt: Sequence[Variable], slopes: Sequence[Node]) -> list[list[Node]]:
    """The second derivatives. The matrix is symmetric; what is below its diagonal is what is above it."""
    leaves = [leaf for variable in wrt for leaf in variable.leaves]
    if len(leaves) > MOST_OF_HESSIAN:
        raise TooLargeError(
            f"a Hessian of {len(leaves)} numbers has {len(leaves) ** 2:,} entries; code is written for at most "
            f"{MOST_OF_HESSIAN} numbers: choose some with --wrt"
        )
    if len(leaves) * len(topological(slopes)) > MOST_OPERATIONS:
        raise TooLargeError(
            f"the Hessian of {len(leaves)} numbers and a formula as long as this would be more than "
            f"{MOST_OPERATIONS:,} operations: choose fewer with --wrt"
        )
    rows: list[list[Node]] = []
    for k, slope in enumerate(slopes):
        above = gradient_nodes(share([slope])[0], leaves[k:])
        rows.append([*(rows[j][k] for j in range(k)), *above])
    return rows


def _tidied(made: ExportProgram, tidy: Tidy, is_scalar: bool) -> ExportProgram:
    """The same program with its graphs tidied together."""
    tidied = tidy([*made.roots, *made.called], is_scalar)
    needed = {*topological(tidied[: len(made.roots)])}
    if len(needed) > MOST_OPERATIONS:
        raise TooLargeError(f"this would be more than {MOST_OPERATIONS:,} operations")
    take = iter(tidied)
    return replace(
        made,
        values=tuple(next(take) for _ in made.values),
        gradient={name: tuple(next(take) for _ in slopes) for name, slopes in made.gradient.items()},
        hessian=None if made.hessian is None else [[next(take) for _ in row] for row in made.hessian],
        called={node: name for node, name in zip(take, made.called.values(), strict=True) if node in needed},
    )
