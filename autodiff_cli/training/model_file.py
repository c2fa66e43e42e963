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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from autodiff_cli import __version__
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.training.data import DataError
from autodiff_cli.training.fit import Fit
from autodiff_cli.training.model import Model
from autodiff_cli.training.parameters import Layout
from autodiff_cli.training.statistics import MOST
from autodiff_cli.training.writing import replacing

FORMAT = "autodiff model"
VERSION = 1


class ModelFileError(DataError):
    """A file that is not a model, or not one that can be read; the message says where it is wrong.

    >>> load("nowhere.json")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.model_file.ModelFileError: nowhere.json: no such file or directory
    """


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, as a whole or not at all. Raises OSError if that fails."""
    head = {"format": FORMAT, "version": VERSION, "autodiff": __version__, "columns": [*fit.columns]}
    figures = {name: getattr(fit, name) for name in _KEYS}
    if not fit.definition:
        figures["covariance"] = None  # nothing but nan, for every pair of parameters
    with replacing(path) as stream:
        json.dump({**head, **_plain(figures)}, stream, ensure_ascii=False, allow_nan=False)
        stream.write("\n")


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fitted model from a file that `save` wrote, in this release or an earlier one.

    Raises:
        ModelFileError: if the file is not there, or not such a model.

    >>> import autodiff_cli as ad, os, tempfile
    >>> found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     found.save(path)
    ...     load(path).predict({"x": [4, 5]})
    array([ 8., 10.])
    """
    try:
        return _fit_of(_document(Path(path).read_bytes()))
    except OSError as error:
        raise ModelFileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (_Wrong, ExpressionError) as error:
        raise ModelFileError(f"{path}: {error}") from None


class _Wrong(Exception):  # noqa: N818 - what it is
    """What is wrong with a file, in words."""


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise _Wrong(f"not a model file: byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _Wrong(f"not a model file, or a damaged one: {error.msg} ({where})") from None
    except (ValueError, RecursionError):
        raise _Wrong("not a model file, or a damaged one: JSON that no model has") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _Wrong(f'not a model file: it lacks `"format": "{FORMAT}"`; `train --save` writes one')
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise _Wrong(f"the version of the format is {_shown(version)}, not a whole number")
    if version > VERSION:
        writer = document.get("autodiff")
        by = f" by autodiff {writer}" if isinstance(writer, str) else ""
        raise _Wrong(f"written{by} in version {version} of the format; this release reads up to {VERSION}: update it")
    return document


def _refuse(name: str) -> None:
    raise ValueError(name)


def _fit_of(document: Mapping[str, Any]) -> Fit:
    found = {name: _value(document, name, read) for name, read in _KEYS.items() if name in document}
    missing = [field.name for field in dataclasses.fields(Fit) if _is_required(field) and field.name not in found]
    if missing:
        raise _Wrong(f"it lacks {', '.join(f'`{name}`' for name in missing)}")
    values = {**found["parameters"], **found["fixed"]}
    model = _model(found, _value(document, "columns", _texts), values)
    layout = Layout([*found["parameters"]], model.shapes)
    pairs = layout.size, layout.size
    if found["covariance"] is None:
        found["covariance"] = np.broadcast_to(np.nan, pairs)
    if {*found["stderr"]} != {*found["parameters"]} or np.shape(found["covariance"]) != pairs:
        raise _Wrong("its standard errors are not those of its parameters")
    return Fit(**found, numbers=layout.numbers if layout.size <= MOST else (), _read=model)


def _model(found: Mapping[str, Any], columns: Sequence[str], values: Mapping[str, Any]) -> Model:
    """The model of a file. Raises ExpressionError where its text, or the shapes in it, make no sense."""
    model = Model.read(found["model"], columns, values)
    if {*model.parameters} != {*values} or {*model.columns} != {*columns}:
        raise _Wrong("its parameters and columns are not those of its model")
    classes = found.get("classes")
    if (classes is None) is not (model.class_column is None):
        raise _Wrong("it has classes, but its model tells none apart" if classes else "it lacks `classes`")
    return model.resolved(values, None if classes is None else len(classes))


def _is_required(field: dataclasses.Field[Any]) -> bool:
    no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return no_default and not field.name.startswith("_")


def _value(document: Mapping[str, Any], name: str, read: Reader) -> Any:
    try:
        return read(document[name])
    except KeyError:
        raise _Wrong(f"it lacks `{name}`") from None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise _Wrong(f"`{name}` cannot be {_shown(document[name])}") from None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"


# --- values to what JSON can say, and back. What a reader raises means that the value cannot be.

Reader: TypeAlias = Callable[[Any], Any]


def _plain(value: Any) -> Any:
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
    return value


def _texts(value: Any) -> list[str]:
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


def _labels(value: Any) -> tuple[Any, ...]:
    labels = tuple(_list(value, _text if isinstance(value[0], str) else _whole))
    if len({*labels}) < len(labels) or len(labels) < 2:
        raise ValueError
    return labels


def _named(value: Any) -> dict[str, Any]:
    return {name: None if item is None else _array(item) for name, item in value.items()}


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _history(value: Any) -> list[dict[str, float]]:
    return _list(value, lambda record: {name: _step(name, item) for name, item in record.items()})


def _step(name: str, value: Any) -> float:
    return _whole(value) if name == "epoch" else _number(value)


# What a file says of a fit, by the names of its attributes, and how each is read.
_KEYS: dict[str, Reader] = {
    "model": _text,
    "rows": _whole,
    "parameters": _named,
    "fixed": _named,
    "stderr": _named,
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
    "warnings": _texts,
    "classes": _or_none(_labels),
    "accuracy": _or_none(_number),
    "confusion": _or_none(_counts),
    "validation_rows": _whole,
    "validation_loss": _or_none(_number),
    "validation_accuracy": _or_none(_number),
}
