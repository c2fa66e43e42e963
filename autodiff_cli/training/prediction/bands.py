"""How far off a prediction may be: confidence bands for the mean, prediction bands for new numbers.

The variance of a prediction is `g·Σ·gᵀ`, of its exact gradient g towards the parameters and their covariance Σ (the
delta method). A new number has the variance of the residuals besides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.signs import rises
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.ops.structural import index
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.objective.losses import LOSSES, LossKind
from autodiff_cli.training.options import checked_level
from autodiff_cli.training.prediction.quantiles import count_quantiles, gamma_quantiles

if TYPE_CHECKING:
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]

_NUMBERS = 4_000_000  # of gradients that are held at a time


class Bands(NamedTuple):
    """Predictions and the ends of their bands, each of shape (rows,), or (rows, n) for a target of n components.

    Attributes:
        confidence_low, confidence_high: the mean at the predictors lies between them, with the probability asked for.
        prediction_low, prediction_high: a new number does; nan where nothing tells how far numbers lie off the mean.
    """

    prediction: Array
    confidence_low: Array
    confidence_high: Array
    prediction_low: Array
    prediction_high: Array


def bands(
    fit: FittedModel, model: Model, point: Mapping[str, Any], spread: Array | float | None, level: float
) -> Bands:
    """The bands of a fit at new rows.

    Args:
        model: resolved.
        point: the values of all leaves: parameters, and columns of shape (rows,).
        spread: what the standard deviation of a row is, beside that of the others, from the weights or sigmas of the
            fit; None where rows were weighed and nothing says how new ones are.
        level: the probability, 0.95 or 95 per cent, say.

    Raises:
        OptionError: for a fit without standard errors, one of classes, and for what is no level.
    """
    _check(fit)
    level = checked_level(level)
    program, shapes = model.program, model.shapes
    outputs = [program.output]
    for length in model.target_shape:
        outputs = [index(program.output, k) for k in range(length)]
    leaves = [program.leaves[name] for name in fit.parameters]
    found = [_band(fit, output, leaves, point, shapes, spread, level) for output in outputs]
    if not model.target_shape:
        return found[0]
    return Bands(*(np.stack(columns, axis=-1) for columns in zip(*found, strict=True)))


def _check(fit: FittedModel) -> None:
    if fit.classes is not None:
        raise OptionError("classes have probabilities (--probabilities), but no interval")
    if not fit.definition:
        why = next((text for text in fit.warnings if text.startswith("no standard errors")), "")
        raise OptionError(f"no interval is known: the fit has {why or 'no standard errors'}")


def _band(
    fit: FittedModel,
    output: Node,
    leaves: Sequence[Node],
    point: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    spread: Array | float | None,
    level: float,
) -> Bands:
    likelihood = _kind(fit) is LossKind.LIKELIHOOD
    end = output.op if likelihood and rises(output) else None
    inner = output if end is None else output.inputs[0]
    width = fit.quantile(level)
    with quiet():
        middle, error = _delta(inner, leaves, point, shapes, fit.held_covariance)
        low, high = middle - width * error, middle + width * error
        prediction = middle
        if end is not None:
            # The ends of what the mean is a function of: so a probability stays between 0 and 1.
            slope = end(variable("eta"))
            prediction, low, high = (evaluate([slope], {"eta": values})[0] for values in (middle, low, high))
            error = _delta(output, leaves, point, shapes, fit.held_covariance)[1]
        below, above = _new_numbers(fit, prediction, error, spread, width, level)
    return Bands(prediction, low, high, below, above)


def _delta(
    output: Node, leaves: Sequence[Node], point: Mapping[str, Any], shapes: Mapping[str, Shape], covariance: Array
) -> tuple[Array, Array]:
    """The values of a graph, and their standard errors."""
    shared, *places = share([output, *leaves])
    graphs = simplify([shared, *gradient_nodes(shared, places, shapes)])
    rows = {name: values for name, values in point.items() if np.ndim(values) > len(shapes.get(name, ()))}
    count = len(next(iter(rows.values()))) if rows else 1
    size = max(1, _NUMBERS // max(1, len(covariance)))
    known = ~np.isnan(np.diag(covariance))
    sure = np.where(np.outer(known, known), covariance, 0.0)
    values, errors = [], []
    for start in range(0, count, size):
        part = {name: values[start : start + size] for name, values in rows.items()}
        many = min(size, count - start)
        found, *slopes = evaluate(graphs, {**point, **part}, shapes)
        parts = [
            np.broadcast_to(slope, (many, *shapes.get(leaf.text, ()))).reshape(many, -1)
            for slope, leaf in zip(slopes, leaves, strict=True)
        ]
        gradient = np.hstack(parts)
        variance = np.sum((gradient @ sure) * gradient, axis=1)
        # A prediction that a parameter of unknown error has no part in is as sure as the others make it.
        variance[(gradient[:, ~known] != 0).any(axis=1)] = math.nan
        values.append(np.broadcast_to(found, (many,)))
        errors.append(np.sqrt(np.maximum(variance, 0)))
    return np.concatenate(values), np.concatenate(errors)


def _new_numbers(
    fit: FittedModel, mean: Array, error: Array, spread: Array | float | None, width: float, level: float
) -> tuple[Array, Array]:
    """The ends of the bands for new numbers."""
    shares = (1 - level) / 2, (1 + level) / 2
    if fit.loss_name == "poisson":
        low, high = (count_quantiles(mean, error, share) for share in shares)
        return low, high
    if fit.loss_name == "gamma" and fit.figures.dispersion is not None:
        variance = np.square(error) + fit.figures.dispersion * np.square(mean)
        low, high = (gamma_quantiles(mean, variance, share) for share in shares)
        return low, high
    noise = _residual_deviation(fit)
    if noise is None or spread is None:
        nothing = np.full_like(mean, math.nan)
        return nothing, nothing
    total = np.hypot(error, noise * spread)
    return mean - width * total, mean + width * total


def _kind(fit: FittedModel) -> LossKind:
    if fit.loss_name == "":
        return LossKind.LIKELIHOOD if fit.terms.likelihood else LossKind.OTHER
    return LOSSES[fit.loss_name or "mse"].kind


def _residual_deviation(fit: FittedModel) -> float | None:
    """The standard deviation of a row whose `spread` is 1."""
    if _kind(fit) is LossKind.ROBUST:
        return fit.scale
    if fit.terms.absolute_sigma:
        return 1.0
    return fit.figures.residual_std if _kind(fit) is LossKind.SQUARES else None


def lacks_prediction_band(fit: FittedModel, has_spread: bool) -> str:
    """Why there are no prediction bands, as a sentence; empty if there are."""
    terms = fit.terms
    if fit.loss_name == "bce":
        return "no prediction band: what is 0 or 1 has a probability, which the confidence band is about"
    if _kind(fit) is LossKind.LIKELIHOOD and not fit.loss_name:
        return "no prediction band: the model is a likelihood itself"
    if terms.weighted and not has_spread and _kind(fit) in (LossKind.SQUARES, LossKind.ROBUST):
        column = f", whose column `{terms.weighing}` these data lack" if terms.weighing else ""
        return f"no prediction band: the fit weighed rows{column}, so that nothing tells how far new ones are off"
    return ""
