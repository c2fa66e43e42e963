"""Operations on arrays of long doubles have extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpq

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.graph.node import variable
from autodiff_cli.numbers.arrays import LONGDOUBLE, LONGDOUBLE_EPS_RATIO, STRUCTURAL
from autodiff_cli.numbers.ball_arithmetic import from_float, is_finite, log10_relative_size, working_precision
from autodiff_cli.ops import get_op
from tests.each import each

PLACES = (0.3, 0.71, 1.6, -0.4, -2.5, 1e-9, -3e-5, 12.3, -31.7, 600.5)
ULPS = 16


@pytest.mark.skipif(LONGDOUBLE_EPS_RATIO == 1, reason="long doubles equal floats here")
@each("name", sorted({*LONGDOUBLE.table} - {*STRUCTURAL}))
def test_every_operation_has_extended_precision(name: str) -> None:
    op = get_op(name)
    leaves = [variable(letter) for letter in "abc"[: op.min_inputs]]
    for place in PLACES:
        point = [place + 0.25 * k for k in range(len(leaves))]
        with ignore_float_errors():
            found = LONGDOUBLE.function(op, len(leaves))(*[np.array([x], dtype=np.longdouble) for x in point])[0]
        at = {leaf.text: from_float(x) for leaf, x in zip(leaves, point, strict=True)}
        (exact,) = evaluate_to_digits([op(*leaves)], 30, leaves=at).numbers
        if is_finite(exact) and np.isfinite(found):
            with working_precision(200):
                size = log10_relative_size(fmpq(*found.as_integer_ratio()) - exact, exact)
            assert size <= np.log10(ULPS * LONGDOUBLE_EPS_RATIO * 2.0**-53), (point, found)


def test_an_operation_with_a_float_function_is_not_expanded() -> None:
    with pytest.raises(NotImplementedError):
        LONGDOUBLE.function(get_op("normal_cdf"), 1)
