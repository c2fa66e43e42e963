"""How well parameters are known together: the inverse of what the data say about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Columns of J, each scaled to length 1, count as dependent if a singular value is this small beside the largest: what
# rounding leaves of an exact 0, with room to spare. Of a Hessian, a square, only half of the digits can tell.
DEPENDENT = 1e-13
_DEPENDENT_SQUARE = 1e-7
_ALIKE = 0.999  # the correlation beyond which two parameters can hardly be told apart
_THE_SAME = 0.999999  # the one beyond which it matters in any case
_VAGUE = 0.1  # of a value: an error that large makes it matter
_PAIRS = 3  # of them that are named
_OPEN = 1e-8  # the least share of a quantity's gradient in a direction that is left open
_NAMED = 10  # of the parameters that the data leave open
_INVOLVED = 1e-3  # the least share in a direction that the data leave open for a parameter to count as part of it


def inverse_hessian(hessian: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """inv(H), by a root of H: H = RᵀR, with the columns of H scaled so that its diagonal is 1. See `inverse`.

    >>> inverse_hessian(np.diag([4.0, 1e-6]), ["a", "b"])[0].diagonal().tolist()
    [0.25, 1000000.0]
    """
    if not np.isfinite(hessian).all():
        return inverse(hessian, names, _DEPENDENT_SQUARE)
    scale = np.sqrt(np.maximum(np.diag(hessian), 0))
    safe = np.where(scale > 0, scale, 1.0)
    curvatures, directions = np.linalg.eigh(hessian / np.outer(safe, safe))
    root = np.sqrt(np.maximum(curvatures, 0))[:, None] * directions.T * scale
    return inverse(root, names, _DEPENDENT_SQUARE)


def inverse(factor: Array, names: Sequence[str], dependent: float = DEPENDENT) -> tuple[Array, list[str]]:
    """inv(RᵀR), with nan for parameters that R does not determine, and the reasons.

    Columns are scaled to length 1 first: that parameters differ in size does not make them badly determined.

    Args:
        names: of the parameters.
        dependent: the singular value beside the largest that counts as 0.

    >>> inverse(np.array([[1.0, 2.0], [0.0, 0.0]]), ["a", "b"])[1]
    ['the data determine only a combination of `a`, `b`, not each of them']
    """
    if not np.isfinite(factor).all():
        unknown = np.full((len(names), len(names)), math.nan)
        return unknown, ["no standard errors: the derivatives are not finite at the solution"]
    lengths = np.sqrt(np.sum(np.square(factor), axis=0))
    idle = lengths == 0
    scale = np.where(idle, 1.0, lengths)
    _, sizes, directions = np.linalg.svd(factor / scale)
    vanishing = sizes <= dependent * sizes[0]
    undetermined = (np.abs(directions[vanishing]) > _INVOLVED).any(axis=0) | idle
    kept = directions[~vanishing] / sizes[~vanishing, None]
    found = kept.T @ kept / np.outer(scale, scale)
    found[undetermined, :] = math.nan
    found[:, undetermined] = math.nan
    reasons = [
        f"`{name}` is undetermined: at the solution it has no effect on the prediction"
        for name, without in zip(names, idle, strict=True)
        if without
    ]
    tied = [f"`{name}`" for name, one, without in zip(names, undetermined, idle, strict=True) if one and not without]
    if tied:
        more = f" and {len(tied) - _NAMED} more" if len(tied) > _NAMED else ""
        reasons.append(f"the data determine only a combination of {', '.join(tied[:_NAMED])}{more}, not each of them")
    return found, reasons


def variance_of_combination(slopes: Array, factor: Array) -> float:
    """gᵀ·inv(RᵀR)·g for the gradient g of a quantity; nan if the quantity changes along what R leaves open.

    >>> round(variance_of_combination(np.array([1.0, 2.0]), np.array([[1.0, 2.0], [0.0, 0.0]])), 12)  # of a + 2*b
    1.0
    """
    lengths = np.sqrt(np.sum(np.square(factor), axis=0))
    scale = np.where(lengths == 0, 1.0, lengths)
    _, sizes, directions = np.linalg.svd(factor / scale)
    along = directions @ (slopes / scale)
    vanishing = sizes <= DEPENDENT * sizes[0]
    if (np.abs(along[vanishing]) > _OPEN * np.linalg.norm(along)).any():
        return math.nan
    return float(np.sum(np.square(along[~vanishing] / sizes[~vanishing])))


def hardly_told_apart(names: Sequence[str], values: Array, covariance: Array) -> list[str]:
    """A sentence on numbers that the data tell apart so badly that at least one of a pair is not known well.

    >>> hardly_told_apart(["a", "b"], np.ones(2), np.array([[1, -0.99999], [-0.99999, 1]]))
    ['`a` and `b` can hardly be told apart by these data: their correlation is -0.99999']
    """
    matrix = correlations(covariance)
    with np.errstate(all="ignore"):
        vague = np.sqrt(np.diag(covariance)) > _VAGUE * np.abs(values)
        close = (np.abs(matrix) > _ALIKE) & (vague | vague[:, None]) | (np.abs(matrix) > _THE_SAME)
    pairs = sorted(zip(*np.nonzero(np.triu(close, 1)), strict=True), key=lambda pair: -abs(matrix[pair]))
    said = [
        f"`{names[i]}` and `{names[j]}` can hardly be told apart by these data: "
        f"their correlation is {_shown(matrix[i, j])}"
        for i, j in pairs[:_PAIRS]
    ]
    more = len(pairs) - len(said)
    return [*said, f"{more} more pairs of parameters can hardly be told apart"] if more else said


def _shown(correlation: float) -> str:
    """As many decimals as tell it from 1."""
    for decimals in range(5, 16):
        text = f"{correlation:.{decimals}f}"
        if abs(float(text)) != 1:
            break
    return text


def correlations(covariance: Array) -> Array:
    """The covariance with all variances scaled to 1; nan where one is not known, or 0.

    >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    spread = np.sqrt(np.diag(covariance))
    with np.errstate(all="ignore"):
        found: Array = np.where(spread > 0, covariance / spread, math.nan) / spread[:, None]
    found[np.diag_indices_from(found)] = np.where(spread > 0, 1.0, math.nan)
    return found
