"""The bootstrap is reproducible by its seed and agrees with theory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import inference
from autodiff_cli.training.fitting.fit import Interrupted
from autodiff_cli.training.fitting.inference import BootstrapFits, bootstrap_fits
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.options import FitOptions
from tests.each import each

GENERATOR = np.random.default_rng(3)
X = np.linspace(0, 4, 200)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.1 + 0.05 * GENERATOR.standard_normal(len(X))}
MODEL = "y ~ a*exp(-b*x) + c"


def test_the_same_seed_gives_the_same_intervals_and_another_others() -> None:
    one, again, other = (ad.fit(MODEL, DATA, bootstrap=20, seed=seed).intervals["bootstrap"] for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_with_equal_errors_the_ends_are_near_those_of_the_standard_errors() -> None:
    found = ad.fit(MODEL, DATA, bootstrap=400, derive=["half = ln(2)/b"])
    for name, (low, high) in found.confidence().items():
        ends = found.intervals["bootstrap"][name]
        assert ends[1] - ends[0] == pytest.approx(high - low, rel=0.5)
        assert ends[0] < found.estimate(name)[0] < ends[1]
    low, high = found.intervals["bootstrap"]["b"]
    # ln(2)/b decreases with b, so its percentiles are the reversed ones of b, except for interpolation.
    assert found.intervals["bootstrap"]["half"] == pytest.approx((math.log(2) / high, math.log(2) / low), rel=1e-4)


def test_the_mean_has_the_percentiles_of_resampled_means() -> None:
    y = np.random.default_rng(5).exponential(size=40)
    found = ad.fit("y ~ m", {"y": y}, bootstrap=2000, confidence=0.8)
    means = np.random.default_rng(6).choice(y, (20000, len(y))).mean(axis=1)
    assert found.intervals["bootstrap"]["m"] == pytest.approx(tuple(np.quantile(means, (0.1, 0.9))), rel=0.02)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("options", [{"loss": "huber"}, {"loss": "mae"}, {"optimizer": "lbfgs"}, {"l1": 0.01}])
def test_other_losses_have_them_too(options: dict[str, Any]) -> None:
    found = ad.fit(MODEL, DATA, bootstrap=10, **options)
    scale = found.scale
    assert all(low < high for low, high in found.intervals["bootstrap"].values())
    assert (
        found.scale == scale == ad.fit(MODEL, DATA, **options).scale
    )  # resampling does not change the scale of the fit


def test_arrays_have_arrays() -> None:
    found = ad.fit("y ~ dot(w, [x, z])", {**DATA, "z": X**2}, bootstrap=10)
    low, high = found.intervals["bootstrap"]["w"]
    assert low.shape == high.shape == (2,)


def test_few_and_failed_resamples_are_reported() -> None:
    found = ad.fit(MODEL, DATA, bootstrap=10)
    assert found.warnings == ["10 resamples are too few for reliable 95 % intervals; use --bootstrap 200 or more"]
    with pytest.raises(OptionError, match="at least 2 resamples, not 1"):
        ad.fit(MODEL, DATA, bootstrap=1)
    with pytest.raises(OptionError, match="network"):
        ad.fit("y ~ mlp(x, [2], tanh)", DATA, bootstrap=10)


def test_bca_intervals_say_which_fits_their_correction_lacks() -> None:
    generator, kind = np.random.default_rng(3), np.array(["u"] * 11 + ["v"])
    data = {"y": generator.normal(2, 1, 12), "kind": kind}
    options: dict[str, Any] = {"bootstrap": 60, "bootstrap_method": "bca", "no_columns": True}
    lost = "1 of 12 fits, each without a row, failed; bca intervals correct for skewness without them"
    assert lost in ad.fit("y ~ a[kind]", data, **options).warnings  # without the last row there is no a[v]
    assert not [text for text in ad.fit("y ~ a", data, **options).warnings if "skewness" in text]


@pytest.mark.slow
@each("method", ["percentile", "bca"])
def test_what_the_data_do_not_determine_has_no_interval(method: str) -> None:
    """The ends of resamples are where they started, which looks like certainty."""
    data = {"x": X[::10], "y": DATA["y"][::10]}
    found = ad.fit(
        "y ~ (p + q)*exp(-b*x) + r*0", data, bootstrap=30, bootstrap_method=method, derive=["s = p + q", "d = p - q"]
    )
    ends = found.intervals["bootstrap"]
    assert [name for name in ends if ends[name] is None] == ["p", "q", "r", "d"]
    assert [name for name in found.stderr if found.stderr[name] is None] == ["p", "q", "r"]
    bounded = ad.fit("y ~ a*exp(-b*x)", data, bootstrap=30, bootstrap_method=method, bounds={"b": (None, 0.5)})
    assert bounded.stderr["b"] is None
    assert bounded.intervals["bootstrap"]["a"] is not None


UNDETERMINED: list[tuple[str, dict[str, Any]]] = [
    ("y ~ a*b*exp(-x)", {}),
    ("y ~ a*b*exp(-x)", {"loss": "mae"}),
    ("y ~ a*b*exp(-x)", {"loss": "huber", "bootstrap_method": "bca"}),
    ("y ~ (a + b)*exp(-x)", {"sigma": 0.1, "absolute_sigma": True}),
    ("n ~ exp(a*b - x)", {"family": "poisson"}),
    ("n ~ exp(a + b - x)", {"family": "quasipoisson"}),
]


@pytest.mark.parametrize(("model", "options"), UNDETERMINED, ids=str)
def test_if_nothing_is_determined_nothing_has_an_interval(model: str, options: dict[str, Any]) -> None:
    data = {name: values[:40] for name, values in DATA.items()}
    found = ad.fit(model, {**data, "n": np.round(9 * np.abs(data["y"]))}, bootstrap=10, **options)
    assert found.intervals["bootstrap"] == {"a": None, "b": None}


@pytest.mark.parametrize("options", [{}, {"loss": "huber"}, {"weights": "w"}, {"family": "quasipoisson"}], ids=str)
@each("model", ["y ~ a*x", "y ~ a + b*x"])
def test_rows_as_few_as_parameters_have_no_interval(model: str, options: dict[str, Any]) -> None:
    rows = model.count("+") + 1
    data = {"x": [1, 3, 4][:rows], "y": [2, 5, 3][:rows], "w": [1, 2, 3][:rows]}
    for method in ("percentile", "bca"):
        found = ad.fit(model, data, bootstrap=10, bootstrap_method=method, **options)
        assert {*found.intervals["bootstrap"].values()} == {None}


@pytest.mark.slow
def test_corrected_intervals_are_those_of_scipy() -> None:
    y = np.random.default_rng(0).exponential(2, 40)
    options: dict[str, Any] = {"bootstrap": 2000, "no_columns": True, "derive": {"b": "a^2"}}
    found = ad.fit("y ~ a", {"y": y}, bootstrap_method="bca", **options).intervals["bootstrap"]
    generator = np.random.default_rng(1)
    theirs = stats.bootstrap((y,), np.mean, n_resamples=5000, method="BCa", rng=generator).confidence_interval
    assert found["a"] == pytest.approx(theirs, abs=0.1)
    assert found["b"] == pytest.approx(np.square(theirs), abs=0.4)  # percentiles of b are the squares of those of a
    plain = ad.fit("y ~ a", {"y": y}, **options).intervals["bootstrap"]
    assert plain["a"][1] < found["a"][1] - 0.1  # the distribution is skewed to the right


def test_a_method_needs_the_number_of_resamples() -> None:
    with pytest.raises(OptionError, match="bootstrap_method needs bootstrap"):
        ad.fit(MODEL, DATA, bootstrap_method="bca")


@pytest.mark.slow
def test_resamples_of_a_loss_with_kinks_end_at_minima_as_the_fit_does() -> None:
    """A quantile has its minimum at a kink, where no step goes down and the slope is not 0."""
    generator = np.random.default_rng(0)
    x = np.linspace(0, 3, 40)
    data = {"x": x, "y": 2 + x + generator.normal(size=40)}
    found = ad.fit("max(0.7*(y - a - b*x), -0.3*(y - a - b*x))", data, bootstrap=40)
    assert found.converged
    low, high = found.intervals["bootstrap"]["b"]
    assert low < found.parameters["b"] < high


@each("decimals", [9, 0])
def test_corrected_shares_are_those_of_efron_and_tibshirani(decimals: int) -> None:
    """Equations 14.10, 14.14 and 14.15 of their book, for a skewed statistic. Of resamples that are equal to the
    estimate, as those of medians are, half count as below."""
    generator = np.random.default_rng(4)
    values, jackknife = generator.gamma(2, size=(500, 1)).round(decimals), generator.gamma(3, size=(30, 1))
    estimate = np.array([1.9]).round(decimals)
    bias = stats.norm.ppf(stats.percentileofscore(values[:, 0], estimate[0], "mean") / 100)
    centred = jackknife.mean() - jackknife
    acceleration = np.sum(centred**3) / (6 * np.sum(centred**2) ** 1.5)
    shifted = bias + stats.norm.ppf([0.05, 0.95])
    theirs = stats.norm.cdf(bias + shifted / (1 - acceleration * shifted))
    found = BootstrapFits(values, jackknife).intervals(lambda theta: theta, estimate, 0.9)
    assert np.ravel(found) == pytest.approx(np.quantile(values, theirs), rel=1e-9)


def mean_bca(y: np.ndarray, seed: int) -> np.ndarray:
    """Return the 95 % BCa interval of the mean from 300 resamples by Efron & Tibshirani's equations 14.10 to 14.15."""
    generator, n = np.random.default_rng(seed), len(y)
    gaps = np.array([y[generator.integers(n, size=n)].mean() for _ in range(300)]) - y.mean()
    bias = stats.norm.ppf(np.mean(np.where(np.abs(gaps) < 1e-9, 0.5, gaps < 0)))
    shifted = bias + stats.norm.ppf([0.025, 0.975])
    acceleration = stats.skew(y) / (6 * math.sqrt(n))  # what the jackknife of a mean gives
    return y.mean() + np.quantile(gaps, stats.norm.cdf(bias + shifted / (1 - acceleration * shifted)))


def test_corrected_intervals_count_resamples_that_differ_by_rounding_as_equal() -> None:
    """Means of rounded values often equal the estimate, but for the last digit of their sums."""
    for seed in range(12):
        generator = np.random.default_rng(seed)
        y = generator.poisson(2, size=generator.integers(10, 30)) / 10
        found = ad.fit("y ~ m", {"y": y}, bootstrap=300, bootstrap_method="bca", seed=seed)
        assert found.intervals["bootstrap"]["m"] == pytest.approx(tuple(mean_bca(y, seed)), rel=1e-9)


def test_corrected_intervals_do_not_depend_on_the_order_of_the_rows() -> None:
    """Many rows are left out in blocks. Blocks of neighbours differ far more than the rows do if these are sorted."""
    y = np.sort(np.random.default_rng(1).exponential(size=3000) ** 2)
    found = ad.fit("y ~ m", {"y": y}, bootstrap=300, bootstrap_method="bca").intervals["bootstrap"]["m"]
    spread = y.std() / math.sqrt(len(y))
    assert found == pytest.approx(tuple(mean_bca(y, 0)), abs=0.03 * spread)


def test_intervals_of_few_resamples() -> None:
    """A single one has percentiles, and nothing that a correction of their bias could be estimated from."""
    values, jackknife, estimate = np.array([[2.0]]), np.array([[1.0], [2.0], [4.0]]), np.array([3.0])
    for thetas, fits, wanted in (
        (values, None, 2.0),
        (values, jackknife, math.nan),
        (values[:0], None, math.nan),
        (values[:0], jackknife, math.nan),
    ):
        found = BootstrapFits(thetas, fits).intervals(lambda theta: theta, estimate, 0.9)
        np.testing.assert_array_equal(np.ravel(found), [wanted, wanted])


@pytest.mark.parametrize(
    ("text", "words"), [("q = [a, 1] + [1, 2, 3]", "shapes 2 and 3 do not fit together"), ("q = [a, 1]", "is a number")]
)
def test_a_derived_quantity_is_a_number(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.1]}, derive=text)


def test_a_product_that_is_determined_has_the_interval_of_the_parameter_that_it_stands_for() -> None:
    x, generator = np.linspace(0, 3, 12), np.random.default_rng(0)
    data = {"x": x, "y": 1.5 * x + 0.4 + 0.2 * generator.normal(size=12)}
    found, plain = (
        ad.fit(f"y ~ {slope}*x + c", data, bootstrap=20, derive={**quantities, "q": "2*c"}, start={"c": 1}).intervals
        for slope, quantities in (("a*b", {"p": "a*b", "s": "a + b"}), ("p", {}))
    )
    assert all(found["bootstrap"][name] is None for name in ("a", "b", "s"))
    for name in ("c", "p", "q"):
        assert found["bootstrap"][name] == pytest.approx(plain["bootstrap"][name], rel=1e-6)


def test_a_derived_quantity_of_arrays_of_other_shapes_is_refused() -> None:
    with pytest.raises(ExpressionError, match="dot"):
        ad.fit("y ~ dot(v, [x, 1])", {"x": [1, 2, 3], "y": [2, 4, 6.1]}, derive="q = dot(v, [1, 2, 3])")


@pytest.mark.parametrize("options", [{"bootstrap": 20}, {"profile": True}], ids=str)
def test_an_interruption_of_intervals_keeps_the_fit(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    data = {"x": X, "y": DATA["y"]}
    monkeypatch.setattr(inference, "bootstrap_fits", interrupt)
    monkeypatch.setattr(inference, "profile_intervals", interrupt)
    with pytest.raises(Interrupted) as caught:
        ad.fit(MODEL, data, **options)
    assert caught.value.fit.parameters == ad.fit(MODEL, data).parameters


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_values_of_both_signs_are_found_although_infinity_lies_between_them(seed: int) -> None:
    """For nearly straight data, `a` and `c` of `a*exp(b*x) + c` pass through infinity where `b` passes through 0. With
    `b` fixed the model is linear, so the best fit of each resample is found among many `b`."""
    x = np.arange(1.0, 10.0)
    generator = np.random.default_rng(seed)
    y = np.round(1 + 2 * x + generator.normal(size=9) * 0.15, 1)
    sizes = np.geomspace(1e-6, 0.3, 100)
    designs = [(b, np.column_stack((np.expm1(b * x) / b, np.ones(9)))) for b in (*-sizes, *sizes)]

    def best(rows: np.ndarray) -> float:
        fits = [(b, design[rows], np.linalg.lstsq(design[rows], y[rows])[0]) for b, design in designs]
        return min(fits, key=lambda fit: np.sum(np.square(fit[1] @ fit[2] - y[rows])))[0]

    exact = [best(generator.integers(9, size=9)) for _ in range(200)]
    data = {"x": x, "y": y}
    theta = np.array([*ad.fit("y ~ a*exp(b*x) + c", data).parameters.values()])
    found = bootstrap_fits(ad.Objective("y ~ a*exp(b*x) + c", data), theta, 200, FitOptions()).thetas[:, 1]
    assert len(found) >= 180
    assert np.mean(found < 0) == pytest.approx(np.mean(np.array(exact) < 0), abs=0.12)


def test_resamples_whose_likelihood_has_no_maximum_do_not_count() -> None:
    x, passed = np.arange(1.0, 11), [0, 0, 1, 0, 1, 0, 1, 1, 1, 1]  # a quarter of the resamples are separated
    found = ad.fit("passed ~ sigmoid(a + b*x)", {"x": x, "passed": passed}, loss="bce", bootstrap=100)
    assert found.intervals["bootstrap"]["b"][1] < 5  # where a separated resample ends depends on the method alone
    (warning,) = [each for each in found.warnings if "resamples could not be fitted" in each]
    assert warning.endswith("were ignored; the intervals may be too narrow")


@pytest.mark.parametrize("model", ["y ~ a[g] + b*x", "y ~ a + c*(g == 'C') + d*(g == 'B') + b*x"])
@pytest.mark.parametrize(("size", "loss"), [(1, "mse"), pytest.param(2, "mse", marks=pytest.mark.slow), (2, "huber")])
def test_resamples_without_rows_of_a_level_do_not_count(model: str, size: int, loss: str) -> None:
    """They do not determine its parameter, so where it ends in them depends on the start alone."""
    generator = np.random.default_rng(0)
    labels, x = np.array(["A"] * 9 + ["B"] * 9 + ["C"] * size), generator.normal(size=18 + size)
    y = 1 + 2 * x + 0.5 * generator.normal(size=len(x))
    found = ad.fit(model, {"x": x, "g": labels, "y": y}, bootstrap=200, derive={"twice": "2*b"}, loss=loss)
    draws, chosen = np.random.default_rng(0), []
    for _ in range(200):
        rows = draws.integers(len(x), size=len(x))
        if "C" in labels[rows]:
            design = np.column_stack([*(labels[rows] == label for label in "ABC"), x[rows]])
            chosen.append(np.linalg.lstsq(design, y[rows])[0])
    name, column = ("a[C]", 2) if "[" in model else ("b", 3)
    if loss == "mse":
        expected = np.quantile(np.array(chosen)[:, column], (0.025, 0.975))
        assert found.intervals["bootstrap"][name] == pytest.approx(tuple(expected), rel=1e-6)
    for key, (low, high) in found.intervals["bootstrap"].items():
        assert high - low < 3, key
    ignored = f"{200 - len(chosen)} of 200 bootstrap resamples could not be fitted and were ignored"
    assert any(warning.startswith(ignored) for warning in found.warnings)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ a + b*x", {}),
        ("y ~ a + b*x", {"weights": "one"}),
        ("y ~ a + b*x", {"backend": "numpy", "optimizer": "lbfgs"}),
        ("(y - a - b*x)^2 + 0*s", {}),
        ("-normal_logpdf(y, a + b*x, s)", {"likelihood": True, "bounds": {"s": (0, None)}}),
        ("log(exp(y)) ~ log(exp(a)*exp(b*x))", {}),
    ],
    ids=str,
)
def test_resamples_with_one_value_of_the_predictor_do_not_count(model: str, options: dict[str, Any]) -> None:
    """A line through rows at one place has any slope."""
    x, y = np.array([1.0] * 5 + [2] * 3), np.array([0.7, 1.2, 1.1, 0.6, 1.3, 2.4, 1.9, 2.2])
    found = ad.fit(model, {"x": x, "y": y, "one": np.ones(8)}, bootstrap=200, seed=3, **options)
    draws, lines = np.random.default_rng(3), []
    for _ in range(200):
        rows = draws.integers(8, size=8)
        has_scatter = any(np.ptp(y[rows][x[rows] == place]) for place in {*x[rows].tolist()})
        if np.ptp(x[rows]) and (has_scatter or "logpdf" not in model):  # without scatter, `s` goes to 0
            lines.append(np.polyfit(x[rows], y[rows], 1)[::-1])
    assert len(lines) < 200
    ignored = f"{200 - len(lines)} of 200 bootstrap resamples could not be fitted and were ignored"
    assert any(warning.startswith(ignored) for warning in found.warnings)
    for name, ends in zip("ab", np.quantile(lines, (0.025, 0.975), axis=0).T, strict=True):
        assert found.intervals["bootstrap"][name] == pytest.approx(tuple(ends), rel=1e-5)


@pytest.mark.parametrize("failed", [0, 1, 2, 8, 9])
def test_resamples_that_fail_are_counted(failed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 resamples, 1 is the share beyond a limit of an interval of 87.5 %."""
    objective = ad.Objective("y ~ a*x", {"x": [1.0, 2, 3], "y": [1.0, 2.1, 2.9]})
    ends = [Outcome(np.array([float(k)]), k >= failed) for k in range(16)]
    monkeypatch.setattr(inference, "refit_rows", lambda *_: ends)
    found = bootstrap_fits(objective, np.ones(1), 16, FitOptions(confidence=0.875))
    left = [] if failed > 8 else [float(k) for k in range(failed, 16)]
    assert found.thetas.ravel().tolist() == left
    ignored = f"{failed} of 16 bootstrap resamples could not be fitted and were ignored"
    first = f"no bootstrap intervals: {failed} of 16 resamples could not be fitted" if not left else ignored
    narrow = "; the intervals may be too narrow" if left and failed > 1 else ""
    needed = math.ceil(80 * 16 / max(1, len(left)))
    few = f"16 resamples are too few for reliable 87.5 % intervals; use --bootstrap {needed} or more"
    assert found.warnings == [first + narrow][: bool(failed)] + [few][: bool(left)]


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_percentiles_of_any_number_of_resamples(count: int) -> None:
    thetas = np.random.default_rng(0).normal(size=(count, 2))
    low, high = BootstrapFits(thetas).intervals(lambda point: np.append(point, point.sum()), np.zeros(2), 0.8)
    values = np.column_stack((thetas, thetas.sum(axis=1)))
    wanted = np.quantile(values, (0.1, 0.9), axis=0) if count else np.full((2, 3), math.nan)
    np.testing.assert_allclose((low, high), wanted)


def test_losses_without_standard_errors_have_intervals_of_resamples() -> None:
    y = np.random.default_rng(1).exponential(size=15)
    found = ad.fit("y ~ m", {"y": y}, loss="mae", bootstrap=9, confidence=0.5)
    assert found.stderr["m"] is None
    low, high = found.intervals["bootstrap"]["m"]
    assert y.min() <= low < high <= y.max()


class Fits:
    """Outcomes in place of the fits of resamples, of which the first ones fail."""

    def __init__(self, failing: int) -> None:
        self.failing = failing

    def __call__(self, _objective: Any, theta: Any, selections: Any, _unknown: Any) -> list[Outcome]:
        return [Outcome(theta + k, k >= self.failing) for k, _ in enumerate(selections)]


@pytest.mark.parametrize(
    ("count", "failing", "level", "words"),
    [
        (400, 0, 0.95, []),
        (200, 0, 0.95, []),
        (199, 0, 0.95, ["199 resamples are too few for reliable 95 % intervals; use --bootstrap 200 or more"]),
        (100, 0, 0.9, []),
        (50, 0, 0.8, []),
        (334, 0, 0.97, []),
        (333, 0, 0.97, ["333 resamples are too few for reliable 97 % intervals; use --bootstrap 334 or more"]),
        (
            80,
            40,
            0.8,
            [
                "40 of 80 bootstrap resamples could not be fitted and were ignored; the intervals may be too narrow",
                "80 resamples are too few for reliable 80 % intervals; use --bootstrap 100 or more",
            ],
        ),
        (99, 0, 0.9, ["99 resamples are too few for reliable 90 % intervals; use --bootstrap 100 or more"]),
        (400, 10, 0.95, ["10 of 400 bootstrap resamples could not be fitted and were ignored"]),
        (
            400,
            11,
            0.95,
            ["11 of 400 bootstrap resamples could not be fitted and were ignored; the intervals may be too narrow"],
        ),
        (
            400,
            200,
            0.9,
            ["200 of 400 bootstrap resamples could not be fitted and were ignored; the intervals may be too narrow"],
        ),
        (400, 201, 0.9, ["no bootstrap intervals: 201 of 400 resamples could not be fitted"]),
    ],
)
def test_resamples_are_judged_by_their_number(
    count: int, failing: int, level: float, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "refit_rows", Fits(failing))
    objective = ad.Objective("y ~ m", {"y": np.arange(5.0)})
    found = bootstrap_fits(objective, np.zeros(1), count, FitOptions(bootstrap=count, confidence=level))
    assert found.warnings == words
    assert len(found.thetas) == (count - failing if failing <= count / 2 else 0)
    assert found.jackknife is None
    corrected = FitOptions(bootstrap=count, confidence=level, bootstrap_method="bca")
    left_out = bootstrap_fits(objective, np.zeros(1), count, corrected).jackknife
    assert left_out is not None
    assert len(left_out) == max(5 - failing, 0)


def test_rows_are_drawn_with_replacement_as_often_as_there_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = inference._draw_row_counts(np.random.default_rng(0), 1000)
    assert counts.sum() == 1000
    assert np.mean(counts == 0) == pytest.approx(math.exp(-1), abs=0.04)
    monkeypatch.setattr(inference, "BOOTSTRAP", inference.BootstrapSettings(draw_rows=64))
    assert inference._draw_row_counts(np.random.default_rng(0), 1000).sum() == 1000
