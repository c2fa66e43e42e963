"""Of points that predict the same, one is reported: positive widths, phases within a turn; and it is said."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit, fit_by
from autodiff_cli.training.fitting.fit import _canonical_outcome
from autodiff_cli.training.fitting.symmetries import canonical_parameters, order_terms
from autodiff_cli.training.methods.gradient_descent import Outcome
from tests.each import each

X = np.linspace(0, 10, 80)
NOISE = np.random.default_rng(0).normal(0, 0.05, len(X))


# fmt: off
CASES: list[tuple[str, Any, dict[str, float], dict[str, float]]] = [
    ("y ~ a*exp(-((x - m)/w)^2)", 2*np.exp(-((X - 4)/1.5)**2), {"a": 1, "m": 4, "w": 1}, {"a": 2, "m": 4, "w": 1.5}),
    ("y ~ a*sin(w*x + p)",        2*np.sin(3*X + 0.5),         {"w": 3}, {"a": 2, "w": 3, "p": 0.5}),
    ("y ~ a*cos(w*x + p)",        2*np.cos(3*X + 2.5),         {"w": 3}, {"a": 2, "w": 3, "p": 2.5}),
    ("y ~ a*sin(2*pi*f*x + p)",   2*np.sin(3*X - 2.8),         {"f": 0.47}, {"a": 2, "f": 1.5 / math.pi, "p": -2.8}),
    ("y ~ a*b*x",                 2*X,                         {"a": 3}, {}),
]
# fmt: on


@pytest.mark.parametrize("noise", [1e-9, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 1))])
@pytest.mark.parametrize(("model", "y", "start", "expected"), CASES)
def test_one_of_many_equal_points_is_reported(model: str, y: Any, start: Any, expected: Any, noise: float) -> None:
    data = {"x": X, "y": y + noise * NOISE}
    found = fit(model, data, start=start)
    parameters = found.parameters
    assert all(value > 0 for name, value in parameters.items() if name != "p")
    assert abs(parameters.get("p", 0)) <= math.pi
    assert parameters == pytest.approx({**parameters, **expected}, abs=0.05)
    loss = fit(model, data, start=parameters, epochs=0, optimizer="lm").loss
    assert loss == pytest.approx(found.loss, rel=1e-12, abs=1e-24)


@each(
    "model, alias",
    [
        ("y ~ a*sin(w*x + p)", 1),
        ("y ~ a*sin(w*x) + b*cos(w*x)", 1),
        ("y ~ a*exp(-g*x)*cos(w*x + p) + c", 1),
        ("y ~ a*cos(2*pi*x/w + p)", -1),
        ("y ~ a*cos(w*x)^2 + b*sin(2*w*x) + c", 0.5),
    ],
    quick=lambda model, alias: model == "y ~ a*sin(w*x + p)",
)
def test_the_lowest_frequency_that_even_rows_leave_open_is_reported(model: str, alias: float) -> None:
    """The default start has many turns between two rows, and there is a minimum near every multiple of them."""
    generator = np.random.default_rng(0)
    for rows, last in ((12, 1e4), (40, 1000), (40, 1e5)):
        x = np.linspace(0, last, rows)
        data = {"x": x, "y": 2 * np.sin(20 * x / last + 0.5) + 0.1 * generator.normal(size=rows)}
        found = fit(model, data)
        turns = found.parameters["w"] * last if alias > 0 else 2 * math.pi * last / found.parameters["w"]
        assert turns / 20 == pytest.approx(abs(alias), rel=0.02)


def test_a_given_frequency_keeps_its_value_if_even_rows_leave_it_open() -> None:
    x = np.arange(40.0)
    found = fit("y ~ a*sin(w*x + p)", {"x": x, "y": np.sin(0.3 * x + 0.5)}, start={"w": 0.3 + 2 * math.pi})
    assert found.parameters["w"] == pytest.approx(0.3 + 2 * math.pi)


def test_the_chosen_equivalent_solution_is_reported() -> None:
    data = {"x": X, "y": 2 * np.sin(3 * X + 0.5) + NOISE}
    found = fit("y ~ a*sin(w*x + p)", data, start={"w": 3, "p": 64724 * 2 * math.pi / 10})
    assert found.parameters["p"] == pytest.approx(0.5, abs=0.05)
    assert any(note.startswith("values within half a turn of 0 are reported for `p`") for note in found.notes)
    assert not found.warnings
    peak = {"x": X, "y": 2 * np.exp(-(((X - 4) / 1.5) ** 2)) + NOISE}
    widths = [fit("y ~ a*exp(-((x - m)/w)^2)", peak, start={"m": 4, "w": w}) for w in (1, -1)]
    assert widths[1].parameters["w"] == -widths[0].parameters["w"]  # its start was given with that sign
    assert not widths[1].warnings


@pytest.mark.parametrize("argument", ["2*pi*(t - t0)/P", "(t - t0)*w"])
def test_a_place_on_a_wave_is_among_the_rows_wherever_time_begins(argument: str) -> None:
    y, model, turn = 1 + 2 * np.sin(3 * X - 1.5) + NOISE, f"y ~ m + a*sin({argument})", 2 * math.pi / 3
    early = fit(model, {"t": X, "y": y})
    assert early.parameters["t0"] == pytest.approx(0.5, abs=0.05)
    for origin, nearest in ((1821, 0), (-5000.25, X[-1])):  # the row nearest to time 0
        late = fit(model, {"t": X + origin, "y": y})
        place = late.parameters["t0"] - origin
        assert abs(place - nearest) <= turn / 2
        assert math.remainder(place - early.parameters["t0"], turn) == pytest.approx(0, abs=0.02)
        if nearest == 0:
            assert late.stderr["t0"] == pytest.approx(early.stderr["t0"], rel=1e-4)
    started = fit(model, {"t": X + 1821, "y": y}, start={"t0": 1825})
    assert abs(started.parameters["t0"] - 1825) <= turn / 2


def test_phases_of_levels_are_angles_and_no_frequencies() -> None:
    generator = np.random.default_rng(4)
    phases = {"a": 0.4, "b": 2.0, "c": -1.0}
    group, t = np.repeat([*phases], 40), np.tile(np.arange(40) / 4, 3)
    y = 3 + 1.2 * np.sin(2 * t + [phases[each] for each in group]) + 0.1 * generator.normal(size=len(t))
    for start in (None, {"p": 20}):
        found = fit("y ~ m + a*sin(w*t + p[group])", {"t": t, "y": y, "group": group}, start=start)
        for level, phase in phases.items():
            assert found.parameters[f"p[{level}]"] == pytest.approx(phase, abs=0.1)
        assert not any("frequencies" in note and "`p[" in note for note in found.notes)


def test_a_standard_deviation_is_positive() -> None:
    found = fit("((y - m)/s)^2/2 + log(s^2)/2", {"y": 3 + NOISE}, start={"m": 3})
    assert found.converged
    assert found.parameters["s"] == pytest.approx(np.std(NOISE), rel=1e-8)


def bateman(x: Any, ka: float, ke: float, v: float) -> Any:
    return 100 * ka / (v * (ka - ke)) * (np.exp(-ke * x) - np.exp(-ka * x))


def test_another_solution_with_two_rates_exchanged_is_mentioned() -> None:
    x = np.array([0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24])
    y = bateman(x, 1.2, 0.15, 20) * (1 + np.random.default_rng(2).normal(0, 0.03, len(x)))
    for model in ("y ~ 100*ka/(V*(ka - ke))*(exp(-ke*x) - exp(-ka*x))", "y ~ A*(exp(-ke*x) - exp(-ka*x))"):
        one = fit(model, {"x": x, "y": y})
        other = fit(model, {"x": x, "y": y}, start={"ka": 0.2, "ke": 1.0})
        assert one.loss == pytest.approx(other.loss, rel=1e-9)
        assert one.parameters["ka"] > one.parameters["ke"]
        found = [note for note in one.notes if "another solution gives the same predictions, with" in note]
        assert len(found) == 1
        is_signed = "A" in one.parameters  # the positive amplitude is preferred
        assert (other.parameters["ka"] < other.parameters["ke"]) != is_signed
        for name, value in (one if is_signed else other).parameters.items():
            assert is_signed or f"{name} = {value:.4g}" in found[0]


@pytest.mark.parametrize("is_leveled", [False, True])
def test_exchangeable_rates_are_in_the_same_order_in_all_groups(is_leveled: bool) -> None:
    generator = np.random.default_rng(5)
    x, s = np.tile([0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24], 6), np.repeat(np.arange(6), 11)
    rates = [(generator.uniform(0.6, 3), generator.uniform(0.05, 0.25), generator.uniform(10, 40)) for _ in range(6)]
    y = np.concatenate([bateman(x[:11], *each) for each in rates]) * (1 + generator.normal(0, 0.03, len(x)))
    model = "y ~ 100*ka/(V*(ka - ke))*(exp(-ke*x) - exp(-ka*x))"
    if is_leveled:
        for name in ("ka", "ke", "V"):
            model = re.sub(rf"\b{name}\b", f"{name}[s]", model)
        found = fit(model, {"x": x, "y": y, "s": s}).parameters
        values = [[found[f"{name}[{k}]"] for name in ("ka", "ke", "V")] for k in range(6)]
    else:  # the fit is not defined at the default starting values, where both rates are 1
        values = [
            [each.fit.parameters[name] for name in ("ka", "ke", "V")]
            for each in fit_by(model, {"x": x, "y": y, "s": s}, by="s")
        ]
    assert np.array(values) == pytest.approx(np.array(rates), rel=0.3)


def test_interchangeable_terms_are_in_the_same_order_in_all_groups() -> None:
    generator = np.random.default_rng(1)
    x = np.tile(np.linspace(0, 10, 60), 12)
    group = np.repeat(np.arange(12), 60)
    slow, fast = generator.uniform(1, 5, 12)[group], generator.uniform(1, 5, 12)[group]
    y = slow * np.exp(-0.3 * x) + fast * np.exp(-2 * x) + generator.normal(0, 0.003, len(x))
    model = "y ~ A1*exp(-k1*x) + A2*exp(-k2*x)"
    groups = fit_by(model, {"x": x, "y": y, "g": group}, by="g")
    for number, found in enumerate(groups):
        assert found.fit is not None
        rates = found.fit.parameters["k1"], found.fit.parameters["k2"]
        assert rates == pytest.approx((0.3, 2), rel=0.1)
        assert found.fit.parameters["A1"] == pytest.approx(slow[60 * number], rel=0.1)
    first = {"x": x[:60], "y": y[:60]}
    given = fit(model, first, start={"A1": 1, "k1": 3, "A2": 1, "k2": 0.1}).parameters
    assert given["k1"] > given["k2"]  # in the order of the given starts


DECAYS = "y ~ A1*exp(-k1*x) + A2*exp(-k2*x) + A3*exp(-k3*x)"
TWO_COMPONENTS = "-log(w*normal_pdf(y, m1, s1) + (1 - w)*normal_pdf(y, m2, s2))"


@each(
    "model, options, keys, fixed",  # the parameters by which terms are ordered, and those that keep their values
    [
        (DECAYS, {}, "k1 k2 k3", ""),
        (DECAYS, {"bounds": dict.fromkeys(("k1", "k2", "k3"), (0, 3))}, "k1 k2 k3", ""),
        (DECAYS, {"bounds": {"k1": (0, 3)}}, "k2 k3", "A1 k1"),
        (DECAYS, {"bounds": {"A1": (None, 9)}}, "k2 k3", "A1 k1"),
        (DECAYS, {"bounds": {"A1": (-9, None)}}, "k2 k3", "A1 k1"),
        (DECAYS, {"bounds": {"A1": (0, 9), "A2": (-1, 9), "A3": (-2, 9)}}, "", "A1 k1 A2 k2 A3 k3"),
        ("y ~ c + a*exp(-((x - m)/s)^2) + b*exp(-((x - n)/t)^2)", {}, "m n", "c"),
        ("y ~ a*exp(-k*x) + b*exp(-2*l*x)", {}, "", "a k b l"),
        (TWO_COMPONENTS, {"likelihood": True}, "m1 m2", ""),
        (TWO_COMPONENTS, {"likelihood": True, "bounds": {"w": (0.5, 1)}}, "", "w m1 s1 m2 s2"),
        (TWO_COMPONENTS, {"likelihood": True, "bounds": {"s1": (0, 9), "s2": (0.1, 9)}}, "", "w m1 s1 m2 s2"),
    ],
)
def test_terms_change_places_where_they_may_and_nothing_else_changes(
    model: str, options: dict[str, Any], keys: str, fixed: str
) -> None:
    """Points are ordered by a parameter of each term, within the bounds; the loss stays as it is."""
    generator = np.random.default_rng(0)
    objective = Objective(model, {"x": np.linspace(0, 3, 12), "y": generator.normal(size=12)}, **options)
    points = generator.uniform(0.55, 2.5, (20, len(objective.start)))
    names = [*objective.parameters]
    if "w" in names:
        points[:, names.index("w")] = generator.uniform(0.55, 0.95, 20)
    ordered = order_terms(objective, points)
    assert (np.diff(ordered[:, [names.index(name) for name in keys.split()]]) > 0).all()
    stay = [names.index(name) for name in fixed.split()]
    assert (ordered[:, stay] == points[:, stay]).all()
    for before, after in zip(points, ordered, strict=True):
        assert objective.bounds.contains(after)
        assert objective.value(after) == pytest.approx(objective.value(before), rel=1e-12)


@pytest.mark.slow
def test_components_of_mixtures_are_in_the_same_order_in_all_groups_and_levels() -> None:
    generator = np.random.default_rng(3)
    share = generator.uniform(0.2, 0.8, 4)
    group = np.repeat(np.arange(4), 150)
    is_low = generator.random(600) < share[group]
    x = np.where(is_low, generator.normal(-2, 1, 600), generator.normal(3, 1.2, 600))
    data = {"x": x, "g": group}
    model = "-log(w*normal_pdf(x, m1, s1) + (1 - w)*normal_pdf(x, m2, s2))"
    for number, found in enumerate(fit_by(model, data, by="g", likelihood=True)):
        assert found.fit is not None
        values = found.fit.parameters
        assert (values["m1"], values["m2"], values["w"]) == pytest.approx((-2, 3, share[number]), abs=0.35)
    by_level = fit(
        "-log(w[g]*normal_pdf(x, m1[g], s1) + (1 - w[g])*normal_pdf(x, m2[g], s2))", data, likelihood=True
    ).parameters  # with components of some levels exchanged, the fit is worse, because s1 and s2 are common
    assert [by_level[f"m1[{k}]"] for k in range(4)] == pytest.approx([-2] * 4, abs=0.35)
    given = fit(model, data, likelihood=True, start={"m1": 3, "m2": -2}).parameters
    assert given["m1"] > given["m2"]


@pytest.mark.slow
def test_levels_that_share_nothing_are_fitted_as_well_as_alone() -> None:
    generator = np.random.default_rng(5)
    x, group = np.tile(np.linspace(0, 10, 60), 4), np.repeat(np.arange(4), 60)
    first, second = generator.uniform(1, 5, (2, 4))[:, group]
    y = first * np.exp(-(((x - 3) / 0.8) ** 2)) + second * np.exp(-(((x - 6) / 1.5) ** 2))
    data = {"x": x, "y": y + generator.normal(0, 0.02, len(x)), "g": group}
    found = fit("y ~ A[g]*exp(-((x - m[g])/s[g])^2) + B[g]*exp(-((x - n[g])/t[g])^2)", data)
    expected = [value for level in range(4) for value in (3, 0.8, 6, 1.5)]
    assert [found.parameters[f"{name}[{k}]"] for k in range(4) for name in "msnt"] == pytest.approx(expected, rel=0.05)
    assert not found.warnings


def test_of_two_equivalent_curves_the_one_with_positive_parameters_is_reported() -> None:
    y = 1 + 4 / (1 + (3 / (X + 1)) ** 2) + NOISE / 5
    model = "y ~ b + (t - b)/(1 + (k/(x + 1))^h)"
    for start in ({}, {"b": 5, "t": 1, "k": 3}):
        found = fit(model, {"x": X, "y": y}, start=start)
        assert found.parameters == pytest.approx({"b": 1, "t": 5, "k": 3, "h": 2}, rel=0.2)
    offset = fit("y ~ c + K/(1 + exp(-r*(x - m)))", {"x": X, "y": 5 / (1 + np.exp(4 - X)) + 2 + NOISE})
    assert offset.parameters == pytest.approx({"c": 2, "K": 5, "r": 1, "m": 4}, rel=0.1)


def test_a_sign_that_matters_stays() -> None:
    found = fit("y ~ a*exp(-b*x)", {"x": X, "y": -2 * np.exp(0.1 * X) + NOISE})
    assert found.parameters == pytest.approx({"a": -2, "b": -0.1}, rel=0.05)
    assert not found.warnings


def test_a_sign_that_changes_predictions_a_little_is_determined() -> None:
    for share, end in ((0.0, 2.0), (1e-7, -2.0), (1e-4, -2.0)):
        objective = Objective(f"y ~ a^2*x + {share!r}*a*x^2", {"x": X, "y": 4 * X})
        found, notes = canonical_parameters(objective, np.array([-2.0]))
        assert (found.tolist(), bool(notes)) == ([end], end > 0), share


def test_a_sign_stays_within_its_bounds() -> None:
    data = {"x": X, "y": 4 * X + NOISE}
    assert fit("y ~ a^2*x", data, bounds={"a": (-9, 0)}).parameters["a"] == pytest.approx(-2, abs=0.01)
    assert fit("y ~ a^2*x", data, bounds={"a": (-9, 1)}).parameters["a"] == pytest.approx(-2, abs=0.01)
    objective = Objective("y ~ a^2*x", data, bounds={"a": (-1, 3)})
    for at, reported in ((-0.9, 0.9), (-1.0, -1.0), (0.5, 0.5)):  # a minimum on a bound is none elsewhere
        outcome, notes = _canonical_outcome(objective, "lm", Outcome(np.array([at]), True))
        assert (outcome.theta.tolist(), bool(notes)) == ([reported], at != reported)
    other = Objective("y ~ a^2*x + b^2", data, bounds={"a": (-9, 1)})
    assert canonical_parameters(other, np.array([-2.0, -3.0]))[0].tolist() == [-2, 3]


# --- Points at which models predict the same, without fits

TURN = 2 * math.pi
EQUIVALENT: list[tuple[str, list[float], list[list[float]]]] = [
    ("y ~ a*sin(w*x + p)", [2, 3, 0.5],
     [[-2, 3, 0.5 + math.pi], [2, 3, 0.5 + 3 * TURN], [-2, -3, -0.5], [2, -3, math.pi - 0.5], [2, 3, 0.5 - TURN]]),
    ("y ~ a*cos(2*pi*f*x + p) + c", [2, 0.3, -2.5, 1], [[-2, 0.3, math.pi - 2.5, 1], [2, -0.3, 2.5, 1]]),
    ("y ~ a*exp(-((x - m)/w)^2)", [2, 4, 1.5], [[2, 4, -1.5]]),
    ("y ~ a*exp(b*x)*c", [2, -0.3, 3], [[-2, -0.3, -3]]),
    ("y ~ abs(a)*x + b^2", [2, 3], [[-2, 3], [2, -3], [-2, -3]]),
    ("y ~ b + (t - b)/(1 + (k/x)^h)", [1, 5, 3, 2], [[5, 1, 3, -2]]),
    ("y ~ a*b*x + b*c*sqrt(x) + a*c", [1, 2, 3], [[-1, -2, -3]]),
    (f"y ~ a^2*x + {' + '.join(f'p{k}*sin({k}*x)' for k in range(20))}", [2, *[1] * 20], [[-2, *[1] * 20]]),
    ("y ~ a + b*x", [-2, -3], []),
    # One of two equal terms can replace the other, which leaves that one's rate undetermined, not only its sign.
    ("y ~ a*exp(-k*x) + b*exp(-l*x)", [1, -0.5, 2, -0.5], []),
    ("y ~ a*x^n + b*x^m + c", [1, -1.5, 2, -1.5, 3], []),
]  # fmt: skip


@each("model, theta, others", EQUIVALENT)
def test_of_equivalent_points_one_is_chosen(model: str, theta: list[float], others: list[list[float]]) -> None:
    objective = Objective(model, {"x": X + 0.1, "y": X})
    for point in (theta, *others):
        found, notes = canonical_parameters(objective, np.array(point, float))
        assert found.tolist() == pytest.approx(theta, rel=1e-9)
        assert bool(notes) is (point != theta)
        assert objective.value(found) == pytest.approx(objective.value(np.array(theta, float)), rel=1e-9)


@each("seed", range(3))
def test_a_jump_is_in_the_middle_between_two_rows_however_it_is_written(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 10, 40)
    data = {"x": x, "y": 1 + 2 * (x > 4.2) + 0.3 * generator.normal(size=40)}
    for loss in ("mse", "mae"):
        places = set[float]()
        for model in (
            "y ~ a + b*(x > k)",
            "y ~ where(x < k, a, c)",
            "y ~ a + b*heaviside(x - k)",
            "y ~ a - b*(k >= x)",
        ):
            found = fit(model, data, loss=loss)
            place = found.parameters["k"]
            low, high = x[x < place].max(), x[x > place].min()
            assert place == low / 2 + high / 2
            assert f"any `k` between {low:.6g} and {high:.6g} fits equally well; the middle is reported" in found.notes
            places.add(place)
        assert len(places) == 1
    bounded = fit("y ~ a + b*(x > k)", data, bounds={"k": (low, low + 0.1 * (high - low))})
    assert low <= bounded.parameters["k"] <= low + 0.1 * (high - low)
    assert not [note for note in bounded.notes if "the middle" in note]


def test_the_sentence_names_what_was_changed() -> None:
    objective = Objective("y ~ a*sin(w*x + p)", {"x": X, "y": X})
    _, notes = canonical_parameters(objective, np.array([-2, -3, 0.5]))
    assert notes[0].startswith("the signs of `a`, `w`")
    _, notes = canonical_parameters(objective, np.array([2, 3, 0.5 + 2 * TURN]))
    assert notes == ["values within half a turn of 0 are reported for `p`; whole turns change nothing"]
    given = Objective("y ~ a*exp(-((x - m)/w)^2)", {"x": X, "y": X}, start={"w": -2})
    kept, notes = canonical_parameters(given, np.array([2, 4, -1.5]))
    assert (kept.tolist(), notes) == ([2, 4, -1.5], [])
    turned, notes = canonical_parameters(given, np.array([2, 4, 1.5]))
    assert (turned.tolist(), len(notes)) == ([2, 4, -1.5], 1)


PEAKS = "y ~ a*exp(-((x - m)/v)^2) + b*exp(-((x - n)/w)^2) + c*exp(-x)"
MIXTURE = "-log(u*normal_pdf(y, m, s) + v*normal_pdf(y, n, t) + (1 - u - v)*normal_pdf(y, o, r))"


def test_terms_are_in_the_order_of_their_first_parameter() -> None:
    objective = Objective(PEAKS, {"x": X, "y": X})
    names = objective.parameters
    point = {"a": 2.0, "m": 4.0, "v": 1.0, "b": 3.0, "n": 7.0, "w": 1.5, "c": 0.5}
    other = {"a": 3.0, "m": 7.0, "v": 1.5, "b": 2.0, "n": 4.0, "w": 1.0, "c": 0.5}
    both = np.array([[each_of[name] for name in names] for each_of in (point, other)])
    ordered = order_terms(objective, both)
    assert ordered.tolist() == [both[0].tolist()] * 2
    given = Objective(PEAKS, {"x": X, "y": X}, start={"m": 9, "n": 2})  # the user's order is that of the starts
    assert order_terms(given, both).tolist() == [both[1].tolist()] * 2
    one_given = Objective(PEAKS, {"x": X, "y": X}, start={"m": 9})
    assert order_terms(one_given, both).tolist() == both.tolist()
    bounded = Objective(PEAKS, {"x": X, "y": X}, bounds={"m": (0, 5)})
    assert order_terms(bounded, both[:1]).tolist() == both[:1].tolist()
    plain = Objective("y ~ a*exp(-b*x) + c", {"x": X, "y": X})
    assert order_terms(plain, np.array([[1.0, 2, 3]])).tolist() == [[1, 2, 3]]


def test_components_of_mixtures_are_in_the_order_of_their_means_with_their_shares() -> None:
    objective = Objective(MIXTURE, {"y": X}, likelihood=True)
    components = {"first": (0.2, 1.0, 0.5), "second": (0.5, 4.0, 0.6), "third": (0.3, 8.0, 0.7)}

    def point(*order: str) -> list[float]:
        (u, m, s), (v, n, t), (_, o, r) = (components[name] for name in order)
        values = {"u": u, "v": v, "m": m, "s": s, "n": n, "t": t, "o": o, "r": r}
        return [values[name] for name in objective.parameters]

    theta = np.array(
        [point("first", "second", "third"), point("third", "first", "second"), point("second", "third", "first")]
    )
    ordered = order_terms(objective, theta)
    losses = [objective.value(each_of) for each_of in (*theta, *ordered)]
    assert losses == pytest.approx([losses[0]] * 6, rel=1e-12)
    np.testing.assert_allclose(ordered, np.tile(theta[0], (3, 1)), rtol=1e-12)


@each("seed", [18, 20, 25, 39], quick=lambda seed: seed in (20, 39))
def test_parameters_at_a_flat_end_of_a_link_keep_their_loss(seed: int) -> None:
    """A sigmoid that separates the rows is best at infinity, where more than the columns' own directions seem flat."""
    generator = np.random.default_rng(seed)
    data = {"x": generator.normal(size=20) * 10 ** generator.uniform(-1, 1)}
    data |= {name: generator.normal(size=20) for name in ("u", "v")}
    data["y"] = (data["x"] * generator.normal() + data["u"] * generator.normal() > 0).astype(float)
    assert fit("y ~ sigmoid(a*x + b*u + c*v)", data).loss < 1e-12


@pytest.mark.parametrize("unit_of_x", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("unit_of_y", [1e-8, 1.0, 1e5])
def test_collinear_columns_in_any_unit_have_the_shortest_parameters(unit_of_x: float, unit_of_y: float) -> None:
    """The default starts are 1, which is far from the parameters in most of these units."""
    generator = np.random.default_rng(4)
    x = generator.uniform(0, 1, (9, 3))
    y = unit_of_y * (x @ [2, -1, 0.5] + generator.normal(0, 0.1, 9))
    columns = {name: unit_of_x * x[:, k] for name, k in {"u": 0, "v": 1, "w": 2, "again": 0}.items()}
    found = fit("y ~ i + a*u + b*v + c*w + d*again", {**columns, "y": y})
    expected = np.linalg.lstsq(np.column_stack([np.ones(9), x]), y, rcond=None)[0]
    expected[1:] /= unit_of_x
    assert found.converged
    i, a, b, c, d = found.parameters.values()
    assert [i, 2 * a, b, c] == pytest.approx(expected, rel=1e-6)
    assert d == pytest.approx(a, rel=1e-6)


@each("rows", [3, 5])
@each("weights", [[1, 2, 1], [2, 1, 0]])
def test_shortest_parameters_do_not_depend_on_rows_of_weight_0_or_on_residuals(rows: int, weights: list[int]) -> None:
    """With 3 rows, or fewer of a weight, the fit is exact: it has no residual variance."""
    w = np.array([*weights, 1, 1][:rows])
    x, z = np.array([1.0, 2, 4, 3, 5])[:rows], np.array([2.0, 4, 7, 6, 10])[:rows]
    y = np.array([1.1, 2.3, 3.8, 3.1, 5.2])[:rows]
    columns = {"y": y, "x": x, "z": z, "v": x + z}
    found = fit("y ~ a + b*x + c*z + d*v", columns | {"w": w}, weights="w")
    root = np.sqrt(w)[:, None]
    shortest = np.linalg.pinv(root * np.array([np.ones(rows), x, z, x + z]).T) @ (root[:, 0] * y)
    assert [*found.parameters.values()] == pytest.approx(shortest.tolist(), abs=1e-9)
    assert any("those with the least sum of squares are reported" in note for note in found.notes)
