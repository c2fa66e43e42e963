"""Diagnosis of fits: problems of a network, and the reasons why a fit failed.

`diagnose` examines the units and gradients of a network: dead and saturated units, vanishing and exploding gradients.
`explain_failure` and `explain_divergence` state which parameters diverged, where the model is not defined, which
parameters the data do not distinguish, and what to try next. `residual_structure` measures how far the residuals are
from a random order along the predictor; `curve_breaks` finds where curves are infinite or undefined between rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.autodiff.sweeps import ForwardPass
from autodiff_cli.autodiff.unrolling import unroll
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.reductions import svd
from autodiff_cli.backends.selection import evaluate, make_backend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.graph.tape import ShapeInference, Tape, group_pairs, leaf_names, topological_order
from autodiff_cli.language.errors import join_words
from autodiff_cli.ops.arithmetic import div, mul
from autodiff_cli.ops.structural import sum_
from autodiff_cli.training.losses import HUBER_DELTA, LossKind
from autodiff_cli.training.methods.gradient_descent import Diverged, Outcome
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE, norms
from autodiff_cli.training.objective.batch import Batch, Fits, GatheredRows, GroupBatch
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective, find_undefined
from autodiff_cli.training.result.goodness import MAD_TO_STD, RESIDUALS, robust_scale, subsample, unweighted_residuals
from autodiff_cli.training.result.row_figures import differences, likely_values, residuals_of
from autodiff_cli.training.result.statistics import MAX_COVARIANCE_SIZE
from autodiff_cli.training.rows import ColumnArrays


def von_neumann_scores(ordered: Array, sizes: NDArray[np.intp], *, has_equal_scatter: bool = True) -> Array:
    """Return by how many standard errors neighbours are more alike than in a random order (von Neumann 1941).

    Args:
        ordered: values of groups, one group after the other along the last axis.
        sizes: the number of values of each group.
        has_equal_scatter: whether the values have the same variance; else standard errors are those of products of
            neighbours with any variances, as White's (1980).

    >>> import numpy as np
    >>> von_neumann_scores(np.array([1.0, 2, 3, 4, 3, 2, 1, -1, -2, -3, -4, -3]), np.array([12])).round(1)
    array([3.5])
    """
    starts = np.cumsum(sizes) - sizes
    centred = ordered - np.repeat(np.add.reduceat(ordered, starts, axis=-1) / sizes, sizes, axis=-1)
    totals = np.add.reduceat(np.square(centred), starts, axis=-1)
    steps = differences(ordered, starts)
    counts = np.maximum(sizes, RESIDUALS.min_rows)
    deviations = 2 * np.sqrt((counts - 2) / (counts * counts - 1))
    with ignore_float_errors():
        if not has_equal_scatter:
            products = np.square(centred * (centred - steps))
            products[..., starts] = 0.0
            deviations = np.maximum(deviations, 2 * np.sqrt(np.add.reduceat(products, starts, axis=-1)) / totals)
        scores = (2 - np.add.reduceat(np.square(steps), starts, axis=-1) / totals) / deviations
    return np.where((sizes >= RESIDUALS.min_rows) & (totals > 0) & (totals < math.inf), scores, 0.0)


def structure_scores(ordered: Array, sizes: NDArray[np.intp], *, has_equal_scatter: bool = True) -> Array:
    """Return by how many standard errors neighbours are more alike than in a random order, by the larger of two tests.

    One test compares single values; the other compares means of many, which show slow variation in spite of noise.

    See `von_neumann_scores` for the arguments.
    """
    scores = von_neumann_scores(ordered, sizes, has_equal_scatter=has_equal_scatter)
    counts = np.minimum(sizes, RESIDUALS.structure_blocks)
    if (counts == sizes).all():
        return scores
    positions = np.arange(ordered.shape[-1]) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    blocks = positions * np.repeat(counts, sizes) // np.repeat(sizes, sizes)
    starts = np.flatnonzero((positions == 0) | (np.diff(blocks, prepend=0) != 0))
    means = np.add.reduceat(ordered, starts, axis=-1) / np.diff(starts, append=ordered.shape[-1])
    return np.maximum(scores, von_neumann_scores(means, counts, has_equal_scatter=has_equal_scatter))


_RESISTANT = (LossKind.ROBUST, LossKind.OTHER)  # losses of residuals that few outliers hardly change
STRUCTURE = "structure of residuals"  # the key of the structure in an objective's cache; see `Objective.cached_at`


def residual_structure(objective: Objective, theta: Array, *, has_equal_scatter: bool = True) -> float:
    """Return by how many standard errors the residuals differ from a random order along the only predictor.

    The result is 0 for a model with no predictor or several. See `structure_scores`.

    Very many rows are represented by a random sample, in which neighbours are still close together.
    """
    predictor = _single_predictor(objective)
    if predictor is None:
        return 0.0

    def of_sample() -> float:
        sample = subsample(objective, RESIDUALS.structure_rows)
        columns, sizes = sample.table.columns, np.array([sample.rows])
        rows = GatheredRows(columns.__getitem__, sizes, is_weighted=sample.is_weighted)
        with ignore_float_errors():
            scale = np.array([robust_scale(sample, theta) if sample.kind in _RESISTANT else math.inf])
            of_rows = functools.partial(sample.evaluate_rows, theta=theta)
            places = likely_values(sample.kernels, of_rows, rows.column(predictor))
            residuals = unweighted_residuals(sample, theta)
            return float(_structures(rows, residuals, places, scale, has_equal_scatter=has_equal_scatter)[0])

    return objective.cached_at(STRUCTURE if has_equal_scatter else f"unequal {STRUCTURE}", theta, of_sample)


def _structures(
    rows: GatheredRows, residuals: Array, places: Array, scales: Array, *, has_equal_scatter: bool = True
) -> Array:
    """Return the `structure_scores` of the residuals of groups of rows.

    Large residuals are clipped, because an outlier would hide the pattern of the other rows.

    Args:
        places: the predictor of each row, along which residuals are compared.
        scales: the residual scale of each group; infinite to clip nothing.
    """
    groups, limits = rows.spread(np.arange(len(scales))), rows.spread(HUBER_DELTA * scales)
    residuals = np.clip(residuals * np.sqrt(rows.weights), -limits, limits)
    # Rows with equal predictors are in a random order, always the same: files may have them sorted by the target.
    ranks = np.random.default_rng(0).permutation(rows.sizes.max())[np.arange(rows.count) - rows.spread(rows.starts)]
    order = np.lexsort((ranks, places, groups))
    scores = structure_scores(residuals[:, order], rows.sizes, has_equal_scatter=has_equal_scatter)
    return np.asarray(scores.max(axis=0))


def residual_structures(batch: Batch, theta: Array, fits: Fits) -> Array:
    """Return by how many standard errors the residuals of some fits differ from a random order; see
    `residual_structure`.
    """
    if not isinstance(batch, GroupBatch):
        pairs = zip(fits.tolist(), theta, strict=True)
        return np.array([residual_structure(batch.objective_of(fit), point) for fit, point in pairs])
    objective = batch.objective
    predictor, is_robust = _single_predictor(objective), objective.kind in _RESISTANT

    def structure(points: Array, part: Fits) -> Array:
        if predictor is None:
            return np.zeros(len(part))
        scales = MAD_TO_STD * batch.median_magnitudes(points, part) if is_robust else np.full(len(part), math.inf)
        kernels, rows = objective.kernels.by_row, batch.rows_of(part)
        residuals = residuals_of(objective, kernels, lambda each: batch.evaluate(each, points, part))
        places = likely_values(kernels, lambda each: batch.evaluate(each, points, part), rows.column(predictor))
        return _structures(rows, residuals, places, scales)

    with ignore_float_errors():
        return batch.map_parts(structure, theta, fits)


def _single_predictor(objective: Objective) -> str | None:
    """Return the name of the only column that the prediction reads; None if there is not exactly one."""
    names = [name for name in objective.model.predictors if name in objective.data.names]
    return names[0] if len(names) == 1 and objective.has_residuals else None


# --- Curves between rows


_POLE = "has a pole"
_BREAK_SAMPLE = 2000  # rows of the random sample between which a curve is examined, if there are more
_GAP_HALVINGS = 30  # halvings of a gap between two rows, down to 1e-9 of its width
_MAX_GAPS = 8  # gaps of each curve that are halved in a round
_PERIODIC_POLES = ("tan", "sec")  # functions with poles at points that no float represents
_POLE_DISTANCES, _POLE_GROWTH = 1000, 30  # ratio of two distances from a pole, and the least growth of a curve there


def curve_warning(objective: Objective, theta: Array) -> str:
    """Return the warning that the fitted curve is infinite or undefined between two rows; empty if it is not.

    Only curves over a single predictor are examined.
    """
    if (predictor := _breakable_predictor(objective)) is None:
        return ""

    def of_sample() -> str:
        sample = subsample(objective, _BREAK_SAMPLE)
        return _curve_warnings(objective, predictor, sample.column, np.zeros(sample.rows, np.intp), theta[None])[0]

    return objective.cached_at("break", theta, of_sample)


def curve_warnings(batch: Batch, theta: Array, fits: Fits) -> NDArray[Any]:
    """Return the warnings of some fits; see `curve_warning`."""
    if (predictor := _breakable_predictor(batch.objective)) is None:
        return np.full(len(fits), "")
    if not isinstance(batch, GroupBatch):
        pairs = zip(fits.tolist(), theta, strict=True)
        return np.array([curve_warning(batch.objective_of(fit), point) for fit, point in pairs], str)

    def of_part(points: Array, part: Fits) -> NDArray[Any]:
        rows, each = batch.rows_of(part), np.arange(len(part))
        return np.array(_curve_warnings(batch.objective, predictor, rows.column, rows.spread(each), points))

    return batch.map_parts(of_part, theta, fits)


def _breakable_predictor(objective: Objective) -> str | None:
    """Return the only predictor if the curve over it can have a pole, or an edge of its domain; else None."""
    predictor = _single_predictor(objective)
    is_found = predictor is not None and objective.kernels.cached("can break", lambda: _can_break(objective, predictor))
    return predictor if is_found else None


def _curve_warnings(
    objective: Objective, predictor: str, column: Callable[[str], Array], fits: NDArray[np.intp], theta: Array
) -> list[str]:
    """Return the warning of each fit, given the fit of each row."""
    prediction, warnings = objective.kernels.graphs.prediction, [""] * len(theta)
    # Each combination of labels, which are columns of 0 and 1, has a curve of its own.
    labels = [name for name in leaf_names([prediction]) if name in objective.data.names and name != predictor]
    rows = np.stack([fits, *map(column, labels), column(predictor)])
    rows = rows[:, np.lexsort(rows[::-1])]
    begins = np.append(True, (np.diff(rows[:-1], axis=1) != 0).any(axis=0))
    curves, is_gap, firsts = np.cumsum(begins) - 1, ~begins[1:] & (np.diff(rows[-1]) > 0), rows[:, begins]
    owners = firsts[0].astype(np.intp)
    point = {name: np.full(len(owners), value) for name, value in objective.fixed.items()}
    point |= dict(zip((*objective.layout.names, *labels), (*theta[owners].T, *firsts[1:-1]), strict=True))
    low, high = rows[-1, :-1][is_gap], rows[-1, 1:][is_gap]
    for part in unroll([prediction], is_exact=False)[0].ravel().tolist():
        for curve, (what, x) in curve_breaks(part, predictor, low, high, curves[1:][is_gap], point).items():
            warnings[owners[curve]] = f"the fitted curve {what} at {predictor} = {x:.6g}, between two rows"
    return warnings


def _can_break(objective: Objective, predictor: str) -> bool:
    """Whether parameters can move a pole, or an edge of the domain, of the prediction; False if it reads arrays."""
    if objective.model.shapes:
        return False
    names: dict[Node, set[str]] = {}
    for node in topological_order([objective.kernels.graphs.prediction]):
        op, inputs = node.op, node.inputs
        names[node] = {node.text} if node.is_input else set().union(*(names[child] for child in inputs))
        is_whole_power = op is not None and op.name == "pow" and inputs[1].is_constant and inputs[1].text.isdigit()
        if op is None or is_whole_power or (op.is_finite and op.name not in _PERIODIC_POLES):
            continue
        critical = set[str]().union(*(names[child] for child in inputs[op.name == "div" :]))
        if predictor in critical and not critical.isdisjoint(objective.layout.names):
            return True
    return False


@ignore_float_errors()
def curve_breaks(
    prediction: Node, predictor: str, low: Array, high: Array, curves: NDArray[np.intp], point: Mapping[str, Array]
) -> dict[int, tuple[str, float]]:
    """Find poles and undefined points of curves between rows.

    Gaps between rows in which interval arithmetic does not prove that the curve is continuous are halved until they are
    narrow.

    Args:
        low, high: the ends of the gaps between neighbouring rows, in the order of the curves and from left to right.
        curves: the number of the curve of each gap.
        point: the values of all leaves except the predictor, of shape (curves,).

    Returns:
        One break of each curve that has any, by the number of the curve: a verb phrase such as `has a pole`, and the
        value of the predictor.
    """
    from autodiff_cli.numbers.intervals import INTERVALS, Intervals

    def values(x: Array) -> Array:
        return evaluate([prediction], {predictor: x, **{name: each[curves] for name, each in point.items()}})[0]

    enclose, breaks = ForwardPass(Tape([prediction]), INTERVALS), dict[int, tuple[str, float]]()
    for _ in range(_GAP_HALVINGS):
        leaves = {name: Intervals.between(each[curves], each[curves]) for name, each in point.items()}
        gaps = np.flatnonzero(~enclose({predictor: Intervals.between(low, high), **leaves})[-1].is_continuous)
        gaps = gaps[np.arange(len(gaps)) - np.searchsorted(curves[gaps], curves[gaps]) < _MAX_GAPS]
        low, high, curves = low[gaps], high[gaps], curves[gaps]
        if not len(gaps):
            return breaks
        middle = (low + high) / 2
        is_broken = ~np.isfinite(heights := values(middle))
        for k in np.flatnonzero(is_broken):
            breaks.setdefault(int(curves[k]), (_POLE if np.isinf(heights[k]) else "is undefined", float(middle[k])))
        rest = ~np.isin(curves, curves[is_broken])
        low, high = (np.stack(ends, axis=1)[rest].ravel() for ends in ((low, middle), (middle, high)))
        curves = np.repeat(curves[rest], 2)
    width = np.maximum(high - low, np.spacing(np.abs(low)))
    near, far = (
        np.fmax(*(np.abs(values(end)) for end in (low - distance * width, high + distance * width)))
        for distance in (1, _POLE_DISTANCES)
    )
    for k in np.flatnonzero(~(near <= _POLE_GROWTH * far)):
        breaks.setdefault(int(curves[k]), (_POLE, float(low[k])))
    return breaks


class NetworkLimits(NamedTuple):
    """Limits beyond which units and gradients of a network count as problems."""

    vanishing_ratio: float = 1e-3  # gradient per weight, relative to the last layer's: smaller ones vanish
    exploding_ratio: float = 1e3  # gradient per weight, absolute or relative to the last layer's: larger ones explode
    saturation_level: float = 0.98  # position between the limits of an activation, beyond which its slope is below 1/10
    saturated_row_share: float = 0.95  # share of the rows in which a saturated unit is flat


NETWORK_LIMITS = NetworkLimits()


class LayerUnits(NamedTuple):
    """The units of a layer, over all rows.

    Attributes:
        layer: the name of the layer, such as `mlp.0`.
        activation: the name of the activation.
        units: the number of units.
        dead: the number of rectified units that are 0 in every row, so that their gradient is always 0.
        saturated: the number of sigmoid and tanh units that are near a limit in nearly all rows, where they hardly
            learn.
    """

    layer: str
    activation: str
    units: int
    dead: int
    saturated: int


class LayerGradients(NamedTuple):
    """The root mean square of the gradient with respect to the parameters of a layer, at the start and end of a fit."""

    layer: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of a network.

    Attributes:
        units: the units of every hidden layer whose activation can die or saturate.
        gradients: the gradients of every layer with parameters, in the order of the layers.
    """

    units: tuple[LayerUnits, ...]
    gradients: tuple[LayerGradients, ...]

    @property
    def problems(self) -> list[Problem]:
        """All problems; empty for a healthy network."""
        kinds = ((layer, kind, getattr(layer, kind)) for layer in self.units for kind in ("dead", "saturated"))
        of_units = [Problem(kind, layer.layer, count, layer.units, "end") for layer, kind, count in kinds if count]
        return [*of_units, *_gradient_problems(self.gradients)]


class Problem(NamedTuple):
    """A problem of a layer.

    Attributes:
        kind: `dead`, `saturated`, `vanishing` or `exploding`.
        layer: the name of the layer.
        amount: the number of affected units, or the size of the layer's gradient.
        of: the number of all units of the layer, or the size of the last layer's gradient.
        when: `start` or `end` of the fit.
    """

    kind: str
    layer: str
    amount: float
    of: float
    when: str


def diagnose(objective: Objective, start: Array, end: Array) -> Diagnosis:
    """Return the diagnosis of a network over the rows of an objective.

    Args:
        start, end: the free parameters before and after a fit, of shape (P,).
    """
    first, last = (_layer_gradient_sizes(objective, theta) for theta in (start, end))
    gradients = (LayerGradients(layer, size, last[layer]) for layer, size in first.items())
    return Diagnosis(tuple(_examine_units(objective, end)), tuple(gradients))


# --- Units of networks


def _examine_units(objective: Objective, theta: Array) -> Iterator[LayerUnits]:
    """Yield the units of each hidden layer at `theta`."""
    model = objective.model
    if not (hidden := [*_hidden_activations(model)]):
        return
    graphs = RowGraphs([node for node, *_ in hidden], {*model.row_leaves}, model.shapes)
    ranges = [(*op.saturation_values, op.can_die) for _, op, _ in hidden if op.saturation_values is not None]
    layers = [(*end, units) for end, units in zip(ranges, graphs.output_slices, strict=True)]
    counts = functools.partial(count_flat_rows, layers)
    total = objective.fold_rows(make_backend().row_kernel(graphs), theta, counts, np.add)
    for (_, op, layer), units in zip(hidden, graphs.output_slices, strict=True):
        flat = total[units]
        always = int(np.count_nonzero(flat == objective.rows))
        mostly = int(np.count_nonzero(flat >= NETWORK_LIMITS.saturated_row_share * objective.rows))
        dead, saturated = (always, 0) if op.can_die else (0, mostly)
        yield LayerUnits(layer, op.name, flat.size, dead, saturated)


def _hidden_activations(model: Model) -> Iterator[tuple[Node, Op, str]]:
    """Yield the node, operation and layer of each hidden activation that can die or saturate.

    Its layer is that of the parameters between it and the activations below.
    """
    nodes = topological_order([model.program.output])
    activations = {node: node.op for node in nodes if node.op is not None and node.op.saturation_values is not None}
    for node, op in activations.items():
        names = {below.text for below in topological_order(node.inputs, {*activations}) if below.is_input}
        layers = dict.fromkeys(layer_name(name) for name in model.parameters if name in names)
        if layers and node is not model.program.output:
            yield node, op, ", ".join(layers)


def count_flat_rows(
    layers: Sequence[tuple[float, float, bool, slice]], values: Array, _: ColumnArrays
) -> NDArray[np.intp]:
    """Return the number of rows of a block in which each unit is flat, so that it hardly reacts to its input.

    Args:
        layers: for each layer, the limits of its activation, whether its slope is exactly 0 at a limit, and the slice
            of its units.
        values: the values of shape (units, rows).
    """
    counts = []
    for low, high, can_die, part in layers:
        if can_die:
            flat = np.less_equal(values[part], low)
        else:
            level = (values[part] - low) / (high - low)
            flat = np.maximum(level, 1 - level) > NETWORK_LIMITS.saturation_level
        counts.append(np.asarray(np.count_nonzero(flat, axis=-1)))
    return np.concatenate(counts)


def layer_name(name: str) -> str:
    """Return the layer of a parameter: `mlp.0` for `mlp.0.weight`; the name itself for a parameter without a layer.

    >>> layer_name("mlp.0.weight"), layer_name("a"), layer_name("a[0.5]")
    ('mlp.0', 'a', 'a[0.5]')
    """
    return name if "[" in name else name.rpartition(".")[0] or name


# --- Gradients of networks


def _layer_gradient_sizes(objective: Objective, theta: Array) -> dict[str, float]:
    """Return the root mean square of the gradient of each layer, in the order of the model."""
    gradient, layout = objective.value_and_grad(theta)[1], objective.layout
    parts = ((layer_name(name), gradient[part]) for name, part in layout.slices.items() if layout.shapes[name])
    return {layer: _root_mean_square(np.concatenate(gradients)) for layer, gradients in group_pairs(parts).items()}


def _root_mean_square(values: Array) -> float:
    """Return the root mean square of values, also where a square would overflow or underflow.

    >>> [_root_mean_square(unit * np.array([7.0, -1.0])) for unit in (0, 1, 2.0**700, 2.0**-700, np.inf, np.nan)]
    [0.0, 5.0, 2.6300679507741868e+211, 9.505457831475799e-211, inf, nan]
    """
    with ignore_float_errors():
        return float(norms(values[None])[0]) / math.sqrt(len(values))


def _gradient_problems(gradients: Sequence[LayerGradients]) -> Iterator[Problem]:
    """Yield the problems of gradients."""
    for when in ("start", "end"):
        sizes = {layer.layer: getattr(layer, when) for layer in gradients}
        last = [*sizes.values()][-1] if sizes else 0.0
        for layer, size in sizes.items():
            if not size <= NETWORK_LIMITS.exploding_ratio or (last and size > NETWORK_LIMITS.exploding_ratio * last):
                yield Problem("exploding", layer, size, last, when)
            elif size < NETWORK_LIMITS.vanishing_ratio * last:
                yield Problem("vanishing", layer, size, last, when)


# --- Failed fits


class FailureLimits(NamedTuple):
    """Limits for the explanation of a fit that failed."""

    diverging_ratio: float = 100.0  # change, relative to the starting value or 1, beyond which a parameter has diverged
    vanished_ratio: float = 1e-12  # value relative to the starting value: smaller parameters have diverged to 0
    high_condition: float = 1e6  # condition number above which it is reported
    far_column: float = 5.0  # distance of a column from 0, relative to its range, above which it is named
    min_direction_share: float = 0.3  # component of the worst-determined direction above which a parameter is named
    max_names: int = 5  # parameters named in a sentence


FAILURE_LIMITS = FailureLimits()


_PROBE_STEP = 1e-6  # relative step in the direction of descent, to find the edge of the model's domain


def explain_divergence(error: Diverged, objective: Objective) -> str:
    """Return why a loss is not finite, as the end of a sentence; empty if the reason is unknown."""
    theta, names = error.theta, objective.layout.element_names
    infinite = [name for name, value in zip(names, theta.tolist(), strict=True) if not math.isfinite(value)]
    if infinite:
        return f": {_join_names(infinite)} diverged to infinity"
    with ignore_float_errors():
        undefined = find_undefined(objective, theta)
    return "" if undefined is None else f": {undefined}"


def explain_failure(objective: Objective, outcome: Outcome, losses: list[float]) -> list[str]:
    """Return sentences on why a fit failed; the last one says what to try.

    Args:
        losses: the loss after each epoch.
    """
    if outcome.converged or outcome.failure == "interrupted":
        return []
    with ignore_float_errors():
        diverging = _describe_runaways(objective, outcome.theta)
        sentences = [*diverging.values(), *_describe_far_columns(objective)]
        if losses and losses[-1] > losses[0]:
            sentences.append(f"the loss rose from {losses[0]:.6g} to {losses[-1]:.6g}; try a lower --lr or --clip-norm")
        if not outcome.failure:
            return sentences
        dependent: list[str] = []
        if losses and objective.layout.size <= MAX_COVARIANCE_SIZE and not objective.is_network:
            sentences += _describe_domain_edge(objective, outcome.theta)
            if objective.kind is LossKind.SQUARES:
                conditioning, dependent = _describe_conditioning(objective, outcome.theta)
                sentences += conditioning
    if losses and not objective.is_network and not outcome.is_unbounded:
        sentences.append(_advice([*diverging], dependent))
    return sentences


def _describe_runaways(objective: Objective, theta: Array) -> dict[str, str]:
    """Return a sentence for each element that moved far from its starting value, the farthest first."""
    if objective.layout.size > MAX_COVARIANCE_SIZE or objective.is_network:
        return {}
    start = objective.start
    distance = np.abs(theta - start) / np.maximum(np.abs(start), 1.0)
    distance[(theta != 0) & (np.abs(theta) < FAILURE_LIMITS.vanished_ratio * np.abs(start))] = math.inf
    names = objective.layout.element_names
    order = [
        k for k in np.argsort(-distance)[: FAILURE_LIMITS.max_names] if distance[k] > FAILURE_LIMITS.diverging_ratio
    ]
    return {names[k]: f"`{names[k]}` went from {start[k]:g} to {theta[k]:.6g}" for k in order}


def _describe_far_columns(objective: Objective) -> Iterator[str]:
    """Yield a sentence for each column that is far from 0 and can be shifted, such as the year in `a*exp(b*year)`.

    A step of `b` changes all rows by about the same amount, and `a` must compensate for it.
    """
    nodes = topological_order([objective.model.program.output])
    factors = {child.text for node in nodes if node.op in (mul, div) for child in node.inputs}
    if objective.model.shapes or factors.isdisjoint(objective.read_columns):
        return
    low, high, *_ = objective.column_spreads
    for name, least, most in zip(objective.read_columns, low.tolist(), high.tolist(), strict=True):
        is_far = min(abs(least), abs(most)) > FAILURE_LIMITS.far_column * (most - least) > 0
        if is_far and name in factors and _absorbs_shifts(objective.model, name):
            shifted = f"`({name} - {(least + most) / 2:.5g})` in its place makes the fit easier"
            yield f"the values of `{name}`, {least:g} to {most:g}, are far from 0 compared with their range: {shifted}"


_FACTORS = "\0"  # no name in a model can contain this character


def _absorbs_shifts(model: Model, column: str) -> bool:
    """Whether other values of the parameters give the prediction for a shifted column, at random values: its derivative
    is a combination of those of the parameters. Several targets are added up with random factors.
    """
    leaves = [model.program.leaves[name] for name in (column, *model.parameters)]
    shapes = {_FACTORS: ShapeInference({}).infer(model.program.output) or ()}
    rows, generator = 2 * len(leaves), np.random.default_rng(0)
    point = {name: generator.uniform(0.5, 1.5, rows if name in model.columns else ()) for name in model.program.leaves}
    point[_FACTORS] = generator.uniform(0.5, 1.5, (rows, *shapes[_FACTORS]))
    total = sum_(model.program.output * variable(_FACTORS))
    slopes = evaluate(gradient_nodes(total, leaves, shapes), point, shapes)
    matrix = np.transpose([np.broadcast_to(each, rows) for each in slopes])
    both, parameters = (np.linalg.matrix_rank(each, rtol=DEPENDENCE_TOLERANCE) for each in (matrix, matrix[:, 1:]))
    return bool(both == parameters)


def _describe_domain_edge(objective: Objective, theta: Array) -> Iterator[str]:
    """Yield a sentence on a value that is undefined next to the end of a fit, in the direction of descent."""
    scale = np.maximum(np.abs(theta), np.abs(objective.start))
    scale[scale == 0] = 1.0
    slopes = scale * objective.value_and_grad(theta)[1]
    step = -_PROBE_STEP * scale * slopes / np.linalg.norm(slopes)
    if np.isfinite(step).all() and (undefined := find_undefined(objective, objective.bounds.clip(theta + step))):
        yield f"the loss falls towards the edge of the model's domain: {undefined}; --bounds may keep it inside"


def _describe_conditioning(objective: Objective, theta: Array) -> tuple[list[str], list[str]]:
    """Return a sentence on parameters that the data do not distinguish, and their names."""
    jacobian = objective.triangle(theta)[:, :-1]
    if not np.isfinite(jacobian).all():
        return [], []
    names = objective.layout.element_names
    lengths = np.sqrt(np.sum(np.square(jacobian), axis=0))
    without_effect = [name for name, length in zip(names, lengths, strict=True) if not length > 0]
    if without_effect:
        return [f"{_join_names(without_effect)} has no effect on the prediction there"], without_effect
    _, singular_values, directions = svd(jacobian / lengths)
    condition = math.inf if singular_values[-1] == 0 else float(singular_values[0] / singular_values[-1])
    if condition < FAILURE_LIMITS.high_condition:
        return [], []
    dependent = [
        name
        for name, share in zip(names, np.abs(directions[len(names) - 1]), strict=True)
        if share > FAILURE_LIMITS.min_direction_share
    ]
    sentence = f"the condition number at the last point is {condition:.0e} (with scaled parameters)"
    if len(dependent) > 1:
        sentence += f": changing {_join_names(dependent)} together hardly changes the prediction"
    return [sentence], dependent


def _advice(diverging: list[str], dependent: list[str]) -> str:
    """Return a sentence on what to try."""
    options = ["other starting values (--starts 20)"]
    if diverging:
        options.append(f"bounds for the diverging parameter (--bounds {_array_name(diverging[0])}=LOW:HIGH)")
    if len(dependent) > 1:
        options.append(f"fixing one of the dependent parameters (--fix {_array_name(dependent[0])}=VALUE)")
    *first_options, final = [*options, "a simpler model"]
    return f"what to try: {', '.join(first_options)}, or {final}"


def _array_name(number: str) -> str:
    """Return the parameter of an element. Options name elements of arrays by their array."""
    return number.partition("[")[0]


def _join_names(names: list[str]) -> str:
    """Return the first of some names in words, and how many more there are.

    >>> names = [f"p{k}" for k in range(FAILURE_LIMITS.max_names + 2)]
    >>> _join_names(names[:-2]).endswith(f" and `{names[-3]}`"), _join_names(names).endswith(" and 2 more")
    (True, True)
    """
    quoted = [f"`{name}`" for name in names[: FAILURE_LIMITS.max_names]]
    rest = len(names) - len(quoted)
    return join_words([*quoted, *[f"{rest} more"] * (rest > 0)])
