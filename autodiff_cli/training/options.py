"""The options of a fit, each declared once.

`ObjectiveOptions` and `FitOptions` are the records of options. The command line, `fit`, `Objective`, the estimators for
scikit-learn and the identity of checkpoints are made from their fields. `COMBINATIONS` is the table of options that
cannot be combined.

This module does not import NumPy, because the command line reads it at start-up.
"""

from __future__ import annotations

import graphlib
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autodiff_cli import options as schema
from autodiff_cli.backends.selection import BACKEND_NAMES, has_compiler
from autodiff_cli.graph.tape import group_pairs
from autodiff_cli.language import lexer
from autodiff_cli.language.errors import join_words
from autodiff_cli.language.lexer import canonical_name, canonical_names, is_name, split_assignment
from autodiff_cli.options import FRACTION, NOT_NEGATIVE, POSITIVE, OptionError, at_least, excludes, needs, one_of
from autodiff_cli.system import read_tables
from autodiff_cli.training.losses import FAMILIES, HUBER_DELTA, LOSSES, Prior, parse_priors
from autodiff_cli.training.optimizers import DEFAULT_EPOCHS, METHODS, OPTIMIZERS, SCHEDULES, Epoch, parse_schedule

if TYPE_CHECKING:
    from distributed import Client
    from numpy.typing import ArrayLike
else:  # the types of options are evaluated, and these would be slow to import
    ArrayLike = Client = Any


class ClusterError(RuntimeError):
    """A failure of the cluster from which a fit cannot recover."""


BoundPair: TypeAlias = tuple[float, float]  # the lower and the upper bound, infinite where there is none


def check_bounds(name: str, explicit: Any) -> BoundPair:
    """Return the bounds of a parameter as two floats; None means unbounded.

    Raises:
        OptionError: if they are not two numbers in ascending order.

    >>> check_bounds("a", (0, None))
    (0.0, inf)
    """
    try:
        low, high = explicit
        low, high = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"the bounds of `{name}` must be a pair of numbers, (low, high), not {explicit!r}") from None
    if math.isnan(low) or math.isnan(high):
        raise OptionError(f"a bound of `{name}` is nan")
    if low == high and math.isfinite(low):
        raise OptionError(f"the bounds of `{name}` are equal; to keep it there, fix it (--fix {name}={low:.15g})")
    if low >= high:
        raise OptionError(f"the lower bound of `{name}` is above the upper one: {low:.15g} to {high:.15g}")
    return low, high


def split_orders(bounds: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], dict[str, Any]]:
    """Return the pairs of parameters of which one bounds the other, smaller one first, and the bounds without these.

    Raises:
        OptionError: for a parameter that would have to exceed itself.

    >>> split_orders({"k1": (0, None), "k2": ("k1", 5)})
    ((('k1', 'k2'),), {'k1': (0, None), 'k2': (None, 5)})
    """
    orders: list[tuple[str, str]] = []
    numbers = dict(bounds)
    for name, limits in bounds.items():
        if isinstance(limits, tuple | list) and len(limits) == 2:
            pairs = (limits[0], name), (name, limits[1])
            orders += [
                (canonical_name(a), canonical_name(b)) for a, b in pairs if isinstance(a, str) is isinstance(b, str)
            ]
            numbers[name] = tuple(None if isinstance(limit, str) else limit for limit in limits)
    smaller = group_pairs((high, low) for low, high in orders)
    try:
        ranks = [*graphlib.TopologicalSorter(smaller).static_order()]
    except graphlib.CycleError:
        raise OptionError("bounds: the parameters cannot be in this order, which is a cycle") from None
    return tuple(sorted(orders, key=lambda pair: ranks.index(pair[1]))), numbers


def describe_bounds(bounds: BoundPair) -> str:
    """Return bounds as words for a sentence.

    >>> describe_bounds((0, 1)), describe_bounds((-math.inf, 5))
    ('0 to 1', 'at most 5')
    """
    low, high = bounds
    if high == math.inf:
        return f"at least {low:.15g}"
    return f"at most {high:.15g}" if low == -math.inf else f"{low:.15g} to {high:.15g}"


def check_confidence_level(level: float) -> float:
    """Return a confidence level between 0 and 1; values from 5 to 100 are read as percentages.

    Raises OptionError for any other number: below 5, it may be meant as a number of standard deviations.

    >>> check_confidence_level(95)
    0.95
    """
    level = schema.convert_plain_value(level, float, "a confidence level")
    if 1 < level < 5:
        percent, normal = f"{level / 100:.7g} for {level:.7g} %", math.erf(level / math.sqrt(2))
        meant = f"{percent}, or {normal:.7g} for {level:.7g} standard deviations"
        raise OptionError(f"a confidence level of {level:.7g} is unclear: write {meant}")
    share = level / 100 if 1 < level < 100 else level
    if not 0 < share < 1:
        raise OptionError(f"a confidence level must be between 0 and 1 (or 5 and 100 %), not {level:.15g}")
    return share


def canonicalize_names(option: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of an option by canonical names. Raises OptionError if they are not a mapping."""
    if values is not None and not hasattr(values, "items"):
        raise OptionError(f"{option} must be a mapping of names to values, not {type(values).__name__}")
    for name in values or ():
        schema.convert_plain_value(name, str, f"{option}: a name")
    return {} if values is None else canonical_names(values.items())


def parse_quantities(source: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Return quantities by name, from a mapping or from texts such as `half = ln(2)/b`. A text without a name is its
    own name.

    Raises:
        OptionError: for values that are not texts, a name without an expression, and repeated names.

    >>> parse_quantities(["half = ln(2)/b", "a*b"])
    {'half': 'ln(2)/b', 'a*b': 'a*b'}
    """
    quantities: dict[str, str] = {}
    pairs = source.items() if isinstance(source, Mapping) else map(_parse_quantity, schema.as_list(source))
    for name, text in pairs:
        schema.convert_plain_value(name, str, "the name of a derived quantity")
        quantity = schema.convert_plain_value(text, str, "a derived quantity").strip()
        if not (name and quantity) or (":" in text and text.partition(":")[0].strip().isidentifier()):
            written = text if name == text else f"{name}={text}"
            raise OptionError(f"derive takes NAME=EXPR, such as half=ln(2)/b, not `{written}`")
        are_assigned = [bool(split_assignment(part)[1]) for part in lexer.split_outside_brackets(text, ",;")]
        if any(are_assigned) and not are_assigned[0]:
            raise OptionError(f"derive takes one NAME=EXPR; repeat it for each quantity of `{name}={text}`")
        if name in quantities:
            raise OptionError(f"the derived quantity `{name}` is defined twice")
        quantities[name] = text
    return quantities


def _parse_quantity(text: str) -> tuple[str, str]:
    """Return the name and the expression of a quantity."""
    name, equals, rest = split_assignment(str(schema.convert_plain_value(text, str, "a derived quantity")))
    if equals and (is_name(name) or not name):
        return canonical_name(name), rest.strip()
    return text.strip(), text.strip()


class ParameterValues(NamedTuple):
    """Starting values, fixed values and bounds of parameters, by canonical names.

    Attributes:
        start: starting values.
        fixed: parameters that are not fitted, with their values; None keeps the starting value.
        bounds: the lower and upper bound of parameters, infinite where there is none.
        orders: pairs of parameters of which the first must not exceed the second.
    """

    start: Mapping[str, ArrayLike]
    fixed: Mapping[str, ArrayLike | None]
    bounds: Mapping[str, BoundPair]
    orders: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that have a value or bounds."""
        return tuple(dict.fromkeys((*self.start, *self.fixed, *self.bounds, *itertools.chain(*self.orders))))


@dataclass(frozen=True, slots=True)
class FitOption(schema.Option):
    """An option of a fit.

    Attributes:
        identifies: whether the course of a fit depends on it, so that a checkpoint belongs to one value only.
        compared: whether `autodiff compare` has it too.
    """

    identifies: bool = False
    compared: bool = False


def _fit_option(
    usage: str = "", help: str = "", check: schema.Check | None = None, *, default: Any = ..., **more: Any
) -> Any:
    """Return the field that is an option of a fit; see `option`."""
    return schema.declared(FitOption(usage, help, check, **more), default)


_model = partial(_fit_option, group="Model")
_data = partial(_fit_option, group="Data")
_loss = partial(_fit_option, group="Loss and likelihood", identifies=True)
_method = partial(_fit_option, group="Method")
_course = partial(_fit_option, group="Method", identifies=True)
_statistics = partial(_fit_option, group="Statistics")
_output = partial(_fit_option, group="Output")

_GRADIENT_METHODS = join_words(OPTIMIZERS, "or")


@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions:
    """The options of an objective: of the model, the data and the loss, and how it is evaluated.

    Attributes:
        start: starting values. The default is 1 for numbers; arrays are initialised at random (see `initial_arrays`).
            If a fit by `auto` or `lm` ends badly, better values may be estimated from the data, which a warning
            reports.
        fixed: parameters that are not fitted. A number fixes the value, None fixes the starting value, and a text such
            as `"2*a"` ties the parameter to others; it is then among `derived`.
        bounds: lower and upper bounds by name, `{"b": (0, None)}`; None means unbounded. The bounds of an array hold
            for each of its numbers. A bound may be the name of another parameter, `{"k2": ("k1", None)}`. Parameters
            that end on a bound have no standard error.
        weights: a weight per row, which multiplies squared residuals: an array, a column, or an expression of columns
            such as `"1/y^2"`.
        sigma: standard deviations of the target, which give the weights 1/sigma²: a number, an array, a column, or an
            expression of columns such as `"sqrt(n)"`; with several targets also one for each, such as `"[s1, 0.2]"`.
        x_sigma: standard deviations of columns that the model reads, by name, written as sigma is. Errors in x are
            included by the effective variance `sigma² + Σ(∂f/∂x · x_sigma)²` of a row, at the current parameters.
        drop_missing: leave out rows with a missing cell, which are an error otherwise.
        no_columns: allow a model whose prediction uses no column of the data.
        stream: read files in blocks at every pass, with the same result bit for bit. This is for data larger than
            memory; it is the default for those. Weights, sigma and x_sigma cannot then be arrays.
        loss: the loss of a row, one of `LOSSES`. The default is `mse`, and `cross_entropy` for classifications. For
            several targets it is the mean over them.
        scale: the residual scale of robust losses (huber, logcosh, soft_l1, cauchy). By default, fits estimate it: the
            robust standard deviation of the residuals, 1.4826 times their median absolute value. An `Objective` has 1.
            With weights or sigma, residuals are in units of their standard deviations. For negative_binomial it is
            theta, by default the maximum likelihood estimate.
        huber_delta: the threshold of the loss huber, in scales; 1.345 by default.
        family: the distribution of the target, whose mean is the prediction, one of `FAMILIES`. Standard errors come
            from the inverse Hessian; for gamma, negative_binomial and the quasi-likelihoods from the expected
            information, as in R.
        likelihood: treat a model without `~` as each row's negative log-likelihood; standard errors come from the
            inverse Hessian.
        l1, l2: factors of penalties that are added to the mean loss: `l1·Σ|θ| + l2·Σ θ²` over all free numbers. With
            `l2`, standard errors describe the scatter of the penalised values; with `l1` there are none.
        seed: the seed of the random number generator (arrays, batches, starting values). The same seed gives the same
            fit, bit for bit.
        backend: `numpy`, `llvm` (compiled kernels), or `auto`: the faster one for the work at hand.
        threads: the maximum number of threads of compiled kernels; all cores by default. The result has the same bits.
    """

    start: Mapping[str, ArrayLike] | None = _fit_option(compared=True)
    fixed: Mapping[str, ArrayLike | str | None] | None = _model(
        "--fix NAME[=VALUE]", "Fix a parameter at its start or at VALUE; b=2*a ties it to another.", repeats=True
    )
    bounds: Mapping[str, tuple[float | str | None, float | str | None]] | None = _model(
        "--bounds NAME=LOW:HIGH",
        'Bounds of a parameter; also written as "0 < a < 1" or "a < b".',
        repeats=True,
        compared=True,
    )
    weights: ArrayLike | str | None = _data(
        "--weights EXPR|COLUMN", "Weights of the squared residuals, such as 1/y^2.", compared=True
    )
    sigma: ArrayLike | str | None = _data(
        "--sigma EXPR|COLUMN", "Standard deviation of the target, such as 0.1 or sqrt(n).", compared=True
    )
    x_sigma: Mapping[str, ArrayLike | str] | None = _data(
        "--x-sigma NAME=COLUMN", "Standard deviations of a predictor; needs --sigma.", repeats=True
    )
    drop_missing: bool = _data("--drop-missing", "Leave out rows with empty, nan or infinite cells.", compared=True)
    no_columns: bool = _data("--no-columns", "Allow a model that uses no column of DATA.")
    stream: bool = _data("--stream", "Read DATA in blocks on every pass (automatic for data larger than memory).")
    loss: str | None = _loss(
        "--loss NAME",
        f"Loss function: {join_words(LOSSES, 'or')} (default: mse; cross_entropy for classes).",
        one_of(LOSSES),
        compared=True,
    )
    scale: float | None = _loss(
        "--scale S",
        "Residual scale for robust losses; theta of negative_binomial (default: estimated).",
        POSITIVE,
        compared=True,
    )
    huber_delta: float | None = _loss(
        "--huber-delta D",
        f"Threshold of the Huber loss, in units of the scale (default: {HUBER_DELTA:g}).",
        POSITIVE,
        compared=True,
    )
    family: str | None = _loss(
        "--family NAME",
        f"Distribution of the target given the prediction: {join_words(FAMILIES, 'or')}.",
        one_of(FAMILIES),
        compared=True,
    )
    likelihood: bool = _loss("--likelihood", "Treat MODEL as each row's negative log-likelihood.", compared=True)
    l1: float = _loss("--l1 FACTOR", "L1 penalty: FACTOR times the sum of |parameter|.", NOT_NEGATIVE, default=0.0)
    l2: float = _loss("--l2 FACTOR", "L2 penalty: FACTOR times the sum of parameter^2.", NOT_NEGATIVE, default=0.0)
    seed: int = _course("--seed N", "Seed for the random number generator.", at_least(0), compared=True, default=0)
    backend: str = _method(
        "--backend auto|numpy|llvm",
        "Backend; auto compiles kernels where they are faster.",
        one_of(BACKEND_NAMES),
        compared=True,
        default="auto",
    )
    threads: int | None = _method("--threads N", "Maximum threads (default: all cores).", at_least(1), compared=True)

    def __post_init__(self) -> None:
        explicit = schema.check_fields(self)
        _ = self.parameters, self.x_errors
        schema.check_restrictions(COMBINATIONS, explicit)

    @cached_property
    def parameters(self) -> ParameterValues:
        """The starting values, fixed values and bounds, by canonical names. Raises OptionError."""
        orders, limits_by_name = split_orders(canonicalize_names("bounds", self.bounds))
        bounds = {name: check_bounds(name, limits) for name, limits in limits_by_name.items()}
        start, fixed = canonicalize_names("start", self.start), canonicalize_names("fixed", self.fixed)
        values = ParameterValues(start, fixed, bounds, orders)
        for name in bounds:
            if name in values.fixed:
                raise OptionError(f"`{name}` is fixed, so it cannot have bounds")
        return values

    @cached_property
    def x_errors(self) -> Mapping[str, ArrayLike | str]:
        """The standard deviations of columns, by canonical names."""
        return canonicalize_names("x_sigma", self.x_sigma)


@dataclass(frozen=True, kw_only=True)
class FitOptions(ObjectiveOptions):
    """The options of a fit: of its objective (`ObjectiveOptions`), of the minimisation and of the report.

    Attributes:
        optimizer: `lm`, `lbfgs`, one of `OPTIMIZERS`, or `auto`: adam for networks (models with a layer) and mini-
            batches, else lm for the loss mse, else lbfgs.
        learning_rate: the learning rate of the gradient methods (sgd to adamw).
        lr_schedule: the learning-rate schedule: constant, cosine, step, exponential or plateau, with numbers such as
            `step:30:0.1`. See `LearningRateSchedule`.
        epochs: the maximum number of passes over the data. The default is 100 for the gradient methods; other methods
            run until convergence.
        batch_size: rows per step of the gradient methods; all by default.
        clip_norm: the norm to which longer gradients (of a batch, or of all rows) are scaled down.
        tolerance: the relative decrease of the loss below which the fit stops: per step, for gradient methods over 10
            epochs. By default `lm` and `lbfgs` run to the last digits, and gradient methods to the last epoch.
        starts: the number of starting points, the given one and random ones; the best end is kept. By default, other
            starting values are estimated from the data only if the fit ends badly.
        validation: the fraction of the rows, drawn at random, that is held out to evaluate the fit.
        patience: stop when the validation loss has not decreased for this many epochs. The result then has the
            parameters of the epoch with the least validation loss.
        min_delta: the least decrease of the validation loss that counts for patience.
        cluster: where to run the fit: a client of Dask's `distributed`, the address of a scheduler, or `local:N` for N
            processes on this machine. The result is the same bit for bit. Needs the extra `cluster`.
        absolute_sigma: use sigma as it is for the standard errors, instead of scaling it by the residuals.
        confidence: the confidence level of the intervals in reports, as 0.95 or 95 per cent.
        priors: prior distributions of parameters, `{"a": "normal(0, 10)"}`, or as texts, `["a ~ normal(0, 10)"]`. The
            fit is then the posterior mode, with errors from the inverse Hessian. See docs/bayes.md.
        laplace: the parameters of levels, such as `u` in `u[tree]`, that are random effects: they are integrated out of
            the likelihood by Laplace's approximation. Each needs a prior such as `u[tree] ~ normal(0, s)`. The other
            parameters, also `s`, are maximum likelihood estimates.
        posterior: the number of draws of each chain from the posterior, by the No-U-Turn sampler; parameters without
            a prior have a flat one. Needs the extra `bayes`.
        chains: the number of chains.
        derive: derived quantities by name, `{"half": "ln(2)/b"}`, or as texts, `["half = ln(2)/b"]`. They are in
            `derived`, with standard errors by the delta method.
        profile: compute profile-likelihood intervals too: `intervals["profile"]`.
        bootstrap: the number of bootstrap resamples, for `intervals["bootstrap"]`.
        bootstrap_method: `percentile`, or `bca`, which corrects percentiles for bias and for errors that grow with the
            parameter.
        diagnosis: examine the layers of a network; see `Diagnosis`.
        checkpoint: a file to which the state of the fit is written, at most once per second and at the end. It is
            replaced atomically, so it is valid at any moment.
        checkpoint_every: write the checkpoint every this many epochs instead.
        resume: a checkpoint from which the fit resumes, with the same result bit for bit as without interruption. It
            must belong to the same fit of the same data; `epochs` counts all epochs. Chains of a posterior continue
            too, with the same draws; `posterior` counts all draws, and may be larger than before.
        on_epoch: a callback, called with the start and after each epoch; from epoch 0 again if the fit restarts from a
            better start.
        plot: collect the data of a plot of the fit; by default in a notebook, which then shows it.

    >>> FitOptions(optimizer="adam", epochs=20, start={"a": 2}).learning_rate
    0.01
    """

    optimizer: str = _method(
        "--optimizer NAME",
        f"Optimization method: {join_words(METHODS, 'or')}.",
        one_of(METHODS),
        compared=True,
        default="auto",
    )
    learning_rate: float = _course(
        "--lr, --learning-rate RATE", f"Learning rate of {_GRADIENT_METHODS}.", POSITIVE, default=0.01
    )
    lr_schedule: str = _course(
        "--lr-schedule NAME",
        f"Learning rate schedule: {join_words([form for form, *_ in SCHEDULES.values()], 'or')}.",
        default="constant",
    )
    epochs: int | None = _method(
        "--epochs, --max-epochs N",
        f"Maximum number of epochs (default: {DEFAULT_EPOCHS} for gradient methods, else until convergence).",
        at_least(0),
        compared=True,
    )
    batch_size: int | None = _course("--batch-size ROWS", "Rows per gradient step (default: all).", at_least(1))
    clip_norm: float | None = _course("--clip-norm LENGTH", "Shorten gradients to at most this norm.", POSITIVE)
    tolerance: float | None = _course(
        "--tolerance SHARE", "Stop when the relative decrease of the loss is below this.", FRACTION
    )
    starts: int | None = _method(
        "--starts N", "Fit from N random starting points and keep the best.", at_least(1), compared=True
    )
    validation: float | None = _course("--validation FRACTION", "Fraction of the rows to hold out.", FRACTION)
    patience: int | None = _method(
        "--patience N", "Stop when the validation loss has not fallen for N epochs.", at_least(1, "epoch")
    )
    min_delta: float = _method("--min-delta D", "Least decrease of the loss for --patience.", NOT_NEGATIVE, default=0.0)
    cluster: str | Client | None = _method("--cluster ADDRESS|local[:N]", "Compute on a Dask cluster or N processes.")
    absolute_sigma: bool = _statistics("--absolute-sigma", "Do not scale standard errors by residuals.", compared=True)
    confidence: float = _statistics("--confidence LEVEL", "Confidence level: 0.95, or 95 for percent.", default=0.95)
    priors: Mapping[str, str] | Sequence[str] | None = _loss(
        '--prior "NAME ~ DISTRIBUTION"',
        'Prior of a parameter, such as "a ~ normal(0, 10)"; the fit is the posterior mode.',
        repeats=True,
        compared=True,
    )
    laplace: str | Sequence[str] | None = _loss(
        "--laplace NAME",
        'Random effects u[column] to integrate out (Laplace); needs --prior "u[column] ~ normal(0, s)".',
        repeats=True,
    )
    posterior: int | None = _statistics("--posterior N", "Posterior draws per chain.", at_least(2), compared=True)
    chains: int = _statistics("--chains N", "Number of chains for --posterior.", at_least(1), compared=True, default=4)
    derive: Mapping[str, str] | Sequence[str] | None = _statistics(
        "--derive NAME=EXPR", "Also compute a function of the parameters with its standard error.", repeats=True
    )
    profile: bool = _statistics("--profile", "Also compute profile-likelihood intervals.")
    bootstrap: int | None = _statistics(
        "--bootstrap N",
        "Also compute intervals from N bootstrap samples, such as 1000.",
        schema.must_be("at least 2 resamples", lambda count: count >= 2),
    )
    bootstrap_method: str = _statistics(
        "--bootstrap-method NAME",
        "Kind of bootstrap intervals: percentile or bca.",
        one_of(("percentile", "bca")),
        default="percentile",
    )
    diagnosis: bool = _statistics("--diagnose", "Check for inactive units and for vanishing or exploding gradients.")
    checkpoint: str | os.PathLike[str] | None = _output("--checkpoint FILE", "Save progress to FILE once a second.")
    checkpoint_every: int | None = _output("--checkpoint-every N", "Epochs between checkpoints.", at_least(1, "epoch"))
    resume: str | os.PathLike[str] | None = _output("--resume FILE", "Continue a fit; --epochs counts all epochs.")
    on_epoch: Callable[[Epoch], None] | None = _fit_option()
    plot: bool | None = _fit_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_schedule(self.lr_schedule)
        object.__setattr__(self, "confidence", check_confidence_level(self.confidence))
        _ = self.quantities, self.parsed_priors

    @cached_property
    def parsed_priors(self) -> Mapping[str, Prior]:
        """The priors by the name of the parameter. Raises OptionError."""
        return parse_priors(self.priors)

    @cached_property
    def random_effects(self) -> tuple[str, ...]:
        """The names of the parameters that are random effects."""
        names = map(str, schema.as_list(self.laplace))
        return tuple(dict.fromkeys(canonical_name(each.strip()) for name in names for each in name.split(",")))

    @cached_property
    def quantities(self) -> Mapping[str, str]:
        """The derived quantities by name. Raises OptionError."""
        return parse_quantities(self.derive or ())

    def identity(self) -> dict[str, Any]:
        """Return the options on which the course of a fit depends, by name.

        >>> FitOptions(seed=3).identity()["seed"]
        3
        """
        options = {name: field.option for name, field in schema.option_fields(FitOptions).items()}
        chosen = (name for name, option in options.items() if isinstance(option, FitOption) and option.identifies)
        return {name: getattr(self, name) for name in chosen}

    def check_method(self, method: str) -> None:
        """Raise OptionError if an option was given that the chosen method does not use.

        >>> FitOptions(learning_rate=0.1).check_method("adam")
        """
        schema.check_restrictions(_METHOD_RESTRICTIONS, schema.explicit_options(self) | {"method": method})


_PANELS = ("data", "residuals", "loss", "data,residuals", "data,loss", "data,residuals,loss", "posterior")


@dataclass(frozen=True, kw_only=True)
class FigureOptions(schema.CheckedOptions):
    """The options of a plot in a file.

    Attributes:
        log: the logarithmic axes, `x`, `y`, `x,y` or `none`; None to choose by the data.
        panels: the panels of a single fit from top to bottom: `data`, `residuals` and `loss`, separated by commas; or
            `posterior`: traces, marginals and pairs of the draws.

    Raises:
        OptionError: for other axes and panels.
    """

    log: str | None = _output("--log AXES", "Logarithmic axes (default: detected).", one_of(("x", "y", "x,y", "none")))
    panels: str = _output("--panels LIST", "Panels of --plot FILE.", one_of(_PANELS), default="data,residuals")


DEFAULT_FIGURE = FigureOptions()


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(FitOptions):
    """The options of a comparison: options of its fits, and of the cross-validation.

    Attributes:
        folds: the number of folds of the cross-validation, which are drawn with `seed`; 0 for none. The default of 5
            is the usual compromise between bias and cost.
    """

    folds: int = _statistics(
        "--folds N",
        "Number of random folds of cross-validation; 0 for none.",
        schema.must_be("at least 2, or 0 for none", lambda count: count == 0 or count >= 2),
        compared=True,
        default=5,
    )


_TABLES = read_tables(__file__, "combinations.toml")

# The options of a fit that need another one, or cannot be combined.
COMBINATIONS = (
    *(needs(option, other, why) for other, reasons in _TABLES["needs"].items() for option, why in reasons.items()),
    *itertools.chain(*itertools.starmap(excludes, _TABLES["excludes"].items())),
    schema.Restriction(
        "backend",
        lambda explicit: explicit["backend"] == "llvm" and not has_compiler(),
        "the backend llvm needs llvmlite, which is not installed; choose numpy instead",
    ),
    schema.Restriction(
        "batch_size",
        lambda explicit: explicit.get("optimizer") in ("lm", "lbfgs"),
        f"{{optimizer}} uses all rows at every step; for mini-batches choose {_GRADIENT_METHODS}",
    ),
    schema.Restriction(
        "priors",
        lambda explicit: explicit.get("optimizer", "lbfgs") != "lbfgs",
        "the posterior mode is found by lbfgs; leave out the optimizer, {optimizer}",
    ),
)

# The options that only gradient methods use.
_METHOD_RESTRICTIONS = tuple(
    schema.Restriction(
        option,
        lambda explicit: explicit["method"] not in OPTIMIZERS,
        f"{{method}} chooses its own step sizes; {words} is for {_GRADIENT_METHODS}",
    )
    for option, words in (
        ("learning_rate", "a learning rate"),
        ("lr_schedule", "a learning-rate schedule"),
        ("clip_norm", "clip_norm"),
    )
)
