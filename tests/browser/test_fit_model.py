"""What the page of a fit shows after any actions is what a fit in Python gives, and what NumPy makes of its parameters.

Charts are read as people read them: places in pixels become numbers by the numbers along the axes.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlencode

import numpy as np
import pytest

import autodiff_cli as ad
from tests.browser.support import resize, wait_for_layout, wait_until
from tests.browser.test_page_model import CONDITIONS, Computed, Model, Reader, g, walk
from tests.each import amount
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

FIT_STATE = Path(__file__).with_name("fit_state.js").read_text(encoding="utf-8")
MIDDLE: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
NO_ROW = ["0", "-1", "2.5", "", "999", "1e9"]

rng = np.random.default_rng(3)
X, Z, W = rng.normal(size=(3, 14)).round(3)
DATA: dict[str, Any] = {
    "x": X,
    "z": Z,
    "w": W,
    "y": (2 * np.exp(-X) + 0.1 * W).round(4),
    "u": (X * Z + W).round(4),
    "n": np.array([0, 3, 1, 0, 2, 5, 1, 0, 0, 4, 2, 1, 7, 1]),
    "c": (X * Z > 0) + 0,
    "kind": np.array([*"abcabbcacbacab"]),
}
MANY = [f"k{k}" for k in range(30)]


def layers(p: dict[str, Any], columns: Sequence[Any], activation: str, name: str) -> list[Any]:
    """The output of every layer of a network, a row for each row of the data; the last one is the result."""
    outputs = [np.stack([np.asarray(column, float) for column in columns], axis=-1)]
    names = sorted(key.removesuffix(".weight") for key in p if key.startswith(name) and key.endswith("weight"))
    for k, layer in enumerate(names):
        score = outputs[-1] @ np.asarray(p[f"{layer}.weight"]).T + p[f"{layer}.bias"]
        outputs.append(MIDDLE[activation](score) if k < len(names) - 1 else score)
    return outputs[1:]


def softmax(score: Any) -> Any:
    parts = np.exp(score - score.max(axis=-1, keepdims=True))
    return parts / parts.sum(axis=-1, keepdims=True)


class Case(NamedTuple):
    """A model, its options, and its prediction in NumPy; `kind` is the loss of a row, and `picture` what is drawn."""

    text: str
    options: dict[str, Any]
    predict: Callable[[dict[str, Any], dict[str, Any], str], Any]
    picture: str
    kind: str = "mse"
    copies: int = 1  # of the rows; a page shows at most 500
    layers: Callable[[dict[str, Any], dict[str, Any], str], list[Any]] | None = None


def _flat(name: str, columns: str, activation: str = "") -> Callable[..., Any]:
    return lambda p, r, act="": layers(p, [r[key] for key in columns.split()], act or activation, name)


ADAM = {"optimizer": "adam", "learning_rate": 0.1}
CASES = {
    "decay": Case(
        "y ~ a*exp(-b*x)",
        ADAM | {"epochs": 12, "validation": 0.25},
        lambda p, r, _: p["a"] * np.exp(-p["b"] * r["x"]),
        "curve",
    ),
    "levels": Case(
        "y ~ a[kind] + b*x + 0*c1",
        {"optimizer": "lm", "fixed": {"c1": 2}},
        lambda p, r, _: np.array([p[f"a[{kind}]"] for kind in np.atleast_1d(r["kind"])]) + p["b"] * r["x"],
        "curve",
    ),
    "counts": Case(
        "n ~ exp(a + b*x)",
        {"family": "poisson", "optimizer": "sgd", "learning_rate": 0.02, "epochs": 700},
        lambda p, r, _: np.exp(p["a"] + p["b"] * r["x"]),
        "curve",
        "poisson",
        45,
    ),
    "many": Case(
        f"u ~ {' + '.join(f'{name}*sin({k + 1}*x)' for k, name in enumerate(MANY))} + a*z",
        ADAM | {"epochs": 5},
        lambda p, r, _: sum(p[name] * np.sin((k + 1) * r["x"]) for k, name in enumerate(MANY)) + p["a"] * r["z"],
        "against",
    ),
    "regions": Case(
        "c ~ sigmoid(mlp([x, z], [3], tanh))",
        ADAM | {"family": "binomial", "epochs": 6},
        lambda p, r, act: 1 / (1 + np.exp(-_flat("mlp", "x z", "tanh")(p, r, act)[-1][..., 0])),
        "regions",
        "bce",
        1,
        _flat("mlp", "x z", "tanh"),
    ),
    "kinds": Case(
        "kind ~ softmax(mlp([x, z], [3, 2], relu))",
        ADAM | {"epochs": 6},
        lambda p, r, act: softmax(_flat("mlp", "x z", "relu")(p, r, act)[-1]),
        "regions",
        "classes",
        1,
        _flat("mlp", "x z", "relu"),
    ),
    "shares": Case(
        "kind ~ softmax(dense([x, z, w], 3))",
        ADAM | {"epochs": 6},
        lambda p, r, _: softmax(_flat("dense", "x z w")(p, r)[-1]),
        "shares",
        "classes",
        1,
        _flat("dense", "x z w"),
    ),
    "two": Case(
        "[y, u] ~ mlp(x, [3], tanh)",
        ADAM | {"epochs": 4},
        lambda p, r, act: _flat("mlp", "x", "tanh")(p, r, act)[-1],
        "none",
        "mse",
        1,
        _flat("mlp", "x", "tanh"),
    ),
}


class Shown(NamedTuple):
    """An epoch."""

    number: int
    loss: float
    validation: float | None
    parameters: dict[str, Any]


def fitted(text: str, data: dict[str, Any], options: dict[str, Any]) -> tuple[Any, list[Shown]]:
    """A fit and its epochs, from Python."""
    seen: list[Any] = []
    fit = ad.fit(text, data, **options, on_epoch=seen.append)
    fixed = options.get("fixed", {})
    free = {name: x for name, x in fit.parameters.items() if name not in fixed}

    def parameters(theta: Any) -> dict[str, Any]:
        ends = np.cumsum([np.size(x) for x in free.values()])
        parts = np.split(np.array(theta), ends[:-1])
        arrays: dict[str, Any] = {
            name: part.reshape(np.shape(x)) for part, (name, x) in zip(parts, free.items(), strict=True)
        }
        return {**fixed, **{name: array if array.ndim else float(array) for name, array in arrays.items()}}

    return fit, [Shown(each.number, each.loss, each.validation_loss, parameters(each.theta)) for each in seen]


@functools.cache
def fit_of(name: str) -> tuple[Any, list[Shown]]:
    return fitted(CASES[name].text, all_rows(name), CASES[name].options)


def all_rows(name: str) -> dict[str, Any]:
    """The rows of a case; copies have another x."""
    shifts = np.repeat(np.arange(CASES[name].copies) / 50, len(X))
    return {key: np.tile(column, CASES[name].copies) + (shifts if key == "x" else 0) if key != "kind"
            else np.tile(column, CASES[name].copies) for key, column in DATA.items()}  # fmt: skip


class Chart:
    """A chart, read by the numbers along its axes."""

    def __init__(self, shown: dict[str, Any]) -> None:
        self.shapes = shown["shapes"]
        *across, name = [text for text in shown["texts"] if text.get("text-anchor") == "middle" and "x" in text]
        (title,) = [text for text in shown["texts"] if "transform" in text]
        upward = [text for text in shown["texts"] if text.get("text-anchor") == "end"]
        self.names, self.is_log = (name["words"], title["words"]), title["words"].endswith(", logarithmic")
        self.x = self._scale([(float(text["words"]), float(text["x"])) for text in across])
        height = np.log10 if self.is_log else float
        self.y = self._scale([(float(height(float(text["words"]))), float(text["y"]) - 4) for text in upward])

    @staticmethod
    def _scale(ticks: list[tuple[float, float]]) -> Any:
        assert len(ticks) >= 2
        numbers, pixels = zip(*ticks, strict=True)
        unit, start = np.polyfit(numbers, pixels, 1)
        assert np.allclose(start + unit * np.array(numbers), pixels, atol=0.6)
        return unit, start

    def at(self, x: Any, y: Any) -> Any:
        """Where a point is in pixels."""
        y = np.log10(y) if self.is_log else np.asarray(y, float)
        (a, b), (c, d) = self.x, self.y
        return np.stack(np.broadcast_arrays(b + a * np.asarray(x, float), d + c * y), axis=-1)

    def numbers(self, pixels: Any) -> tuple[Any, Any]:
        """The numbers at places in pixels."""
        (a, b), (c, d) = self.x, self.y
        return (pixels[..., 0] - b) / a, (pixels[..., 1] - d) / c

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [shape for shape in self.shapes if kind in shape.get("class", "").split()]

    def circles(self, kind: str) -> Any:
        return np.array([[float(shape["cx"]), float(shape["cy"])] for shape in self.of(kind)]).reshape(-1, 2)

    def path(self, kind: str) -> Any:
        (shape,) = self.of(kind)
        return np.array(re.findall(r"[ML](\S+) ([^\sML]+)", shape["d"]), float)

    def markers(self) -> Any:
        return np.array([re.findall(r"-?[\d.]+(?:e-?\d+)?", m["transform"])[:2] for m in self.of("marker")], float)


class FitModel:
    """The state of the part above the steps, and what it shows."""

    def __init__(self, name: str, numbers: list[int]) -> None:
        self.case, data = CASES[name], all_rows(name)
        self.fit, every = fit_of(name)
        assert (numbers[0], numbers[-1]) == (0, len(every) - 1)
        assert len(every) < 300 or len(numbers) > 150
        self.numbers = numbers  # of the epochs that the page has
        self.original = self.epochs = [every[k] for k in numbers]
        names = dict.fromkeys(re.findall(r"\w+", self.case.text))
        self.columns = [key for key in names if key in data]
        self.target = re.split(r" ~", self.case.text)[0]
        self.k, self.row, self.said = 0, "1", ""
        self.activation, self.is_other, self.digits = "", False, 1e-12
        self.step = "iteration" if self.fit.optimizer in ("lm", "lbfgs") else "epoch"
        self.count = len(data["x"])
        self.rows = np.unique(np.linspace(0, self.count - 1, min(self.count, 500)).round().astype(int))
        self.data = {key: column[self.rows] for key, column in data.items()}

    @property
    def shown(self) -> Shown:
        return self.epochs[self.k]

    @property
    def is_row(self) -> bool:
        return re.fullmatch(r"\d+", self.row) is not None and 1 <= int(self.row) <= self.count

    @property
    def selected(self) -> int:
        return int(np.argmin(np.abs(self.rows + 1 - int(self.row)))) if self.is_row else 0

    def row_of(self, k: int) -> dict[str, Any]:
        return {name: column[k : k + 1] for name, column in self.data.items()}

    def predictions(self, parameters: dict[str, Any], columns: dict[str, Any]) -> Any:
        return self.case.predict(parameters, columns, self.activation)

    def row_loss(self, parameters: dict[str, Any]) -> float:
        """The loss of the row that is shown, but for what depends on no parameter."""
        row = self.row_of(self.selected)
        found = self.predictions(parameters, row)[0]
        targets = [float(row[name][0]) for name in re.findall(r"\w+", self.target) if self.case.kind != "classes"]
        if self.case.kind == "mse":
            return float(np.sum((np.array(targets) - found) ** 2)) / (len(targets) if np.ndim(found) else 1)
        if self.case.kind == "poisson":
            return float(found - targets[0] * np.log(found))
        if self.case.kind == "bce":
            return float(-np.log(found if targets[0] else 1 - found))
        return float(-np.log(found[sorted({*self.data["kind"]}).index(row["kind"][0])]))

    def slopes(self) -> dict[str, Any]:
        """The gradient of the row's loss with respect to the free parameters, by central differences."""
        found: dict[str, Any] = {}
        for name, value in self.shown.parameters.items():
            slope = np.empty(np.shape(value))
            for at in np.ndindex(slope.shape):
                sides = []
                for step in (1e-6, -1e-6):
                    moved = np.array(value, float)
                    moved[at] += step
                    sides.append(self.row_loss(self.shown.parameters | {name: moved}))
                slope[at] = (sides[0] - sides[1]) / 2e-6
            found[name] = slope
        return found

    def check(self, shown: dict[str, Any]) -> None:
        last, epoch = len(self.epochs) - 1, self.shown
        text = f"{self.step} {epoch.number}, loss {g(epoch.loss)}"
        assert shown["epoch"][:4] == [str(self.k), str(last), f"{self.step} {epoch.number}", text]
        assert shown["epoch"][4:] == [last > 0, self.step.capitalize()]
        assert shown["buttons"] == [False, True]
        assert shown["said"] == self.said
        assert shown["isOther"] == [not self.is_other, self.is_other]
        self._check_row(shown["row"])
        slopes = self.slopes()
        self._check_parameters(shown["parameters"], slopes)
        pictures = shown["pictures"]
        assert pictures["chains-picture"]["isSeen"] == (shown["draw"] is not None)
        assert pictures["loss-picture"]["isSeen"] == (last > 0)
        self._check_losses(pictures["loss-picture"])
        fit = pictures["fit-picture"]
        assert fit["isSeen"] == (self.case.picture != "none")
        if fit["isSeen"]:
            getattr(self, f"_check_{self.case.picture}")(Chart(fit["charts"][0]), fit)
        assert pictures["network-picture"]["isSeen"] == (self.case.layers is not None)
        if self.case.layers is not None:
            self._check_network(pictures["network-picture"], slopes)

    def _check_row(self, shown: list[str]) -> None:
        typed, most, is_invalid, text = shown
        assert (typed, most, is_invalid) == (self.row, str(self.count), str(not self.is_row).lower())
        is_exact = self.is_row and int(typed) - 1 in self.rows
        wrong = f"row {self.rows[self.selected] + 1} is the nearest on this page: " * (self.is_row and not is_exact)
        wrong = wrong if self.is_row else f"rows are 1 to {self.count}; showing row 1: "
        assert text.startswith(wrong)
        cells = dict(cell.split(" = ") for cell in text.removeprefix(wrong).split(", "))
        row = {name: self.data[name][self.selected] for name in self.columns}
        assert cells == {name: str(x) if name == "kind" else g(x) for name, x in row.items()}

    def _check_parameters(self, shown: list[Any], slopes: dict[str, Any]) -> None:
        assert sorted(name for name, *_ in shown) == sorted(self.shown.parameters)
        for name, full, elements, text, title, said in shown:
            value = self.shown.parameters[name]
            assert np.asarray(json.loads(full)) == pytest.approx(np.asarray(value), rel=self.digits, abs=self.digits)
            number = np.asarray(json.loads(full))
            assert title == "×".join(map(str, number.shape))
            if number.ndim:
                wanted = [[f"{name}[{', '.join(map(str, at))}]", x] for at, x in np.ndenumerate(number)]
                assert [[label, float(x)] for label, x, _ in elements] == wanted
                assert [text for *_, text in elements] == [g(x, 3) for _, x in np.ndenumerate(number)]
            else:
                assert text == g(number)
            if name in self.case.options.get("fixed", {}):
                assert said == "fixed"
            else:
                found = said.removeprefix("this row's gradient ")
                self._check_slope(_array(found), slopes[name])

    @staticmethod
    def _check_slope(found: Any, slope: Any) -> None:
        scale = np.abs(slope).max() + 1e-3
        if found is None:  # a large array has its shape and range
            return
        assert np.asarray(found) == pytest.approx(slope, rel=1e-4, abs=1e-5 * scale)

    def _check_losses(self, figure: dict[str, Any]) -> None:
        if not figure["isSeen"]:
            return
        chart, epoch = Chart(figure["charts"][0]), self.shown
        assert chart.names == (self.step, "loss, logarithmic" if chart.is_log else "loss")
        numbers = [each.number for each in self.epochs]
        _close(chart.path("loss"), chart.at(numbers, [each.loss for each in self.epochs]))
        _close(chart.circles("here"), chart.at([epoch.number], [epoch.loss]))
        held_out = [each.validation for each in self.epochs]
        assert len(chart.of("validation")) == (held_out[0] is not None)
        words = f"loss {g(epoch.loss)}"
        if held_out[0] is not None:
            _close(chart.path("validation"), chart.at(numbers, held_out))
            words += f"; dashed: held-out rows, {g(epoch.validation)}"
        assert figure["caption"] == words

    def _check_curve(self, chart: Chart, figure: dict[str, Any]) -> None:
        (predictor,) = [name for name in self.columns if name not in (self.target, "kind")]
        assert chart.names == (predictor, self.target)
        assert figure["caption"] == f"{self.target}: the data and the fit"
        points = chart.at(self.data[predictor], self.data[self.target])
        _close(chart.circles("point"), points)
        _close(chart.circles("selected"), points[[self.selected]])
        path = chart.path("fitted")
        assert len(path) > 100
        row = {name: np.repeat(x, len(path)) for name, x in self.row_of(self.selected).items()}
        x, _ = chart.numbers(path)
        wanted = chart.at(x, self.predictions(self.shown.parameters, row | {predictor: x}))[:, 1]
        steep = np.abs(np.gradient(wanted, path[:, 0]))
        inside = np.abs(wanted) < 5000
        assert np.all(np.abs(path[:, 1] - wanted)[inside] < (1 + 0.1 * steep)[inside])

    def _check_against(self, chart: Chart, figure: dict[str, Any]) -> None:
        assert chart.names == (self.target, "fit")
        assert figure["caption"] == "prediction against target; on the dashed line they are equal"
        points = chart.at(self.data[self.target], self.predictions(self.shown.parameters, self.data))
        _close(chart.circles("point"), points)
        _close(chart.circles("selected"), points[[self.selected]])
        (x, y) = chart.numbers(chart.path("diagonal"))
        assert x == pytest.approx(y, abs=1e-2 * np.ptp(x))

    def _decided(self, found: Any) -> tuple[Any, Any]:
        """The predicted classes, and how sure they are, from 0 to 1."""
        if found.ndim == 1:
            return (found > 0.5) + 0, np.minimum(1, np.abs(2 * found - 1))
        even = 1 / found.shape[-1]
        return found.argmax(axis=-1), (found.max(axis=-1) - even) / (1 - even)

    @property
    def labels(self) -> list[str]:
        return sorted({*map(str, self.data[self.target])})

    def _check_marks(self, chart: Chart, figure: dict[str, Any], places: Any) -> None:
        """Check the marks of the rows, the circle around the selected one, the legend and the count in the caption."""
        labels = self.labels
        kinds = [labels.index(str(x)) for x in self.data[self.target]]
        _close(chart.markers(), places)
        assert [shape["class"] for shape in chart.of("marker")] == [f"marker class-{kind}" for kind in kinds]
        _close(chart.circles("selected"), places[[self.selected]])
        forms = {shape["class"]: shape["d"] for shape in chart.of("marker")}
        legend = figure["swatches"][-len(labels) :]
        assert [shape["class"] for shape in legend] == [f"marker class-{k}" for k in range(len(labels))]
        assert [shape["d"] for shape in legend] == [forms[shape["class"]] for shape in legend]
        assert ",  ".join(labels) in re.sub(r", +", ",  ", figure["caption"])
        decided, _ = self._decided(self.predictions(self.shown.parameters, self.data))
        assert re.findall(r"\d+ of \d+", figure["caption"]) == [f"{np.sum(decided == kinds)} of {len(kinds)}"]

    def _check_regions(self, chart: Chart, figure: dict[str, Any]) -> None:
        first, second = (name for name in self.columns if name != self.target)
        assert chart.names == (first, second)
        self._check_marks(chart, figure, chart.at(self.data[first], self.data[second]))
        assert [shape["title"] for shape in chart.of("marker")] == [str(x) for x in self.data[self.target]]
        places, kinds, shades = _cells([s for s in chart.shapes if "fill-opacity" in s])
        x, y = chart.numbers(places)
        row = {name: np.repeat(column, len(x)) for name, column in self.row_of(self.selected).items()}
        decided, surety = self._decided(self.predictions(self.shown.parameters, row | {first: x, second: y}))
        assert len(x) == 1600
        assert np.mean(decided == kinds) > 0.98
        wanted = 0.1 + 0.45 * np.minimum(4, np.floor(surety * 5)) / 5
        assert np.mean(np.abs(wanted - shades) < 0.006) > 0.95

    def _check_shares(self, chart: Chart, figure: dict[str, Any]) -> None:
        assert chart.names == ("row", "probability")
        found = self.predictions(self.shown.parameters, self.data)
        own = found[np.arange(len(found)), [self.labels.index(x) for x in self.data[self.target]]]
        self._check_marks(chart, figure, chart.at(self.rows + 1, own))

    def _check_network(self, figure: dict[str, Any], slopes: dict[str, Any]) -> None:
        shapes = figure["charts"][0]["shapes"]
        names = sorted(name for name in self.shown.parameters if name.endswith("weight"))
        weights = [np.asarray(self.shown.parameters[name]) for name in names]
        found = [shape for shape in shapes if "connection" in shape.get("class", "")]
        wanted = [(name, at, weight[at], slopes[name][at]) for name, weight in zip(names, weights, strict=True)
                  for at in np.ndindex(weight.shape)]  # fmt: skip
        for shape, (name, (to, start), weight, slope) in zip(found, wanted, strict=True):
            label, _, text = shape["title"].partition(" = ")
            assert label == f"{name}[{to}, {start}]"
            number, _, rate = text.partition(", gradient ")
            assert float(number) == pytest.approx(weight, rel=1e-4, abs=1e-6)
            self._check_slope(float(rate), slope)
            ways = {"up": float(rate) > 0, "down": float(rate) < 0, "minus": weight < 0}
            assert shape["class"].split() == ["connection", *(way for way, holds in ways.items() if holds)]
        sizes = np.abs([weight for *_, weight, _ in wanted])
        widths = [float(shape["stroke-width"]) for shape in found]
        assert np.corrcoef(sizes, widths)[0, 1] > 0.9999
        rates = np.abs([float(shape["title"].rpartition(" ")[2]) for shape in found])
        opacities = np.array([float(shape["stroke-opacity"]) for shape in found])
        coloured = rates > 0
        if coloured.sum() > 1:
            assert np.corrcoef(np.sqrt(rates[coloured]), opacities[coloured])[0, 1] > 0.999
        self._check_units(shapes, found, wanted)
        texts = [text["words"] for text in figure["charts"][0]["texts"]]
        assert texts == [name for name in self.columns if name not in re.findall(r"\w+", self.target)]

    def _check_units(self, shapes: Any, found: Any, wanted: Any) -> None:
        """Check that connections join units, and what the maps of units show."""
        frames = [shape for shape in shapes if shape.get("class") == "unit empty"]
        dots = [(float(s["cx"]), float(s["cy"])) for s in shapes if s.get("class") == "unit" and "cx" in s]
        centres = [(float(s["x"]) + float(s["width"]) / 2, float(s["y"]) + float(s["height"]) / 2) for s in frames]
        units = np.array(sorted([*dots, *centres]))
        columns = [units[np.isclose(units[:, 0], x)] for x in sorted({*units[:, 0].round(3)})]
        depth = {name: k for k, name in enumerate(sorted({name for name, *_ in wanted}))}
        for shape, (name, (to, start), *_) in zip(found, wanted, strict=True):
            ends = np.array(re.findall(r"[ML](\S+) ([^\sML]+)", shape["d"]), float)
            _close(ends, np.array([columns[depth[name]][start], columns[depth[name] + 1][to]]))
        assert bool(frames) == (self.case.picture == "regions")
        if not frames or self.case.layers is None:
            return
        parameters, (first, second) = self.shown.parameters, (name for name in self.columns if name != self.target)
        ranges = [(low - 0.08 * (high - low), high + 0.08 * (high - low)) for low, high in
                  ((np.min(self.data[name]), np.max(self.data[name])) for name in (first, second))]  # fmt: skip
        where = [(low + (high - low) * (np.arange(14) + 0.5) / 14) for low, high in ranges]
        x, y = np.meshgrid(where[0], where[1][::-1])
        outputs = self.case.layers(parameters, {first: x.ravel(), second: y.ravel()}, self.activation)
        values = np.concatenate(outputs, axis=-1).T
        for frame, numbers in zip(frames, values, strict=True):
            left, top, side = (float(frame[key]) for key in ("x", "y", "width"))
            inside = [s for s in shapes if "fill-opacity" in s]
            places, kinds, _ = _cells(inside)
            here = np.all((places > [left, top]) & (places < [left + side, top + side]), axis=1)
            cell = np.floor((places[here] - [left, top]) / side * 14).astype(int)
            signs = np.zeros((14, 14))
            signs[cell[:, 1], cell[:, 0]] = np.where(kinds[here] == 1, 1, -1)
            assert np.mean(signs.ravel() == np.sign(numbers)) > 0.98


def _array(text: str) -> Any:
    """The numbers of a text; None for a large array."""
    return None if " from " in text or "all " in text else json.loads(re.sub(r"\b(nan|inf)\b", "NaN", text))


def _close(found: Any, wanted: Any) -> None:
    """Compare places, in pixels."""
    assert np.shape(found) == np.shape(wanted)
    assert np.allclose(found, wanted, atol=1), np.abs(np.asarray(found) - wanted).max()


def _cells(shapes: list[dict[str, Any]]) -> tuple[Any, Any, Any]:
    """The middles of coloured cells, their classes and their opacities."""
    places, kinds, shades = [], [], []
    for shape in shapes:
        found = re.findall(r"M(\S+) (\S+?)h([-\d.]+)v([-\d.]+)h", shape["d"])
        places += [(float(x) + float(w) / 2, float(y) + float(h) / 2) for x, y, w, h in found]
        kinds += [int(shape["class"].removeprefix("class-"))] * len(found)
        shades += [float(shape["fill-opacity"])] * len(found)
    return np.array(places), np.array(kinds), np.array(shades)


class RowLoss(Model):
    """The steps of the loss of a row, below the pictures."""

    def __init__(self, name: str, folder: Path, point: dict[str, float]) -> None:
        self.folder = folder
        super().__init__(CASES[name].text, point, [0.5, -1.25, 3])

    @property
    def seeds(self) -> list[str]:
        return [name for name in self.point if name not in DATA]

    def computed(self, point: dict[str, float]) -> Computed:
        return _traced(self.text, self.folder, *point.items())


@functools.cache
def _traced(text: str, folder: Path, *point: tuple[str, float]) -> Computed:
    """What the command prints for the loss of a row: its columns are a file of one row."""
    row = {name: x for name, x in point if name in DATA}
    file = folder / f"row{_traced.cache_info().misses}.csv"
    file.write_text(f"{','.join(row)}\n{','.join(map(repr, row.values()))}\n")
    return Computed(text, str(file), "--row=1", *(f"--{name}={x!r}" for name, x in point if name not in row))


class FitReader(Reader):
    """Takes actions in the part above the steps; with `has_steps`, also in the steps of the row's loss."""

    def __init__(self, page: Page, name: str, file: Path, chance: random.Random, has_steps: bool) -> None:
        self.name, self.file, self.has_steps = name, file, has_steps
        self.learned = FitModel(name, page.evaluate("record.addition.epochs.map(({ number }) => number)"))
        keys = page.evaluate("record.variables.map(({ key }) => key)")
        steps = (
            RowLoss(name, file.parent, dict.fromkeys(keys, 0.0)) if has_steps else SimpleNamespace(point={}, position=0)
        )
        super().__init__(page, cast("Model", steps), chance)
        self._follow()

    @property
    def place(self) -> str:
        return f"epoch {self.learned.k} of {len(self.learned.epochs)}, row {self.learned.row!r}, {self.model.point}"

    def _follow(self) -> None:
        """Take the steps to the epoch and row that are shown."""
        learned = self.learned
        if not self.has_steps:
            return
        row = learned.row_of(learned.selected)
        values = {name: learned.shown.parameters.get(name, row.get(name, [0])) for name in self.model.point}
        self.model.change({name: float(np.ravel(x)[0]) for name, x in values.items()})

    def check(self) -> None:
        if self.has_steps and not self.learned.is_other:
            super().check()
        else:
            assert self.page.evaluate(CONDITIONS) == []
        self.learned.check(self.page.evaluate(FIT_STATE))

    def actions(self, count: int) -> list[str]:
        own = [name for name in dir(type(self)) if name.startswith("do_") and name in vars(FitReader)]
        if self.has_steps:
            return self.chance.sample([*super().actions(count), *["do_learn"] * 3], count + 3)
        every = [*own, *self.chance.choices([*own, "do_scrub", "do_row", "do_learn"], k=count - len(own))]
        return self.chance.sample(every, len(every))

    def do_scrub(self) -> None:
        self.learned.k = self.chance.randrange(len(self.learned.epochs))
        self.fill("#epoch", str(self.learned.k))
        self._follow()

    def do_epoch_key(self) -> None:
        """Press a key on the slider, as a keyboard does."""
        if len(self.learned.epochs) < 2:
            return
        last = len(self.learned.epochs) - 1
        moves = {"ArrowRight": 1, "ArrowLeft": -1, "Home": -last, "End": last}
        key = self.chance.choice([*moves])
        self.page.locator("#epoch").focus()
        self.page.keyboard.press(key)
        to = max(0, min(self.learned.k + moves[key], last))
        if to != self.learned.k:
            self.learned.k = to
            self._follow()

    def do_row(self) -> None:
        rows = [str(self.chance.randrange(self.learned.count) + 1) for _ in range(14)]
        self.learned.row = self.chance.choice([*rows, *self.chance.sample(NO_ROW, 4)])
        self.fill("#row", self.learned.row)
        self._follow()

    def do_play_epochs(self) -> None:
        """Play, and pause, scrub, learn, or wait for the end. Time passes only as the test lets it."""
        learned = self.learned
        last = len(learned.epochs) - 1
        if last < 1:
            return
        self._play(0 if learned.k == last else learned.k)
        end = self.chance.choice(["pause", "scrub", "end", "learn", "twice"])
        if end in ("end", "twice"):
            self.page.clock.run_for(12_000)
            learned.k = last
        else:
            self.page.clock.run_for(1_000)
            learned.k = int(self.page.locator("#epoch").input_value())
            assert learned.k > 0
        if end == "pause":
            self.page.evaluate("document.getElementById('learn-pause').click()")
            learned.k = int(self.page.locator("#epoch").input_value())
        elif end == "scrub":
            self.do_scrub()
        elif end == "learn":
            is_stopped = self.do_learn()
            assert self.page.evaluate(FIT_STATE)["buttons"] == [
                not is_stopped and learned.k < last,
                is_stopped or learned.k == last,
            ]
            if not is_stopped:
                self.page.clock.run_for(12_000)
            learned.k = int(self.page.locator("#epoch").input_value()) if is_stopped else last
        elif end == "twice":
            self._play(0)
            self.page.clock.run_for(12_000)
        self._follow()
        was = self.page.locator("#epoch").input_value()
        self.page.clock.run_for(2_000)
        assert self.page.locator("#epoch").input_value() == was

    def _play(self, begin: int) -> None:
        """Press Play, and look at the page before the first step."""
        play = "document.getElementById('learn-play')"
        shown = self.page.evaluate(
            f"() => {{ {play}.focus(); {play}.click(); return [({FIT_STATE})(), document.activeElement.id]; }}"
        )
        assert (shown[0]["epoch"][0], shown[0]["buttons"], shown[1]) == (str(begin), [True, False], "learn-pause")

    def do_learn(self) -> bool:
        """Train in the page; the same in Python, from the same start, gives every epoch. Whether the form was sent."""
        learned, chance = self.learned, self.chance
        settings = {
            "again-method": chance.choice(self.page.locator("#again-method option").all_inner_texts()),
            "again-rate": chance.choice(
                ["0.01", "0.05", "1e-3", "0.02", "0.1", "0.03", chance.choice(["0", "-1", ""])]
            ),
            "again-epochs": chance.choice(["1", "4", "7", "5", "6", chance.choice(["0", "2.5", "1001", ""])]),
            "again-start": chance.choice(["fit", "random"]),
            "again-noise": chance.choice(["0", "0", "0.5"]),
        }
        seen = self.page.evaluate(FIT_STATE)["settings"]
        if "again-hidden" in seen:
            settings["again-hidden"] = chance.choice(["3", "2, 4", "1,1,2", "5", "0", "17", "x", "1 2 3 4", "4 3"])
            settings["again-activation"] = chance.choice([*MIDDLE])
        settings = {name: value for name, value in settings.items() if name in seen}
        for name, value in settings.items():
            self.fill(f"#{name}", value, "change")
        self.page.evaluate("document.querySelector('#again [type=submit]').focus()")
        self.page.evaluate("document.querySelector('#again').requestSubmit()")
        rate, count = settings["again-rate"], settings["again-epochs"]
        if count in ("0", "2.5", "1001"):
            return False  # the browser says what is wrong
        if rate in ("0", "-1", "") or not count:
            learned.said = "The rate is a number above 0, and the epochs a whole number from 1 to 1000."
            return True
        units = [int(unit) for unit in re.split(r"[\s,]+", settings.get("again-hidden", "1").replace("x", "0"))]
        if not all(1 <= unit <= 16 for unit in units) or len(units) > 3:
            learned.said = "Hidden units are 1 to 3 whole numbers from 1 to 16, such as 8, 4."
            return True
        wait_until(self.page, "/ran for|diverged/.test(document.getElementById('again-text').textContent)")
        self._learn(settings, units)
        return True

    def _learn(self, settings: dict[str, str], units: list[int]) -> None:
        learned, case = self.learned, self.learned.case
        text, is_own, count = case.text, True, int(settings["again-epochs"])
        if "again-hidden" in settings:
            match = re.search(r"(\[[\d, ]+\]), (\w+)\)", text)
            assert match is not None
            own_units, own = json.loads(match[1]), match[2]
            is_own = (own_units, own) == (units, settings["again-activation"])
            text = text.replace(match[0], f"{units}, {settings['again-activation']})")
            learned.activation = settings["again-activation"]
        learned.is_other, learned.step = not is_own, "epoch"
        original = {name: column[learned.rows] for name, column in all_rows(self.name).items()}
        data = {**original}
        self.fill("#epoch", "0")
        if float(settings.get("again-noise", "0")):
            data[learned.target] = self._noisy(float(settings["again-noise"]))
        begun = {name: json.loads(full) for name, full, *_ in self.page.evaluate(FIT_STATE)["parameters"]}
        is_random = self.page.locator("#again-start").input_value() == "random"
        assert is_random == (settings["again-start"] == "random" or not is_own)
        first = learned.original[0].parameters
        start = {name: x for name, x in begun.items() if name not in _fixed(case)}
        if not is_random:
            assert {*begun} == {*first}
            assert all(np.asarray(begun[name]) == pytest.approx(np.asarray(x)) for name, x in first.items())
        else:
            assert all(begun[name] != np.asarray(x).tolist() for name, x in first.items() if name in start)
        kept = {key: case.options[key] for key in ("fixed", "family") if key in case.options}
        options = {
            "optimizer": settings["again-method"],
            "learning_rate": float(settings["again-rate"]),
            "epochs": count,
        }
        _, learned.epochs = fitted(text, data, kept | options | {"start": start, "tolerance": 1e-300})
        if len(learned.epochs) <= count:  # a fit that diverges ends there
            assert learned.epochs[-1].loss > learned.epochs[0].loss
            self.do_original()
            return
        learned.data, learned.digits = data, 1e-9
        losses = [learned.epochs[k].loss for k in (0, -1)]
        advice = " The loss rose: try a smaller rate." if losses[1] > losses[0] else ""
        what = f"{settings['again-method']} ran for {count} epochs on the {len(learned.rows)} rows of this page"
        learned.said = f"{what}, without weights and penalties: loss {g(losses[0])} → {g(losses[1])}.{advice}"
        self.fill("#epoch", str(count))
        learned.k = count
        self._follow()

    def _noisy(self, share: float) -> Any:
        """The targets with noise, from the steps of each row's loss."""
        learned, name = self.learned, self.learned.target
        found = []
        for row in learned.rows:
            self.fill("#row", str(row + 1))
            found.append(self.page.evaluate("(name) => playback.point[name]", name))
        self.fill("#row", learned.row)
        noise = np.array(found) - all_rows(self.name)[name][learned.rows]
        assert 0.3 < np.std(noise) / (share * np.std(DATA[name])) < 3
        return np.array(found)

    def do_original(self) -> None:
        self.click("again-original")
        learned = self.learned
        was = learned.row
        self.learned = FitModel(self.name, learned.numbers)
        self.learned.k, self.learned.row = len(self.learned.epochs) - 1, was
        self.learned.said = "The fit with which this page was made."
        self._follow()

    def do_window(self) -> None:
        """Another width, and light or dark: what the reader changed stays."""
        width, height = self.chance.choice([(360, 740), (768, 1024), (1280, 800)])
        self.page.emulate_media(color_scheme=self.chance.choice(["light", "dark"]), reduced_motion="reduce")
        resize(self.page, width, height)
        wait_until(self.page, f"innerWidth === {width}")
        wait_for_layout(self.page)
        self.page.clock.run_for(200)
        self.model.is_narrow = self.page.evaluate("narrow.matches")

    def do_resize(self) -> None:
        self.do_window()

    def do_print(self) -> None:
        if self.has_steps and not self.learned.is_other:
            self.page.emulate_media(media="print", reduced_motion="reduce")
            wait_for_layout(self.page)
            assert self.page.evaluate("[playback.position === playback.length, byId('table').open]") == [True, True]
            self.page.emulate_media(media="null", reduced_motion="reduce")
            wait_for_layout(self.page)
            self.page.evaluate("window.hadFocus = false")  # on paper there are no buttons
            self.model.go(self.model.position)
            if not self.model.position:
                self.model.selected = self.model.order[self.model.length - 1]
            self.page.clock.run_for(200)

    def do_link(self) -> None:
        """Open the link to this state in a page that was just opened; what was learned in the page is not in it."""
        self.do_original()
        if not self.has_steps:
            self.fill("#epoch", str(self.chance.randrange(len(self.learned.epochs))))
            self.learned.k = int(self.page.locator("#epoch").input_value())
        address = self.page.evaluate("location.href.split('#')[0] + fragment()")
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.clock.run_for(100)
        was, self.learned.said = self.model, ""
        if self.has_steps:
            self.model = RowLoss(self.name, self.file.parent, was.point)
            self.model.seed, self.model.is_narrow = was.seed, self.page.evaluate("narrow.matches")
            self.model.go(was.position)

    def do_address(self) -> None:
        """Another state in the address, as Back and Forward give."""
        if self.learned.is_other:
            return
        k, row = self.chance.randrange(len(self.learned.epochs)), str(self.chance.randrange(self.learned.count) + 1)
        state = {"epoch": k, "row": row, "step": self.model.position}
        script = """(state) => new Promise((done) => {
          if (location.hash === `#${state}`) done(false);
          addEventListener("hashchange", () => done(true), { once: true });
          location.hash = state;
        })"""
        if not self.page.evaluate(script, urlencode(state)):
            return
        self.learned.k, self.learned.row = k, row
        self._follow()
        if self.has_steps:
            self.model.go(self.model.position)


def _fixed(case: Case) -> dict[str, Any]:
    return {**case.options.get("fixed", {})}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fits")


@functools.cache
def page_of(folder: Path, name: str) -> tuple[Path, str]:
    """Write the page of a fit with the command; gives the file, and what the command prints."""
    case, data, file = CASES[name], folder / f"{name}.csv", folder / f"{name}.html"
    rows = zip(*([*map(str, column)] for column in all_rows(name).values()), strict=True)
    data.write_text("\n".join(",".join(row) for row in [tuple(DATA), *rows]) + "\n")
    words = [f"--{key.replace('_', '-')}={value}" for key, value in case.options.items() if key != "fixed"]
    words += [f"--fix={key}={value}" for key, value in _fixed(case).items()]
    written = run_cli(["train", case.text, str(data), *words, "--page", str(file)])
    assert written.status in (0, 1), written.stderr
    return file, str(written)


QUICK = ("decay", "regions")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_everything_on_the_page_of_a_fit_after_any_actions_is_what_the_fit_gives(
    page_of_its_own: Page, folder: Path, name: str
) -> None:
    page = page_of_its_own
    file, _ = page_of(folder, name)
    page.clock.install()
    page.emulate_media(reduced_motion="reduce")
    page.goto(file.as_uri())
    page.clock.run_for(100)
    walk(FitReader(page, name, file, random.Random(name), name == "decay"), amount(18, 45, 200))
