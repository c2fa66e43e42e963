"""Where the data of a fit are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.sharing.shares import shares
from autodiff_cli.data.table import Dataset
from autodiff_cli.data.texts import NotPlain
from autodiff_cli.language.columns import Match
from autodiff_cli.training.cluster.cluster import Cluster
from autodiff_cli.training.cluster.reading import DataThere
from autodiff_cli.training.cluster.rows import PARTS, OnCluster
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.objective.graphs import Graphs
from autodiff_cli.training.objective.labels import Classes
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.opening.memory import LoadedData
from autodiff_cli.training.opening.streamed import StreamedData, of_model
from autodiff_cli.training.options import Options
from autodiff_cli.training.rows.protocol import Rows


class OpenedData(Protocol):
    """See `LoadedData`."""

    @property
    def rows(self) -> int: ...

    @property
    def weighted(self) -> bool: ...

    def classes(self, name: str) -> Classes: ...

    def levels(self, name: str) -> tuple[Any, ...]: ...

    def match(self, matches: Mapping[str, Match]) -> list[str]: ...

    def over(self, graphs: Graphs) -> Rows: ...


class SentData(LoadedData):
    """Data that are read here, as a whole, and sent to a cluster."""

    def __init__(self, cluster: Cluster, dataset: Dataset, model: Model, options: Options) -> None:
        super().__init__(dataset, model, options.data)
        self._cluster = cluster

    def over(self, graphs: Graphs) -> Rows:
        """See `LoadedData.over`."""
        return OnCluster.of(self._cluster, super().over(graphs).table())


def opened(dataset: Dataset, model: Model, options: Options) -> OpenedData:
    """The data of a fit: streamed if that is asked for, or if they would take more than half of the memory left.

    On a cluster workers read files themselves, where each can tell what its share means.

    Raises:
        DataError, OptionError: see `load`, `StreamedData` and `DataThere`.
    """
    cluster = options.cluster
    if options.data.stream and not isinstance(dataset, DataFile | SeveralFiles):
        raise OptionError("stream reads files in blocks, and these data are in memory already")
    if cluster is None and isinstance(dataset, DataFile | SeveralFiles):
        why = "as asked" if options.data.stream else of_model(dataset, model, options.data)
        return LoadedData(dataset, model, options.data) if why is None else StreamedData(dataset, model, options, why)
    if cluster is None:
        return LoadedData(dataset, model, options.data)
    there = {*model.columns, *options.data.columns} <= {*dataset.names}
    divided = None
    if there and isinstance(dataset, DataFile | SeveralFiles):
        divided = shares(dataset, PARTS * cluster.threads)
    if divided is not None and isinstance(dataset, DataFile | SeveralFiles):
        try:
            return DataThere(cluster, dataset, divided, model, options.data)
        except NotPlain:
            pass  # the whole file is read here: that knows, or can say what is wrong
    return SentData(cluster, dataset, model, options)
