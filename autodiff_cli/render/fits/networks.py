"""What `train` shows of networks and classifications: layers instead of numbers, and which classes are mistaken."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.numbers import Show
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.text import counted
from autodiff_cli.training.result.diagnosis import layer_of

MOST_NUMBERS = 9  # of an array that is shown in full
MOST_CLASSES = 20  # of a confusion table
MOST_MISTAKES = 10  # shown where there are more classes


def is_summarised(name: str, value: Any) -> bool:
    """Whether a parameter is one of the many of a network, which nobody reads one by one."""
    return np.size(value) > MOST_NUMBERS or layer_of(name) != name


def layers_table(values: Mapping[str, Any], fixed: Collection[str], show: Show) -> TextTable:
    """One row for each layer: the shapes of its parameters, how many numbers they are, and their norm.

    Args:
        fixed: the names of those that were not fitted.
    """
    layers: dict[str, list[str]] = {}
    for name in values:
        layers.setdefault(layer_of(name), []).append(name)
    rows = [
        (
            layer,
            ", ".join(_shape(name, values[name], name in fixed) for name in names),
            str(sum(np.size(values[name]) for name in names)),
            show(math.sqrt(sum(float(np.sum(np.square(values[name]))) for name in names))),
        )
        for layer, names in sorted(layers.items(), key=lambda item: _order(item[0]))
    ]
    return TextTable((Column("layer"), Column("shapes"), Column("numbers", True), Column("norm", True)), rows)


def _order(layer: str) -> list[tuple[int, str]]:
    """Layers in the order of their numbers, also where one of them is fixed."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in layer.split(".")]


def _shape(name: str, value: Any, is_fixed: bool) -> str:
    part = name.removeprefix(f"{layer_of(name)}.")
    shape = "x".join(map(str, np.shape(value))) or "number"
    own = shape if part == name else f"{part} {shape}"
    return f"{own} (fixed)" if is_fixed else own


def write_confusion(paper: Paper, classes: Sequence[Any], confusion: NDArray[np.int64]) -> None:
    """How often each class was taken for each: as a table, or where that is too large, the worst mistakes."""
    titles = (Column(""), *(Column(str(label), is_number=True) for label in classes))
    rows = [(str(label), *map(str, counts)) for label, counts in zip(classes, confusion.tolist(), strict=True)]
    table = TextTable(titles, rows)
    if len(classes) <= MOST_CLASSES and paper.fits(table):
        paper.heading("confusion of the rows fitted: true classes down, predictions across")
        paper.table(table)
        return
    mistakes = list(_mistakes(classes, confusion))
    paper.heading("worst mistakes in the rows fitted")
    titles = (Column("class"), Column("taken for"), Column("rows", is_number=True))
    paper.table(
        TextTable(titles, [(str(true), str(taken), str(count)) for count, true, taken in mistakes[:MOST_MISTAKES]])
    )
    if len(mistakes) > MOST_MISTAKES:
        paper.line(f"  … {counted(len(mistakes) - MOST_MISTAKES, 'pair')} more; --json has all", Style.FAINT)


def _mistakes(classes: Sequence[Any], confusion: NDArray[np.int64]) -> Iterator[tuple[int, Any, Any]]:
    """Each pair of classes of which one was taken for the other, the most frequent first."""
    wrong = confusion - np.diag(np.diag(confusion))
    for place in np.argsort(-wrong, axis=None, kind="stable"):
        true, taken = divmod(int(place), len(classes))
        if not wrong[true, taken]:
            return
        yield int(wrong[true, taken]), classes[true], classes[taken]
