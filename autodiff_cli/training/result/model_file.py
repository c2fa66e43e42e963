"""Reading fitted models from disk: see `model_format`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autodiff_cli.data.table import DataError
from autodiff_cli.language.errors import ExpressionError, in_brief
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout
from autodiff_cli.training.result.fit import FittedModel
from autodiff_cli.training.result.model_format import FORMAT, KEYS, VERSION, Reader, texts
from autodiff_cli.training.result.statistics import MOST


class ModelFileError(DataError):
    """A file that is not a model, or not one that can be read; the message says where it is wrong.

    >>> load("nowhere.json")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.result.model_file.ModelFileError: nowhere.json: no such file or directory
    """


def load(path: str | os.PathLike[str]) -> FittedModel:
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


def _fit_of(document: Mapping[str, Any]) -> FittedModel:
    found = {name: _value(document, name, read) for name, read in KEYS.items() if name in document}
    missing = [
        field.name for field in dataclasses.fields(FittedModel) if _is_required(field) and field.name not in found
    ]
    if missing:
        raise _Wrong(f"it lacks {in_brief(missing, '`')}")
    values = {**found["parameters"], **found["fixed"]}
    model = _model(found, _value(document, "columns", texts), values)
    layout = ParameterLayout([*found["parameters"]], model.shapes)
    pairs = layout.size, layout.size
    if found["covariance"] is None:
        found["covariance"] = np.broadcast_to(np.nan, pairs)
    if {*found["stderr"]} != {*found["parameters"]} or np.shape(found["covariance"]) != pairs:
        raise _Wrong("its standard errors are not those of its parameters")
    return FittedModel(**found, numbers=layout.numbers if layout.size <= MOST else (), _read=model)


def _model(found: Mapping[str, Any], columns: Sequence[str], values: Mapping[str, Any]) -> Model:
    """The model of a file. Raises ExpressionError where its text, or the shapes in it, make no sense."""
    model = Model.read(found["model"], columns, values)
    levels = found.get("levels", {})
    if {*model.leveled} != {*levels}:
        raise _Wrong("its levels are not those of its model")
    model = model.with_levels(levels)
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
