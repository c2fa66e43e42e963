"""Large graphs and wide layers: compiled, and right."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.llvm.plan import plan_kernel
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.selection import choose_backend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.program import read
from autodiff_cli.training.objective.kernels import Kernels


@pytest.mark.slow
def test_five_thousand_numbers_are_compiled() -> None:
    """`auto` takes graphs up to that size, with their gradients."""
    terms = [f"tanh(a{k}*x + {k / 100})*(x - b{k})" for k in range(220)]
    program = read(" + ".join(terms))
    names = [name for name in program.leaves if name != "x"]
    graphs = RowGraphs(
        simplify([program.output, *gradient_nodes(program.output, [program.leaves[name] for name in names])]), {"x"}
    )
    nodes = len(Tape(graphs.outputs).nodes)
    assert 2500 < nodes <= 5000
    assert choose_backend("auto", None, graphs, 1_000_000).name == "llvm"
    x = np.linspace(-1, 1, 100)
    point = {name: 0.01 * k - 1 for k, name in enumerate(names)}
    found = LlvmBackend(1).sum_kernel(graphs).sums(point, {"x": x}, len(x))
    np.testing.assert_allclose(
        found, NumpyBackend().sum_kernel(graphs).sums(point, {"x": x}, len(x)), rtol=1e-12, atol=1e-11
    )


def _kernels(columns: int, layers: list[int], rows: int, backend: str) -> ad.Objective:
    generator = np.random.default_rng(0)
    data = {f"x{k}": generator.normal(size=rows) for k in range(columns)} | {"y": generator.normal(size=rows)}
    inputs = ", ".join(f"x{k}" for k in range(columns))
    return ad.Objective(f"y ~ sum(mlp([{inputs}], {layers}, tanh))", data, backend=backend)


@pytest.mark.parametrize(
    ("columns", "layers"), [(8, [32, 32, 1]), pytest.param(64, [256, 256, 10], marks=pytest.mark.slow)]
)
def test_networks_are_the_same_however_they_are_computed(columns: int, layers: list[int]) -> None:
    found = [_kernels(columns, layers, 256, name) for name in ("llvm", "numpy", "auto")]
    answers = [each.value_and_grad(each.start) for each in found]
    for value, gradient in answers[1:]:
        assert value == pytest.approx(answers[0][0], rel=1e-12)
        np.testing.assert_allclose(gradient, answers[0][1], rtol=1e-9, atol=1e-12)


def test_what_is_compiled_does_not_grow_with_the_width_of_layers() -> None:
    sizes = []
    for width in (32, 256):
        kernels: Kernels = _kernels(8, [width, width, 1], 64, "llvm").kernels
        sizes.append(len(plan_kernel(kernels._gradient_graphs, is_summed=True).items))
    assert sizes[0] == sizes[1]


def test_wide_layers_are_compiled_where_there_are_many_rows() -> None:
    kernels = _kernels(64, [256, 256, 10], 64, "auto").kernels
    assert choose_backend("auto", None, kernels._gradient_graphs, 1_000_000).name == "llvm"
    assert choose_backend("auto", None, kernels._gradient_graphs, 100).name == "numpy"
