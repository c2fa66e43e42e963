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

from autodiff_cli.numbers.arrays.scipy_special import scipy
from autodiff_cli.numbers.floats import gamma, incomplete_gamma, integrals
from autodiff_cli.numbers.floats import special as floats

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


def _odd(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function that goes through 0 there, and keeps the sign of a zero."""
    return lambda x: np.where(x == 0, x, function(x))


def _moderate_gamma(a: Array, x: Array) -> Any:
    """Where SciPy holds its digits: not far from x = a where a is large, nor below it from 2e5 on; nor of tiny ones."""
    far = (a > 50) & (np.abs(x - a) > 0.3 * a)
    tiny = (np.minimum(a, x) > 0) & (np.minimum(a, x) < 1e-290)
    return ~((a < np.inf) & (x < np.inf) & ((a > 1e5) | far | tiny))


def _moderate(a: Array, b: Array) -> Any:
    return (np.minimum(a, b) > 1e-100) & (a + b < 20)


# fmt: off
SPECIAL: dict[str, Callable[..., Any]] = {
    "erfinv": _odd(partial(scipy, "erfinv")),
    "Ei": _either(lambda x: ~(x > 10), partial(scipy, "expi"), integrals.exponential_integral),
    "growth": elementwise(floats.growth),
    "Si": _odd(lambda x: scipy("sici", x)[0]), "Ci": lambda x: np.where(x >= 0, scipy("sici", x)[1], np.nan),
    "Shi": _odd(
        _either(lambda x: np.abs(x) < 20, lambda x: scipy("shichi", x)[0], integrals.hyperbolic_sine_integral)
    ),
    "Chi": _either(
        lambda x: (x >= 0) & (x < 20), lambda x: scipy("shichi", x)[1], integrals.hyperbolic_cosine_integral,
    ),
    "coshc": elementwise(floats.hyperbolic_growth),
    "sinhc": elementwise(floats.sinhc), "sinhc_derivative": elementwise(floats.sinhc_derivative),
    "chirp_sine": elementwise(integrals.chirp_sine), "chirp_cosine": elementwise(integrals.chirp_cosine),
    "fresnels": _odd(_either(lambda x: np.abs(x) <= 6, lambda x: scipy("fresnel", x)[0], integrals.fresnel_sine)),
    "fresnelc": _odd(_either(lambda x: np.abs(x) <= 6, lambda x: scipy("fresnel", x)[1], integrals.fresnel_cosine)),
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
