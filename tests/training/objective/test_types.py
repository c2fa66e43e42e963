"""Columns of any type of number, in any memory: the same results, and no copies that are not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from tests.each import each

TYPES = ("f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
OTHERS = ("f2", ">f4", ">i4", "g", "O")  # which become doubles when they are read
MODEL = "y ~ a*tanh(b*x) + c"
ROWS = 150
every_backend = pytest.mark.parametrize("backend", ["numpy", "llvm"])


def data(kind: str) -> dict[str, Any]:
    generator = np.random.default_rng(2)
    x = generator.integers(0, 2 if kind == "?" else 9, ROWS)
    y = np.round(3 * np.tanh(0.3 * x) + 2 + generator.normal(0, 0.5, ROWS))
    return {"x": x.astype(kind), "y": y.astype(kind) if kind != "?" else y, "s": (1 + x % 3).astype(kind)}


@every_backend
@each("kind", TYPES + OTHERS, sampled=True)
def test_every_type_is_read_as_doubles(kind: str, backend: str) -> None:
    given = data(kind)
    wide = {name: column.astype(np.float64) for name, column in given.items()}
    one, other = (ad.Objective(MODEL, columns, sigma="s", backend=backend) for columns in (given, wide))
    for theta in ([1, 1, 1], [3.0, -0.25, 1e-3]):
        assert one.value(theta) == other.value(theta)
        np.testing.assert_array_equal(one.value_and_grad(theta)[1], other.value_and_grad(theta)[1])
        np.testing.assert_array_equal(one.triangle(theta), other.triangle(theta))
    assert one.table.columns["x"].dtype == np.dtype(kind if kind in TYPES else np.float64)


@pytest.mark.slow
@every_backend
@each("kind", ["f4", "u1"], sampled=True)
def test_whole_fits_are_the_same(kind: str, backend: str) -> None:
    given = data(kind)
    wide = {name: column.astype(np.float64) for name, column in given.items()}
    for options in ({}, {"optimizer": "adam", "batch_size": 16, "epochs": 5, "validation": 0.2}):
        one, other = (
            ad.fit(MODEL, columns, weights="s", backend=backend, **options)  # type: ignore[arg-type]
            for columns in (given, wide)
        )
        assert one.parameters == other.parameters
        assert one.stderr == other.stderr
        assert one.warnings == other.warnings


@each("kind", ["f8", *TYPES])
def test_arrays_side_by_side_are_not_copied_and_may_be_read_only(kind: str) -> None:
    given = data(kind)
    for column in given.values():
        column.setflags(write=False)
    objective = ad.Objective("y ~ a*x", given)
    assert np.shares_memory(objective.table.columns["x"], given["x"])
    objective.value_and_grad([1])


@every_backend
def test_arrays_with_gaps_give_the_same_as_without(backend: str) -> None:
    plain = {name: column.astype(np.float32) for name, column in data("f8").items()}
    space = np.full((ROWS, 4), np.nan, np.float32)
    apart = {}
    for k, (name, column) in enumerate(plain.items()):
        space[::-1, k] = column
        apart[name] = space[::-1, k]
    found = [ad.Objective(MODEL, columns, backend=backend).value_and_grad([1, 2, 3]) for columns in (plain, apart)]
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_vectors_of_columns_of_several_types() -> None:
    given = {"x": np.arange(5, dtype="i1"), "z": np.arange(5, dtype="u4"), "y": np.arange(5, dtype="f4")}
    wide = {name: column.astype(np.float64) for name, column in given.items()}
    found = [ad.Objective("y ~ v @ [x, z]", columns, start={"v": [1, 2]}).value([0.5, 2]) for columns in (given, wide)]
    assert found[0] == found[1]


@each("kind", ["u1", "u8", "?"])
def test_falling_unsigned_predictors_are_in_order(kind: str) -> None:
    falling = np.array([1, 1, 0, 0]).astype(kind)
    for column, expected in (
        (falling, True),
        (falling[::-1], True),
        (falling[[0, 2, 1, 3]], False),
        (falling | 1, False),
    ):
        fit = ad.fit("y ~ a*x", {"x": column, "y": [1, 2, 3, 4]})
        assert (fit.durbin_watson is not None) is expected


@each("order", ["rising", "falling", "random"])
def test_unsigned_predictors_of_groups_are_in_order_if_they_are_as_floats(order: str) -> None:
    x = {"rising": np.arange(20), "falling": np.arange(20)[::-1], "random": np.argsort(np.sin(np.arange(20)))}[order]
    noise = np.cos(np.arange(120) ** 2)
    given = {"x": np.tile(x, 6), "y": 9 * np.exp(-np.tile(x, 6) / 9) + noise / 9, "group": np.repeat(np.arange(6), 20)}
    found, expected = (
        [group.fit.durbin_watson for group in ad.fit_by("y ~ a*exp(-b*x)", columns, "group") if group.fit]
        for columns in ({**given, "x": given["x"].astype("u1")}, given)
    )
    assert found == expected
    assert (None in found) is (order == "random")


def test_large_whole_numbers_are_rounded_once() -> None:
    given = {"x": np.array([2**53 + 1, 2**62 + 3]), "y": np.array([2**63 + 5, 2**64 - 1], np.uint64)}
    for backend in ("numpy", "llvm"):
        objective = ad.Objective("y ~ a*x", given, backend=backend)
        found = objective.evaluate_rows(objective.kernels.target, [1])
        np.testing.assert_array_equal(found[0], given["y"].astype(np.float64))
