"""The data of a fit read by workers: each reads shares of the files, and keeps what a model uses of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.sharing.shares import FileShare, each_of
from autodiff_cli.data.table import labels_of
from autodiff_cli.data.texts import NotPlain
from autodiff_cli.language.columns import Match
from autodiff_cli.training.cluster import on_worker
from autodiff_cli.training.cluster.on_worker import ColumnPlan, ShareFacts
from autodiff_cli.training.cluster.rows import OnCluster, part_rows
from autodiff_cli.training.levels.indicators import levels_of
from autodiff_cli.training.objective.graphs import Graphs, x_error
from autodiff_cli.training.objective.labels import Classes, checked_classes

if TYPE_CHECKING:
    from autodiff_cli.data.several import DataFiles
    from autodiff_cli.training.cluster.cluster import Cluster
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.options import DataOptions


class DataThere:
    """See `LoadedData`.

    Args:
        shares: of each file.

    Raises:
        NotPlain: where only who reads all rows knows what is meant, or what is wrong.
        DataError: for files that a worker does not find, and where no row is left.
    """

    def __init__(
        self, cluster: Cluster, files: DataFiles, shares: list[list[FileShare]], model: Model, options: DataOptions
    ) -> None:
        self._cluster = cluster
        self._weight = None if options.weights is None else (_column(options.weights), False)
        if options.sigma is not None:
            self._weight = _column(options.sigma), True
        self._others = {x_error(name): _column(given) for name, given in options.x_sigma.items()}
        classes = model.class_column
        self._numbers = tuple(sorted({*model.numeric, *options.columns} - {classes}))
        self._texts = tuple(dict.fromkeys([*([] if classes is None else [classes]), *model.labelled]))
        flat = [*itertools.chain(*shares)]
        common = self._numbers, self._texts, options.drop_missing
        self._shares = cluster.made(on_worker.read, flat, common=common)
        self._facts: list[ShareFacts] = cluster.answers(self._shares, on_worker.facts, options.columns)
        begin = 0
        for file, own in zip(each_of(files), shares, strict=True):
            found, begin = self._facts[begin : begin + len(own)], begin + len(own)
            seen: dict[str, dict[str | None, None]] = {}
            for fact in found:
                for name, texts in fact.seen.items():
                    seen.setdefault(name, {}).update(dict.fromkeys(texts))
            kept = sum(fact.rows + fact.dropped for fact in found)
            file.say_kept(kept, kept + sum(fact.others for fact in found), {n: [*texts] for n, texts in seen.items()})
        self.rows = sum(fact.rows for fact in self._facts)
        self._dropped = sum(fact.dropped for fact in self._facts)
        if not self.rows or not self._counts():
            raise NotPlain
        self.weighted = self._weight is not None
        self._coded: dict[str, tuple[str, Mapping[str, float]]] = {}
        self._labels = {name: self._known(name) for name in self._texts}

    def classes(self, name: str) -> Classes:
        """See `LoadedData.classes`."""
        texts, labels = self._labels[name]
        found, places = np.unique(labels, return_inverse=True)
        classes = checked_classes(found, self.rows, name)
        self._coded[name] = name, dict(zip(texts, map(float, places), strict=True))
        return classes

    def levels(self, name: str) -> tuple[Any, ...]:
        """See `LoadedData.levels`."""
        return levels_of(self._labels[name][1])

    def match(self, matches: Mapping[str, Match]) -> list[str]:
        """See `LoadedData.match`."""
        nowhere = []
        for name, match in matches.items():
            texts, labels = self._labels[match.column]
            holds = (labels.astype(str) == match.text).astype(np.float64)
            self._coded[name] = match.column, dict(zip(texts, holds.tolist(), strict=True))
            if not holds.any():
                nowhere.append(name)
        return nowhere

    def over(self, graphs: Graphs) -> OnCluster:
        """See `LoadedData.over`."""
        plan = ColumnPlan(self._numbers, self._weight, self._others, self._coded, graphs.gathered)
        size = part_rows(self.rows, self._cluster.workers)
        ends = [*itertools.accumulate(fact.rows for fact in self._facts)]
        pieces, slices, checks = [], [], []
        for begin in range(0, self.rows, size):
            end = min(begin + size, self.rows)
            first, last = (int(np.searchsorted(ends, row, side="right")) for row in (begin, end - 1))
            used = [k for k in range(first, last + 1) if self._facts[k].rows]
            starts = {k: ends[k] - self._facts[k].rows for k in used}
            pieces.append([self._shares.futures[k] for k in used])
            slices.append([slice(max(begin - starts[k], 0), min(end, ends[k]) - starts[k]) for k in used])
            checks.append([self._facts[k].check for k in used])
        parts = self._cluster.made(on_worker.assembled, pieces, slices, checks, common=[plan])
        self._cluster.answers(parts, on_worker.is_there)
        return OnCluster(self._cluster, parts, self.rows, size, plan.names, dropped=self._dropped)

    def _counts(self) -> bool:
        """Whether all weights and errors are such. What is wrong with one who reads all rows can say."""
        for name, above in [
            *([] if self._weight is None else [self._weight]),
            *((n, False) for n in self._others.values()),
        ]:
            limits = [fact.limits[name] for fact in self._facts if name in fact.limits]
            if any(low < 0 or (above and low == 0) or math.isinf(high) for low, high, _ in limits):
                return False
        return self._weight is None or any(fact.limits.get(self._weight[0], (0, 0, False))[2] for fact in self._facts)

    def _known(self, name: str) -> tuple[list[str], NDArray[Any]]:
        """The different texts of a column, and the label that each is."""
        texts = [*dict.fromkeys(itertools.chain(*(fact.texts[name] for fact in self._facts)))]
        return texts, labels_of(texts, name)


def _column(given: Any) -> str:
    """The name of a column. Raises NotPlain for numbers that are here."""
    if not isinstance(given, str):
        raise NotPlain
    return given
