"""L-BFGS through SciPy, for losses that are not squares of residuals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.loop import Diverged, Epoch, Observer, Outcome
from autodiff_cli.training.objective import Objective

Array = NDArray[np.float64]

_EPOCHS = 10_000  # the cap where none is given
_TOLERANCE = 1e-15  # least relative change of the loss
_GRADIENT = 1e-10  # largest entry of a gradient that counts as 0
_FAR = 1e100  # stands for a loss that is not finite: worse than any other


def lbfgs(objective: Objective, start: Array, observe: Observer, epochs: int | None = None) -> Outcome:
    """Minimise any differentiable objective: Liu & Nocedal 1989.

    Args:
        start: of shape (P,).
        observe: is told the start and every step taken.
        epochs: the most steps.

    Raises:
        Diverged: if the loss at the start is not finite.
    """
    from scipy.optimize import minimize

    def value_and_grad(theta: Array) -> tuple[float, Array]:
        loss, gradient = objective.value_and_grad(theta)
        if np.isfinite(loss) and np.isfinite(gradient).all():
            return loss, gradient
        return _FAR, np.zeros_like(theta)

    number = 0

    def after(intermediate_result: Any) -> None:
        nonlocal number
        number += 1
        observe(Epoch(number, float(intermediate_result.fun), intermediate_result.x.copy()))

    loss = objective.value_and_grad(start)[0]
    if not np.isfinite(loss):
        raise Diverged(0, loss)
    observe(Epoch(0, loss, start))
    limit = _EPOCHS if epochs is None else epochs
    options: Any = {"maxiter": limit, "maxfun": 20 * limit + 20, "ftol": _TOLERANCE, "gtol": _GRADIENT}
    result = minimize(value_and_grad, start, jac=True, method="L-BFGS-B", callback=after, options=options)
    if result.success or number == epochs:
        return Outcome(result.x, result.success)
    return Outcome(result.x, False, f"no convergence after {number} epochs: no step along the gradient lowers the loss")
