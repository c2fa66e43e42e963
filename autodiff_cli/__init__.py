"""autodiff: differentiate a formula, watch backpropagation, fit a formula to data.

>>> import autodiff_cli as ad
>>> ad.parse("x*y + sin(x)").grad(x=2, y=3)
{'x': 2.5838531634528574, 'y': 2.0}
"""

from __future__ import annotations

from autodiff_cli.version import __version__

TYPE_CHECKING = False  # type checkers treat it as `typing.TYPE_CHECKING`, whose import would cost start-up time
if TYPE_CHECKING:
    from typing import Any

    from autodiff_cli.data.dialect import FileOptions as FileOptions
    from autodiff_cli.data.table import DataError as DataError
    from autodiff_cli.expression import Expression as Expression
    from autodiff_cli.expression import parse as parse
    from autodiff_cli.fitting import Fit as Fit
    from autodiff_cli.fitting import compare as compare
    from autodiff_cli.fitting import fit as fit
    from autodiff_cli.fitting import fit_by as fit_by
    from autodiff_cli.fitting import load as load
    from autodiff_cli.fitting import read_data as read_data
    from autodiff_cli.language.errors import ExpressionError as ExpressionError
    from autodiff_cli.language.errors import MissingValueError as MissingValueError
    from autodiff_cli.language.errors import UnknownNameError as UnknownNameError
    from autodiff_cli.nn import Value as Value
    from autodiff_cli.training.objective.objective import Objective as Objective
    from autodiff_cli.training.options import FitOptions as FitOptions
    from autodiff_cli.training.result.fitted_model import ModelFileError as ModelFileError

# The public names of each module. They are imported when they are first used, so that `import autodiff_cli` is fast.
_NAMES = {
    "expression": "Expression parse",
    "language.errors": "ExpressionError MissingValueError UnknownNameError",
    "nn": "Value",
    "data.table": "DataError",
    "data.dialect": "FileOptions",
    "fitting": "Fit compare fit fit_by load read_data",
    "training.options": "FitOptions",
    "training.result.fitted_model": "ModelFileError",
    "training.objective.objective": "Objective",
}
_MODULES = {name: f"autodiff_cli.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [*sorted(_MODULES), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
