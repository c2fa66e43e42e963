"""Whatever people import says by an example what it does. (The examples themselves run as doctests.)"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

import autodiff_cli as ad
from autodiff_cli import nn

# What a fit asks of its objective; people call `value_and_grad` and `value`.
OF_FITS = {
    "select_rows", "rss", "triangle", "mean_square", "target_variation", "hessian", "confusion", "point",
    "set_scale", "score_triangle", "slope_triangle",
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    for name in ad.__all__:
        if callable(getattr(ad, name)):
            yield name, getattr(ad, name)
    for name, thing in vars(nn).items():
        if inspect.isclass(thing) and thing.__module__ == nn.__name__:
            yield f"nn.{name}", thing


def members() -> Iterator[tuple[str, Any]]:
    for name, thing in public():
        yield name, thing
        hidden = OF_FITS if thing is ad.Objective else set()
        for own, member in vars(thing).items() if inspect.isclass(thing) else ():
            if inspect.isfunction(member) and not own.startswith("_") and own not in hidden:
                yield f"{name}.{own}", member


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*found, id=found[0]) for found in members()])
def test_everything_public_has_an_example(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    assert ">>> " in text, name
    assert not text.startswith(">>>"), f"{name} begins with an example; say what it means first"


def test_the_package_is_typed() -> None:
    assert (files("autodiff_cli") / "py.typed").is_file()
