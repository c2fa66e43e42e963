"""A cluster that tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.training.cluster.support import local_cluster


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A scheduler and two workers in this process."""
    distributed = pytest.importorskip("distributed")
    before = {*threading.enumerate()}
    with local_cluster(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
    left = [thread.name for thread in {*threading.enumerate()} - before if not thread.daemon]
    assert not left
