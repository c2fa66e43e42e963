"""The gradient of a formula as another framework computes it: PyTorch or JAX differentiates what is exported to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodiff_cli.export.exporters import export
from autodiff_cli.export.program import ExportError, Wanted
from autodiff_cli.formula.formula import Formula

_CLOSE = 1e-9  # how far two gradients in floats may be apart, beside their size
_NEAR_ZERO = 1e-12  # the same of those that are next to nothing


@dataclass(frozen=True)
class Referee:
    """What a framework finds.

    Attributes:
        framework: its name; `version` is its own.
        value: of the formula.
        gradient: by the name of the variable, `W[0, 1]` for an element of an array.
    """

    framework: str
    version: str
    value: float
    gradient: Mapping[str, float]

    def agrees(self, name: str, found: float) -> bool:
        """Whether a derivative is the same here, but for its last digits."""
        theirs = self.gradient[name]
        return bool(np.isclose(found, theirs, rtol=_CLOSE, atol=_NEAR_ZERO, equal_nan=True))


def referee(framework: str, formula: Formula, point: Mapping[str, Any], wrt: Sequence[str]) -> Referee:
    """The gradient by a framework.

    Args:
        framework: a name of `FRAMEWORKS`.
        point: floats and arrays, by name.
        wrt: the variables towards which to differentiate.

    Raises:
        ExportError: where the framework is not installed, or lacks an operation.
    """
    try:
        made: dict[str, Any] = {}
        exec(export(formula, framework, Wanted("f", gradient=False)), made)  # our own source
        given = [np.asarray(point[name], dtype=np.float64) for name in formula.variables]
        version, value, slopes = FRAMEWORKS[framework](made["f"], given)
    except ImportError:
        raise ExportError(f"{framework} is not installed: pip install 'autodiff-cli[frameworks]'") from None
    gradient: dict[str, float] = {}
    for name, slope in zip(formula.variables, slopes, strict=True):
        if name in wrt:
            places = np.ndindex(slope.shape)
            gradient |= {_element(name, place): float(slope[place]) for place in places}
    return Referee(framework, version, value, gradient)


def _by_torch(f: Callable[..., Any], point: Sequence[Any]) -> tuple[str, float, list[Any]]:
    import torch

    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    value = f(*leaves)
    if value.requires_grad:
        value.backward()
    slopes = [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]
    return torch.__version__, float(value.detach()), slopes


def _by_jax(f: Callable[..., Any], point: Sequence[Any]) -> tuple[str, float, list[Any]]:
    import jax

    jax.config.update("jax_enable_x64", True)
    if not point:
        return jax.__version__, float(f()), []
    value, slopes = jax.value_and_grad(f, argnums=tuple(range(len(point))))(*point)
    return jax.__version__, float(value), [np.asarray(slope) for slope in slopes]


FRAMEWORKS: Mapping[str, Callable[..., tuple[str, float, list[Any]]]] = {"torch": _by_torch, "jax": _by_jax}


def _element(name: str, place: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name
