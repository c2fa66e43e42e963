"""The data of a fit on a cluster. Imported where there is one."""

from __future__ import annotations

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.sharing.shares import shares
from autodiff_cli.data.table import Dataset
from autodiff_cli.data.texts import NotPlain
from autodiff_cli.training.cluster.cluster import Cluster
from autodiff_cli.training.cluster.reading import DataThere
from autodiff_cli.training.cluster.rows import PARTS, OnCluster
from autodiff_cli.training.objective.graphs import Graphs
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.opening.memory import LoadedData
from autodiff_cli.training.options import Options
from autodiff_cli.training.rows.protocol import Rows


class SentData(LoadedData):
    """Data that are read here, as a whole, and sent to a cluster."""

    def __init__(self, cluster: Cluster, dataset: Dataset, model: Model, options: Options) -> None:
        super().__init__(dataset, model, options.data)
        self._cluster = cluster

    def over(self, graphs: Graphs) -> Rows:
        """See `LoadedData.over`."""
        return OnCluster.of(self._cluster, super().over(graphs).table())


def opened_on_cluster(cluster: Cluster, dataset: Dataset, model: Model, options: Options) -> SentData | DataThere:
    """Workers read files themselves, where each can tell what its share means; all else is read here and sent.

    Raises as `choice.opened`.
    """
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
