"""The table of operations: every formula and every derivative rule of the project, each written once.

To add an operation, add a line to one of the modules here (and, unless it is a composite, its name in the tables of
`autodiff_cli.numbers`). Everything else reads these records.
"""

from __future__ import annotations

from autodiff_cli.graph.op import Op, all_ops
from autodiff_cli.ops import activations, arithmetic, choice, elementary, gamma, integrals, special, structural

__all__ = [
    "activations",
    "all_ops",
    "arithmetic",
    "choice",
    "elementary",
    "function",
    "function_names",
    "gamma",
    "integrals",
    "special",
    "structural",
]

_FUNCTIONS: dict[str, list[Op]] = {}
for _op in all_ops():
    for _spelling in (_op.spelling, *_op.aliases):
        if _spelling:
            _FUNCTIONS.setdefault(_spelling, []).append(_op)


def function_names() -> tuple[str, ...]:
    """Every name that can be called in the language, aliases included."""
    return tuple(_FUNCTIONS)


def function(name: str) -> tuple[Op, ...]:
    """The operations that a call of `name` may mean, told apart by their number of inputs; empty if there is none."""
    return tuple(_FUNCTIONS.get(name, ()))
