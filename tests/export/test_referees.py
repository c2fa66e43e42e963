"""Comparison of gradients with those of other frameworks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autodiff_cli.export import languages as referees
from tests.each import each
from tests.support import expect_refusal, run_cli


def framework(scale: float) -> Callable[..., tuple[float, list[Any]]]:
    """One that differentiates x^2*y, its slope towards x scaled."""

    def found(_library: object, _f: object, point: Sequence[Any]) -> tuple[float, list[Any]]:
        x, y = point
        return float(x * x * y), [np.asarray(scale * 2 * x * y), np.asarray(x * x)]

    return found


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of these names, so that the exported source can be loaded; what differentiates is put in their place."""
    for name in ("torch", "jax", "jax.numpy"):
        module = ModuleType(name)
        module.__dict__["__version__"] = "1.0"
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("scale", "status", "word"), [(1, 0, "agrees"), (1 + 1e-12, 0, "agrees"), (2, 1, "differs")])
def test_side_by_side(scale: float, status: int, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referees, "FRAMEWORKS", {"torch": framework(scale)})
    output = run_cli("check x^2*y --x 3 --y 2 --against torch")
    assert output.status == status
    lines = [line for line in output.splitlines() if line.rstrip().endswith(("agrees", "differs"))]
    line = [line for line in lines if line.split()[0] == "x"][-1]  # after the comparison with exact derivatives
    assert line.endswith(word)
    document = json.loads(run_cli("check x^2*y --x 3 --y 2 --against torch --json"))
    assert document["against"]["gradient"] == {"x": 12 * scale, "y": 9.0}
    assert document["agrees"] is (status == 0)


@pytest.mark.usefixtures("installed")
def test_at_a_kink_another_convention_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referees, "FRAMEWORKS", {"jax": lambda *_: (0.0, [np.asarray(1.0)])})
    output = run_cli("check abs(x) --x 0 --against jax")
    assert output.status == 0
    assert "differs" in output


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_framework_that_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    expect_refusal(run_cli(f"check x^2 --x 3 --against {name}"), f"pip install {name}")


def test_what_a_framework_lacks() -> None:
    expect_refusal(run_cli("check lambertw(x) --x 1 --against torch"), "--against torch: PyTorch has no `lambertw`")


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_frameworks_that_are_there_agree(name: str) -> None:
    pytest.importorskip(name)
    document = json.loads(
        run_cli(f"check tanh(x)*gelu(y)+sum(softmax([x,y])*[1,2]) --x 0.3 --y -1 --against {name} --json")
    )
    assert document["against"]["agrees"] == {"x": True, "y": True}


class _Tensor:
    """A number of a framework whose gradients stand at the leaves after a call of `backward`."""

    def __init__(self, number: float, leaf: _Tensor | None = None) -> None:
        self.number, self.leaf, self.requires_grad = number, leaf, leaf is not None
        self.grad: Any = None

    def backward(self) -> None:
        assert self.leaf is not None
        self.leaf.grad = np.asarray(5.0)

    def detach(self) -> float:
        return self.number


@each("leaf", [0, 1, None])
def test_a_gradient_of_pytorch_is_read_from_the_leaves_that_it_reaches(leaf: int | None) -> None:
    torch = SimpleNamespace(
        float64=float,
        tensor=lambda x, dtype, requires_grad: _Tensor(dtype(x)),
        zeros_like=lambda x: np.zeros_like(x.number),
    )

    def f(*leaves: _Tensor) -> _Tensor:
        return _Tensor(7.0, None if leaf is None else leaves[leaf])

    assert referees._torch_gradient(torch, f, [np.asarray(3.0), np.asarray(2.0)]) == (
        7.0,
        [5.0 if k == leaf else 0.0 for k in range(2)],
    )
