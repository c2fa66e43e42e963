"""Quotients that share their divisor have their digits all over the range, and zeros, infinities and nan in place."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends.llvm import vectors
from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.llvm.vectors import Vector, VectorCode, apply_to_vectors
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.expression import parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.program import read
from tests.backends.llvm.compiled import by_row, every_width, summed
from tests.each import each

GRAPHS = [read(text).output for text in ("a/d", "b/d", "1/d")]
EDGES = [
    0.0, 1.0, 3.0, 7e-310, 5e-324, 2.0**-1000, 2.0**-1022, 1e-300, 2.0**1000, 2.0**1023, 1e300, 1.7e308, math.inf,
    math.nan,
]  # fmt: skip
SIGNED = [*EDGES, *(-x for x in EDGES)]


def compared(a: NDArray[np.float64], b: NDArray[np.float64], d: NDArray[np.float64], width: int | None = None) -> None:
    found = by_row(LlvmBackend(1, width), GRAPHS, {"a": a, "b": b, "d": d})
    with ignore_float_errors():
        wanted = np.array([a / d, b / d, 1 / d])
        normal = np.abs(wanted) >= np.finfo(float).tiny
        np.testing.assert_allclose(found[normal], wanted[normal], rtol=4.5e-16)  # 2 units in the last place
        np.testing.assert_allclose(found, wanted, rtol=4.5e-16, atol=1e-323)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


@every_width
def test_edges(width: int) -> None:
    n, d = np.array([*itertools.product(SIGNED, SIGNED)]).T.copy()
    compared(n, n[::-1].copy(), d, width)
    for far in EDGES:  # with ordinary divisors beside it, which are multiplied
        compared(n, n[::-1].copy(), np.where(np.arange(len(d)) % 9 == 4, far, 1.5), width)


@given(st.lists(st.tuples(*[st.floats()] * 3), min_size=1, max_size=40))
def test_any_numbers(rows: list[tuple[float, float, float]]) -> None:
    a, b, d = np.array(rows).T.copy()
    compared(a, b, d)


@every_width
@each("count", [2, 40])  # sums that stay in registers, and more than there are
@each("text", ["d", "exp(log(d))"])  # without and with a call, for which vectors are side by side
@each("far", [5e-324, 2e306])
def test_sums_that_are_begun_again_count_every_row_once(width: int, count: int, text: str, far: float) -> None:
    rows = 3001  # two strips and a tail
    d = np.where(np.arange(rows) % 1500 == 1400, far, 2.0)
    graphs = [read(f"{k}*a/({text})").output for k in range(1, count + 1)]
    found = summed(LlvmBackend(1, width), graphs, {"a": d, "d": d})
    # exp(log(d)) is off by 700 units in the last place
    np.testing.assert_allclose(found, rows * np.arange(1.0, count + 1), rtol=1e-11 if "exp" in text else 1e-15)


def vector_of(text: str, code: VectorCode) -> Vector:
    """Return the instruction whose result is that of a formula."""
    found: dict[Node, Vector] = {}
    for node in topological_order([read(text).output]):
        if node.op is not None:
            written = apply_to_vectors(node.op, *[found[each] for each in node.inputs])
            assert written is not None
            found[node] = written
        elif node.is_constant:
            found[node] = code.as_vector(float(node.text))
        else:
            found[node] = code.make("load", detail=node.text, is_varying=True)
    return found[node]


@each(
    ("text", "is_moderate"),
    [
        ("1 + exp(-abs(x))", True),
        ("(1 + exp(-x^2))*(2 + exp(-x^2))", True),
        ("where(x > 0, exp(-x^2), 1) + 1", True),
        ("1 + exp(x)", False),
        ("1 + x^2", False),
        ("exp(-abs(x))", False),
        ("1 - exp(-abs(x))", False),
        ("x", False),
    ],
)
def test_where_a_divisor_cannot_get_to_the_ends(text: str, is_moderate: bool) -> None:
    code = VectorCode()
    d = vector_of(text, code)
    first, second = (code.make("load", detail=name, is_varying=True) / d for name in "ab")
    found = vectors.quick_forms([first, second], may_watch=True, has_fma=False, has_scalef=False)
    assert [root.op for root in found.roots] == ["fmul", "fmul"]
    assert len(found.watched) == (not is_moderate)
    cautious = vectors.quick_forms([first, second], may_watch=False, has_fma=False, has_scalef=False)
    assert cautious.roots[0].op == ("fmul" if is_moderate else "fdiv")
    assert not cautious.watched


# Formulas whose results jump, or become nan, by one unit in the last place.
DECIDED = [
    "floor(x/k) + x/k", "ceil(x/k) + 1/k", "round(x/k*2)", "(x/k) % 1", "sign(x/k*k - x) + x/k", "heaviside(x/k - 1)",
    "where(x/k*k == x, x/k, 1/k)", "where(x/k >= 3 and 1/k < 1, x, k)", "where(10*x - k >= 0, x/k, 1/k)",
    "where(x*x/k + 1/k > x, x, 0)", "floor(x^2/k + 1/k)", "sqrt(1 - x/k)/k", "log(2 - x/k - 1/k)", "asin(10*x - k)",
    "sqrt(1 - 10*x)", "sign([x, k] @ [k, -x])",
]  # fmt: skip


def agreed(x: NDArray[np.float64], k: NDArray[np.float64], width: int | None = None) -> None:
    """Compiled code takes the side that NumPy takes, to the last bit up to the functions' own errors."""
    graphs = [read(text).output for text in DECIDED]
    found, wanted = (by_row(b, graphs, {"x": x, "k": k}) for b in (LlvmBackend(1, width), NumpyBackend()))
    np.testing.assert_allclose(found, wanted, rtol=1e-15, atol=1e-15)
    sides = [k for k, text in enumerate(DECIDED) if text.startswith(("floor(x/k)", "round", "(x/k)", "where(x/k*k"))]
    np.testing.assert_array_equal(found[sides], wanted[sides])


@every_width
def test_jumps_and_edges_of_domains_are_decided_as_in_numpy(width: int) -> None:
    k, factor = np.array([*itertools.product(range(1, 100), range(1, 60))], dtype=float).T
    agreed(k * factor, k, width)  # every quotient is an integer
    agreed(k * factor / 10, k / 10, width)
    agreed(k / 10, factor, width)


@given(st.lists(st.tuples(*[st.floats(-1e150, 1e150)] * 2), min_size=1, max_size=40))
def test_equal_products_cancel(rows: list[tuple[float, float]]) -> None:
    """No product is rounded where the other one of a sum is not."""
    x, k = np.array(rows).T.copy()
    graphs = [
        read(text).output for text in ("x*k - k*x", "x*x - x^2", "k^2 + -k*k", "x*k + k*(-x) + x", "x*(2*k) - k*(2*x)")
    ]
    found = by_row(LlvmBackend(1), graphs, {"x": x, "k": k})
    np.testing.assert_array_equal(found, [0 * x, 0 * x, 0 * x, x, 0 * x])


# Formulas that are infinite, or jump, where a quotient equals a number to the last bit.
AT_POLES = [
    "1/(x/k - n)", "(x/k - n)^-3", "1/(exp(x/k - n) - 1)", "1/sum([x/k, -n])", "coth(x/k - n)", "Ei(2*x/k - 2*n)",
    "1/([x/k, 1] @ [k, -k*n])", "atan2(x/k - n, -1)", "acot(n - x/k)", "hypot(x/k - n, 0)", "cbrt(x/k - n)",
]  # fmt: skip


def check_poles(text: str, has_gradient: bool) -> None:
    """Compare a formula alone: where formulas share a quotient, one of them decides how it is computed for all."""
    k, n = np.array([*itertools.product((7, 49, 99, 0.7), (1, 3, 31, 59))], dtype=float).T
    f = parse(text)
    graphs = [f.output, *(gradient_nodes(f.output, list(f.leaves.values())) if has_gradient else [])]
    with ignore_float_errors():
        found, wanted = (by_row(b, graphs, {"x": k * n, "k": k, "n": n}) for b in (LlvmBackend(1), NumpyBackend()))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@each("text", AT_POLES)
def test_poles_and_signs_of_exact_quotients_are_those_of_numpy(text: str) -> None:
    check_poles(text, has_gradient=True)


@each("text", ["1/((x/k - n) + (n*k/k - n))", "1/((x/k - n) - (2*x/k - 2*n))", "1/((x/k - n) + (x*n/k - n^2))"])
def test_quotients_in_sums_of_sums_are_exact_at_poles(text: str) -> None:
    check_poles(text, has_gradient=False)


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from([1.0, 0.1, 1e-300, 1e290])),
        min_size=1,
        max_size=40,
    )
)
def test_any_fraction_is_decided_as_in_numpy(rows: list[tuple[int, int, float]]) -> None:
    n, k, unit = np.array(rows, dtype=float).T
    agreed(n * k * unit, k * unit)
    agreed(n * unit, k * unit)


@each(
    "text",
    ["x^2 + 0.25", "exp(-x^2)", "-abs(x)", "max(x, 1)", "where(x > 1, -4, exp(-x^2))", "x*abs(x)", "1 + exp(-abs(x))"],
)
@each("factor", ["1", "(exp(-x^2) + 0.25)", "exp(-abs(x))", "(abs(x) + 0.5)", "(0 - 2)", "x"])
def test_values_lie_between_their_bounds(text: str, factor: str) -> None:
    formula = f"({text})*{factor} + 1"
    vector = vector_of(formula, VectorCode())
    low, high = vectors.value_bounds(topological_order([vector]))[vector]
    for x in (-1e200, -2.0, -0.5, 0.0, 0.3, 1.0, 7.0, 1e9):
        value = parse(formula)(x=x)
        assert low <= value <= high or math.isnan(value), x
