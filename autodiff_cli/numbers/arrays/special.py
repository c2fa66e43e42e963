"""The special functions on NumPy arrays: those of floats, element by element, as machine code."""

from __future__ import annotations

from typing import Any

from autodiff_cli.numbers.compiled.elementwise import Elementwise
from autodiff_cli.numbers.floats import gamma, incomplete_gamma, integrals, special

_FLOATS: dict[str, Any] = special.SPECIAL | integrals.INTEGRALS | gamma.GAMMA | incomplete_gamma.INCOMPLETE_GAMMA

SPECIAL: dict[str, Any] = {
    name: Elementwise(function)
    for name, function in _FLOATS.items()
    if name not in ("swell", "sinc", "sinc_derivative")  # NumPy can
}
