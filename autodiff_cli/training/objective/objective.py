"""The objective of a fit: the mean loss over the rows, as a function of the parameters alone.

A (weighted) mean over rows is a sum with one term per row. So everything that a fit needs is computed block by block
and combined by a fold. The loss and its gradient are added. For least squares, stacked triangular factors are combined
by QR factorization.

`ModelOverRows` evaluates kernels over rows; `Objective` adds the loss. `find_undefined` explains where a loss is not
finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array, as_float_array, ignore_float_errors
from autodiff_cli.backends import protocol
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.data.table import DataError, Dataset, Table
from autodiff_cli.graph.node import Node, as_node
from autodiff_cli.graph.tape import Tape, leaf_names, topological_order
from autodiff_cli.language.errors import format_names
from autodiff_cli.language.printer import to_text
from autodiff_cli.options import explicit_options, takes_options
from autodiff_cli.training import rows as folds
from autodiff_cli.training.checkpoint import EvaluationLog
from autodiff_cli.training.losses import FAMILIES, L1_FACTOR, L2_FACTOR, LOSSES, PRIOR_FACTOR, RESIDUAL_SCALE, LossKind
from autodiff_cli.training.objective.kernels import DIRECTION, LINK_FUNCTIONS, is_generalised_linear, remember
from autodiff_cli.training.objective.loading import Data, as_dataset
from autodiff_cli.training.objective.model import Model, standardize_layers, tie_fixed_parameters
from autodiff_cli.training.objective.parameters import Constraints, Dependency
from autodiff_cli.training.objective.preparation import PreparedObjective, parse_model
from autodiff_cli.training.optimizers import PLAIN_METHODS
from autodiff_cli.training.options import FitOptions, ObjectiveOptions

T = TypeVar("T")


def copy_with(original: T, **attributes: Any) -> T:
    """Return a shallow copy of an object with other values of some attributes."""
    other = object.__new__(type(original))  # three times as fast as `copy.copy`
    vars(other).update(vars(original), **attributes)
    return other


class ModelOverRows(PreparedObjective):
    """A model, its rows, and the kernels that evaluate it over them. See `Objective` for the attributes."""

    evaluation_log: EvaluationLog | None
    _row_cache: dict[str, Any]  # results that depend on the rows alone
    _point_cache: tuple[Hashable, dict[Hashable, Any]]  # the last point, and results at it

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the free parameters, in order of appearance."""
        return self.layout.names

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.data.rows

    @property
    def table(self) -> Table:
        """The rows in memory; for few rows, or if they are there already."""
        return self.data.to_table()

    @property
    def total_weight(self) -> float:
        """The sum of the weights; the number of rows if there are no weights."""
        return self.data.total_weight

    @cached_property
    def components(self) -> int:
        """The number of components of the target of a row."""
        return math.prod(self.model.target_shape)

    @property
    def target_count(self) -> int:
        """The number of target values: the rows times the components of each target."""
        return self.rows * self.components

    def select_rows(self, rows: folds.RowIndex) -> Self:
        """Return the objective over some of the rows: a slice, row numbers, a mask, or counts."""
        other = self.with_rows(self.data.select_rows(rows))
        other.selections = folds.add_selection(self.selections, rows, self.rows)
        return other

    def numbers_in_data(self, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """Return the numbers of rows among all rows of the data, counted from 0; None if they are not known."""
        return folds.numbers_in_data(self.selections, rows)

    def with_rows(self, rows: folds.Rows) -> Self:
        """Return the objective over these rows in another place or with other columns, or over some of them."""
        # A scale that is estimated on some rows holds for these only.
        caches: dict[str, Any] = {"_row_cache": {}, "_point_cache": ((), {})}
        other = copy_with(self, data=rows, settings=dict(self.settings), evaluation_log=None, **caches)
        if self.settings[PRIOR_FACTOR]:
            other.settings[PRIOR_FACTOR] *= self.total_weight / other.total_weight
        return other

    def point(self, theta: ArrayLike) -> dict[str, Any]:
        """Return the value of every parameter by name, including fixed ones. Arrays are views of `theta`."""
        values = self.layout.views(theta if type(theta) is np.ndarray else as_float_array(theta))
        values |= self.fixed
        values |= self.settings
        return values

    def sum_rows(self, kernel: protocol.SumKernel, theta: ArrayLike, more: Mapping[str, Any] | None = None) -> Array:
        """Return the sums of a kernel over all rows.

        Args:
            more: values of leaves other than parameters.
        """
        self._count_pass()
        point = self.point(theta)
        if more:
            point |= more
        return self.data.fold(folds.SumTask(kernel, point))

    def evaluate_rows(self, kernel: protocol.RowKernel, theta: ArrayLike) -> Array:
        """Return the values of a kernel for all rows, of shape (values, rows). All of it is in memory.

        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> objective.evaluate_rows(objective.kernels.residuals, [2])
        array([[0., 1.]])
        """
        return self.data.fold(folds.ValueTask(kernel, self.point(theta)))

    def fold_rows(
        self,
        kernel: protocol.RowKernel,
        theta: ArrayLike,
        reduce: Callable[[Array, folds.ColumnArrays], T],
        combine: Callable[[T, T], T],
    ) -> T:
        """Return the values of a kernel for each block, of shape (values, rows of the block), reduced and combined.

        Args:
            reduce: is called with these values, which it may modify but not keep, and with the columns of the block:
                those that the kernel reads, and the weights. It can be pickled, as can `combine`.

        >>> from autodiff_cli.backends.selection import make_backend
        >>> from autodiff_cli.backends.protocol import RowGraphs
        >>> objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
        >>> graphs = RowGraphs([objective.model.program.output], {"x"})
        >>> objective.fold_rows(make_backend().row_kernel(graphs), [3], lambda values, _: values.max(), max)
        np.float64(6.0)
        """
        self._count_pass()
        return self.data.fold(folds.FoldTask(kernel, self.point(theta), reduce, combine))

    def _count_pass(self) -> None:
        """Count a pass over the rows, and compile the kernels after so many passes that this pays.

        A fit with a checkpoint does not compile, because a resumed one repeats only some of its passes.
        """
        if self.evaluation_log is None:
            self.passes_before_compiling -= 1
            if self.passes_before_compiling < 0:
                self.kernels, self.passes_before_compiling = self.kernels.compiled(self.threads), math.inf

    def fold_columns(
        self, names: Set[str], reduce: Callable[[folds.ColumnArrays], T], combine: Callable[[T, T], T]
    ) -> T:
        """Return the result of a reduction of columns, block by block. See `ColumnTask`."""
        return self.data.fold(folds.ColumnTask(frozenset(names), reduce, combine))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns of the rows that the model reads."""
        return tuple(name for name in self.model.columns if name in self.data.names)

    @property
    def column_spreads(self) -> folds.Spreads:
        """The minimum, the maximum and the moments of each of `read_columns`, without weights."""
        reduce = partial(folds.column_spreads, self.read_columns)
        return self.cached("spreads", lambda: self.fold_columns({*self.read_columns}, reduce, folds.join_spreads))

    def cached_at(self, key: Hashable, theta: Array, compute: Callable[[], T]) -> T:
        """Return the result of `compute` for a point; results are cached for the last point only."""
        point = (*self.settings.values(), theta.tobytes())
        last_point, results = self._point_cache  # threads may replace it meanwhile
        if last_point != point:
            results = {}
            self._point_cache = (point, results)
        return remember(results, key, compute)

    def column(self, name: str) -> Array:
        """Return a column of all rows in memory; for few rows."""
        return self.data.column(name)

    def cached(self, key: str, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which depends on the rows alone, and cache it."""
        return remember(self._row_cache, key, compute)


_HUGE_TARGET = 1e150  # the squares of larger numbers nearly overflow
# What keeps the predictions of a loss in its domain.
_LINKS = {"bce": "sigmoid", "poisson": "exp", "gamma": "exp", "negative_binomial": "exp"}
_MAX_TEXT_LENGTH = 80  # characters; a longer formula is not shown in a sentence


class UndefinedValue:
    """The first part of a formula that is not a finite number, whose own parts are finite.

    Args:
        objective: the objective.
        graphs: the formula, as graphs of a row.
        theta: the free parameters.
        bad_rows: the rows in which it is not finite.
    """

    def __init__(
        self, objective: Objective, graphs: Sequence[Node], theta: ArrayLike, bad_rows: folds.NonFiniteRows
    ) -> None:
        tape = Tape(graphs)
        kernel = make_backend().row_kernel(
            protocol.RowGraphs(tape.nodes, objective.kernels.columns, objective.kernels.graphs.leaf_shapes)
        )
        row, places = bad_rows.first, kernel.output_slices
        values = objective.select_rows(slice(row, row + 1)).evaluate_rows(kernel, theta)
        # A constant that a choice selects, as in `where(p >= 0, p, nan)`, is not the cause.
        pairs = zip(tape.nodes, places, strict=True)
        finite = [each.is_constant or bool(np.isfinite(values[place]).all()) for each, place in pairs]
        first = next(i for i, inputs in enumerate(tape.inputs) if not finite[i] and all(finite[j] for j in inputs))
        node, value, point = tape.nodes[first], values[places[first]], objective.point(theta)
        read = [name for name in leaf_names([node]) if name in objective.model.parameters]
        named = [f"{name} = {point[name]:.6g}" for name in read if not np.ndim(point[name])]
        target = objective.kernels.graphs.target
        targets = values[places[tape.index[target]]].ravel().tolist() if target in tape.index else []
        self._text, self._parameters = to_text(node), ", ".join(named) or ("the parameters are arrays" if read else "")
        self._value = float(value[~np.isfinite(value)][0]) if len(value) else math.nan
        self._row, self._other_rows = describe_row(objective, row), bad_rows.count - 1
        link, output = _LINKS.get(objective.loss), objective.model.program.output.op
        is_unlinked = link is not None and (output is None or output.name != link)
        self._link = f"write the prediction as `{link}(…)`, or " if is_unlinked else ""
        self._is_from_target = math.isinf(float(value.max())) and any(abs(size) > _HUGE_TARGET for size in targets)

    def __str__(self) -> str:
        subject = f"`{self._text}`" if len(self._text) <= _MAX_TEXT_LENGTH else "a part of the formula"
        rows = f"{self._row}{f' and {self._other_rows} more' if self._other_rows else ''}"
        return f"{subject} is {self._value} in {rows}{f', where {self._parameters}' if self._parameters else ''}"

    @property
    def advice(self) -> str:
        """A sentence that suggests what to do about it."""
        if self._is_from_target:
            return "numbers of this size are too large for their loss: leave such rows out, or divide the column"
        if self._parameters:
            return f"{self._link}try other starting values, or leave such rows out"
        return "no parameter changes that: leave such rows out, or write the model so that it is defined there"


def find_undefined(objective: Objective, theta: ArrayLike) -> UndefinedValue | None:
    """Return the first part of the loss, or else of its gradient, that is not finite; None if all is finite.

    >>> print(find_undefined(Objective("y ~ a*log(t)", {"t": [1, 0], "y": [1, 2]}), [1.0]))
    `log(t)` is -inf in row 2 (y = 2, t = 0)
    """
    for kernel, graphs in (
        (objective.kernels.row_loss, [objective.kernels.graphs.loss]),
        (objective.kernels.row_loss_and_gradient, objective.kernels.row_gradient_graphs),
    ):
        bad_rows = objective.fold_rows(kernel, theta, folds.find_non_finite, folds.join_non_finite)
        if bad_rows.count:
            return UndefinedValue(objective, graphs, theta, bad_rows)
    return None


def check_target(objective: Objective) -> None:
    """Raise DataError if the target is not finite, too small, or outside of the range of the loss."""
    spread = objective.target_spreads
    least, most = float(spread.low.min()), float(spread.high.max())
    if not (math.isfinite(least) and math.isfinite(most)):
        zeros = np.zeros(objective.layout.size)
        row = describe_row(
            objective,
            objective.fold_rows(objective.kernels.target, zeros, folds.find_non_finite, folds.join_non_finite).first,
        )
        raise DataError(f"the left side of `~` is not finite in {row}")
    loss = LOSSES[objective.loss]
    size = max(-least, most)
    if loss.kind is LossKind.SQUARES and size > 0 and size * size == 0:
        raise DataError(f"the left side of `~` is at most {size:g} in size, so its squares underflow: rescale it")
    if least < loss.min_target or most > loss.max_target or (loss.is_min_excluded and least <= loss.min_target):
        low = f"above {loss.min_target:g}" if loss.is_min_excluded else f"not below {loss.min_target:g}"
        needed = low if math.isinf(loss.max_target) else f"between {loss.min_target:g} and {loss.max_target:g}"
        raise DataError(f"the loss {objective.loss} needs a target {needed}, not from {least:.15g} to {most:.15g}")


def describe_row(objective: Objective, row: int) -> str:
    """Return a row, counted from 0, in words: its cells, and its number in the data, from 1, if that is known."""
    classes = objective.model.class_column
    its = objective.data.select_rows(slice(row, row + 1)).to_table().columns
    cells = ", ".join(f"{name} = {its[name][0]:g}" for name in objective.model.numeric if name != classes)
    number = objective.numbers_in_data(np.array([row]))
    return f"the row with {cells}" if number is None else f"row {number[0] + 1} ({cells})"


_MIN_PRODUCT_ROWS = 16_384  # rows beyond which Cholesky factorization of products is much faster than QR
_TYPICAL_SIZE = 10.0  # root mean square of a column, or its reciprocal, beyond which networks learn slowly
_TYPICAL_OFFSET = 3.0  # mean of the target, in standard deviations, beyond which networks learn slowly


class Objective(ModelOverRows):
    """The mean loss of a model over data, `Σ w·ℓ / Σ w`, and its gradient.

    If the target of a row is a vector, the loss of the row is the mean over its components. A model `column ~
    softmax(…)` is a classification: the column holds whole numbers or texts, and the loss is the cross-entropy.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row.
        data: the columns by name, the path of a file, or a Dataset. Names in the model that are not columns are
            parameters. Rows of weight 0 are left out. Without such rows arrays, also of float32 and integers, are not
            copied, so later changes to them change the objective.
        options: the fields of `ObjectiveOptions`, as keywords.

    Attributes:
        model: the model with all shapes resolved.
        parameters: the names of the free parameters, in order of appearance.
        layout: the positions of their numbers in every `theta`, a vector of shape (P,).
        fixed: the values of the fixed parameters.
        start: the starting point.
        user_starts: the parameters whose starting value the user gave.
        bounds: the box to which fits keep `theta`; values and gradients are defined outside of it too.
        bounds_by_name: the bounds that the user gave.
        kernels: the kernels that are evaluated over rows.
        passes_before_compiling: the passes over the rows until compiled kernels pay; infinite if they never do.
        family: the distribution of the target, if one was named.
        is_likelihood: whether the model itself is a negative log-likelihood.
        is_scale_estimated: whether a fit estimates the scale of a robust loss, or theta of negative binomial counts.
        loss: the name of the loss; empty if the model itself is the loss.
        classes: the labels of a classification, sorted; else None.
        groups: the labels of groups of rows, sorted; else None.
        has_relative_gradients: whether gradient methods divide gradients by the loss at the start.
        data: the rows, whose class column holds positions in `classes`; `origins`: see `Dataset`.
        zero_weight_rows: the number of rows of the data that were left out because their weight is 0.
        selections: how `data` were selected among all rows of the data, each with the number of rows before; None if
            that is not known.

    Raises:
        ExpressionError: if the model cannot be parsed, if shapes do not fit, or if it lacks a parameter that is named.
        DataError: if the data cannot be used.
        OptionError: for an unknown loss, or one that does not suit the model.

    >>> objective = Objective("y ~ a*x + b", {"x": [0, 1, 2], "y": [1, 3, 5]})
    >>> objective.parameters, objective.start
    (('a', 'b'), array([1., 1.]))
    """

    @takes_options(ObjectiveOptions)
    def __init__(self, model: str | Model, data: Data, options: ObjectiveOptions) -> None:
        dataset = as_dataset(data, [model])
        self._initialize(model, dataset, FitOptions(**explicit_options(options)), options.scale or 1.0)

    def __repr__(self) -> str:
        names = format_names(self.layout.element_names)
        return f"<Objective of {self.model.text!r}: {self.rows:,} rows, theta is {names}>"

    @classmethod
    def of(cls, model: str | Model, dataset: Dataset, options: FitOptions) -> Objective:
        """Return the objective for the options of a fit. Raises the exceptions of the constructor."""
        objective = cls.__new__(cls)
        objective._initialize(model, dataset, options, options.scale)
        text = objective._standardized_text(options)
        if text == objective.model.text:
            return objective
        named, groups = frozenset(options.parameters.names), objective.model.group_column
        standardized = cls.of(parse_model(text, tuple(dataset.names), named, groups), dataset, options)
        standardized.has_relative_gradients = options.optimizer not in PLAIN_METHODS
        standardized.notes = [f"columns are standardised for the network, by mean and standard deviation: {text}"]
        return standardized

    def _standardized_text(self, options: FitOptions) -> str:
        """Return the text of the model with columns of a network standardised whose values are far from 1.

        Methods whose steps are proportional to the gradient would take too long steps if the target was standardised
        too.
        """
        layer_parameters = {*self.model.program.layer_parameters}
        if not self.is_network or not layer_parameters.isdisjoint({*self.user_starts, *self.fixed}):
            return self.model.text
        names, (*_, means, squares) = self.read_columns, self.column_spreads
        deviations, sizes = np.sqrt(squares / self.rows), np.hypot(means, np.sqrt(squares / self.rows))
        target = getattr(self.model.program.target, "text", "")  # empty unless it is a column
        is_off = [name == target for name in names] & (sizes > _TYPICAL_OFFSET * deviations)
        is_far = is_off | (sizes > _TYPICAL_SIZE) | (sizes < 1 / _TYPICAL_SIZE)
        is_far &= (deviations > 0) & np.isfinite(sizes)
        scales = {names[k]: (float(means[k]), float(deviations[k])) for k in np.flatnonzero(is_far).tolist()}
        if self.kind is LossKind.LIKELIHOOD or options.optimizer in PLAIN_METHODS:
            scales.pop(target, None)
        return standardize_layers(self.model, scales) if scales else self.model.text

    def _initialize(self, model: str | Model, dataset: Dataset, options: FitOptions, scale: float | None) -> None:
        if isinstance(model, str):
            model, options = tie_fixed_parameters(model, dataset.names, options)
        self._prepare(model, dataset, options)
        self.settings = {RESIDUAL_SCALE: 1.0 if scale is None else scale, **self.settings}
        self.is_scale_estimated = scale is None and bool(self.loss) and LOSSES[self.loss].has_scale
        if self.priors:
            unit = 2 if self.kind is LossKind.SQUARES else 1
            self.settings[PRIOR_FACTOR] = unit / (self.total_weight * self.components)
            self.is_scale_estimated = self.has_unknown_variance
        self._row_cache, self._point_cache = {}, ((), {})
        self.notes: list[str] = []
        self.has_relative_gradients = False
        self.evaluation_log: EvaluationLog | None = None  # set during a fit with a checkpoint
        if self.has_residuals:
            check_target(self)

    @property
    def has_target(self) -> bool:
        """Whether the model has the form `target ~ prediction`."""
        return self.model.program.target is not None

    @property
    def kind(self) -> LossKind:
        """The kind of the loss."""
        if not self.loss:
            return LossKind.LIKELIHOOD if self.is_likelihood else LossKind.OTHER
        return LOSSES[self.loss].kind

    @property
    def is_quasi(self) -> bool:
        """Whether the family has a variance, but no likelihood."""
        return self.family is not None and FAMILIES[self.family].is_quasi

    @property
    def has_dispersion(self) -> bool:
        """Whether the variance of the target is a function of its mean times a factor that is estimated."""
        return self.is_quasi or self.loss == "gamma"

    @property
    def has_theta(self) -> bool:
        """Whether the target is a negative binomial count, whose theta is `scale`."""
        return self.loss == "negative_binomial"

    @property
    def scale(self) -> float:
        """The residual scale of robust losses; theta of negative binomial counts."""
        return self.settings[RESIDUAL_SCALE]

    @cached_property
    def constraints(self) -> Constraints:
        """The orders and shares of parameters."""
        orders = [(self.layout.slices[low].start, self.layout.slices[high].start) for low, high in self.orders]
        return Constraints(orders, self.shares, [end for ends in self.bounds_by_name.values() for end in ends])

    def on_constraints(self, theta: Array) -> tuple[Self, Array]:
        """Return the objective restricted to the active constraints, and the derivatives of all parameters there.

        Some parameters then depend on others. The derivatives, of shape (P, P), are with respect to independent ones.

        >>> objective = Objective("y ~ a*x + b", {"x": [1, 2], "y": [3, 5]}, bounds={"b": ("a", None)})
        >>> objective.on_constraints(np.array([2.0, 2.0]))[1]
        array([[1., 0.],
               [1., 0.]])
        """
        slopes, replaced = np.eye(len(theta)), dict[Node, Node]()
        box = self.bounds.copy()
        dependencies = self.constraints.active(theta)
        for each in dependencies:
            slopes[each.position] = each.sign * slopes[each.others].sum(axis=0)
            self._replace(replaced, each, as_node(0))
            box.low[each.others], box.high[each.others] = -math.inf, math.inf
        for each in dependencies:
            box.low[each.position] = box.high[each.position] = theta[each.position]
        return self.substituted(replaced, bounds=box), slopes

    def _replace(self, replaced: dict[Node, Node], dependency: Dependency, slack: Node) -> None:
        """Add the leaf of a parameter that depends on others, and its value, to replaced nodes."""
        leaves, names = self.model.program.leaves, self.layout.names
        value: Node = as_node(dependency.limit) - slack if dependency.limit else slack
        for leaf in (leaves[names[k]] for k in dependency.others):
            value = value + as_node(dependency.sign) * replaced.get(leaf, leaf)
        replaced[leaves[names[dependency.position]]] = value

    def substituted(self, replaced: Mapping[Node, Node], **changes: Any) -> Self:
        """Return a copy with some leaves of its loss replaced, and with other attributes.

        >>> objective = Objective("y ~ a", {"y": [1, 2]})
        >>> objective.substituted({objective.model.program.leaves["a"]: as_node(2)}).value(objective.start)
        0.5
        """
        return copy_with(self, kernels=self.kernels.substituted(replaced), _point_cache=((), {}), **changes)

    def with_slacks(self, theta: Array) -> Self:
        """Return the objective in which one parameter of each constraint is replaced by a nonnegative slack.

        The slack is the difference of ordered parameters, or the remainder of shares.

        The start has values in order, and shares divided by their sum; see `add_slacks`.

        >>> objective = Objective("y ~ a*x + b", {"x": [1, 2], "y": [3, 5]}, bounds={"b": ("a", None)})
        >>> objective.with_slacks(np.array([1.0, 4.0])).start
        array([1., 3.])
        """
        replaced, box = dict[Node, Node](), self.bounds.copy()
        start = self.constraints.restore(theta)
        at_start = start.copy()
        for each in self.constraints.solved(start, box):
            k = each.position
            box.low[k], box.high[k] = 0.0, each.limit or math.inf
            at_start[k] = each.sign * (start[k] - each.value(start))
            self._replace(replaced, each, self.model.program.leaves[self.layout.names[k]])
        changes: dict[str, Any] = {"bounds": box, "start": box.clip(at_start), "constraints": Constraints()}
        return self.substituted(replaced, user_starts=frozenset(self.parameters), **changes)

    def add_slacks(self, theta: Array, at: Array) -> Self:
        """Return the objective with the start at a solution of `with_slacks(at)`, and bounds within which all
        constraints hold: between two ordered parameters, and at the shares.

        >>> objective = Objective("y ~ a*x + b", {"x": [1, 2], "y": [3, 5]}, bounds={"b": ("a", None)})
        >>> objective.add_slacks(np.array([2.0, 1.0]), np.array([2.0, 1.0])).start
        array([2., 3.])
        """
        start = theta.copy()
        box = self.bounds.copy()
        for each in self.constraints.solved(at, self.bounds):
            k = each.position
            start[k] = each.value(start) + each.sign * start[k]
            part = [k, *each.others]
            ceiling = start[part] if each.limit else np.array([math.inf, start[part].mean()])
            box.high[part] = np.minimum(box.high[part], ceiling)
            box.low[k] = box.low[k] if each.limit else max(box.low[k], ceiling[1])
        return copy_with(self, start=box.clip(start), bounds=box, user_starts=frozenset(self.parameters))

    def set_scale(self, scale: float) -> None:
        """Set the residual scale of robust losses."""
        self.settings[RESIDUAL_SCALE] = scale

    @property
    def is_penalised(self) -> bool:
        """Whether the loss includes an l1 or l2 penalty."""
        return bool(self.settings[L1_FACTOR] or self.settings[L2_FACTOR] or self.settings[PRIOR_FACTOR])

    @property
    def has_unknown_variance(self) -> bool:
        """Whether the likelihood is normal with an unknown variance."""
        return self.kind is LossKind.SQUARES and not self.is_absolute

    @property
    def has_priors(self) -> bool:
        """Whether the loss includes priors."""
        return bool(self.settings[PRIOR_FACTOR])

    def log_priors(self, points: Array) -> Array:
        """Return the log-densities of the priors at some points, of shape (n, P); zeros without priors.

        >>> Objective("y ~ a", {"y": [1, 2]}).log_priors(np.ones((2, 1))).tolist()
        [-0.0, -0.0]
        """
        kernel, values = self.kernels.log_prior, np.empty((1, len(points)))
        slices, shapes = self.layout.slices, self.layout.shapes
        columns = {
            name: points[:, slices[name]].T.reshape(*shapes[name], len(points)) for name in kernel.names & slices.keys()
        }
        kernel.write(kernel.prepare(self.fixed), columns, values)
        return np.asarray(values[0])

    def prior_ranks(self, points: Array) -> Array:
        """Return the log-densities of the priors as points are compared by them: at most those at the nearest likely
        point, since densities that are infinite at an end of their support have no probability there.

        >>> Objective("y ~ a", {"y": [1, 2]}).prior_ranks(np.ones((2, 1))).tolist()
        [-0.0, -0.0]
        """
        return np.minimum(self.log_priors(points), self.log_priors(self.likely_bounds(self.bounds).clip(points)))

    def without_penalty(self) -> Self:
        """Return the objective without its penalties.

        >>> Objective("y ~ a", {"y": [1, 2]}).without_penalty().value([1])
        0.5
        """
        if not self.is_penalised:
            return self
        return copy_with(self, settings={**self.settings, L1_FACTOR: 0.0, L2_FACTOR: 0.0, PRIOR_FACTOR: 0.0})

    @property
    def is_generalised_linear(self) -> bool:
        """Whether the prediction is a link function of an expression that is linear in all free parameters."""

        def compute() -> bool:
            leaves = [self.model.program.leaves[name] for name in self.parameters]
            return is_generalised_linear(self.model.program.output, leaves, self.model.shapes)

        return self.has_target and self.kernels.cached("generalised linear", compute)

    @property
    def is_linear(self) -> bool:
        """Whether the prediction itself is linear in all free parameters together."""
        return self.is_generalised_linear and self.model.program.output.op not in LINK_FUNCTIONS

    @cached_property
    def is_network(self) -> bool:
        """Whether a parameter of a hidden layer is free."""
        has_layers = any(name in self.model.program.layer_parameters for name in self.parameters)
        return has_layers and not self.is_generalised_linear

    @property
    def has_residuals(self) -> bool:
        """Whether residuals, target minus prediction, are meaningful: not for classes."""
        return self.has_target and self.classes is None

    @property
    def has_kinks(self) -> bool:
        """Whether the prediction has kinks or jumps, as `abs`, `max`, `relu` and `where` have."""

        def compute() -> bool:
            nodes = topological_order([self.model.program.output])
            return any(node.op is not None and node.op.kink is not None for node in nodes)

        return self.kernels.cached("kinks", compute)

    def epoch_runner(self, update: protocol.Update, clip_norm: float | None = None) -> Callable[..., float]:
        """Return a function that runs one epoch of a gradient method over the rows. See `EpochKernel.run`.

        Its arguments are the state of the method, the learning rate, the rows of a batch, the generator that draws
        them, and optionally a progress callback. It returns the mean loss of the batches.

        >>> from autodiff_cli.training.optimizers import OPTIMIZERS
        >>> objective = Objective("y ~ a", {"y": [1, 1, 1, 1]}, start={"a": 0})
        >>> state = protocol.OptimizerState.initial(objective.start, OPTIMIZERS["sgd"])
        >>> objective.epoch_runner(OPTIMIZERS["sgd"])(state, 0.25, 2, np.random.default_rng(0))  # losses 1, 1/4
        0.625
        >>> state.theta, state.step_count
        (array([0.75]), 2)
        """
        kernel = self.kernels.epoch_kernel(update, clip_norm)

        def run(
            state: protocol.OptimizerState,
            rate: float,
            batch_rows: int,
            generator: np.random.Generator,
            on_progress: protocol.ProgressCallback | None = None,
        ) -> float:
            request = protocol.EpochRequest(state, rate, {**self.fixed, **self.settings}, batch_rows, on_progress)
            return self.data.run_epoch(kernel, request, generator)

        return run

    def without_kinks(self) -> Objective | None:
        """Return the objective with its kinks smoothed, at first with radius 0; None if it has no kinks.

        >>> rounded = Objective("y ~ a", {"y": [0, 2]}, loss="mae").without_kinks()
        >>> rounded.value([1]), rounded.with_smoothing(1.0, [1]).value([1])
        (1.0, 1.4142135623730951)
        """
        kernels = self.kernels.without_kinks
        if kernels is None:
            return None
        settings = {**self.settings, **dict.fromkeys(kernels.smoothing_radii, 0.0)}
        return copy_with(self, kernels=kernels, passes_before_compiling=math.inf, settings=settings)

    def with_smoothing(self, share: float, theta: ArrayLike) -> Objective:
        """Return the objective with each kink smoothed by a share of the mean size of its argument at `theta`.

        >>> rounded = Objective("y ~ a", {"y": [0, 2]}, loss="mae").without_kinks()
        >>> rounded.with_smoothing(0.1, [1]).value([1])
        1.004987562112089
        """
        sizes = self.sum_rows(self.kernels.kink_sizes, theta) / self.rows
        return copy_with(self, settings={**self.settings, **self.kernels.radii(share, sizes)})

    @ignore_float_errors()  # faster than `with`
    def value_and_grad(self, theta: ArrayLike) -> tuple[float, Array]:
        """Return the mean loss, including penalties, and its gradient.

        Args:
            theta: the values of the free parameters, of shape (P,).

        Returns:
            The loss, and an array of shape (P,). They are nan where the loss is undefined; no exception is raised.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value_and_grad([2])
        (2.0, array([4.]))
        """
        total = self._logged("slopes", theta, partial(self.sum_rows, self.kernels.loss_and_gradient))
        total /= self.total_weight
        return float(total[0]), total[1:]

    def value(self, theta: ArrayLike) -> float:
        """Return the mean loss, including penalties.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value([2])
        2.0
        """
        return float(self._logged("loss", theta, partial(self.sum_rows, self.kernels.loss))[0]) / self.total_weight

    def rss(self, theta: ArrayLike) -> float:
        """Return the (weighted) sum of squared residuals over all components. Requires residuals."""
        return float(np.sum(self.sum_rows(self.kernels.squared_residuals, theta)))

    def triangle(self, theta: ArrayLike) -> Array:
        """Return the triangular factor R of the matrix [J | r], with each row multiplied by the square root of its
        weight.

        r is target minus prediction, J its Jacobian; a vector target has a row of the matrix for each component. R, of
        shape (P+1, P+1), has all that least squares needs: `Rᵀ·R = [J | r]ᵀ·[J | r]`. The norm of its last column is
        the norm of the residuals. An l2 penalty adds a row for each parameter. Requires residuals.
        """
        theta = as_float_array(theta)
        triangle = self.cached_at("triangle", theta, lambda: self._logged("triangle", theta, self._factorize))
        triangle.setflags(write=False)  # because it is cached
        return triangle

    def _factorize(self, theta: Array) -> Array:
        width = self.layout.size + 1
        products = self.kernels.jacobian_products if self.rows > _MIN_PRODUCT_ROWS else None
        factor = None if products is None else folds.cholesky_factor(self.sum_rows(products, theta))
        if factor is None:
            reduction = partial(folds.residual_triangle, self.components, width)
            factor = self.fold_rows(self.kernels.residuals_and_jacobian, theta, reduction, folds.join_triangles)
        if self.settings[L2_FACTOR]:
            weight = math.sqrt(self.settings[L2_FACTOR] * self.total_weight * self.components)
            rows = weight * np.column_stack((np.eye(width - 1), theta))
            factor = folds.triangular_factor(np.vstack((factor, rows)))
        return factor if len(factor) == width else np.vstack((factor, np.zeros((width - len(factor), width))))

    def _logged(self, name: str, theta: T, compute: Callable[[T], Array]) -> Array:
        """Return the result of a computation over all rows at a point, from the evaluation log if there is one."""
        if self.evaluation_log is None:
            return compute(theta)
        key = np.asarray([*self.settings.values(), *np.asarray(theta, dtype=np.float64)])
        return self.evaluation_log.evaluate(name.encode() + key.tobytes(), lambda: compute(theta))

    def mean_square(self, rss: float) -> float:
        """Return the mean loss that corresponds to a weighted sum of squares."""
        return rss / (self.total_weight * self.components)

    def target_variation(self, about_mean: bool = True) -> float:
        """Return the (weighted) sum of squares of the target about its mean, the reference of R², or about 0."""
        total = self.target_spreads
        return float(np.sum(total.squares if about_mean else total.squares + total.weight * total.means**2))

    @property
    def target_spreads(self) -> folds.Spreads:
        """The minimum, the maximum and the weighted moments of each component of the target."""
        zeros = np.zeros(self.layout.size)
        return self.cached(
            "target spreads", lambda: self.fold_rows(self.kernels.target, zeros, folds.spreads, folds.join_spreads)
        )

    def hessian(self, theta: ArrayLike) -> Array:
        """Return the Hessian of the (weighted) sum of the rows' losses, of shape (P, P)."""
        return self._logged("curvature", theta, self._compute_hessian)

    def _compute_hessian(self, theta: ArrayLike) -> Array:
        layout, kernels = self.layout, self.kernels
        hessian = np.empty((layout.size, layout.size))
        if kernels.hessian is not None:
            rows, columns = np.triu_indices(layout.size)
            hessian[rows, columns] = hessian[columns, rows] = self.sum_rows(kernels.hessian, theta)
            return hessian
        for index, (name, shape) in enumerate(layout.shapes.items()):
            kernel = kernels.hessian_rows(index)
            positions = layout.slices[name]
            for row, unit in zip(
                range(positions.start, positions.stop), np.eye(positions.stop - positions.start), strict=True
            ):
                hessian[row] = self.sum_rows(kernel, theta, {DIRECTION: unit.reshape(shape)} if shape else {})
        return (hessian + hessian.T) / 2

    def score_triangle(self, theta: ArrayLike) -> Array:
        """Return the triangular factor, of shape (P, P), of the matrix of the gradients of the rows' losses."""
        width = self.layout.size
        factor = self.fold_rows(self.kernels.row_loss_and_gradient, theta, folds.score_triangle, folds.join_triangles)
        triangle = np.zeros((width, width))
        triangle[: len(factor)] = factor
        return triangle

    def slope_triangle(self, theta: ArrayLike) -> Array:
        """Return the triangular factor of the slopes of the residuals, or of the rows' losses if there are none."""
        return self.triangle(theta)[:, :-1] if self.has_residuals else self.score_triangle(theta)

    def curvature(self, theta: ArrayLike) -> Array:
        """Return the Hessian of the mean loss, of shape (P, P).

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).curvature([2])
        array([[5.]])
        """
        return self.hessian(theta) / self.total_weight

    def confusion(self, theta: ArrayLike) -> NDArray[np.int64]:
        """Return the confusion matrix of a classifier: rows are classes of the data, columns are predicted classes."""
        assert self.classes is not None
        counts = partial(folds.count_confusions, len(self.classes))
        return self.fold_rows(self.kernels.target_and_prediction, theta, counts, np.add)
