"""Fit a model to data, and say how well the parameters are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.blocks import evaluate
from autodiff_cli.language.errors import MissingValueError
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.data import Dataset
from autodiff_cli.training.loop import Observer, Outcome
from autodiff_cli.training.model import Model
from autodiff_cli.training.objective import Objective, OptionError, as_dataset, check_names
from autodiff_cli.training.run import LEARNING_RATE, Options, Run
from autodiff_cli.training.statistics import Statistics, statistics

Array = NDArray[np.float64]

_UNSETTLED = "not converged: the loss was still changing when the epochs were over, and so were the parameters"


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model.

    Attributes:
        model: its text.
        rows: how many rows were used.
        parameters: the fitted values by name; `fixed` are those that kept theirs.
        stderr: the standard error of each, as `definition` says; None where it is not known (`warnings` say why).
        loss: the chosen loss over all rows, a (weighted) mean; `start_loss` is that at the start.
        rss: the (weighted) sum of squared residuals; None for a model without `~`.
        dof: rows minus fitted parameters.
        r_squared: the share of the target's variation that is explained; nan if it does not vary, None without `~`.
        optimizer: the method that ran.
        epochs: how many it took.
        converged: whether it stopped because nothing more was to gain.
        failure: why it stopped, if that was neither convergence nor the number of epochs asked for; else empty.
        history: `{"epoch": k, "loss": …}` for the start (0) and each epoch.
        covariance: of shape (P, P), in the order of `parameters`; nan where it is not known.
        definition: what the standard errors are, in words.
        formula: the prediction with numbers for the parameters, in the expression language.
        warnings: what a reader should know, as sentences.
    """

    model: str
    rows: int
    parameters: dict[str, float]
    fixed: dict[str, float]
    stderr: dict[str, float | None]
    loss: float
    rss: float | None
    dof: int
    r_squared: float | None
    optimizer: str
    epochs: int
    converged: bool
    failure: str
    history: list[dict[str, float]]
    covariance: Array
    definition: str
    formula: str
    warnings: list[str]
    _read: Model = field(repr=False)

    def predict(self, data: Mapping[str, ArrayLike]) -> Array:
        """The model's prediction for new rows.

        Args:
            data: an array for each column that the prediction reads; others may be there too. A prediction that reads
                none is repeated for each row of the first.

        Raises:
            MissingValueError: if one of them is not there.
        """
        given = {canonical(str(name)): data[name] for name in data.keys()}  # noqa: SIM118 (data frames)
        columns = self._read.predictors()
        missing = [name for name in columns if name not in given]
        if missing:
            raise MissingValueError(f"no value for {', '.join(f'`{name}`' for name in missing)}")
        point = {name: np.asarray(given[name], dtype=np.float64) for name in columns}
        prediction = evaluate([self._read.program.output], {**self.parameters, **self.fixed, **point})[0]
        if columns:
            return prediction
        return np.full(np.shape(next(iter(given.values()), ())), prediction)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit.

    Attributes:
        fit: the best parameters until then.
    """

    def __init__(self, fit: Fit) -> None:
        super().__init__("interrupted")
        self.fit = fit


def fit(
    model: str | Model,
    data: Mapping[str, ArrayLike] | Dataset,
    start: Mapping[str, float] | None = None,
    optimizer: str = "auto",
    loss: str = "mse",
    learning_rate: float = LEARNING_RATE,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    weights: ArrayLike | str | None = None,
    sigma: ArrayLike | str | None = None,
    absolute_sigma: bool = False,
    fixed: Mapping[str, float] | None = None,
    *,
    drop_missing: bool = False,
    on_epoch: Observer | None = None,
) -> Fit:
    """Fit the parameters of a model to data.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row. Names that are no columns of
            the data are parameters.
        data: the columns by name.
        start: where parameters begin; 1 for those not named. `auto` and `lm` may find better values in the data if
            the fit ends badly from there, and say so in the warnings.
        optimizer: `lm`, `lbfgs`, `sgd`, `momentum`, `nesterov`, `rmsprop`, `adagrad`, `adam`, `adamw`, or `auto`: adam
            for mini-batches, else lm for the loss mse, else lbfgs.
        loss: what a row costs: `mse`, `mae`, `huber` or `bce`.
        learning_rate: of the gradient methods (sgd to adamw).
        epochs: the most passes over the data; 100 for the gradient methods, until convergence for the others.
        batch_size: rows per step, for the gradient methods; all by default.
        seed: of everything random (batches, other starts): the same seed gives the same fit, bit for bit.
        weights: one per row, or the name of their column; they multiply squared residuals.
        sigma: standard deviations of the target instead, as an array or a column: weights of 1/sigma².
        absolute_sigma: take sigma as it is for the standard errors, instead of scaling it by the residuals.
        fixed: parameters that keep a value.
        drop_missing: leave out rows with a missing cell.
        on_epoch: is called with the start and after each epoch; again from epoch 0 where a better start is found.

    Raises:
        ExpressionError: if the model cannot be read, or has no parameter of a name given.
        DataError: if the data cannot be used.
        OptionError: for options that do not exist or do not go together.
        Interrupted: on Ctrl-C.
    """
    options = Options(optimizer, learning_rate, epochs, batch_size, seed)
    if absolute_sigma and sigma is None:
        raise OptionError("how to take sigma is said, but not sigma")
    start = {canonical(name): float(value) for name, value in (start or {}).items()}
    fixed = {canonical(name): float(value) for name, value in (fixed or {}).items()}
    dataset = as_dataset(data)
    read = model if isinstance(model, Model) else Model.read(model, dataset.names, {*start, *fixed})
    check_names(start, read)
    objective = Objective(read, dataset, loss, weights, sigma=sigma, fixed=fixed, drop_missing=drop_missing)
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    run = Run(objective, options, start, on_epoch)
    try:
        outcome = run.optimize()
    except KeyboardInterrupt:
        if run.best is None:
            raise
        raise Interrupted(_conclude(run, Outcome(run.best.theta, False, "interrupted"), absolute_sigma)) from None
    return _conclude(run, outcome, absolute_sigma)


def _conclude(run: Run, outcome: Outcome, absolute_sigma: bool) -> Fit:
    objective = run.objective
    model, table = objective.model, objective.table
    point = objective.point(outcome.theta)
    found = statistics(objective, outcome.theta, absolute_sigma, solved=not outcome.failure)
    dropped = [f"rows left out because a cell is missing: {table.dropped}"] if table.dropped else []
    end = [outcome.failure] if outcome.failure else [] if outcome.converged else [_UNSETTLED]
    return Fit(
        model=model.text,
        rows=objective.rows,
        parameters={name: point[name] for name in objective.parameters},
        fixed=dict(objective.fixed),
        stderr=dict(zip(objective.parameters, found.stderr, strict=True)),
        loss=_loss(run, outcome, found),
        rss=found.rss,
        dof=found.dof,
        r_squared=found.r_squared,
        optimizer=run.method,
        epochs=run.history[-1].number if run.history else 0,
        converged=outcome.converged,
        failure=outcome.failure,
        history=[{"epoch": epoch.number, "loss": epoch.loss} for epoch in run.history],
        covariance=found.covariance,
        definition=found.definition,
        formula=model.formula(point),
        warnings=[*model.warnings, *dropped, *run.warnings, *found.reasons, *end],
        _read=model,
    )


def _loss(run: Run, outcome: Outcome, found: Statistics) -> float:
    """The loss over all rows; where it is the mean of the squares that are known already, from these."""
    if run.method == "lm" and found.rss is not None:
        return run.objective.mean_of_squares(found.rss)
    return run.objective.value_and_grad(outcome.theta)[0]
