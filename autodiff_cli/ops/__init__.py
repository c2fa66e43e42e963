"""The table of operations: every formula and every derivative rule of the project, each written once.

To add an operation, add a line to one of the modules here (and, unless it is a composite, its name in the tables of
`autodiff_cli.numbers`). Everything else reads these records; see `docs/adding-an-operation.md`.
"""

from __future__ import annotations

from autodiff_cli.graph.registry import all_ops, function, function_names, registered
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
    "registered",
    "special",
    "structural",
]
