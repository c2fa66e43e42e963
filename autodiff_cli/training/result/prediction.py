"""Predictions with their uncertainty, as columns of a table and as the data of a plot.

The variance of a prediction is `g·Σ·gᵀ`, for its exact gradient g with respect to the parameters and their covariance Σ
(the delta method). Confidence bands are about the mean; prediction bands are about a new observation, which adds the
variance of the residuals or of the distribution of the target.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.algebra.simplify import is_increasing, share, simplify
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.reductions import block_slices
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.streaming import StreamedColumns, label_key
from autodiff_cli.data.table import DataError, float_array, named_columns
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import group_pairs, leaf_names
from autodiff_cli.language.errors import check_known, format_names
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import joined_columns
from autodiff_cli.numbers.arrays import Elementwise
from autodiff_cli.numbers.gamma_functions import betainc, gammaincc, gammaincinv
from autodiff_cli.ops.structural import stack
from autodiff_cli.options import OptionError, convert_plain_value
from autodiff_cli.training.losses import COUNT_LOSSES, LOSSES, LossKind
from autodiff_cli.training.objective.kernels import component_graphs, x_sigma_column
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions, canonicalize_names, check_confidence_level
from autodiff_cli.training.result.fitted_model import FitPlot, FittedCurve, FittedModel
from autodiff_cli.training.result.goodness import normal_quantile
from autodiff_cli.training.result.statistics import delta_method_variances
from autodiff_cli.training.rows import WEIGHT

_INVERTIBLE_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.kind in (LossKind.SQUARES, LossKind.ROBUST))
_NEGLIGIBLE_ERROR = 1e-9  # relative error of a mean that counts as exact
_MAX_COUNT = 2.0**53  # mean of counts: floats are not exact integers beyond
_MAX_BISECTIONS = 80  # steps, enough for counts up to 2^80
_BETA_CDF, _POISSON_CDF, _GAMMA_QUANTILE = Elementwise(betainc), Elementwise(gammaincc), Elementwise(gammaincinv)


def count_quantiles(mean: Array, error: Array, share: float) -> Array:
    """Return the smallest count that a new count exceeds with a probability of at most `1 - share`.

    A Poisson distribution whose mean has a gamma distribution, with this mean and standard deviation, is a negative
    binomial distribution: Greenwood & Yule 1920.

    >>> count_quantiles(np.array([4.0]), np.array([0.0]), 0.975).tolist()
    [8.0]
    """
    is_exact = error <= _NEGLIGIBLE_ERROR * mean
    shape = np.square(mean / np.where(is_exact, 1.0, error))
    probability, complement = shape / (shape + mean), mean / (shape + mean)

    def below(count: Array) -> Array:
        return np.where(is_exact, _POISSON_CDF(count + 1, mean), _BETA_CDF(shape, count + 1, probability, complement))

    low, high = np.full_like(mean, -1.0), np.maximum(np.ceil(mean), 1.0)
    for _ in range(_MAX_BISECTIONS):
        is_below = below(high) < share
        if not is_below.any():
            break
        low, high = np.where(is_below, high, low), np.where(is_below, 2 * high, high)
    for _ in range(_MAX_BISECTIONS):
        if not (high - low > 1).any():
            break
        middle = np.ceil((low + high) / 2)  # of a row that is finished, `high`
        is_below = below(middle) < share
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.where((mean >= 0) & (mean <= _MAX_COUNT) & np.isfinite(error), high, np.nan)


def _draw_counts(generator: np.random.Generator, means: Array, weight: Array, theta: float | None) -> Array:
    """Return for each mean the random mean of `weight` counts; nan where counts cannot have it.

    Args:
        theta: the theta of negative binomial counts; None for Poisson counts.
    """
    counts = weight * means
    is_possible = (counts >= 0) & (counts <= _MAX_COUNT) & (weight > 0)
    if theta is None:
        drawn = generator.poisson(np.where(is_possible, counts, 0.0))
    else:
        size = np.where(is_possible, weight * theta, 1.0)
        drawn = generator.negative_binomial(size, np.where(is_possible, theta / (theta + means), 1.0))
    return np.where(is_possible, drawn, np.nan) / weight


def gamma_quantiles(mean: Array, variance: Array, share: float) -> Array:
    """Return the quantile of probability `share` of gamma distributions with given means and variances.

    >>> gamma_quantiles(np.array([1.0]), np.array([1.0]), 0.5).round(6).tolist()
    [0.693147]
    """
    return _GAMMA_QUANTILE(np.square(mean) / variance, share) * variance / mean


_MAX_GRADIENT_VALUES = 4_000_000  # elements of gradients in memory at a time


RESIDUAL_SIGMAS = ("sigma", "residual_sigma")  # the residuals' standard deviation has one of these names


def residual_sigma_name(model: Model) -> str:
    """Return the name of the residuals' standard deviation as a parameter: `sigma`, unless the model has one."""
    name, other = RESIDUAL_SIGMAS
    return other if model.accepts(name) or name in (*model.program.leaves, *model.program.bound) else name


class Bands(NamedTuple):
    """Predictions with the limits of their bands, each of shape (rows,), or (rows, n) for a target of n components.

    Attributes:
        prediction: the predicted mean.
        confidence_low, confidence_high: the mean is between them with the requested probability.
        prediction_low, prediction_high: a new observation is between them; nan if the spread of observations is
            unknown.
    """

    prediction: Array
    confidence_low: Array
    confidence_high: Array
    prediction_low: Array
    prediction_high: Array


@overload
def predict(fit: FittedModel, data: Mapping[str, ArrayLike], interval: None = None) -> NDArray[Any]: ...


@overload
def predict(fit: FittedModel, data: Mapping[str, ArrayLike], interval: float) -> Bands: ...


def predict(fit: FittedModel, data: Mapping[str, ArrayLike], interval: float | None = None) -> NDArray[Any] | Bands:
    """Return the predictions for new rows, of shape (rows,), or (rows, n) for a target of n components.

    A classifier returns the label of the most probable class; `probabilities` returns the numbers.

    Args:
        data: an array for each column that the prediction reads; other columns are ignored. A prediction that reads
            none is repeated for each row of the first column.
        interval: the probability of confidence and prediction bands, such as 0.95; the result is then a `Bands`. If
            the fit weighted the rows, prediction bands need the column of weights or sigmas, too.

    Raises:
        MissingValueError: if a column is missing.
        DataError: for columns of different lengths; one value is repeated for all rows.
        OptionError: if there is no interval, as for classifiers and fits without standard errors.

    >>> import autodiff_cli as ad
    >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
    >>> fit.predict({"x": [10, 20]}).round(3)
    array([20.143, 40.286])
    >>> fit.predict({"x": [10]}, interval=0.95).confidence_low.round(3)
    array([19.456])
    """
    if interval is not None:
        return _prediction_bands(fit, data, interval)
    predicted = fit.probabilities(data)
    return predicted if fit.classes is None else np.array(fit.classes)[np.argmax(predicted, axis=-1)]


def _prediction_bands(fit: FittedModel, data: Mapping[str, ArrayLike], level: float) -> Bands:
    """Return the bands of a fit for new rows.

    Raises OptionError for a fit without standard errors, a classifier, and an invalid level.
    """
    model, (point, spreads) = fit.parsed_model, _point_and_spreads(fit, data)
    if fit.classes is not None:
        raise OptionError("a classifier has no intervals; use --probabilities")
    if fit.random_effects:
        raise OptionError("a fit with random effects has no intervals of predictions")
    if not fit.definition:
        reason = next((text for text in fit.warnings if text.startswith("no standard errors")), "")
        raise OptionError(f"the fit has no intervals: {reason or 'no standard errors'}")
    level = check_confidence_level(level)
    outputs = component_graphs(model.program.output, model.target_shape)
    pairs = zip(outputs, itertools.cycle(spreads), strict=False)
    bands = [_component_bands(fit, output, point, spread, level) for output, spread in pairs]
    components = (np.stack(columns, axis=-1) for columns in zip(*bands, strict=True))
    return Bands(*components) if model.target_shape else bands[0]


def predict_posterior(fit: FittedModel, data: Mapping[str, ArrayLike], interval: float = 0.95) -> Bands:
    """Return the bands of new rows from the draws of the posterior: quantiles of the mean, and of simulated
    observations. The prediction is the mean over the draws. See `predict` for the arguments.

    Raises:
        MissingValueError: if a column is missing.
        OptionError: for a fit without draws, and for an invalid level.

    >>> import autodiff_cli as ad
    >>> ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]}).predict_posterior({"x": [10]})
    Traceback (most recent call last):
        ...
    autodiff_cli.options.OptionError: the fit has no draws from its posterior: add --posterior 1000 ...
    """
    model, (point, spreads) = fit.parsed_model, _point_and_spreads(fit, data)
    if not fit.draws:
        raise OptionError("the fit has no draws from its posterior: add --posterior 1000 to train, or posterior=1000")
    level, generator = check_confidence_level(interval), np.random.default_rng(0)
    shares, rank = ((1 - level) / 2, (1 + level) / 2), 1 + len(model.target_shape)
    draws = {name: values.reshape(-1, *values.shape[2:]) for name, values in fit.draws.items()}
    free = {name: np.expand_dims(draws[name], 1) for name in fit.parameters}
    sigma = next((draws[name] for name in RESIDUAL_SIGMAS if name in draws.keys() - free.keys()), np.ones(1))
    known = [np.asarray(each) for each in spreads if each is not None]
    spread = np.stack(np.broadcast_arrays(*known), axis=-1) if len(known) == len(spreads) else None
    size, bands = max(1, _MAX_GRADIENT_VALUES // (len(sigma) * len(next(iter(draws.values()))))), list[Array]()
    for rows, part in _row_parts(fit, point, size):
        with ignore_float_errors():
            (means,) = evaluate([model.program.output], {**part, **free}, model.shapes)
            means = np.broadcast_to(means, (len(means), rows.stop - rows.start, *model.target_shape))
            observed = np.full((2, *means.shape[1:]), math.nan)
            if spread is not None and (_loss_kind(fit) is LossKind.SQUARES or fit.loss_name in COUNT_LOSSES):
                own = spread if spread.ndim == 1 else spread[rows]
                own = own if rank == 2 else own[..., 0]
                weight = 1 / np.square(own)
                if fit.loss_name in COUNT_LOSSES:
                    noise = _draw_counts(generator, means, weight, fit.scale)
                else:
                    noise = means + generator.normal(0, 1, means.shape) * sigma.reshape(-1, *[1] * rank) * own
                observed = np.quantile(noise, shares, axis=0)
            bands.append(np.array([means.mean(axis=0), *np.quantile(means, shares, axis=0), *observed]))
    return Bands(*np.concatenate(bands, axis=1))


def _row_parts(fit: FittedModel, point: Mapping[str, Any], size: int) -> Iterator[tuple[slice, dict[str, Any]]]:
    """Yield the rows of a point in parts of at most `size`, with the values of all leaves in these rows."""
    shapes = fit.parsed_model.shapes
    rows = {name: values for name, values in point.items() if np.ndim(values) > len(shapes.get(name, ()))}
    for part in [*block_slices(len(next(iter(rows.values()))) if rows else 1, size)] or [slice(0, 0)]:
        yield part, {**point, **{name: values[part] for name, values in rows.items()}}


def _point_and_spreads(fit: FittedModel, data: Mapping[str, ArrayLike]) -> tuple[dict[str, Any], list[Any]]:
    """Return the value of every leaf of the prediction, and the relative standard deviation of each row, from the
    weights or sigmas of the fit, and from the errors of its predictors.

    The deviation is one value for all targets or one for each; None if the fit was weighted and the weights of new rows
    are unknown.

    Raises DataError for weights or sigmas of another length than the predictors.
    """
    settings, program, shapes = fit.settings, fit.parsed_model.program, fit.parsed_model.shapes
    arrays, point = named_columns(data), fit.leaf_values(data, shared=True)
    graphs = settings.spread_graphs(arrays) if settings.weighted else None
    if graphs is None:
        return point, [None if settings.weighted else 1.0]
    columns = {name: float_array(arrays[name], name) for name in leaf_names([*graphs.values()])}
    rows = np.shape([*point.values()][-1])  # the columns, which are last, have one shape
    for name, values in columns.items():
        if values.shape not in ((), (1,), rows):
            raise DataError(f"the columns differ in length: `{name}` has {values.size}, others have {math.prod(rows)}")
    tangents = gradient_nodes(program.output, [program.leaves[name] for name in settings.x_sigma], shapes)
    with ignore_float_errors():
        values, *x_errors = evaluate([*graphs.values()], columns)
        spread = values if settings.sigma is not None else 1 / np.sqrt(values)
        slopes = evaluate(tangents, point, shapes) if tangents else ()
        for slope, x_error in zip(slopes, x_errors, strict=True):
            spread = np.hypot(spread, slope * x_error)
    return point, [*np.moveaxis(spread, -1, 0)] if graphs[""].op is stack else [spread]


def _component_bands(
    fit: FittedModel, output: Node, point: Mapping[str, Any], spread: Array | float | None, level: float
) -> Bands:
    """Return the bands of one component of the target."""
    link = output.op if _loss_kind(fit) is LossKind.LIKELIHOOD and is_increasing(output) else None
    linear_predictor = output if link is None else output.inputs[0]
    width = fit.quantile(level)
    with ignore_float_errors():
        middle, error = _delta_method(fit, linear_predictor, point)
        low, high = middle - width * error, middle + width * error
        prediction = middle
        if link is not None:
            # The band of the linear predictor is transformed, so that a probability stays between 0 and 1.
            slope = link(variable("eta"))
            prediction, low, high = (evaluate([slope], {"eta": values})[0] for values in (middle, low, high))
            error = _delta_method(fit, output, point)[1]
        below, above = _prediction_limits(fit, prediction, error, spread, width, level)
        if link is not None:
            # Where the mean is very uncertain, its band is wider than a distribution with its standard error.
            unit = np.square(spread) if spread is not None and fit.loss_name in COUNT_LOSSES else None
            least, most = (low, high) if unit is None else (np.ceil(low / unit) * unit, np.floor(high / unit) * unit)
            below, above = np.minimum(below, least), np.maximum(above, most)
    return Bands(prediction, low, high, below, above)


def _delta_method(fit: FittedModel, output: Node, point: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the values of a graph of the parameters of a fit, and their standard errors."""
    shapes, deviations = fit.parsed_model.shapes, fit.errors_on_bounds
    shared, *leaves = share([output, *(fit.parsed_model.program.leaves[name] for name in fit.parameters)])
    graphs = simplify([shared, *gradient_nodes(shared, leaves, shapes)])
    values, errors = [], []
    for rows, part in _row_parts(fit, point, max(1, _MAX_GRADIENT_VALUES // max(1, len(deviations)))):
        length = rows.stop - rows.start
        prediction, *slopes = evaluate(graphs, part, shapes)
        parts = [
            np.broadcast_to(slope, (length, *shape)).reshape(length, math.prod(shape))
            for slope, shape in zip(slopes, (shapes.get(leaf.text, ()) for leaf in leaves), strict=True)
        ]
        values.append(np.broadcast_to(prediction, (length,)))
        errors.append(np.sqrt(delta_method_variances(np.hstack(parts), fit, deviations)))
    return np.concatenate(values), np.concatenate(errors)


def _prediction_limits(
    fit: FittedModel, mean: Array, error: Array, spread: Array | float | None, width: float, level: float
) -> tuple[Array, Array]:
    """Return the limits of the prediction bands."""
    shares = (1 - level) / 2, (1 + level) / 2
    if spread is not None and fit.loss_name in COUNT_LOSSES:
        weight = 1 / np.square(spread)  # the target is the mean of so many counts
        extra = np.square(mean) / fit.scale if fit.scale else 0.0
        if fit.settings.family == "quasipoisson" and fit.dispersion is not None:
            extra = max(fit.dispersion - 1, 0.0) * mean
        total = np.hypot(weight * error, np.sqrt(weight * extra))
        low, high = (count_quantiles(weight * mean, total, share) / weight for share in shares)
        return low, high
    if spread is not None and fit.loss_name == "gamma" and fit.dispersion is not None:
        # The dispersion is estimated, so intervals are wider, as Student's t distribution is than the normal one.
        widening = np.square(width / normal_quantile(level))
        variance = widening * (np.square(error) + fit.dispersion * np.square(mean * spread))
        low, high = (gamma_quantiles(mean, variance, share) for share in shares)
        return low, high
    noise = _residual_std(fit)
    total = np.hypot(error, math.nan if noise is None or spread is None else noise * spread)
    return mean - width * total, mean + width * total


def _loss_kind(fit: FittedModel) -> LossKind:
    """Return the kind of the loss of a fit."""
    unnamed = LossKind.LIKELIHOOD if fit.settings.likelihood else LossKind.OTHER
    return LOSSES[fit.loss_name].kind if fit.loss_name else unnamed


def _residual_std(fit: FittedModel) -> float | None:
    """Return the standard deviation of a row with relative spread 1; None if it is unknown."""
    return 1.0 if fit.settings.absolute_sigma else fit.residual_std


def _missing_band_reason(fit: FittedModel, bands: Bands, names: Collection[str]) -> str:
    """Return a sentence on why predictions have no bands, or no prediction band; empty if all have them.

    Args:
        names: the columns of the data.
    """
    is_known = np.isfinite(bands.prediction)
    lacks_error = is_known & np.isnan(bands.confidence_low)
    if not (is_known & ~lacks_error & np.isnan(bands.prediction_low)).any():
        reason = "no bands where the prediction depends on a parameter without a standard error"
        return reason if lacks_error.any() else ""
    settings = fit.settings
    if fit.loss_name == "bce":
        return "no prediction band: the prediction is a probability or a proportion; see its confidence band"
    if _loss_kind(fit) is LossKind.LIKELIHOOD and not fit.loss_name:
        return "no prediction band: the model is a likelihood without a target"
    if settings.weighted and settings.spread_graphs(names) is None:
        sources = [source for source in (settings.weighting, *settings.x_sigma.values()) if source is not None]
        columns = f" by {format_names(sources, '`')}, whose columns these data lack" if sources else ""
        return f"no prediction band: the fit weighted the rows{columns}, so the spread of new rows is unknown"
    if fit.penalty is None or fit.loss_name in COUNT_LOSSES:
        return "no prediction band where the predicted mean or a weight is out of range, such as a negative mean count"
    return "no prediction band where the spread of new rows is unknown, as after an l2 penalty"


# --- Inverse prediction

_MAX_BAND = 1e150  # size of a prediction above which the squares in its standard error overflow
_INVERSE_POINTS = 4001  # points of the range at which the prediction is compared with a reading


class InversePrediction(NamedTuple):
    """A value of a predictor at which the prediction is equal to a new reading of the target.

    Attributes:
        value: the value; None for a range in which the prediction only comes close to the reading, such as one beyond
            a plateau.
        stderr: its standard error by the delta method, from the standard errors of the reading and of the prediction.
        low, high: its confidence interval, where reading and prediction are not significantly different; None where the
            range has no limit.
    """

    value: float | None
    stderr: float | None
    low: float | None
    high: float | None


def inverse(
    fit: FittedModel,
    column: str,
    reading: float,
    error: float | None = None,
    *,
    limits: tuple[float, float] | None = None,
    others: Mapping[str, float | str] | None = None,
    level: float | None = None,
) -> list[InversePrediction]:
    """Return all values of a predictor in a range at which the prediction is equal to a new reading of the target: the
    calibration problem.

    Args:
        column: the predictor.
        reading: the new value of the target's column.
        error: its standard error; by default the standard deviation of the residuals.
        limits: the range of the predictor; by default its range in the fitted rows.
        others: the values of the other predictors.
        level: the probability of the intervals; by default the confidence level of the fit.

    Raises:
        OptionError: for a model without such an inverse, an invalid range, and an unknown error.
        MissingValueError: if another predictor has no value.
        UnknownNameError: for a value of a column that is not another predictor.

    >>> import autodiff_cli as ad
    >>> fit = ad.fit("y ~ a + b*x", {"x": [1, 2, 3, 4, 5], "y": [2.1, 3.9, 6.2, 7.8, 10.1]})
    >>> [round(float(each), 3) for each in fit.inverse("x", 7, 0.1, limits=(0, 10))[0]]
    [3.492, 0.067, 3.281, 3.713]
    """
    model, chosen, column = fit.parsed_model, canonicalize_names("others", others), canonical_name(column)
    if limits is None and column not in fit.ranges:
        raise OptionError(f"the range of `{column}` is not known: give it as limits")
    if limits is not None and np.shape(limits) != (2,):
        raise OptionError(f"limits are the ends of the range of `{column}`, such as (0, 10)")
    limits = fit.ranges[column] if limits is None else limits
    low, high = (convert_plain_value(end, float, "a limit") for end in limits)
    reading = convert_plain_value(reading, float, "a reading")
    program, target = model.program, model.program.target
    if fit.random_effects:
        raise OptionError("a fit with random effects has no inverse predictions")
    leaves = [] if target is None or model.target_shape else leaf_names([target])
    if target is None or len(leaves) != 1 or fit.loss_name not in _INVERTIBLE_LOSSES:
        raise OptionError("an inverse prediction needs least squares or a robust loss, and one target column")
    if column not in fit.predictors or column in fit.label_columns:
        raise OptionError(f"the prediction does not read numbers from `{column}`")
    known = {part for name in fit.predictors for part in (name, *joined_columns(name, chosen))} - {column}
    for name in chosen:
        check_known(name, known, "the prediction reads no other column")
    if not -math.inf < low < high < math.inf:
        raise OptionError(f"the range of `{column}` is two numbers, the lower one first, not {low:.15g} to {high:.15g}")
    if error is not None and not 0 <= convert_plain_value(error, float, "the error of a reading") < math.inf:
        raise OptionError(f"the error of a reading must be 0 or positive, not {error:g}")
    both = [target, *gradient_nodes(target, [program.leaves[leaves[0]]])]
    value, factor = (float(each) for each in evaluate(both, {leaves[0]: reading}))
    if not math.isfinite(value):
        raise OptionError(f"the target of the model is undefined or infinite where `{leaves[0]}` is {reading:g}")
    width, deviation = fit.quantile(level), _residual_std(fit) if error is None else abs(factor * error)
    if deviation is None or (error is None and fit.settings.weighted):
        raise OptionError("the standard deviation of a new reading is not known: give its error, such as 3.2+-0.1")

    def difference(x: Array) -> tuple[Array, Array]:
        """Return prediction minus reading, and its standard deviation."""
        bands = predict(fit, {column: x, **chosen}, interval=fit.confidence_level)
        spread = (bands.confidence_high - bands.confidence_low) / 2 / fit.quantile()
        return bands.prediction - value, np.hypot(spread, deviation)

    def excess(x: Array) -> Array:
        """Return the difference minus the largest difference that is not significant."""
        distance, spread = difference(x)
        return np.nan_to_num(np.abs(distance) - width * spread, nan=np.inf)

    def solve(function: Callable[[Array], Array], start: Array, end: Array) -> Array:
        """Return where a function changes its sign between points."""
        is_positive = function(start) > 0
        while (((middle := start / 2 + end / 2) != start) & (middle != end)).any():
            is_before = (function(middle) > 0) == is_positive
            start, end = np.where(is_before, middle, start), np.where(is_before, end, middle)
        return middle

    points = 2 * np.linspace(low / 2, high / 2, _INVERSE_POINTS)
    with ignore_float_errors():
        (distances, widths), is_outside = difference(points), excess(points) > 0
        if (np.isinf(widths) & (np.abs(distances) > _MAX_BAND) & np.isfinite(distances)).any():
            raise OptionError(f"the errors of predictions overflow for `{column}` from {low:g} to {high:g}: narrow it")
        signs = np.where(np.isfinite(distances), np.sign(distances), np.nan)
        crossings = np.flatnonzero(signs[:-1] * signs[1:] < 0)
        exact = np.flatnonzero(np.diff(signs == 0, prepend=False) & (signs == 0))  # such as an end of the range
        places = np.concatenate((crossings, np.minimum(exact, len(points) - 2)))
        before, after = (np.concatenate((points[crossings + k], points[exact])) for k in (0, 1))
        roots = solve(lambda x: predict(fit, {column: x, **chosen}) - value, before, after)
        left, spreads = difference(roots)
        # At a pole or a jump, the difference does not vanish. At a steep root, rounding may leave a small part of it.
        is_root = np.abs(left) < 1e-4 * (np.abs(distances[places]) + np.abs(distances[places + 1]))
        places, roots, spreads = places[is_root], roots[is_root], spreads[is_root]
        tangent = gradient_nodes(program.output, [program.leaves[column]], model.shapes)
        slopes = np.abs(evaluate(tangent, fit.leaf_values({column: roots, **chosen}), model.shapes)[0])
        is_start = np.diff(~is_outside, prepend=False) & ~is_outside  # the first point of each range
        near_roots = np.concatenate((places, places + 1))
        starts = np.delete(np.flatnonzero(is_start), np.cumsum(is_start)[near_roots[~is_outside[near_roots]]] - 1)
        predictions = list[InversePrediction]()
        solutions = [*zip(places.tolist(), roots.tolist(), (spreads / slopes).tolist(), strict=True)]
        for place, root, error in (*solutions, *((first, None, None) for first in starts.tolist())):
            below = np.flatnonzero(is_outside[: place + 1])[-1:]
            above = place + 1 + np.flatnonzero(is_outside[place + 1 :])[:1]
            at = points[place] if root is None else root
            inner = np.minimum(points[below + 1], at), np.maximum(points[above - 1], at)
            ends = [
                float(solve(excess, points[outer], start)[0]) if len(outer) else None
                for outer, start in zip((below, above), inner, strict=True)
            ]
            predictions.append(InversePrediction(root, error, *ends))
    return sorted(predictions, key=lambda each: low if each.low is None else each.low)


# --- Predictions as columns


class PredictionRequest(NamedTuple):
    """The columns to predict besides the prediction itself.

    Attributes:
        level: the probability of the bands; None for no bands.
        probabilities: whether to add the probability of each class, or of a 1.
        residuals: whether to add target minus prediction.
        posterior: whether the bands come from the draws of the posterior.
    """

    level: float | None = None
    probabilities: bool = False
    residuals: bool = False
    posterior: bool = False


class PredictionColumns(NamedTuple):
    """Predicted columns by name, with a note that may be empty."""

    columns: dict[str, NDArray[Any]]
    note: str = ""


def prediction_columns(
    fit: FittedModel, data: Mapping[str, ArrayLike], request: PredictionRequest
) -> PredictionColumns:
    """Return `prediction` and the other requested columns. Several targets have a column each, such as
    `prediction_NAME`.

    Raises:
        OptionError: for columns that the fit cannot predict.

    >>> import autodiff_cli as ad
    >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
    >>> [*prediction_columns(fit, {"x": [1]}, PredictionRequest(0.95)).columns]
    ['prediction', 'confidence_low', 'confidence_high', 'prediction_low', 'prediction_high']
    """
    if request.level is None:
        columns, note = _target_columns(fit, "prediction", predict(fit, data)), ""
    else:
        bands = (predict_posterior if request.posterior else predict)(fit, data, interval=request.level)
        columns = {}
        for name, values in bands._asdict().items():
            columns |= _target_columns(fit, name, values)
        note = _missing_band_reason(fit, bands, data.keys())
    if request.probabilities:
        columns |= _probability_columns(fit, data)
    if request.residuals:
        columns |= _target_columns(fit, "residual", fit.residuals(data))
    return PredictionColumns(columns, note)


def _target_columns(fit: FittedModel, name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return one column per target."""
    if values.ndim == 1:
        return {name: values}
    targets = fit.targets if len(fit.targets) == values.shape[1] else range(values.shape[1])
    return {f"{name}_{target}": column for target, column in zip(targets, values.T, strict=True)}


def _probability_columns(fit: FittedModel, data: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """Return the columns of probabilities. Raises OptionError if the model has none."""
    probabilities = fit.probabilities(data)
    if fit.classes is not None:
        return {f"probability_{label}": column for label, column in zip(fit.classes, probabilities.T, strict=True)}
    if fit.loss_name != "bce":
        raise OptionError("the model predicts numbers, not probabilities; only classifiers and the loss bce have these")
    return _target_columns(fit, "probability", probabilities)


_PREDICTION_CHUNK_ROWS = 1 << 17  # rows: bounds the memory of a prediction


def prediction_chunks(
    fit: FittedModel, rows: int, read: Callable[[], Iterable[Mapping[str, NDArray[Any]]]], request: PredictionRequest
) -> Callable[[], Iterable[PredictionColumns]]:
    """Return a function that returns the predictions of all rows in order, in chunks. Predictions of many
    rows are computed again at every call.

    Args:
        rows: the number of rows.
        read: returns the columns of all rows in order, chunk by chunk.

    Raises:
        OptionError: for columns that the fit cannot predict; for many rows, when the function is called.
    """

    def compute() -> Iterable[PredictionColumns]:
        return (prediction_columns(fit, columns, request) for columns in read())

    known = [*compute()] if rows <= _PREDICTION_CHUNK_ROWS else None
    return compute if known is None else lambda: known


def column_chunks(columns: Mapping[str, NDArray[Any]]) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield columns in memory in chunks of rows."""
    for start in range(0, len(next(iter(columns.values()))), _PREDICTION_CHUNK_ROWS):
        yield {name: values[start : start + _PREDICTION_CHUNK_ROWS] for name, values in columns.items()}


def streamed_chunks(streamed: StreamedColumns) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield columns that are streamed from files in chunks of rows, with labels in place of their codes."""
    labels = {name: column.levels(name) for name, column in streamed.labels.items()}
    for columns, _ in streamed.iter_chunks(streamed.names):
        data: dict[str, NDArray[Any]] = {name: columns[name] for name in streamed.numeric_names}
        for name, levels in labels.items():
            data[name] = levels[columns[label_key(name)].astype(int)]
        yield data


# --- Data of plots


class PlotSettings(NamedTuple):
    """Limits of a plot of a fit, and the rule for logarithmic axes."""

    max_rows: int = 2000  # rows; of more, a random sample is plotted
    max_groups: int = 60  # curves for combinations of labels; with more, a plot compares target and prediction
    max_bins: int = 12  # groups of neighbouring rows whose shares of classes are drawn
    rows_per_bin: int = 10  # rows of such a group, at least
    curve_points: int = 241  # points of a curve, so that it looks smooth at the width of a page
    log_ratio: int = 100  # ratio of maximum to minimum above which an axis may be logarithmic
    log_share: float = 0.1  # share of the range that has half of the rows if the axis is logarithmic


PLOT = PlotSettings()


def collect_plot_data(fit: FittedModel, objective: Objective, theta: Array, options: FitOptions) -> FitPlot | None:
    """Return the data of the plots of a fit; None if the model predicts neither numbers nor classes from one predictor.

    Args:
        theta: the free parameters at the end of the fit.
        options: the options of the fit. If there are too many rows to plot, a sample is drawn with their seed.
    """
    if not objective.has_residuals and objective.classes is None:
        return None
    sample = np.arange(objective.rows)
    if len(sample) > PLOT.max_rows:
        sample = np.sort(np.random.default_rng(options.seed).choice(objective.rows, PLOT.max_rows, replace=False))
    part = objective.select_rows(sample)
    with ignore_float_errors():
        values = part.evaluate_rows(part.kernels.target_and_prediction, theta)
    if objective.classes is not None:
        return _class_plot(fit, part, values)
    targets, predictions = values[: objective.components], values[objective.components :]
    model, columns = objective.model, part.table.columns
    names = [name for name in model.predictors if name in model.numeric]
    labels, groups = _label_groups(fit, model, columns, len(sample))
    first = last = 0.0
    if len(names) == 1 and objective.components == 1 and len(labels) <= PLOT.max_groups and not model.effects:
        first, last = fit.ranges[names[0]]
    predictor, is_log_scale = "", False
    if first == last:
        diagonal = np.array([min(targets.min(), predictions.min()), max(targets.max(), predictions.max())])
        x, groups = predictions.ravel(), np.zeros(targets.size, np.intp)
        curves: tuple[FittedCurve, ...] = (FittedCurve("", diagonal, diagonal),)
    else:
        predictor, x = names[0], np.asarray(columns[names[0]], np.float64)
        is_log_scale = (
            first > 0
            and last / first >= PLOT.log_ratio
            and float(np.median(x)) < first + PLOT.log_share * (last - first)
        )
        ranges = [x[groups == k] for k in range(len(labels))] if len(labels) > 1 else [np.append(x, (first, last))]
        curves = tuple(
            _fitted_curve(fit, predictor, curve_x, label)
            for curve_x, label in zip(map(_curve_points, ranges), labels, strict=True)
        )
    sigma = 1 / np.sqrt(columns[WEIGHT]) if options.sigma is not None and WEIGHT in columns else None
    scales = [columns[name] for name in objective.kernels.graphs.target_scales] or [np.ones(1)] * objective.components
    return FitPlot(
        predictor,
        ", ".join(text[1:-1] if text[1:-1] in fit.columns else text for text in fit.targets),  # without backticks
        x,
        targets.ravel(),
        (targets - predictions).ravel(),
        groups,
        None if sigma is None else np.concatenate([sigma / scale for scale in scales]),
        columns.get(x_sigma_column(predictor)),
        objective.rows,
        curves,
        ", ".join(labels[0]) if len(curves) > 1 else "",
        fit.confidence_level,
        is_log_scale,
    )


def _class_plot(fit: FittedModel, part: Objective, values: Array) -> FitPlot | None:
    """Return the plot of the probability of each class against the predictor.

    Its points are the shares of the classes among neighbouring rows. With several predictors, these shares are plotted
    against the predicted probability.

    Args:
        values: the class of each row, and its predicted probabilities.
    """
    predictors, classes = part.model.predictors, fit.classes or ()
    if len(classes) > PLOT.max_groups:
        return None
    codes, probabilities = values[0], values[1:]
    predictor, ordered = "", probabilities
    curves: tuple[FittedCurve, ...] = tuple(FittedCurve(str(name), *np.tile([0.0, 1.0], (2, 1))) for name in classes)
    if len(predictors) == 1 and predictors[0] in part.model.numeric and np.ptp(part.table.columns[predictors[0]]) > 0:
        predictor = predictors[0]
        x = np.asarray(part.table.columns[predictor], np.float64)
        ordered, curve_x = np.broadcast_to(x, probabilities.shape), _curve_points(x)
        lines = fit.probabilities({predictor: curve_x}).T
        curves = tuple(FittedCurve(str(name), curve_x, line) for name, line in zip(classes, lines, strict=True))
    count = min(PLOT.max_bins, max(2, len(codes) // PLOT.rows_per_bin))
    bins = [np.array_split(np.argsort(each, kind="stable"), count) for each in ordered]

    def means(rows_by_class: Array) -> Array:
        return np.array(
            [np.mean(each[rows]) for each, parts in zip(rows_by_class, bins, strict=True) for rows in parts]
        )

    shares = means(codes == np.arange(len(classes))[:, None])
    return FitPlot(
        predictor,
        "probability and observed share" if predictor else "share",
        means(ordered),
        shares,
        shares - means(probabilities),
        np.repeat(np.arange(len(classes)), count),
        None,
        None,
        part.rows,
        curves,
        ", ".join(fit.targets),
        fit.confidence_level,
        note=f"shares of each class in {count} groups of rows",
    )


def _label_groups(
    fit: FittedModel, model: Model, columns: Mapping[str, NDArray[Any]], rows: int
) -> tuple[list[dict[str, Any]], NDArray[np.intp]]:
    """Return the different combinations of the labels that the prediction reads, and the combination of each row."""
    matches = {name: match for name, match in model.matches.items() if match.column in model.predictors}
    if not matches:
        return [{}], np.zeros(rows, np.intp)
    # Negated, so that combinations are sorted as the levels are.
    combinations, groups = np.unique(-np.stack([columns[name] for name in matches]), axis=1, return_inverse=True)
    texts = group_pairs((match.column, match.text) for match in matches.values())
    labels = []
    for combination in combinations.T:
        # Longer than every label that the model names, so it is a different label.
        label: dict[str, Any] = {column: f"other than {', '.join(named)}" for column, named in texts.items()}
        for match, indicator in zip(matches.values(), combination, strict=True):
            if indicator:
                levels = fit.levels.get(match.column, ())
                label[match.column] = next((level for level in levels if str(level) == match.text), match.text)
        labels.append(label)
    return labels, groups.ravel()


def _curve_points(x: Array) -> Array:
    """Return where a curve over some values is evaluated: evenly and, if these differ much, at even ratios too."""
    first, last = float(x.min()), float(x.max())
    points = np.linspace(first, last, PLOT.curve_points)
    positive = x[x > 0]
    if len(positive) and last / positive.min() >= PLOT.log_ratio:
        points = np.union1d(points, np.geomspace(positive.min(), last, PLOT.curve_points))
    return points


def _fitted_curve(fit: FittedModel, name: str, x: Array, labels: Mapping[str, Any]) -> FittedCurve:
    """Return the predicted curve of rows with some labels, with its bands if they are known."""
    point = {name: x, **{column: np.full(len(x), label) for column, label in labels.items()}}
    title = ", ".join(map(str, labels.values()))
    with ignore_float_errors():
        try:
            bands = predict(fit, point, interval=fit.confidence_level)
        except OptionError:
            return FittedCurve(title, x, np.broadcast_to(predict(fit, point), x.shape))
    has_limits = np.isfinite(bands.prediction_low).any()
    limits = (bands.prediction_low, bands.prediction_high) if has_limits else (None, None)
    has_band = np.isfinite(bands.confidence_low).any()
    band = (bands.confidence_low, bands.confidence_high) if has_band else (None, None)
    return FittedCurve(title, x, bands.prediction, *band, *limits)
