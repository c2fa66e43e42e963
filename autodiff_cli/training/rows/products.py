"""Triangular factors from products of columns: RᵀR = AᵀA."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet

Array = NDArray[np.float64]

# The least part of a column, scaled to length 1, that is new beside those before it. Products have twice the digits of
# the columns to lose: of 16, R keeps 10 at that limit, and reflections take over below.
_NEW = 1e-3
_SMALL = 1e-140  # the length of a column whose square has all digits


def factor_of_products(products: Array) -> Array | None:
    """The factor by Cholesky's method, from the sums of products of every two columns.

    The last column, of residuals, may depend on the others.

    Args:
        products: column by column, down to the diagonal.

    Returns:
        An array of shape (columns, columns); None where the columns hang together too much for that, or are not finite.

    >>> factor_of_products(np.array([4.0, 2.0, 10.0]))
    array([[2., 1.],
           [0., 3.]])
    """
    size = int(np.sqrt(2 * len(products)))
    gram = np.zeros((size, size))
    lower = np.tril_indices(size)
    gram[lower] = products
    with quiet():
        scale = np.sqrt(np.diag(gram))
        gram /= np.outer(scale, scale)
    if not np.isfinite(gram[lower]).all() or not _SMALL < scale.min() <= scale.max() < np.inf:
        return None
    try:
        root = np.linalg.cholesky(gram[:-1, :-1])  # which reads what is below the diagonal
    except np.linalg.LinAlgError:
        return None
    if np.diag(root).min() < _NEW:
        return None
    factor = np.zeros((size, size))
    factor[:-1, :-1] = root.T
    factor[:-1, -1] = np.linalg.solve(root, gram[-1, :-1])
    factor[-1, -1] = np.sqrt(max(0.0, 1 - float(np.sum(np.square(factor[:-1, -1])))))
    return factor * scale
