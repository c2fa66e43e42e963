"""Clusters for tests."""

from __future__ import annotations

from typing import Any


def local_cluster(workers: int, threads: int = 1) -> Any:
    """Workers in this process, with so many threads each."""
    import distributed

    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=threads,
        processes=False,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": ":0"},
    )
