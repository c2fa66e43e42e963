"""Arrays of long floats have the digits of long floats, operation by operation."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpq

from autodiff_cli.autodiff.digits import evaluate
from autodiff_cli.graph.node import variable
from autodiff_cli.numbers.arrays.fine import FINE, FINER
from autodiff_cli.numbers.arrays.structures import STRUCTURES
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.numbers.balls.number import is_finite, of_float, relative_size, working
from autodiff_cli.ops import registered

PLACES = (0.3, 0.71, 1.6, -0.4, -2.5, 1e-9, -3e-5, 12.3, -31.7, 600.5)
ULPS = 16


@pytest.mark.skipif(FINER == 1, reason="long floats are floats here")
@pytest.mark.parametrize("name", sorted({*FINE.table} - {*STRUCTURES}))
def test_every_operation_has_the_digits_of_long_floats(name: str) -> None:
    op = registered(name)
    leaves = [variable(letter) for letter in "abc"[: op.least]]
    for place in PLACES:
        point = [place + 0.25 * k for k in range(len(leaves))]
        with quiet():
            found = FINE.function(op, len(leaves))(*[np.array([x], dtype=np.longdouble) for x in point])[0]
        at = {leaf.text: of_float(x) for leaf, x in zip(leaves, point, strict=True)}
        (exact,) = evaluate([op(*leaves)], 30, leaves=at).numbers
        if is_finite(exact) and np.isfinite(found):
            with working(200):
                size = relative_size(fmpq(*found.as_integer_ratio()) - exact, exact)
            assert size <= np.log10(ULPS * FINER * 2.0**-53), (point, found)


def test_an_operation_with_a_function_of_its_own_is_not_expanded() -> None:
    with pytest.raises(NotImplementedError):
        FINE.function(registered("normal_cdf"), 1)
