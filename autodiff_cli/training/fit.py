"""Fit a model to data, and say how well the parameters are known."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.table import Dataset
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.canonical import canonical_point
from autodiff_cli.training.cluster.connecting import connected
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.explaining import explained
from autodiff_cli.training.intervals.asked import check_intervals, with_intervals
from autodiff_cli.training.keeping.identity import kept_by
from autodiff_cli.training.many_starts import optimize_from_many
from autodiff_cli.training.methods.loop import Listener, Observer, Outcome
from autodiff_cli.training.objective.loading import Data, as_dataset
from autodiff_cli.training.objective.losses import L1, L2, LossKind
from autodiff_cli.training.objective.model import Model, tied
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import by_canonical_name
from autodiff_cli.training.options import (
    DataOptions,
    KeepingOptions,
    LossOptions,
    MethodOptions,
    Options,
    ParameterOptions,
    ReportOptions,
    ValidationOptions,
)
from autodiff_cli.training.prediction.picture import picture
from autodiff_cli.training.prediction.terms import Terms
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.accuracy import accuracy
from autodiff_cli.training.result.derived import Quantities, derived, written
from autodiff_cli.training.result.diagnosis import diagnose
from autodiff_cli.training.result.fit import FittedModel
from autodiff_cli.training.result.statistics import MOST, Statistics, statistics
from autodiff_cli.training.run import chosen
from autodiff_cli.training.validation import Validation, split
from autodiff_cli.training.x_errors import begun_without, in_words

if TYPE_CHECKING:
    from distributed import Client

Array = NDArray[np.float64]

_ARRIVED = 1e-3  # standard errors from the minimum: nothing more to gain, however a method goes about it
_UNSETTLED = "not converged: the loss was still changing when the epochs were over, and so were the parameters"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit.

    Attributes:
        fit: the best parameters until then.
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
    on_epoch: Observer | None = None,
    plot: bool | None = None,
    cluster: str | Client | None = None,
) -> FittedModel:
    """Fit the parameters of a model to data.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row. Names that are no columns of
            the data are parameters. `column ~ softmax(…)` tells classes apart, whole numbers or texts.
        data: the columns by name, or the path of a file, a folder or a pattern (`2024-*.csv`).
        start: where parameters begin: numbers, at 1 if they are not named, and arrays, which are drawn by the seed if
            they are not named (see `initial_arrays`). `auto` and `lm` may find better numbers in the data if the fit
            ends badly from there, and say so in the warnings.
        optimizer: `lm`, `lbfgs`, one of `optimizers.OPTIMIZERS`, or `auto`: adam for networks (models with a layer) and
            for mini-batches, else lm for the loss mse, else lbfgs.
        loss: what a row costs, by the names of `losses.LOSSES`: by default `mse`, for classes `cross_entropy`. Of
            several targets it is the mean over them.
        learning_rate: of the gradient methods (sgd to adamw); 0.01 by default.
        epochs: the most passes over the data; 100 for the gradient methods, until convergence for the others.
        batch_size: rows per step, for the gradient methods; all by default.
        seed: of everything random (arrays, batches, other starts): the same seed gives the same fit, bit for bit.
        weights: one per row, or the name of their column; they multiply squared residuals.
        sigma: standard deviations of the target instead, as an array or a column: weights of 1/sigma².
        absolute_sigma: take sigma as it is for the standard errors, instead of scaling it by the residuals.
        fixed: parameters that keep a value; None keeps the one that they would begin with, and a text, `"2*a"`, ties
            one to others: it is then among `derived`.
        bounds: the least and the greatest value of parameters, as pairs by name, `{"b": (0, None)}`; None where there
            is none. Of an array they are those of each number. Parameters that end on one have no standard error.
        validation: a share of the rows, drawn at random, that is held out of the fit to judge it by.
        patience: end the fit when the validation loss has not fallen for so many epochs. The parameters are then those
            of the epoch where it was least.
        recompute_every: compute again what lies within so many layers, instead of keeping it for the gradient: slower,
            with less memory, and the same result.
        backend: `numpy`, `llvm` (compiled kernels), or `auto`: the one that is faster for the work.
        threads: the most that compiled kernels use; by default all cores. The result has the same bits.
        diagnosis: examine the layers of a network: see `Diagnosis`.
        drop_missing: leave out rows with a missing cell.
        no_columns: that the prediction reads no column is meant, though the data have some that it could read.
        stream: read files in blocks, again at every pass, to the same bits: for what is larger than memory, which is
            noticed too. Weights, sigma and x_sigma are then names of columns.
        scale: what robust losses (huber, logcosh, soft_l1, cauchy) measure residuals by; by default the robust standard
            deviation of the residuals, 1.4826 times the median of their sizes, estimated along.
        huber_delta: where the loss huber bends, in such scales: 1.345 by default.
        family: the distribution of the target about the prediction, its mean: gaussian, poisson, binomial or gamma.
            Errors come from the inverse Hessian.
        likelihood: the model without `~` is minus the log-likelihood of a row; errors come from the inverse Hessian.
        confidence: the level of the intervals that reports show, 0.95 or 95 per cent.
        derive: quantities of the parameters by name, `{"half": "ln(2)/b"}`, or as texts, `["half = ln(2)/b"]`: the
            fit has them as `derived`, with errors by the delta method.
        lr_schedule: how the learning rate changes from epoch to epoch: constant, cosine, step, exponential or plateau,
            with numbers as in `step:30:0.1`. See `Schedule`.
        min_delta: how far the validation loss falls, at least, for patience to count it as a fall.
        clip_norm: gradients (of a batch, or of all rows) that are longer are shortened to this length.
        x_sigma: standard deviations of columns that the model reads, by their names, each an array or a column: errors
            in x, which count by the effective variance `sigma² + Σ(∂f/∂x · x_sigma)²` of a row, at the parameters.
        l1, l2: factors of penalties that are added to the mean loss: `l1·Σ|θ| + l2·Σ θ²` over all free numbers.
            Standard errors with `l2` are of how the penalised values scatter; with `l1` there are none.
        tolerance: end the fit where the loss falls by no more than this share of it from step to step, for gradient
            methods in 10 epochs. By default `lm` and `lbfgs` go on to the last digits, and gradient methods to the last
            epoch.
        starts: begin at so many points, the given one and others drawn by the seed, and keep the best end. Without it,
            others are looked for in the data only if the fit ends badly.
        profile: find the intervals of parameters by profile likelihood too: `intervals["profile"]`.
        bootstrap: find them by so many fits to rows drawn anew, as the seed decides: `intervals["bootstrap"]`.
        checkpoint: a file that the fit is kept in while it runs, at most once a second, and at its end. It is replaced
            as a whole, so that it is valid at any moment.
        checkpoint_every: write it after every so many epochs instead.
        resume: go on from this checkpoint, to the same bits as if the fit had never ended; `epochs` is the number in
            all. It has to be the same fit, of the same data.
        on_epoch: is called with the start and after each epoch; again from epoch 0 where a better start is found.
        plot: keep what a picture of data and curve needs; by default in a notebook, which then shows it.
        cluster: where rows are folded, with the same bits: a client of Dask's `distributed`, the address of a
            scheduler, or `local:N` for N processes on this machine. Needs the extra `cluster`.

    Raises:
        ExpressionError: if the model cannot be read, or has no parameter of a name given.
        DataError: if the data cannot be used.
        OptionError: for options that do not exist or do not go together.
        CheckpointError: for a checkpoint that cannot be gone on from, or that another run writes.
        ClusterError: if the cluster fails for good.
        OSError: if the first checkpoint cannot be written. Should a later one fail, the fit goes on, and warns.
        Interrupted: on Ctrl-C.

    >>> import numpy as np
    >>> x = np.linspace(0, 2, 21)
    >>> found = fit("y ~ a*exp(-b*x)", {"x": x, "y": 2.5*np.exp(-1.3*x)}, start={"b": 0.5})
    >>> {name: round(value, 9) for name, value in found.parameters.items()}
    {'a': 2.5, 'b': 1.3}
    """
    dataset, kept = as_dataset(data), by_canonical_name(fixed)
    ties = {name: kept.pop(name) for name, value in [*kept.items()] if isinstance(value, str)}
    if isinstance(model, str):
        model = tied(model, ties, dataset.names)
    shows = "ipykernel" in sys.modules if plot is None else plot
    options = Options(
        ParameterOptions(by_canonical_name(start), kept, by_canonical_name(bounds)),
        DataOptions(weights, sigma, absolute_sigma, drop_missing, no_columns, by_canonical_name(x_sigma), stream),
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
            diagnosis, confidence, {**{name: name for name in ties}, **written(derive)}, profile, bootstrap, shows
        ),
        KeepingOptions(_path(checkpoint), checkpoint_every, _path(resume)),
    )
    if cluster is not None:
        options.check_on_cluster()
    with connected(cluster) as found:
        return fitted(model, dataset, dataclasses.replace(options, cluster=found), on_epoch)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def fitted(
    model: str | Model,
    dataset: Dataset,
    options: Options,
    observe: Observer | None = None,
    listen: Listener | None = None,
) -> FittedModel:
    """The same, with the options in their groups. See `fit`, also for what is raised.

    Args:
        listen: is told now and then how far an epoch is.
    """
    return fitted_objective(Objective.of(model, dataset, options), options, observe, listen)


def fitted_objective(
    objective: Objective, options: Options, observe: Observer | None = None, listen: Listener | None = None
) -> FittedModel:
    """The same for an objective that was made with these options. Raises OptionError, Interrupted."""
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    method = chosen(options.method, objective)
    options.method.check_used(method)
    keeper, kept = kept_by(options, objective, method)
    judge = None
    if options.validation.validation is not None:
        objective, held_out = split(objective, options.validation.validation, options.method.seed)
        judge = Validation(held_out, options.validation.patience, options.validation.min_delta)
    quantities = Quantities(options.report.derive, objective.model, objective.layout)
    check_intervals(objective, options.report)
    progress = Progress(observe, judge, listen, keeper, kept)
    if options.data.x_sigma:
        objective = begun_without(objective, method, options.method)
        progress.warnings.append(in_words(objective))
    try:
        outcome = optimize_from_many(method, objective, options.method, progress)
    except KeyboardInterrupt:
        if progress.best is None:
            raise
        progress.end()
        outcome = Outcome(progress.best.theta, False, "interrupted")
        raise Interrupted(_pictured(objective, method, progress, outcome, options, quantities)) from None
    finally:
        progress.end()
    found = _pictured(objective, method, progress, outcome, options, quantities)
    try:
        return with_intervals(found, objective, options, quantities)
    except KeyboardInterrupt:
        raise Interrupted(found) from None


def _pictured(
    objective: Objective, method: str, progress: Progress, outcome: Outcome, options: Options, quantities: Quantities
) -> FittedModel:
    found = concluded(objective, method, progress, outcome, options, quantities)
    if not options.report.plot:
        return found
    return dataclasses.replace(found, picture=picture(found, objective, outcome.theta, options.method.seed))


def concluded(
    objective: Objective,
    method: str,
    progress: Progress,
    outcome: Outcome,
    options: Options,
    quantities: Quantities,
) -> FittedModel:
    outcome, chosen = _canonical(objective, method, outcome)
    model, left_out = objective.model, objective.data.dropped
    layout, first = objective.layout, progress.first
    values = layout.values(outcome.theta)
    confusion = None if objective.classes is None else objective.confusion(outcome.theta)
    found = statistics(objective, outcome.theta, options.data.absolute_sigma, not outcome.failure, in_full=True)
    if found.away < _ARRIVED and not outcome.failure:
        outcome = dataclasses.replace(outcome, converged=True)
    of_quantities, unknown = derived(quantities, objective.point(outcome.theta), found)
    dropped = [f"rows left out because a cell is missing: {left_out}"] if left_out else []
    end = found.adrift or outcome.failure or outcome.note or ("" if outcome.converged else _UNSETTLED)
    return FittedModel(
        model=model.text,
        rows=objective.rows,
        parameters=values,
        fixed=dict(objective.fixed),
        stderr=found.stderr,
        loss=_loss(objective, method, outcome, found),
        rss=found.rss,
        dof=found.dof,
        r_squared=found.r_squared,
        optimizer=method,
        epochs=progress.last.number if progress.last else 0,
        converged=outcome.converged and not found.adrift,
        failure=outcome.failure,
        history=progress.history,
        covariance=found.covariance,
        definition=found.definition,
        formula=model.formula({**values, **objective.fixed}),
        warnings=[
            *model.warnings,
            *objective.kernels.notes,
            *dropped,
            *progress.warnings,
            *chosen,
            *found.reasons,
            *found.on_bounds,
            *found.told_apart,
            *unknown,
            *([] if found.adrift else explained(objective, outcome, [record["loss"] for record in progress.history])),
            *([end] if end else []),
        ],
        _read=model,
        levels=dict(model.levels),
        derived=of_quantities,
        bounds=objective.limits,
        numbers=layout.numbers if layout.size <= MOST else (),
        classes=objective.classes,
        accuracy=accuracy(objective, outcome.theta),
        confusion=confusion,
        loss_name=objective.loss,
        huber_delta=options.loss.huber_delta,
        figures=found.figures,
        interval_dof=found.interval_dof,
        confidence_level=options.report.confidence,
        terms=terms(objective, options.data),
        penalty=_penalty(objective, outcome.theta),
        scale=objective.scale if objective.kind is LossKind.ROBUST else None,
        diagnosis=diagnose(objective, first.theta, outcome.theta) if options.report.diagnosis and first else None,
        **({} if progress.validation is None else progress.validation.figures(outcome.theta)),
    )


def terms(objective: Objective, rows: DataOptions) -> Terms:
    weights, sigma = (canonical(given) if isinstance(given, str) else None for given in (rows.weights, rows.sigma))
    is_absolute = rows.absolute_sigma
    return Terms(objective.is_likelihood, objective.weighted, weights, sigma, is_absolute)


def _canonical(objective: Objective, method: str, outcome: Outcome) -> tuple[Outcome, list[str]]:
    """The outcome at the point that is reported for all those that predict the same."""
    if not outcome.converged or method not in ("lm", "lbfgs") or objective.is_network or objective.is_penalised:
        return outcome, []
    theta, said = canonical_point(objective, outcome.theta, objective.bounds)
    return (dataclasses.replace(outcome, theta=theta), said) if said else (outcome, [])


def _penalty(objective: Objective, theta: Array) -> float | None:
    if not objective.is_penalised:
        return None
    factors = objective.settings
    return float(np.sum(factors[L1] * np.abs(theta) + factors[L2] * np.square(theta)))


def _loss(objective: Objective, method: str, outcome: Outcome, found: Statistics) -> float:
    """The loss over all rows; where it is the mean of the squares that are known already, from these."""
    if method == "lm" and found.rss is not None and not objective.is_penalised:
        return objective.mean_of_squares(found.rss)
    return objective.value(outcome.theta)
