"""Loading the data of a fit: the rows that a model uses, in memory or streamed from files.

`FitData` has the columns that a model uses, and encodes classes and levels as numbers. `LoadedData` reads them as a
whole; `StreamedData` reads files in chunks at every pass, for data larger than memory. A `ColumnRecipe` builds the
columns that kernels read, of all rows or of a chunk. `SharedDataset` is read once for several models.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import itertools
import operator
import os
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from autodiff_cli.array_types import Array, as_label_array, ignore_float_errors
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.batches import LabelColumn
from autodiff_cli.data.dialect import DataError, label_text
from autodiff_cli.data.files import DataSource, open_data
from autodiff_cli.data.source import RESERVED_BYTES, available_memory
from autodiff_cli.data.streaming import StreamedColumns, label_key
from autodiff_cli.data.table import Dataset, MemoryDataset, Table, numeric_vector
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.tape import ShapeInference, leaf_names
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name, quote_name
from autodiff_cli.language.names import TextMatch
from autodiff_cli.language.program import read_for_floats
from autodiff_cli.ops.functions import exp, log
from autodiff_cli.ops.structural import stack
from autodiff_cli.options import OptionError, convert_plain_value
from autodiff_cli.system import has_memory_limits
from autodiff_cli.training.objective.kernels import LossGraphs, target_scale_column, x_sigma_column
from autodiff_cli.training.objective.model import Model, check_model_type
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.rows import (
    GROUP,
    WEIGHT,
    ChunkedRows,
    ColumnArrays,
    ColumnTask,
    MemoryRows,
    Rows,
    Selection,
    add_selection,
    concatenate_rows,
    numbers_in_data,
)


def distinct_levels(labels: NDArray[Any]) -> tuple[Any, ...]:
    """Return the different levels, sorted.

    >>> distinct_levels(np.array(["b", "a", "b"]))
    ('a', 'b')
    """
    return tuple(np.unique(labels).tolist())


def indicator_columns(
    matches: Mapping[str, TextMatch], labels: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]
) -> dict[str, Array]:
    """Return the columns of 1 and 0 that indicate a level, by the names of their leaves.

    Args:
        labels: for each column, the codes of the rows and the level of each code; see `check_labels`.

    >>> indicator_columns({"m": TextMatch("group", "b")}, {"group": (np.array([0, 1]), np.array(["b", "a"]))})
    {'m': array([1., 0.])}
    """
    rows = ((name, match, *labels[match.column]) for name, match in matches.items())
    return {name: _is_level(levels, match)[codes] for name, match, codes, levels in rows}


def _is_level(levels: NDArray[Any], match: TextMatch) -> Array:
    """Return 1 for each level that a text compares equal to, as text or as a number, otherwise 0."""
    texts = [label_text(match.text)]
    if levels.dtype.kind != "U":
        texts = [*map(str, LabelColumn(np.zeros(1, np.int32), texts).parsed(levels.tolist()).values)]
    is_level: Array = (levels.astype(str) == texts).astype(np.float64)
    return is_level


def check_labels(
    values: ArrayLike, name: str, levels: Sequence[Any] | None
) -> tuple[NDArray[np.integer[Any]], NDArray[Any]]:
    """Return new labels, of any shape, as codes and the label of each code.

    Args:
        name: the name of their column.
        levels: the levels that a fit knows; None to allow any text.

    Raises:
        DataError: for a label that is missing, or not among the levels.
    """
    array = as_label_array(values)
    labels = LabelColumn.of(array.ravel())
    if levels is not None:
        labels = labels.parsed(levels)
    if len(labels.codes) and labels.codes.min() < 0:
        raise DataError(f"row {int(np.argmin(labels.codes)) + 1}, column `{name}`: no label", missing=True)
    new_levels = labels.levels(name)
    if levels is not None:
        is_unknown = ~np.isin(new_levels.astype(str), [*map(str, levels)])[labels.codes]
        if is_unknown.any():
            unknown, listed = new_levels[labels.codes[np.argmax(is_unknown)]], format_names([*map(str, levels)], "`")
            raise DataError(f"column `{name}`: the model was not fitted with the level `{unknown}`, only with {listed}")
    return labels.codes.reshape(array.shape), new_levels


Classes: TypeAlias = tuple[int, ...] | tuple[str, ...]

_MAX_CLASSES = 20  # classes; with more, and more than half as many as rows, a column is hardly a class


def check_classes(distinct: NDArray[Any], rows: int, name: str) -> Classes:
    """Return the classes as a tuple. Raises DataError if there is only one class, or too many for so many rows."""
    classes = distinct.tolist()
    if len(classes) == 1:
        raise DataError(f"column `{name}` has only one class, {classes[0]}; a classification needs at least two")
    if len(classes) == rows or (len(classes) > _MAX_CLASSES and 2 * len(classes) > rows):
        raise DataError(f"column `{name}` has {len(classes)} different values in {rows} rows: it is hardly a class")
    return tuple(classes)


Data: TypeAlias = "Mapping[str, ArrayLike] | Dataset | str | os.PathLike[str]"


def as_dataset(data: Data, models: Iterable[Any] = ()) -> Dataset:
    """Return data as a Dataset: a Dataset itself, the file, folder or pattern at a path, or columns in memory.

    Raises TypeError if one of the models for it is not a model, as when both are exchanged.
    """
    for model in models:
        check_model_type(model)
    if isinstance(data, str | os.PathLike):
        return open_data([os.fspath(data)])
    return data if isinstance(data, Dataset) else MemoryDataset(data)


def check_parameter_names(user_names: Collection[str], model: Model) -> None:
    """Raise UnknownNameError if a value is given for a name that is not a parameter of the model."""
    for name in user_names:
        if name in model.columns:
            raise UnknownNameError(f"`{name}` is a column of the data; only parameters take a value")
        if not model.accepts(name):
            raise UnknownNameError(f"the model has no parameter `{name}`", suggestion=suggest(name, model.parameters))


_MIN_SIGMA, _MAX_SIGMA = 1e-154, 1e154  # the weight 1/sigma² is infinite or 0 outside of this range


@dataclass(frozen=True, slots=True)
class Weighting:
    """Weights or standard deviations that the options name.

    Attributes:
        words: their name in messages.
        graph: their value in a row, as an expression of columns.
        values: their values, if they are an array that is not in the data; its leaf has a name that no column has.
        is_sigma: whether these are standard deviations of the target, from which weights are computed.
    """

    words: str
    graph: Node
    values: ArrayLike | None
    is_sigma: bool

    def evaluate(self, columns: ColumnArrays, rows: int) -> Array:
        """Return the values in some rows. Their bits do not depend on the number of rows."""
        if self.graph.is_input:
            return np.asarray(columns[self.graph.text], np.float64)
        values = evaluate([self.graph], {name: columns[name] for name in leaf_names([self.graph])}, backend="numpy")[0]
        return np.ascontiguousarray(np.broadcast_to(values, (rows,)))

    def check(self, values: Array, selections: tuple[Selection, ...] | None = (), before: int = 0) -> None:
        """Raise DataError for a number that cannot be a weight or a standard deviation.

        Args:
            selections: how these rows were selected among the rows of the data; None if that is not known.
            before: the number of selected rows before these.
        """
        kind, end = ("a weight", np.inf) if self.words == "weights" else ("a standard deviation", _MAX_SIGMA)
        is_valid = ((values > _MIN_SIGMA) if self.is_sigma else (values >= 0)) & (values < end)
        if not is_valid.all():
            row = int(np.argmin(is_valid))
            number = numbers_in_data(selections, np.array([before + row]))
            place = "a row" if number is None else f"row {number[0] + 1}"
            needed = f"must be positive, above {_MIN_SIGMA}" if self.is_sigma else "cannot be negative"
            needed = f"must be below {end}" if values[row] >= end else needed
            raise DataError(f"{self.words}: {place} has {values[row]}; {kind} {needed}")


def weighting_graph(source: ArrayLike | str, words: str, names: Collection[str]) -> Node:
    """Return weights or standard deviations as a graph over columns.

    They are a column, an expression such as `sqrt(n)`, a number, or an array. An array becomes a leaf with a name that
    no column has.

    Raises:
        DataError: for text that is not an expression of columns, or has an array as its value.
    """
    if not isinstance(source, str):
        name = f"{words} is a column, an expression or an array, or"
        return variable(f"\2{words}") if np.ndim(source) else constant(convert_plain_value(source, float, name))
    if canonical_name(source) in names:
        return variable(canonical_name(source))
    try:
        program = read_for_floats(source, names)
    except ExpressionError as error:
        raise DataError(f"{words}: {error}") from None
    unknown = next((name for name in program.leaves if name not in names), None)
    if unknown is not None or program.target is not None:
        raise DataError(f"{words}: the data have no column `{unknown or source}` ({format_names(names)})")
    output = program.output
    parts = output.inputs if output.op is stack and words == "sigma" else (output,)
    if program.shapes or program.arrays or any(map(ShapeInference({}).infer, parts)):
        raise DataError(f"{words}: `{source}` must be a single number in each row")
    return output


def find_weightings(names: Collection[str], options: FitOptions) -> dict[str, Weighting]:
    """Return the weights and errors that the options name, by the columns in which kernels read them.

    A vector `[s1, s2]` has an error for each target. Their geometric mean gives the weight of a row. Additional columns
    contain the ratio of this mean to the error of each target.

    Args:
        names: the columns of the data.

    Raises:
        DataError: for a column that does not exist.
    """
    sources = {"weights": (WEIGHT, options.weights), "sigma": (WEIGHT, options.sigma)}
    sources |= {f"x_sigma of {name}": (x_sigma_column(name), values) for name, values in options.x_errors.items()}
    weightings = {}
    for words, (column, source) in sources.items():
        if source is None:
            continue
        graph, is_sigma = weighting_graph(source, words, names), words == "sigma"
        if graph.op is stack and is_sigma:
            sigmas = graph.inputs
            graph = exp(functools.reduce(operator.add, map(log, sigmas)) / len(sigmas))
            for k, sigma in enumerate(sigmas):
                weightings[target_scale_column(k)] = Weighting(words, graph / sigma, None, False)
        weightings[column] = Weighting(words, graph, source if np.ndim(source) else None, is_sigma)
    return weightings


def weighting_columns(names: Collection[str], options: FitOptions) -> set[str]:
    """Return the columns of the data that weights and errors read. Raises DataError as `find_weightings` does."""
    return {*leaf_names([weighting.graph for weighting in find_weightings(names, options).values()])} & {*names}


@dataclass(frozen=True, slots=True)
class ColumnRecipe:
    """A recipe to build the columns that kernels read from the columns of the data. It can be pickled.

    Attributes:
        sources: the columns of the data that are used as they are.
        weightings: the weights and errors, each computed from columns of the data.
        encoded: by the name that kernels read, the column of labels and the value of each label code.
        vectors: the columns of each vector, by its name.
    """

    sources: Set[str]
    weightings: Mapping[str, Weighting]
    encoded: Mapping[str, tuple[str, NDArray[Any]]]
    vectors: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> Set[str]:
        """The columns that the recipe builds."""
        return {*self.sources, *self.weightings, *self.encoded, *self.vectors}

    def _with_components(self, names: Set[str]) -> set[str]:
        """Return names of columns, and names of the components of columns that are vectors."""
        return {*names, *itertools.chain(*(self.vectors[name] for name in names & self.vectors.keys()))}

    def required_columns(self, names: Set[str]) -> set[str]:
        """Return the columns of the data that are needed for those with these names."""
        names = self._with_components(names)
        required = names & self.sources
        for name in names & self.weightings.keys():
            required |= {*leaf_names([self.weightings[name].graph])}
        return required | {label_key(self.encoded[name][0]) for name in names & self.encoded.keys()}

    def build(self, columns: ColumnArrays, names: Set[str], rows: int) -> dict[str, NDArray[Any]]:
        """Return some columns of some rows, and the components of vectors as views of these."""
        single = self._with_components(names)
        built: dict[str, NDArray[Any]] = {name: columns[name] for name in single & self.sources}
        for name in single & self.encoded.keys():
            label_column, values = self.encoded[name]
            built[name] = values[columns[label_key(label_column)].astype(np.intp, copy=False)]
        for name in single & self.weightings.keys():
            values = self.weightings[name].evaluate(columns, rows)
            with ignore_float_errors():
                built[name] = 1 / np.square(values) if self.weightings[name].is_sigma else values
        for name in names & self.vectors.keys():
            vectors = built[name] = np.stack([built[part] for part in self.vectors[name]])
            built.update(zip(self.vectors[name], vectors, strict=True))
        return built


class FitData(abc.ABC):
    """The columns that a model uses, before they become `Rows`: in memory, streamed, or on a cluster.

    Attributes:
        rows: the number of rows.
        selections: how these rows, and then those of them with a weight, were selected among the rows of the data, each
            with the number of rows before; None if that is not known.
        labels: for each column of labels, the label of each code. Several codes may have the same label.
        is_weighted: whether the rows have weights.
        target_scales: see `LossGraphs`.
    """

    rows: int
    selections: tuple[Selection, ...] | None
    labels: Mapping[str, NDArray[Any]]

    def __init__(self, dataset: Dataset, model: Model, options: FitOptions) -> None:
        self.weightings = find_weightings(dataset.names, options)
        self.is_weighted = WEIGHT in self.weightings
        scales = [target_scale_column(k) for k in range(len(self.weightings))]
        self.target_scales = tuple(filter(self.weightings.__contains__, scales))
        self.numeric = sorted({*model.numeric, *weighting_columns(dataset.names, options)} - {model.class_column})
        self._levels = [*filter(None, (model.class_column, *model.label_columns))]
        self.label_names = [*dict.fromkeys([*self._levels, *filter(None, [model.group_column])])]
        self._encoded: dict[str, tuple[str, NDArray[Any]]] = {}

    @abc.abstractmethod
    def rows_by(self, recipe: ColumnRecipe) -> Rows:
        """Return the rows, with columns that are built by a recipe."""

    def _labels_by_code(self, columns: Mapping[str, LabelColumn]) -> dict[str, NDArray[Any]]:
        """Return the label of each code of columns. Labels of groups may also be numbers with a fraction."""
        return {name: column.levels(name, are_whole=name in self._levels) for name, column in columns.items()}

    def encode(self, leaf: str, column: str, kind: DTypeLike = np.float64) -> NDArray[Any]:
        """Add a column with the position of each row's label among the different labels, which are returned sorted."""
        labels = self.labels if leaf == GROUP else self._used_labels
        distinct, positions = np.unique(labels[column], return_inverse=True)
        self._encoded[leaf] = column, positions.astype(kind)
        return distinct

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the different labels of a column, sorted."""
        return distinct_levels(self._used_labels[name])

    def add_indicators(self, matches: Mapping[str, TextMatch]) -> list[str]:
        """Add indicator columns by the names of their leaves; return the names of those that are 0 in all rows."""
        for name, match in matches.items():
            self._encoded[name] = match.column, _is_level(self._used_labels[match.column], match)
        return [name for name in matches if not self._encoded[name][1].any()]

    @functools.cached_property
    def _used_labels(self) -> Mapping[str, NDArray[Any]]:
        """The label of each code. Codes that only rows of weight 0 have stand for the label of another code."""
        if not self.is_weighted:
            return self.labels
        labels, codes = {}, {name: (name, np.arange(len(self.labels[name]))) for name in self._levels}
        rows = self.rows_by(ColumnRecipe(set(), self.weightings, codes, {}))
        for name, (_, numbers) in codes.items():
            task = ColumnTask(frozenset({name, WEIGHT}), functools.partial(_weighted_codes, name), np.union1d)
            used, own = rows.fold(task), self.labels[name]
            labels[name] = np.where(np.isin(numbers, used), own, own[used[0]]) if len(used) else own
        return labels

    def build_rows(self, graphs: LossGraphs) -> Rows:
        """Return the rows with a weight other than 0, with the columns that the graphs read.

        Raises:
            DataError: if all weights are 0.
        """
        rows = self.rows_by(ColumnRecipe({*self.numeric}, self.weightings, self._encoded, graphs.vectors))
        if not self.is_weighted:
            return rows
        has_weight = rows.fold(ColumnTask(frozenset({WEIGHT}), _has_weight, concatenate_rows))
        if not has_weight.any():
            raise DataError(NO_WEIGHT)
        if has_weight.all():
            return rows
        self.selections = add_selection(self.selections, has_weight, rows.rows)
        return rows.select_rows(has_weight)


NO_WEIGHT = "weights: all weights are 0"


def _has_weight(columns: ColumnArrays) -> NDArray[np.bool_]:
    return np.asarray(columns[WEIGHT] != 0)


def _weighted_codes(name: str, columns: ColumnArrays) -> NDArray[np.integer[Any]]:
    return np.unique(columns[name][_has_weight(columns)])


@contextlib.contextmanager
def _explain_text_columns(models: Sequence[Model]) -> Generator[None]:
    """Add a suggestion to the error of a column of text that a model uses as numbers."""
    try:
        yield
    except DataError as error:
        programs = [model.program for model in models]
        predictors = {*leaf_names([program.output for program in programs])}
        targets = {*leaf_names([program.target for program in programs if program.target is not None])}
        columns = ", ".join(quote_name(name) for name in models[0].columns if name in predictors)
        hints = []
        for name, text in error.text_columns.items():
            if name in predictors:
                levels = f"write `b[{name}]` for a parameter with a value for each label of `{name}`"
                hints.append(f"{levels}, or compare: `{name} == '{text}'`")
            if name in targets:
                hints.append(f"for the probability of a label, compare: `{quote_name(name)} == '{text}' ~ sigmoid(…)`")
                hints.append(f"for a classifier, write `{quote_name(name)} ~ softmax(mlp([{columns}], [8]))`")
        if not hints:
            raise
        raise DataError("\n".join([str(error), *hints]), text_columns=error.text_columns) from None


class LoadedData(FitData):
    """The columns that a model uses, loaded into memory.

    Raises:
        DataError: if the data or the weights cannot be used.
    """

    def __init__(self, dataset: Dataset, model: Model, options: FitOptions) -> None:
        super().__init__(dataset, model, options)
        with _explain_text_columns([model]):
            table = dataset.load(self.numeric, drop_missing=options.drop_missing, labels=self.label_names)
        self._columns: dict[str, NDArray[Any]] = dict(table.columns)
        self.labels = self._labels_by_code(table.labels)
        self._columns |= {label_key(name): column.codes for name, column in table.labels.items()}
        self.rows, self._dropped = table.rows, table.dropped
        self.selections = () if table.row_mask is None else ((table.row_mask, len(table.row_mask)),)
        for weighting in self.weightings.values():
            if weighting.values is not None:
                values = numeric_vector(weighting.values, weighting.words).astype(np.float64, copy=False)
                if table.row_mask is not None and len(values) == len(table.row_mask):
                    values = values[table.row_mask]
                if len(values) != self.rows:
                    raise DataError(f"{weighting.words}: {len(values)} values for {self.rows} rows")
                self._columns[weighting.graph.text] = values
            weighting.check(weighting.evaluate(self._columns, self.rows), self.selections)

    def rows_by(self, recipe: ColumnRecipe) -> Rows:
        """Return the rows, with columns that are built by a recipe."""
        return MemoryRows(Table(recipe.build(self._columns, recipe.names, self.rows), self.rows, self._dropped))


class SharedDataset:
    """A dataset of the rows that several models have in common, read once.

    Args:
        models: the models whose columns are needed.

    Attributes:
        names, origins: see `Dataset`.

    Raises:
        DataError: see `Dataset.load`.
    """

    def __init__(self, dataset: Dataset, models: Sequence[Model], options: FitOptions) -> None:
        self.names = dataset.names
        classes = {model.class_column for model in models}
        labels = dict.fromkeys(filter(None, [*classes, *(name for model in models for name in model.label_columns)]))
        numbers = {name for model in models for name in model.numeric}
        numbers |= weighting_columns(dataset.names, options)
        with _explain_text_columns(models):
            self._table = dataset.load(numbers - classes, drop_missing=options.drop_missing, labels=[*labels])
        self.origins = dataset.origins

    def load(self, names: Collection[str], *, drop_missing: bool = False, labels: Collection[str] = ()) -> Table:  # noqa: ARG002
        """Return some of the columns that were read. See `Dataset.load`; missing cells were handled before."""
        return dataclasses.replace(
            self._table,
            columns={name: values for name, values in self._table.columns.items() if name in names},
            labels={name: self._table.labels[name] for name in labels},
        )


class StreamedRows(ChunkedRows):
    """Rows that are read in chunks at every pass.

    Args:
        columns: the source of the chunks.
        recipe: how the columns are built.
    """

    def __init__(self, columns: StreamedColumns, recipe: ColumnRecipe) -> None:
        self._columns = columns
        self._recipe = recipe
        self.rows, self.names, self.dropped = columns.rows, recipe.names, columns.dropped
        self.chunk_rows = self.gathered_rows = columns.chunk

    def iter_chunks(self, names: Set[str]) -> Generator[tuple[ColumnArrays, int]]:
        """Yield columns of all rows, chunk by chunk."""
        with contextlib.closing(self._columns.iter_chunks(self._recipe.required_columns(names))) as chunks:
            for columns, rows in chunks:
                yield self._recipe.build(columns, names, rows), rows

    def gather(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the rows with these numbers."""
        columns = self._columns.gather(numbers, self._recipe.required_columns(self.names))
        return self._recipe.build(columns, self.names, len(numbers))


_MIN_STREAMED_BYTES = 8 << 20  # smaller data are never streamed unless the user asks for it
_NUMBER_BYTES, _LABEL_BYTES = 8, 64  # estimated memory of one number and one label
_MEMORY_DIVISOR = 2  # columns may take the reciprocal of this, one half, of the available memory


class StreamedData(FitData):
    """The columns that a model uses, streamed from files at every pass.

    Args:
        why: the reason for streaming, in words.

    Raises:
        DataError: see `StreamedColumns`.
        OptionError: if weights or errors are arrays in memory.
    """

    def __init__(self, files: DataSource, model: Model, options: FitOptions, why: str) -> None:
        super().__init__(files, model, options)
        for weighting in self.weightings.values():
            if weighting.values is not None:
                raise OptionError(f"{weighting.words}: streamed rows need a column or an expression, not an array")
        # Only the end of the first pass, which checks the weights, shows whether a cell is missing.
        self.selections = None if files.is_filtered or options.drop_missing else ()
        with _explain_text_columns([model]):
            self._columns = files.streamed = StreamedColumns(
                files,
                self.numeric,
                self.label_names,
                why,
                options.drop_missing,
                random_access=options.batch_size is not None,
                inspect=self._check_weights,
                on_progress=files.on_progress,
            )
        self.rows = self._columns.rows
        self.selections = None if files.is_filtered or self._columns.dropped else ()
        self.labels = self._labels_by_code(self._columns.labels)

    def rows_by(self, recipe: ColumnRecipe) -> Rows:
        """Return the rows, with columns that are built by a recipe."""
        return StreamedRows(self._columns, recipe)

    def _check_weights(self, columns: Mapping[str, Array], before: int) -> None:
        """Check the weights and errors of a chunk, given the number of rows before it."""
        for weighting in self.weightings.values():
            weighting.check(weighting.evaluate(columns, len(next(iter(columns.values())))), self.selections, before)


def streaming_reason(dataset: DataSource, model: Model, options: FitOptions) -> str | None:
    """Return why the rows of a fit do not fit into memory, in words; None if they do."""
    numbers = len({*model.numeric, *weighting_columns(dataset.names, options)})
    labels = {*model.label_columns, model.class_column, model.group_column} - {None}
    return memory_shortage(dataset, numbers, len(labels))


def memory_shortage(dataset: DataSource, numbers: int, labels: int) -> str | None:
    """Return why these numbers of columns do not fit into memory, in words; None if they do."""
    required_bytes = dataset.estimate_rows() * (_NUMBER_BYTES * numbers + _LABEL_BYTES * labels)
    if required_bytes < _MIN_STREAMED_BYTES:
        return None
    available_bytes = available_memory()
    if available_bytes is not None and has_memory_limits():
        available_bytes = max(0, available_bytes - RESERVED_BYTES)
    if available_bytes is None or required_bytes * _MEMORY_DIVISOR <= available_bytes:
        return None
    required, available = _format_bytes(required_bytes), _format_bytes(available_bytes)
    return f"their columns take about {required}, more than half of the available memory ({available})"


def _format_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"
