"""autodiff: differentiate a formula, watch backpropagation, fit a formula to data.

>>> import autodiff_cli as ad
>>> ad.parse("x*y + sin(x)").grad(x=2, y=3)
{'x': 2.5838531634528574, 'y': 2.0}
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autodiff_cli.autodiff.value import Value as Value
    from autodiff_cli.expression import Expression as Expression
    from autodiff_cli.expression import parse as parse
    from autodiff_cli.language.errors import ExpressionError as ExpressionError
    from autodiff_cli.language.errors import MissingValueError as MissingValueError
    from autodiff_cli.language.errors import UnknownNameError as UnknownNameError
    from autodiff_cli.training.data import DataError as DataError
    from autodiff_cli.training.fit import Fit as Fit
    from autodiff_cli.training.fit import fit as fit
    from autodiff_cli.training.model_file import ModelFileError as ModelFileError
    from autodiff_cli.training.model_file import load as load
    from autodiff_cli.training.objective import Objective as Objective

__version__ = "0.1.0"

# Where each public name lives. Names are imported when first used: `import autodiff_cli` alone costs nothing.
_HOMES = {
    "Expression": "autodiff_cli.expression",
    "parse": "autodiff_cli.expression",
    "ExpressionError": "autodiff_cli.language.errors",
    "MissingValueError": "autodiff_cli.language.errors",
    "UnknownNameError": "autodiff_cli.language.errors",
    "Value": "autodiff_cli.autodiff.value",
    "DataError": "autodiff_cli.training.data",
    "Fit": "autodiff_cli.training.fit",
    "fit": "autodiff_cli.training.fit",
    "load": "autodiff_cli.training.model_file",
    "ModelFileError": "autodiff_cli.training.model_file",
    "Objective": "autodiff_cli.training.objective",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
