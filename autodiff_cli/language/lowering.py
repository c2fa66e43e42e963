"""Reading, from a text to what it means, in four steps: statements (`parser`), names (`names`), graph (`building`),
shapes (`shaping`). Each has one record to go by and gives one.

A step that meets a mistake gives what it has up to it, so that the next can find one that stands earlier in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.language.building import build
from autodiff_cli.language.columns import NO_COLUMNS, ColumnNames, Level, Match
from autodiff_cli.language.lexer import canonical
from autodiff_cli.language.names import resolve
from autodiff_cli.language.parser import parse
from autodiff_cli.language.shaping import check_shapes
from autodiff_cli.language.source import Source

if TYPE_CHECKING:
    from autodiff_cli.language.layers import Initial


@dataclass(frozen=True, slots=True)
class Program:
    """What a text means.

    Attributes:
        text: as given.
        output: the value of the last statement; for a model `target ~ prediction`, the prediction.
        target: the left side of `~`; None without one.
        leaves: the free names, in the order in which they first stand in the text, and the input leaf of each;
            parameters of layers are among them.
        shapes: those of the leaves that are declared, or are parameters of layers, by name.
        arrays: the names of other leaves that stand where an array is required (see `array_names`); what is in neither
            is a number.
        initial: what each parameter of a layer is, by name.
        bound: the values of the names that the text binds (`a = x + y`).
        of_columns: the leaves, by name, that stand for a match or a level of a column that is no number.
        notes: what the reader may want to know, as sentences.
        source: where the nodes stand in the text.
    """

    text: str
    output: Node
    target: Node | None
    leaves: dict[str, Node]
    shapes: dict[str, Shape]
    arrays: frozenset[str]
    initial: dict[str, Initial]
    bound: dict[str, Node]
    of_columns: dict[str, Match | Level]
    notes: tuple[str, ...]
    source: Source


def read(
    text: str, variables: Iterable[str] = (), outputs: int | None = None, columns: ColumnNames = NO_COLUMNS
) -> Program:
    """Read a text of the expression language.

    Args:
        variables: names of constants (`pi tau e inf nan`) that are variables here.
        outputs: how wide the last layer of an `mlp` is; by default as wide as the model's target, and one element of
            it, a number, where that is a number or missing.
        columns: those of the data that are no numbers.

    Raises:
        ExpressionError: the text is not in the language; the first mistake is reported, with its place.
    """
    with collector_paused():
        names = resolve(parse(text), frozenset(map(canonical, variables)), columns)
        graph = build(names, outputs)
        if graph.error is not None:
            raise graph.error
        arrays = check_shapes(names, graph)
        assert graph.output is not None
        leaves = {name: leaf for name, leaf in graph.leaves.items() if name in graph.values}
        shapes = {name: shape for name, shape in graph.shapes.items() if name in leaves}
        bound = {name: graph.values[name] for name in names.binders if name in graph.values}
        return Program(
            text=text,
            output=graph.output,
            target=graph.target,
            leaves=leaves,
            shapes=shapes,
            arrays=arrays,
            initial=graph.initial,
            bound=bound,
            of_columns=names.of_columns,
            notes=names.notes,
            source=graph.source,
        )
