"""The graphs of a row's loss, and the kernels that evaluate them over rows.

`LossGraphs` holds the loss of a row, its residuals and its target as graphs. `Kernels` compiles from them what a fit
needs (sums, gradients, residuals with their Jacobian, Hessians), each when it is first used.

`linear_parameters` and `is_generalised_linear` analyse how the prediction depends on its parameters. `smooth_kinks`
replaces `abs(u)` by `hypot(u, e)`. A sum of absolute residuals has its minimum at a kink, where no gradient vanishes.
The minima of the smoothed losses converge to it as e decreases, and second derivatives can prove each of them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from autodiff_cli.algebra.simplify import share, simplify
from autodiff_cli.array_types import Array
from autodiff_cli.backends import protocol
from autodiff_cli.backends.selection import choose_backend, compiling_backend, make_backend
from autodiff_cli.graph.gradient import gradient_nodes, reverse_sweep, tangents
from autodiff_cli.graph.node import ONE, ZERO, Node, Shape, constant, is_literal, variable
from autodiff_cli.graph.tape import ShapeInference, Tape, leaf_names, substitute, topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.arithmetic import abs_, div, equal, floor, mul, where
from autodiff_cli.ops.functions import exp, expm1, hypot, pow_, sigmoid, sqrt, square
from autodiff_cli.ops.structural import dot, index, mean, softmax, stack
from autodiff_cli.options import OptionError
from autodiff_cli.training import losses
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.rows import WEIGHT

LINK_FUNCTIONS = (softmax, sigmoid, exp)  # textbooks call their inverses links
_SCORE_ADJOINT = "adjoint of a score"  # no name in a text has a blank


def linear_parameters(prediction: Node, parameters: Sequence[Node], leaves: Mapping[str, Shape]) -> list[str]:
    """Return the names of parameters in which a prediction is jointly linear.

    In `a*b*x`, only one of `a` and `b` is returned; it depends on their order. A parameter that only a condition reads
    is not returned.

    >>> from autodiff_cli.language.program import read
    >>> program = read("a*exp(-b*x) + c")
    >>> linear_parameters(program.output, [program.leaves[name] for name in "abc"], {})
    ['a', 'c']
    """
    shared, *leaf_nodes = share([prediction, *parameters])
    slopes = simplify(gradient_nodes(shared, leaf_nodes, leaves))
    leaves_of_slopes = [{*leaf_names([slope])} for slope in slopes]
    chosen: list[int] = []
    for k, leaf in enumerate(leaf_nodes):
        names = {leaf_nodes[j].text for j in chosen} | {leaf.text}
        if not is_literal(slopes[k], 0) and all(names.isdisjoint(leaves_of_slopes[j]) for j in (*chosen, k)):
            chosen.append(k)
    return [leaf_nodes[k].text for k in chosen]


def is_generalised_linear(prediction: Node, parameters: Sequence[Node], leaves: Mapping[str, Shape]) -> bool:
    """Whether a prediction, a number or a vector, is linear in all of its parameters together, or a softmax, sigmoid or
    exp of such an expression.

    >>> from autodiff_cli.language.program import read
    >>> program = read("sigmoid(a*x + b)")
    >>> is_generalised_linear(program.output, [program.leaves["a"], program.leaves["b"]], {})
    True
    """
    score = prediction.inputs[0] if prediction.op in LINK_FUNCTIONS else prediction
    shape = ShapeInference(leaves).infer(score) or ()
    shapes = {**leaves, _SCORE_ADJOINT: shape} if shape else leaves
    shared, *leaf_nodes = share([dot(variable(_SCORE_ADJOINT), score) if shape else score, *parameters])
    slopes = simplify(gradient_nodes(shared, leaf_nodes, shapes))
    needed = {*slopes}  # the shape of an array of parameters is not its value
    for node in topological_order(slopes):
        needed |= {x for k, x in enumerate(node.inputs) if node.op and k not in node.op.shape_only_inputs}
    return {leaf.text for leaf in leaf_nodes}.isdisjoint(node.text for node in needed if node.is_input)


def smooth_kinks(graphs: Sequence[Node], parameters: Collection[Node]) -> tuple[list[Node], list[Node], list[str]]:
    """Replace the kinks that depend on parameters by smooth functions.

    Returns:
        The graphs with `hypot(u, e)` in place of `abs(u)`, each `abs(u)` of the original graphs, and the names of the
        leaves e, one for each kink.

    >>> a = variable("a")
    >>> smooth_kinks([abs_(a - 1), abs_(variable("x"))], {a})[2]
    ['radius 0']
    """
    tape = Tape(graphs, wrt=parameters)
    kinks = [node for node, reached in zip(tape.nodes, tape.is_active, strict=True) if node.op is abs_ and reached]
    radii = [f"radius {k}" for k in range(len(kinks))]  # no name in a text has a blank
    replacements: dict[Node, Node] = {}
    for kink, radius in zip(kinks, radii, strict=True):
        (argument,) = substitute(kink.inputs, replacements)
        replacements[kink] = hypot(argument, variable(radius))
    return substitute(graphs, replacements), kinks, radii


@dataclass(frozen=True, slots=True)
class LossGraphs:
    """The graphs of a model with its loss.

    Attributes:
        loss: the loss of a row.
        weighted_loss: the loss with the penalty on the parameters, times the row's weight if it has one.
        residuals: target minus prediction, one graph per component; empty for classifications and without a target.
        target: the left side of `~`; None without one.
        prediction: the right side of `~`, or the loss itself.
        vectors: the names of the leaf and of the columns of each vector of columns in the text (`[x1, x2]`). Columns
            are stacked once, and not at every step.
        leaf_shapes: the shapes of leaves that are not scalars.
        has_weight: whether rows have weights.
        x_errors: the columns with errors of their own; see `effective_residual`.
        target_scales: the columns by which the residual of each target is multiplied, if targets have errors of their
            own; see `find_weightings`.
        prior: minus the log-density of the priors; 0 without priors.
        robust_loss: for a robust loss, the leaf of the ratio u of residual and scale, and ρ(u).
    """

    loss: Node
    weighted_loss: Node
    residuals: tuple[Node, ...]
    target: Node | None
    prediction: Node
    vectors: Mapping[str, tuple[str, ...]]
    leaf_shapes: Mapping[str, Shape]
    has_weight: bool
    x_errors: tuple[str, ...] = ()
    target_scales: tuple[str, ...] = ()
    prior: Node = ZERO
    robust_loss: tuple[Node, Node] | None = None

    @property
    def error_columns(self) -> tuple[str, ...]:
        """The columns of errors that residuals read, besides the weight."""
        return (*map(x_sigma_column, self.x_errors), *self.target_scales)

    @property
    def has_scaled_residuals(self) -> bool:
        """Whether residuals are in units of errors that the weight of a row does not have."""
        return bool(self.x_errors or self.target_scales)


def build_graphs(
    model: Model,
    loss: str,
    options: FitOptions,
    classes: int | None,
    weighted: bool,
    free: Sequence[str],
    target_scales: tuple[str, ...] = (),
    priors: Mapping[str, losses.Prior] | None = None,
) -> LossGraphs:
    """Build the graphs of a model with its loss.

    Args:
        model: the model, with resolved shapes.
        loss: the name of the loss; see `choose_loss`.
        options: further settings of the loss.
        classes: the number of classes, for a classification.
        weighted: whether rows have weights, in the column `WEIGHT`.
        free: the parameters to which penalties apply.
        target_scales: see `LossGraphs`.
        priors: the priors of parameters by name.

    Raises:
        OptionError: if the loss or the target does not allow errors of x or of each target.
    """
    program = model.program
    x_errors = tuple(options.x_errors)
    roots = [program.output] if program.target is None else [program.output, program.target]
    column_vectors = [] if x_errors else _column_vectors(roots, model)
    replaced = {node: variable(to_text(node)) for node in column_vectors}
    prediction, *targets = substitute(roots, replaced | powers_with_limits(roots[0], model.parameters))
    names = {to_text(node): tuple(leaf.text for leaf in node.inputs) for node in column_vectors}
    leaves = {**model.shapes, **{name: (len(columns),) for name, columns in names.items()}}
    residuals: tuple[Node, ...] = ()
    target = targets[0] if targets else None
    row_loss = row_loss_graph(model, loss, options, classes, target, prediction)
    ratio, of_ratio = variable("ratio"), losses.LOSSES[loss].of_ratio if loss else None
    robust_loss = None if of_ratio is None else (ratio, of_ratio(ratio, huber_delta(options)))
    is_standardized = options.sigma is not None or robust_loss is not None  # weights alone multiply absolute residuals
    if target is not None and weighted and losses.LOSSES[loss].is_resistant and is_standardized:
        root = sqrt(variable(WEIGHT))
        row_loss = row_loss_graph(model, loss, options, classes, root * (target - prediction), ZERO) / square(root)
    if target is not None and classes is None:
        residuals = component_graphs(target - prediction, model.target_shape)
    if x_errors:
        residuals = (effective_residual(model, loss, residuals, x_errors),)
        row_loss = square(residuals[0])
    if target_scales:
        if len(residuals) != len(target_scales) or loss != "mse":
            raise OptionError("sigma: one standard deviation for each target requires the loss mse and as many targets")
        residuals = tuple(residual * variable(name) for residual, name in zip(residuals, target_scales, strict=True))
        row_loss = mean(square(stack(*residuals)))
    # The mean of a constant over rows is that constant, so the penalty can be added to the loss of each row.
    penalty = losses.penalty_graph([program.leaves[name] for name in free], model.shapes, options.l1, options.l2)
    prior = losses.prior_graph(priors or {}, program.leaves, model.shapes)
    if priors:
        # Squared residuals are minus the log-likelihood in units of twice their variance.
        is_squares = loss != "" and losses.LOSSES[loss].kind is losses.LossKind.SQUARES
        in_units = square(variable(losses.RESIDUAL_SCALE)) * prior if is_squares else prior
        penalty = variable(losses.PRIOR_FACTOR) * in_units
    summed = row_loss if penalty is None else row_loss + penalty
    weighted_loss = variable(WEIGHT) * summed if weighted else summed
    return LossGraphs(
        row_loss, weighted_loss, residuals, target, prediction, names, leaves, weighted, x_errors, target_scales, prior,
        robust_loss,
    )  # fmt: skip


def huber_delta(options: FitOptions) -> float:
    """Return the threshold of Huber's loss, in scales."""
    return losses.HUBER_DELTA if options.huber_delta is None else options.huber_delta


def component_graphs(node: Node, shape: Shape) -> tuple[Node, ...]:
    """Return the elements of a vector as graphs; a number is its own only element."""
    return tuple(index(node, k) for k in range(shape[0])) if shape else (node,)


def powers_with_limits(prediction: Node, parameters: Collection[str]) -> dict[Node, Node]:
    """Return replacements for powers of ratios such as `(x/k)^n`, which make their slopes 0 in rows where `x = 0`.

    There, the power has one value for all positive `k` and `n`. The chain rule would multiply 0 by infinity if `n < 1`,
    and always for `(k/x)^n`.
    """
    replacements: dict[Node, Node] = {}
    for node in (node for node in topological_order([prediction]) if node.op in (pow_, sqrt)):
        is_ratio = node.inputs[0].op in (mul, div)
        sides = [side for side in node.inputs[0].inputs if not side.is_constant]
        of_data = [side for side in sides if {*parameters}.isdisjoint(leaf_names([side]))]
        if is_ratio and len(of_data) == 1:
            again = node.operation(*substitute(node.inputs, replacements))
            replacements[node] = where(equal(of_data[0], ZERO), floor(again), again)  # the slope of `floor` is 0
    return replacements


def x_sigma_column(name: str) -> str:
    """Return the name of the column that holds the standard deviations of another column.

    No name in a model can contain its first character.
    """
    return f"\0{name}"


def target_scale_column(index: int) -> str:
    """Return the name of the column by which the residual of a target is multiplied. No name in a model can contain its
    first character.
    """
    return f"\0\0{index}"


def effective_residual(model: Model, loss: str, residuals: Sequence[Node], x_errors: Sequence[str]) -> Node:
    """Return a residual in units of the combined error of y and x: r/√(1 + w·Σ(∂r/∂x·σx)²), with w = 1/σy².

    This is the effective variance of Orear 1982, Am. J. Phys. 50, 912: the variance of y plus, to first order, the
    variance that the error of each x causes. The derivatives are exact and change with the parameters.

    Raises:
        OptionError: if the loss, the target or a column does not allow it.
    """
    if len(residuals) != 1 or model.target_shape or loss != "mse":
        raise OptionError("x_sigma requires least squares (the loss mse) with a single target")
    for name in x_errors:
        if name not in model.columns:
            words = "a parameter" if name in model.parameters else "not in the model"
            raise OptionError(f"x_sigma: `{name}` is {words}; it must be a column that the model reads")
    shared, *leaf_nodes = share([residuals[0], *(model.program.leaves[name] for name in x_errors)])
    slopes = gradient_nodes(shared, leaf_nodes, model.shapes)
    weight = variable(WEIGHT)
    variances = [square(slope * variable(x_sigma_column(name))) for name, slope in zip(x_errors, slopes, strict=True)]
    return shared / sqrt(1 + weight * variable(losses.X_ERROR_FACTOR) * functools.reduce(operator.add, variances))


def row_loss_graph(
    model: Model, loss: str, options: FitOptions, classes: int | None, target: Node | None, prediction: Node
) -> Node:
    """Return the loss of a row, without its weight. See `build_graphs` for the arguments."""
    if target is None:
        return prediction
    delta = huber_delta(options)
    if classes is not None:
        levels = stack(*(constant(str(k)) for k in range(classes)))
        return losses.LOSSES[loss].graph(equal(target, levels), prediction, delta)
    row_loss = losses.LOSSES[loss].graph(target, prediction, delta)
    return mean(row_loss) if model.target_shape else row_loss


def choose_loss(model: Model, options: FitOptions) -> str:
    """Return the name of the loss that a fit uses; empty if the model is its own loss.

    Raises:
        OptionError: for a loss that does not suit the model.
    """
    requested, is_classification = options.loss, model.class_column is not None
    if options.family is not None:
        if model.program.target is None or is_classification:
            raise OptionError("family requires a model `target ~ prediction` that predicts a number")
        requested = losses.FAMILIES[options.family].loss
    if options.likelihood and model.program.target is not None:
        raise OptionError("likelihood needs a model without `~`, which is itself the negative log-likelihood of a row")
    if model.program.target is None:
        if requested is not None:
            raise OptionError(f"the loss {requested} requires a model `target ~ prediction`")
        return ""
    if is_classification and requested not in (None, "cross_entropy"):
        raise OptionError(f"a classification has the loss cross_entropy, not {requested}")
    if requested == "cross_entropy" and not is_classification:
        raise OptionError("the loss cross_entropy requires a classification: `column ~ softmax(…)`")
    loss = requested or ("cross_entropy" if is_classification else "mse")
    if options.scale is not None and not losses.LOSSES[loss].has_scale:
        scaled = [name for name, loss in losses.LOSSES.items() if loss.has_scale]
        raise OptionError(f"the loss {loss} has no scale; losses with a scale are {', '.join(scaled)}")
    if options.huber_delta is not None and loss != "huber":
        raise OptionError(f"huber_delta requires the loss huber, not {loss}")
    return loss


def _column_vectors(roots: Sequence[Node], model: Model) -> list[Node]:
    """Return the vectors in the graphs that consist of columns only."""
    return [
        node
        for node in topological_order(roots)
        if node.op is stack and all(leaf.is_input and leaf.text in model.columns for leaf in node.inputs)
    ]


T = TypeVar("T")


def remember(cache: dict[Any, Any], key: Hashable, compute: Callable[[], T]) -> T:
    """Return the cached result for a key, or compute and cache it."""
    if key not in cache:
        cache[key] = compute()
    result: T = cache[key]
    return result


DIRECTION = "direction"  # the leaf of the direction along which an array parameter moves
_MAX_PRODUCT_COLUMNS = 12  # columns of [J | r]; with more, the products take as long as a QR factorization
_MAX_JOINT_HESSIAN = 20  # parameters up to which all second derivatives are in one graph
_NO_DENSITY = 1e6  # multiple of a width at which its component has no density beside the others


@dataclass(eq=False, repr=False)
class Kernels:
    """The kernels of one objective; objectives over parts of the rows share them.

    Attributes:
        graphs: the graphs that the kernels compute.
        columns: the names of the model's columns, to which the columns of the graphs are added.
        parameters: the leaves of the free parameters.
        backend: compiles the kernels.
        notes: remarks of the backend so far, as sentences.
        epoch_backend: the backend for mini-batches; by default `backend`.
        smoothing_radii: the leaves with the radii within which kinks are smoothed.
        kinks: each `abs(u)` that is rounded.
    """

    graphs: LossGraphs
    columns: Set[str]
    parameters: Sequence[Node]
    backend: protocol.Backend
    notes: Sequence[str] = ()
    epoch_backend: protocol.Backend | None = None
    smoothing_radii: Sequence[str] = ()
    kinks: Sequence[Node] = ()

    def __post_init__(self) -> None:
        self.columns = {*self.columns, *self.graphs.vectors, *self.graphs.error_columns, WEIGHT}
        self._cache: dict[str, Any] = {}

    def compiled(self, threads: int | None) -> Kernels:
        """Return kernels of the same graphs as compiled code."""
        notes = [*self.notes]
        return replace(self, backend=compiling_backend(threads, notes.append), notes=notes, epoch_backend=None)

    def compiled_for(self, rows: int, passes: int, threads: int | None) -> Kernels:
        """Return compiled kernels if these pay for a number of passes over the rows, such as a scan of a frequency."""
        graphs = self._row_graphs([self.graphs.loss])
        if choose_backend("auto", threads, graphs, rows, passes).name == "numpy":
            return self
        return self.cached("compiled", lambda: self.compiled(threads))

    def substituted(self, replacements: Mapping[Node, Node]) -> Kernels:
        """Return kernels of the graphs with nodes replaced."""
        graphs = self.graphs
        roots = [graphs.loss, graphs.weighted_loss, graphs.prediction, graphs.prior, *graphs.residuals]
        loss, weighted, prediction, prior, *residuals = substitute(roots, replacements)
        changed = replace(
            graphs, loss=loss, weighted_loss=weighted, prediction=prediction, residuals=tuple(residuals), prior=prior
        )
        return replace(self, graphs=changed, epoch_backend=None)

    def cached(self, name: str, build: Callable[[], T]) -> T:
        """Return what `build` computes from the graphs, cached under a name."""
        return remember(self._cache, name, build)

    @cached_property
    def log_prior(self) -> protocol.RowKernel:
        """The log-density of the priors, with the parameters as columns: 0 without priors."""
        names = {leaf.text for leaf in self.parameters}
        return make_backend().row_kernel(protocol.RowGraphs([-self.graphs.prior], names, self.graphs.leaf_shapes))

    @cached_property
    def without_kinks(self) -> Kernels | None:
        """The kernels of the loss with its kinks smoothed; None if it has no kinks."""
        sharp = [self.graphs.weighted_loss, self.graphs.loss]
        (weighted, loss), kinks, radii = smooth_kinks(sharp, set(self.parameters))
        if not kinks:
            return None
        smooth = replace(self.graphs, weighted_loss=weighted, loss=loss)
        return replace(self, graphs=smooth, notes=(), epoch_backend=None, smoothing_radii=radii, kinks=kinks)

    @cached_property
    def kink_sizes(self) -> protocol.SumKernel:
        """The sums of the arguments of the kinks in absolute value; of an array, the mean over its elements."""
        return self.backend.sum_kernel(self._row_graphs(self._mean_kinks))

    @property
    def _mean_kinks(self) -> list[Node]:
        shapes = protocol.RowGraphs(self.kinks, self.columns, self.graphs.leaf_shapes).output_shapes
        return [mean(kink) if shape else kink for kink, shape in zip(self.kinks, shapes, strict=True)]

    def radii(self, share: float, sizes: Array) -> dict[str, Any]:
        """Return the radii of smoothed kinks: a share of the mean sizes of their arguments, of shape (kinks, …)."""
        own = [k for k, kink in enumerate(self.kinks) if kink.inputs[0] in self.parameters]
        if own:  # a penalty treats all parameters alike, so they share one radius
            largest = sizes[own].max(axis=0)
            sizes[own] = np.where(largest > 0, largest, 1.0)
        return dict(zip(self.smoothing_radii, share * sizes, strict=True))

    @cached_property
    def loss(self) -> protocol.SumKernel:
        """The sum of the rows' losses, with the penalty for each row."""
        return self.backend.sum_kernel(self.loss_graphs)

    @cached_property
    def loss_graphs(self) -> protocol.RowGraphs:
        """The loss of a row with the penalty, as the graph that is evaluated."""
        return self._row_graphs([self.graphs.weighted_loss])

    @cached_property
    def loss_and_gradient(self) -> protocol.SumKernel:
        """The sum of the rows' losses with the penalty for each row, and its gradient."""
        return self.backend.sum_kernel(self._gradient_graphs)

    def epoch_kernel(self, update: protocol.Update, clip_norm: float | None = None) -> protocol.EpochKernel:
        """Return a kernel that runs the epochs of a gradient method on the loss."""
        weight = WEIGHT if self.graphs.has_weight else None
        names = [leaf.text for leaf in self.parameters]
        descent = protocol.GradientDescent(self._gradient_graphs, names, weight, update, clip_norm)
        return (self.epoch_backend or self.backend).epoch_kernel(descent)

    @cached_property
    def row_loss(self) -> protocol.RowKernel:
        """The loss of every row, without its weight."""
        return self.backend.row_kernel(self._row_graphs([self.graphs.loss]))

    def shares_of_component(self, width: Node) -> protocol.SumKernel:
        """Return the kernel for the number of rows of a component of a mixture.

        It is the sum over rows of the component's share of the likelihood. A very wide component has no density, so its
        share is the decrease of the likelihood when its width is replaced by a huge one.

        Args:
            width: the leaf that is the width of the component.
        """
        (wide,) = substitute([self.graphs.loss], {width: _NO_DENSITY * width})
        return self.backend.sum_kernel(self._row_graphs([self._weighted(-expm1(self.graphs.loss - wide))]))

    @cached_property
    def row_gradient_graphs(self) -> list[Node]:
        """The graphs of the loss of a row, without its weight, and of its gradient."""
        return self._with_gradient(self.graphs.loss)

    @cached_property
    def row_loss_and_gradient(self) -> protocol.RowKernel:
        """The loss of every row, without its weight, and its gradient."""
        return self.backend.row_kernel(self._row_graphs(self.row_gradient_graphs, [(), *self._shapes]))

    @cached_property
    def squared_residuals(self) -> protocol.SumKernel:
        """The sum over rows of the squares of each component of the residual, times the weight of the row."""
        squares = [self._weighted(square(node)) for node in self.graphs.residuals]
        return self.backend.sum_kernel(self._row_graphs(squares))

    @cached_property
    def influence(self) -> protocol.SumKernel:
        """The sums over residuals of rows with a positive weight of ψ(u)², ψ'(u) and ψ'(u)², for a robust loss with the
        derivative ψ at the ratio u of the residual and its scale.
        """
        assert self.graphs.robust_loss is not None
        ratio, loss = self.graphs.robust_loss
        (slope,) = gradient_nodes(loss, [ratio])
        (bend,) = gradient_nodes(slope, [ratio])
        terms: Sequence[Node] = (square(slope), bend, square(bend))
        unit: Node = ONE / variable(losses.RESIDUAL_SCALE)
        if self.graphs.has_weight:
            unit = sqrt(variable(WEIGHT)) / variable(losses.RESIDUAL_SCALE)
        each = [substitute(terms, {ratio: node * unit}) for node in self.graphs.residuals]
        sums = [functools.reduce(operator.add, nodes) for nodes in zip(*each, strict=True)]
        return self.backend.sum_kernel(self._row_graphs(simplify(sums)))

    @cached_property
    def residuals(self) -> protocol.RowKernel:
        """Each component of the residual of every row."""
        return self.backend.row_kernel(self._row_graphs(self.graphs.residuals))

    @cached_property
    def likely_predictor(self) -> protocol.RowKernel:
        """The most likely value of the only predictor in every row, if it has errors of its own.

        The error of a measured value changes the residual, which therefore depends on the measured value, but not on
        the most likely one.
        """
        assert self.graphs.target is not None
        (name,) = self.graphs.x_errors
        residual, x = share([self.graphs.target - self.graphs.prediction, variable(name)])
        (slope,) = gradient_nodes(residual, [x], self.graphs.leaf_shapes)
        ratio = variable(WEIGHT) * square(variable(x_sigma_column(name)))
        return self.backend.row_kernel(self._row_graphs([x - ratio * slope * residual / (1 + ratio * square(slope))]))

    @cached_property
    def rounding_squares(self) -> protocol.RowKernel:
        """The weighted sum over the residuals of every row, and over the operations that lead there, of the squares of
        value times adjoint: of their rounding errors, to first order, in units of the rounding error of 1.
        """
        count, nodes = len(self.graphs.residuals), share([*self.graphs.residuals, *self.parameters])
        sweeps = [reverse_sweep(residual, nodes[count:]) for residual in nodes[:count]]
        pairs = [pair for sweep in sweeps for pair in zip(sweep.tape.nodes, sweep.adjoints, strict=True)]
        squares = [square(node * adjoint.masked_graph) for node, adjoint in pairs if node.inputs and adjoint]
        graphs = simplify([self._weighted(functools.reduce(operator.add, squares, ZERO))])
        return make_backend().row_kernel(self._row_graphs(graphs))

    @cached_property
    def residuals_and_jacobian(self) -> protocol.RowKernel:
        """For each component of the residual of every row: its gradient, followed by the residual itself."""
        return self._jacobian_kernel(self.graphs.residuals)

    @cached_property
    def prediction_and_jacobian(self) -> protocol.RowKernel:
        """For each component of the prediction of every row: its gradient, followed by the prediction itself."""
        count, prediction = len(self.graphs.residuals), self.graphs.prediction
        return self._jacobian_kernel([prediction] if count == 1 else [index(prediction, k) for k in range(count)])

    def scores_and_jacobian(self, shape: Shape) -> protocol.RowKernel:
        """For each score of every row, of a prediction or of the argument of its link function: its gradient, followed
        by the score itself.
        """
        score = self.graphs.prediction
        score = score.inputs[0] if score.op in LINK_FUNCTIONS else score
        return self._jacobian_kernel(component_graphs(score, shape))

    def _jacobian_kernel(self, components: Sequence[Node]) -> protocol.RowKernel:
        outputs = [output for node in components for output in _gradient_first(self._with_gradient(node))]
        return self.backend.row_kernel(self._row_graphs(outputs, [*self._shapes, ()] * len(components)))

    @cached_property
    def jacobian_products(self) -> protocol.SumKernel | None:
        """The sums of products of every two columns of [J | r], column by column up to the diagonal. See
        `Objective.triangle`.

        It is None if there are so many columns that QR factorization is as fast.
        """
        if len(self.parameters) >= _MAX_PRODUCT_COLUMNS or any(self._shapes):
            return None
        columns = [_gradient_first(self._with_gradient(residual)) for residual in self.graphs.residuals]
        places = [(i, j) for j in range(len(self.parameters) + 1) for i in range(j + 1)]
        products = ([own[i] * own[j] if i != j else square(own[j]) for own in columns] for i, j in places)
        outputs = [self._weighted(functools.reduce(operator.add, terms)) for terms in products]
        return self.backend.sum_kernel(self._row_graphs(outputs, [()] * len(outputs)))

    @cached_property
    def by_row(self) -> Kernels:
        """Kernels whose parameters, which must be numbers, and settings differ between rows: they are columns. The loss
        of a row includes its weight and the penalty.
        """
        factors = (losses.L1_FACTOR, losses.L2_FACTOR, losses.PRIOR_FACTOR, losses.X_ERROR_FACTOR)
        settings = (losses.RESIDUAL_SCALE, *factors, *self.smoothing_radii)
        columns = {*self.columns, *(leaf.text for leaf in self.parameters), *settings}
        return replace(self, graphs=replace(self.graphs, loss=self.graphs.weighted_loss), columns=columns)

    @cached_property
    def row_hessian(self) -> protocol.RowKernel:
        """The second derivatives of the weighted loss of every row, row by row from the diagonal on."""
        return self.backend.row_kernel(self._row_graphs(self._second_derivatives))

    @cached_property
    def row_kink_sizes(self) -> protocol.RowKernel:
        """The arguments of the kinks of every row in absolute value."""
        return self.backend.row_kernel(self._row_graphs(self._mean_kinks))

    @cached_property
    def hessian(self) -> protocol.SumKernel | None:
        """The second derivatives of the summed loss, row by row from the diagonal on; None for arrays, and for many
        parameters, whose graphs would be large.
        """
        if any(self._shapes) or len(self.parameters) > _MAX_JOINT_HESSIAN:
            return None
        return self.backend.sum_kernel(self._row_graphs(self._second_derivatives))

    @property
    def _second_derivatives(self) -> list[Node]:
        leaves, slopes = self._slopes
        rows = [tangents(slopes[: k + 1], {leaf: ONE}, self.graphs.leaf_shapes) for k, leaf in enumerate(leaves)]
        return simplify([rows[j][k] for k in range(len(leaves)) for j in range(k, len(leaves))])

    @cached_property
    def target(self) -> protocol.RowKernel:
        """The target of every row. It is usually a column, so it is not worth compiling."""
        assert self.graphs.target is not None
        return make_backend().row_kernel(self._row_graphs([self.graphs.target]))

    @cached_property
    def target_and_prediction(self) -> protocol.RowKernel:
        """The target and the prediction of every row."""
        assert self.graphs.target is not None
        return self.backend.row_kernel(self._row_graphs([self.graphs.target, self.graphs.prediction]))

    def hessian_rows(self, which: int) -> protocol.SumKernel:
        """Return the kernel for the derivatives of the summed loss's gradient along one parameter.

        Args:
            which: the index of the parameter. A number moves by 1, an array by the leaf `DIRECTION` of the same shape.
        """

        def build() -> protocol.SumKernel:
            leaves, slopes = self._slopes
            leaf, shapes = leaves[which], dict(self.graphs.leaf_shapes)
            direction = ONE
            if leaf.text in shapes:
                shapes[DIRECTION] = shapes[leaf.text]
                direction = variable(DIRECTION)
            outputs = simplify(tangents(slopes, {leaf: direction}, shapes))
            return self.backend.sum_kernel(protocol.RowGraphs(outputs, self.columns, shapes, self._shapes))

        return self.cached(f"Hessian rows {which}", build)

    @cached_property
    def _slopes(self) -> tuple[list[Node], list[Node]]:
        """The parameters, and the derivatives of the weighted loss towards them."""
        loss, *leaves = share([self.graphs.weighted_loss, *self.parameters])
        return leaves, simplify(gradient_nodes(loss, leaves, self.graphs.leaf_shapes))

    def _with_gradient(self, output: Node) -> list[Node]:
        shared, *leaves = share([output, *self.parameters])
        return simplify([shared, *gradient_nodes(shared, leaves, self.graphs.leaf_shapes)])

    @cached_property
    def _gradient_graphs(self) -> protocol.RowGraphs:
        return self._row_graphs(self._with_gradient(self.graphs.weighted_loss), [(), *self._shapes])

    @property
    def _shapes(self) -> list[Shape]:
        """The shapes of the free parameters."""
        return [self.graphs.leaf_shapes.get(leaf.text, ()) for leaf in self.parameters]

    def _weighted(self, node: Node) -> Node:
        return variable(WEIGHT) * node if self.graphs.has_weight else node

    def _row_graphs(self, outputs: Sequence[Node], filled: Sequence[Shape] | None = None) -> protocol.RowGraphs:
        return protocol.RowGraphs(outputs, self.columns, self.graphs.leaf_shapes, filled)


def _gradient_first(value_and_slopes: Sequence[Node]) -> list[Node]:
    value, *slopes = value_and_slopes
    return [*slopes, value]
