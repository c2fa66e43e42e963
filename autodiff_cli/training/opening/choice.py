"""Where the data of a fit are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.table import Dataset
from autodiff_cli.language.columns import Match
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


def opened(dataset: Dataset, model: Model, options: Options) -> OpenedData:
    """The data of a fit: streamed if that is asked for, or if they would take more than half of the memory left.

    Raises:
        DataError, OptionError: see `load`, `StreamedData` and `DataThere`.
    """
    streamable = dataset if isinstance(dataset, DataFile | SeveralFiles) else None
    if options.data.stream and streamable is None:
        raise OptionError("stream reads files in blocks, and these data are in memory already")
    if options.cluster is not None:
        from autodiff_cli.training.opening.on_cluster import opened_on_cluster

        return opened_on_cluster(options.cluster, dataset, model, options)
    why = "as asked" if options.data.stream else None
    if streamable is not None and why is None:
        why = of_model(streamable, model, options.data)
    if streamable is None or why is None:
        return LoadedData(dataset, model, options.data)
    return StreamedData(streamable, model, options, why)
