"""Numbers as they are given, of whatever type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def given_array(value: Any) -> NDArray[Any]:
    """An array, or what becomes one, without a copy where that can be. What is masked is missing: nan.

    Raises:
        TypeError: for complex numbers, moments, spans of time, bytes and records, which are no real numbers.

    >>> given_array(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if hasattr(value, "filled"):  # a masked array
        value = value.astype(np.float64).filled(np.nan) if np.ma.is_masked(value) else value.filled()
    array = np.asarray(value)
    if array.dtype.kind in "cmMSV":
        raise TypeError(f"a value is a real number or an array of real numbers, not of {array.dtype}")
    return array


def given_labels(values: Any) -> NDArray[Any]:
    """Labels as an array; what is masked is None.

    >>> given_labels(np.ma.array(["a", "b"], mask=[False, True]))
    array(['a', None], dtype=object)
    """
    if not hasattr(values, "filled"):
        return np.asarray(values)
    found = np.array(values.data, dtype=object)
    found[np.ma.getmaskarray(values)] = None
    return found


def given_floats(value: Any) -> NDArray[np.float64]:
    """The same as floats. Raises TypeError or ValueError for what has none.

    >>> given_floats([1, 10**400])
    array([ 1., inf])
    """
    array = given_array(value)
    try:
        return array.astype(np.float64, copy=False)
    except OverflowError:  # of integers beyond all floats
        return np.array([_nearest(x) for x in array.ravel().tolist()]).reshape(array.shape)


def _nearest(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
