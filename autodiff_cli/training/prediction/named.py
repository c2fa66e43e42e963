"""What is predicted for rows, as columns with names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.prediction.bands import lacks_prediction_band

if TYPE_CHECKING:
    from autodiff_cli.training.result.fit import FittedModel


class WantedColumns(NamedTuple):
    """What to say of rows besides their prediction.

    Attributes:
        level: of the bands; None for no bands.
        probabilities: that of each class, or that of a 1.
        residuals: target minus prediction.
    """

    level: float | None = None
    probabilities: bool = False
    residuals: bool = False


class NamedPredictions(NamedTuple):
    """Columns by name, and what there is to say of them, as a sentence or nothing."""

    columns: dict[str, NDArray[Any]]
    note: str = ""


def named_predictions(fit: FittedModel, data: Mapping[str, ArrayLike], wanted: WantedColumns) -> NamedPredictions:
    """`prediction` and what else is wanted; of several targets a column for each, as in `prediction_NAME`.

    Raises:
        OptionError: for what a fit cannot say.

    >>> import autodiff_cli as ad
    >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
    >>> [*named_predictions(fit, {"x": [1]}, WantedColumns(0.95)).columns]
    ['prediction', 'confidence_low', 'confidence_high', 'prediction_low', 'prediction_high']
    """
    if wanted.level is None:
        columns, note = _spread(fit, "prediction", fit.predict(data)), ""
    else:
        bands = fit.predict(data, interval=wanted.level)
        columns = {}
        for name, values in bands._asdict().items():
            columns |= _spread(fit, name, values)
        note = lacks_prediction_band(fit, fit.terms.weighing in data)
    if wanted.probabilities:
        columns |= _probabilities(fit, data)
    if wanted.residuals:
        columns |= _spread(fit, "residual", fit.residuals(data))
    return NamedPredictions(columns, note)


def _spread(fit: FittedModel, name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    if values.ndim == 1:
        return {name: values}
    targets = fit.targets if len(fit.targets) == values.shape[1] else range(values.shape[1])
    return {f"{name}_{target}": column for target, column in zip(targets, values.T, strict=True)}


def _probabilities(fit: FittedModel, data: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    found = fit.probabilities(data)
    if fit.classes is not None:
        return {f"probability_{label}": column for label, column in zip(fit.classes, found.T, strict=True)}
    if fit.loss_name != "bce":
        raise OptionError("the model predicts numbers, no probabilities: those are of classes and of the loss bce")
    return _spread(fit, "probability", found)
