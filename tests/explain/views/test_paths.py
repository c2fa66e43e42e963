"""Paths: counted exactly, the largest listed first, and together they are the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import PathNetwork, Paths
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import ExpressionError
from tests.graphs import SMOOTH, graphs

POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.floats(-1.5, 1.5)))


def traced(graph: tuple[Node, list[Node]], point: dict[str, float]) -> Trace:
    output, leaves = graph
    return trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point)


def paths(text: str, name: str = "x", limit: int = 10, **point: float) -> Paths:
    return PathNetwork(trace(parse(text), point)).from_variable(name, limit)


def products(found: Trace, name: str) -> list[float]:
    """The product of every path, by following all of them."""
    uses: dict[int, list[tuple[int, float]]] = {}
    for step in found.backward:
        for given_ in step.contributions:
            uses.setdefault(given_.to, []).append((step.node, given_.local))

    def from_node(node: int, product: float) -> Iterator[float]:
        if node == found.tape.outputs[0]:
            yield product
        for user, local in uses.get(node, []):
            yield from from_node(user, product * local)

    start = found.tape.index.get(found.expression.leaves[name])
    return [] if start is None else [*from_node(start, 1.0)]


@settings(deadline=None)
@given(graphs(SMOOTH), POINTS, st.integers(0, 6))
def test_listed_are_the_largest_and_the_rest_is_what_is_left(
    graph: tuple[Node, list[Node]], point: dict[str, float], limit: int
) -> None:
    found = traced(graph, point)
    every = sorted(products(found, "x"), key=abs, reverse=True)
    listed = PathNetwork(found).from_variable("x", limit)
    scale = 1e-12 + 1e-9 * sum(map(abs, every))
    assert listed.total == len(every)
    assert len(listed.listed) == min(limit, len(every))
    assert [abs(path.product) for path in listed.listed] == pytest.approx([*map(abs, every[:limit])], abs=scale)
    in_all = sum(path.product for path in listed.listed) + listed.rest
    assert in_all == pytest.approx(found.gradient["x"], abs=scale)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=7, max_size=7), st.integers(1, 40))
def test_the_largest_of_128_paths(factors: list[tuple[int, int]], limit: int) -> None:
    text = "a0 = x;" + "".join(f"a{i + 1} = ({p})*a{i} + ({q})*a{i};" for i, (p, q) in enumerate(factors)) + "a7"
    found = trace(parse(text), {"x": 1.0})
    every = sorted(products(found, "x"), key=abs, reverse=True)
    listed = PathNetwork(found).from_variable("x", limit)
    assert listed.total == 128
    assert [abs(path.product) for path in listed.listed] == [*map(abs, every[:limit])]
    assert sum(path.product for path in listed.listed) + listed.rest == sum(every)


@settings(deadline=None)
@given(graphs(SMOOTH), POINTS)
def test_a_path_is_a_chain_of_uses_with_its_local_derivatives(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    found = traced(graph, point)
    uses = {(given_.to, step.node, given_.local) for step in found.backward for given_ in step.contributions}
    for path in PathNetwork(found).from_variable("x", 5).listed:
        assert found.tape.nodes[path.nodes[0]].text == "x"
        assert path.nodes[-1] == found.tape.outputs[0]
        assert uses.issuperset(zip(path.nodes, path.nodes[1:], path.local_derivatives, strict=False))
        assert path.product == pytest.approx(math.prod(path.local_derivatives), rel=1e-12)


def test_the_worked_example() -> None:
    found = paths("x*y + sin(x)", x=2, y=3)
    assert [(path.nodes, path.product) for path in found.listed] == [((0, 2, 4), 3.0), ((0, 3, 4), math.cos(2))]
    assert (found.total, found.unlisted, found.rest) == (2, 0, 0.0)


def test_two_uses_by_one_node_are_two_paths() -> None:
    found = paths("x*x", x=3)
    assert [path.product for path in found.listed] == [3.0, 3.0]


DIAMONDS = "a0 = x;" + "".join(f"a{i + 1} = a{i}/4 + sin(a{i});" for i in range(300)) + "a300"
EQUAL = "a0 = x;" + "".join(f"a{i + 1} = a{i} + a{i};" for i in range(300)) + "a300"


def test_300_diamonds_are_counted_exactly_and_the_rest_sums_up() -> None:
    found = paths(DIAMONDS, x=0.5)
    gradient = parse(DIAMONDS).grad(x=0.5)["x"]
    assert found.total == 2**300
    assert sum(path.product for path in found.listed) + found.rest == pytest.approx(gradient, rel=1e-9)


def test_ties_do_not_exceed_the_limit_of_paths() -> None:
    found = paths(EQUAL, x=0.5, limit=3)
    assert [path.product for path in found.listed] == [1.0, 1.0, 1.0]
    assert found.total == 2**300
    assert found.rest == 2.0**300


@pytest.mark.slow
def test_a_chain_of_30000_operations() -> None:
    found = paths("-(" * 30_000 + "x" + ")" * 30_000, x=1)
    assert (found.total, found.listed[0].product, len(found.listed[0].nodes)) == (1, 1.0, 30_001)


@pytest.mark.parametrize("text", ["where(x > 0, x, log(x - 5))", "x + 0*log(x - 5)", "max(x, log(x - 2))"])
def test_a_path_that_structurally_carries_nothing_has_the_product_0(text: str) -> None:
    found = paths(text, x=2)
    assert sum(path.product for path in found.listed) == 1.0
    assert all(path.product == 0 for path in found.listed[1:])


def test_nothing_below_an_unused_branch_contributes_above_it() -> None:
    found = paths("sqrt(where(x < 0, 3*x, x - 2))", x=2)  # the slope of sqrt is infinite there
    assert [path.product for path in found.listed] == [math.inf, 0.0, 0.0]


def test_what_is_infinite_or_undefined_comes_first() -> None:
    found = paths("sqrt(x)^2 + x", x=0)
    assert math.isnan(found.listed[0].product)
    assert found.listed[1].product == 1.0


@pytest.mark.parametrize(
    ("text", "point", "largest"),
    [
        ("x*y + 1e-300*x", {"x": 1, "y": 0}, 1e-300),  # the other carries 0
        ("1e-300*sqrt(x) + 1e300*x", {"x": 0}, math.inf),
    ],
)
def test_the_one_path_that_is_listed_is_the_largest_also_beside_0_and_infinity(
    text: str, point: dict[str, float], largest: float
) -> None:
    (path,) = paths(text, limit=1, **point).listed
    assert path.product == largest


def test_a_variable_that_the_output_does_not_need_has_no_paths() -> None:
    assert paths("a = x^2; y", x=1, y=2) == Paths("x", 0, [], 0.0)


def test_arrays_are_refused_in_words() -> None:
    with pytest.raises(ExpressionError, match="arrays"):
        PathNetwork(trace(parse("sum(v)"), {"v": [1.0, 2.0]}))
