"""A model: its text, read against the columns that the data have."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autodiff_cli.algebra.subtraction import subtracted
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import ShapeError, Shapes, in_words
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.columns import Match
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, in_brief, shape_error, suggest
from autodiff_cli.language.lexer import written_name
from autodiff_cli.language.lowering import Program, read
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.structural import dot, matmul, softmax, stack
from autodiff_cli.training.levels.expansion import (
    base_of,
    by_level,
    check_levels,
    column_names,
    columns_of,
    columns_read,
    expanded,
    levels_in_backticks,
    name_of,
    parameter_names,
)
from autodiff_cli.training.objective.meanings import check_not_bound, doubts

if TYPE_CHECKING:
    from autodiff_cli.training.options import ParameterOptions

_READABLE = 100  # numbers, at most, that a formula shows


@dataclass(frozen=True, slots=True)
class Model:
    """What a model's text means for given data.

    Attributes:
        program: the graph, with `target` (left of `~`; None where the text is itself the loss of a row) and `output`.
        columns: the names in the text that are columns.
        parameters: the other names, in order of appearance; once the levels are known, one for each of these.
        warnings: what a reader may not have meant.
        shapes: of the parameters that are arrays, by name; all of them once the model is `resolved`.
        others: the columns of the data that are not in the text.
        labelled: of the columns, those that are read by their labels, for `a[group]` or `group == 'A'`.
        levels: of each column that has them for parameters, once they are known.
    """

    text: str
    program: Program
    columns: tuple[str, ...]
    parameters: tuple[str, ...]
    warnings: tuple[str, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    labelled: tuple[str, ...] = ()
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, names: Sequence[str], given: Collection[str] = ()) -> Model:
        """Read a model.

        Args:
            names: of the columns that the data have.
            given: names to which the user gives values: they are parameters, also if they look like a misspelt column.

        Raises:
            ExpressionError: if the text is not a model, if a parameter stands left of `~`, if a column is given a value
                instead of a prediction, or if there is no parameter.
        """
        program = read(text, variables=(*names, *given), columns=column_names(text, names))
        check_not_bound(program, names)
        columns = tuple(dict.fromkeys(columns_read(program, names)))
        parameters = parameter_names(program, names)
        check_levels(program, names)
        if program.target is not None:
            for leaf in topological([program.target]):
                match = program.of_columns.get(leaf.text)
                if leaf.is_input and leaf.text not in names and not isinstance(match, Match):
                    raise ExpressionError(
                        f"`{leaf.text}`, left of `~`, is not a column of the data ({in_brief(names)})",
                        suggestion=suggest(leaf.text, names),
                    )
        for name in columns:
            if name in program.shapes:
                message = f"`{name}` is a column of the data, one number per row; no shape is declared for it"
                raise ExpressionError(message, text, program.source.start(program.leaves[name]))
        if not parameters:
            raise ExpressionError("there is nothing to fit: every name of the model is a column of the data")
        bases = {base_of(name, parameters) for name in given}
        warnings = (*program.notes, *doubts(program, parameters, names, bases))
        others = tuple(name for name in names if name not in columns)
        labelled = tuple(dict.fromkeys(leaf.column for leaf in program.of_columns.values()))
        return cls(text, program, columns, parameters, warnings, dict(program.shapes), others, labelled)

    def with_levels(self, levels: Mapping[str, Sequence[Any]]) -> Model:
        """The model with a parameter for each level.

        Args:
            levels: of each column of `leveled`.
        """
        program = expanded(self.program, levels)
        return dataclasses.replace(
            self, program=program, parameters=parameter_names(program, self.columns), levels=dict(levels)
        )

    def takes(self, name: str) -> bool:
        """Whether a value can be given for a name: a parameter, one that has levels, or what may be a level of one."""
        leveled = {*check_levels(self.program, self.columns)}
        leveled |= {known.partition("[")[0] for known in self.parameters if known.endswith("]")}
        return name in self.parameters or name in leveled or base_of(name, leveled) != name

    @property
    def leveled(self) -> tuple[str, ...]:
        """The columns whose levels have parameters, where these are not known yet."""
        return tuple(dict.fromkeys(level.column for level in check_levels(self.program, self.columns).values()))

    def parameters_by_level(self, options: ParameterOptions) -> ParameterOptions:
        """The options with what is given for a parameter given for all of its levels.

        Raises:
            UnknownNameError: for a level that is not there.
        """
        if not self.levels:
            return options
        of_levels = {
            level.parameter: [
                name
                for each in self.levels[level.column]
                if (name := name_of(level.parameter, each)) not in self.program.bound
            ]
            for level in check_levels(self._read_anew(None), self.columns).values()
        }
        given = {"start": options.start, "fixed": options.fixed, "bounds": options.bounds}
        spread = {kind: by_level(values, self.parameters, of_levels) for kind, values in given.items()}
        # A bound for all levels says nothing of those that are fixed.
        own = {n: limits for n, limits in spread["bounds"].items() if n in options.bounds or n not in spread["fixed"]}
        return dataclasses.replace(options, **{**spread, "bounds": own})

    def _read_anew(self, classes: int | None) -> Program:
        names = (*self.columns, *self.parameters)
        return read(self.text, names, classes, column_names(self.text, self.columns))

    @property
    def numeric(self) -> tuple[str, ...]:
        """Of the columns, those that are read as numbers."""
        return tuple(name for name in self.columns if name in self.program.leaves)

    @property
    def of_rows(self) -> tuple[str, ...]:
        """The names of the leaves that have a value of their own in each row."""
        return (*self.columns, *self.matches)

    @property
    def matches(self) -> dict[str, Match]:
        """The leaves that are 1 where a column has a label, else 0."""
        return {name: leaf for name, leaf in self.program.of_columns.items() if isinstance(leaf, Match)}

    @property
    def class_column(self) -> str | None:
        """The column of classes, if the model tells them apart: `column ~ softmax(…)`."""
        target, output = self.program.target, self.program.output
        is_class = target is not None and target.is_input and output.op is softmax
        return target.text if target is not None and is_class else None

    def resolved(self, values: Mapping[str, Any] | None = None, classes: int | None = None) -> Model:
        """The model with all shapes known, and found to fit together.

        An array's shape is declared (`W: 3x2`), or that of a value given for it. An array that is multiplied with one
        whose shape is known, by `@` or `dot`, is a vector of the length that fits.

        Args:
            values: those that are given for parameters.
            classes: how many there are, for a model that tells classes apart.

        Raises:
            ExpressionError: where shapes do not fit, or are not known.
        """
        program = self.program
        if classes is not None:
            program = expanded(self._read_anew(classes), self.levels)
        model = dataclasses.replace(self, program=program, shapes=program.shapes)
        shapes = {name: np.shape(value) for name, value in (values or {}).items()}
        for name, shape in shapes.items():
            if len(shape) > 2:
                raise model._error(f"the value of `{name}` has {len(shape)} dimensions; an array has at most two", name)
            if name in program.shapes and shape != program.shapes[name]:
                needed = _described(program.shapes[name])
                raise model._error(f"the value of `{name}` is {_described(shape)}; {needed} is needed", name)
        known = {**program.shapes, **{name: shape for name, shape in shapes.items() if name in self.parameters}}
        model = dataclasses.replace(model, shapes=model._with_inferred(known))
        try:
            model._check(classes)
        except ShapeError as error:
            raise shape_error(error, program.source) from None
        return dataclasses.replace(model, shapes={name: shape for name, shape in model.shapes.items() if shape})

    def _with_inferred(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """These shapes, and those of the arrays that are multiplied with something of a known shape."""
        program = self.program
        order = topological([program.output] if program.target is None else [program.target, program.output])
        known = dict(shapes)
        unknown = {name for name in program.arrays if name not in known and name not in self.columns}
        while unknown:
            found = next(_fitting(order, Shapes(known, unknown), unknown), None)
            if found is None:
                name = next(name for name in self.parameters if name in unknown)
                message = f"`{name}` is an array whose shape is not known here: declare it"
                raise self._error(message, name, f"{name}: 3")
            name, known[name] = found
            unknown.remove(name)
        return known

    def _check(self, classes: int | None) -> None:
        """Raise ShapeError, or ExpressionError, where shapes do not fit."""
        program = self.program
        shapes = Shapes(self.shapes)
        output = shapes.of(program.output) or ()
        if program.target is None:
            if output:
                raise ShapeError(f"the loss of a row is a number; this is {_described(output)}", program.output)
            return
        if classes is not None:
            if output != (classes,):
                words = f"there are {classes} classes, but the softmax is over {_described(output)}"
                raise ShapeError(words, program.output)
            return
        target = shapes.of(program.target) or ()
        if len(target) > 1:
            raise ShapeError(f"a target is a number or a vector; this one is {_described(target)}", program.target)
        if target != output:
            words = f"the target is {_described(target)}, but the prediction {_described(output)}"
            raise ShapeError(words, program.output)

    def _error(self, message: str, name: str, suggestion: str | None = None) -> ExpressionError:
        """An error at a name in the text."""
        leaf = self.program.leaves.get(name)
        start = None if leaf is None else self.program.source.start(leaf)
        return ExpressionError(message, self.text if start is not None else "", start, suggestion)

    @property
    def array_parameters(self) -> dict[str, Shape]:
        """The parameters that are arrays, in order of appearance, and their shapes."""
        return {name: self.shapes[name] for name in self.parameters if name in self.shapes}

    @property
    def target_shape(self) -> Shape:
        """The shape of the left side of `~`: that of a number, or of a vector."""
        target = self.program.target
        return () if target is None else Shapes(self.shapes).of(target) or ()

    def formula(self, values: Mapping[str, Any]) -> str:
        """The prediction (the loss, if there is no target) with numbers for the parameters, at full precision.

        Empty if these are more than anyone reads: 100.
        """
        if sum(np.size(value) for value in values.values()) > _READABLE:
            return ""
        numbers = {self.program.leaves[name]: _written(value) for name, value in values.items()}
        return to_text(subtracted(rebuild([self.program.output], numbers)[0]))

    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return columns_of([self.program.output], self.program, self.columns)

    def targets(self) -> tuple[str, ...]:
        """The left side of `~` as text, each part of an array by itself; empty without one."""
        target = self.program.target
        if target is None:
            return ()
        return tuple(map(to_text, target.inputs if target.op is stack else (target,)))


def tied(text: str, ties: Mapping[str, str], names: Collection[str]) -> str:
    """The text of a model in which parameters are expressions of others: `b = 2*a` stands in front of it.

    Args:
        ties: the expressions, by canonical names; these may be names of levels, as may those in the expressions.
        names: of the columns that the data have.

    Raises:
        ExpressionError: for a name that is no parameter, and for an expression that reads a column.

    >>> tied("y ~ a*x + b", {"b": "2*a"}, ["x", "y"])
    'b = 2*a; y ~ a*x + b'
    >>> tied("y ~ a[g]*x", {"a[B]": "2*a[A]"}, ["x", "y", "g"])
    '`a[B]` = 2*`a[A]`; y ~ a[g]*x'
    """
    if not ties:
        return text
    program = read(text, variables=(*names, *ties), columns=column_names(text, names))
    leveled = check_levels(program, names)
    leaves = {*parameter_names(program, names)} - {*leveled}
    bound = []
    for name, expression in ties.items():
        if name not in leaves and base_of(name, leveled) == name:
            raise UnknownNameError(f"the model has no parameter `{name}` to tie", suggestion=suggest(name, leaves))
        written = levels_in_backticks(expression, leveled)
        own = read(written, variables=[*leaves, *names])
        if own.target is not None:
            raise ExpressionError(f"`{name}` is tied to an expression, without `~`", expression)
        column = next((leaf for leaf in own.leaves if leaf in names), None)
        if column is not None:
            raise ExpressionError(f"`{name}` is tied to other parameters; `{column}` is a column", expression)
        bound.append(f"{written_name(name)} = {written}")
    return "; ".join([*bound, text])


def _described(shape: Shape) -> str:
    return ("a number", f"a vector of {in_words(shape)}", f"a matrix of {in_words(shape)}")[len(shape)]


def _written(value: Any) -> Node:
    """A number, or an array, as a text would have it."""
    if np.ndim(value):
        return stack(*map(_written, value))
    return constant(float(value))


def _fitting(order: Sequence[Node], shapes: Shapes, unknown: Collection[str]) -> Any:
    """Names of unknown shape that are multiplied with something of a known one, and the shape that fits."""
    for node in order:
        if node.op not in (matmul, dot):
            continue
        for own, other in ((0, 1), (1, 0)):
            leaf = node.inputs[own]
            if leaf.is_input and leaf.text in unknown:
                shape = shapes.of(node.inputs[other])
                if shape:
                    yield leaf.text, shape if node.op is dot else (shape[0] if own == 0 else shape[-1],)
