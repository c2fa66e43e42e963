"""Models: the text of a model, parsed for the columns of given data.

`Model` knows which names are columns and which are parameters, and the shapes of arrays. A parameter may have one value
per level of a column: `a[group]` becomes the sum, over all levels, of a parameter `a[A]` times an indicator of that
level. An indicator, also written `group == 'A'`, is a column of 1 and 0. So parameters, starting values, bounds and
standard errors work as in any other model.

`ambiguity_warnings` and the checks beside it find parts of a model that its author may not have intended.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autodiff_cli.algebra.simplify import with_subtraction
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.node import Gate, Node, Shape, constant, variable
from autodiff_cli.graph.tape import ShapeError, ShapeInference, format_shape, leaf_names, substitute, topological_order
from autodiff_cli.language import errors
from autodiff_cli.language import names as naming
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, format_names, given_by, is_quotable, suggest
from autodiff_cli.language.lexer import LAYER_FUNCTIONS, is_level_name, is_name, quote_name
from autodiff_cli.language.names import NO_COLUMNS, ColumnNames, LevelEffect, LevelParameter, TextMatch
from autodiff_cli.language.parser import parse
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import Program, read
from autodiff_cli.ops.structural import dot, index, literal_index, matmul, softmax, stack
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.parameters import linear_model_hint, read_with_parameters, with_columns_of_data
from autodiff_cli.training.options import FitOptions, ParameterValues

Levels = Mapping[str, tuple[Any, ...]]

_QUOTES = ("'", '"')


def model_column_names(text: str, names: Collection[str]) -> ColumnNames:
    """Return how the text of a model uses columns.

    Columns that it compares with quoted text hold text; any column may have levels for which a parameter has values, or
    be the response of a convolution.
    """
    if not any(mark in text for mark in ("[", "convolve", *_QUOTES)):
        return NO_COLUMNS
    texts = naming.names_compared_with_text(parse(text).lexemes) if any(mark in text for mark in _QUOTES) else set()
    return ColumnNames({name for name in names if name in texts}, names)


def level_parameter(parameter: str, level: Any) -> str:
    """Return the name of a parameter's value for a level.

    >>> level_parameter("a", "north")
    'a[north]'
    """
    return f"{parameter}[{level}]"


def check_levels(program: Program, columns: Collection[str]) -> dict[str, LevelParameter]:
    """Return the column of levels of each parameter that has levels.

    Raises:
        ExpressionError: for a parameter with levels of two columns, or that is also used as a single number.
    """
    levels: dict[str, LevelParameter] = {}
    for leaf in program.column_leaves.values():
        if not isinstance(leaf, LevelParameter):
            continue
        if leaf.parameter in columns:
            raise ExpressionError(f"`{leaf.parameter}` is a column; only parameters have a value for each level")
        other = levels.setdefault(leaf.parameter, leaf)
        if other.column != leaf.column:
            message = f"`{leaf.parameter}` has levels of `{other.column}`, so it cannot have levels of `{leaf.column}`"
            raise ExpressionError(message, suggestion=f"{leaf.parameter}2[{leaf.column}]")
        if leaf.parameter in program.leaves:
            raise ExpressionError(f"`{leaf.parameter}` is a number and has levels of `{leaf.column}`: use two names")
    return levels


def expand_levels(program: Program, levels: Levels, effects: Collection[str] = ()) -> Program:
    """Return the program with one parameter for each level, in place of the leaves that stand for all levels.

    Args:
        levels: the levels of each column that has some.
        effects: the parameters that are random effects. Their leaves stay, as columns.
    """
    if not any(isinstance(leaf, LevelParameter) for leaf in program.column_leaves.values()):
        return program
    _check_level_names(program, levels)
    nodes = {**program.leaves, **program.bound}  # levels tied to others are bound to expressions
    order: dict[str, Node] = {}
    replaced: dict[Node, Node] = {}
    matches: dict[str, LevelParameter | TextMatch] = {}
    for text, node in program.leaves.items():
        leaf = program.column_leaves.get(text)
        if not isinstance(leaf, LevelParameter) or leaf.parameter in effects:
            order[text] = node
            continue
        terms = []
        for level in levels[leaf.column]:
            match = TextMatch(leaf.column, str(level))
            name = level_parameter(leaf.parameter, level)
            matches[str(match)] = match
            value = nodes.setdefault(name, variable(name))
            if name not in program.bound:
                order[name] = value
            terms.append(value * nodes.setdefault(str(match), variable(str(match))))
        replaced[node] = functools.reduce(operator.add, terms)
    order |= {text: nodes[text] for text in matches}
    others: dict[str, TextMatch | LevelParameter | LevelEffect] = {
        text: leaf if isinstance(leaf, TextMatch) else LevelEffect(leaf.parameter, leaf.column)
        for text, leaf in program.column_leaves.items()
        if isinstance(leaf, TextMatch) or leaf.parameter in effects
    }
    output, *target = substitute([program.output, *([] if program.target is None else [program.target])], replaced)
    return replace(
        program,
        output=output,
        target=target[0] if target else None,
        leaves=order,
        column_leaves={**others, **matches},
        bound=dict(zip(program.bound, substitute([*program.bound.values()], replaced), strict=True)),
    )


def _check_level_names(program: Program, levels: Levels) -> None:
    """Raise UnknownNameError for the name of a level that does not exist."""
    of_levels = {
        leaf.parameter: [level_parameter(leaf.parameter, level) for level in levels[leaf.column]]
        for leaf in program.column_leaves.values()
        if isinstance(leaf, LevelParameter)
    }
    read = {*program.leaves, *program.bound} - program.column_leaves.keys() - of_levels.keys()
    spread_over_levels(dict.fromkeys(sorted(read)), {name for own in of_levels.values() for name in own}, of_levels)


def columns_of_leaves(leaves: Iterable[str], program: Program, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns that some leaves of a program read, as numbers or by levels, in order."""
    by_level = {text: leaf.column for text, leaf in program.column_leaves.items()}
    return tuple(dict.fromkeys(by_level.get(text, text) for text in leaves if text in by_level or text in names))


def parameter_names(program: Program, names: Collection[str]) -> tuple[str, ...]:
    """Return the names that are not columns; of a parameter with levels, the name without a level."""
    parameters: dict[str, None] = {}
    for text in program.leaves:
        leaf = program.column_leaves.get(text)
        if isinstance(leaf, LevelParameter):
            parameters[leaf.parameter] = None
        elif leaf is None and text not in names:
            parameters[text] = None
    return tuple(parameters)


def quote_level_names(text: str, parameters: Collection[str]) -> str:
    """Return a text with the parameters of levels in backticks, so that it can be parsed.

    >>> quote_level_names("a[A] - a[B]", ["a[A]", "a[B]", "c"])
    '`a[A]` - `a[B]`'
    """
    names = [name for name in parameters if name.endswith("]")]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w`]){re.escape(name)}", lambda match: f"`{match.group()}`", text)
    return text


def quote_unknown_levels(text: str, parameters: Collection[str]) -> str:
    """Return a text in which names of levels' parameters are in backticks, when the levels are not known yet.

    >>> quote_unknown_levels("2*a[A] - w[0]", ["a"])
    '2*`a[A]` - w[0]'
    """
    for name in parameters:
        text = re.sub(rf"(?<![\w`]){re.escape(name)}\[[^\]`]*\]", lambda match: f"`{match.group()}`", text)
    return text


def base_parameter(name: str, parameters: Collection[str]) -> str:
    """Return the parameter to which a name such as `a[A]` belongs; for other names, the name itself.

    >>> base_parameter("a[A]", {"a", "b"}), base_parameter("b", {"a", "b"})
    ('a', 'b')
    """
    base = name.partition("[")[0]
    return base if name.endswith("]") and base in parameters else name


def _base_names(names: Iterable[str]) -> list[str]:
    """Return the names of parameters without their levels: `a` for `a[A]`."""
    return [name.partition("[")[0] for name in names]


def spread_over_levels(
    values: Mapping[str, Any], parameters: Collection[str], of_levels: Mapping[str, Sequence[str]]
) -> Any:
    """Return values of parameters, with a value for all levels (`a`) copied to each level (`a[A]`) without its own.

    Args:
        parameters: the names of all parameters, including the values of levels such as `a[A]`.
        of_levels: the names of the levels' parameters, by the name of the parameter.

    Raises:
        UnknownNameError: for a level that does not exist.
    """
    spread: dict[str, Any] = {}
    for name, value in values.items():
        if name in of_levels:
            spread |= {each: value for each in of_levels[name] if each not in values}
            continue
        base = base_parameter(name, of_levels)
        if base != name and name not in parameters:
            words = f"there is no `{name}`; the levels are {format_names(of_levels[base], '`')}"
            raise UnknownNameError(words, suggestion=suggest(name, of_levels[base]))
        spread[name] = value
    return spread


def check_level_count(name: str, levels: Sequence[Any], most: int) -> None:
    """Raise OptionError if a column has more levels than a model can have parameters for."""
    if len(levels) > most:
        raise OptionError(f"column `{name}` has {len(levels)} levels; the limit is {most}; --by {name} fits each alone")


_SIMILARITY_CUTOFF = 0.8  # difflib's ratio of similarity, above which a parameter may be a misspelt column
_MIN_COMPARED_LENGTH = 4  # characters; shorter names are similar by chance


# Functions that books write without brackets. Other names of functions, such as `gamma`, are common parameters.
_FUNCTIONS_WITHOUT_BRACKETS = {"exp", "log", "ln", "lg", "sin", "cos", "tan", "cot", "sinh", "cosh", "tanh", "sqrt"}


def ambiguity_warnings(parameters: Sequence[str], names: Sequence[str], user_names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each parameter that may be meant to be a column or a function.

    Args:
        names: the columns of the data.
        user_names: names to which the user gives values.
    """
    for parameter in (name for name in parameters if name not in user_names):
        if parameter in _FUNCTIONS_WITHOUT_BRACKETS:
            yield f"`{parameter}` is a parameter here; the function is written `{parameter}(x)`"
        close = [name for name in names if name.casefold() == parameter.rpartition(".")[2].casefold()]  # `df.t`
        if len(parameter) >= _MIN_COMPARED_LENGTH:
            close += difflib.get_close_matches(parameter, names, n=1, cutoff=_SIMILARITY_CUTOFF)
        if close:
            yield f"the data have no column `{parameter}`, so it is a parameter; did you mean the column `{close[0]}`?"


def _check_constants(program: Program) -> None:
    """Raise ExpressionError for the constants `inf` and `nan`, with which no loss has a minimum."""
    for node in topological_order([program.output] if program.target is None else [program.target, program.output]):
        if node.is_constant and node.text in ("inf", "nan"):
            message = f"`{node.text}` is not a number that a model can use"
            raise ExpressionError(message, program.text, program.source.start(node))


def check_loss(program: Program, names: Sequence[str]) -> None:
    """Raise ExpressionError for a model without `~` that binds a column, or whose derivatives are 0 (`y == a*x`)."""
    bound = [name for name in names if name in program.bound]
    nodes = topological_order([program.output])
    jumps = {node: constant(0) for node in nodes if node.op is not None and node.op.gate is Gate.BLOCK}
    if bound:
        message = f"`{bound[0]}` is a column of the data; write its prediction after `~`, not after `=`"
    elif jumps and set(names).issuperset(leaf_names(substitute([program.output], jumps))):
        message = "the derivative of this loss is 0 with respect to every parameter; write TARGET ~ PREDICTION"
    else:
        return
    sides = re.fullmatch(r"([^=<>!(]*)==?([^=]*)", program.text)
    raise ExpressionError(message, suggestion="~".join(sides.groups()) if sides and is_quotable(sides[0]) else None)


def check_reads_data(model: Model, names: Sequence[str], named: Collection[str], user_names: Collection[str]) -> None:
    """Raise ExpressionError for a prediction that uses no column although the data have unused ones.

    Args:
        names: the columns of the data.
        named: the columns that the options name.
        user_names: parameters to which the user gives values.
    """
    others = [name for name in names if name not in model.columns and name not in named]
    if model.program.target is None or not others or model.predictors:
        return
    unknown = [name for name in model.parameters if name not in user_names]
    products = ((name, f"{name[0]}*{name[1:]}") for name in unknown if name[1:] in others)  # `ax` for `a*x`
    similar = ((name, quote_name(close)) for name in unknown if (close := suggest(name.rpartition(".")[2], others)))
    by_case = sorted(similar, key=lambda pair: pair[0].casefold() != pair[1].strip("`").casefold())
    candidate: tuple[str, str | None] | None = next(itertools.chain(products, by_case), None)
    if candidate is None and len(others) == 1 and unknown:
        likely = max(unknown[::-1], key=lambda name: name[0] in "tuvwxyz")  # the last one that looks like a variable
        candidate = likely, quote_name(others[0]) if len(unknown) > 1 else None
    listed = format_names(others, "`")
    message = f"the prediction uses no column of the data ({listed}); "
    if candidate is None:
        raise ExpressionError(f"{message}if this is intended, add --no-columns")
    name, close = candidate
    message += f"`{name}` is not one of them. If this is intended, add --no-columns"
    raise ExpressionError(message, model.text, model.program.source.start(model.program.leaves[name]), close)


def check_model_type(model: Any) -> None:
    """Raise TypeError for a model that is neither text nor a `Model`."""
    if not isinstance(model, str | Model):
        raise TypeError(f"a model must be text, not {type(model).__name__}")


def unbounded_loss_hint(model: Model, is_likelihood: bool) -> str:
    """Return the likely mistake in a model whose loss decreases without bound, as a sentence; empty if unknown."""
    if is_likelihood:
        return "The model of a likelihood is the negative log-likelihood of a row, such as `-log(normal_pdf(x, m, s))`"
    if model.program.target is not None:
        return ""
    column = next((name for name in model.unused_columns), None)
    if column is None or not is_quotable(model.text):
        return "A model without `~` is itself the loss of a row"
    return f"A model without `~` is itself the loss of a row; did you mean `{column} ~ {model.text}`?"


_MAX_FORMULA_NUMBERS = 100  # a formula with more numbers is not shown


@dataclass(frozen=True)  # without slots, for the properties that are computed once
class Model:
    """The text of a model, parsed for given data.

    Attributes:
        program: the graph, with `target` (the left side of `~`; None if the text is itself the loss of a row) and
            `output`.
        columns: the names in the text that are columns.
        parameters: the names that are not columns, in order of appearance. Once levels are known, a parameter with
            levels has one name for each level.
        warnings: sentences on names that the author may not have intended.
        notes: other remarks about the text, as sentences.
        shapes: the shapes of array parameters, by name; complete once the model is resolved.
        unused_columns: the columns of the data that are not in the text.
        label_columns: the columns that are read by their labels, for `a[group]` or `group == 'A'`.
        levels: the levels of each column that has parameters for them, once they are known.
        group_column: the column whose labels divide the rows into groups.
    """

    text: str
    program: Program
    columns: tuple[str, ...]
    parameters: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    unused_columns: tuple[str, ...] = ()
    label_columns: tuple[str, ...] = ()
    levels: Levels = field(default_factory=dict)
    group_column: str | None = None

    @classmethod
    def parse(cls, text: str, names: Sequence[str], user_names: Collection[str] = (), is_saved: bool = False) -> Model:
        """Parse a model.

        Args:
            names: the columns of the data.
            user_names: names to which the user gives values: they are parameters, even if they resemble a column.
            is_saved: whether `user_names` has all parameters, so that other names of constants are constants.

        Raises:
            ExpressionError: if the text is not a model, or if nothing could be fitted; the message says why.
        """
        check_model_type(text)
        read_program = read if is_saved else read_with_parameters
        try:
            program = read_program(text, (*names, *_base_names(user_names)), columns=model_column_names(text, names))
        except ExpressionError as error:
            raise with_columns_of_data(error, text, names) from None
        if not is_saved:
            _check_constants(program)
        columns = columns_of_leaves(program.leaves, program, names)
        parameters = parameter_names(program, names)
        check_levels(program, names)
        if program.target is None:
            check_loss(program, names)
        else:
            for leaf in topological_order([program.target]):
                match = program.column_leaves.get(leaf.text)
                if leaf.is_input and leaf.text not in names and not isinstance(match, TextMatch):
                    listed = format_names(names, "" if all(map(is_name, names)) else "`")
                    words = f"`{leaf.text}`, left of `~`, is not a column of the data ({listed})"
                    is_joined = len(names) == 1 and not {*",;|\t"}.isdisjoint(names[0])
                    words += "; the delimiter may be another one" * is_joined
                    close = suggest(leaf.text, names)
                    unknown = ExpressionError(words, suggestion=close and quote_name(close))
                    raise with_columns_of_data(unknown, text, names)
        for name in columns:
            if name in program.shapes:
                message = f"`{name}` is a column of the data, with one number per row; its shape cannot be declared"
                raise ExpressionError(message, text, program.source.start(program.leaves[name]))
        if not parameters:
            words = "there is nothing to fit: every name of the model is a column of the data"
            raise ExpressionError(words + linear_model_hint(program))
        bases = {base_parameter(name, parameters) for name in user_names}
        replaced = tuple(note for note in program.notes if note.startswith(tuple(f"`{name}` " for name in columns)))
        hint = "" if "e" in bases else "; write `exp(x)` for a power of Euler's number, or set --fix e=exp(1)"
        others = (note for note in program.notes if note not in replaced)
        notes = tuple(f"{note}{hint}" if note.startswith("`e` ") else note for note in others)
        defined = [name for name in program.bound if name in names]
        shadowed = [f"the model defines `{name}`, so the column of this name is not read" for name in defined]
        left = () if program.target is None else columns_of_leaves(leaf_names([program.target]), program, names)
        right = columns_of_leaves(leaf_names([program.output]), program, names)
        both = [name for name in left if name in right]
        circular = [f"`{name}` is on both sides of `~`: the column is predicted from itself" for name in both]
        warnings = (*replaced, *shadowed, *circular, *ambiguity_warnings(parameters, names, bases))
        unused = tuple(name for name in names if name not in columns)
        labelled = tuple(dict.fromkeys(leaf.column for leaf in program.column_leaves.values()))
        return cls(text, program, columns, parameters, warnings, notes, dict(program.shapes), unused, labelled)

    def with_levels(self, levels: Levels, effects: Collection[str] = ()) -> Model:
        """Return the model with one parameter for each level.

        Args:
            levels: the levels of each of `level_columns`.
            effects: the parameters that are random effects.
        """
        program = expand_levels(self.program, levels, effects)
        return replace(self, program=program, parameters=parameter_names(program, self.columns), levels=dict(levels))

    def with_parameters(self, names: Iterable[str]) -> Model:
        """Return the model with further parameters that its text does not have, as hierarchical priors do."""
        new = {name: variable(name) for name in names if not self.accepts(name)}
        if not new:
            return self
        program = replace(self.program, leaves={**self.program.leaves, **new})
        return replace(self, program=program, parameters=parameter_names(program, self.columns))

    def accepts(self, name: str) -> bool:
        """Whether a value can be given for a name: a parameter, one with levels, or the name of a level."""
        leveled = {*check_levels(self.program, self.columns), *_base_names(filter(is_level_name, self.parameters))}
        return name in self.parameters or name in leveled or base_parameter(name, leveled) != name

    @property
    def level_columns(self) -> tuple[str, ...]:
        """The columns with levels for which parameters have values, while the levels are unknown."""
        return tuple(dict.fromkeys(level.column for level in check_levels(self.program, self.columns).values()))

    def expand_values(self, values: ParameterValues) -> ParameterValues:
        """Return values of parameters, with values for all levels copied to each level.

        Raises:
            UnknownNameError: for a level that does not exist.
        """
        if not self.levels:
            return values
        of_levels = {
            level.parameter: [
                name
                for each in self.levels[level.column]
                if (name := level_parameter(level.parameter, each)) not in self.program.bound
            ]
            for level in check_levels(self._reparse(None), self.columns).values()
        }
        start, fixed, bounds = (spread_over_levels(each, self.parameters, of_levels) for each in values[:3])
        # A bound for all levels does not apply to fixed ones.
        bounds = {name: limits for name, limits in bounds.items() if name in values.bounds or name not in fixed}
        return ParameterValues(start, fixed, bounds, values.orders)

    def _reparse(self, classes: int | None) -> Program:
        names = (*self.columns, *_base_names(self.parameters), *(each.parameter for each in self.effects.values()))
        return read(self.text, names, classes, model_column_names(self.text, self.columns))

    @functools.cached_property
    def numeric(self) -> tuple[str, ...]:
        """The columns that are read as numbers."""
        return tuple(name for name in self.columns if name in self.program.leaves)

    @functools.cached_property
    def row_leaves(self) -> tuple[str, ...]:
        """The names of the leaves that have a value in each row."""
        return (*self.columns, *self.matches, *self.effects)

    @functools.cached_property
    def matches(self) -> dict[str, TextMatch]:
        """The indicators: leaves that are 1 where a column has a label, else 0."""
        return {name: leaf for name, leaf in self.program.column_leaves.items() if isinstance(leaf, TextMatch)}

    @functools.cached_property
    def effects(self) -> dict[str, LevelEffect]:
        """The random effects, by the names of their leaves; once levels are known."""
        return {name: leaf for name, leaf in self.program.column_leaves.items() if isinstance(leaf, LevelEffect)}

    @functools.cached_property
    def class_column(self) -> str | None:
        """The column of classes, if the model is a classification, `column ~ softmax(…)`; else None."""
        target, output = self.program.target, self.program.output
        is_class = target is not None and target.is_input and output.op is softmax
        return target.text if target is not None and is_class else None

    def resolve(self, values: Mapping[str, Any] | None = None, classes: int | None = None) -> Model:
        """Return the model with all shapes determined and checked.

        The shape of an array is declared (`W: 3x2`), or follows from a value given for it. An array that is multiplied
        by one of known shape, with `@` or `dot`, becomes a vector of the matching length.

        Args:
            values: the values given for parameters.
            classes: the number of classes, for a classification.

        Raises:
            ExpressionError: if shapes do not fit or cannot be determined.
        """
        program = self.program
        if classes is not None:
            program = expand_levels(self._reparse(classes), self.levels)
            others = {name: self.program.leaves[name] for name in self.parameters if name not in program.leaves}
            program = replace(program, leaves={**program.leaves, **others})  # those that priors alone read
        model = replace(self, program=program, shapes=program.shapes)
        shapes = {name: np.shape(value) for name, value in (values or {}).items()}
        for name, shape in shapes.items():
            if len(shape) > 2:
                raise model._error(f"the value of `{name}` has {len(shape)} dimensions; an array has at most two", name)
            if name in program.shapes and shape != program.shapes[name]:
                needed = _describe_shape(program.shapes[name])
                raise model._error(f"the value of `{name}` is {_describe_shape(shape)}; {needed} is needed", name)
        known = {**program.shapes, **{name: shape for name, shape in shapes.items() if name in self.parameters}}
        model = replace(model, shapes=model._infer_shapes(known))
        try:
            model._check(classes)
        except ShapeError as error:
            raise errors.shape_error(error, program.source) from None
        return replace(model, shapes={name: shape for name, shape in model.shapes.items() if shape})

    def _infer_shapes(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Return the given shapes, and the shapes of arrays that are multiplied by something of known shape."""
        program = self.program
        order = topological_order([program.output] if program.target is None else [program.target, program.output])
        known = dict(shapes)
        unknown = {name for name in program.arrays if name not in known and name not in self.columns}
        while unknown:
            inferred = next(_inferable_shapes(order, ShapeInference(known, unknown), unknown), None)
            if inferred is None:
                name = next(name for name in self.parameters if name in unknown)
                uses = (node.inputs for node in order if node.op is index and node.inputs[0].text == name)
                places = ([literal_index(at) or 0 for at in inputs[1:]] for inputs in uses)
                shape = tuple(1 + max(axis) for axis in itertools.zip_longest(*places, fillvalue=0)) or (3,)
                example = f"{quote_name(name)}: {format_shape(shape)}"
                raise self._error(f"the shape of the array `{name}` is unknown: declare it", name, example)
            name, known[name] = inferred
            unknown.remove(name)
        return known

    def _check(self, classes: int | None) -> None:
        """Raise ShapeError or ExpressionError if shapes do not fit."""
        program = self.program
        shapes = ShapeInference(self.shapes)
        output = shapes.infer(program.output) or ()
        if program.target is None:
            if output:
                raise ShapeError(f"the loss of a row must be a number, not {_describe_shape(output)}", program.output)
            return
        if classes is not None:
            if output != (classes,):
                words = f"there are {classes} classes, but the softmax is over {_describe_shape(output)}"
                raise ShapeError(words, program.output)
            return
        target = shapes.infer(program.target) or ()
        if len(target) > 1:
            raise ShapeError(f"a target must be a number or a vector, not {_describe_shape(target)}", program.target)
        if target != output:
            words = f"the target is {_describe_shape(target)}, but the prediction {_describe_shape(output)}"
            raise ShapeError(words, program.output)

    def _error(self, message: str, name: str, suggestion: str | None = None) -> ExpressionError:
        """Return an error at a name in the text."""
        leaf = self.program.leaves.get(name)
        start = None if leaf is None else self.program.source.start(leaf)
        return ExpressionError(message, self.text if start is not None else "", start, suggestion)

    @functools.cached_property
    def array_parameters(self) -> dict[str, Shape]:
        """The array parameters and their shapes, in order of appearance."""
        return {name: self.shapes[name] for name in self.parameters if name in self.shapes}

    @functools.cached_property
    def target_shape(self) -> Shape:
        """The shape of the target, a number or a vector."""
        target = self.program.target
        return () if target is None else ShapeInference(self.shapes).infer(target) or ()

    def formula(self, values: Mapping[str, Any]) -> str:
        """Return the prediction (the loss, without a target) as a formula with numbers for the parameters, at full
        precision.

        It is empty if there are more than 100 numbers, which would be unreadable.
        """
        if sum(np.size(value) for value in values.values()) > _MAX_FORMULA_NUMBERS:
            return ""
        numbers = {self.program.leaves[name]: constant_graph(value) for name, value in values.items()}
        return to_text(with_subtraction(substitute([self.program.output], numbers)[0]))

    @functools.cached_property
    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction uses."""
        return columns_of_leaves(leaf_names([self.program.output]), self.program, self.columns)

    @functools.cached_property
    def residual_columns(self) -> tuple[str, ...]:
        """The columns that residuals use: not the response of a convolution, which is stored with the fit."""
        sides = [side for side in (self.program.target, self.program.output) if side is not None]
        return columns_of_leaves(leaf_names(sides), self.program, self.columns)

    def targets(self) -> tuple[str, ...]:
        """Return the left side of `~` as text, one text for each component; empty without a target."""
        target = self.program.target
        if target is None:
            return ()
        return tuple(map(to_text, target.inputs if target.op is stack else (target,)))


def tie_fixed_parameters(text: str, names: Collection[str], options: FitOptions) -> tuple[str, FitOptions]:
    """Return a model with the parameters tied that `fixed` gives as expressions, and the options without these.

    Tied parameters become derived quantities. A constant expression such as `pi/2` fixes a parameter at its value.

    Args:
        names: the columns of the data.

    Raises:
        ExpressionError: see `tie_parameters`.
    """
    fixed, ties = dict(options.parameters.fixed), {}
    expressions = {name: value for name, value in fixed.items() if isinstance(value, str)}
    if not expressions:
        return text, options
    for name, expression in expressions.items():
        is_level = "[" in expression and not expression.lstrip().startswith("[")  # a[north], see `tie_parameters`
        with given_by("fixed"):
            program = None if is_level else read_with_parameters(expression)
        if program is None or program.leaves:
            ties[name] = expression
            del fixed[name]
        else:
            fixed[name] = evaluate([program.output], {}, {})[0]
    quantities = {**{name: name for name in ties}, **options.quantities}
    return tie_parameters(text, ties, names), replace(options, fixed=fixed, derive=quantities)


def tie_parameters(text: str, ties: Mapping[str, str], names: Collection[str]) -> str:
    """Return the text of a model with parameters tied to others, by definitions such as `b = 2*a` in front of it.

    Args:
        ties: the expressions by canonical names. Names and expressions may refer to levels.
        names: the columns of the data.

    Raises:
        ExpressionError: for a name that is not a parameter, and for an expression that reads a column.

    >>> tie_parameters("y ~ a*x + b", {"b": "2*a"}, ["x", "y"])
    'b = 2*a; y ~ a*x + b'
    >>> tie_parameters("y ~ a[g]*x", {"a[B]": "2*a[A]"}, ["x", "y", "g"])
    '`a[B]` = 2*`a[A]`; y ~ a[g]*x'
    """
    if not ties:
        return text
    program = read_with_parameters(text, (*names, *ties), model_column_names(text, names))
    leveled = check_levels(program, names)
    leaves = {*parameter_names(program, names)} - {*leveled}
    definitions = []
    for name, expression in ties.items():
        if name not in leaves and base_parameter(name, leveled) == name:
            raise UnknownNameError(f"the model has no parameter `{name}` to tie", suggestion=suggest(name, leaves))
        quoted = quote_unknown_levels(expression, leveled)
        expression_program = read(quoted, variables=[*leaves, *names])
        if expression_program.target is not None:
            raise ExpressionError(f"`{name}` is tied to an expression, without `~`", expression)
        column = next((leaf for leaf in expression_program.leaves if leaf in names), None)
        if column is not None:
            raise ExpressionError(f"`{name}` is tied to other parameters; `{column}` is a column", expression)
        definitions.append(f"{quote_name(name)} = {quoted}")
    return "; ".join([*definitions, text])


def standardize_layers(model: Model, scales: Mapping[str, tuple[float, float]]) -> str:
    """Return the text of a model with columns standardised where layers read them, and where a layer predicts them.

    Args:
        scales: the mean and the standard deviation of each column that is to be standardised.

    >>> model = Model.parse("y ~ mlp([x, z], [8], tanh)", ["x", "y", "z"])
    >>> standardize_layers(model, {"x": (1960.04, 35.04), "y": (-0.01, 0.003)})
    'y ~ -0.01 + 0.003*mlp([(x - 1960)/35, z], [8], tanh)'
    """
    lexemes, target = model.program.source.lexemes, model.program.target
    words, types = lexemes.words, lexemes.types
    edits: list[tuple[int, int, str]] = []
    for first, (word, following) in enumerate(zip(words, types[1:], strict=False), 2):
        if word not in LAYER_FUNCTIONS or following != "LPAR":
            continue
        last = first if words[first] != "[" else words.index("]", first)
        for k in range(first, last + 1):
            if words[k] in scales and words[k - 1] in "([," and words[k + 1] in "],":
                start, end = lexemes.start(k), lexemes.end(k)
                mean, deviation = _rounded_scale(*scales[words[k]])
                sign = "-" if mean >= 0 else "+"
                edits.append((start, end, f"({model.text[start:end]} {sign} {abs(mean):.15g})/{deviation:.15g}"))
    if target is not None and target.is_input and target.text in scales:
        prediction = words.index("~") + 1
        is_layer = words[prediction] in LAYER_FUNCTIONS
        if is_layer and re.fullmatch(r"\s*(\[\d+\])?\s*", model.text[lexemes.end(prediction) :]):
            mean, deviation = _rounded_scale(*scales[target.text])
            start = lexemes.start(prediction)
            edits.append((start, start, f"{mean:.15g} + {deviation:.15g}*"))
    text = model.text
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def other_networks(model: Model, values: Mapping[str, Any], classes: int | None) -> dict[str, Model]:
    """Return variants of a model with other hidden layers and activations in its `mlp`, by names such as `2 tanh`.

    They have 1 to 3 hidden layers of two units. The result is empty unless the model has exactly one `mlp` with free
    parameters.

    Args:
        values: the values of its other parameters, which have their shapes.
        classes: the number of classes, for a classification.
    """
    layer = model.program.layer_parameters.get("mlp.0.weight")
    if model.levels or layer is None or layer.activation is None:
        return {}
    networks = {}
    for activation in dict.fromkeys((layer.activation, "tanh", "relu", "sigmoid")):
        for count in range(1, _MAX_HIDDEN_LAYERS + 1):
            text = change_hidden_layers(model, [2] * count, activation)
            if text is None:
                return {}
            network = Model.parse(text, (*model.columns, *model.unused_columns), values)
            networks[f"{count} {activation}"] = network.resolve(values, classes)
    return networks


_MAX_HIDDEN_LAYERS = 3  # hidden layers that the page of a fit offers


def change_hidden_layers(model: Model, hidden: Sequence[int], activation: str) -> str | None:
    """Return the text of a model with other hidden layers in its `mlp`; None unless it has exactly one.

    >>> model = Model.parse("y ~ 2*mlp([x, z], [8], tanh)", ["x", "y", "z"])
    >>> change_hidden_layers(model, [4, 3], "relu")
    'y ~ 2*mlp([x, z], [4, 3], relu)'
    """
    lexemes = model.program.source.lexemes
    words = [*lexemes.words]
    if words.count("mlp") != 1 or "mlp." in model.text:
        return None
    start, end = words.index("mlp") + 2, 0
    depth, comma = 1, 0
    for end in range(start, len(words)):
        depth += int(words[end] in ("(", "[")) - int(words[end] in (")", "]"))
        comma = comma or (end if depth == 1 and words[end] == "," else 0)
        if depth == 0:
            break
    return f"{model.text[: lexemes.end(comma)]} {[*hidden]}, {activation}{model.text[lexemes.start(end) :]}"


def _rounded_scale(mean: float, deviation: float) -> tuple[float, float]:
    """Return a mean and a standard deviation with two digits of the standard deviation, which are easy to read."""
    decimals = 1 - math.floor(math.log10(deviation))
    return round(mean, decimals), round(deviation, decimals)


def _describe_shape(shape: Shape) -> str:
    return ("a number", f"a vector of {format_shape(shape)}", f"a matrix of {format_shape(shape)}")[len(shape)]


def constant_graph(value: Any) -> Node:
    """Return a number or an array as a graph of constants."""
    return stack(*map(constant_graph, value)) if np.ndim(value) else constant(float(value))


def _inferable_shapes(order: Sequence[Node], shapes: ShapeInference, unknown: Collection[str]) -> Any:
    """Yield names of unknown shape that are multiplied by something of known shape, with the shape that fits."""
    for node in order:
        if node.op not in (matmul, dot):
            continue
        for side in (0, 1):
            leaf = node.inputs[side]
            if leaf.is_input and leaf.text in unknown:
                shape = shapes.infer(node.inputs[1 - side])
                if shape:
                    yield leaf.text, shape if node.op is dot else (shape[0] if side == 0 else shape[-1],)
