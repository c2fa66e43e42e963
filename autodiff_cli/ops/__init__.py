"""The table of operations: each operation and its derivative rule, declared once.

To add an operation, add a declaration to one of these modules. Unless it is a composite, also add its name to the
tables of `autodiff_cli.numbers`. Everything else reads these records; see `docs/adding-an-operation.md`.
"""

from __future__ import annotations

from autodiff_cli.graph.node import all_ops, function_names, get_op, overloads
from autodiff_cli.ops import arithmetic, functions, structural

__all__ = ["all_ops", "arithmetic", "function_names", "functions", "get_op", "overloads", "structural"]
