"""What can be wrong with the options of a fit."""

from __future__ import annotations

import dataclasses
from numbers import Integral, Real
from typing import Any


class OptionError(ValueError):
    """An option that does not exist, cannot have that value, or does not go with another."""


# What may stand for a type that is written in a record, and what that is called.
_KINDS: dict[str, tuple[tuple[type, ...], str, Any]] = {
    "str": ((str,), "a text", str),
    "int": ((Integral,), "a whole number", int),
    "float": ((Real,), "a number", float),
    "bool": ((bool, Integral), "true or false", bool),
}


def plain(options: Any) -> None:
    """Make the fields of a record, of plain types or None, what they are said to be. Raises OptionError for others.

    NumPy's numbers are numbers, and its truths are truths.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        kind, _, optional = str(field.type).partition(" | ")
        if kind not in _KINDS or (value is None and optional == "None"):
            continue
        object.__setattr__(options, field.name, plain_value(value, kind, field.name))


def plain_value(value: Any, kind: str, name: str) -> Any:
    """A value of a plain type: `str`, `int`, `float` or `bool`. Raises OptionError, with the name, for others.

    >>> plain_value(2, "float", "scale")
    2.0
    """
    types, words, make = _KINDS[kind]
    is_truth = kind == "bool" and getattr(getattr(value, "dtype", None), "kind", "") == "b" and not value.ndim
    try:
        if not (isinstance(value, types) or is_truth):
            raise TypeError
        return make(value)
    except (TypeError, OverflowError):
        shown = f"{value!r}" if isinstance(value, float | str | bytes) else type(value).__name__
        raise OptionError(f"{name} is {words}, not {shown[:40]}") from None


class ClusterError(RuntimeError):
    """A cluster that fails for good while a fit runs on it."""
