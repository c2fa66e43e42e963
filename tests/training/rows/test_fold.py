"""What is computed over rows has the same bits however they fall into chunks, and every task can be sent elsewhere."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends import gradient_descent
from autodiff_cli.backends.llvm import backend as llvm_backend
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.training import rows as rows_module
from autodiff_cli.training.fitting.fit import fit_objective
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.rows import (
    MAX_BLOCK_ROWS,
    WEIGHT,
    MemoryRows,
    NonFiniteRows,
    Rows,
    RowSelection,
    Task,
    column_spreads,
    count_confusions,
    find_non_finite,
    join_non_finite,
    join_spreads,
    join_triangles,
    residual_triangle,
    score_triangle,
    spreads,
)
from tests.each import each
from tests.support import goodness

ROWS = 3 * MAX_BLOCK_ROWS + 100


class Chunked(MemoryRows):
    """Rows in memory that come in chunks."""

    def fold(self, task: Task[Any]) -> Any:
        return fold(self._results(task), task.combine)

    def _results(self, task: Task[Any]) -> Iterator[Any]:
        for part in block_slices(self.rows, MAX_BLOCK_ROWS):
            chunk = self.to_table().select_rows(part)
            yield task({name: chunk.columns[name] for name in task.names & chunk.columns.keys()}, chunk.rows)


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, ROWS))
    y = 2 * np.exp(-1.3 * x) + rng.normal(0, 0.1, ROWS)
    y[::17] += rng.normal(0, 3, len(y[::17]))
    count = rng.poisson(np.exp(0.3 + 0.5 * x))
    p = 1 / (1 + np.exp(1 - x))
    return {
        "x": x,
        "y": y,
        "w": rng.integers(0, 3, ROWS),
        "s": rng.uniform(0.1, 0.2, ROWS),
        "n": count,
        "hit": rng.uniform(size=ROWS) < p,
        "g": np.exp(0.3 + 0.5 * x) * rng.gamma(3, 1 / 3, ROWS),
        "k": np.where(rng.uniform(size=ROWS) < p, "b", "a"),
        "z": rng.uniform(1, 2, ROWS),
    }


DATA = columns()
CURVE = "y ~ a*exp(-b*x)"
FITS: list[tuple[str, Mapping[str, Any]]] = [
    (CURVE, {}),
    (CURVE, {"weights": "w"}),
    (CURVE, {"sigma": "s", "x_sigma": {"x": "s"}}),
    (CURVE, {"loss": "huber"}),
    (CURVE, {"loss": "mae"}),
    (CURVE, {"loss": "cauchy", "weights": "w"}),
    ("n ~ exp(a + b*x)", {"family": "poisson"}),
    ("g ~ exp(a + b*x)", {"family": "gamma", "weights": "w"}),
    ("hit ~ sigmoid(a + b*x)", {"loss": "bce", "weights": "w"}),
    ("k ~ softmax([0, a + b*x])", {}),
    ("[y, n] ~ [a*x, b*x]", {}),
    (CURVE, {"optimizer": "adam", "epochs": 5}),
    ("y ~ mlp([x, z], [8])", {"epochs": 3}),
]


def options(given: Mapping[str, Any]) -> FitOptions:
    return FitOptions(**given, plot=True)


every_fit = pytest.mark.parametrize(
    ("model", "given"),
    [pytest.param(*one, id=f"{one[0]} {one[1]}", marks=[pytest.mark.slow] * ("x_sigma" in one[1])) for one in FITS],
)


@pytest.mark.sampled
@every_fit
def test_a_fit_has_the_same_bits_whatever_chunks_the_rows_come_in(model: str, given: Mapping[str, Any]) -> None:
    asked = options(given)
    whole = fit_objective(Objective.of(model, as_dataset(DATA), asked), asked)
    objective = Objective.of(model, as_dataset(DATA), asked)
    parts = fit_objective(objective.with_rows(Chunked(objective.table)), asked)
    assert parts.history == whole.history
    for name, value in whole.parameters.items():
        assert np.array_equal(parts.parameters[name], value)
    assert repr(parts.stderr) == repr(whole.stderr)
    assert goodness(parts) == goodness(whole)
    assert (parts.loss, parts.rss, parts.accuracy) == (whole.loss, whole.rss, whole.accuracy)
    assert parts.warnings == whole.warnings


class Gathered(MemoryRows):
    """Rows that are gathered for each part of an epoch, as those of files are."""

    gathered_rows = 16
    run_epoch = Rows.run_epoch


@pytest.mark.parametrize("most_shuffled", [10, 100])
@pytest.mark.parametrize(("batch_size", "block"), [(5, 100), (20, 100), (40, 10)])
def test_an_epoch_takes_a_step_for_each_batch_of_rows(
    most_shuffled: int, batch_size: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small steps add up to one along the mean gradient of all rows, times the number of batches."""
    monkeypatch.setattr(rows_module, "MAX_FULL_SHUFFLE_ROWS", most_shuffled)
    monkeypatch.setattr(rows_module, "MAX_BLOCK_ROWS", block)
    data = {"x": np.linspace(1, 2, 40), "y": np.arange(40.0) ** 2}
    asked = FitOptions(optimizer="sgd", epochs=1, batch_size=batch_size, learning_rate=1e-7, start={"a": 0.0})
    objective = Objective.of("y ~ a*x", as_dataset(data), asked)
    end = fit_objective(objective.with_rows(Gathered(objective.table)), asked).parameters["a"]
    assert end == pytest.approx(1e-7 * 40 / batch_size * 2 * np.mean(data["x"] * data["y"]), rel=1e-4)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("kind", [MemoryRows, Gathered])
def test_progress_of_an_epoch_is_its_number_and_the_share_of_its_rows_with_their_mean_loss(
    kind: type[MemoryRows], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a learning rate of practically 0, the losses of batches are those at the start."""
    monkeypatch.setattr(rows_module, "MAX_FULL_SHUFFLE_ROWS", 30)
    monkeypatch.setattr(gradient_descent, "MAX_FULL_SHUFFLE_ROWS", 30)
    monkeypatch.setattr(gradient_descent, "_PROGRESS_SECONDS", -1.0)
    monkeypatch.setattr(llvm_backend, "_CALL_SECONDS", 0.0)
    monkeypatch.setattr(llvm_backend, "_GATHER_BYTES", 4 * 8)  # a batch
    columns = {"y": np.full(40, 3.0)}
    asked = FitOptions(optimizer="sgd", epochs=3, batch_size=4, learning_rate=1e-30, start={"a": 0.0}, backend=backend)
    objective, seen = Objective.of("y ~ a", as_dataset(columns), asked), list[Any]()
    fit_objective(objective.with_rows(kind(objective.table)), asked, seen.append)
    batches = range(1, 10)
    assert [report.number for report in seen] == [number for number in (1, 2, 3) for _ in batches]
    assert [report.fraction for report in seen] == 3 * [k / 10 for k in batches]
    assert {report.loss for report in seen} == {9.0}


class Sent(MemoryRows):
    """Rows in memory that only take tasks which have been pickled, but for their kernels."""

    def fold(self, task: Any) -> Any:
        for sent in (getattr(task, "reduce", None), task.combine):
            pickle.loads(pickle.dumps(sent))
        return super().fold(task)


@pytest.mark.sampled
@every_fit
def test_what_rows_are_reduced_to_can_be_pickled(model: str, given: Mapping[str, Any]) -> None:
    few = {name: values[::97] for name, values in DATA.items()}
    objective = Objective.of(model, as_dataset(few), options(given))
    fit_objective(objective.with_rows(Sent(objective.table)), options(given))


def test_rows_are_ordered_across_chunks() -> None:
    def ordered(x: Any) -> bool:
        objective = Objective("y ~ a*x", {"x": x, "y": DATA["y"]})
        fit = fit_objective(objective.with_rows(Chunked(objective.table)), FitOptions())
        return goodness(fit)["durbin_watson"] is not None

    x = np.arange(float(ROWS))
    assert ordered(x)
    assert ordered(-x)
    assert not ordered(np.ones(ROWS))
    x[MAX_BLOCK_ROWS] = 0  # less than the last of the chunk before
    assert not ordered(x)


def test_checkpoints_know_the_data_whatever_chunks_they_come_in() -> None:
    from autodiff_cli.training.fitting.progress import fit_identity

    objective = Objective(CURVE, DATA)
    whole, parts = (
        fit_identity(each, "lm", FitOptions()) for each in (objective, objective.with_rows(Chunked(objective.table)))
    )
    assert whole == parts
    other = {**DATA, "y": DATA["y"].copy()}
    other["y"][-1] += 1e-12
    assert fit_identity(Objective(CURVE, other), "lm", FitOptions())["data"] != whole["data"]


def test_fits_know_what_was_left_out() -> None:
    fit = ad.fit("y ~ a*x", {"x": [1, 2, 3, 4], "y": [1, None, 3, 4]}, drop_missing=True, validation=0.34)
    assert "rows left out because a cell is missing: 1" in fit.notes


@each(
    "option, value",
    [
        ("family", "poisson"), ("scale", 2.0), ("huber_delta", 2.0), ("l1", 0.1), ("l2", 0.1), ("seed", 3),
        ("learning_rate", 0.02), ("lr_schedule", "cosine"), ("batch_size", 5), ("clip_norm", 2.0), ("tolerance", 1e-3),
        ("validation", 0.2), ("likelihood", True),
    ],
)  # fmt: skip
def test_a_fit_is_identified_by_the_options_that_decide_its_course(option: str, value: Any) -> None:
    plain, other = FitOptions().identity(), FitOptions(**{option: value}).identity()
    assert plain != other
    assert FitOptions(**{option: value}).identity() == other


@each("option, value", [("epochs", 7), ("backend", "numpy"), ("threads", 2), ("derive", {"h": "2*a"}), ("plot", True)])
def test_a_fit_may_go_on_with_other_options_of_its_report(option: str, value: Any) -> None:
    assert FitOptions().identity() == FitOptions(**{option: value}).identity()


@each("weights", [None, np.random.default_rng(1).integers(0, 3, 40).astype(float)])
@each("offset", [0.0, 1e9])
def test_moments_of_blocks_are_those_of_all_rows(weights: Any, offset: float) -> None:
    values = offset + np.random.default_rng(0).normal(size=(2, 40)) * [[1], [1e-3]]
    found = None
    for rows in (slice(0, 1), slice(1, 13), slice(13, 40)):
        part = spreads(values[:, rows].copy(), {} if weights is None else {WEIGHT: weights[rows]})
        found = part if found is None else join_spreads(found, part)
    assert found is not None
    used = np.ones(40) if weights is None else weights
    centred = values - offset  # exactly
    means = np.average(centred, axis=1, weights=used)
    np.testing.assert_allclose(found.means - offset, means, atol=1e-15 * (1 + offset))
    np.testing.assert_allclose(found.squares, np.sum(used * (centred - means[:, None]) ** 2, axis=1), rtol=1e-4)
    assert found.low.tolist() == values.min(axis=1).tolist()
    assert found.high.tolist() == values.max(axis=1).tolist()
    assert found.weight == used.sum()
    variances = found.squares / found.weight
    sizes = np.sqrt([*(found.means**2 + variances), *variances])
    np.testing.assert_allclose(found.typical_sizes, [1, *sizes, *(1 / sizes)])


def test_equal_values_have_no_spread() -> None:
    constant = spreads(np.full((1, 5), 0.1), {})
    with ignore_float_errors():
        assert (constant.squares.tolist(), constant.typical_sizes.tolist()) == ([0.0], [1.0, 0.1, 10.0])
    named = column_spreads(("b", "a"), {"a": np.array([1, 2]), "b": np.array([5, 7])})
    assert (named.means.tolist(), named.squares.tolist()) == ([6, 1.5], [2, 0.5])


@each("weights", [None, np.arange(7.0)])
@each("components", [1, 2])
def test_triangles_of_blocks_have_the_products_of_their_rows(weights: Any, components: int) -> None:
    generator = np.random.default_rng(components)
    matrix = generator.normal(size=(components, 3, 7))
    columns = {} if weights is None else {WEIGHT: weights}
    root = np.ones(7) if weights is None else np.sqrt(weights)
    weighted = matrix * root
    wanted = np.einsum("cir,cjr->ij", weighted, weighted)
    factor = residual_triangle(components, 3, matrix.reshape(-1, 7).copy(), columns)
    np.testing.assert_allclose(factor.T @ factor, wanted, atol=1e-12)
    joined = join_triangles(factor, factor)
    np.testing.assert_allclose(joined.T @ joined, 2 * wanted, atol=1e-12)
    slopes = score_triangle(matrix[0].copy(), columns)
    scores = matrix[0, 1:] * root**2
    np.testing.assert_allclose(slopes.T @ slopes, scores @ scores.T, atol=1e-12)


def test_confusions_are_counted() -> None:
    values = np.array([[0.0, 1, 1, 2, 2], [5, 0, 9, 0, 1], [1, 3, 0, 0, 2], [0, 1, 1, 4, 0]])
    assert count_confusions(3, values, {}).tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]


@each("is_mask", [True, False])
@each("rows, chunk", [(50, 16), (64, 16), (5, 16), (33, 8)])
def test_selected_rows_are_found_in_every_chunk(rows: int, chunk: int, is_mask: bool) -> None:
    generator = np.random.default_rng(rows)
    times = generator.integers(0, 3, rows).astype(np.uint8)
    chosen = times > 0 if is_mask else times
    found, wanted = RowSelection(chosen, chunk), np.repeat(np.arange(rows), chosen.astype(int))
    assert found.rows == len(wanted)
    parts = [found.chunk_rows(number) for number in range(-(-rows // chunk))]
    assert np.concatenate(parts).tolist() == wanted.tolist()
    positions = generator.permutation(len(wanted))[:9]
    assert found.row_numbers(positions).tolist() == wanted[positions].tolist()
    assert found.row_numbers(np.array([len(wanted) - 1, 0, 0])).tolist() == wanted[[-1, 0, 0]].tolist()


def test_rows_that_are_not_finite_are_counted_from_the_first_of_all() -> None:
    values = np.ones((2, 40))
    values[1, [23, 31]], values[0, 31] = np.inf, np.nan
    for ends in ([0, 10, 20, 40], [0, 5, 25, 40], [0, 10, 20, 32, 40]):
        parts = [find_non_finite(values[:, begin:end], {}) for begin, end in itertools.pairwise(ends)]
        assert functools.reduce(join_non_finite, parts) == find_non_finite(values, {}) == NonFiniteRows(40, 23, 2)
