"""Fits by group: as good as separate fits, also for unusual groups, and fast."""

from __future__ import annotations

import csv
import itertools
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.array_types import Array
from autodiff_cli.data.table import DataError
from autodiff_cli.options import OptionError
from autodiff_cli.render.fit import fit_document
from autodiff_cli.training.fitting import groups, minimization, optimization
from autodiff_cli.training.fitting.groups import FittedGroups
from autodiff_cli.training.objective.batch import Fits, GroupBatch
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from tests.each import amount, each
from tests.support import run_cli


def decays(sizes: list[int], noise: float = 0.02) -> dict[str, np.ndarray]:
    """Return rows of several groups in random order."""
    generator = np.random.default_rng(1)
    parts = []
    for group, size in enumerate(sizes):
        x = np.sort(generator.uniform(0, 3, size))
        a, b = generator.uniform(1, 5), generator.uniform(0.3, 2)
        y = a * np.exp(-b * x) + noise * generator.normal(size=size)
        parts.append(np.stack([x, y, np.full(size, group), generator.uniform(0.5, 2, size)]))
    rows = np.hstack(parts)[:, generator.permutation(sum(sizes))]
    return {"x": rows[0], "y": rows[1], "group": rows[2].astype(int), "w": rows[3]}


def alone(model: str, data: dict[str, np.ndarray], group: int, **options: object) -> FittedModel:
    chosen = data["group"] == group
    return ad.fit(model, {name: values[chosen] for name, values in data.items()}, **options)  # type: ignore[arg-type]


def alike(found: float | None, wanted: float | None, digits: float) -> bool:
    return found is wanted is None or (wanted is not None and found == pytest.approx(wanted, rel=digits))


def check_alike(found: FittedModel, wanted: FittedModel) -> None:
    assert [*found.parameters] == [*wanted.parameters]
    np.testing.assert_allclose([*found.parameters.values()], [*wanted.parameters.values()], rtol=1e-7)
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-6)
    np.testing.assert_allclose([*found.stderr.values()], [*wanted.stderr.values()], rtol=1e-6)
    names = ("loss", "rss", "dof", "r_squared", "aic", "aicc", "bic", "rmse", "reduced_chi_squared", "rows")
    for name in (*names, "adjusted_r_squared", "interval_dof"):
        assert alike(getattr(found, name), getattr(wanted, name), 1e-9), name
    assert found.residual_quantiles == pytest.approx(wanted.residual_quantiles, rel=1e-5, abs=1e-9)
    assert alike(found.durbin_watson, wanted.durbin_watson, 1e-6)
    assert (found.definition, found.converged) == (wanted.definition, True)
    assert found.confidence()["a"] == pytest.approx(wanted.confidence()["a"], rel=1e-7)


@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"sigma": "w", "absolute_sigma": True}])
def test_every_group_is_as_if_it_were_alone(options: dict[str, Any]) -> None:
    data = decays([20, 7, 33, 20, 12, 100])
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group", **options)
    for group in found:
        assert group.fit is not None
        wanted = alone("y ~ a*exp(-b*x)", data, int(group.by), **options)
        check_alike(group.fit, wanted)
        value = ad.parse(group.fit.formula)(x=0.5)
        assert value == pytest.approx(float(wanted.predict({"x": 0.5})), rel=1e-7)
        assert group.fit.predict({"x": [0.5], "w": [1.5]}, interval=0.9).prediction_low == pytest.approx(
            wanted.predict({"x": [0.5], "w": [1.5]}, interval=0.9).prediction_low, rel=1e-6
        )


def differences(found: Any, wanted: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two documents differ, apart from rounding errors of numbers, also of those in a formula."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in {*found, *wanted}:
            yield from differences(found.get(name, "missing"), wanted.get(name, "missing"), f"{place}.{name}")
    elif isinstance(found, list | tuple) and isinstance(wanted, list | tuple) and len(found) == len(wanted):
        for k, each_of_both in enumerate(zip(found, wanted, strict=True)):
            yield from differences(*each_of_both, f"{place}.{k}")
    elif isinstance(found, str) and isinstance(wanted, str):
        if re.sub(r"[\d.]+", "", found) != re.sub(r"[\d.]+", "", wanted):
            yield place, found, wanted
    elif found != (pytest.approx(wanted, rel=1e-6, abs=1e-9, nan_ok=True) if isinstance(wanted, float) else wanted):
        yield place, found, wanted


QUICK_REPORTS: list[tuple[str, dict[str, Any]]] = [
    ("jump ~ a + b*x", {"weights": "w"}),
    ("n ~ exp(a + b*x)", {"family": "poisson"}),
    ("y ~ a*exp(-b*x)", {"derive": {"half": "ln(2)/b"}}),
    ("y ~ a*exp(-b*x)", {}),
    ("jump ~ a + b*x", {"sigma": "w", "absolute_sigma": True}),
    ("n ~ exp(a + b*x)", {"family": "quasipoisson"}),
    ("k ~ sigmoid(a + b*x)", {"family": "binomial"}),
    ("y ~ a*exp(-b*x)", {"optimizer": "adam", "epochs": 20}),
    ("y ~ a*exp(-b*x)", {"validation": 0.3}),
    ("y ~ a*exp(-b*x)", {"bounds": {"b": (None, 0.8)}}),
    ("[y, jump] ~ [a*exp(-b*x), a + c*x]", {}),
]
REPORTS: list[tuple[str, dict[str, Any]]] = [
    ("jump ~ a*exp(-b*x)", {}),
    ("y ~ a*exp(-b*x)", {"loss": "huber"}),
    ("y ~ a*exp(-b*x)", {"loss": "mae"}),
    ("n ~ exp(a + b*x)", {"family": "negative_binomial"}),
    ("y ~ a*exp(-b*x)", {"l2": 0.1}),
    ("[y, jump] ~ [a*exp(-b*x), a + c*x]", {"l2": 0.1, "weights": "w"}),
    ("y ~ a*exp(-b*x)", {"priors": {"b": "normal(1, 0.2)"}}),
]


@pytest.mark.parametrize(
    ("model", "options"), [*QUICK_REPORTS, *(pytest.param(*case, marks=pytest.mark.slow) for case in REPORTS)], ids=str
)
def test_the_whole_report_of_a_group_is_that_of_its_rows_alone(model: str, options: dict[str, Any]) -> None:
    data = decays([20, 17, 33, 12, 40][: amount(4, 5, 5)])  # fewer groups are fitted one by one
    order = np.lexsort((data["x"], data["group"]))
    data = {name: values[order] for name, values in data.items()}
    data["n"], data["k"] = np.round(20 * np.abs(data["y"])), (np.sin(99 * data["y"]) > 0).astype(float)
    data["jump"] = data["y"] + 0.3 * (data["x"] > 1.5)
    for group in [*ad.fit_by(model, data, "group", **options)][: amount(2, 5, 5)]:
        assert group.fit is not None
        fits = group.fit, alone(model, data, int(group.by), **options)
        reports = [{**fit_document(fit), "history": fit.history[:3]} for fit in fits]
        for report, fit in zip(reports, fits, strict=True):  # rounding errors may decide whether there is one more step
            report["epochs"] -= fit.history[-1]["epoch"]
        assert [*differences(*reports)] == [], group.by


def test_groups_say_whether_their_terms_changed_places() -> None:
    x = np.linspace(0, 4, 40)
    curves = [5 * np.exp(-x) + size * np.exp(-7 * x) + 0.01 * np.cos(37 * x) for size in (1, 3, 9, 20)]
    data = {"x": np.tile(x, 4), "y": np.concatenate(curves), "group": np.repeat(np.arange(4), 40)}
    model = "y ~ a*exp(-b*x) + c*exp(-d*x)"
    notes = [group.fit.notes for group in ad.fit_by(model, data, "group") if group.fit]
    assert notes == [alone(model, data, k).notes for k in range(4)]
    assert any("interchangeable" in note for each in notes for note in each)


@each("sizes", [[3], [4, 4, 4, 4], [30, 1, 2, 30, 30, 5], [10, 11, 1], [1] * 25, [1, 1, 40]])
def test_parts_of_groups_have_few_rows_and_large_groups_are_alone(sizes: list[int]) -> None:
    objective = ad.Objective("y ~ a*x", {"x": [1.0, 2.0], "y": [1.0, 2.1]})
    batch = GroupBatch(objective, [np.zeros(size, np.intp) for size in sizes])
    for chosen in (None, np.arange(len(sizes))[::-1]):
        parts = [part.tolist() for part in batch.parts(chosen, most=10)]
        assert [*itertools.chain(*parts)] == (np.arange(len(sizes)) if chosen is None else chosen).tolist()
        for part in parts:
            assert len(part) == 1 or max(sizes[group] for group in part) <= 10
            assert sum(sizes[group] for group in part[1:]) < 10
        for first, second in itertools.pairwise(parts):  # no part is needlessly short
            assert sum(sizes[group] for group in (*first, *second)) > 10


def test_rows_in_order_have_the_figure_of_durbin_and_watson() -> None:
    data = decays([20, 7, 33, 20, 12, 100])
    order = np.lexsort((data["x"], data["group"]))
    data = {name: values[order] for name, values in data.items()}
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group")
    for group in found:
        assert group.fit is not None
        assert group.fit.durbin_watson is not None
        check_alike(group.fit, alone("y ~ a*exp(-b*x)", data, int(group.by)))


def test_signs_phases_and_several_targets_are_reported_as_alone() -> None:
    data = decays([20] * 6)
    data["v"] = data["y"] ** 2
    for model in ("[y, v] ~ [a*exp(-b*x), a^2*exp(-2*b*x)]", "y ~ a^2*exp(-b^2*x)", "y ~ a + b*x"):
        for group in ad.fit_by(model, data, "group"):
            assert group.fit is not None
            wanted = alone(model, data, int(group.by))
            np.testing.assert_allclose([*group.fit.parameters.values()], [*wanted.parameters.values()], rtol=1e-6)
            assert group.fit.loss == pytest.approx(wanted.loss, rel=1e-9)


# Curves whose default starts are bad: the model, the curve, and the ranges of its parameters.
FAR_FROM_DEFAULTS: dict[str, tuple[str, Callable[[Any, Any], Any], list[tuple[float, float]]]] = {
    "a peak": (
        "y ~ a*exp(-((x - m)/s)^2) + c",
        lambda x, p: p[0] * np.exp(-(((x - p[1]) / p[2]) ** 2)) + p[3],
        [(1, 6), (4, 9), (0.5, 1.5), (-1, 1)],
    ),
    "a wave of its own frequency": (
        "y ~ a*sin(f*x + p)", lambda x, p: p[0] * np.sin(p[1] * x + p[2]), [(1, 3), (3, 5), (0, 1)]
    ),
}  # fmt: skip


@pytest.fixture
def few_groups_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few groups be so many that their searches are quick, and that a sample decides for noisy ones."""
    settings = optimization.search.SETTINGS._replace(max_thorough_fits=2, max_sampled_fits=2)
    monkeypatch.setattr(optimization.search, "SETTINGS", settings)


@pytest.mark.usefixtures("few_groups_are_many")
@pytest.mark.parametrize("name", FAR_FROM_DEFAULTS)
def test_each_of_many_groups_is_fitted_as_well_as_from_the_true_parameters(name: str) -> None:
    model, curve, ranges = FAR_FROM_DEFAULTS[name]
    generator, x, count = np.random.default_rng(4), np.linspace(0, 10, 20), 7
    parameters = [[generator.uniform(*ends) for ends in ranges] for _ in range(count)]
    noise = 0.1 * generator.normal(size=(count, len(x)))
    y = np.array([curve(x, p) for p in parameters]) + noise
    data = {"x": np.tile(x, count), "y": y.ravel(), "group": np.repeat(np.arange(count), len(x))}
    for group, errors in zip(ad.fit_by(model, data, "group"), noise, strict=True):
        assert group.fit is not None
        assert group.fit.converged
        assert group.fit.rss < errors @ errors


@pytest.mark.slow
def test_groups_that_explain_much_at_a_wrong_minimum_are_fitted_again() -> None:
    generator = np.random.default_rng(4)
    x, group = np.tile(np.linspace(0, 10, 40), 4), np.repeat(np.arange(4), 40)
    low, high, first, second = generator.uniform([[2], [5], [1], [1]], [[4], [8], [6], [6]], (4, 4))[:, group]
    y = first * np.exp(-(((x - low) / 0.8) ** 2)) + second * np.exp(-(((x - high) / 0.8) ** 2)) + 20 - 1.5 * x
    data = {"x": x, "y": y + generator.normal(0, 0.1, len(x)), "g": group}
    for found in ad.fit_by("y ~ a*exp(-((x - p)/u)^2) + b*exp(-((x - q)/u)^2) + c + d*x", data, by="g"):
        assert found.fit is not None
        assert found.fit.rss < 40 * 0.1**2 * 1.3


@pytest.mark.slow
@pytest.mark.usefixtures("few_groups_are_many")
def test_a_bend_of_each_of_many_groups_is_found_as_alone() -> None:
    x, place = np.tile(np.linspace(0, 10, 12), 6), np.repeat(np.linspace(2, 8, 6), 12)
    y = 1 - x * np.cos(3 * place) + 3 * np.maximum(x - place, 0) + 0.5 * np.cos(7 * np.arange(len(x)))
    data = {"x": x, "y": y, "group": np.repeat(np.arange(6), 12)}
    for group in ad.fit_by("y ~ a + b*x + c*relu(x - k)", data, "group"):
        assert group.fit is not None
        assert group.fit.rss == pytest.approx(alone("y ~ a + b*x + c*relu(x - k)", data, int(group.by)).rss, rel=1e-6)


def test_an_exponent_of_the_other_sign_is_found_as_alone() -> None:
    """The first group ends at another minimum otherwise, which explains nearly as much."""
    generator, x, count = np.random.default_rng(4), np.linspace(0.05, 10, 40), 4
    parts = []
    for _ in range(count):
        a, b, c, k = (generator.uniform(low, high) for low, high in ((1, 5), (1, 5), (-0.3, 0.8), (0.5, 3.5)))
        y = a - b * np.exp(-((x / 10**c) ** k))
        parts.append(y + 0.02 * np.std(y) * generator.normal(size=40))
    data = {"x": np.tile(x, count), "y": np.concatenate(parts), "group": np.repeat(np.arange(count), 40)}
    for group in ad.fit_by("y ~ a - b*exp(-(x/c)^k)", data, "group"):
        assert group.fit is not None
        assert group.fit.rss == pytest.approx(alone("y ~ a - b*exp(-(x/c)^k)", data, int(group.by)).rss, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", [None, "poisson"])
def test_groups_are_searched_and_described_as_fits_alone(family: str | None) -> None:
    """Peaks that the default start misses end where fits alone do, and the notes on starting values are theirs."""
    generator, x, count = np.random.default_rng(5), np.linspace(0, 100, 40), 4
    places = np.repeat(np.linspace(25, 75, count), 40)
    mean = 2 + 9 * np.exp(-(((np.tile(x, count) - places) / 9) ** 2))
    data = {"x": np.tile(x, count), "y": generator.poisson(mean) * 1.0, "group": np.repeat(np.arange(count), 40)}
    model = "y ~ b + a*exp(-((x - m)/s)^2)"
    for group in [*ad.fit_by(model, data, "group", family=family)][:1]:
        assert group.fit is not None
        wanted = alone(model, data, int(group.by), family=family)
        assert group.fit.loss == pytest.approx(wanted.loss, rel=1e-9)
        assert group.fit.notes == wanted.notes
        assert any("starting values" in note for note in wanted.notes)


def test_a_group_that_fails_does_not_stop_the_others() -> None:
    data = decays([20, 1, 2, 20, 20, 20])
    bad = data["group"] == 3
    data["x"] = np.where(bad, -data["x"] - 5, data["x"])
    found = ad.fit_by("y ~ a*log(x + 4) + b", data, "group")
    assert len(found) == 6
    assert found.groups[3].failure
    assert "log(x + 4)" in found.groups[3].failure
    for which in (0, 4, 5):
        fit = found.groups[which].fit
        assert fit is not None
        assert fit.converged
    single = found.groups[1].fit
    assert single is not None
    assert set(single.stderr.values()) == {None}
    undetermined = ad.fit_by("y ~ a*b*exp(-x)", data, "group").groups[0].fit
    assert undetermined is not None
    assert any("combination" in warning for warning in undetermined.warnings)


@each("options", [{}, {"loss": "huber"}, {"epochs": 5}, {"priors": {"a": "normal(0, 9)"}}])
@each("groups", [2, 6])  # of which more are fitted in a batch
def test_a_group_without_weight_fails_as_it_does_alone(options: dict[str, Any], groups: int) -> None:
    x = np.tile(np.arange(8.0), groups)
    data = {"x": x, "y": 1 + x + np.sin(9 * np.arange(len(x))), "g": np.repeat(np.arange(groups), 8)}
    weights = np.where(data["g"] == 1, 0.0, 1.0)
    found = ad.fit_by("y ~ a + b*x", data, "g", weights=weights, **options)
    assert [group.failure for group in found] == ["", "weights: all weights are 0", *[""] * (groups - 2)]


@pytest.mark.slow
def test_other_losses_and_options_are_for_each_group() -> None:
    data = decays([20, 15, 30, 20, 20])
    different: tuple[dict[str, Any], ...] = (
        {"loss": "huber"},
        {"bounds": {"b": (None, 0.5)}},
        {"fixed": {"b": 1.0}},
        {"fixed": {"b": "a/3"}},
        {"derive": {"h": "ln(2)/b"}},
    )
    for options in different:
        found: FittedGroups = ad.fit_by("y ~ a*exp(-b*x)", data, "group", **options)
        wanted = alone("y ~ a*exp(-b*x)", data, 2, **options)
        fit = found[2]
        np.testing.assert_allclose([*fit.parameters.values()], [*wanted.parameters.values()], rtol=1e-6)
        assert fit.fixed == wanted.fixed
        assert fit.derived.keys() == wanted.derived.keys()


def test_missing_cells_and_columns() -> None:
    data = decays([20, 20, 20, 20])
    data["y"][5] = np.nan
    with pytest.raises(DataError, match="column `y`"):
        ad.fit_by("y ~ a*exp(-b*x)", data, "group")
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group", drop_missing=True)
    assert (found.rows, found.notes) == (79, ("rows of all groups left out because a cell is missing: 1",))
    with pytest.raises(DataError, match="did you mean `group`"):
        ad.fit_by("y ~ a*exp(-b*x)", data, "groups")
    with pytest.raises(OptionError, match="every parameter is fixed"):
        ad.fit_by("y ~ a*x", decays([5, 5]), "group", fixed={"a": 1})


def test_a_report_has_the_groups_that_fail_and_the_rows_that_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text("x,y,g\n1,2,A\n2,3.5,A\n3,5,A\n-1,2,B\n-2,2,B\n,3,A\n,,B\n")
    line = ["train", "y ~ a*log(x)", str(file), "--by", "g", "--drop-missing"]
    text, document = run_cli(line), run_cli([*line, "--json"]).json
    alone = np.log([1, 2, 3]) @ [2, 3.5, 5] / np.sum(np.log([1, 2, 3]) ** 2)
    first, second = document["groups"]
    assert (document["rows"], first["by"], second["by"]) == (5, "A", "B")
    assert (first["rows"], first["parameters"]["a"]) == (3, pytest.approx(alone))
    assert (first["converged"], second["converged"]) == (True, False)
    assert first["notes"] == second["notes"] == ["rows of all groups left out because a cell is missing: 2"]
    assert any("`log(x)` is nan in row 4" in warning for warning in second["warnings"])
    assert "2 groups, 5 rows" in text
    assert "converged: 1 of 2" in text
    assert "rows of all groups left out because a cell is missing: 2" in text
    assert "  B: the loss is nan at the start: `log(x)` is nan in row 4 (y = 2, x = -1) and 1 more" in text
    assert text.stderr.startswith("1 of 2 groups failed; the first is B: the loss is nan")


@pytest.mark.slow
def test_many_groups_take_their_steps_together() -> None:
    data = decays([20] * 2000)
    before = time.process_time()
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group")
    taken = time.process_time() - before
    assert all(group.fit is not None and group.fit.converged for group in found)
    assert taken < 2.5  # seconds: typically 0.3, and 5 for separate fits


def test_the_command_line_fits_many_groups_in_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.column_stack([decays([20] * 5)[name] for name in ("x", "y", "group")])
    np.savetxt(tmp_path / "d.csv", rows, delimiter=",", header="x,y,group", comments="")
    monkeypatch.setattr(groups.single_fit, "fit_objective", lambda *_: pytest.fail("a group was fitted by itself"))
    output = run_cli(["train", "y ~ a*exp(-b*x)", str(tmp_path / "d.csv"), "--by", "group", "--json"])
    assert all(group["converged"] for group in output.json["groups"])


def test_from_python_groups_have_summaries_and_labels_of_any_kind() -> None:
    data = {"x": [1, 2, 3, 1, 2, 3], "y": [2, 4, 6, 5, 10, 15.3], "t": [0.5, 0.5, 0.5, 20, 20, 20]}
    found = ad.fit_by("y ~ a*x", data, "t")
    assert [group.by for group in found] == [0.5, 20.0]
    assert found[20].parameters["a"] == pytest.approx(5.0643, rel=1e-4)
    assert "a" in found[20].summary()
    with pytest.raises(KeyError):
        found[1]
    with pytest.raises(DataError, match="no label"):
        ad.fit_by("y ~ a*x", {**data, "t": [None, "u", "u", "v", "v", "v"]}, "t")


@pytest.mark.slow
@pytest.mark.parametrize("as_text", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_rows_of_groups_stay_where_they_are(as_text: bool) -> None:
    rows, count = 1_200_000, 300
    generator = np.random.default_rng(1)
    group, x = generator.integers(0, count, rows), generator.uniform(1, 2, rows)
    y = group * x + generator.normal(size=rows)
    names = np.array([f"g{k:03d}" for k in range(count)], dtype=object)
    columns = {"x": x, "y": y, "group": names[group] if as_text else group}
    ad.fit_by("y ~ a*x", {name: column[:20_000] for name, column in columns.items()}, "group")
    tracemalloc.start()
    try:
        found = ad.fit_by("y ~ a*x", columns, "group")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == count
    assert found["g007" if as_text else 7].parameters["a"] == pytest.approx(7, abs=0.1)
    assert peak < 60_000_000  # the columns have 29 million bytes; copies of every group would take ten times that


def copy_at_most(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups with more rows than this large ones."""
    for module in ("rows", "objective.batch", "fitting.groups"):
        monkeypatch.setattr(f"autodiff_cli.training.{module}.MAX_COPIED_ROWS", rows)


STREAMED: dict[str, dict[str, Any]] = {
    "least squares": {},
    "weights": {"weights": "w"},
    "robust": {"loss": "huber"},
    "profile": {"profile": True},
    "bootstrap": {"bootstrap": 20},
    "starts": {"starts": 3},
    "mini-batches": {"optimizer": "adam", "epochs": 3, "batch_size": 8},
    "rows held out": {"validation": 0.2},
}


COPIED = (30, 100, None)  # small groups in parts, and a large one; all in one part


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "copied"), [*itertools.product(STREAMED, COPIED)])
def test_groups_of_streamed_rows_have_the_same_bits(
    name: str, copied: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, data = STREAMED[name], decays([25, 22, 60, 28, 23, 26])
    path = str(tmp_path / "d.csv")
    labels = (data["group"] / 4).tolist()  # not whole
    Path(path).write_text(
        "x,y,w,group\n"
        + "".join(
            f"{x!r},{y!r},{w!r},{label}\n"
            for x, y, w, label in zip(*(data[n].tolist() for n in "xyw"), labels, strict=True)
        )
    )
    if copied is not None:
        copy_at_most(copied, monkeypatch)
    here = ad.fit_by("y ~ a*exp(-b*x)", path, "group", **options)
    assert [group.by for group in here] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert repr(ad.fit_by("y ~ a*exp(-b*x)", path, "group", stream=True, **options)) == repr(here)


def test_a_large_group_is_fitted_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    data = decays([40, 30, 500])
    wanted = ad.fit_by("y ~ a*exp(-b*x)", data, "group")
    copy_at_most(100, monkeypatch)
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group")
    for one, other in zip(found, wanted, strict=True):
        assert one.fit is not None
        assert other.fit is not None
        assert one.fit.parameters == pytest.approx(other.fit.parameters, rel=1e-9)


@each(("model", "options"), [
    ("y ~ a*exp(-b*x)", {"optimizer": "adam", "tolerance": 0.1}),
    ("[y, x] ~ [a + b*x, b*x^2]", {"optimizer": "lbfgs"}),
    ("[y, x] ~ [a + b*x, b*x^2]", {"sigma": "[w, 2*w]"}),
    ("k ~ softmax([0, a + b*x])", {}),
    ("y ~ v @ [1, x]", {}),
    ("n ~ exp(a + b*x)", {"family": "negative_binomial"}),
    ("y ~ a + b*x", {"bounds": {"b": ("a", None)}}),
    ("-log(u*normal_pdf(y, 0, 1) + v*normal_pdf(y, 1, 0.3) + (1 - u - v)*normal_pdf(y, 2, 1))", {"likelihood": True}),
    ("y ~ a*exp(-b*x)", {"sigma": "w", "x_sigma": {"x": 0.1}}),
    ("y ~ a*exp(-b*x)", {"starts": 2}),
    ("y ~ a*exp(-b*x)", {"validation": 0.3}),
    ("y ~ a*exp(-b*x)", {"diagnosis": True}),
], quick=lambda model, options: options.keys().isdisjoint({"tolerance", "likelihood"}))  # fmt: skip
def test_groups_that_no_batch_takes_are_fitted_as_alone(model: str, options: dict[str, Any]) -> None:
    data = decays([20, 17, 33, 12])
    counts = np.round(9 * np.abs(data["y"])) * (np.arange(len(data["y"])) % 4)  # with more scatter than Poisson counts
    data |= {"n": counts, "k": (np.sin(99 * data["y"]) > 0).astype(float)}
    for group in [*ad.fit_by(model, data, "group", **options)][1:3]:
        assert group.fit is not None
        wanted = alone(model, data, int(group.by), **options)
        for found, exact in ((group.fit.parameters, wanted.parameters), (group.fit.stderr, wanted.stderr)):
            np.testing.assert_array_equal([*found.values()], [*exact.values()])
        for name in ("loss", "epochs", "notes", "validation_loss", "diagnosis"):
            assert getattr(group.fit, name) == getattr(wanted, name), name


QUICK_OPTIONS: list[dict[str, Any]] = [
    {"family": "poisson", "weights": "w"},
    {"weights": "w", "priors": {"b": "gamma(2, 2)"}},
    {"family": "gaussian"},
    {"bounds": {"b": (0.5, 1.0)}},
    {"derive": ["half = ln(2)/b"]},
    {"bootstrap": 50, "seed": 3},
    {"tolerance": 1e-12},
    {"epochs": 2, "plot": True},
]
COSTLY_OPTIONS: list[dict[str, Any]] = [
    {"family": "poisson"},
    {"family": "gamma"},
    {"loss": "huber"},
    {"loss": "cauchy", "weights": "w"},
    {"loss": "soft_l1", "scale": 0.1},
    {"loss": "mae"},
    {"l2": 0.01},
    {"l1": 0.01},
    {"family": "poisson", "priors": {"b": "normal(0.8, 0.1)"}},
    {"loss": "huber", "l2": 0.01},
    {"family": "poisson", "bounds": {"b": (0.5, 1.0)}},
    {"profile": True},
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options", [*QUICK_OPTIONS, *(pytest.param(options, marks=pytest.mark.slow) for options in COSTLY_OPTIONS)], ids=str
)
def test_options_mean_in_groups_what_they_mean_alone(options: dict[str, Any]) -> None:
    data = decays([20, 17, 33, 12])
    data["y"] = np.round(20 * np.abs(data["y"])) + 1.0
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group", **options)
    for group in [*found][:2]:
        assert group.fit is not None
        wanted = alone("y ~ a*exp(-b*x)", data, int(group.by), **options)
        np.testing.assert_allclose([*group.fit.parameters.values()], [*wanted.parameters.values()], rtol=1e-5)
        assert [*group.fit.stderr] == [*wanted.stderr]
        for name, error in wanted.stderr.items():
            assert alike(group.fit.stderr[name], error, 1e-4), name
        for name in (
            "loss",
            "rss",
            "dof",
            "r_squared",
            "aic",
            "bic",
            "deviance",
            "null_deviance",
            "dispersion",
            "scale",
        ):
            assert alike(getattr(group.fit, name), getattr(wanted, name), 1e-5), name
        assert group.fit.converged == wanted.converged
        if wanted.plot is not None:
            assert group.fit.plot is not None
            np.testing.assert_allclose(group.fit.plot.curves[0].y, wanted.plot.curves[0].y, rtol=1e-5)
        assert (group.fit.definition, group.fit.converged) == (wanted.definition, wanted.converged)
        assert (group.fit.interval_dof, group.fit.loss_name) == (wanted.interval_dof, wanted.loss_name)
        assert [*group.fit.intervals] == [*wanted.intervals]
        for kind, intervals in wanted.intervals.items():
            for name, interval in intervals.items():
                np.testing.assert_allclose(group.fit.intervals[kind][name], interval, rtol=1e-4)
        assert group.fit.warnings == wanted.warnings


_METHODS = (
    {},
    {"optimizer": "lbfgs"},
    {"loss": "huber"},
    {"loss": "cauchy"},
    {"loss": "mae"},
    {"l1": 0.02},
    {"l2": 0.02},
)


QUICK_VERDICTS: list[tuple[str, str, dict[str, Any]]] = [
    ("y ~ a*exp(-b*x)", "decay", {}),
    ("y ~ a*exp(-b*x)", "decay", {"optimizer": "lbfgs"}),
    ("y ~ a + b*x", "decay", {}),
    ("y ~ a + b*x", "decay", {"optimizer": "lbfgs"}),  # which finds the only minimum of a straight line at once
    ("y ~ a*x^b", "flat", {}),
    ("y ~ sigmoid(a + b*x)", "step", {"family": "binomial"}),  # classes that the model separates
    ("(y - a - b*x)^2/(2*s^2) + log(s)", "decay", {"likelihood": True}),
    ("max(0.7*(y - a - b*x), -0.3*(y - a - b*x))", "decay", {}),  # ends at a kink
    ("a*x", "decay", {}),  # no minimum
]
COSTLY_VERDICTS: list[tuple[str, str, dict[str, Any]]] = [
    *(("y ~ a*exp(-b*x)", "decay", options) for options in _METHODS[2:4]),
    *(("y ~ a + b*x", "decay", options) for options in _METHODS[2:]),
    *(("y ~ a*exp(-b*x)", "counts", {"family": name}) for name in ("poisson", "gamma", "quasipoisson")),
    ("y ~ a*sin(w*x)+c", "few", {}),  # so few rows do not determine the frequency
    ("y ~ a*sin(w*x)+c", "few", {"loss": "huber"}),
    ("y*b - log(b)", "zero", {"likelihood": True}),  # no limit to b where all y are 0
    ("exp(a) - y*a", "zero", {"likelihood": True}),
]
SLOWEST_VERDICTS: list[tuple[str, str, dict[str, Any]]] = [  # searches, which read a file again and again
    *(("y ~ a*exp(-b*x)", "decay", options) for options in _METHODS[4:]),
    ("y ~ a*b*x", "decay", {}),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "kind", "options"),
    [
        *QUICK_VERDICTS,
        *(pytest.param(*verdict, marks=pytest.mark.slow) for verdict in COSTLY_VERDICTS),
        *(pytest.param(*verdict, marks=pytest.mark.exhaustive) for verdict in SLOWEST_VERDICTS),
    ],
)
def test_a_verdict_is_the_same_alone_in_groups_and_streamed(
    tmp_path: Path, model: str, kind: str, options: dict[str, Any]
) -> None:
    """Whether a fit converged, why not, and every warning: for all losses and methods, also where fits end badly."""
    generator, groups = np.random.default_rng(3), 4
    x = np.tile(np.linspace(0.1, 3, 5 if kind == "few" else 24), groups)
    group = np.repeat(np.arange(groups), len(x) // groups)
    noise = generator.normal(size=len(x))
    y = {
        "decay": (2 + group) * np.exp(-x) + 0.02 * noise,
        "counts": generator.poisson(20 * np.exp(-x / 2)) + 1.0,
        "flat": np.full(len(x), 1.5),
        "few": np.sin((3 + group) * x) + 0.1 * noise,
        "step": (x > 1.5 + 0.2 * group) * 1.0,
        "zero": (group == 1) * generator.poisson(2.0, len(x)) * 1.0,
    }[kind]
    found = ad.fit_by(model, {"x": x, "y": y, "group": group}, "group", **options)
    for number in (0, 1):
        chosen = group == number
        path = tmp_path / f"{number}.csv"
        rows = np.column_stack((x[chosen], y[chosen]))
        np.savetxt(path, rows, delimiter=",", header="x,y", comments="", fmt="%.17g")
        single = ad.fit(model, {"x": x[chosen], "y": y[chosen]}, **options)
        for other in (found[number], ad.fit(model, str(path), stream=True, **options)):
            assert (other.converged, other.failure, other.warnings) == (
                single.converged,
                single.failure,
                single.warnings,
            )


@each(
    "options",
    [
        {"profile": True, "loss": "huber"},
        {"profile": True, "loss": "mae"},
        {"profile": True, "l2": 0.1},
        {"posterior": 10, "loss": "mae"},
        {"fixed": {"a": 1.0, "b": 1.0}},
        {"optimizer": "lm", "loss": "mae"},
    ],
)
def test_what_is_refused_alone_is_refused_for_groups(options: dict[str, Any]) -> None:
    data = decays([20, 17, 33, 20, 12])
    with pytest.raises(OptionError) as expected:
        alone("y ~ a*exp(-b*x)", data, 0, **options)
    with pytest.raises(OptionError, match=re.escape(str(expected.value))):
        ad.fit_by("y ~ a*exp(-b*x)", data, "group", **options)


def test_a_fit_does_not_depend_on_the_other_groups_of_its_batch() -> None:
    data = decays([20, 17, 33, 20, 12, 40, 9, 25])
    part = {name: values[data["group"] < 5] for name, values in data.items()}
    every, some = (ad.fit_by("y ~ a*exp(-b*x)", columns, "group") for columns in (data, part))
    for group in some:
        assert group.fit is not None
        assert every[group.by].parameters == group.fit.parameters


@pytest.mark.parametrize(
    ("model", "options", "is_tested"),
    [
        ("y ~ a + b*x", {}, True),
        ("y ~ a + b*x", {"weights": "w"}, True),
        ("y ~ a*x + b*w", {}, False),
        ("n ~ exp(a + b*x)", {"family": "poisson"}, True),
    ],
)
def test_a_model_with_a_constant_is_tested_in_groups_as_alone(
    model: str, options: dict[str, Any], is_tested: bool
) -> None:
    data = decays([20, 17, 33, 20, 12])
    data["n"] = np.round(20 * np.abs(data["y"]))
    for group in ad.fit_by(model, data, "group", **options):
        assert group.fit is not None
        wanted = alone(model, data, int(group.by), **options)
        assert (wanted.null_test is not None) == is_tested
        assert group.fit.warnings == wanted.warnings
        if wanted.null_test is None:
            assert group.fit.null_test is None
            continue
        assert group.fit.null_test[:1] == wanted.null_test[:1]
        np.testing.assert_allclose(np.hstack(group.fit.null_test[1:]), np.hstack(wanted.null_test[1:]), rtol=1e-6)


def test_several_weighted_targets_have_the_figures_of_single_fits() -> None:
    generator = np.random.default_rng(1)
    data: dict[str, Any] = {"g": ["u"] * 12 + ["v"] * 12, "x": np.tile(np.linspace(0, 1, 12), 2)}
    data |= {name: generator.normal(size=24) for name in "yz"} | {"w": generator.uniform(0.5, 3, 24)}
    model = "[y, z] ~ [a*x + b, c*x]"
    for group, rows in zip(ad.fit_by(model, data, "g", weights="w"), (slice(12), slice(12, 24)), strict=True):
        single = ad.fit(model, {name: values[rows] for name, values in data.items() if name != "g"}, weights="w")
        assert group.fit is not None
        for name in ("log_likelihood", "aic", "rmse", "r_squared", "residual_quantiles"):
            assert getattr(group.fit, name) == pytest.approx(getattr(single, name), rel=1e-9), name


@pytest.mark.slow
def test_groups_with_much_noise_end_at_good_minima() -> None:
    """With noise as large as a peak, most fits explain little, and a fit alone finds better minima than the first."""
    generator, count, rows = np.random.default_rng(11), 12, 25
    x, y = np.empty((2, count, rows))
    for k in range(count):
        x[k] = np.sort(generator.uniform(0, 5, rows))
        y[k] = generator.uniform(1, 3) * np.exp(-(((x[k] - generator.uniform(1, 4)) / 0.5) ** 2))
        y[k] += y[k].std() * generator.normal(size=rows)
    columns = {"x": x.ravel(), "y": y.ravel(), "group": np.repeat(np.arange(count), rows)}
    model = "y ~ a*exp(-((x - m)/s)^2) + c"
    found = ad.fit_by(model, columns, "group")
    singles = [ad.fit(model, {"x": x[k], "y": y[k]}) for k in range(0, count, 3)]
    worse = [k for k, single in enumerate(singles) if found[3 * k].loss > single.loss * (1 + 1e-6)]
    assert not worse


@each("method", ["lm", "lbfgs"])
def test_parameters_that_converge_to_0_are_0_in_each_group(method: str) -> None:
    x, group = np.tile(np.linspace(1, 3, 6), 6), np.repeat(np.arange(6), 6)
    y = np.where(group % 2, 1 + 4 * x, 5 - 2 * x) + 0.1 * np.random.default_rng(0).normal(size=36)
    batch = GroupBatch(ad.Objective("y ~ b + a^2*x", {"x": x, "y": y}), np.arange(36).reshape(6, 6))
    ends = minimization.minimize_batch(method, batch, np.ones((6, 2)))
    assert all(end.converged for end in ends)
    assert [bool(end.theta[1] == 0) for end in ends] == [True, False] * 3


def test_robust_fits_of_groups_refine_each_minimum_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated, evaluate = [], GroupBatch.values_and_gradients

    def count(batch: GroupBatch, theta: Array, fits: Fits) -> tuple[Array, Array]:
        evaluated.append(len(fits))
        return evaluate(batch, theta, fits)

    monkeypatch.setattr(GroupBatch, "values_and_gradients", count)
    data = decays([20] * 5)
    data["y"] = data["y"] + 3.0 * (np.random.default_rng(1).random(100) < 0.05)
    found = ad.fit_by("y ~ a*exp(-b*x)", data, "group", loss="huber")
    assert all(group.fit is not None and group.fit.converged for group in found)
    assert sum(evaluated) < 550 * len(found)  # of 20 starting points each; 687 if all were refined to the end


def test_a_penalty_is_the_same_in_groups_and_alone() -> None:
    data = decays([12, 9])
    for options in ({"l2": 0.05}, {"l1": 0.05}, {"l2": 0.05, "loss": "huber"}, {"priors": {"a": "normal(1, 0.5)"}}):
        for group in ad.fit_by("y ~ a + b*x", data, "group", **options):
            assert group.fit is not None
            wanted = alone("y ~ a + b*x", data, int(group.by), **options)
            assert group.fit.parameters == pytest.approx(wanted.parameters, rel=1e-6)
            for name, error in wanted.stderr.items():
                assert alike(group.fit.stderr[name], error, 1e-5), options
            assert group.fit.rss == pytest.approx(wanted.rss, rel=1e-6)


def test_one_group_that_can_be_fitted_among_others_is_shown_with_its_figures(tmp_path: Path) -> None:
    rows, path = ["0,1,u,1", "1,3,u,1", "2,5.5,u,1", "3,7,u,1"], tmp_path / "rows.csv"
    path.write_text("\n".join(["x,y,g,w", "0,1,t,0", "1,2,t,0", *rows]))
    line = ["train", "y ~ a*x + b", str(path), "--by", "g", "--weights", "w", "--derive", "sum = a + b"]
    found = ad.fit_by("y ~ a*x + b", str(path), "g", weights="w", derive="sum = a + b")
    assert [group.failure for group in found] == ["weights: all weights are 0", ""]
    text = str(run_cli(line))
    assert "converged: 1 of 2" in text
    assert "t: weights: all weights are 0" in text
    assert re.search(r"g +rows +a .* b .* sum", text)
    run_cli([*line, "-o", str(tmp_path / "table.csv")])
    with (tmp_path / "table.csv").open(newline="") as stream:
        row = [*csv.DictReader(stream)][1]
    ends = run_cli([*line, "--json"]).json["groups"][1]["confidence"]
    assert (ends.pop("level"), {*ends}) == (0.95, {"a", "b", "sum"})
    assert {name: [float(row[f"{name}_low"]), float(row[f"{name}_high"])] for name in ends} == ends


def test_a_batch_of_groups_without_penalty_has_the_losses_of_each() -> None:
    data = decays([5, 8, 6])
    rows = [np.flatnonzero(data["group"] == group) for group in range(3)]
    theta, every = np.array([[1.0, 0.5], [2.0, 1.5], [3.0, 1.0]]), np.arange(3)
    model = "y ~ a*exp(-b*x)"
    plain = GroupBatch(ad.Objective(model, data), rows).losses(theta, every)
    for options in ({"l2": 0.3}, {"l1": 0.3}, {"priors": {"a": "normal(1, 0.1)", "b": "exponential(9)"}}):
        batch = GroupBatch(Objective.of(model, as_dataset(data), FitOptions(**options)), rows)
        losses = batch.losses(theta, every)
        np.testing.assert_allclose(losses, [batch.objective_of(fit).value(theta[fit]) for fit in every])
        assert (losses > plain).all()
        np.testing.assert_array_equal(batch.without_penalty().losses(theta, every), plain)
