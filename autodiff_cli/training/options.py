"""The options of a fit, in groups, each checked where it is made. See `fit` for what each means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.backends.choice import NAMES, compiles
from autodiff_cli.language.errors import suggest
from autodiff_cli.training.errors import OptionError, plain, plain_value
from autodiff_cli.training.methods.optimizers import OPTIMIZERS
from autodiff_cli.training.methods.schedules import read_schedule
from autodiff_cli.training.objective.losses import FAMILIES, LOSSES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from autodiff_cli.training.cluster.cluster import Cluster

METHODS = ("auto", "lm", "lbfgs", *OPTIMIZERS)
EPOCHS = 100  # of the gradient methods, where no number is given
LEARNING_RATE = 0.01  # likewise

Limits: TypeAlias = tuple[float, float]  # the least and the greatest value, infinite where there is none


def checked_limits(name: str, given: Any) -> Limits:
    """The bounds of a parameter as two floats; None stands for no bound.

    Raises:
        OptionError: if they are not two numbers, the lower one first.

    >>> checked_limits("a", (0, None))
    (0.0, inf)
    """
    try:
        low, high = given
        low, high = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"the bounds of `{name}` are a pair of numbers, (low, high), not {given!r}") from None
    if math.isnan(low) or math.isnan(high):
        raise OptionError(f"the bounds of `{name}` are {in_words((low, high))}: nan is no bound")
    if low == high:
        raise OptionError(
            f"the bounds of `{name}` leave it no choice; to keep it at {low:g}, fix it (--fix {name}={low:g})"
        )
    if low > high or low == math.inf or high == -math.inf:
        raise OptionError(f"the bounds of `{name}` leave nothing between them: {low:g} to {high:g}")
    return low, high


def in_words(limits: Limits) -> str:
    """Bounds in a sentence.

    >>> in_words((0, 1)), in_words((-math.inf, 5))
    ('0 to 1', 'at most 5')
    """
    low, high = limits
    if high == math.inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -math.inf else f"{low:g} to {high:g}"


def checked_level(level: float) -> float:
    """A level of confidence between 0 and 1, also where it was given in per cent. Raises OptionError.

    >>> checked_level(95)
    0.95
    """
    level = plain_value(level, "float", "a level of confidence")
    share = level / 100 if 1 < level < 100 else level
    if not 0 < share < 1:
        raise OptionError(f"a level of confidence lies between 0 and 1, not at {level:g}")
    return share


@dataclass(frozen=True, slots=True)
class ParameterOptions:
    """What is known of parameters before a fit, by canonical names.

    Attributes:
        start: where they begin.
        fixed: those that keep a value; None keeps the one that they would begin with.
        bounds: the least and the greatest value that they may have, None or infinite where there is none.
    """

    start: Mapping[str, ArrayLike] = field(default_factory=dict)
    fixed: Mapping[str, ArrayLike | None] = field(default_factory=dict)
    bounds: Mapping[str, Limits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = {name: checked_limits(name, limits) for name, limits in self.bounds.items()}
        object.__setattr__(self, "bounds", checked)
        for name in checked:
            if name in self.fixed:
                raise OptionError(f"`{name}` is fixed, so that bounds for it say nothing: leave out one of them")

    @property
    def named(self) -> set[str]:
        """The names that these options say something of: they are parameters."""
        return {*self.start, *self.fixed, *self.bounds}


@dataclass(frozen=True, slots=True)
class DataOptions:
    """How the rows of the data count."""

    weights: ArrayLike | str | None = None
    sigma: ArrayLike | str | None = None
    absolute_sigma: bool = False
    drop_missing: bool = False
    no_columns: bool = False
    x_sigma: Mapping[str, ArrayLike | str] = field(default_factory=dict)
    stream: bool = False

    def __post_init__(self) -> None:
        plain(self)
        if self.x_sigma and self.sigma is None:
            raise OptionError("errors in x count beside those in y: x_sigma needs sigma")
        if self.weights is not None and self.sigma is not None:
            raise OptionError("weights and sigma say the same thing in two ways (weights = 1/sigma²): give one of them")
        if self.absolute_sigma and self.sigma is None:
            raise OptionError("how to take sigma is said, but not sigma")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that these options name."""
        return tuple(given for given in (self.weights, self.sigma, *self.x_sigma.values()) if isinstance(given, str))


@dataclass(frozen=True, slots=True)
class LossOptions:
    """What a row costs; None is what was not asked for."""

    loss: str | None = None
    scale: float | None = None
    huber_delta: float | None = None
    family: str | None = None
    likelihood: bool = False
    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        plain(self)
        for name, factor in (("l1", self.l1), ("l2", self.l2)):
            if not 0 <= factor < math.inf:
                raise OptionError(f"the factor {name} of a penalty cannot be negative, nan or infinite: {factor:g}")
        if self.family is not None and self.family not in FAMILIES:
            raise OptionError(_unknown("family", self.family, FAMILIES))
        if self.family is not None and self.loss is not None:
            raise OptionError("a family has its own loss: leave loss out")
        if self.likelihood and (self.family is not None or self.loss is not None):
            raise OptionError(
                "likelihood says that the model is minus a log-likelihood itself: leave loss and family out"
            )
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise OptionError(f"the scale of residuals must be positive, not {self.scale:g}")
        if self.huber_delta is not None and not 0 < self.huber_delta < math.inf:
            raise OptionError(f"huber_delta must be positive, not {self.huber_delta:g}")
        if self.loss is not None and self.loss not in LOSSES:
            raise OptionError(_unknown("loss", self.loss, LOSSES))


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """How to look for the minimum."""

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
        plain(self)
        read_schedule(self.lr_schedule)
        if self.starts is not None and self.starts < 1:
            raise OptionError(f"a fit has at least one start, not {self.starts}")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise OptionError(f"clip_norm must be positive, not {self.clip_norm:g}")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise OptionError(f"a tolerance is a share of the loss, between 0 and 1, not {self.tolerance:g}")
        if self.optimizer not in METHODS:
            raise OptionError(_unknown("optimizer", self.optimizer, METHODS))
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise OptionError(f"the learning rate must be positive, not {self.learning_rate:g}")
        if self.epochs is not None and self.epochs < 0:
            raise OptionError(f"the number of epochs cannot be negative: {self.epochs}")
        if self.batch_size is not None and self.batch_size < 1:
            raise OptionError(f"a batch has at least one row, not {self.batch_size}")
        if self.seed < 0:
            raise OptionError(f"the seed cannot be negative: {self.seed}")
        if self.batch_size is not None and self.optimizer in ("lm", "lbfgs"):
            raise OptionError(f"{self.optimizer} sees all rows at once; mini-batches need one of {listed(OPTIMIZERS)}")
        if self.recompute_every is not None and self.recompute_every < 1:
            raise OptionError(f"recompute_every is at least one layer, not {self.recompute_every}")
        if self.backend not in NAMES:
            raise OptionError(_unknown("backend", self.backend, NAMES))
        if self.backend == "llvm" and not compiles():
            raise OptionError("the backend llvm needs llvmlite, which is not installed; numpy does without")
        if self.threads is not None and self.threads < 1:
            raise OptionError(f"there is at least one thread, not {self.threads}")

    def check_used(self, method: str) -> None:
        """Raise OptionError for an option that the method which runs does not have."""
        if method in OPTIMIZERS:
            return
        given = {
            "a learning rate": self.learning_rate is not None,
            "a schedule of learning rates": self.lr_schedule != "constant",
            "clip_norm": self.clip_norm is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise OptionError(f"{method} finds its own steps; {name} is for {listed(OPTIMIZERS)}")


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """The rows held out of the fit, by which it is judged."""

    validation: float | None = None
    patience: int | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        plain(self)
        fraction, patience = self.validation, self.patience
        if fraction is not None and not 0 < fraction < 1:
            raise OptionError(f"validation takes a fraction of the rows, between 0 and 1, not {fraction:g}")
        if patience is not None and fraction is None:
            raise OptionError(
                "patience waits for the validation loss to fall: it needs validation, as --validation 0.2"
            )
        if patience is not None and patience < 1:
            raise OptionError(f"patience is at least one epoch, not {patience}")
        if not 0 <= self.min_delta < math.inf:
            raise OptionError(f"min_delta cannot be negative, nan or infinite: {self.min_delta:g}")
        if self.min_delta and patience is None:
            raise OptionError("min_delta is what patience counts as a fall of the loss: it needs patience")


@dataclass(frozen=True, slots=True)
class KeepingOptions:
    """Where a fit under way is kept, and where it goes on from."""

    checkpoint: str | None = None
    checkpoint_every: int | None = None
    resume: str | None = None

    def __post_init__(self) -> None:
        plain(self)
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise OptionError("how often to write a checkpoint is said, but not the file: it needs checkpoint")
        if self.checkpoint_every is not None and self.checkpoint_every < 1:
            raise OptionError(f"a checkpoint is written every epoch at most, not every {self.checkpoint_every}")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a fit is to say of itself besides its parameters and their errors."""

    diagnosis: bool = False
    confidence: float = 0.95
    derive: Mapping[str, str] = field(default_factory=dict)
    profile: bool = False
    bootstrap: int | None = None
    plot: bool = False

    def __post_init__(self) -> None:
        plain(self)
        object.__setattr__(self, "confidence", checked_level(self.confidence))
        if self.bootstrap is not None and self.bootstrap < 2:
            raise OptionError(f"a bootstrap has at least two resamples, not {self.bootstrap}; 1000 are usual")


@dataclass(frozen=True, slots=True)
class Options:
    """All of them."""

    parameters: ParameterOptions = ParameterOptions()
    data: DataOptions = DataOptions()
    loss: LossOptions = LossOptions()
    method: MethodOptions = MethodOptions()
    validation: ValidationOptions = ValidationOptions()
    report: ReportOptions = ReportOptions()
    keeping: KeepingOptions = KeepingOptions()
    cluster: Cluster | None = None  # where rows are folded, if not here

    def __post_init__(self) -> None:
        if self.method.starts is not None and (self.keeping.checkpoint or self.keeping.resume):
            raise OptionError("a checkpoint keeps one fit, and several starts are several: leave out one of them")

    def check_on_cluster(self) -> None:
        """Raise OptionError for what cannot be done to rows on a cluster."""
        if self.data.stream:
            raise OptionError("on a cluster rows stay with its workers: leave out stream, or the cluster")
        method = self.method.optimizer
        stay = "and on a cluster rows stay with their workers"
        if self.method.batch_size is not None:
            name = "mini-batches" if method == "auto" else f"{method} in mini-batches"
            raise OptionError(
                f"cluster: {name} would draw the rows of every step from all over the data, {stay}; "
                "leave out the batch size, for steps down all rows"
            )
        if self.report.bootstrap is not None:
            raise OptionError(
                f"cluster: a bootstrap draws all rows anew for each of its fits, {stay}; profile gives intervals there"
            )


def listed(names: Any, last: str = "or") -> str:
    """Names in a sentence.

    >>> listed(["mse", "mae", "bce"])
    'mse, mae or bce'
    """
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else str(end)


def _unknown(kind: str, name: str, known: Any) -> str:
    close = suggest(name, known)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
    return f"there is no {kind} {name}; {hint}"
