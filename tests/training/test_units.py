"""Reports of fits do not depend on units: with columns in other units, each number is the same or has another unit.

Units are powers of two, so floats have the same digits in all of them, and what differs is a mistake in a dimension: an
absolute tolerance, a missing factor, or a figure that should have no unit.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodiff_cli import fit
from autodiff_cli.training.fitting.limits import find_unlimited
from autodiff_cli.training.fitting.minimization import minimize_batch
from autodiff_cli.training.objective.batch import repeat_objective
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.statistics import compute_statistics
from tests.each import each
from tests.support import run_cli

OF_X, OF_Y = 2.0**-20, 2.0**14
DECAY = '"y ~ a*exp(-b*x) + c" --a {a} --b {b} --c {c}'
FITS = [
    DECAY,
    f"{DECAY} --sigma s",
    f"{DECAY} --sigma s --absolute-sigma --x-sigma x=e",
    f"{DECAY} --weights w --confidence 0.8",
    f'{DECAY} --profile --derive "half=ln(2)/b" --derive "r=a/c"',
    f"{DECAY} --bootstrap 20",
    f"{DECAY} --bootstrap 12 --bootstrap-method bca",
    f"{DECAY} --optimizer lbfgs",
    f"{DECAY} --loss huber",
    f"{DECAY} --by g",
    f"{DECAY} --bounds 'b=0:{{b}}'",
    '"y ~ a*exp(-b*x) + c" --a {a} --b {b} --fix c={c}',
    '"y ~ a[g]*exp(-b*x)" --b {b}',
    '"[y, z] ~ [a*exp(-b*x) + c, d - f*x]" --a {a} --b {b} --c {c}',
    '"y ~ a*exp(-b*x) + u[g]" --a {a} --b {b} --laplace u --prior "u[g] ~ normal(m, q)"',
]
COUNTS = [
    '"k ~ exp(a - b*x)" --a 1 --b {b} --family poisson --profile',
    '"k ~ exp(a - b*x)" --a 1 --b {b} --family quasipoisson',
    '"k ~ exp(a - b*x)" --a 1 --b {b} --family negative_binomial',
    '"p ~ sigmoid(a - b*x)" --a 1 --b {b} --family binomial',
    '"k ~ exp(a - b*x)" --a 1 --b {b} --family poisson --by g',
]
LOGARITHMS = {"log_likelihood", "aic", "aicc", "bic"}  # of densities per unit of the target
RATIOS = {"odds_ratios", "rate_ratios"}  # exponentials of a coefficient, which is per unit of the predictor


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[float, float], Path]:
    """One table in three pairs of units of x and y."""
    generator, rows = np.random.default_rng(3), 36
    x, group = np.linspace(0.1, 4, rows), np.arange(rows) % 4
    y = 2 * np.exp(-1.1 * x) + 0.4 + 0.05 * generator.normal(size=rows) + 0.1 * generator.normal(size=4)[group]
    z, k = 3 - y + 0.1 * generator.normal(size=rows), generator.poisson(np.exp(1.5 - 0.3 * x))
    p = generator.random(rows) < 1 / (1 + np.exp(x - 2))
    paths = {}
    for units in ((1.0, 1.0), (OF_X, 1.0), (1.0, OF_Y)):
        of_x, of_y = units
        columns = [x * of_x, y * of_y, z * of_y, 0.05 * (1 + x / 4) * of_y, 0.03 * of_x * np.ones(rows), 1 + (x > 2)]
        table = zip(*(column.tolist() for column in (*columns, k, p.astype(int))), strict=True)
        lines = [f"{','.join(map(repr, row))},g{label}\n" for row, label in zip(table, group, strict=True)]
        paths[units] = tmp_path_factory.mktemp("units") / "data.csv"
        paths[units].write_text("".join(["x,y,z,s,e,w,k,p,g\n", *lines]))
    return paths


def figures(document: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the numbers and texts of a document, each with its place. Where the last steps end is left out, since the
    loss of every step is rounded.
    """
    if isinstance(document, dict):
        for name, value in document.items():
            if name not in ("history", "epochs", "data"):
                yield from figures(value, (*place, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from figures(value, (*place, str(number)))
    else:
        yield place, document


def are_equal_in_some_unit(a: Any, b: Any) -> bool:
    """Whether numbers differ by a power of two only, and texts by their numbers."""
    if isinstance(a, str) and isinstance(b, str):
        return re.sub(r"[\d.e+-]+", "", a) == re.sub(r"[\d.e+-]+", "", b)
    if isinstance(a, bool | None) or isinstance(b, bool | str | None):
        return bool(a == b)
    if abs(a - b) <= 1e-6 * abs(a) + 1e-12:
        return True
    share = math.frexp(b / a)[0] if a else 0.0
    return min(abs(share - 0.5), abs(share - 1)) < 1e-6


def check(words: str, tables: dict[tuple[float, float], Path], of_x: float, of_y: float) -> None:
    """Compare the report of a fit with that of the table in other units."""
    reports = []
    for units in ((1.0, 1.0), (of_x, of_y)):
        starts = {"a": 2 * units[1], "b": 1 / units[0], "c": 0.5 * units[1]}
        model, _, options = words.format(**starts).partition('" ')
        report = run_cli(f'train {model}" {tables[units]} {options} --json')
        assert report, report.stderr
        reports.append([figure for line in report.splitlines() for figure in figures(json.loads(line))])
    plain, scaled = reports
    assert [place for place, _ in plain] == [place for place, _ in scaled]
    ignored = RATIOS | (LOGARITHMS if of_y != 1 else set())
    if "laplace" in words:  # the loss is minus the log-likelihood
        ignored.add("loss")
    for (place, a), (_, b) in zip(plain, scaled, strict=True):
        assert ignored.intersection(place) or are_equal_in_some_unit(a, b), place


@each("words", FITS + COUNTS, quick=lambda words: (FITS + COUNTS).index(words) % 3 == 1)
def test_a_report_does_not_depend_on_the_unit_of_a_predictor(
    words: str, tables: dict[tuple[float, float], Path]
) -> None:
    check(words, tables, OF_X, 1.0)


@each("words", FITS, quick=lambda words: FITS.index(words) % 3 == 0)
def test_a_report_does_not_depend_on_the_unit_of_the_target(
    words: str, tables: dict[tuple[float, float], Path]
) -> None:
    check(words, tables, 1.0, OF_Y)


@pytest.mark.parametrize("seed", [3, 33, 60])
def test_fits_of_counts_do_not_depend_on_the_unit_of_a_column(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.uniform(0.1, 5, 20)
    counts = generator.poisson(20 * np.exp(-x) + 3)
    one, thousandth = (
        fit("N ~ a*exp(-b*x) + c", {"x": unit * x, "N": counts}, family="poisson") for unit in (1.0, 1000.0)
    )
    assert thousandth.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-9)
    assert thousandth.parameters["b"] == pytest.approx(one.parameters["b"] / 1000, rel=1e-5)


@each("unit", [1e-170, 1e-150, 1.0, 1e170])
def test_limits_of_parameters_are_sought_in_any_unit(unit: float) -> None:
    """Each parameter has a finite estimate, of whatever size."""
    x = np.linspace(0.0, 3.0, 9)
    objective = Objective("y ~ a*exp(-k*x)", {"x": x * unit, "y": 2 * np.exp(-x) + 0.01 * np.cos(9 * x)})
    (end,) = minimize_batch("lm", repeat_objective(objective, 1), np.array([[2.0, 1 / unit]]))
    statistics = compute_statistics(objective, end.theta)
    assert end.converged
    assert not statistics.is_imprecise.any()
    with np.errstate(all="ignore"):
        assert find_unlimited(objective, end.theta, replace(statistics, is_imprecise=np.ones(2, np.bool_))) == ""


@each(
    "model, size",
    [*itertools.product(["y ~ exp(a + b*x)", "y ~ c*exp(b*x)"], [1e4, 1e8, 1e10])],
    quick=lambda model, size: "c" not in model or size < 1e10,  # that fit ends only after many steps
)
def test_scattered_counts_of_any_size_have_the_same_growth(model: str, size: float) -> None:
    """Counts so large that rounding errors of the loss may keep a fit from its last steps."""
    x = np.linspace(0, 5, 24)
    shares = np.random.default_rng(4).gamma(2, size=24) * np.exp(0.1 * x)
    small, large = (fit(model, {"x": x, "y": np.round(shares * unit)}, family="negative_binomial")
                    for unit in (1e7, size))  # fmt: skip
    assert small.converged
    assert not any("exactly" in words for words in large.warnings)
    assert large.parameters["b"] == pytest.approx(small.parameters["b"], abs=0.02 * small.stderr["b"])
    # The density of a count is inversely proportional to the unit.
    gap = large.log_likelihood - small.log_likelihood + 24 * np.log(size / 1e7)
    assert (large.theta, gap) == pytest.approx((small.theta, 0), abs=0.02) or not large.converged


@each("unit", [1e155, 1e200, 1e300])
def test_robust_fits_of_targets_whose_squares_overflow_say_so(unit: float) -> None:
    x = np.linspace(0.0, 3.0, 9)
    failed = fit("y ~ a + b*x", {"x": x, "y": (2 + x + 0.1 * np.cos(9 * x)) * unit}, loss="huber")
    assert not failed.converged
    assert any("too large for their loss" in words for words in failed.warnings)


@each("unit", [1.0, 1e3, 1e5])
def test_a_likelihood_with_one_minimum_needs_no_search_in_any_unit(unit: float) -> None:
    """`exp(a + b*x)` overflows at the usual starting values if x is large."""
    generator, x = np.random.default_rng(0), np.linspace(0, 1, 30)
    found = fit("y ~ exp(a + b*x)", {"x": unit * x, "y": generator.poisson(np.exp(1 + 1.5 * x))}, family="poisson")
    assert found.converged
    assert not any("starting values" in note for note in found.notes)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("t ~ sigmoid(a + b*x + c*u)", {"family": "binomial"}),
        ("k ~ softmax(dense([x, u], 3))", {}),
        ("t ~ normal_cdf(a + b*x)", {"loss": "bce"}),
    ],
)
def test_classifications_do_not_depend_on_the_unit_of_a_column(model: str, options: dict[str, Any]) -> None:
    """With x in thousands, all rows are predicted with certainty at the default start, right or wrong."""
    generator = np.random.default_rng(1)
    x, u = generator.uniform(0.1, 5, 60), generator.normal(size=60)
    t = generator.uniform(size=60) < 1 / (1 + np.exp(2 - 0.9 * x + 0.3 * u))
    k = np.clip((x + generator.normal(size=60)).astype(int) // 2, 0, 2)
    columns = {"u": u, "t": t.astype(int), "k": np.array([*"abc"])[k]}
    losses = [fit(model, {"x": unit * x, **columns}, **options).loss for unit in (1.0, 1e-6, 100.0, 1e3, 1e6)]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-9)
