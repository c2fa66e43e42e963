"""Data as Python has them: mappings, data frames, Arrow tables, structured arrays; all as columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def named_columns(data: Any) -> dict[str, ArrayLike]:
    """The columns of data, by name, without copies.

    Args:
        data: a mapping, a data frame of pandas or polars, a table or a batch of Arrow, or a structured array.

    Raises:
        TypeError: for what has no named columns.

    >>> named_columns(np.array([(1, 2.0)], dtype=[("x", int), ("y", float)]))
    {'x': array([1]), 'y': array([2.])}
    """
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            raise TypeError('an array has no names of columns; give {"x": array[:, 0], …}, or a structured array')
        return {name: data[name] for name in data.dtype.names}
    if hasattr(data, "column_names"):  # Arrow
        return {str(name): data.column(place) for place, name in enumerate(data.column_names)}
    if isinstance(data, Mapping) or hasattr(data, "keys"):
        return {str(name): data[name] for name in data.keys()}  # noqa: SIM118 (data frames iterate otherwise)
    if hasattr(data, "columns") and hasattr(data, "get_column"):  # polars
        return {str(name): data.get_column(name) for name in data.columns}
    raise TypeError(f"data are columns by name: a mapping, a data frame or a table, not {type(data).__name__}")
