"""The options of a fit: how they are grouped, which values they accept, and which optimizers and schedules there are.

`Options` holds one record per group (parameters, data, loss, method, validation, checkpointing, report). Each record
checks its values when it is made and raises `OptionError`. `fit` explains what each option means.

`OPTIMIZERS` holds the gradient methods. Each is one update step, written as a graph for a single number among the
parameters. A backend runs the graph over whole vectors, or compiles it together with the gradient.
`LearningRateSchedule` varies the learning rate from epoch to epoch.

This module does not import NumPy, because the command line reads it at start-up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.backends.protocol import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.backends.selection import BACKEND_NAMES, has_compiler
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.language.errors import suggest
from autodiff_cli.ops.arithmetic import clip
from autodiff_cli.ops.elementary import expm1, sqrt, square
from autodiff_cli.training.losses import FAMILIES, LOSSES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class OptionError(ValueError):
    """An option that does not exist, has a value that it cannot have, or conflicts with another option."""


# For each plain type of a field: the types that are accepted, its name in messages, and the conversion.
_PLAIN_TYPES: dict[str, tuple[tuple[type, ...], str, Any]] = {
    "str": ((str,), "a text", str),
    "int": ((Integral,), "a whole number", int),
    "float": ((Real,), "a number", float),
    "bool": ((bool, Integral), "true or false", bool),
}


def normalize_fields(options: Any) -> None:
    """Convert the fields of an options record to their declared plain types, in place.

    Fields of other types, and None where it is allowed, stay as they are. NumPy scalars count as numbers and booleans.
    Raises OptionError for a value of the wrong type.
    """
    for item in dataclasses.fields(options):
        value = getattr(options, item.name)
        kind, _, optional = str(item.type).partition(" | ")
        if kind not in _PLAIN_TYPES or (value is None and optional == "None"):
            continue
        object.__setattr__(options, item.name, convert_plain_value(value, kind, item.name))


def convert_plain_value(value: Any, kind: str, name: str) -> Any:
    """Return a value converted to the plain type `kind`: `str`, `int`, `float` or `bool`.

    Raises OptionError, which names the option, for a value of another type.

    >>> convert_plain_value(2, "float", "scale")
    2.0
    """
    types, words, make = _PLAIN_TYPES[kind]
    is_truth = kind == "bool" and getattr(getattr(value, "dtype", None), "kind", "") == "b" and not value.ndim
    try:
        if not (isinstance(value, types) or is_truth):
            raise TypeError
        return make(value)
    except (TypeError, OverflowError):
        shown = f"{value!r}" if isinstance(value, float | str | bytes) else type(value).__name__
        raise OptionError(f"{name} is {words}, not {shown[:40]}") from None


class ClusterError(RuntimeError):
    """A failure of the cluster from which a fit cannot recover."""


_THETA, _GRADIENT, _RATE, _STEP = map(variable, (THETA, GRADIENT, RATE, STEP))

FIRST_MOMENT_DECAY = 0.9  # per step, of the moving average of gradients and of the velocity; the usual value
SECOND_MOMENT_DECAY = 0.999  # per step, of the moving average of squared gradients in adam (Kingma & Ba 2015)
LOWER_BOUND, UPPER_BOUND = "low", "high"  # accumulators of a projected method that hold the bounds
EPSILON = 1e-8  # added to the root mean square, so that no step is divided by 0
WEIGHT_DECAY = 0.01  # of adamw, per step and unit of learning rate; the default of its authors


def _sgd() -> Update:
    """Gradient descent (Cauchy 1847); on batches, stochastic gradient descent (Robbins & Monro 1951)."""
    return Update(_THETA - _RATE * _GRADIENT)


def _momentum() -> Update:
    """Heavy-ball momentum (Polyak 1964)."""
    velocity = FIRST_MOMENT_DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * velocity, {"velocity": velocity})


def _nesterov() -> Update:
    """Nesterov's accelerated gradient (Nesterov 1983), in the form of Bengio et al. 2013, eq. 7."""
    velocity = FIRST_MOMENT_DECAY * variable("velocity") + _GRADIENT
    return Update(_THETA - _RATE * (_GRADIENT + FIRST_MOMENT_DECAY * velocity), {"velocity": velocity})


def _adagrad() -> Update:
    """AdaGrad: each parameter's rate falls with the sum of its squared gradients (Duchi, Hazan & Singer 2011)."""
    total = variable("total") + square(_GRADIENT)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(total) + 1e-10), {"total": total})


def _rmsprop() -> Update:
    """RMSProp: AdaGrad with a moving average in place of the sum (Hinton 2012, Coursera, lecture 6e)."""
    squares = _moving_average("square", square(_GRADIENT), FIRST_MOMENT_DECAY)
    return Update(_THETA - _RATE * _GRADIENT / (sqrt(squares) + EPSILON), {"square": squares})


def _adam(theta: Node = _THETA) -> Update:
    """Adam, with bias correction (Kingma & Ba 2015, arXiv 1412.6980, algorithm 1)."""
    mean = _moving_average("mean", _GRADIENT, FIRST_MOMENT_DECAY)
    squares = _moving_average("square", square(_GRADIENT), SECOND_MOMENT_DECAY)
    rate = _RATE / _bias_correction(FIRST_MOMENT_DECAY)
    root = sqrt(squares) / sqrt(_bias_correction(SECOND_MOMENT_DECAY)) + EPSILON
    return Update(theta - rate * (mean / root), {"mean": mean, "square": squares})


def _adamw() -> Update:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101)."""
    return _adam(_THETA * (1 - _RATE * WEIGHT_DECAY))


def _moving_average(name: str, new: Node, decay: float) -> Node:
    """The exponential moving average of `new`, remembered under `name`."""
    return decay * variable(name) + (1 - decay) * new


def _bias_correction(decay: float) -> Node:
    """The weight `1 - decay**step` of the gradients in a moving average that began at 0.

    It is computed by `expm1`, which takes half of the time of a power.
    """
    return -expm1(_STEP * math.log(decay))


OPTIMIZERS: dict[str, Update] = {
    "sgd": _sgd(),
    "momentum": _momentum(),
    "nesterov": _nesterov(),
    "adagrad": _adagrad(),
    "rmsprop": _rmsprop(),
    "adam": _adam(),
    "adamw": _adamw(),
}


def project_onto_bounds(update: Update) -> Update:
    """Return the update followed by projection onto the bounds (projected gradients, Goldstein 1964).

    The bounds of each number are accumulators named `LOWER_BOUND` and `UPPER_BOUND`, so the clipped step is still one
    graph for any backend.
    """
    low, high = variable(LOWER_BOUND), variable(UPPER_BOUND)
    return Update(clip(update.theta, low, high), {**update.accumulators, LOWER_BOUND: low, UPPER_BOUND: high})


_PLATEAU_THRESHOLD = 1e-4  # relative decrease of the loss below which an epoch counts as part of a plateau

# The syntax of each schedule and the defaults of its numbers: a number of epochs, and a factor.
SCHEDULES: dict[str, tuple[str, tuple[float, ...]]] = {
    "constant": ("constant", ()),
    "cosine": ("cosine", ()),
    "step": ("step[:EPOCHS[:FACTOR]]", (30, 0.1)),
    "exponential": ("exponential[:FACTOR]", (0.95,)),
    "plateau": ("plateau[:EPOCHS[:FACTOR]]", (10, 0.1)),
}


@dataclass(slots=True)
class LearningRateSchedule:
    """The learning rate as a function of the epoch.

    - `constant`: the initial rate.
    - `cosine`: falls to 0 over all epochs along half a cosine (Loshchilov & Hutter 2017, arXiv 1608.03983, without
      restarts).
    - `step`: is multiplied by the factor every given number of epochs.
    - `exponential`: is multiplied by the factor after every epoch.
    - `plateau`: is multiplied by the factor when the loss has not fallen by 0.01 % for the given number of epochs. It
      watches the validation loss if there is one.

    Args:
        text: the name of the schedule and its numbers, separated by colons, such as `step:30:0.1`.
        initial_rate: the rate of the first epoch.
        epochs: the number of epochs of the fit.

    Raises:
        OptionError: for an unknown schedule, or for numbers that it does not take.

    >>> cosine = LearningRateSchedule("cosine", 0.1, 100)
    >>> cosine.rate(1, []), cosine.rate(51, [])
    (0.1, 0.05)
    >>> LearningRateSchedule("step:2:0.5", 1.0, 9).rate(5, [])
    0.25
    >>> LearningRateSchedule("plateau:2:0.5", 1.0, 9).rate(4, [1.0, 0.5, 0.6, 0.5])
    0.5
    """

    text: str
    initial_rate: float
    epochs: int
    _name: str = field(init=False)
    _numbers: tuple[float, ...] = field(init=False)
    _losses_read: int = field(default=0, init=False)  # number of losses that were examined for a plateau
    _best_loss: float = field(default=math.inf, init=False)
    _epochs_waited: int = field(default=0, init=False)
    _reductions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._name, self._numbers = parse_schedule(self.text)

    def rate(self, number: int, losses: Sequence[float]) -> float:
        """Return the learning rate of an epoch.

        Args:
            number: the number of the epoch; 1 is the first.
            losses: the losses at the start and after every epoch before this one.
        """
        return self.initial_rate * _FACTORS[self._name](self, number - 1, losses)

    def _step_factor(self, passed: int) -> float:
        epochs, factor = self._numbers
        return factor ** (passed // int(epochs))

    def _plateau_factor(self, losses: Sequence[float]) -> float:
        epochs, factor = self._numbers
        for loss in losses[self._losses_read :]:
            if loss < self._best_loss - _PLATEAU_THRESHOLD * abs(self._best_loss) or math.isinf(self._best_loss):
                self._best_loss, self._epochs_waited = loss, 0
                continue
            self._epochs_waited += 1
            if self._epochs_waited >= epochs:
                self._reductions, self._epochs_waited = self._reductions + 1, 0
        self._losses_read = len(losses)
        return factor**self._reductions


_FACTORS: dict[str, Callable[[LearningRateSchedule, int, Sequence[float]], float]] = {
    "constant": lambda _, passed, losses: 1.0,
    "cosine": lambda own, passed, losses: (1 + math.cos(math.pi * passed / own.epochs)) / 2,
    "step": lambda own, passed, losses: own._step_factor(passed),
    "exponential": lambda own, passed, losses: own._numbers[0] ** passed,
    "plateau": lambda own, passed, losses: own._plateau_factor(losses),
}


def parse_schedule(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the name of a schedule and its numbers, with defaults for those that are not given.

    Raises:
        OptionError: for an unknown schedule, or for numbers that it does not take.

    >>> parse_schedule("step:10")
    ('step', (10.0, 0.1))
    """
    name, *words = text.split(":")
    if name not in SCHEDULES:
        close = suggest(name, SCHEDULES)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(SCHEDULES)}"
        raise OptionError(f"there is no learning-rate schedule {name}; {hint}")
    form, defaults = SCHEDULES[name]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    values = (*numbers, *defaults[len(numbers) :])
    epochs, factor = values[:-1], values[-1:]
    is_valid = all(n >= 1 and n == int(n) for n in epochs if math.isfinite(n)) and all(0 < n < 1 for n in factor)
    if len(values) != len(defaults) or not all(map(math.isfinite, values)) or not is_valid:
        raise OptionError(f"schedule `{text}`: write {form}, with a factor between 0 and 1")
    return name, values


METHODS = ("auto", "lm", "lbfgs", *OPTIMIZERS)
DEFAULT_EPOCHS = 100  # for gradient methods, which have no convergence test of their own
DEFAULT_LEARNING_RATE = 0.01  # for gradient methods

BoundPair: TypeAlias = tuple[float, float]  # the lower and the upper bound, infinite where there is none


def check_bounds(name: str, given: Any) -> BoundPair:
    """Return the bounds of a parameter as two floats; None means unbounded.

    Raises:
        OptionError: if they are not two numbers in ascending order.

    >>> check_bounds("a", (0, None))
    (0.0, inf)
    """
    try:
        low, high = given
        low, high = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"the bounds of `{name}` must be a pair of numbers, (low, high), not {given!r}") from None
    if math.isnan(low) or math.isnan(high):
        raise OptionError(f"a bound of `{name}` is nan")
    if low == high:
        raise OptionError(f"the bounds of `{name}` are equal; to keep it at {low:g}, fix it (--fix {name}={low:g})")
    if low > high or low == math.inf or high == -math.inf:
        raise OptionError(f"the lower bound of `{name}` is above the upper one: {low:g} to {high:g}")
    return low, high


def describe_bounds(bounds: BoundPair) -> str:
    """Return bounds as words for a sentence.

    >>> describe_bounds((0, 1)), describe_bounds((-math.inf, 5))
    ('0 to 1', 'at most 5')
    """
    low, high = bounds
    if high == math.inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -math.inf else f"{low:g} to {high:g}"


def check_confidence_level(level: float) -> float:
    """Return a confidence level between 0 and 1; values from 1 to 100 are read as percentages.

    Raises OptionError for any other number.

    >>> check_confidence_level(95)
    0.95
    """
    level = convert_plain_value(level, "float", "a confidence level")
    share = level / 100 if 1 < level < 100 else level
    if not 0 < share < 1:
        raise OptionError(f"a confidence level must be between 0 and 1 (or 0 and 100 %), not {level:g}")
    return share


@dataclass(frozen=True, slots=True)
class ParameterOptions:
    """Starting values, fixed values and bounds of parameters, by canonical names.

    Attributes:
        start: starting values.
        fixed: parameters that are not fitted, with their values; None keeps the starting value.
        bounds: the lower and upper bound of parameters, infinite where there is none.
    """

    start: Mapping[str, ArrayLike] = field(default_factory=dict)
    fixed: Mapping[str, ArrayLike | None] = field(default_factory=dict)
    bounds: Mapping[str, BoundPair] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = {name: check_bounds(name, limits) for name, limits in self.bounds.items()}
        object.__setattr__(self, "bounds", checked)
        for name in checked:
            if name in self.fixed:
                raise OptionError(f"`{name}` is fixed, so it cannot have bounds")

    @property
    def parameter_names(self) -> set[str]:
        """The names to which these options refer; each must be a parameter of the model."""
        return {*self.start, *self.fixed, *self.bounds}


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Options for the rows: weights and errors, missing cells, and streaming."""

    weights: ArrayLike | str | None = None
    sigma: ArrayLike | str | None = None
    absolute_sigma: bool = False
    drop_missing: bool = False
    no_columns: bool = False
    x_sigma: Mapping[str, ArrayLike | str] = field(default_factory=dict)
    stream: bool = False

    def __post_init__(self) -> None:
        normalize_fields(self)
        if self.x_sigma and self.sigma is None:
            raise OptionError("x_sigma needs sigma: errors in x are added to errors in y")
        if self.weights is not None and self.sigma is not None:
            raise OptionError("weights and sigma cannot be combined (weights = 1/sigma²): give one of them")
        if self.absolute_sigma and self.sigma is None:
            raise OptionError("absolute_sigma needs sigma")

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of the data to which these options refer."""
        return tuple(given for given in (self.weights, self.sigma, *self.x_sigma.values()) if isinstance(given, str))


@dataclass(frozen=True, slots=True)
class LossOptions:
    """Which loss is minimised, with its scale and penalties; None stands for an option that was not given."""

    loss: str | None = None
    scale: float | None = None
    huber_delta: float | None = None
    family: str | None = None
    likelihood: bool = False
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        normalize_fields(self)
        for name, factor in (("l1", self.l1), ("l2", self.l2)):
            if not 0 <= factor < math.inf:
                raise OptionError(f"{name} must be a finite number of at least 0, not {factor:g}")
        if self.family is not None and self.family not in FAMILIES:
            raise OptionError(_unknown_choice("family", self.family, FAMILIES))
        if self.family is not None and self.loss is not None:
            raise OptionError("family and loss cannot be combined: a family determines its loss")
        if self.likelihood and (self.family is not None or self.loss is not None):
            raise OptionError(
                "likelihood cannot be combined with loss or family: the model itself is the negative log-likelihood"
            )
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise OptionError(f"scale must be positive, not {self.scale:g}")
        if self.huber_delta is not None and not 0 < self.huber_delta < math.inf:
            raise OptionError(f"huber_delta must be positive, not {self.huber_delta:g}")
        if self.loss is not None and self.loss not in LOSSES:
            raise OptionError(_unknown_choice("loss", self.loss, LOSSES))


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """Which optimizer runs, how long, and on which backend; None stands for an option that was not given."""

    optimizer: str = "auto"
    learning_rate: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    seed: int = 0
    recompute_every: int | None = None
    backend: str = "auto"
    threads: int | None = None
    lr_schedule: str = "constant"
    clip_norm: float | None = None
    tolerance: float | None = None
    starts: int | None = None

    def __post_init__(self) -> None:
        normalize_fields(self)
        parse_schedule(self.lr_schedule)
        if self.starts is not None and self.starts < 1:
            raise OptionError(f"starts must be at least 1, not {self.starts}")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise OptionError(f"clip_norm must be positive, not {self.clip_norm:g}")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise OptionError(f"tolerance is relative to the loss: it must be between 0 and 1, not {self.tolerance:g}")
        if self.optimizer not in METHODS:
            raise OptionError(_unknown_choice("optimizer", self.optimizer, METHODS))
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise OptionError(f"the learning rate must be positive, not {self.learning_rate:g}")
        if self.epochs is not None and self.epochs < 0:
            raise OptionError(f"epochs must be at least 0, not {self.epochs}")
        if self.batch_size is not None and self.batch_size < 1:
            raise OptionError(f"batch_size must be at least 1, not {self.batch_size}")
        if self.seed < 0:
            raise OptionError(f"seed must be at least 0, not {self.seed}")
        if self.batch_size is not None and self.optimizer in ("lm", "lbfgs"):
            raise OptionError(
                f"{self.optimizer} uses all rows at every step; for mini-batches choose {join_words(OPTIMIZERS)}"
            )
        if self.recompute_every is not None and self.recompute_every < 1:
            raise OptionError(f"recompute_every must be at least 1 (layer), not {self.recompute_every}")
        if self.backend not in BACKEND_NAMES:
            raise OptionError(_unknown_choice("backend", self.backend, BACKEND_NAMES))
        if self.backend == "llvm" and not has_compiler():
            raise OptionError("the backend llvm needs llvmlite, which is not installed; choose numpy instead")
        if self.threads is not None and self.threads < 1:
            raise OptionError(f"threads must be at least 1, not {self.threads}")

    def check_method(self, method: str) -> None:
        """Raise OptionError if an option was given that the chosen method does not use."""
        if method in OPTIMIZERS:
            return
        given = {
            "a learning rate": self.learning_rate is not None,
            "a learning-rate schedule": self.lr_schedule != "constant",
            "clip_norm": self.clip_norm is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise OptionError(f"{method} chooses its own step sizes; {name} is for {join_words(OPTIMIZERS)}")


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """Options for validation on held-out rows, and for stopping early."""

    validation: float | None = None
    patience: int | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        normalize_fields(self)
        fraction, patience = self.validation, self.patience
        if fraction is not None and not 0 < fraction < 1:
            raise OptionError(f"validation is a fraction of the rows: it must be between 0 and 1, not {fraction:g}")
        if patience is not None and fraction is None:
            raise OptionError(
                "patience needs validation, such as --validation 0.2: it waits for the validation loss to fall"
            )
        if patience is not None and patience < 1:
            raise OptionError(f"patience must be at least 1 (epoch), not {patience}")
        if not 0 <= self.min_delta < math.inf:
            raise OptionError(f"min_delta must be a finite number of at least 0, not {self.min_delta:g}")
        if self.min_delta and patience is None:
            raise OptionError("min_delta needs patience: it is the decrease of the loss that patience waits for")


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Where a running fit writes checkpoints, and which checkpoint it resumes from."""

    checkpoint: str | None = None
    checkpoint_every: int | None = None
    resume: str | None = None

    def __post_init__(self) -> None:
        normalize_fields(self)
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise OptionError("checkpoint_every needs checkpoint, the file to write")
        if self.checkpoint_every is not None and self.checkpoint_every < 1:
            raise OptionError(f"checkpoint_every must be at least 1 (epoch), not {self.checkpoint_every}")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options for the report: what it includes besides parameters and standard errors."""

    diagnosis: bool = False
    confidence: float = 0.95
    derive: Mapping[str, str] = field(default_factory=dict)
    profile: bool = False
    bootstrap: int | None = None
    plot: bool = False

    def __post_init__(self) -> None:
        normalize_fields(self)
        object.__setattr__(self, "confidence", check_confidence_level(self.confidence))
        if self.bootstrap is not None and self.bootstrap < 2:
            raise OptionError(f"bootstrap needs at least 2 resamples, not {self.bootstrap}; 1000 are usual")


@dataclass(frozen=True, slots=True)
class Options:
    """All options of a fit, in groups."""

    parameters: ParameterOptions = ParameterOptions()
    data: DataOptions = DataOptions()
    loss: LossOptions = LossOptions()
    method: MethodOptions = MethodOptions()
    validation: ValidationOptions = ValidationOptions()
    report: ReportOptions = ReportOptions()
    checkpointing: CheckpointOptions = CheckpointOptions()
    # The `Cluster` that holds the rows; None for this process. Its class is defined in a module above this one.
    cluster: Any = None

    def __post_init__(self) -> None:
        if self.method.starts is not None and (self.checkpointing.checkpoint or self.checkpointing.resume):
            raise OptionError("starts cannot be combined with checkpoint or resume: a checkpoint holds a single fit")

    def check_cluster(self) -> None:
        """Raise OptionError for options that cannot be used with rows on a cluster."""
        if self.data.stream:
            raise OptionError("stream cannot be combined with cluster, whose workers hold the rows")
        method = self.method.optimizer
        stay = "but workers of a cluster keep their rows"
        if self.method.batch_size is not None:
            name = "mini-batches" if method == "auto" else f"{method} in mini-batches"
            raise OptionError(
                f"cluster: {name} would need rows from all workers at every step, {stay}; "
                "leave out the batch size to use all rows at every step"
            )
        if self.report.bootstrap is not None:
            raise OptionError(
                f"cluster: a bootstrap would resample all rows for every fit, {stay}; use profile for intervals"
            )


def join_words(names: Any, last: str = "or") -> str:
    """Return names as a list in words, with `last` before the final one.

    >>> join_words(["mse", "mae", "bce"])
    'mse, mae or bce'
    """
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else str(end)


def _unknown_choice(kind: str, name: str, known: Any) -> str:
    close = suggest(name, known)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
    return f"there is no {kind} {name}; {hint}"
