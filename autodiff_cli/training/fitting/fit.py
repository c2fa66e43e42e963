"""Fit a model to data: the public `fit`, and how its result is put together.

`fit` collects the options, `fit_dataset` and `fit_objective` run the fit, and `build_fit` computes statistics and
warnings for the `FittedModel`. `canonical_parameters` chooses among parameter vectors that predict the same: positive
widths, phases within a turn, softmax scores with sum 0.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from autodiff_cli.array_types import Array
from autodiff_cli.data.table import Dataset
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.training.fitting.inference import (
    DerivedQuantities,
    add_intervals,
    check_intervals,
    estimate_quantities,
    parse_quantities,
)
from autodiff_cli.training.fitting.optimization import (
    choose_method,
    optimize_multistart,
    start_without_x_errors,
    x_errors_note,
)
from autodiff_cli.training.fitting.progress import Progress, Validation, open_checkpoint, split_validation
from autodiff_cli.training.fitting.starts import Sinusoids
from autodiff_cli.training.losses import L1_FACTOR, L2_FACTOR, LossKind
from autodiff_cli.training.methods.gradient_descent import EpochCallback, EpochProgressCallback, Outcome
from autodiff_cli.training.objective.cluster_connection import connect_cluster
from autodiff_cli.training.objective.loading import Data, as_dataset
from autodiff_cli.training.objective.model import Model, tie_parameters
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import Bounds, canonicalize_names
from autodiff_cli.training.options import (
    CheckpointOptions,
    DataOptions,
    LossOptions,
    MethodOptions,
    OptionError,
    Options,
    ParameterOptions,
    ReportOptions,
    ValidationOptions,
)
from autodiff_cli.training.result.diagnosis import diagnose, explain_failure
from autodiff_cli.training.result.fitted_model import FitSettings, FittedModel
from autodiff_cli.training.result.goodness import classification_accuracy
from autodiff_cli.training.result.prediction import collect_plot_data
from autodiff_cli.training.result.statistics import (
    MAX_COVARIANCE_SIZE,
    FitStatistics,
    compute_statistics,
    softmax_null_space,
)

if TYPE_CHECKING:
    from distributed import Client


_MAX_PARAMETERS = 20  # symmetries are searched up to this many parameters, because all subsets are tried
_MAX_COMPARED_ROWS = 500  # rows on which predictions are compared
_PREDICTION_TOLERANCE = 1e-9  # relative to the range of the predictions: smaller differences are rounding errors
_MAX_JOINT_FLIPS = 3  # parameters whose signs are flipped together


def canonical_parameters(objective: Objective, theta: Array, bounds: Bounds) -> tuple[Array, list[str]]:
    """Return the canonical one of all points that predict the same, and a sentence for each choice.

    A symmetry is used only if the predictions stay the same. Parameters with a given start keep its sign.
    """
    if objective.loss == "cross_entropy":
        return _centre_softmax(objective, theta)
    layout = objective.layout
    if layout.size > _MAX_PARAMETERS or len(layout.element_names) != len(layout.names):
        return theta, []
    with ignore_float_errors():
        return _Symmetries(objective, theta, bounds).resolve()


def _centre_softmax(objective: Objective, theta: Array) -> tuple[Array, list[str]]:
    """Return the point whose softmax scores sum to 0 over the classes."""
    null_space = softmax_null_space(objective, theta)
    if null_space is None or not null_space.shape[1]:
        return theta, []
    note = (
        "softmax scores are determined only up to a common constant; the parameters are reported with sums of 0 over "
        "the classes"
    )
    return theta - null_space @ (null_space.T @ theta), [note]


class _Symmetries:
    """The signs and phases of parameters that leave all predictions unchanged."""

    def __init__(self, objective: Objective, theta: Array, bounds: Bounds) -> None:
        self._objective = objective
        self._names = objective.layout.names
        self._theta = theta
        self._bounds = bounds
        self._original = theta
        backwards = [name in objective.given_starts and objective.start[k] < 0 for k, name in enumerate(self._names)]
        self._signs = np.where(backwards, -1.0, 1.0)
        self._sinusoids = Sinusoids(self._objective)
        self._phases = [index for index, _ in self._sinusoids.quarter_turns(theta)]

    def resolve(self) -> tuple[Array, list[str]]:
        """Return the canonical point, and a sentence for each choice."""
        flipped = dict.fromkeys(name for subset in self._flip_signs() for name in subset)
        shifted = [*self._wrap_phases()]
        notes = []
        if flipped:
            listed = ", ".join(f"`{name}`" for name in flipped)
            notes.append(f"the signs of {listed} are not determined; the positive values are reported")
        if shifted:
            listed = ", ".join(f"`{name}`" for name in shifted)
            notes.append(f"{listed} is reported within half a turn of 0; whole turns change nothing")
        return self._theta, notes

    def _flip_signs(self) -> Iterator[list[str]]:
        """Flip the signs of one parameter, or of a few together, while more of them get their preferred sign."""
        if self._count_preferred(self._theta) == len(self._theta) - len(self._phases):
            return
        subsets = [
            indices
            for count in range(1, _MAX_JOINT_FLIPS + 1)
            for indices in combinations(range(len(self._theta)), count)
        ]
        for indices in subsets:
            for mirrored in self._mirror_images([*indices]):
                if self._count_preferred(mirrored) > self._count_preferred(self._theta) and self._is_equivalent(
                    mirrored
                ):
                    self._theta = mirrored
                    yield [self._names[k] for k in indices if k not in self._phases]
                    break

    def _count_preferred(self, theta: Array) -> int:
        """The number of parameters, except for phases, with the preferred sign."""
        agree = theta * self._signs > 0
        agree[self._phases] = False
        return int(np.count_nonzero(agree))

    def _mirror_images(self, indices: list[int]) -> Iterator[Array]:
        """Yield the point with some signs flipped; also with a phase shifted by half a turn."""
        mirrored = self._theta.copy()
        mirrored[indices] *= -1
        yield mirrored
        for index, quarter in self._sinusoids.quarter_turns(mirrored):
            shifted = mirrored.copy()
            shifted[index] += 2 * quarter
            yield shifted

    def _wrap_phases(self) -> Iterator[str]:
        """Shift phases to within half a turn of 0, and yield the names of those shifted."""
        for index, quarter in self._sinusoids.quarter_turns(self._theta):
            turns = math.floor(self._theta[index] / (4 * abs(quarter)) + 0.5)
            shifted = self._theta.copy()
            shifted[index] -= 4 * abs(quarter) * turns
            if turns and self._is_equivalent(shifted):
                self._theta = shifted
                yield self._names[index]

    def _is_equivalent(self, theta: Array) -> bool:
        """Whether a point lies within the bounds and predicts the same."""
        if not self._bounds.contains(theta):
            return False
        original = self._predictions(self._original)
        tolerance = _PREDICTION_TOLERANCE * max(float(np.ptp(original)), 1e-3 * float(np.abs(original).max()))
        return bool((np.abs(self._predictions(theta) - original) <= tolerance).all())

    def _predictions(self, theta: Array) -> Array:
        """The residuals of a sample of the rows, or their losses: like the predictions up to constants."""
        sample, kernels = self._sample, self._objective.kernels
        return sample.evaluate_rows(kernels.residuals if sample.has_residuals else kernels.row_loss, theta)

    @functools.cached_property
    def _sample(self) -> Objective:
        rows = self._objective.rows
        count = min(rows, _MAX_COMPARED_ROWS)
        return self._objective.select_rows(np.arange(count) * rows // count)


_NEGLIGIBLE_DISTANCE = 1e-3  # standard errors from the minimum, at which any method counts as converged
_NOT_CONVERGED = "not converged: the loss was still falling at the last epoch"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit.

    Attributes:
        fit: the best parameters so far.
    """

    def __init__(self, fit: FittedModel) -> None:
        super().__init__("interrupted")
        self.fit = fit


def fit(
    model: str | Model,
    data: Data,
    start: Mapping[str, ArrayLike] | None = None,
    optimizer: str = "auto",
    loss: str | None = None,
    learning_rate: float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    weights: ArrayLike | str | None = None,
    sigma: ArrayLike | str | None = None,
    absolute_sigma: bool = False,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    fixed: Mapping[str, ArrayLike | None] | None = None,
    *,
    validation: float | None = None,
    patience: int | None = None,
    diagnosis: bool = False,
    recompute_every: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    drop_missing: bool = False,
    no_columns: bool = False,
    stream: bool = False,
    scale: float | None = None,
    huber_delta: float | None = None,
    family: str | None = None,
    likelihood: bool = False,
    confidence: float = 0.95,
    derive: Mapping[str, str] | Iterable[str] = (),
    lr_schedule: str = "constant",
    min_delta: float = 0.0,
    clip_norm: float | None = None,
    x_sigma: Mapping[str, ArrayLike | str] | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    tolerance: float | None = None,
    starts: int | None = None,
    profile: bool = False,
    bootstrap: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    on_epoch: EpochCallback | None = None,
    plot: bool | None = None,
    cluster: str | Client | None = None,
) -> FittedModel:
    """Fit the parameters of a model to data.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row. Names that are not columns of
            the data are parameters. `column ~ softmax(…)` is a classification of whole numbers or texts.
        data: the columns by name, or the path of a file, a folder or a pattern (`2024-*.csv`).
        start: starting values. The default is 1 for numbers; arrays are initialised at random (see `initial_arrays`).
            If a fit by `auto` or `lm` ends badly, better values may be estimated from the data, which a warning
            reports.
        optimizer: `lm`, `lbfgs`, one of `OPTIMIZERS`, or `auto`: adam for networks (models with a layer) and mini-
            batches, else lm for the loss mse, else lbfgs.
        loss: the loss of a row, one of `LOSSES`. The default is `mse`, and `cross_entropy` for classifications. For
            several targets it is the mean over them.
        learning_rate: for the gradient methods (sgd to adamw); 0.01 by default.
        epochs: the maximum number of passes over the data. The default is 100 for the gradient methods; other methods
            run until convergence.
        batch_size: rows per step of the gradient methods; all by default.
        seed: of the random number generator (arrays, batches, starting values): the same seed gives the same fit, bit
            for bit.
        weights: one weight per row, or the name of a column; they multiply squared residuals.
        sigma: standard deviations of the target, an array or a column, which give the weights 1/sigma².
        absolute_sigma: use sigma as it is for the standard errors, instead of scaling it by the residuals.
        fixed: parameters that are not fitted. A number fixes the value, None fixes the starting value, and a text such
            as `"2*a"` ties the parameter to others; it is then among `derived`.
        bounds: lower and upper bounds by name, `{"b": (0, None)}`; None means unbounded. The bounds of an array hold
            for each of its numbers. Parameters that end on a bound have no standard error.
        validation: the fraction of the rows, drawn at random, that is held out to evaluate the fit.
        patience: stop when the validation loss has not decreased for this many epochs. The parameters are then those of
            the epoch with the least validation loss.
        recompute_every: recompute intermediate values within this many layers instead of storing them for the gradient.
            This is slower, needs less memory, and gives the same result.
        backend: `numpy`, `llvm` (compiled kernels), or `auto`: the faster one for the work at hand.
        threads: the maximum number of threads of compiled kernels; all cores by default. The result has the same bits.
        diagnosis: examine the layers of a network; see `Diagnosis`.
        drop_missing: leave out rows with a missing cell.
        no_columns: allow a model whose prediction uses no column of the data.
        stream: read files in blocks at every pass, with the same result bit for bit. This is for data larger than
            memory; it is the default for those. Weights, sigma and x_sigma must then be names of columns.
        scale: the residual scale of robust losses (huber, logcosh, soft_l1, cauchy). By default it is estimated along
            with
            the fit: the robust standard deviation of the residuals, 1.4826 times their median absolute value.
        huber_delta: the threshold of the loss huber, in scales; 1.345 by default.
        family: the distribution of the target, whose mean is the prediction: gaussian, poisson, binomial or gamma.
            Standard errors come from the inverse Hessian.
        likelihood: treat a model without `~` as each row's negative log-likelihood; standard errors come from the
            inverse Hessian.
        confidence: the confidence level of the intervals in reports, as 0.95 or 95 per cent.
        derive: derived quantities by name, `{"half": "ln(2)/b"}`, or as texts, `["half = ln(2)/b"]`. They are in
            `derived`, with standard errors by the delta method.
        lr_schedule: the learning-rate schedule: constant, cosine, step, exponential or plateau, with numbers such as
            `step:30:0.1`. See `LearningRateSchedule`.
        min_delta: the least decrease of the validation loss that counts for patience.
        clip_norm: the norm to which longer gradients (of a batch, or of all rows) are scaled down.
        x_sigma: standard deviations of columns that the model reads, by name, each an array or a column. Errors in x
            are included by the effective variance `sigma² + Σ(∂f/∂x · x_sigma)²` of a row, at the current parameters.
        l1, l2: factors of penalties that are added to the mean loss: `l1·Σ|θ| + l2·Σ θ²` over all free numbers. With
            `l2`, standard errors describe the scatter of the penalised values; with `l1` there are none.
        tolerance: the relative decrease of the loss below which the fit stops: per step, for gradient methods over 10
            epochs. By default `lm` and `lbfgs` run to the last digits, and gradient methods to the last epoch.
        starts: the number of starting points, the given one and random ones; the best end is kept. By default, other
            starting values are estimated from the data only if the fit ends badly.
        profile: compute profile-likelihood intervals too: `intervals["profile"]`.
        bootstrap: the number of bootstrap resamples, for `intervals["bootstrap"]`.
        checkpoint: a file to which the state of the fit is written, at most once per second and at the end. It is
            replaced atomically, so it is valid at any moment.
        checkpoint_every: write the checkpoint every this many epochs instead.
        resume: a checkpoint from which the fit resumes, with the same result bit for bit as without interruption. It
            must belong to the same fit of the same data; `epochs` counts all epochs.
        on_epoch: a callback, called with the start and after each epoch; from epoch 0 again if the fit restarts from a
            better start.
        plot: collect the data of a plot of the fit; by default in a notebook, which then shows it.
        cluster: run on a cluster, with the same result bit for bit: a client of Dask's `distributed`, the address of a
            scheduler, or `local:N` for N processes on this machine. Needs the extra `cluster`.

    Raises:
        ExpressionError: if the model cannot be parsed, or lacks a parameter that is named.
        DataError: if the data cannot be used.
        OptionError: for options that do not exist or cannot be combined.
        CheckpointError: for a checkpoint that cannot be resumed, or that another run writes.
        ClusterError: if the cluster fails for good.
        OSError: if the first checkpoint cannot be written. If a later one fails, the fit continues with a warning.
        Interrupted: on Ctrl-C.

    >>> import numpy as np
    >>> x = np.linspace(0, 2, 21)
    >>> found = fit("y ~ a*exp(-b*x)", {"x": x, "y": 2.5*np.exp(-1.3*x)}, start={"b": 0.5})
    >>> {name: round(value, 9) for name, value in found.parameters.items()}
    {'a': 2.5, 'b': 1.3}
    """
    dataset, fixed_values = as_dataset(data), canonicalize_names(fixed)
    ties = {name: fixed_values.pop(name) for name, value in [*fixed_values.items()] if isinstance(value, str)}
    if isinstance(model, str):
        model = tie_parameters(model, ties, dataset.names)
    with_plot = "ipykernel" in sys.modules if plot is None else plot
    options = Options(
        ParameterOptions(canonicalize_names(start), fixed_values, canonicalize_names(bounds)),
        DataOptions(weights, sigma, absolute_sigma, drop_missing, no_columns, canonicalize_names(x_sigma), stream),
        LossOptions(loss, scale, huber_delta, family, likelihood, l1, l2),
        MethodOptions(
            optimizer,
            learning_rate,
            epochs,
            batch_size,
            seed,
            recompute_every,
            backend,
            threads,
            lr_schedule,
            clip_norm,
            tolerance,
            starts,
        ),
        ValidationOptions(validation, patience, min_delta),
        ReportOptions(
            diagnosis,
            confidence,
            {**{name: name for name in ties}, **parse_quantities(derive)},
            profile,
            bootstrap,
            with_plot,
        ),
        CheckpointOptions(_path(checkpoint), checkpoint_every, _path(resume)),
    )
    if cluster is not None:
        options.check_cluster()
    with connect_cluster(cluster) as connection:
        return fit_dataset(model, dataset, dataclasses.replace(options, cluster=connection), on_epoch)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def fit_dataset(
    model: str | Model,
    dataset: Dataset,
    options: Options,
    on_epoch: EpochCallback | None = None,
    on_progress: EpochProgressCallback | None = None,
) -> FittedModel:
    """Fit a model to a dataset, with all options in one record. See `fit`, also for the exceptions.

    Args:
        on_epoch: is called with the start and after each epoch.
        on_progress: is called from time to time during a long epoch.
    """
    return fit_objective(Objective.of(model, dataset, options), options, on_epoch, on_progress)


def fit_objective(
    objective: Objective,
    options: Options,
    on_epoch: EpochCallback | None = None,
    on_progress: EpochProgressCallback | None = None,
) -> FittedModel:
    """Fit an objective that was made with the same options. Raises OptionError and Interrupted.

    Args:
        on_epoch: is called with the start and after each epoch.
        on_progress: is called from time to time during a long epoch.
    """
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    method = choose_method(options.method, objective)
    options.method.check_method(method)
    writer, checkpoint = open_checkpoint(options, objective, method)
    validation = None
    if options.validation.validation is not None:
        objective, held_out = split_validation(objective, options.validation.validation, options.method.seed)
        validation = Validation(held_out, options.validation.patience, options.validation.min_delta)
    quantities = DerivedQuantities(options.report.derive, objective.model, objective.layout)
    check_intervals(objective, options.report)
    progress = Progress(on_epoch, validation, on_progress, writer, checkpoint)
    if options.data.x_sigma:
        objective = start_without_x_errors(objective, method, options.method)
        progress.notes.append(x_errors_note(objective))
    try:
        outcome = optimize_multistart(method, objective, options.method, progress)
    except KeyboardInterrupt:
        if progress.best is None:
            raise
        progress.finish()
        outcome = Outcome(progress.best.theta, False, "interrupted")
        raise Interrupted(_build_fit_with_plot(objective, method, progress, outcome, options, quantities)) from None
    finally:
        progress.finish()
    result = _build_fit_with_plot(objective, method, progress, outcome, options, quantities)
    try:
        return add_intervals(result, objective, options, quantities)
    except KeyboardInterrupt:
        raise Interrupted(result) from None


def _build_fit_with_plot(
    objective: Objective,
    method: str,
    progress: Progress,
    outcome: Outcome,
    options: Options,
    quantities: DerivedQuantities,
) -> FittedModel:
    """Return the fitted model, with the data of a plot if the options ask for it."""
    result = build_fit(objective, method, progress, outcome, options, quantities)
    if not options.report.plot:
        return result
    return dataclasses.replace(result, plot=collect_plot_data(result, objective, outcome.theta, options.method.seed))


def build_fit(
    objective: Objective,
    method: str,
    progress: Progress,
    outcome: Outcome,
    options: Options,
    quantities: DerivedQuantities,
) -> FittedModel:
    """Return the fitted model for the outcome of a method: its statistics, derived quantities, warnings and notes."""
    outcome, choices = _canonical_outcome(objective, method, outcome)
    model, dropped_rows = objective.model, objective.data.dropped
    layout, first = objective.layout, progress.first
    values = layout.values(outcome.theta)
    confusion = None if objective.classes is None else objective.confusion(outcome.theta)
    known = compute_statistics(
        objective, outcome.theta, options.data.absolute_sigma, not outcome.failure, with_goodness=True
    )
    if known.minimum_distance < _NEGLIGIBLE_DISTANCE and not outcome.failure:
        outcome = dataclasses.replace(outcome, converged=True)
    quantity_values, quantity_warnings = estimate_quantities(quantities, objective.point(outcome.theta), known)
    dropped = [f"rows left out because a cell is missing: {dropped_rows}"] if dropped_rows else []
    closing = (
        known.separation_warning or outcome.failure or outcome.note or ("" if outcome.converged else _NOT_CONVERGED)
    )
    return FittedModel(
        model=model.text,
        rows=objective.rows,
        parameters=values,
        fixed=dict(objective.fixed),
        loss=_loss_value(objective, method, outcome, known),
        optimizer=method,
        epochs=progress.last.number if progress.last else 0,
        converged=outcome.converged and not known.separation_warning,
        failure=outcome.failure,
        history=progress.history,
        formula=model.formula({**values, **objective.fixed}),
        warnings=[
            *model.warnings,
            *objective.kernels.notes,
            *dropped,
            *progress.warnings,
            *known.warnings,
            *quantity_warnings,
            *(
                []
                if known.separation_warning
                else explain_failure(objective, outcome, [record["loss"] for record in progress.history])
            ),
            *([closing] if closing else []),
        ],
        notes=[*progress.notes, *choices],
        _parsed_model=model,
        levels=dict(model.levels),
        derived=quantity_values,
        bounds=objective.bounds_by_name,
        element_names=layout.element_names if layout.size <= MAX_COVARIANCE_SIZE else (),
        classes=objective.classes,
        accuracy=classification_accuracy(objective, outcome.theta),
        confusion=confusion,
        loss_name=objective.loss,
        huber_delta=options.loss.huber_delta,
        confidence_level=options.report.confidence,
        settings=fit_settings(objective, options.data),
        penalty=_penalty_value(objective, outcome.theta),
        scale=objective.scale if objective.kind is LossKind.ROBUST else None,
        diagnosis=diagnose(objective, first.theta, outcome.theta) if options.report.diagnosis and first else None,
        **({} if progress.validation is None else progress.validation.summary(outcome.theta)),
        **{each.name: getattr(known, each.name) for each in dataclasses.fields(FitStatistics)},
    )


def fit_settings(objective: Objective, rows: DataOptions) -> FitSettings:
    """Return the settings of a fit that matter for predictions."""
    weights, sigma = (canonical_name(given) if isinstance(given, str) else None for given in (rows.weights, rows.sigma))
    is_absolute = rows.absolute_sigma
    return FitSettings(objective.is_likelihood, objective.is_weighted, weights, sigma, is_absolute)


def _canonical_outcome(objective: Objective, method: str, outcome: Outcome) -> tuple[Outcome, list[str]]:
    """Return the outcome at its canonical point, and a sentence for each choice; see `canonical_parameters`."""
    if not outcome.converged or method not in ("lm", "lbfgs") or objective.is_network or objective.is_penalised:
        return outcome, []
    theta, notes = canonical_parameters(objective, outcome.theta, objective.bounds)
    return (dataclasses.replace(outcome, theta=theta), notes) if notes else (outcome, [])


def _penalty_value(objective: Objective, theta: Array) -> float | None:
    """Return what the penalties add to the loss; None without a penalty."""
    if not objective.is_penalised:
        return None
    factors = objective.settings
    return float(np.sum(factors[L1_FACTOR] * np.abs(theta) + factors[L2_FACTOR] * np.square(theta)))


def _loss_value(objective: Objective, method: str, outcome: Outcome, known: FitStatistics) -> float:
    """Return the mean loss over all rows, from the sum of squares if that is known already."""
    if method == "lm" and known.rss is not None and not objective.is_penalised:
        return objective.mean_square(known.rss)
    return objective.value(outcome.theta)
