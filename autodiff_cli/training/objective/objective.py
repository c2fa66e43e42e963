"""The objective: what a fit makes small, as a function of the parameters alone.

A (weighted) mean over rows is a sum of terms per row, so everything a fit asks for is computed per block of rows and
combined by a fold: the loss and its gradient by adding, least squares by the QR factorization of stacked triangles.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.protocol import State, Tell
from autodiff_cli.backends.update import Update
from autodiff_cli.data.table import Dataset
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.errors import plain_value
from autodiff_cli.training.keeping.answers import Answers
from autodiff_cli.training.objective.kernels import DIRECTION
from autodiff_cli.training.objective.loading import Data, as_dataset
from autodiff_cli.training.objective.losses import L1, L2, LOSSES, SCALE, LossKind
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.over_rows import ModelOverRows
from autodiff_cli.training.objective.parameters import by_canonical_name
from autodiff_cli.training.objective.preparing import Prepared, prepare
from autodiff_cli.training.objective.structure import LINKS, is_generalised_linear
from autodiff_cli.training.objective.undefined import check_target
from autodiff_cli.training.options import DataOptions, LossOptions, MethodOptions, Options, ParameterOptions
from autodiff_cli.training.rows.products import factor_of_products
from autodiff_cli.training.rows.protocol import EpochRun
from autodiff_cli.training.rows.reductions import (
    Confusion,
    TriangleOf,
    join_moments,
    join_triangles,
    moments,
    triangle_of_scores,
    triangular,
)

Array = NDArray[np.float64]

_MANY = 16_384  # rows from which on products of columns are so much faster than reflections that they are tried


class Objective(ModelOverRows):
    """The mean loss of a model over data, `Σ w·ℓ / Σ w`, and its gradient.

    The loss of a row whose target is a vector is the mean over its components. A model `column ~ softmax(…)` tells
    classes apart: the column holds whole numbers or texts, and the loss is the cross-entropy.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row.
        data: the columns by name, the path of a file, or a Dataset. Names of the model that it lacks are parameters.
            Arrays are read where they lie, float32 and whole numbers too, so what is changed there is changed here.
        loss: what a row costs, by the names of `losses.LOSSES`: by default `mse`. Without a `~` there is no choice; for
            classes it is `cross_entropy`.
        weights: one per row, or the name of the column that holds them; 1 by default.
        sigma: standard deviations of the target instead: the weights are 1/sigma².
        fixed: parameters that keep a value; None keeps the one that they start with.
        bounds: the least and the greatest value of parameters, as pairs by name; None where there is none.
        drop_missing: leave out rows with a missing cell, which are an error otherwise.
        no_columns: that the prediction reads no column is meant, though the data have some that it could read.
        start: where parameters begin. Numbers that are not named begin at 1, arrays as `initial_arrays` draws them.
        seed: of what is drawn.
        recompute_every: compute again what lies within so many layers, instead of keeping it for the gradient.
        scale: what robust losses (huber, logcosh, soft_l1, cauchy) measure residuals by.
        huber_delta: where the loss huber bends, in such scales: 1.345 by default.
        backend: `numpy`, `llvm` (compiled kernels), or `auto`: the one that is faster for the work.
        threads: the most that compiled kernels use; by default all cores. The results have the same bits.

    Attributes:
        model: resolved: all shapes are known.
        parameters: the names of the free parameters, in order of appearance.
        layout: where their numbers lie in every `theta`, a vector of shape (P,).
        fixed: the values of the others.
        start: the `theta` to begin with.
        given: the parameters whose start was given.
        bounds: the box that `theta` is kept in by fits; values and gradients are what they are outside of it too.
        limits: the bounds that were given, by name.
        kernels: what is evaluated over rows.
        family: the distribution of the target, where one was named.
        is_likelihood: whether the model itself is minus a log-likelihood.
        is_scale_estimated: whether the scale of a robust loss is for a fit to find.
        loss: the name of the loss; empty where the model is its own.
        classes: the labels, sorted, of a model that tells classes apart; else None.
        data: the rows, wherever they are. A class column has positions among `classes`.

    Raises:
        ExpressionError: if the model cannot be read, if shapes do not fit, or if it lacks a name that has a value.
        DataError: if the data cannot be used.
        OptionError: for an unknown loss, or one that does not go with the model.

    >>> objective = Objective("y ~ a*x + b", {"x": [0, 1, 2], "y": [1, 3, 5]})
    >>> objective.parameters, objective.start
    (('a', 'b'), array([1., 1.]))
    """

    def __init__(
        self,
        model: str | Model,
        data: Data,
        loss: str | None = None,
        weights: ArrayLike | str | None = None,
        *,
        sigma: ArrayLike | str | None = None,
        fixed: Mapping[str, ArrayLike | None] | None = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        drop_missing: bool = False,
        no_columns: bool = False,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
        recompute_every: int | None = None,
        scale: float = 1.0,
        huber_delta: float | None = None,
        backend: str = "auto",
        threads: int | None = None,
    ) -> None:
        scale = plain_value(scale, "float", "scale")
        options = Options(
            ParameterOptions(by_canonical_name(start), by_canonical_name(fixed), by_canonical_name(bounds)),
            DataOptions(weights, sigma, drop_missing=drop_missing, no_columns=no_columns),
            LossOptions(loss, None if scale == 1 else scale, huber_delta),
            MethodOptions(seed=seed, recompute_every=recompute_every, backend=backend, threads=threads),
        )
        self._take(prepare(model, as_dataset(data), options), scale)

    @classmethod
    def of(cls, model: str | Model, dataset: Dataset, options: Options) -> Objective:
        """The objective for the options of a fit. Raises as making one does."""
        objective = cls.__new__(cls)
        objective._take(prepare(model, dataset, options), options.loss.scale)
        return objective

    def _take(self, prepared: Prepared, scale: float | None) -> None:
        self.model = prepared.model
        self.loss = prepared.loss
        self.classes = prepared.classes
        self.weighted = prepared.weighted
        self.data = prepared.data
        self.layout = prepared.layout
        self.fixed = prepared.fixed
        self.start = prepared.start
        self.given = prepared.given
        self.bounds = prepared.bounds
        self.limits = prepared.limits
        self.kernels = prepared.kernels
        self.family = prepared.family
        self.is_likelihood = prepared.likelihood
        # Of leaves that are nothing in the model.
        self.settings = {SCALE: 1.0 if scale is None else scale, **prepared.penalties}
        self.is_scale_estimated = scale is None
        self._triangles: dict[bytes, Array] = {}  # the last one, by its theta
        self._of_rows, self._of_point = {}, (b"", {})
        self.answers: Answers | None = None  # of a fit that is kept
        if self.has_residuals:
            check_target(self)

    @property
    def has_target(self) -> bool:
        """Whether the model is `target ~ prediction`."""
        return self.model.program.target is not None

    @property
    def kind(self) -> LossKind:
        """What the loss is."""
        if not self.loss:
            return LossKind.LIKELIHOOD if self.is_likelihood else LossKind.OTHER
        return LOSSES[self.loss].kind

    @property
    def scale(self) -> float:
        """What robust losses measure residuals by."""
        return self.settings[SCALE]

    def set_scale(self, scale: float) -> None:
        """Let robust losses measure residuals by another scale."""
        self.settings[SCALE] = scale

    @property
    def is_penalised(self) -> bool:
        """Whether the loss has a penalty on the size of the parameters."""
        return any(self.settings[name] for name in (L1, L2))

    def without_penalty(self) -> Self:
        """The same, of the data alone.

        >>> Objective("y ~ a", {"y": [1, 2]}).without_penalty().value([1])
        0.5
        """
        if not self.is_penalised:
            return self
        plain = copy.copy(self)
        plain.settings = {**self.settings, L1: 0.0, L2: 0.0}
        plain._triangles = {}
        return plain

    @cached_property
    def is_generalised_linear(self) -> bool:
        """Whether the prediction is a function of something that is linear in all free parameters, so that the usual
        losses have one minimum."""
        leaves = [self.model.program.leaves[name] for name in self.parameters]
        return self.has_target and is_generalised_linear(self.model.program.output, leaves, self.model.shapes)

    @cached_property
    def is_linear(self) -> bool:
        """Whether the prediction itself is linear in all free parameters together."""
        return self.is_generalised_linear and self.model.program.output.op not in LINKS

    @cached_property
    def is_network(self) -> bool:
        """Whether a parameter is free that belongs to a layer, below another one."""
        has_layers = any(name in self.model.program.initial for name in self.parameters)
        return has_layers and not self.is_generalised_linear

    @property
    def has_residuals(self) -> bool:
        """Whether a target minus a prediction says something: not of classes."""
        return self.has_target and self.classes is None

    def epochs(self, update: Update, clip_norm: float | None = None) -> Callable[..., float]:
        """A function that runs an epoch of a gradient method over the rows: see `EpochKernel.run`.

        Its arguments are where the method stands, the learning rate, the rows of a batch, the generator that draws
        them, and perhaps what is told how far a long epoch is; it returns the mean of the batches' losses.

        >>> from autodiff_cli.training.methods.optimizers import OPTIMIZERS
        >>> objective = Objective("y ~ a", {"y": [1, 1, 1, 1]}, start={"a": 0})
        >>> state = State.begun(objective.start, OPTIMIZERS["sgd"])
        >>> objective.epochs(OPTIMIZERS["sgd"])(state, 0.25, 2, np.random.default_rng(0))  # losses of 1 and of 1/4
        0.625
        >>> state.theta, state.steps
        (array([0.75]), 2)
        """
        kernel = self.kernels.epochs(update, clip_norm)

        def run(
            state: State, rate: float, batch_rows: int, generator: np.random.Generator, tell: Tell | None = None
        ) -> float:
            point = {**self.fixed, **self.settings}
            return self.data.descend(EpochRun(kernel, state, rate, point, batch_rows, generator, tell))

        return run

    def without_corners(self) -> Objective | None:
        """The same objective with its corners rounded, by no radius to begin with; None if it has none.

        >>> rounded = Objective("y ~ a", {"y": [0, 2]}, loss="mae").without_corners()
        >>> rounded.value([1]), rounded.with_radii(1.0, [1]).value([1])
        (1.0, 1.4142135623730951)
        """
        kernels = self.kernels.without_corners
        if kernels is None:
            return None
        smooth = copy.copy(self)
        smooth.kernels = kernels
        smooth.settings = {**self.settings, **dict.fromkeys(kernels.radii, 0.0)}
        return smooth

    def with_radii(self, part: float, theta: ArrayLike) -> Objective:
        """The same with every corner rounded by a part of the mean size of what has the corner, at `theta`.

        >>> rounded = Objective("y ~ a", {"y": [0, 2]}, loss="mae").without_corners()
        >>> rounded.with_radii(0.1, [1]).value([1])
        1.004987562112089
        """
        sizes = self.sums(self.kernels.corner_sizes, theta) / self.rows
        alone = self.kernels.corners_of_parameters  # of a penalty; it measures all of them by one measure
        sizes[alone] = sizes[alone].max(initial=0.0) or 1.0
        smooth = copy.copy(self)
        smooth.settings = {**self.settings, **dict(zip(self.kernels.radii, (part * sizes).tolist(), strict=True))}
        return smooth

    @quiet()  # entered in half of the time that `with` takes
    def value_and_grad(self, theta: ArrayLike) -> tuple[float, Array]:
        """The mean loss, with the penalty on parameters if there is one, and its gradient.

        Args:
            theta: values of the free parameters, of shape (P,).

        Returns:
            The loss, and an array of shape (P,). Where the loss is not defined they are nan; nothing is raised.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value_and_grad([2])
        (2.0, array([4.]))
        """
        total = self._answer("slopes", theta, lambda: self.sums(self.kernels.loss_and_slopes, theta))
        total /= self.total_weight
        return float(total[0]), total[1:]

    def value(self, theta: ArrayLike) -> float:
        """The mean loss alone.

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).value([2])
        2.0
        """
        total = self._answer("loss", theta, lambda: self.sums(self.kernels.loss, theta))
        return float(total[0]) / self.total_weight

    def rss(self, theta: ArrayLike) -> float:
        """The (weighted) sum of squared residuals over all components. Only with residuals."""
        return float(np.sum(self.sums(self.kernels.squares, theta)))

    def triangle(self, theta: ArrayLike) -> Array:
        """The triangular factor R of the matrix [J | r], whose rows are those of the data times the root of the weight.

        r is target minus prediction, J its derivative; a row with a vector has a row of the matrix for each component.
        R, of shape (P+1, P+1), holds all that least squares needs: `Rᵀ·R = [J | r]ᵀ·[J | r]`. Its last column has the
        length of the residuals. Only with residuals. A penalty by squares has a row for each parameter.
        """
        key = np.asarray(theta, dtype=np.float64).tobytes()
        if key not in self._triangles:
            triangle = self._answer("triangle", theta, lambda: self._factorized(theta))
            triangle.setflags(write=False)  # it is kept
            self._triangles = {key: triangle}
        return self._triangles[key]

    def _factorized(self, theta: ArrayLike) -> Array:
        width = self.layout.size + 1
        products = self.kernels.products if self.rows > _MANY else None
        found = None if products is None else factor_of_products(self.sums(products, theta))
        if found is None:
            factor = TriangleOf(self.components, width)
            found = self.fold_rows(self.kernels.residuals_and_slopes, theta, factor, join_triangles)
        if self.settings[L2]:
            weight = math.sqrt(self.settings[L2] * self.total_weight * self.components)
            rows = weight * np.column_stack((np.eye(width - 1), np.asarray(theta, dtype=np.float64)))
            found = triangular(np.vstack((found, rows)))
        triangle = np.zeros((width, width))
        triangle[: len(found)] = found
        return triangle

    def _answer(self, question: str, theta: ArrayLike, compute: Callable[[], Array]) -> Array:
        """What is computed over all rows, or remembered."""
        if self.answers is None:
            return compute()
        asked = np.asarray([*self.settings.values(), *np.asarray(theta, dtype=np.float64)])
        return self.answers.to(question.encode() + asked.tobytes(), compute)

    def mean_of_squares(self, rss: float) -> float:
        """The mean loss that belongs to a weighted sum."""
        return rss / (self.total_weight * self.components)

    def target_variation(self) -> float:
        """The (weighted) sum of squares of the target about its mean, component by component: what R² compares the
        residuals with."""

        def found() -> float:
            nowhere = np.zeros(self.layout.size)
            return float(np.sum(self.fold_rows(self.kernels.target, nowhere, moments, join_moments)[2]))

        return self._known("variation of the target", found)

    def hessian(self, theta: ArrayLike) -> Array:
        """The second derivatives of the (weighted) sum of the rows' losses, of shape (P, P)."""
        return self._answer("curvature", theta, lambda: self._curved(theta))

    def _curved(self, theta: ArrayLike) -> Array:
        layout = self.layout
        hessian = np.empty((layout.size, layout.size))
        for which, (name, shape) in enumerate(layout.shapes.items()):
            kernel = self.kernels.curvatures(which)
            place = layout.places[name]
            for row, unit in zip(range(place.start, place.stop), np.eye(place.stop - place.start), strict=True):
                moved = {DIRECTION: unit.reshape(shape)} if shape else {}
                hessian[row] = self.sums(kernel, theta, moved)
        return (hessian + hessian.T) / 2

    def scores(self, theta: ArrayLike) -> Array:
        """The triangular factor, of shape (P, P), of the matrix whose rows are the gradients of the rows' losses."""
        width = self.layout.size

        found = self.fold_rows(self.kernels.row_loss_and_slopes, theta, triangle_of_scores, join_triangles)
        triangle = np.zeros((width, width))
        triangle[: len(found)] = found
        return triangle

    def curvature(self, theta: ArrayLike) -> Array:
        """The second derivatives of the mean loss, of shape (P, P).

        >>> Objective("y ~ a*x", {"x": [1, 2], "y": [2, 2]}).curvature([2])
        array([[5.]])
        """
        return self.hessian(theta) / self.total_weight

    def confusion(self, theta: ArrayLike) -> NDArray[np.int64]:
        """How many rows of each class (a row of the table) are taken for which (a column). Only with classes."""
        assert self.classes is not None
        counts = Confusion(len(self.classes))
        return self.fold_rows(self.kernels.target_and_prediction, theta, counts, np.add)
