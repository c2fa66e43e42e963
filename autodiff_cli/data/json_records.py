"""Conversion of records to JSON and back, from the types of their fields.

JSON has no nan, no infinities and no arrays. A number that is not finite becomes text (`"nan"`), an array becomes
nested lists, and a record an object with a key per field. NumPy is imported only where arrays are read, because `grad
--json` of scalars starts without it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

# Metadata of a field that change how `to_document` shows it. The first two are for numbers that are not known.
NAN_IS_NULL = {"nonfinite": lambda number: None if math.isnan(number) else str(number)}
NONFINITE_IS_NULL = {"nonfinite": lambda _: None}
IF_KNOWN = {"if_known": True}  # the key is left out if there is no value
NOT_IN_DOCUMENT = {"in_document": False}


def parse_json(text: str | bytes, parse_int: Callable[[str], Any] | None = None) -> Any:
    """Parse JSON; `parse_int` converts the digits of whole numbers.

    Raises:
        ValueError: for a text that is not JSON, and for an object with two values for a key.

    >>> parse_json('{"a": 1, "b": 2, "a": 3}')
    Traceback (most recent call last):
        ...
    ValueError: the key `a` occurs more than once
    """
    return json.loads(text, parse_int=parse_int, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key `{name}` occurs more than once")
    return document


def pick(record: Any, *names: str) -> dict[str, Any]:
    """Return some attributes of a record as a JSON object.

    >>> pick(1 + 2j, "real", "imag")
    {'real': 1.0, 'imag': 2.0}
    """
    return {name: to_json(getattr(record, name)) for name in names}


def to_document(record: Any) -> dict[str, Any]:
    """Return a record as a JSON object with a key per field, as the metadata of the fields say."""
    document = {}
    for field in dataclasses.fields(record):
        value, metadata = getattr(record, field.name), field.metadata
        # None, an empty container and a count of 0 are not values, but the number 0.0 is.
        has_value = isinstance(value, float) or hasattr(value, "dtype") or bool(value)
        if metadata.get("in_document", True) and (has_value or not metadata.get("if_known")):
            document[field.name] = to_json(value, metadata.get("nonfinite", str))
    return document


def to_json(value: Any, nonfinite: Callable[[float], str | None] = str) -> Any:
    """Convert numbers, arrays, records, and containers of them for JSON. -0.0 becomes 0.0; other objects, such as
    formulas, become their text.

    Args:
        nonfinite: returns what to write for nan and infinities.

    >>> to_json({"low": -math.inf, "steps": (1, 2.5, math.nan)})
    {'low': '-inf', 'steps': [1, 2.5, 'nan']}
    """
    if isinstance(value, float):
        return (value or 0.0) if math.isfinite(value) else nonfinite(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: to_json(item, nonfinite) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item, nonfinite) for item in value]
    return to_json(value.tolist(), nonfinite) if hasattr(value, "tolist") else str(value)


def read_json(kind: Any, value: Any) -> Any:
    """Return a value that `to_json` converted from a type; `Any` stands for a number or an array of floats.

    Raises:
        TypeError, ValueError, KeyError, AttributeError, OverflowError: if the value is not of the type.

    >>> read_json(dict[str, tuple[float, float] | None], {"a": [0, "inf"], "b": None})
    {'a': (0.0, inf), 'b': None}
    """
    import numpy as np

    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _read_numbers(value, float)
    if origin is np.ndarray:
        return _read_numbers(value, int if issubclass(get_args(arguments[1])[0], np.integer) else float)
    if origin in (Union, UnionType):
        for member in arguments:
            with contextlib.suppress(TypeError, ValueError, AttributeError):
                return read_json(member, value)
        raise TypeError
    if origin is dict:
        return {read_json(arguments[0], name): read_json(arguments[1], item) for name, item in value.items()}
    if origin in (list, tuple):
        if not isinstance(value, list):
            raise TypeError
        kinds = arguments if origin is tuple and ... not in arguments else arguments[:1] * len(value)
        return origin(read_json(item_kind, item) for item_kind, item in zip(kinds, value, strict=True))
    if dataclasses.is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        if not (kind.__required_keys__ if is_typeddict(kind) else hints.keys()) <= value.keys():
            raise KeyError
        return kind(**{name: read_json(hints[name], item) for name, item in value.items()})
    return _read_scalar(kind, value)


def _read_scalar(kind: Any, value: Any) -> Any:
    """Return a text, number or date of a type."""
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is float:
        if isinstance(value, bool) or (isinstance(value, str) and value not in ("nan", "inf", "-inf")):
            raise TypeError
        return float(value)
    if type(value) is not kind:
        raise TypeError
    if kind is int:
        float(value)  # raises for one that no computation can use
    if kind is str:
        value.encode()  # raises for half of a surrogate pair
    return value


def _read_numbers(value: Any, kind: type[int | float]) -> Any:
    """Return a number, or an array from nested lists of equal lengths."""
    import numpy as np

    if not isinstance(value, list):
        return _read_scalar(kind, value)
    if not value:
        raise ValueError
    return np.array([_read_numbers(item, kind) for item in value], dtype=kind)
