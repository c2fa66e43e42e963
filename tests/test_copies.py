"""Copies of public objects, also pickled ones, are like the originals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import substitute
from autodiff_cli.language.printer import to_text
from autodiff_cli.nn import MLP
from autodiff_cli.ops.functions import exp, sin

X = np.linspace(0, 3, 30)
GROUPS = np.array([*"abc"] * 10)
DATA = {"x": X, "y": 2 * np.exp(-X) + 0.01 * np.sin(17 * X), "group": GROUPS}

OBJECTS: dict[str, Callable[[], Any]] = {
    "expression": lambda: ad.parse("x*y + sin(x)"),
    "derivative": lambda: ad.parse("x*y + sin(x)").derivative("x"),
    "expression of arrays": lambda: ad.parse("W: 2x3; sum(softmax(W @ v))"),
    "trace": lambda: ad.parse("x*y + sin(x)").trace(x=2, y=3),
    "trace with wrt": lambda: ad.parse("x*wrt + sin(x)").trace({"x": 2, "wrt": 3}, wrt=["wrt"]),
    "trace of arrays": lambda: ad.parse("W: 2x3; sum(softmax(W @ v))").trace(W=np.ones((2, 3)), v=[1, 2, 3]),
    "zeros": lambda: ad.parse("x^2 - 2").solve(x=(0, 3)),
    "optima": lambda: ad.parse("x^2").minimize(x=(-1, 3)),
    "fit": lambda: ad.fit("y ~ a*exp(-b*x)", DATA),
    "fit with levels": lambda: ad.fit("y ~ a[group]*exp(-b*x)", DATA),
    "fit of a network": lambda: ad.fit("y ~ mlp([x], [3])", DATA, epochs=3),
    "classifier": lambda: ad.fit("group ~ softmax(dense([x, y], 3))", DATA, epochs=3),
    "groups": lambda: ad.fit_by("y ~ a*exp(-b*x)", DATA, "group"),
    "comparison": lambda: ad.compare(["y ~ a*exp(-b*x)", "y ~ a - b*x"], DATA),
    "objective": lambda: ad.Objective("y ~ a*exp(-b*x)", DATA),
    "value": lambda: ad.Value(2) * 3,
    "network": lambda: MLP(2, [4, 1]),
    "data error": lambda: ad.DataError("row 1"),
    "model file error": lambda: ad.ModelFileError("damaged"),
    "expression error": lambda: ad.ExpressionError("unknown"),
    "unknown name": lambda: ad.UnknownNameError("unknown", suggestion="x"),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda original: pickle.loads(pickle.dumps(original)),
    "protocol 2": lambda original: pickle.loads(pickle.dumps(original, 2)),
}


def _content(original: Any) -> list[Any]:
    """Return what an object shows: its texts, and all attributes that are text or numbers."""
    named = {name: getattr(original, name) for name in dir(original) if not name.startswith("_")}
    plain = {name: repr(value) for name, value in named.items() if isinstance(value, str | int | float | dict | list)}
    shown = [] if " object at 0x" in repr(original) else [repr(original), str(original)]
    return [*shown, {name: text for name, text in plain.items() if " at 0x" not in text}]


@pytest.mark.parametrize("name", [*OBJECTS])
def test_copies_are_like_the_original(name: str) -> None:
    original = OBJECTS[name]()
    expected = _content(original)
    for way, copied in COPIES.items():
        assert _content(copied(original)) == expected, way
    if hasattr(original, "_repr_html_"):  # its plots take a while, and all copies have the same attributes
        assert pickle.loads(pickle.dumps(original))._repr_html_() == original._repr_html_()


def test_graphs_that_are_pickled_together_share_their_leaves() -> None:
    x, y = variable("x"), variable("y")
    graphs = {"first": sin(x) * y, "second": exp(x), "leaf": x}
    copied = pickle.loads(pickle.dumps(graphs))
    (replaced,) = substitute([copied["second"]], {copied["leaf"]: y})
    assert to_text(replaced) == "exp(y)"
    (replaced,) = substitute([copied["first"]], {copied["leaf"]: y})
    assert to_text(replaced) == "sin(y)*y"
