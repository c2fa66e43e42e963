"""The Python API of fits: whatever makes one, it is a public `Fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autodiff_cli import parse
from autodiff_cli.fitting import Fit, compare, fit, fit_by, load
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.fit import Interrupted
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FigureOptions
from tests.each import each

MODEL = "y ~ a*exp(-b*x) + c"
X = np.linspace(0, 4, 40)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.1 + 0.01 * np.sin(99 * X)}


@each("optimizer", ["lm", "lbfgs", "adam"])
def test_an_interruption_keeps_the_best_parameters(optimizer: str) -> None:
    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        fit(MODEL, DATA, optimizer=optimizer, on_epoch=interrupt)
    found = caught.value.fit
    assert isinstance(found, Fit)
    assert found.failure == "interrupted"
    assert len(found.history) == 4
    assert found.loss == pytest.approx(min(record["loss"] for record in found.history), rel=1e-13)


def saved(path: Path) -> Fit:
    fit(MODEL, DATA).save(path)
    return load(path)


WAYS: dict[str, Callable[[Path], object]] = {
    "fit": lambda path: fit(MODEL, DATA),
    "fit_by": lambda path: fit_by(MODEL, {**DATA, "group": ["one"] * 40}, "group")["one"],
    "compare": lambda path: compare([MODEL, "y ~ a"], DATA).models[0].fit,
    "load": lambda path: saved(path / "model.json"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_fit_is_a_public_one_that_predicts(way: str, tmp_path: Path) -> None:
    found = WAYS[way](tmp_path)
    assert isinstance(found, Fit)
    assert found.predict({"x": X}) == pytest.approx(DATA["y"], abs=0.02)


def test_methods_pass_on_what_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 5.9]})
    assert "rss = 0.0193\n" in found.summary(3)
    assert "rss = 0.0192857\n" in found.summary()
    for digits in (0, 18, 2.5, "3"):
        with pytest.raises(OptionError, match=r"digits (must be from 1 to 17|is a whole number), not"):
            found.summary(digits)  # type: ignore[arg-type]
    drawn: list[FigureOptions] = []
    monkeypatch.setattr("autodiff_cli.render.plots.save_plot", lambda _fits, _path, options: drawn.append(options))
    found.save_plot(tmp_path / "fit.svg", log="x", panels="data")
    assert drawn == [FigureOptions(log="x", panels="data")]


@each("method", ["solve", "minimize", "maximize"])
def test_searches_take_a_limit_and_digits(method: str) -> None:
    search = getattr(parse("x^4 - 3*x^2 + x"), method)
    assert not search(x=(-2, 2), max_boxes=3).complete
    found = search(x=(-2, 2), precision=20)
    points = found.roots if method == "solve" else found.points
    assert max(len(point.point["x"]) for point in points) > 18
