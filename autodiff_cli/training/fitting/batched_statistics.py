"""The statistics of the fits of many groups, computed together.

`BatchedStatistics` covers regular fits: least squares and Poisson likelihoods in which all parameters are determined,
no pair of them is strongly correlated, none is on a bound, and no weight is 0. All other groups are left to
`result.statistics` and `result.goodness`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.fitting.batched_fit import BatchedFit
from autodiff_cli.training.fitting.fit import canonical_parameters, fit_settings
from autodiff_cli.training.fitting.starts import Sinusoids
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE
from autodiff_cli.training.objective.batch import GroupBatch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.goodness import (
    GoodnessOfFit,
    LikelihoodSums,
    count_figures,
    criteria_parameters,
    information_criteria,
    least_squares_goodness,
    overdispersion_warnings,
    row_likelihoods,
)
from autodiff_cli.training.result.statistics import ABSOLUTE, COVARIANCE, LIKELIHOOD, SCALED, SCALED_WEIGHTED

_QUANTILE_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MIN_SQUARABLE, _MAX_SQUARABLE = 1e-140, 1e140  # magnitudes whose squares neither underflow nor overflow
_MAX_GROUPS_CHECKED = 5  # groups that are tested for equivalent parameters, as a sample of all


class BatchedStatistics:
    """The statistics of the fits of many groups.

    Args:
        batch: the groups.
        fits: their fits.
        method: `lm` or `lbfgs`.
        options: the options of the fits.

    Attributes:
        is_regular: for which groups the statistics here are valid.
    """

    def __init__(self, batch: GroupBatch, fits: BatchedFit, method: str, options: FitOptions) -> None:
        self._objective, self._options, self._batch, self._fits = batch.objective, options, batch, fits
        self._method = method
        objective, size, every = batch.objective, batch.objective.layout.size, np.arange(len(batch.sizes))
        self._is_likelihood = objective.kind is LossKind.LIKELIHOOD
        self.is_regular: Mask = np.zeros(len(every), np.bool_)
        is_squares = objective.kind is LossKind.SQUARES and objective.family is None
        is_poisson = objective.loss == "poisson" and not objective.is_quasi
        if not (is_squares or is_poisson) or objective.is_penalised:
            return
        self._count = batch.sizes * objective.components
        self._dof = self._count - size
        with ignore_float_errors():
            self._quantiles, self._ratios = np.empty((len(every), len(_QUANTILE_LEVELS))), np.empty(len(every))
            self._lengths, self._log_weights = np.empty(len(every)), np.empty(len(every))
            self._likelihoods = np.empty((5, len(every)))
            self._weights = batch.total_weights(every)
            for groups in batch.parts():
                self._summarize_rows(groups)
            if self._is_likelihood:
                self._losses = batch.losses(fits.theta, every)
                hessians = batch.hessians(fits.theta, every) * self._weights[:, None, None]
                self._covariances, is_known = _invert_hessians(hessians)
            else:
                triangles = batch.triangles(fits.theta, every)
                self._lengths = np.sqrt(np.sum(np.square(triangles[:, :, -1]), axis=1))
                self._losses = batch.mean_squares(np.square(self._lengths), every)
                self._covariances, is_known = self._invert_factors(triangles[:, :size, :size])
            is_known &= ~self._has_strong_correlations() & ~objective.bounds.active(fits.theta).any(axis=1)
            is_squarable = (self._lengths > _MIN_SQUARABLE) & (self._lengths < _MAX_SQUARABLE)
        self.is_regular = is_known & (self._dof > 0) & is_squarable & np.isfinite(self._log_weights).all()
        if self._has_equivalent_points():
            self.is_regular[:] = False

    def fit(self, group: int) -> FittedModel:
        """Return the fitted model of a regular group."""
        objective, options, model = self._objective, self._options, self._objective.model
        names, theta, covariance = objective.parameters, self._fits.theta[group], self._covariances[group]
        values = dict(zip(names, theta.tolist(), strict=True))
        residual_norm, dof = float(self._lengths[group]), int(self._dof[group])
        absolute, variation = options.absolute_sigma, float(self._fits.variations[group])
        losses = self._fits.histories[group]
        r_squared, definition = None, LIKELIHOOD
        if not self._is_likelihood:
            r_squared = 1 - residual_norm * residual_norm / variation if variation > 0 else math.nan
            definition = ABSOLUTE if absolute else SCALED_WEIGHTED if objective.is_weighted else SCALED
        figures = self._figures(group, residual_norm, variation)
        return FittedModel(
            model=model.text,
            rows=int(self._batch.sizes[group]),
            parameters=values,
            fixed=dict(objective.fixed),
            stderr=dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True)),
            loss=float(self._losses[group]),
            rss=residual_norm * residual_norm,
            dof=dof,
            r_squared=r_squared,
            optimizer=self._method,
            epochs=len(losses) - 1,
            converged=True,
            failure="",
            history=[{"epoch": number, "loss": loss} for number, loss in enumerate(losses)],
            covariance=covariance,
            definition=definition,
            warnings=[*model.warnings, *objective.kernels.notes, *overdispersion_warnings(figures, objective.loss)],
            _parsed_model=model,
            levels=dict(model.levels),
            bounds=objective.bounds_by_name,
            element_names=objective.layout.element_names,
            loss_name=objective.loss,
            interval_dof=None if absolute or self._is_likelihood else dof,
            confidence_level=options.confidence,
            settings=fit_settings(objective, options),
            **dataclasses.asdict(figures),
        )

    def _figures(self, group: int, residual_norm: float, variation: float) -> GoodnessOfFit:
        """Return the goodness of fit of a group."""
        count, dof = int(self._count[group]), int(self._dof[group])
        k = criteria_parameters(self._objective, self._options.absolute_sigma)
        if self._is_likelihood:
            sums = LikelihoodSums(*self._likelihoods[:, group].tolist())
            criteria = information_criteria(sums.log_likelihood, k, count)
            return GoodnessOfFit(**count_figures(sums, dof, is_tested=not self._objective.is_weighted), **criteria)
        ratio = float(self._ratios[group])
        figures: dict[str, Any] = {
            "residual_quantiles": tuple(self._quantiles[group].tolist()),
            "durbin_watson": None if math.isnan(ratio) else ratio,
        }
        absolute, log_weights = self._options.absolute_sigma, float(self._log_weights[group])
        return least_squares_goodness(residual_norm, count, dof, k, variation, absolute, figures, log_weights)

    def _invert_factors(self, factors: Array) -> tuple[Array, Mask]:
        """Return the covariances, and which of them are known; see `result.statistics.inverse_gram`."""
        scale = np.sqrt(np.sum(np.square(factors), axis=1))
        is_known: Mask = (scale > 0).all(axis=1) & np.isfinite(factors).all(axis=(1, 2))
        scaled = np.where(is_known[:, None, None], factors / scale[:, None, :], np.eye(factors.shape[1]))
        _, singular_values, directions = np.linalg.svd(scaled)
        is_known &= (singular_values > DEPENDENCE_TOLERANCE * singular_values[:, :1]).all(axis=1)
        roots = directions / singular_values[:, :, None]
        covariances = np.einsum("gki,gkj->gij", roots, roots) / (scale[:, :, None] * scale[:, None, :])
        if not self._options.absolute_sigma:
            covariances *= (np.square(self._lengths) / self._dof)[:, None, None]
        return covariances, is_known

    def _has_strong_correlations(self) -> Mask:
        """Return for which groups a pair of parameters may be hardly distinguishable."""
        errors = np.sqrt(np.diagonal(self._covariances, axis1=1, axis2=2))
        correlations = np.abs(self._covariances / (errors[:, :, None] * errors[:, None, :]))
        size = errors.shape[1]
        is_strong: Mask = (correlations[:, ~np.eye(size, dtype=np.bool_)] > COVARIANCE.high_correlation).any(axis=1)
        return is_strong

    def _summarize_rows(self, groups: NDArray[np.intp]) -> None:
        """Compute the figures of some groups that need every row."""
        batch, theta = self._batch, self._fits.theta[groups]
        weights, residuals = batch.weights(groups), batch.residuals(theta, groups)
        self._log_weights[groups] = batch.totals(np.log(weights), groups) * self._objective.components
        if self._is_likelihood:
            self._lengths[groups] = np.sqrt(batch.totals(np.sum(weights * np.square(residuals), axis=0), groups))
            target = batch.target(groups)
            means = batch.totals(np.sum(target * weights, axis=0), groups) / (
                batch.totals(weights, groups) * len(target)
            )
            by_row = np.repeat(means, batch.sizes[groups])
            rows = row_likelihoods(self._objective.loss, target, target - residuals, weights, by_row)
            for k, values in enumerate(rows):
                self._likelihoods[k, groups] = batch.totals(np.sum(values, axis=0), groups)
            return
        sizes = batch.sizes[groups]
        self._ratios[groups] = self._durbin_watson(residuals, weights, groups, np.cumsum(sizes) - sizes)
        self._quantiles[groups] = batch.quantiles(residuals, groups, _QUANTILE_LEVELS)

    def _durbin_watson(
        self, residuals: Array, weights: Array, groups: NDArray[np.intp], starts: NDArray[np.intp]
    ) -> Array:
        """Return the Durbin-Watson statistic of some groups; nan if their rows are not sorted by one predictor."""
        objective = self._objective
        unknown = np.full(len(groups), math.nan)
        predictors = objective.model.predictors()
        if objective.components != 1 or len(predictors) != 1 or predictors[0] not in objective.data.names:
            return unknown
        scaled = residuals[0] * np.sqrt(weights)
        steps, squared_differences = np.diff(self._batch.column(predictors[0], groups)), np.square(np.diff(scaled))
        is_between_groups = np.zeros(len(scaled), dtype=np.bool_)
        is_between_groups[starts[1:] - 1] = True  # from the last row of a group to the first of the next
        steps[is_between_groups[:-1]] = 0
        squared_differences[is_between_groups[:-1]] = 0
        ends = [np.append(values, 0.0) for values in (steps, squared_differences)]
        smallest_steps, largest_steps = np.minimum.reduceat(ends[0], starts), np.maximum.reduceat(ends[0], starts)
        is_sorted = ((smallest_steps >= 0) | (largest_steps <= 0)) & (smallest_steps != largest_steps)
        total = np.add.reduceat(np.square(scaled), starts)
        return np.where(is_sorted & (total > 0), np.add.reduceat(ends[1], starts) / total, math.nan)

    def _has_equivalent_points(self) -> bool:
        """Return whether other signs or phases of the parameters may give the same predictions, so that each group has
        to choose which to report.
        """
        theta = self._fits.theta
        converged = np.flatnonzero(self._fits.converged)
        checked: Sequence[int] = converged[
            np.linspace(0, len(converged) - 1, min(_MAX_GROUPS_CHECKED, len(converged))).astype(np.intp)
        ].tolist()
        for group in checked:
            part = self._batch.group_objective(group)
            with ignore_float_errors():
                if Sinusoids(part).quarter_turns(theta[group]):
                    return True
            for point in (theta[group], -np.abs(theta[group])):
                if canonical_parameters(part, point, part.bounds)[1]:
                    return True
        return False


def _invert_hessians(hessians: Array) -> tuple[Array, Mask]:
    """Return the inverses of Hessians, and which of them are known; see `result.statistics.inverse_hessian`."""
    diagonal = np.diagonal(hessians, axis1=1, axis2=2)
    is_known: Mask = np.asarray(np.isfinite(hessians).all(axis=(1, 2)) & (diagonal > 0).all(axis=1))
    scale = np.sqrt(np.where(is_known[:, None], diagonal, 1.0))
    outer = scale[:, :, None] * scale[:, None, :]
    scaled = np.where(is_known[:, None, None], hessians / outer, np.eye(hessians.shape[1]))
    curvatures, directions = np.linalg.eigh(scaled)
    is_known &= curvatures[:, 0] > COVARIANCE.hessian_tolerance**2 * curvatures[:, -1]
    safe = np.where(is_known[:, None], curvatures, 1.0)
    inverses: Array = (directions / safe[:, None, :]) @ directions.swapaxes(1, 2) / outer
    return inverses, is_known
