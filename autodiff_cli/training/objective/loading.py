"""Loading the data of a fit: the rows that a model uses, in memory or streamed from files.

`LoadedData` reads the columns as a whole; `StreamedData` reads files in chunks at every pass, for data larger than
memory. Both encode classes and levels as numbers and end in `Rows`. `StreamedRows` builds the columns that kernels read
from each chunk by a `ColumnRecipe`. `SharedDataset` is read once for several models or groups.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.gradient_descent import SHUFFLE, epoch_orders, mean_loss
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.data.files import DataFile, FileCollection, open_data
from autodiff_cli.data.source import RESERVED_BYTES, available_memory
from autodiff_cli.data.streaming import Chunk, Rechunker, StreamedColumns, label_key, prefetch
from autodiff_cli.data.table import DataError, Dataset, MemoryDataset, Table, float_vector, label_array
from autodiff_cli.language.errors import UnknownNameError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import TextMatch
from autodiff_cli.limits import has_memory_limits
from autodiff_cli.numbers.conversion import as_label_array
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.kernels import LossGraphs, x_sigma_column
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.rows import (
    WEIGHT,
    ColumnArrays,
    EpochRun,
    MemoryRows,
    RowIndex,
    Rows,
    RowSelection,
    Task,
    row_numbers,
)

_BLOCK_LABELS = 65_536  # labels per step of `factorize`, which limits its memory


def load_with_labels(
    dataset: Dataset, wanted: Collection[str], labels: Sequence[str], drop_missing: bool
) -> tuple[Table, dict[str, NDArray[Any]]]:
    """Load columns of numbers, and several columns of labels: whole numbers or texts.

    Raises:
        DataError: see `Dataset.load`.
    """
    label_names = [*labels]
    # A column can be loaded as numbers and as labels, but not both at once.
    first = next((name for name in label_names if name not in wanted), None)
    tables: dict[str | None, Table] = {first: dataset.load(wanted, drop_missing=drop_missing, labels=first)}
    for other in label_names:
        if other != first:
            tables[other] = dataset.load((), drop_missing=drop_missing, labels=other)
    table = tables[first]
    if len(tables) == 1:
        return dataclasses.replace(table, labels=None), {} if first is None else {first: _table_labels(table)}
    masks = {name: _full_mask(one) if one.row_mask is None else one.row_mask for name, one in tables.items()}
    total = len(masks[first])
    for name, mask in masks.items():
        if len(mask) != total:
            raise DataError(f"the columns differ in length: `{name}` has {len(mask)}, others {total}")
    row_mask = np.logical_and.reduce([*masks.values()])
    if not row_mask.any():
        raise DataError("no row is left: every row has a missing cell")
    row_labels = {name: _table_labels(one)[row_mask[masks[name]]] for name, one in tables.items() if name is not None}
    columns = {name: values[row_mask[masks[first]]] for name, values in table.columns.items()}
    rows = int(np.count_nonzero(row_mask))
    return Table(
        columns, rows, table.dropped + table.rows - rows, row_mask=None if row_mask.all() else row_mask
    ), row_labels


def _full_mask(table: Table) -> NDArray[np.bool_]:
    return np.ones(table.rows, dtype=np.bool_)


def _table_labels(table: Table) -> NDArray[Any]:
    assert table.labels is not None
    return table.labels


def factorize(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the different labels, sorted, and the position of each row's label among them.

    >>> factorize(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    """
    codes = np.empty(len(labels), np.int32)
    blocks = [slice(start, start + _BLOCK_LABELS) for start in range(0, len(labels), _BLOCK_LABELS)]
    if labels.dtype != object:
        distinct = np.unique(np.concatenate([labels[:0], *(np.unique(labels[part]) for part in blocks)]))
        for part in blocks:
            codes[part] = np.searchsorted(distinct, labels[part])
        return distinct, codes
    texts = sorted({text for part in blocks for text in labels[part].tolist()})
    codes_by_text = {text: place for place, text in enumerate(texts)}
    for part in blocks:
        codes[part] = [codes_by_text[text] for text in labels[part].tolist()]
    return np.array(texts), codes


def distinct_levels(labels: NDArray[Any]) -> tuple[Any, ...]:
    """Return the different levels, sorted.

    >>> distinct_levels(np.array(["b", "a", "b"]))
    ('a', 'b')
    """
    return tuple(factorize(labels)[0].tolist())


def indicator_columns(matches: Mapping[str, TextMatch], labels: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Return the columns of 1 and 0 that indicate a level, by the names of their leaves.

    >>> indicator_columns({"m": TextMatch("group", "b")}, {"group": np.array(["b", "a"])})
    {'m': array([1., 0.])}
    """
    coded = {column: factorize(values.ravel()) for column, values in labels.items()}
    columns = {}
    for name, match in matches.items():
        levels, codes = coded[match.column]
        is_level = (levels.astype(str) == match.text).astype(np.float64)
        columns[name] = is_level[codes].reshape(labels[match.column].shape)
    return columns


def check_labels(values: ArrayLike, name: str, levels: Sequence[Any] | None) -> NDArray[Any]:
    """Return new labels, of any shape.

    Args:
        name: the name of their column.
        levels: the levels that a fit knows; None to allow any text.

    Raises:
        DataError: for a label that is missing, or not among the levels.
    """
    array = as_label_array(values)
    label_values, missing = label_array(array.ravel(), name)
    if missing.any():
        raise DataError(f"row {int(np.argmax(missing)) + 1}, column `{name}`: no label", missing=True)
    if levels is not None:
        unknown = ~np.isin(label_values.astype(str), [*map(str, levels)])
        if unknown.any():
            row = int(np.argmax(unknown))
            listed = format_names([*map(str, levels)], "`")
            raise DataError(
                f"row {row + 1}, column `{name}`: "
                f"the model was not fitted with the level `{label_values[row]}`, only with {listed}"
            )
    return label_values.reshape(array.shape)


Classes: TypeAlias = tuple[int, ...] | tuple[str, ...]

_MAX_CLASSES = 20  # with more classes than this, and more than half as many as rows, a column is hardly a class


def encode_labels(labels: NDArray[Any], name: str) -> tuple[Classes, Array]:
    """Return the different classes, sorted (integers by value, texts by characters), and the position of each label.

    Args:
        labels: one label per row, from `Dataset.load`.
        name: the name of their column.

    Raises:
        DataError: if there is only one class, or if there are so many that the column is hardly a class.
    """
    distinct, codes = factorize(labels)
    return check_classes(distinct, len(labels), name), codes.astype(np.float64)


def check_classes(distinct: NDArray[Any], rows: int, name: str) -> Classes:
    """Return the classes as a tuple. Raises DataError if there is only one class, or too many for so many rows."""
    classes = distinct.tolist()
    if len(classes) == 1:
        raise DataError(f"column `{name}` has only one class, {classes[0]}; a classification needs at least two")
    if len(classes) == rows or (len(classes) > _MAX_CLASSES and 2 * len(classes) > rows):
        raise DataError(f"column `{name}` has {len(classes)} different values in {rows} rows: it is hardly a class")
    return tuple(classes)


SIGMA = "sigma"
NO_POSITIVE_WEIGHT = "weights: all weights are 0"


Data: TypeAlias = "Mapping[str, ArrayLike] | Dataset | str | os.PathLike[str]"


def as_dataset(data: Data) -> Dataset:
    """Return the data if they are a Dataset, the file (folder, pattern) at a path, else the columns as a Dataset."""
    if isinstance(data, str | os.PathLike):
        return open_data([os.fspath(data)])
    return data if isinstance(data, Dataset) else MemoryDataset(data)


def check_parameter_names(given: Collection[str], model: Model) -> None:
    """Raise UnknownNameError if a value is given for a name that is not a parameter of the model."""
    for name in given:
        if name in model.columns:
            raise UnknownNameError(f"`{name}` is a column of the data; only parameters take a value")
        if not model.accepts(name):
            raise UnknownNameError(f"the model has no parameter `{name}`", suggestion=suggest(name, model.parameters))


def load_table(dataset: Dataset, model: Model, options: FitOptions) -> tuple[Table, dict[str, NDArray[Any]]]:
    """Load the columns that a model uses, with the weights in the column `WEIGHT`, and the labels of text columns.

    Raises:
        DataError: if the data or the weights cannot be used.
    """
    weightings = weighting_columns(dataset, options)
    classes = model.class_column
    wanted = {*model.numeric, *options.column_names} - {classes}
    labelled = [*dict.fromkeys([*([] if classes is None else [classes]), *model.label_columns])]
    table, labels = load_with_labels(dataset, wanted, labelled, options.drop_missing)
    weight_columns: dict[str, Array] = {}
    for words, (column, source) in weightings.items():
        values = float_vector(table.columns[source] if isinstance(source, str) else source, words)
        if len(values) != table.rows:
            raise DataError(f"{words}: {len(values)} values for {table.rows} rows")
        check_weights(words, values)
        weight_columns[column] = 1 / np.square(values) if words == SIGMA else values
    if WEIGHT in weight_columns and not weight_columns[WEIGHT].any():
        raise DataError(NO_POSITIVE_WEIGHT)
    return dataclasses.replace(table, columns={**table.columns, **weight_columns}), labels


def weighting_columns(dataset: Dataset, options: FitOptions) -> dict[str, tuple[str, ArrayLike | str]]:
    """Return the weights and errors that the options name.

    Returns:
        By their names in messages: the column in which kernels read them, and the column or array that holds them.

    Raises:
        DataError: for a column that does not exist.
    """
    weightings: dict[str, tuple[str, ArrayLike | str]] = {}
    if options.weights is not None:
        weightings["weights"] = WEIGHT, options.weights
    if options.sigma is not None:
        weightings[SIGMA] = WEIGHT, options.sigma
    weightings |= {f"x_sigma of {name}": (x_sigma_column(name), values) for name, values in options.x_errors.items()}
    for words, (_, source) in weightings.items():
        if isinstance(source, str) and source not in dataset.names:
            raise DataError(f"{words}: the data have no column `{source}` ({format_names(dataset.names)})")
    return weightings


def check_weights(words: str, values: Array, before: int = 0) -> None:
    """Raise DataError for a number that cannot be a weight or a standard deviation.

    Args:
        words: the name in messages.
        before: the number of rows before these.
    """
    is_sigma = words == SIGMA
    is_invalid = ~(values > 0) if is_sigma else ~(values >= 0)
    is_invalid |= np.isinf(values)
    if is_invalid.any():
        row = int(np.argmax(is_invalid))
        kind = "a weight" if words == "weights" else "a standard deviation"
        needed = f"{kind} must be positive" if is_sigma else f"{kind} cannot be negative"
        raise DataError(f"{words}: row {before + row + 1} has {values[row]}; {needed}")


class LoadedData:
    """The columns that a model uses, loaded into memory. See `load_table`, also for the exceptions.

    Attributes:
        rows: the number of rows.
        is_weighted: whether the rows have weights.
    """

    def __init__(self, dataset: Dataset, model: Model, options: FitOptions) -> None:
        self._table, self._labels = load_table(dataset, model, options)
        self.rows = self._table.rows
        self.is_weighted = WEIGHT in self._table.columns

    def encode_classes(self, name: str) -> Classes:
        """Replace the labels of a column by their positions among the classes, and return the classes.

        Raises DataError.
        """
        classes, codes = encode_labels(self._labels[name], name)
        self._add_columns({name: codes})
        return classes

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the different labels of a column, sorted."""
        return distinct_levels(self._labels[name])

    def add_indicators(self, matches: Mapping[str, TextMatch]) -> list[str]:
        """Add indicator columns by the names of their leaves; return the names of those that are 0 in all rows."""
        self._add_columns(indicator_columns(matches, self._labels))
        return [name for name in matches if not self._table.columns[name].any()]

    def build_rows(self, graphs: LossGraphs) -> Rows:
        """Return the rows, with the columns that the graphs read."""
        return MemoryRows(graphs.add_vectors(self._table))

    def _add_columns(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._table = dataclasses.replace(self._table, columns={**self._table.columns, **columns})


class SharedDataset:
    """A dataset of the rows that several models or fits have in common, read once.

    Args:
        models: the models whose columns are needed.
        more: a further column, of labels or numbers.

    Attributes:
        labels: the labels of each column that is read by them.

    Raises:
        DataError: see `Dataset.load`.
    """

    def __init__(self, dataset: Dataset, models: Sequence[Model], options: FitOptions, more: str | None = None) -> None:
        self.names = dataset.names
        classes = {model.class_column for model in models} - {None}
        read = [*classes, *(name for model in models for name in model.label_columns), more]
        columns = {name for model in models for name in model.numeric} | {
            canonical_name(name) for name in options.column_names
        }
        wanted = [name for name in dict.fromkeys(read) if name is not None]
        columns -= classes
        try:
            self._table, self.labels = load_with_labels(dataset, columns, wanted, options.drop_missing)
        except DataError as error:
            if more is None or more in classes or error.missing:
                raise
            self._load_numeric_groups(dataset, columns, [name for name in wanted if name != more], options, more, error)

    def _load_numeric_groups(
        self,
        dataset: Dataset,
        columns: set[str],
        labels: Sequence[str],
        options: FitOptions,
        more: str,
        error: DataError,
    ) -> None:
        """Load the data when the further column holds numbers that are not whole. Raises `error` if it does not."""
        try:
            self._table, self.labels = load_with_labels(dataset, columns | {more}, labels, options.drop_missing)
        except DataError:
            raise error from None
        self.labels[more] = self._table.columns[more]

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:  # noqa: ARG002
        """Return some of the columns that were read. See `Dataset.load`; missing cells were handled before."""
        columns = {name: values for name, values in self._table.columns.items() if name in wanted}
        named: NDArray[Any] | None = None if labels is None else self.labels[labels]
        return Table(columns, self._table.rows, self._table.dropped if labels is None else 0, named)


@dataclass(frozen=True, slots=True)
class ColumnRecipe:
    """A recipe to build the columns that kernels read from the columns of a chunk. It can be pickled.

    Attributes:
        numeric: the columns that are used as they are.
        weight: the column of weights, and whether it holds standard deviations instead.
        renamed: the names in the chunk, by the names that kernels read.
        encoded: by the name that kernels read, the column of labels and the value of each label code.
        vectors: the columns of each vector, by its name.
    """

    numeric: tuple[str, ...]
    weight: tuple[str, bool] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    encoded: Mapping[str, tuple[str, Array]] = field(default_factory=dict)
    vectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> Set[str]:
        """The columns that the recipe builds."""
        weight = set() if self.weight is None else {WEIGHT}
        return {*self.numeric, *weight, *self.renamed, *self.encoded, *self.vectors}

    def required_columns(self, wanted: Set[str]) -> set[str]:
        """Return the columns of a chunk that are needed for the wanted ones."""
        required = {name for name in self.numeric if name in wanted}
        for names in (self.vectors[name] for name in wanted & self.vectors.keys()):
            required |= self.required_columns({*names})
        required |= {self.renamed[name] for name in wanted & self.renamed.keys()}
        required |= {label_key(self.encoded[name][0]) for name in wanted & self.encoded.keys()}
        return required | ({self.weight[0]} if self.weight is not None and WEIGHT in wanted else set())

    def build(self, columns: ColumnArrays, wanted: Set[str]) -> dict[str, NDArray[Any]]:
        """Return the wanted columns of some rows."""
        built: dict[str, NDArray[Any]] = {name: columns[name] for name in wanted & {*self.numeric}}
        for name in wanted & self.renamed.keys():
            built[name] = columns[self.renamed[name]]
        for name in wanted & self.encoded.keys():
            label_column, values = self.encoded[name]
            built[name] = values[columns[label_key(label_column)].astype(np.intp)]
        for name in wanted & self.vectors.keys():
            vector_columns = self.build(columns, {*self.vectors[name]})
            built[name] = np.stack([vector_columns[part] for part in self.vectors[name]])
        if self.weight is not None and WEIGHT in wanted:
            name, is_sigma = self.weight
            built[WEIGHT] = 1 / np.square(columns[name]) if is_sigma else columns[name]
        return built


T = TypeVar("T")


class StreamedRows:
    """Rows that are read in chunks at every pass. Implements `Rows`.

    Args:
        columns: the source of the chunks.
        recipe: how the columns are built.
        chosen: the selection among the rows; all rows by default.
    """

    def __init__(self, columns: StreamedColumns, recipe: ColumnRecipe, chosen: RowSelection | None = None) -> None:
        self._columns = columns
        self._recipe = recipe
        self._in_memory: MemoryRows | None = None  # all of few rows, for mini-batches
        self.names = recipe.names
        self._selection = chosen
        self.rows = columns.rows if chosen is None else chosen.rows
        self.dropped = columns.dropped

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """Return the combined results of a task for all chunks."""
        with contextlib.closing(self._results(task)) as results:
            return fold(results, combine)

    def _results(self, task: Task[T]) -> Generator[T]:
        wanted = task.names & self.names
        with contextlib.closing(self._chunks(self._recipe.required_columns(wanted))) as chunks:
            for columns, rows in chunks:
                chunk_columns = (
                    columns if rows == self._columns.chunk else {n: values[:rows] for n, values in columns.items()}
                )
                yield task(self._recipe.build(chunk_columns, wanted), rows)

    def _chunks(self, names: Set[str]) -> Generator[Chunk]:
        """Yield the columns of the selected rows, chunk by chunk."""
        if not names:  # a task that reads no column is still computed for all rows
            yield from (({}, part.stop - part.start) for part in block_slices(self.rows, self._columns.chunk))
            return
        with contextlib.closing(self._columns.iter_chunks(names)) as chunks:
            if self._selection is None:
                yield from chunks
                return
            size = self._columns.chunk
            rechunker = Rechunker([{name: np.empty(size) for name in names}], size)
            for number, (columns, rows) in enumerate(chunks):
                selected = self._selection.chunk_rows(number) - number * size
                selected_columns = {name: values[:rows][selected] for name, values in columns.items()}
                for space in rechunker.add(selected_columns, len(selected)):
                    yield space, size
            rest, count = rechunker.remainder()
            if count:
                yield rest, count

    def select_rows(self, rows: RowIndex) -> MemoryRows | StreamedRows:
        """Return some of the rows: streamed again if a mask selects them, else in memory."""
        if self._selection is None and not isinstance(rows, slice) and rows.dtype == np.bool_:
            mask = np.asarray(rows, dtype=np.bool_)
            return StreamedRows(self._columns, self._recipe, RowSelection(mask, self._columns.chunk))
        return self._load_rows(rows)

    def _load_rows(self, rows: RowIndex) -> MemoryRows:
        numbers = row_numbers(rows, self.rows)
        return MemoryRows(Table(self._gather_columns(numbers), len(numbers), self.dropped))

    def run_epoch(self, epoch: EpochRun) -> float:
        """Run an epoch over the rows and return the mean loss of the batches."""
        if epoch.batch_rows >= self.rows or self.rows <= SHUFFLE.max_full_shuffle_rows:  # few rows, or full batches
            self._in_memory = self._in_memory or self._load_rows(slice(None))
            return self._in_memory.run_epoch(epoch)
        parts = epoch_orders(epoch.generator, self.rows, epoch.batch_rows, self._columns.chunk)
        losses: list[float] = []
        done = 0
        with contextlib.closing(
            prefetch((self._gather_columns(part), len(part)) for part in parts if part is not None)
        ) as drawn:
            for columns, rows in drawn:
                mean = epoch.run(columns, losses=losses)
                done += rows
                if epoch.on_progress is not None and done < self.rows:
                    epoch.on_progress(done / self.rows, mean)
        return mean_loss(losses)

    def _gather_columns(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the rows with these numbers."""
        numbers = numbers if self._selection is None else self._selection.row_numbers(numbers)
        return self._recipe.build(self._columns.gather(numbers, self._recipe.required_columns(self.names)), self.names)

    def to_table(self) -> Table:
        """Return all rows in memory."""
        return self._load_rows(slice(None)).to_table()


_MIN_STREAMED_BYTES = 64 << 20  # smaller data are never streamed unless the user asks for it
_NUMBER_BYTES, _LABEL_BYTES = 8, 64  # estimated memory of one number and one label
_MEMORY_DIVISOR = 2  # columns may take the reciprocal of this, one half, of the available memory


class StreamedData:
    """The columns that a model uses, streamed from files at every pass. See `LoadedData` for the methods.

    Args:
        why: the reason for streaming, in words.

    Raises:
        DataError: see `StreamedColumns`.
        OptionError: if weights or errors are arrays in memory.
    """

    def __init__(self, files: DataFile | FileCollection, model: Model, options: FitOptions, why: str) -> None:
        self._weight: tuple[str, bool] | None = None
        self._renamed: dict[str, str] = {}
        self._weight_columns: dict[str, str] = {}
        for words, (column, source) in weighting_columns(files, options).items():
            if not isinstance(source, str):
                raise OptionError(f"{words}: streamed rows need the name of a column, not an array")
            self._weight_columns[words] = source
            if column == WEIGHT:
                self._weight = source, words == SIGMA
            else:
                self._renamed[column] = source
        classes = model.class_column
        self._numeric = sorted({*model.numeric, *options.column_names} - {classes})
        texts = [*dict.fromkeys([*([] if classes is None else [classes]), *model.label_columns])]
        self._has_weight = False
        self._columns = StreamedColumns(
            files,
            self._numeric,
            texts,
            why,
            options.drop_missing,
            random_access=options.batch_size is not None,
            inspect=self._check_chunk_weights if options.column_names else None,
            on_progress=files.on_progress,
        )
        files.streamed = self._columns
        if self._weight is not None and not self._has_weight:
            raise DataError(NO_POSITIVE_WEIGHT)
        self._encoded: dict[str, tuple[str, NDArray[np.float64]]] = {}
        self.rows = self._columns.rows
        self.is_weighted = self._weight is not None

    def encode_classes(self, name: str) -> Classes:
        """Use the positions of labels among the classes for a column, and return the classes. Raises DataError."""
        distinct, positions = np.unique(self._columns.labels[name].labels, return_inverse=True)
        classes = check_classes(distinct, self.rows, name)
        self._encoded[name] = name, positions.astype(np.float64)
        return classes

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the different labels of a column, sorted."""
        return distinct_levels(self._columns.labels[name].labels)

    def add_indicators(self, matches: Mapping[str, TextMatch]) -> list[str]:
        """Add indicator columns by the names of their leaves; return the names of those that are 0 in all rows."""
        for name, match in matches.items():
            texts = self._columns.labels[match.column].labels.astype(str)
            self._encoded[name] = match.column, (texts == match.text).astype(np.float64)
        return [name for name in matches if not self._encoded[name][1].any()]

    def build_rows(self, graphs: LossGraphs) -> StreamedRows:
        """Return the rows, with the columns that the graphs read."""
        recipe = ColumnRecipe(tuple(self._numeric), self._weight, self._renamed, self._encoded, graphs.vectors)
        return StreamedRows(self._columns, recipe)

    def _check_chunk_weights(self, columns: Mapping[str, NDArray[Any]], before: int) -> None:
        """Check the weights and errors of a chunk."""
        for words, name in self._weight_columns.items():
            check_weights(words, columns[name], before)
        if self._weight is not None and not self._has_weight:
            self._has_weight = bool(columns[self._weight[0]].any())


def streaming_reason(dataset: DataFile | FileCollection, model: Model, options: FitOptions) -> str | None:
    """Return why the rows of a fit do not fit into memory, in words; None if they do."""
    numbers = len({*model.numeric, *options.column_names})
    return memory_shortage(dataset, numbers, len({*model.label_columns, model.class_column} - {None}))


def memory_shortage(dataset: DataFile | FileCollection, numbers: int, labels: int) -> str | None:
    """Return why so many columns of numbers and labels do not fit into memory, in words; None if they do."""
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
