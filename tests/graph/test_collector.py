"""The garbage collector pauses only while large graphs and tapes are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import Tape, gc_paused


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    collecting = gc.isenabled()
    yield
    (gc.enable if collecting else gc.disable)()


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_pauses_and_is_restored(collecting: bool) -> None:
    (gc.enable if collecting else gc.disable)()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is collecting


def test_the_collector_is_restored_after_an_exception() -> None:
    gc.enable()
    with pytest.raises(RuntimeError), gc_paused():
        raise RuntimeError
    assert gc.isenabled()


def test_making_a_tape_restores_the_collector() -> None:
    gc.enable()
    Tape([variable("x")])
    assert gc.isenabled()
