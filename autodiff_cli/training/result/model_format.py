"""Fitted models on disk: one JSON document of text and numbers, so that loading one runs nothing.

    {"format": "autodiff model", "version": 1, "autodiff": "0.1.0", "model": "y ~ a*x", "columns": ["y", "x"],
     "parameters": {"a": 2.0}, "fixed": {}, "loss": 0.1, …}

The other keys are the attributes of a `Fit`, which say how well it fits. A number that is not finite is a text
(`"nan"`), an array a list of its rows. A later release adds keys, and reads files that lack them; one that changes what
a key means raises the version.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from autodiff_cli.data.writing import replacing
from autodiff_cli.training.objective.losses import LOSSES
from autodiff_cli.training.prediction.terms import Terms
from autodiff_cli.training.result.figures import Figures
from autodiff_cli.version import __version__

if TYPE_CHECKING:
    from autodiff_cli.training.result.fit import FittedModel

FORMAT = "autodiff model"
VERSION = 1


def save(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, as a whole or not at all. Raises OSError if that fails."""
    head = {"format": FORMAT, "version": VERSION, "autodiff": __version__, "columns": [*fit.columns]}
    figures = {name: getattr(fit, name) for name in KEYS}
    if not fit.definition:
        figures["covariance"] = None  # nothing but nan, for every pair of parameters
    with replacing(path) as stream:
        json.dump({**head, **_plain(figures)}, stream, ensure_ascii=False, allow_nan=False)
        stream.write("\n")


# --- values to what JSON can say, and back. What a reader raises means that the value cannot be.

Reader: TypeAlias = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, Figures | Terms):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half of a surrogate pair is no text
    return value


def texts(value: Any) -> list[str]:
    """A list of texts."""
    return _list(value, _text)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        raise ValueError
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _list(value: Any, read: Reader) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return [read(item) for item in value]


def _array(value: Any) -> Any:
    """A number, or an array of floats from lists of equal lengths."""
    if not isinstance(value, list):
        return _number(value)
    if not value:
        raise ValueError
    return np.array([_array(item) for item in value], dtype=np.float64)


def _counts(value: Any) -> Any:
    return np.array(_list(value, lambda row: _list(row, _whole)), dtype=np.int64)


def _labels(value: Any, least: int = 2) -> tuple[Any, ...]:
    texts = isinstance(value, list) and all(isinstance(label, str) for label in value)
    labels = tuple(_list(value, _text if texts else _whole))
    if len({*labels}) < len(labels) or len(labels) < least:
        raise ValueError
    return labels


def _by_name(read: Reader) -> Reader:
    return lambda value: {name: read(item) for name, item in value.items()}


def _pair(read: Reader) -> Reader:
    def pair(value: Any) -> tuple[Any, Any]:
        low, high = _list(value, read)
        return low, high

    return pair


def _moment(value: Any) -> str:
    return datetime.fromisoformat(_text(value)).isoformat()


def _quantity(value: Any) -> dict[str, float | None]:
    return {"value": _number(value["value"]), "stderr": _or_none(_number)(value["stderr"])}


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _figures(value: Any) -> Figures:
    figures: dict[str, Any] = {
        name: tuple(_list(item, _number)) if isinstance(item, list) else _or_none(_number)(item)
        for name, item in value.items()
    }
    return Figures(**figures)


def _loss(value: Any) -> str:
    if value and value not in LOSSES:
        raise ValueError
    return _text(value)


def _terms(value: Any) -> Terms:
    said: dict[str, Any] = {name: None if item is None else _TERMS[type(item)](item) for name, item in value.items()}
    return Terms(**said)


_TERMS: dict[type, Reader] = {str: _text, bool: _truth}


def _history(value: Any) -> list[dict[str, float]]:
    return _list(value, lambda record: {name: _step(name, item) for name, item in record.items()})


def _step(name: str, value: Any) -> float:
    return _whole(value) if name == "epoch" else _number(value)


# What a file says of a fit, by the names of its attributes, and how each is read.
KEYS: dict[str, Reader] = {
    "model": _text,
    "rows": _whole,
    "parameters": _by_name(_array),
    "fixed": _by_name(_array),
    "stderr": _by_name(_or_none(_array)),
    "loss": _number,
    "rss": _or_none(_number),
    "dof": _whole,
    "r_squared": _or_none(_number),
    "optimizer": _text,
    "epochs": _whole,
    "converged": _truth,
    "failure": _text,
    "history": _history,
    "covariance": _or_none(_array),
    "definition": _text,
    "formula": _text,
    "warnings": texts,
    "classes": _or_none(_labels),
    "accuracy": _or_none(_number),
    "confusion": _or_none(_counts),
    "scale": _or_none(_number),
    "loss_name": _or_none(_loss),
    "huber_delta": _or_none(_number),
    "penalty": _or_none(_number),
    "figures": _figures,
    "interval_dof": _or_none(_whole),
    "confidence_level": _number,
    "bounds": _by_name(_pair(_number)),
    "intervals": _by_name(_by_name(_or_none(_pair(_array)))),
    "origins": _by_name(_moment),
    "derived": _by_name(_quantity),
    "terms": _terms,
    "levels": lambda value: {_text(name): _labels(levels, 1) for name, levels in value.items()},
    "validation_rows": _whole,
    "validation_loss": _or_none(_number),
    "validation_accuracy": _or_none(_number),
}
