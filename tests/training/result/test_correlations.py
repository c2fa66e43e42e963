"""Parameters that data hardly tell apart are reported, and others are not."""

from __future__ import annotations

import numpy as np

from autodiff_cli.training.result.statistics import COVARIANCE, correlations, high_correlation_warnings
from tests.each import each


@each(
    "correlation, relative_error, is_reported",
    [
        (0.998, 10.0, False),
        (0.9992, 10.0, True),
        (-0.9992, 10.0, True),
        (0.9992, 0.11, True),
        (0.9992, 0.09, False),
        (-0.9999985, 0.001, False),
        (0.9999995, 0.001, True),
    ],
)
def test_pairs_are_reported_by_their_correlation_and_precision(
    correlation: float, relative_error: float, is_reported: bool
) -> None:
    for scales in ((1.0, 1.0), (1e-5, 1e8)):
        errors = np.array(scales) * relative_error
        covariance = np.outer(errors, errors) * [[1, correlation], [correlation, 1]]
        is_imprecise = errors > COVARIANCE.large_relative_error * np.array(scales)
        assert bool(high_correlation_warnings(["a", "b"], is_imprecise, correlations(covariance))) is is_reported


def test_the_closest_pairs_are_named_and_the_others_counted() -> None:
    names = [f"p{k}" for k in range(8)]
    covariance = np.eye(8)
    for k, rest in enumerate((5e-4, 1e-4, 3e-4, 2e-4)):
        covariance[2 * k, 2 * k + 1] = covariance[2 * k + 1, 2 * k] = (-1) ** k * (1 - rest)
    warnings = high_correlation_warnings(names, np.ones(8, np.bool_), covariance)
    assert [warning[1:3] for warning in warnings[:-1]] == ["p2", "p6", "p4"]
    assert len(warnings) == COVARIANCE.max_pairs_shown + 1
    assert warnings[-1] == "1 more pair of parameters can hardly be told apart"
