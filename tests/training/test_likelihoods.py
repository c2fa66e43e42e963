"""Models that are themselves minus a log-likelihood: ranges with a meaning, several maxima, and none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from autodiff_cli import Objective, fit
from autodiff_cli.training.fitting import optimization
from autodiff_cli.training.fitting.minimization import rows_of_component, stick_breaking_shares, with_stick_breaking
from autodiff_cli.training.objective.parameters import mixture_shares, natural_bounds
from tests.each import each

STUDENT = "lgamma(n/2) - lgamma((n + 1)/2) + log(s) + log(n*pi)/2 + (n + 1)/2*log(1 + (x/s)^2/n)"
MIXTURE = "-log(w*normal_pdf(x, m1, s1) + (1 - w)*normal_pdf(x, m2, s2))"
THREE = "-log(u*normal_pdf(x, m1, s1) + v*normal_pdf(x, m2, s2) + (1 - u - v)*normal_pdf(x, m3, s3))"


def mixture(seed: int) -> tuple[Any, list[float]]:
    generator = np.random.default_rng(seed)
    truth = [generator.uniform(0.3, 0.7), *generator.normal([50, 80], 5), *generator.uniform(3, 7, 2)]
    is_first = generator.random(400) < truth[0]
    x = np.where(is_first, generator.normal(truth[1], truth[3], 400), generator.normal(truth[2], truth[4], 400))
    return x, truth


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_the_components_of_a_mixture_are_found(seed: int) -> None:
    x, (share, *means, first, second) = mixture(seed)
    found = fit(MIXTURE, {"x": x}, likelihood=True)
    assert found.converged
    p = found.parameters
    assert 0 < p["w"] < 1
    assert min(p["s1"], p["s2"]) > 0
    assert sorted([p["m1"], p["m2"]]) == pytest.approx(sorted(means), abs=2)
    assert p["w"] == pytest.approx(share if p["m1"] < p["m2"] else 1 - share, abs=0.1)
    assert sorted([p["s1"], p["s2"]]) == pytest.approx(sorted([first, second]), abs=1.5)
    assert any("`w` 0 to 1" in note and "`s1` at least 0" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4, 6])
def test_three_components_are_found_rather_than_a_worse_minimum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    component = generator.choice(3, 300, p=[0.3, 0.4, 0.3])
    x = generator.normal(np.array([0, 4, 9])[component], np.array([1, 0.7, 1.5])[component])
    terms = "u*normal_pdf(x, m1, s1) + v*normal_pdf(x, m2, s2) + (1 - u - v)*normal_pdf(x, m3, s3)"
    found = fit(f"-log({terms})", {"x": x}, likelihood=True)
    assert found.converged
    assert [found.parameters[name] for name in ("m1", "m2", "m3")] == pytest.approx([0, 4, 9], abs=0.5)


@pytest.mark.slow
@each("seed", [28, 4], sampled=True)
def test_a_mixture_is_not_worse_than_from_its_true_parameters(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shares, means, widths = generator.dirichlet([4] * 3), generator.uniform(0, 20, 3), generator.uniform(0.3, 2.5, 3)
    component = generator.choice(3, 400, p=shares)
    data = {"x": means[component] + widths[component] * generator.normal(size=400)}
    truth = {"u": shares[0], "v": shares[1]}
    truth |= {f"{name}{k + 1}": values[k] for name, values in (("m", means), ("s", widths)) for k in range(3)}
    assert fit(THREE, data, likelihood=True).loss < fit(THREE, data, likelihood=True, start=truth).loss + 1e-9


@pytest.mark.slow
@each("seed", [0, 1])
def test_many_starts_that_lead_to_one_mixture_leave_room_for_a_likelier_one(seed: int) -> None:
    """Most starts lead to a wide component around all rows; few lead to the component of seven rows."""
    generator = np.random.default_rng(9)
    rows = [generator.normal(21, 2, 60), generator.normal(20, 7, 8), generator.normal(9.7, 0.4, 7)]
    data, truth = {"x": np.concatenate(rows)}, {"w": 0.1, "m1": 9.7, "s1": 0.4, "m2": 21, "s2": 2}
    best = fit(MIXTURE, data, likelihood=True, start=truth)
    assert fit(MIXTURE, data, likelihood=True, seed=seed).loss < best.loss + 1e-9


@pytest.mark.slow
def test_another_likely_mixture_is_reported() -> None:
    """Two components cannot describe three symmetric clusters: the one in the middle goes with either of the others."""
    half = np.random.default_rng(0).normal([0, 6], 1, (40, 2)).ravel()
    found = fit(MIXTURE, {"x": np.concatenate((half, -half)) + 1}, likelihood=True)
    assert any("another minimum is nearly as likely" in warning for warning in found.warnings)


def test_a_mixture_from_starting_values_near_a_worse_maximum_is_doubtful_and_the_warning_leads_to_a_better_one() -> (
    None
):
    """Three clusters have two good descriptions by two components: the middle one goes with either of the others."""
    generator = np.random.default_rng(0)
    x = generator.normal(np.repeat([0, 5, 9], [40, 25, 15]), np.repeat([1, 0.7, 0.5], [40, 25, 15]))
    starts = [{"w": 0.5, "m1": 0, "s1": 1, "m2": 7, "s2": 2}, {"w": 0.8, "m1": 2, "s1": 3, "m2": 9, "s2": 0.5}]
    fits = [fit(MIXTURE, {"x": x}, likelihood=True, start=start) for start in starts]
    best = min(each.loss for each in fits)
    for found in fits:
        gain = (found.loss - best) * len(x)
        warned = [text for text in found.warnings if "doubtful" in text]
        assert bool(warned) is (gain > 0.01)
        if warned:
            assert f"has a log-likelihood that is {gain:.3g} higher" in warned[0]
            named = dict(part.split(" = ") for part in warned[0].rpartition("start from ")[2].split(", "))
            advised = fit(MIXTURE, {"x": x}, likelihood=True, start={name: float(each) for name, each in named.items()})
            assert (advised.loss, advised.warnings) == (pytest.approx(best, abs=1e-9), [])
    assert max(each.loss for each in fits) > best + 0.01


def random_mixture(generator: np.random.Generator, count: int) -> Any:
    rows = generator.integers(60, 300)
    means = np.cumsum(generator.uniform(1.5, 4, count)) * 10 ** generator.uniform(-1, 2)
    deviations = (means[1] - means[0]) * generator.uniform(0.2, 0.5, count)
    component = generator.choice(count, rows, p=generator.dirichlet(np.full(count, 4)))
    return generator.normal(means[component], deviations[component])


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", [700, 706, 711, 722])
def test_shares_of_a_mixture_sum_to_at_most_1_and_no_component_is_at_two_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    random_mixture(generator, 2)
    x = random_mixture(generator, 3)
    found = fit(THREE, {"x": x}, likelihood=True)
    p = found.parameters
    assert found.converged
    assert 0 < p["u"] + p["v"] < 1
    assert min(p["s1"], p["s2"], p["s3"]) > np.std(x) / 40


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 8, 19, 21, 41, 43, 47, 54, 60])
def test_no_component_of_a_mixture_depends_on_two_or_three_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(30, 70))
    x = generator.normal(size=rows) * generator.uniform(1, 3, rows)
    found = fit(MIXTURE, {"x": x}, likelihood=True)
    assert found.converged
    mean, deviation = sorted([(found.parameters[f"s{k}"], found.parameters[f"m{k}"]) for k in (1, 2)])[0][::-1]
    assert np.count_nonzero(np.abs(x - mean) < 3 * deviation) > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "x", "name"),
    [
        ("log(s) + ((x - m)/s)^2/2", np.full(10, 3.0), "s"),
        ("-log(normal_pdf(x, m, s))", np.full(10, 3.0), "s"),
        ("exp(-a*x)", np.linspace(1, 9, 20), "a"),
        (STUDENT, np.tile([-1.0, 1], 9), "n"),
    ],
)  # fmt: skip
def test_a_likelihood_without_a_maximum_has_not_converged(model: str, x: Any, name: str) -> None:
    found = fit(model, {"x": x}, likelihood=True)
    assert not found.converged
    assert any("no minimum" in warning for warning in found.warnings)
    assert name in found.parameters


@pytest.mark.slow
def test_a_component_that_shrinks_to_one_row_has_not_converged() -> None:
    x, _ = mixture(0)
    start = {"w": 0.5, "m1": 60, "m2": x[7], "s1": 20, "s2": 1e-4}
    found = fit(MIXTURE, {"x": x}, start=start, likelihood=True)
    if found.converged:
        assert min(found.parameters["s1"], found.parameters["s2"]) > 1
    else:
        assert any("`s2` goes to 0" in warning for warning in found.warnings)


def test_a_parameter_of_either_sign_is_not_bounded() -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=300)
    y = 2 - 0.6 * x + generator.normal(0, 0.5, 300)
    found = fit("-log(normal_pdf(y, m*(1 - p) + p*x, s))", {"x": x, "y": y}, likelihood=True)
    assert found.parameters["p"] == pytest.approx(-0.6, abs=0.1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "model",
    ["max(q*(y - a - b*x), (q - 1)*(y - a - b*x))", "where(y > a + b*x, q*(y - a - b*x), (1 - q)*(a + b*x - y))"],
)
@pytest.mark.parametrize(("quantile", "seed"), [(0.9, 0), (0.5, 1), (0.1, 2)])
@pytest.mark.parametrize("likelihood", [True, False])
def test_the_loss_of_a_quantile_converges_at_its_kink(model: str, quantile: float, seed: int, likelihood: bool) -> None:
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 10, 60)
    y = 1 + 2 * x + generator.normal(0, 1 + 0.3 * x)
    columns = np.column_stack((np.ones(60), x, np.eye(60), -np.eye(60)))
    costs = np.concatenate((np.zeros(2), np.full(60, quantile), np.full(60, 1 - quantile)))
    best = linprog(costs, A_eq=columns, b_eq=y, bounds=[(None, None)] * 2 + [(0, None)] * 120)  # Koenker & Bassett 1978
    found = fit(model, {"x": x, "y": y}, fixed={"q": quantile}, likelihood=likelihood)
    assert found.converged
    assert not found.failure
    assert found.loss == pytest.approx(best.fun / 60, rel=1e-7)
    if likelihood:  # the data determine both, although the loss has no curvature in them
        assert found.aic == pytest.approx(2 * best.fun + 4, rel=1e-7)
        assert (found.dof, found.stderr) == (58, {"a": None, "b": None})
        assert found.warnings == [
            "`a`, `b` end at kinks of the loss (from abs, max, relu or where); they have no standard errors"
        ]


@each(("model", "kinks", "errors"), [
    ("(y - a - b*x)^2/2 + 30*abs(a)", "a", "b"),  # as in the lasso, b = sum(x*y)/sum(x²)
    ("abs(y - a) + (b - 1)^2", "a", "b"),
    ("abs(a - b) + 0.1*a^2 + abs(b - x)", "ab", ""),
    ("abs(y - a - b*x) + 0.2*abs(a - b)", "ab", ""),
    ("max(0.7*(x - a), 0.3*(a - x)) + b^2", "a", "b"),  # the slope used at the kink is 0
], quick=lambda model, kinks, errors: model[0] == "m" or model.startswith("abs(y"))  # fmt: skip
def test_parameters_at_kinks_are_determined_and_all_others_have_standard_errors(
    model: str, kinks: str, errors: str
) -> None:
    x = np.array([1.0, 2.0, 3.0, 4.5, 6.0])
    found = fit(model, {"x": x, "y": np.array([1.2, 1.9, 3.3, 4.1, 6.6])}, likelihood=True)
    assert found.converged
    assert (found.rank, found.dof) == (2, 3)
    assert ["kink" in words and all(f"`{name}`" in words for name in kinks) for words in found.warnings] == [True]
    assert [name for name, error in found.stderr.items() if error is not None] == [*errors]
    curvatures = {"(y - a - b*x)^2/2 + 30*abs(a)": x @ x, "abs(y - a) + (b - 1)^2": 10.0}
    if model in curvatures:
        assert found.stderr["b"] == pytest.approx(curvatures[model] ** -0.5, rel=1e-9)


def test_regular_likelihoods_have_no_warning() -> None:
    generator = np.random.default_rng(2)
    x = generator.weibull(2, 300) * 30
    found = fit("-(log(k/l) + (k - 1)*log(x/l) - (x/l)^k)", {"x": x}, likelihood=True)
    assert found.converged
    assert not found.warnings
    assert found.parameters["k"] == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize("unit", [1, pytest.param(0.001, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("rows", "width"), [(3, 0.8), pytest.param(5, 0.3, marks=pytest.mark.slow)])
def test_a_component_of_few_rows_is_found_if_it_is_as_wide_as_the_others(rows: int, width: float, unit: float) -> None:
    generator = np.random.default_rng([rows, 6])
    few = generator.normal(9, width, rows)
    found = fit(MIXTURE, {"x": unit * np.array([*generator.normal(0, 1, 60), *few])}, likelihood=True)
    assert found.converged
    assert max(found.parameters["m1"], found.parameters["m2"]) == pytest.approx(unit * few.mean(), abs=0.05 * unit)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("unit", [1, 1e-6, 1e4])
@pytest.mark.parametrize("seed", [3, 0, 1, 2, 4, 5])
def test_a_component_of_three_rows_far_from_the_others_is_found_wherever_they_are(seed: int, unit: float) -> None:
    """The places of three rows decide how alike their slopes are, but not how many rows they are."""
    generator = np.random.default_rng(seed)
    few = unit * generator.normal(9, 0.3, 3)
    x = np.array([*unit * generator.normal(0, 1, 40), *few])
    found = fit(MIXTURE, {"x": x}, likelihood=True)
    assert found.converged
    p = found.parameters
    mean, deviation = (p["m1"], p["s1"]) if p["m1"] > p["m2"] else (p["m2"], p["s2"])
    assert mean == pytest.approx(few.mean(), rel=1e-3)
    assert deviation == pytest.approx(few.std(), rel=1e-2)


def test_a_mixture_without_widths_is_fitted() -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.normal(0, 1, 40), generator.normal(6, 1, 30)])
    found = fit("-log(w*normal_pdf(x, m1, 1) + (1 - w)*normal_pdf(x, m2, 1))", {"x": x}, likelihood=True)
    assert found.converged
    assert sorted([found.parameters["m1"], found.parameters["m2"]]) == pytest.approx([0, 6], abs=0.5)


@pytest.mark.slow
def test_a_component_of_two_rows_is_kept_only_from_starting_values() -> None:
    x = [*np.random.default_rng(0).normal(0, 1, 60), 9.0, 9.3]
    start = {"w": 0.9, "m1": 0, "s1": 1, "m2": 9, "s2": 0.3}
    searched, given = fit(MIXTURE, {"x": x}, likelihood=True), fit(MIXTURE, {"x": x}, likelihood=True, start=start)
    assert given.converged
    assert min(given.parameters["s1"], given.parameters["s2"]) == pytest.approx(0.15, rel=1e-3)
    if not searched.converged:
        assert "depends on 2 rows (to keep it, give starting values for all parameters)" in searched.failure
    else:
        assert min(searched.parameters["s1"], searched.parameters["s2"]) != pytest.approx(0.15, rel=1e-3)


@pytest.mark.parametrize("unit", [1, 30, 1000])
@pytest.mark.parametrize(("width", "rows"), [(0.05, 2), (0.2, 2), (0.6, 0)])
def test_the_rows_of_a_narrow_component_are_counted_in_any_unit(width: float, rows: int, unit: float) -> None:
    x = unit * np.array([*np.random.default_rng(3).normal(0, 1, 60), 9 - width / 2, 9 + width / 2])
    objective = Objective(MIXTURE, {"x": x}, likelihood=True)
    values = {"w": 60 / 62, "m1": 0, "s1": unit, "m2": 9 * unit, "s2": width * unit}
    theta = np.array([values[name] for name in objective.parameters])
    assert rows_of_component(objective, theta, [*objective.parameters].index("s2")) == rows


def test_fractions_of_a_stick_are_shares_with_the_same_likelihood() -> None:
    for count in (2, 3, 5):
        parts = [f"w{k}*normal_pdf(x, m{k}, s{k})" for k in range(count)]
        rest = " - ".join(["1", *(f"w{k}" for k in range(count))])
        objective = Objective(
            f"-log({' + '.join(parts)} + ({rest})*normal_pdf(x, m, s))", {"x": np.linspace(-2, 2, 9)}, likelihood=True
        )
        broken, (part,) = with_stick_breaking(objective), objective.shares
        points = np.random.default_rng(count).uniform(size=(3, objective.layout.size))
        thetas = stick_breaking_shares(objective, points)
        assert (thetas[:, [*part]].sum(axis=1) <= 1).all()
        for point, theta in zip(points, thetas, strict=True):
            assert objective.value(theta) == pytest.approx(broken.value(point), rel=1e-12)


def test_shares_of_every_level_are_from_0_to_1_and_belong_together() -> None:
    data = {"x": [1.0, 2, 3, 4, 5, 6], "g": [*"ABCABC"]}
    own = Objective("-log(v[g]*exp(-x) + w[g]*exp(-2*x) + (1 - v[g] - w[g])*exp(-3*x))", data)
    program, layout = own.model.program, own.layout
    names = [f"{share}[{level}]" for share in "vw" for level in "ABC"]
    assert natural_bounds(program, layout.names) == dict.fromkeys(names, (0.0, 1.0))
    assert natural_bounds(program, names[:5]) == dict.fromkeys(names[:5], (0.0, 1.0))
    assert mixture_shares(program, layout) == tuple(zip((0, 1, 2), (3, 4, 5), strict=True))
    other = Objective("-log(v[g]*exp(-x) + (1 - (v[g] + 2*x))*exp(-3*x))", data)
    assert natural_bounds(other.model.program, other.layout.names) == {}
    assert mixture_shares(other.model.program, other.layout) == ()
    x = np.linspace(-1, 1, 20)  # weights of terms are shares only in a likelihood
    plain = fit("y ~ u*x + v*x^2 + (1 - u - v)", {"x": x, "y": 3 * x - 2 * x**2 + 0.01 * np.cos(40 * x)})
    assert [*plain.parameters.values()] == pytest.approx([3, -2], abs=0.01)


@each(
    "bounds, has_note",
    [({}, True), ({"m": (0, 5)}, True), ({"s": (0.1, 2)}, False), ({"m": (0, 5), "s": (0.1, 2)}, False)],
    quick=lambda bounds, has_note: len(bounds) == 1,
)
def test_ranges_that_the_model_needs_are_noted_but_not_those_that_are_given(bounds: Any, has_note: bool) -> None:
    y = np.linspace(0.5, 1.5, 9)
    found = fit("-log(normal_pdf(y, m, s))", {"y": y}, likelihood=True, bounds=bounds)
    note = "parameters are kept in the ranges where the model is meaningful: `s` at least 0"
    assert (note in found.notes) is has_note
    assert not any("meaningful" in each for each in found.notes if each != note)


@pytest.mark.parametrize(("better", "searches"), [(None, 2), (0, 3), (1, 4)])
def test_a_mixture_is_searched_until_two_searches_find_nothing_better(
    better: int | None, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, seeds = np.random.default_rng(0), list[int]()
    x = generator.normal(np.repeat([0, 9, 40], 15), 1)
    start = {"m1": 0.0, "s1": 1.0, "m2": 25.0, "s2": 16.0}  # the fit from it has one wide component, at 9 and 40
    best = {"w": 0.67, "m1": 4.5, "s1": 4.6, "m2": 40.0, "s2": 1.0}

    def minima(sample: Objective, _: Any, seed: int, __: Any) -> Any:
        seeds.append(seed)
        found = [best[name] for name in sample.parameters]
        return np.array([found] * (len(seeds) - 1 == better)).reshape(-1, len(found))

    monkeypatch.setattr(optimization, "_random_minima", minima)
    found = fit(MIXTURE, {"x": x}, likelihood=True, seed=7, start=start)
    # Each search draws other points; a check of the end draws from seed 0 on.
    assert [each for each in seeds if each >= 7] == [*range(7, 7 + searches)]
    assert found.parameters["m2"] == pytest.approx(24 if better is None else 40, abs=1)
