"""The special functions on NumPy arrays.

SciPy's vectorised functions where they are right to 1e-13 or so; elsewhere, and where they give other values at poles,
the functions of floats, element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers import gamma_floats as gamma
from autodiff_cli.numbers import incomplete_gamma_floats as incomplete_gamma
from autodiff_cli.numbers import special_floats as floats
from autodiff_cli.numbers.scipy_special import scipy

Array: TypeAlias = NDArray[np.float64]


def elementwise(function: Callable[..., float]) -> Callable[..., Array]:
    """A function of floats, applied one element after the other: for what NumPy and SciPy lack."""
    applied = np.frompyfunc(lambda *xs: function(*map(float, xs)), function.__code__.co_argcount, 1)
    return lambda *xs: np.asarray(applied(*xs), dtype=np.float64)


def _either(good: Callable[..., Any], fast: Callable[..., Any], careful: Callable[..., float]) -> Callable[..., Array]:
    """`fast`, a function of arrays, where `good` holds of the arguments, and the function of floats elsewhere."""
    slowly = elementwise(careful)

    def either(*arguments: Any) -> Array:
        xs = np.broadcast_arrays(*arguments)
        found = np.array(fast(*xs), dtype=np.float64)
        rest = ~good(*xs)
        if rest.any():
            found[rest] = slowly(*(x[rest] for x in xs))
        return found

    return either


def _moderate_gamma(a: Array, x: Array) -> Any:
    return elementwise(incomplete_gamma.is_moderate)(a, x) != 0


def _moderate(a: Array, b: Array) -> Any:
    return (np.minimum(a, b) > 1e-100) & (a + b < 20)


# fmt: off
SPECIAL: dict[str, Callable[..., Any]] = {
    "erfinv": partial(scipy, "erfinv"),
    "Ei": _either(lambda x: ~(x > 10), partial(scipy, "expi"), floats.exponential_integral),
    "growth": elementwise(floats.growth),
    "Si": lambda x: scipy("sici", x)[0], "Ci": lambda x: np.where(x >= 0, scipy("sici", x)[1], np.nan),
    "Shi": _either(lambda x: np.abs(x) < 20, lambda x: scipy("shichi", x)[0], floats.hyperbolic_sine_integral),
    "Chi": _either(lambda x: (x >= 0) & (x < 20), lambda x: scipy("shichi", x)[1], floats.hyperbolic_cosine_integral),
    "coshc": elementwise(floats.hyperbolic_growth),
    "sinhc": elementwise(floats.sinhc), "sinhc_derivative": elementwise(floats.sinhc_derivative),
    "chirp_sine": elementwise(floats.chirp_sine), "chirp_cosine": elementwise(floats.chirp_cosine),
    "fresnels": _either(lambda x: np.abs(x) <= 6, lambda x: scipy("fresnel", x)[0], floats.fresnel_sine),
    "fresnelc": _either(lambda x: np.abs(x) <= 6, lambda x: scipy("fresnel", x)[1], floats.fresnel_cosine),
    "lambertw": _either(lambda x: x > -0.25, lambda x: scipy("lambertw", x).real, floats.lambertw),
    "lambertw_rise": _either(lambda x: x > -0.25, lambda x: 1 + scipy("lambertw", x).real, floats.lambertw_rise),
    "lambertw_slope": elementwise(floats.lambertw_slope),
    "gamma": partial(scipy, "gamma"),
    "lgamma": _either(lambda x: (x > 2.5) | ((x > 1e-300) & (x < 0.5)), partial(scipy, "gammaln"), gamma.lgamma),
    "digamma": _either(lambda x: x > 0, partial(scipy, "digamma"), gamma.digamma),
    "polygamma": _either(
        lambda n, x: (x > 0) & (n > 0) & (n < 30) & (n == np.floor(n)),
        lambda n, x: scipy("polygamma", np.where((n > 0) & (n < 30), np.floor(n), 1).astype(int), x), gamma.polygamma,
    ),
    "digamma_gap": elementwise(gamma.digamma_gap), "polygamma_gap": elementwise(gamma.polygamma_gap),
    "beta": _either(_moderate, partial(scipy, "beta"), gamma.beta), "beta_slope": elementwise(gamma.beta_slope),
    "gammainc": _either(_moderate_gamma, partial(scipy, "gammainc"), incomplete_gamma.gammainc),
    "gammaincc": _either(_moderate_gamma, partial(scipy, "gammaincc"), incomplete_gamma.gammaincc),
    "gamma_density": elementwise(gamma.gamma_density),
}
# fmt: on
