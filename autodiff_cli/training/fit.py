"""Fit a model to data, and say how well the parameters are known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.blocks import evaluate
from autodiff_cli.language.errors import MissingValueError
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.data import Dataset
from autodiff_cli.training.diagnosis import Diagnosis, diagnose
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.labels import Classes, accuracy
from autodiff_cli.training.loop import Observer, Outcome
from autodiff_cli.training.model import Model
from autodiff_cli.training.objective import Objective
from autodiff_cli.training.run import LEARNING_RATE, Options, Run
from autodiff_cli.training.statistics import MOST, Statistics, statistics
from autodiff_cli.training.validation import Validation, check_options, split

Array = NDArray[np.float64]

_UNSETTLED = "not converged: the loss was still changing when the epochs were over, and so were the parameters"


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model.

    Attributes:
        model: its text.
        rows: how many rows were used.
        parameters: the fitted values by name, floats and arrays; `fixed` are those that kept theirs.
        stderr: the standard error of each, as `definition` says; None where it is not known (`warnings` say why). Of an
            array it is an array, in which nan stands for single numbers that are not known.
        loss: the chosen loss over all rows, a (weighted) mean; `start_loss` is that at the start.
        rss: the (weighted) sum of squared residuals; None for a model without `~`.
        dof: rows minus fitted parameters.
        r_squared: the share of the target's variation that is explained; nan if it does not vary, None without `~`.
        optimizer: the method that ran.
        epochs: how many it took.
        converged: whether it stopped because nothing more was to gain.
        failure: why it stopped, if that was neither convergence nor the number of epochs asked for; else empty.
        history: `{"epoch": k, "loss": …}` for the start (0) and each epoch, and `"validation_loss"` where rows
            are held out.
        covariance: of shape (P, P), in the order of `parameters`, arrays row by row; nan where it is
            not known.
        numbers: the names of its rows: `a`, `W[0, 1]`; none where there are more than anyone reads.
        definition: what the standard errors are, in words.
        formula: the prediction with numbers for the parameters, in the expression language; empty if these are many.
        warnings: what a reader should know, as sentences.
        classes: of a model that tells classes apart, their labels, sorted; else None, as the next two.
        accuracy: the share of the rows whose class is predicted.
        confusion: how many rows of each class (a row of the table) are taken for which (a column).
        validation_rows: how many more rows were held out.
        validation_loss: the loss over these; None if there are none. `validation_accuracy` likewise.
        diagnosis: whether a network is healthy; None if that was not asked.

    >>> found = fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
    >>> {name: round(value, 6) for name, value in found.parameters.items()}
    {'a': 2.15, 'b': 0.9}
    >>> found.converged, found.dof, round(found.rss, 6)
    (True, 2, 0.075)
    """

    model: str
    rows: int
    parameters: dict[str, Any]
    fixed: dict[str, Any]
    stderr: dict[str, Any]
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
    numbers: tuple[str, ...] = ()
    classes: Classes | None = None
    accuracy: float | None = None
    confusion: NDArray[np.int64] | None = None
    validation_rows: int = 0
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    diagnosis: Diagnosis | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the model that are columns of the data."""
        return self._read.columns

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return self._read.predictors()

    @property
    def targets(self) -> tuple[str, ...]:
        """What stands left of `~`, as text: each part of an array by itself."""
        return self._read.targets()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `load` reads. Raises OSError if that fails; an older file then stands.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(os.path.join(folder, "model.json"))
        ...     os.listdir(folder)
        ['model.json']
        """
        from autodiff_cli.training.model_file import save

        save(self, path)

    def predict(self, data: Mapping[str, ArrayLike]) -> NDArray[Any]:
        """The model's prediction for new rows: numbers, of shape (rows,), or (rows, n) for a target of n components.

        A model that tells classes apart gives the label of the most probable one; `probabilities` has the numbers.

        Args:
            data: an array for each column that the prediction reads; others may be there too. A prediction that reads
                none is repeated for each row of the first.

        Raises:
            MissingValueError: if one of them is not there.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]}).predict({"x": [10, 20]})
        array([20., 40.])
        """
        predicted = self.probabilities(data)
        return predicted if self.classes is None else np.array(self.classes)[np.argmax(predicted, axis=-1)]

    def probabilities(self, data: Mapping[str, ArrayLike]) -> Array:
        """The same as numbers: for classes, the probability of each, of shape (rows, classes).

        Raises as `predict` does.

        >>> found = fit("kind ~ softmax(dense(x, 2))", {"x": [0, 1, 2, 3], "kind": ["a", "b", "a", "b"]})
        >>> found.probabilities({"x": [0, 1, 2]}).shape
        (3, 2)
        """
        given = {canonical(str(name)): data[name] for name in data.keys()}  # noqa: SIM118 (data frames)
        columns = self._read.predictors()
        missing = [name for name in columns if name not in given]
        if missing:
            raise MissingValueError(f"no value for {', '.join(f'`{name}`' for name in missing)}")
        point = {name: np.asarray(given[name], dtype=np.float64) for name in columns}
        values = {**self.parameters, **self.fixed, **point}
        prediction = evaluate([self._read.program.output], values, self._read.shapes)[0]
        if columns:
            return prediction
        return np.full((*np.shape(next(iter(given.values()), ())), *prediction.shape), prediction)


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
    start: Mapping[str, ArrayLike] | None = None,
    optimizer: str = "auto",
    loss: str = "mse",
    learning_rate: float = LEARNING_RATE,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    weights: ArrayLike | str | None = None,
    sigma: ArrayLike | str | None = None,
    absolute_sigma: bool = False,
    fixed: Mapping[str, ArrayLike | None] | None = None,
    *,
    validation: float | None = None,
    patience: int | None = None,
    diagnosis: bool = False,
    recompute_every: int | None = None,
    drop_missing: bool = False,
    on_epoch: Observer | None = None,
) -> Fit:
    """Fit the parameters of a model to data.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row. Names that are no columns of
            the data are parameters. `column ~ softmax(…)` tells classes apart, whole numbers or texts.
        data: the columns by name.
        start: where parameters begin: numbers, at 1 if they are not named, and arrays, which are drawn by the seed if
            they are not named (see `initial_arrays`). `auto` and `lm` may find better numbers in the data if the fit
            ends badly from there, and say so in the warnings.
        optimizer: `lm`, `lbfgs`, `sgd`, `momentum`, `nesterov`, `rmsprop`, `adagrad`, `adam`, `adamw`, or `auto`: adam
            for networks (models with a layer) and for mini-batches, else lm for the loss mse, else lbfgs.
        loss: what a row costs: `mse`, `mae`, `huber` or `bce`, of several targets the mean over them; for classes
            always `cross_entropy`.
        learning_rate: of the gradient methods (sgd to adamw).
        epochs: the most passes over the data; 100 for the gradient methods, until convergence for the others.
        batch_size: rows per step, for the gradient methods; all by default.
        seed: of everything random (arrays, batches, other starts): the same seed gives the same fit, bit for bit.
        weights: one per row, or the name of their column; they multiply squared residuals.
        sigma: standard deviations of the target instead, as an array or a column: weights of 1/sigma².
        absolute_sigma: take sigma as it is for the standard errors, instead of scaling it by the residuals.
        fixed: parameters that keep a value; None keeps the one that they would begin with.
        validation: a share of the rows, drawn at random, that is held out of the fit to judge it by.
        patience: end the fit when the validation loss has not fallen for so many epochs. The parameters are then those
            of the epoch where it was least.
        recompute_every: compute again what lies within so many layers, instead of keeping it for the gradient: slower,
            with less memory, and the same result.
        diagnosis: examine the layers of a network: see `Diagnosis`.
        drop_missing: leave out rows with a missing cell.
        on_epoch: is called with the start and after each epoch; again from epoch 0 where a better start is found.

    Raises:
        ExpressionError: if the model cannot be read, or has no parameter of a name given.
        DataError: if the data cannot be used.
        OptionError: for options that do not exist or do not go together.
        Interrupted: on Ctrl-C.

    >>> x = np.linspace(0, 2, 21)
    >>> found = fit("y ~ a*exp(-b*x)", {"x": x, "y": 2.5*np.exp(-1.3*x)}, start={"b": 0.5})
    >>> {name: round(value, 9) for name, value in found.parameters.items()}
    {'a': 2.5, 'b': 1.3}
    """
    options = Options(optimizer, learning_rate, epochs, batch_size, seed)
    if absolute_sigma and sigma is None:
        raise OptionError("how to take sigma is said, but not sigma")
    check_options(validation, patience)
    objective = Objective(
        model,
        data,
        loss,
        weights,
        sigma=sigma,
        fixed={canonical(name): value for name, value in (fixed or {}).items()},
        drop_missing=drop_missing,
        start={canonical(name): value for name, value in (start or {}).items()},
        seed=seed,
        recompute_every=recompute_every,
    )
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    judge = None
    if validation is not None:
        objective, held_out = split(objective, validation, seed)
        judge = Validation(held_out, patience)
    run = Run(objective, options, on_epoch, judge)
    try:
        outcome = run.optimize()
    except KeyboardInterrupt:
        if run.best is None:
            raise
        outcome = Outcome(run.best.theta, False, "interrupted")
        raise Interrupted(_conclude(run, outcome, absolute_sigma, diagnosis)) from None
    return _conclude(run, outcome, absolute_sigma, diagnosis)


def _conclude(run: Run, outcome: Outcome, absolute_sigma: bool, diagnosis: bool) -> Fit:
    objective = run.objective
    model, table = objective.model, objective.table
    layout = objective.layout
    values = layout.values(outcome.theta)
    confusion = None if objective.classes is None else objective.confusion(outcome.theta)
    found = statistics(objective, outcome.theta, absolute_sigma, solved=not outcome.failure)
    dropped = [f"rows left out because a cell is missing: {table.dropped}"] if table.dropped else []
    end = [outcome.failure] if outcome.failure else [] if outcome.converged else [_UNSETTLED]
    return Fit(
        model=model.text,
        rows=objective.rows,
        parameters=values,
        fixed=dict(objective.fixed),
        stderr=found.stderr,
        loss=_loss(run, outcome, found),
        rss=found.rss,
        dof=found.dof,
        r_squared=found.r_squared,
        optimizer=run.method,
        epochs=run.last.number if run.last else 0,
        converged=outcome.converged,
        failure=outcome.failure,
        history=run.history,
        covariance=found.covariance,
        definition=found.definition,
        formula=model.formula({**values, **objective.fixed}),
        warnings=[*model.warnings, *dropped, *run.warnings, *found.reasons, *end],
        _read=model,
        numbers=layout.numbers if layout.size <= MOST else (),
        classes=objective.classes,
        accuracy=None if confusion is None else accuracy(confusion),
        confusion=confusion,
        diagnosis=diagnose(objective, run.first.theta, outcome.theta) if diagnosis and run.first else None,
        **({} if run.validation is None else run.validation.figures(outcome.theta)),
    )


def _loss(run: Run, outcome: Outcome, found: Statistics) -> float:
    """The loss over all rows; where it is the mean of the squares that are known already, from these."""
    if run.method == "lm" and found.rss is not None:
        return run.objective.mean_of_squares(found.rss)
    return run.objective.value(outcome.theta)
