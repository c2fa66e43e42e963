"""Clusters for tests."""

from __future__ import annotations

from typing import Any


def local_cluster(workers: int) -> Any:
    """Workers in this process, with one thread each."""
    import distributed

    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": ":0"},
    )
