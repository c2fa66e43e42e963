"""Compiled kernels give what NumPy's blocks give: for formulas, for arrays, for any number of rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Shape, constant, get_op, variable
from autodiff_cli.graph.tape import substitute, topological_order
from autodiff_cli.language.program import read
from tests.backends.llvm.compiled import agree, both_ways, by_row, every_width, summed
from tests.backends.test_blocks import FORMULAS
from tests.each import each, examples
from tests.ops.test_structural import CASES, ROWS, ArrayAndNumbers, Case, identity

POINT = {"a": 0.7, "b": -1.3, "c": 2.1}
LENGTHS = (1, 2, 3, 7, 8, 9, 16, 31, 1000, 1024, 1025, 8191, 8192, 8193, 20_001)


@every_width
def test_any_number_of_rows(width: int) -> None:
    graphs = RowGraphs([read(text).output for text in FORMULAS], {"x"})
    backends = (LlvmBackend(1, width), NumpyBackend())
    by_row_kernels = [backend.row_kernel(graphs) for backend in backends]
    sum_kernels = [backend.sum_kernel(graphs) for backend in backends]
    for rows in LENGTHS:
        columns = {"x": np.random.default_rng(rows).normal(size=rows)}
        names = [f"{text}, {rows} rows" for text in FORMULAS]
        found, wanted = values = np.full((2, len(FORMULAS), rows), 12345.0)
        for kernel, out in zip(by_row_kernels, values, strict=True):
            kernel.write(kernel.prepare(POINT), columns, out)
        agree(found, wanted, names)
        agree(*(kernel.sums(POINT, columns, rows) for kernel in sum_kernels), names)


@every_width
def test_gradients_of_sums(width: int) -> None:
    outputs, names = [], []
    for text in FORMULAS:
        program = read(text)
        leaves = [program.leaves[name] for name in POINT if name in program.leaves]
        graphs = [program.output, *gradient_nodes(program.output, leaves)]
        outputs += graphs
        names += [text] * len(graphs)
    both_ways(outputs, {"x": np.linspace(-3, 3, 1001)}, POINT, width=width, names=names)


def test_sums_over_elements_in_rows_with_extreme_numbers() -> None:
    """Rows that the quick code cannot compute are computed again, and added once."""
    texts = ("sum(1/(v*x))", "sum(v/(x + v))", "sum(log(v^2*x^2))", "prod(1 + 1/(v*x))", "max(v/x) + min(1/(v*x))")
    columns = {"x": np.array([0.5, 1e300, -1e-300, 5e-324, 0.0, np.inf, 2.0, -3.0] * 3)}
    point, shapes = {"v": np.linspace(-1, 2, 9)}, {"v": (9,)}
    for text in texts:
        program = read(f"v: 9; {text}")
        slopes = gradient_nodes(program.output, [program.leaves["x"]], shapes)
        outputs = [program.output, *slopes]
        found, wanted = (
            by_row(backend, outputs, columns, point, shapes) for backend in (LlvmBackend(1), NumpyBackend())
        )
        agree(found, wanted, [text, text])


@pytest.mark.slow
@every_width
@each("case", CASES, ids=identity, sampled=True)
@each("rows", [1, 301])
def test_operations_on_arrays(case: Case, rows: int, width: int) -> None:
    """Of columns alone, of parameters alone, and of each mixture."""
    both = ArrayAndNumbers(case)
    output = (case.build or get_op(case.name))(*both.leaves)
    generator = np.random.default_rng(3)
    values = {name: generator.uniform(0.5, 1.5, (*shape, rows)) for name, shape in both.sizes.items()}
    names = [leaf.text for leaf in both.leaves]
    outputs = [output, both.total, *both.gradient(both.total)]
    mixtures = [*itertools.product((True, False), repeat=len(names))]
    for varying in mixtures[: 1 if rows == 1 else None]:
        columns = {name: values[name] for name, varies in zip(names, varying, strict=True) if varies}
        columns["weights"] = values["weights"]
        point = {name: values[name][..., 0] for name in names if name not in columns}
        both_ways(outputs, columns, point, both.sizes, width=width)


def test_operations_on_arrays_with_what_is_not_finite() -> None:
    """All cases in one kernel, in which each has leaves of its own."""
    outputs: list[Node] = []
    columns: dict[str, Any] = {}
    sizes: dict[str, Shape] = {}
    wanted = []
    for k, case in enumerate(CASES):
        both = ArrayAndNumbers(case)
        both.point["x0"][..., 1:ROWS] = np.nan, np.inf, -np.inf
        graphs = [(case.build or get_op(case.name))(*both.leaves), *both.gradient(both.total)]
        wanted.append(by_row(NumpyBackend(), graphs, both.point, {}, both.sizes))
        leaves = [node for node in topological_order(graphs) if node.is_input]
        outputs += substitute(graphs, {leaf: variable(f"{leaf.text}_{k}") for leaf in leaves})
        columns |= {f"{name}_{k}": value for name, value in both.point.items()}
        sizes |= {f"{name}_{k}": size for name, size in both.sizes.items()}
    found = by_row(LlvmBackend(1), outputs, columns, {}, sizes)
    ends = np.cumsum([len(values) for values in wanted])
    assert ends[-1] == len(found)
    for case, values, exact in zip(CASES, np.split(found, ends[:-1]), wanted, strict=True):
        np.testing.assert_allclose(values, exact, rtol=1e-12, err_msg=identity(case))
        assert np.isfinite(values[:, 0]).all(), identity(case)


NETWORK = "tanh(V @ tanh(W @ [x, x^2] + b) + c)[0]"
SIZES = {"W": (5, 2), "b": (5,), "V": (3, 5), "c": (3,)}


@every_width
@each("rows", [1, 4, 130, 600])
def test_a_network(rows: int, width: int) -> None:
    program = read(NETWORK)
    generator = np.random.default_rng(0)
    point = {name: generator.normal(size=shape) for name, shape in SIZES.items()}
    outputs = [program.output, *gradient_nodes(program.output, [program.leaves[name] for name in SIZES], SIZES)]
    both_ways(outputs, {"x": generator.normal(size=rows)}, point, SIZES, width=width)


@each("text", ["W @ V*x", "outer([x, a], [a, 1, x]) @ outer([1, x, 2], [x, a])", "W @ outer([x, a, 1], [a, x])"])
def test_products_of_matrices(text: str) -> None:
    program = read(f"W: 2x3; V: 3x2; {text}")
    generator = np.random.default_rng(2)
    point = {"W": generator.normal(size=(2, 3)), "V": generator.normal(size=(3, 2)), "a": 0.7}
    point = {name: value for name, value in point.items() if name in program.leaves}
    total = get_op("sum")(program.output)
    sizes = {name: np.shape(value) for name, value in point.items()}
    outputs = [program.output, *gradient_nodes(total, [program.leaves[name] for name in point], sizes)]
    both_ways(outputs, {"x": generator.normal(size=40)}, point, sizes)


@pytest.mark.slow
def test_wide_layers() -> None:
    """Their gradients are added up after every strip."""
    sizes = {"W": (70, 3), "b": (70,), "V": (33, 70), "x": (3,)}
    leaves = {name: variable(name) for name in sizes}
    tanh, total, square = (get_op(name) for name in ("tanh", "sum", "square"))
    hidden = tanh(get_op("matmul")(leaves["W"], leaves["x"]) + leaves["b"])
    output = total(square(get_op("matmul")(leaves["V"], hidden)))
    outputs = [output, *gradient_nodes(output, [leaves[name] for name in ("W", "b", "V")], sizes)]
    generator = np.random.default_rng(0)
    point = {name: generator.normal(size=sizes[name]) for name in ("W", "b", "V")}
    for rows in (1, 9, 500, 1001):
        both_ways(outputs, {"x": generator.normal(size=(3, rows))}, point, sizes)


def test_an_unused_branch_contributes_nothing() -> None:
    output = read("where(x > 0, sqrt(x), a*x)").output
    a = variable("a")
    outputs = [read("where(x > 0, log(x), x)").output, *gradient_nodes(output, [a])]
    found = by_row(LlvmBackend(1), outputs, {"x": np.array([-1.0, 0.0, 4.0])}, {"a": 2.0})
    assert found[0].tolist() == [-1, 0, np.log(4)]
    assert np.isfinite(found).all()


def test_no_rows_sum_to_nothing() -> None:
    kernel = LlvmBackend(1).sum_kernel(RowGraphs([read("a*x").output], {"x"}))
    assert kernel.sums({"a": 1.0}, {"x": np.empty(0)}, 0).tolist() == [0]


def test_what_reads_no_column_counts_once_for_every_row() -> None:
    kernel = LlvmBackend(1).sum_kernel(RowGraphs([read("a").output, read("7").output], {"x"}))
    for rows in (1, 5, 8195):
        assert kernel.sums({"a": 0.5}, {"x": np.ones(rows)}, rows).tolist() == [rows / 2, 7 * rows]


def test_more_sums_than_registers() -> None:
    leaves = [variable(f"a{k}") for k in range(60)]
    total: Node = constant("0")
    for k, leaf in enumerate(leaves):
        total = total + leaf * get_op("sin")(constant(str(k)) * variable("x"))
    outputs = [total, *gradient_nodes(total, leaves)]
    point = {leaf.text: float(k) for k, leaf in enumerate(leaves)}
    both_ways(outputs, {"x": np.linspace(0, 1, 5003)}, point)


@pytest.mark.slow
def test_thousands_of_operations() -> None:
    """More than one pass over a strip can hold."""
    x, node = variable("x"), variable("a")
    for k in range(3000):
        node = node * constant("0.999") + x * constant(str(k % 7))
    both_ways([node], {"x": np.linspace(0, 1, 700)}, {"a": 0.3})


def test_sums_have_the_digits_of_sums_in_pairs() -> None:
    x = np.random.default_rng(1).normal(size=1_000_000) + 1e3
    (found,) = summed(LlvmBackend(1), [variable("x")], {"x": x})
    exact = float(np.sum(x.astype(np.longdouble)))
    assert abs(found - exact) <= 2e-15 * exact


TWO = st.sampled_from(["({} + {})", "({} - {})", "({} * {})", "max({}, {})", "hypot({}, {})"])
ONE = st.sampled_from(["sin({})", "tanh({})", "sigmoid({})", "abs({})", "({})^2", "relu({})"])


def _filled(parts: tuple[str, ...]) -> str:
    return parts[0].format(*parts[1:])


programs = st.recursive(
    st.sampled_from(["x", "y", "a", "b", "2", "0.5"]),
    lambda inner: st.tuples(TWO, inner, inner).map(_filled) | st.tuples(ONE, inner).map(_filled),
    max_leaves=12,
)


@examples(25)
@given(programs)
def test_any_formula_and_its_gradient(text: str) -> None:
    program = read(f"{text} + 0*x*y*a*b")
    leaves = [program.leaves[name] for name in "ab"]
    outputs = [program.output, *gradient_nodes(program.output, leaves)]
    generator = np.random.default_rng(5)
    columns = {"x": generator.normal(size=37), "y": generator.normal(size=37)}
    both_ways(outputs, columns, {"a": 0.4, "b": -1.1})


@each("parameters", ["sum(sin(W))", "norm(W @ v)", "(W @ v)[3]", "sum(outer(v, v)*W)"])
def test_blocks_of_rows_do_not_get_shorter_for_arrays_that_rows_share(parameters: str) -> None:
    """They are computed once for all rows; shorter blocks would only cost time."""
    shapes = {"W": (100, 100), "v": (100,)}
    plain, shared = (
        LlvmBackend(1).sum_kernel(RowGraphs([read(text).output], {"x"}, shapes)).block_rows
        for text in ("x*a", f"W: 100x100; v: 100; x*({parameters})")
    )
    assert shared == plain
    by_row = RowGraphs([read("W: 100x100; v: 100; sum(W @ (x*v))").output], {"x"}, shapes)
    assert LlvmBackend(1).sum_kernel(by_row).block_rows < plain


@each("last", ["pad(part(v, 1, 2), 1, 2, w)", "place(v[1], w, 1)"])
def test_zeros_are_stored_where_memory_held_other_values_of_a_row(last: str) -> None:
    outputs = [read(f"v = W @ sin(W @ sin(W @ (w*x))); W @ {last}").output]
    matrix = np.array([[0.3, -1.2, 0.7], [2.0, 0.4, -0.6], [-0.9, 1.1, 0.8]])
    point, leaves = {"W": matrix, "w": np.array([0.5, -1.0, 2.0])}, {"W": (3, 3), "w": (3,)}
    both_ways(outputs, {"x": np.linspace(0.1, 1, 700)}, point, leaves)
