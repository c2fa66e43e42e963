"""Batches of groups have the numbers that each group's rows have alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.training.fitting.minimization import fit_from_subsets
from autodiff_cli.training.methods.least_squares import norms
from autodiff_cli.training.objective import batch as batches
from autodiff_cli.training.objective.batch import (
    BATCH,
    GatheredRows,
    GroupBatch,
    ObjectiveBatch,
    can_evaluate_together,
    parameters_at_jumps,
    repeat_objective,
    rounding_squares,
)
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.parameters import Bounds
from autodiff_cli.training.options import FitOptions
from tests.each import each, examples

ROWS = 23
GENERATOR = np.random.default_rng(6)
DATA = {
    "x": GENERATOR.uniform(0.2, 2, ROWS),
    "y": GENERATOR.normal(2, 1, ROWS),
    "n": GENERATOR.poisson(3, ROWS).astype(float),
}
WEIGHTS = GENERATOR.uniform(0.5, 2, ROWS)
GROUPS = [np.array(rows) for rows in ([*range(7)], [3, 9, 9, 11, 20], [*range(8, 23)], [2], [22, 21, 1, 5, 17])]
THETA = GENERATOR.uniform(0.5, 1.5, (len(GROUPS), 2))
EVERY = np.arange(len(GROUPS))

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("y ~ a*exp(-b*x)", {}),
    ("y ~ a*exp(-b*x)", {"l2": 0.3}),
    ("[y, n] ~ [a*x, b + x^2]", {"l2": 0.2}),
    ("y ~ a*exp(-b*x)", {"loss": "cauchy"}),
    ("y ~ a*exp(-b*x)", {"loss": "mae"}),
    ("n ~ exp(a + b*x)", {"loss": "poisson"}),
]


def both_batches(model: str, options: dict[str, Any], weights: Array | None) -> tuple[GroupBatch, ObjectiveBatch]:
    """Return the groups together, and one after the other, with a scale for each."""
    objective = ad.Objective(model, DATA, weights=weights, **options)
    together = GroupBatch(objective, GROUPS)
    alone = ObjectiveBatch([objective.select_rows(rows) for rows in GROUPS])
    for each_batch in (together, alone):
        each_batch.set_scales(EVERY, 0.3 + 0.2 * EVERY)
    return together, alone


def check_equal(together: Any, alone: Any, theta: Array, fits: Any) -> None:
    """Compare all that methods ask a batch for."""
    values = together.values_and_gradients(theta, fits), alone.values_and_gradients(theta, fits)
    for found, wanted in zip(*values, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)
    for name in ("losses", "hessians"):
        found, wanted = getattr(together, name)(theta, fits), getattr(alone, name)(theta, fits)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=name)
    for found, wanted in zip(together.triangles(theta, fits), alone.triangles(theta, fits), strict=True):
        np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, rtol=1e-10, atol=1e-12)
        assert np.tril(found, -1).tolist() == np.zeros(found.shape).tolist()
    np.testing.assert_allclose(together.total_weights(fits), alone.total_weights(fits), rtol=1e-14)
    np.testing.assert_allclose(together.mean_squares(theta[:, 0], fits), alone.mean_squares(theta[:, 0], fits))
    for about_mean in (True, False):
        found, wanted = (each.target_variations(fits, about_mean=about_mean) for each in (together, alone))
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


@each("model, options", MODELS)
@each("weights", [None, WEIGHTS])
def test_groups_have_the_numbers_of_their_rows_alone(model: str, options: dict[str, Any], weights: Any) -> None:
    together, alone = both_batches(model, options, weights)
    assert together.target_counts.tolist() == alone.target_counts.tolist()
    chosen = np.array([4, 0, 2, 0])  # in any order, and again
    for kind in ("", "without_penalty", "without_kinks"):
        pair = [getattr(each_batch, kind)() if kind else each_batch for each_batch in (together, alone)]
        if None in pair:
            assert pair == [None, None]
            continue
        if kind == "without_kinks":
            pair = [each_batch.with_smoothing(0.4, THETA) for each_batch in pair]
        check_equal(*pair, THETA, EVERY)
        check_equal(*pair, THETA[chosen], chosen)
        check_equal(*(each_batch.take(chosen) for each_batch in pair), THETA[chosen], np.arange(4))
        assert pair[0].take(chosen).scales.tolist() == pair[1].take(chosen).scales.tolist() == [1.1, 0.3, 0.7, 0.3]


def test_parts_with_few_rows_have_the_numbers_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = both_batches("y ~ a*exp(-b*x)", {"l2": 0.3}, WEIGHTS)
    whole = together.median_magnitudes(THETA, EVERY), together.ranges("x")
    monkeypatch.setattr(batches, "BATCH", batches.BatchSettings(rows=9, max_gathered_rows=16))
    parts = GroupBatch.parts
    monkeypatch.setattr(GroupBatch, "parts", lambda batch, fits=None: parts(batch, fits, most=9))
    again = GroupBatch(together.objective, GROUPS)
    check_equal(again, alone, THETA, EVERY)
    assert again.target_counts.tolist() == alone.target_counts.tolist()
    assert again.median_magnitudes(THETA, EVERY).tolist() == whole[0].tolist()
    assert again.ranges("x") == whole[1] == [(DATA["x"][rows].min(), DATA["x"][rows].max()) for rows in GROUPS]


@each("weights", [None, WEIGHTS])
def test_medians_of_residuals_are_weighted(weights: Any) -> None:
    together, _ = both_batches("[y, n] ~ [a*x, b + x^2]", {}, weights)
    used = np.ones(ROWS) if weights is None else weights
    wanted = []
    for rows, (a, b) in zip(GROUPS, THETA, strict=True):
        x = DATA["x"][rows]
        residuals = np.stack([DATA["y"][rows] - a * x, DATA["n"][rows] - b - x**2]) * np.sqrt(used[rows])
        wanted.append(np.median(np.abs(residuals)))
    np.testing.assert_allclose(together.median_magnitudes(THETA, EVERY), wanted, rtol=1e-12)


def test_a_group_is_selected_and_divided_by_its_rows() -> None:
    together, alone = both_batches("y ~ a*exp(-b*x)", {"loss": "cauchy"}, WEIGHTS)
    for fit in range(len(GROUPS)):
        single = together.objective_of(fit)
        assert single.value(THETA[fit]) == pytest.approx(alone.objectives[fit].value(THETA[fit]), rel=1e-12)
    halves = together.take_rows(lambda count: np.arange(0, count, 2))
    assert halves.sizes.tolist() == [-(-len(rows) // 2) for rows in GROUPS]
    expected = ObjectiveBatch([together.objective.select_rows(rows[::2]) for rows in GROUPS])
    expected.set_scales(EVERY, together.scales)
    check_equal(halves, expected, THETA, EVERY)


@each("sizes", [[5, 5, 5], [5, 4, 7, 1, 2, 8], [1], [9, 16, 17]])
@each("components", [1, 3])
def test_quantiles_and_factors_of_groups(sizes: list[int], components: int) -> None:
    generator = np.random.default_rng(len(sizes))
    count = sum(sizes)
    rows = GatheredRows(lambda _: np.ones(count), np.array(sizes), is_weighted=False)
    values, shares = generator.normal(size=(components, count)), (0.0, 0.2, 0.5, 1.0)
    parts = np.split(values, np.cumsum(sizes)[:-1], axis=1)
    np.testing.assert_allclose(rows.quantiles(values, shares), [np.quantile(part, shares) for part in parts])
    columns, more = generator.normal(size=(components, 3, count)), generator.normal(size=(len(sizes), 2, 3))
    for extra in (None, more):
        for k, (found, part) in enumerate(
            zip(rows.factorize(columns, extra), np.split(columns, np.cumsum(sizes)[:-1], axis=2), strict=True)
        ):
            products = np.einsum("cir,cjr->ij", part, part) + (0 if extra is None else more[k].T @ more[k])
            np.testing.assert_allclose(found.T @ found, products, atol=1e-12)
    broken = np.where(np.arange(count) == 0, math.inf, columns)
    assert [bool(np.isnan(factor).all()) for factor in rows.factorize(broken)] == [True] + [False] * (len(sizes) - 1)


def test_values_that_are_not_finite_have_no_part_in_quantiles() -> None:
    rows = GatheredRows(lambda _: np.ones(7), np.array([4, 3]), is_weighted=False)
    values = np.array([[3.0, math.inf, 1.0, 2.0, math.inf, 5.0, math.inf]])
    assert rows.quantiles(values, (0.0, 0.5, 1.0)).tolist() == [[1, 2, 3], [5, 5, 5]]


def test_residuals_of_the_size_of_rounding_are_those_of_the_largest_term_or_target() -> None:
    objective = ad.Objective("y ~ a*x + b", {"x": [1.0, 2.0], "y": [3.0, 4.0]})
    batch = ObjectiveBatch([objective])
    for theta in ([1.0, 2.0], [1e3, 1.0], [1.0, -1e4]):
        sizes = norms(batch.triangles(np.array([theta]), np.arange(1)).swapaxes(1, 2))
        largest = max((theta[0] * math.sqrt(5)) ** 2, (theta[1] * math.sqrt(2)) ** 2, 25.0)
        found = rounding_squares(batch, np.arange(1), np.array([theta]), sizes)
        assert found[0] * 2.0**102 == pytest.approx(largest, rel=1e-12)


@each(
    "b, error, is_found",
    [(1e-7, 1.0, True), (1e-7, 0.01, False), (1e-5, 1.0, False), (0.0, 1.0, False), (1e4, 1e12, False)],
)
def test_a_parameter_at_a_jump_of_the_loss_is_found(b: float, error: float, is_found: bool) -> None:
    """With a row at x = 0, `b` in `a*x^b` may not change its sign; in `a*exp(b*x)` it may. A huge one is not at 0."""
    x = np.array([0.0, 1.0, 2.0, 3.0])
    for model, jumps in (("y ~ a*x^b", True), ("y ~ a*exp(b*x)", False), ("y ~ a*exp(-b*x)", False)):
        batch = ObjectiveBatch([ad.Objective(model, {"x": x, "y": 1 + x * 0.1})])
        theta = np.array([[1.0, b]])
        with ignore_float_errors():
            found = parameters_at_jumps(batch, theta, np.array([[1.0, error]]))
        assert found.tolist() == [[False, is_found and jumps]]


@each(
    "change, is_joint",
    [
        ({}, True),
        ({"family": "negative_binomial"}, False),
        ({"model": "y ~ dot(v, [x, 1])"}, False),
        ({"model": "y ~ mlp(x, [2], tanh)"}, False),
        ({"rows": BATCH.max_shared_rows}, True),
        ({"rows": BATCH.max_shared_rows + 1}, False),
        ({"parameters": BATCH.max_parameters}, True),
        ({"parameters": BATCH.max_parameters + 1}, False),
    ],
)
def test_fits_are_evaluated_together_if_they_are_small(change: dict[str, Any], is_joint: bool) -> None:
    count, names = change.get("rows", 5), [f"a{k}" for k in range(change.get("parameters", 1))]
    model = change.get("model", f"y ~ x*({' + '.join(names)})" if len(names) > 1 else "y ~ exp(a*x)")
    columns = {"x": np.linspace(0, 1, count), "y": np.arange(count) % 5.0}
    objective = ad.Objective(model, columns, **({"family": change["family"]} if "family" in change else {}))
    assert can_evaluate_together(objective) is is_joint
    repeated = repeat_objective(objective, 3, Bounds.unbounded(objective.layout.size))
    assert isinstance(repeated, GroupBatch) is is_joint
    assert repeated.count == 3
    assert not repeated.bounds.has_bounds


def test_bounds_are_those_of_the_fits() -> None:
    objective = ad.Objective("y ~ a*exp(-b*x)", DATA)
    bounds = Bounds(THETA - 1, THETA + EVERY[:, None])
    for batch in (GroupBatch(objective, GROUPS, bounds), ObjectiveBatch([objective] * len(GROUPS), bounds)):
        taken = batch.take(np.array([3, 1]))
        assert taken.bounds.high.tolist() == bounds.high[[3, 1]].tolist()
        assert batch.take(np.array([3]), taken.bounds.select(1)).bounds.high.tolist() == bounds.high[1].tolist()


@each("offset", [0.0, 1e9])
def test_the_variation_of_a_target_has_digits_also_far_from_0(offset: float) -> None:
    y = offset + np.array([1.0, 2.0, 4.0, 4.0, 4.0])
    batch = GroupBatch(ad.Objective("y ~ a", {"y": y}), [np.arange(3), np.array([2, 3, 4])])
    assert batch.target_variations(np.arange(2)).tolist() == [pytest.approx(14 / 3, rel=1e-14), 0.0]


@given(st.floats(0.1, 1e9), st.lists(st.floats(0.1, 10), min_size=2, max_size=9))
@examples(60)
def test_a_target_that_is_the_same_in_all_rows_has_no_variation(y: float, weights: list[float]) -> None:
    objective = ad.Objective("y ~ a", {"y": np.full(len(weights), y), "w": weights}, weights="w")
    assert GroupBatch(objective, [np.arange(len(weights))]).target_variations(np.arange(1)).tolist() == [0.0]


def test_gathered_rows_are_kept_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH", batches.BATCH._replace(max_gathered_rows=50))
    x = np.arange(100.0)
    batch = GroupBatch(ad.Objective("y ~ a*x", {"x": x, "y": x}), [*x.astype(int).reshape(10, 10)])
    for fits in ([0], [1, 2], [0, 3], [4], [5, 6, 7, 8], [0]):
        gathered = batch.rows_of(np.array(fits))
        assert gathered.column("x").tolist() == [each for fit in fits for each in x[10 * fit : 10 * fit + 10].tolist()]
        assert sum(rows.count for rows in batch._gathered_rows.values()) <= 50
    assert batch.rows_of(np.array([0])) is gathered


@each("seed", range(2))
def test_fits_from_few_rows_find_the_curve_of_each_group_beside_its_outliers(seed: int) -> None:
    generator, x, truth = np.random.default_rng(seed), np.linspace(0, 3, 20), np.array([[2, 1], [5, 0.3], [-3, 2]])
    y = truth[:, :1] * np.exp(-truth[:, 1:] * x) + 0.02 * generator.normal(size=(3, 20))
    y[:, ::6] += 4
    data = as_dataset({"x": np.tile(x, 3), "y": y.ravel()})
    objective = ad.Objective.of("y ~ a*exp(-b*x)", data, FitOptions(loss="cauchy"))
    groups = GroupBatch(objective, [*np.arange(60).reshape(3, 20)])
    ends = fit_from_subsets(groups, generator.normal(size=(3, 2)), generator.normal(size=(6, 2)))
    assert np.allclose(ends[:, 0], truth, atol=0.1)
