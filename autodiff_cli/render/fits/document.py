"""A fit as `train --json` writes it. What is not known, for whatever reason, is null."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.fits.diagnosis import diagnosis_document
from autodiff_cli.training.prediction.picture import Picture
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]


def fit_document(fit: FittedModel) -> dict[str, Any]:
    """The document of a fit.

    >>> import autodiff_cli as ad
    >>> fit_document(ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4.1]}))["dof"]
    1
    """
    return {
        "model": fit.model,
        "rows": fit.rows,
        "parameters": numbers(fit.parameters),
        "fixed": numbers(fit.fixed),
        "stderr": {name: _known(error) for name, error in fit.stderr.items()},
        "confidence": _confidence(fit),
        "covariance": _pairs(fit, fit.covariance),
        "correlation": _pairs(fit, fit.correlation),
        "loss": number(fit.loss),
        "rss": number(fit.rss),
        "dof": fit.dof,
        "r_squared": _known(fit.r_squared),
        **_figures(fit),
        "optimizer": fit.optimizer,
        "epochs": fit.epochs,
        "converged": fit.converged,
        "formula": fit.formula or None,
        **({"intervals": {kind: _ends(found) for kind, found in fit.intervals.items()}} if fit.intervals else {}),
        **({"derived": {name: numbers(of_one) for name, of_one in fit.derived.items()}} if fit.derived else {}),
        **({"bounds": {name: [*map(number, ends)] for name, ends in fit.bounds.items()}} if fit.bounds else {}),
        **({} if fit.scale is None else {"scale": number(fit.scale)}),
        **({} if fit.penalty is None else {"penalty": number(fit.penalty)}),
        **_classification(fit),
        **_validation(fit),
        **({} if fit.diagnosis is None else {"diagnosis": diagnosis_document(fit.diagnosis)}),
        **({} if fit.picture is None else {"plot": _picture(fit.picture)}),
        "history": [
            {name: value if name == "epoch" else number(value) for name, value in record.items()}
            for record in fit.history
        ],
        "warnings": fit.warnings,
    }


def _figures(fit: FittedModel) -> dict[str, Any]:
    """Those that every fit has, if only as null, and those that few have."""
    figures = fit.figures
    common = {
        "adjusted_r_squared": figures.adjusted_r_squared,
        "rmse": figures.rmse,
        "reduced_chi_squared": figures.reduced_chi_squared,
        "log_likelihood": figures.log_likelihood,
        "aic": figures.aic,
        "aicc": figures.aicc,
        "bic": figures.bic,
    }
    rare = {
        "chi_squared_p": figures.chi_squared_p,
        "deviance": figures.deviance,
        "null_deviance": figures.null_deviance,
        "dispersion": figures.dispersion,
        "durbin_watson": figures.durbin_watson,
        "residual_quantiles": figures.residual_quantiles and [*figures.residual_quantiles],
    }
    return {name: number(x) for name, x in {**common, **{k: x for k, x in rare.items() if x is not None}}.items()}


def _known(value: Any) -> Any:
    """A number, or an array of them, with null for nan."""
    if isinstance(value, np.ndarray):
        return [_known(part) for part in value]
    return None if value is None or math.isnan(value) else number(float(value))


def _confidence(fit: FittedModel) -> dict[str, Any]:
    pairs = fit.confidence().items()
    return {"level": fit.confidence_level, **{name: ends and [*map(_known, ends)] for name, ends in pairs}}


def _ends(intervals: dict[str, Any]) -> dict[str, Any]:
    return {name: ends and [*map(_known, ends)] for name, ends in intervals.items()}


def _picture(picture: Picture) -> dict[str, Any] | None:
    """The rows that a picture shows, and the curve with its band."""
    rows = picture.rows
    if rows is None:
        return None
    band = {} if rows.low is None or rows.high is None else {"low": [*rows.low], "high": [*rows.high]}
    return {
        "x_name": rows.across or "prediction",
        "y_name": rows.target,
        "points": numbers({"x": rows.x, "y": rows.y, "residual": rows.residuals}),
        "curve": numbers({"x": rows.places, "y": rows.curve, **{name: np.array(ends) for name, ends in band.items()}}),
    }


def _pairs(fit: FittedModel, matrix: Array) -> dict[str, Any]:
    """Of every pair of numbers; empty where nothing is known and the pairs are too many to say so for each."""
    has_arrays = any(map(np.ndim, fit.parameters.values()))
    if not fit.numbers or (has_arrays and not fit.definition):
        return {}
    rows = zip(fit.numbers, matrix.tolist(), strict=True)
    return {name: dict(zip(fit.numbers, map(_known, row), strict=True)) for name, row in rows}


def _classification(fit: FittedModel) -> dict[str, Any]:
    right = {} if fit.accuracy is None else {"accuracy": number(fit.accuracy)}
    if fit.classes is None or fit.confusion is None:
        return right
    return {"classes": [*fit.classes], **right, "confusion": fit.confusion.tolist()}


def _validation(fit: FittedModel) -> dict[str, Any]:
    if fit.validation_loss is None:
        return {}
    right = {} if fit.validation_accuracy is None else {"validation_accuracy": number(fit.validation_accuracy)}
    return {"validation_rows": fit.validation_rows, "validation_loss": number(fit.validation_loss), **right}
