"""The format of model files: one JSON document of texts and numbers, so that loading a file runs no code.

    {"format": "autodiff model", "version": 1, "autodiff": "0.1.0", "model": "y ~ a*x", "columns": ["y", "x"],
     "parameters": {"a": 2.0}, "fixed": {}, "loss": 0.1, …}

The other keys are attributes of a `Fit`. A number that is not finite is a text (`"nan"`), an array is a list of its
rows. Later releases may add keys and accept files without them; a release that changes the meaning of a key raises the
version.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from autodiff_cli.data.writing import open_atomic_text
from autodiff_cli.training.losses import LOSSES
from autodiff_cli.training.result.goodness import GoodnessOfFit
from autodiff_cli.version import __version__

if TYPE_CHECKING:
    from autodiff_cli.training.result.fitted_model import FittedModel


@dataclass(frozen=True, slots=True)
class FitSettings:
    """The settings of a fit that matter for predictions.

    Attributes:
        likelihood: whether the model is itself a negative log-likelihood.
        weighted: whether rows had weights or standard deviations.
        weights, sigma: the column with the weights or standard deviations; None if they were given as arrays.
        absolute_sigma: whether standard deviations are absolute, not relative.
    """

    likelihood: bool = False
    weighted: bool = False
    weights: str | None = None
    sigma: str | None = None
    absolute_sigma: bool = False

    @property
    def weighting_column(self) -> str | None:
        """The column with the weights or standard deviations of the rows."""
        return self.weights if self.sigma is None else self.sigma


MODEL_FORMAT = "autodiff model"
MODEL_FORMAT_VERSION = 1


def save_model(fit: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, completely or not at all. Raises OSError if that fails."""
    header = {
        "format": MODEL_FORMAT,
        "version": MODEL_FORMAT_VERSION,
        "autodiff": __version__,
        "columns": [*fit.columns],
    }
    values = {name: getattr(fit, name) for name in VALUE_READERS}
    if not fit.definition:
        values["covariance"] = None  # all elements are nan
    with open_atomic_text(path) as stream:
        json.dump({**header, **_to_json(values)}, stream, ensure_ascii=False, allow_nan=False)
        stream.write("\n")


# --- Conversion of values to JSON and back. A reader raises an exception if the value is invalid.

ValueReader: TypeAlias = Callable[[Any], Any]


def _to_json(value: Any) -> Any:
    """Return a value as JSON can represent it."""
    if isinstance(value, GoodnessOfFit | FitSettings):
        return _to_json(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def _read_text(value: Any) -> str:
    """Return a text. Raises for other values, as all readers here."""
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # raises for half of a surrogate pair
    return value


def read_texts(value: Any) -> list[str]:
    """Return a list of texts."""
    return _read_list(value, _read_text)


def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _read_int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        raise ValueError
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _read_list(value: Any, read: ValueReader) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return [read(item) for item in value]


def _read_array(value: Any) -> Any:
    """Return a number, or an array of floats from nested lists of equal lengths."""
    if not isinstance(value, list):
        return _read_number(value)
    if not value:
        raise ValueError
    return np.array([_read_array(item) for item in value], dtype=np.float64)


def _read_counts(value: Any) -> Any:
    return np.array(_read_list(value, lambda row: _read_list(row, _read_int)), dtype=np.int64)


def _read_labels(value: Any, least: int = 2) -> tuple[Any, ...]:
    texts = isinstance(value, list) and all(isinstance(label, str) for label in value)
    labels = tuple(_read_list(value, _read_text if texts else _read_int))
    if len({*labels}) < len(labels) or len(labels) < least:
        raise ValueError
    return labels


def _mapping_of(read: ValueReader) -> ValueReader:
    return lambda value: {name: read(item) for name, item in value.items()}


def _pair_of(read: ValueReader) -> ValueReader:
    def pair(value: Any) -> tuple[Any, Any]:
        low, high = _read_list(value, read)
        return low, high

    return pair


def _read_datetime(value: Any) -> str:
    return datetime.fromisoformat(_read_text(value)).isoformat()


def _read_quantity(value: Any) -> dict[str, float | None]:
    return {"value": _read_number(value["value"]), "stderr": _optional(_read_number)(value["stderr"])}


def _optional(read: ValueReader) -> ValueReader:
    return lambda value: None if value is None else read(value)


def _read_goodness(value: Any) -> GoodnessOfFit:
    figures: dict[str, Any] = {
        name: tuple(_read_list(item, _read_number)) if isinstance(item, list) else _optional(_read_number)(item)
        for name, item in value.items()
    }
    return GoodnessOfFit(**figures)


def _read_loss_name(value: Any) -> str:
    if value and value not in LOSSES:
        raise ValueError
    return _read_text(value)


def _read_settings(value: Any) -> FitSettings:
    settings: dict[str, Any] = {
        name: None if item is None else _SETTING_READERS[type(item)](item) for name, item in value.items()
    }
    return FitSettings(**settings)


_SETTING_READERS: dict[type, ValueReader] = {str: _read_text, bool: _read_bool}


def _read_history(value: Any) -> list[dict[str, float]]:
    return _read_list(value, lambda record: {name: _read_history_value(name, item) for name, item in record.items()})


def _read_history_value(name: str, value: Any) -> float:
    return _read_int(value) if name == "epoch" else _read_number(value)


# The keys of a model file, which are attributes of a fit, and how each is read.
VALUE_READERS: dict[str, ValueReader] = {
    "model": _read_text,
    "rows": _read_int,
    "parameters": _mapping_of(_read_array),
    "fixed": _mapping_of(_read_array),
    "stderr": _mapping_of(_optional(_read_array)),
    "loss": _read_number,
    "rss": _optional(_read_number),
    "dof": _read_int,
    "r_squared": _optional(_read_number),
    "optimizer": _read_text,
    "epochs": _read_int,
    "converged": _read_bool,
    "failure": _read_text,
    "history": _read_history,
    "covariance": _optional(_read_array),
    "definition": _read_text,
    "formula": _read_text,
    "warnings": read_texts,
    "notes": read_texts,
    "classes": _optional(_read_labels),
    "accuracy": _optional(_read_number),
    "confusion": _optional(_read_counts),
    "scale": _optional(_read_number),
    "loss_name": _optional(_read_loss_name),
    "huber_delta": _optional(_read_number),
    "penalty": _optional(_read_number),
    "figures": _read_goodness,
    "interval_dof": _optional(_read_int),
    "confidence_level": _read_number,
    "bounds": _mapping_of(_pair_of(_read_number)),
    "intervals": _mapping_of(_mapping_of(_optional(_pair_of(_read_array)))),
    "origins": _mapping_of(_read_datetime),
    "derived": _mapping_of(_read_quantity),
    "terms": _read_settings,
    "levels": lambda value: {_read_text(name): _read_labels(levels, 1) for name, levels in value.items()},
    "validation_rows": _read_int,
    "validation_loss": _optional(_read_number),
    "validation_accuracy": _optional(_read_number),
}
