"""The table of all operations, by name, and by what calls of them are written as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodiff_cli.graph.op import Op

_REGISTRY: dict[str, Op] = {}
_FUNCTIONS: dict[str, list[Op]] = {}


def register(op: Op) -> Op:
    """Enter an op in the table, under its name."""
    assert op.name not in _REGISTRY, f"two operations named {op.name}"
    _REGISTRY[op.name] = op
    for spelling in (op.spelling, *op.aliases):
        if spelling:
            _FUNCTIONS.setdefault(spelling, []).append(op)
    return op


def registered(name: str) -> Op:
    """The operation of this name. Raises KeyError if there is none."""
    return _REGISTRY[name]


def all_ops() -> Iterator[Op]:
    """Every operation, in the order of declaration."""
    return iter(_REGISTRY.values())


def function_names() -> tuple[str, ...]:
    """Every name that can be called in the language, aliases included."""
    return tuple(_FUNCTIONS)


def function(name: str) -> tuple[Op, ...]:
    """The operations that a call of `name` may mean, told apart by their number of inputs; empty if there is none."""
    return tuple(_FUNCTIONS.get(name, ()))
