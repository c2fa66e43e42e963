"""Prefetching: chunks are read while earlier ones are in use."""

from __future__ import annotations

import threading

import pytest

from autodiff_cli.data.streaming import prefetch


def test_where_no_thread_can_be_started_chunks_are_read_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    assert [*prefetch(iter("abc"))] == ["a", "b", "c"]


def test_chunks_come_in_their_order_and_reading_ends_with_its_reader() -> None:
    items = (number for number in range(10))
    chunks = prefetch(items)
    assert [next(chunks), next(chunks)] == [0, 1]
    chunks.close()
    assert [*items] == []
