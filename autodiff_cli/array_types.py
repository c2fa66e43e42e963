"""The types of the arrays that the package passes around, and the conversion of values from users to arrays.

Users give numbers, lists, arrays and masked arrays.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]  # real numbers of any shape
Mask: TypeAlias = NDArray[np.bool_]  # which elements are selected


def ignore_float_errors() -> np.errstate:
    """Return a context in which NumPy does not warn about what IEEE arithmetic defines."""
    return np.errstate(all="ignore")


def as_real_array(value: Any) -> NDArray[Any]:
    """Return a value as an array, without a copy if possible. Masked elements become nan.

    Raises:
        TypeError: for complex numbers, dates, time spans, bytes and records, which are not real numbers.

    >>> as_real_array(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if hasattr(value, "filled"):  # a masked array
        value = value.astype(np.float64).filled(np.nan) if np.ma.is_masked(value) else value.filled()
    array = np.asarray(value)
    if array.dtype.kind == "O" and hasattr(value, "isna"):  # `pandas.NA` cannot become a float
        array = np.where(value.isna(), np.array(None), array)
    if array.dtype.kind in "cmMSV":
        raise TypeError(f"a value must be a real number or an array of real numbers, not of {array.dtype}")
    return array


def as_label_array(values: Any) -> NDArray[Any]:
    """Return labels as an array. Masked elements become None.

    >>> as_label_array(np.ma.array(["a", "b"], mask=[False, True])), as_label_array(np.array(["2024-01-31"], "M8[ns]"))
    (array(['a', None], dtype=object), array([datetime.datetime(2024, 1, 31, 0, 0)], dtype=object))
    """
    if not hasattr(values, "filled"):
        array = np.asarray(values)
        if array.dtype.kind in "mM":  # NumPy has no time zones, and would convert nanoseconds to integers
            cells = array.astype(f"{array.dtype.kind}8[us]")
            to_list: Any = getattr(values, "to_pylist", None) or getattr(values, "to_list", cells.tolist)
            array = np.array(to_list(), object)
        return array
    labels = np.array(values.data, dtype=object)
    labels[np.ma.getmaskarray(values)] = None
    return labels


def as_float_array(value: Any) -> NDArray[np.float64]:
    """Return a value as an array of floats. Integers beyond all floats become infinite, masked elements nan.

    Raises:
        TypeError: for complex numbers, dates, time spans, bytes and records.
        ValueError: for text that is not a number.

    >>> as_float_array([1, 10**400])
    array([ 1., inf])
    """
    array = as_real_array(value)
    try:
        return array.astype(np.float64, copy=False)
    except OverflowError:  # for integers beyond all floats
        return np.array([_nearest_float(x) for x in array.ravel().tolist()]).reshape(array.shape)


def _nearest_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
