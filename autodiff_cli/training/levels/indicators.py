"""The rows of columns that are no numbers: read, and as columns of 1 and 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.table import DataError, Dataset, Table, as_labels
from autodiff_cli.language.columns import Match
from autodiff_cli.language.errors import in_brief
from autodiff_cli.numbers.given import given_labels

Array = NDArray[np.float64]

_BLOCK = 65_536  # labels that are looked at together


def load_with_labels(
    dataset: Dataset, wanted: Collection[str], labels: Sequence[str], drop_missing: bool
) -> tuple[Table, dict[str, NDArray[Any]]]:
    """Columns of numbers, and several of labels: whole numbers or texts.

    Raises:
        DataError: as `Dataset.load`.
    """
    waiting = [*labels]
    # A column can be loaded as numbers and as labels, but not both at once.
    first = next((name for name in waiting if name not in wanted), None)
    tables: dict[str | None, Table] = {first: dataset.load(wanted, drop_missing=drop_missing, labels=first)}
    for other in waiting:
        if other != first:
            tables[other] = dataset.load((), drop_missing=drop_missing, labels=other)
    table = tables[first]
    if len(tables) == 1:
        return dataclasses.replace(table, labels=None), {} if first is None else {first: _labels(table)}
    masks = {name: _all(one) if one.kept is None else one.kept for name, one in tables.items()}
    total = len(masks[first])
    for name, mask in masks.items():
        if len(mask) != total:
            raise DataError(f"the columns differ in length: `{name}` has {len(mask)}, others {total}")
    kept = np.logical_and.reduce([*masks.values()])
    if not kept.any():
        raise DataError("no row is left: every one has a cell that is missing")
    found = {name: _labels(one)[kept[masks[name]]] for name, one in tables.items() if name is not None}
    columns = {name: values[kept[masks[first]]] for name, values in table.columns.items()}
    rows = int(np.count_nonzero(kept))
    return Table(columns, rows, table.dropped + table.rows - rows, kept=None if kept.all() else kept), found


def _all(table: Table) -> NDArray[np.bool_]:
    return np.ones(table.rows, dtype=np.bool_)


def _labels(table: Table) -> NDArray[Any]:
    assert table.labels is not None
    return table.labels


def coded(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The different labels, sorted, and of each row the position of its label among them.

    >>> coded(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    """
    codes = np.empty(len(labels), np.int32)
    parts = [slice(start, start + _BLOCK) for start in range(0, len(labels), _BLOCK)]
    if labels.dtype != object:
        found = np.unique(np.concatenate([labels[:0], *(np.unique(labels[part]) for part in parts)]))
        for part in parts:
            codes[part] = np.searchsorted(found, labels[part])
        return found, codes
    texts = sorted({text for part in parts for text in labels[part].tolist()})
    places = {text: place for place, text in enumerate(texts)}
    for part in parts:
        codes[part] = [places[text] for text in labels[part].tolist()]
    return np.array(texts), codes


def levels_of(labels: NDArray[Any]) -> tuple[Any, ...]:
    """The levels that occur, sorted.

    >>> levels_of(np.array(["b", "a", "b"]))
    ('a', 'b')
    """
    return tuple(coded(labels)[0].tolist())


def indicators(matches: Mapping[str, Match], labels: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """The columns of 1 and 0 that matches are, by the names of their leaves.

    >>> indicators({"m": Match("group", "b")}, {"group": np.array(["b", "a"])})
    {'m': array([1., 0.])}
    """
    known = {column: coded(values.ravel()) for column, values in labels.items()}
    found = {}
    for name, match in matches.items():
        levels, codes = known[match.column]
        holds = (levels.astype(str) == match.text).astype(np.float64)
        found[name] = holds[codes].reshape(labels[match.column].shape)
    return found


def labelled(values: ArrayLike, name: str, levels: Sequence[Any] | None) -> NDArray[Any]:
    """New labels, of any shape.

    Args:
        name: of their column.
        levels: those that a fit knows; None where any text will do.

    Raises:
        DataError: for a label that is missing, or is none of these.
    """
    array = given_labels(values)
    found, missing = as_labels(array.ravel(), name)
    if missing.any():
        raise DataError(f"row {int(np.argmax(missing)) + 1}, column `{name}`: no label", missing=True)
    if levels is not None:
        unknown = ~np.isin(found.astype(str), [*map(str, levels)])
        if unknown.any():
            row = int(np.argmax(unknown))
            known = in_brief([*map(str, levels)], "`")
            raise DataError(
                f"row {row + 1}, column `{name}`: `{found[row]}` is no level that was fitted; these are {known}"
            )
    return found.reshape(array.shape)
