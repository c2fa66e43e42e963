"""The page's evaluator, in a real browser, computes the numbers of the record: values, adjoints and contributions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.explain.operations import has_jacobian, jacobian
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import all_tangents
from autodiff_cli.expression import Expression
from autodiff_cli.graph.node import Node, Op, Shape, variable
from autodiff_cli.graph.tape import Tape, infer_shapes
from autodiff_cli.language.lexer import quote_name
from autodiff_cli.ops import all_ops, get_op
from autodiff_cli.render.javascript import evaluator
from tests.each import examples
from tests.graphs import ELEMENTWISE, SHAPES, array_graphs, graphs
from tests.numbers.test_arrays import inputs_of
from tests.ops.table import CANCELLING_SLOPES, ROWS
from tests.ops.test_rules import every_point

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Point = Mapping[str, Any]
Bound = tuple[float, float]  # of the error, relative and absolute

# What both sides compute to the last bit, so that results can be compared exactly, at any point whatsoever.
EXACT = tuple(
    op
    for op in ELEMENTWISE
    if op.name
    in {
        *("add", "sub", "mul", "div", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "mod", "abs"),
        *("sign", "floor", "ceil", "round", "where", "max", "min", "clip", "relu", "heaviside", "square", "sqrt"),
        *("leaky_relu", "hardtanh", "relu6", "softsign"),
    }
)
# The same of arrays, without what divides: there sums are exact too, at whole numbers.
WHOLE = tuple(get_op(name) for name in ("add", "sub", "mul", "neg", "where", "max", "min", "relu", "gt", "eq"))
ROUNDED = {"softmax", "logsoftmax", "logsumexp", "norm", "mean"}  # compared with a tolerance, at chosen points

SPECIAL = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.5, 3.0, 6.0, 1e200, -1e200, math.inf, -math.inf, math.nan]
)

# Points of each operation's own domain, and its special ones.
POINTS = {row.name: [*every_point(row)] for row in ROWS}

# How far from Python's numbers, in relation to them and absolutely, where an operation's record says no more.
ROUNDING = (1e-14, 1e-300)


def bound_of(op: Op) -> Bound:
    """How far from Python's numbers an operation and its slopes may be."""
    return 1e-6 if op.name in CANCELLING_SLOPES else max(ROUNDING[0], op.ulp_bound * 2**-53), ROUNDING[1]


# Runs evaluators on points. Numbers come and go as text, because JSON has no nan and no infinity.
RUN = """cases => JSON.stringify(
    JSON.parse(cases, (_, value) => (typeof value === "object" && value?.number ? Number(value.number) : value)).map(
        ({source, points}) => {
            const evaluator = new Function(source + "return evaluator;")();
            return points.map((point) => evaluator.run(point));
        }),
    (_, value) =>
        value instanceof Float64Array ? [...value]
        : typeof value === "number" && !Number.isFinite(value) ? `${value}`
        : value,
)"""


def computed(tab: Page, cases: Iterable[tuple[Trace, Sequence[Point]]]) -> list[list[Any]]:
    """What the evaluators of some traces find at some points, case by case and point by point."""
    sent = [
        {"source": evaluator(at), "points": [{name: _sent(value) for name, value in point.items()} for point in points]}
        for at, points in cases
    ]
    found: list[list[Any]] = json.loads(tab.evaluate(RUN, json.dumps(sent)))
    return found


def _sent(value: Any) -> Any:
    if np.ndim(value):
        return [_sent(element) for element in value]
    return {"number": str(float(value)).replace("inf", "Infinity").replace("nan", "NaN")}


def number(found: Any) -> Any:
    """A number or an array that came from JavaScript."""
    if isinstance(found, dict):
        return np.array([float(element) for element in found["data"]]).reshape(found["shape"])
    return float(found)


def same(found: Any, expected: Any, bound: Bound) -> bool:
    """Whether what was found is what was expected, up to an error."""
    if not isinstance(found, dict) and isinstance(expected, float):
        ours = float(found)
        return (
            ours == expected
            or (math.isnan(ours) and math.isnan(expected))
            or math.isclose(ours, expected, rel_tol=bound[0], abs_tol=bound[1])
        )
    with np.errstate(all="ignore"):
        arrays = np.broadcast_arrays(number(found), expected)
        return bool(np.all(np.isclose(*arrays, rtol=bound[0], atol=bound[1], equal_nan=True)))


def differences(found: Any, at: Trace, bound: Bound = (0.0, 0.0)) -> list[str]:
    """Where what an evaluator found is not what a trace has."""
    wrong = [
        f"value of {i}: {ours}, not {value}"
        for i, (ours, value) in enumerate(zip(found["values"], at.values, strict=True))
        if not same(ours, value, bound)
    ]
    for i, adjoint in enumerate(at.adjoints):
        ours = found["adjoints"][i]
        if (ours is None) != (adjoint is None) or (adjoint is not None and not same(ours, adjoint, bound)):
            wrong.append(f"adjoint of {i}: {ours}, not {adjoint}")
    steps = {step.node: step.contributions for step in at.backward}
    for i, ours in enumerate(found["contributions"]):
        theirs = steps.get(i, ())
        if [(given["position"], given["to"]) for given in ours] != [(given.position, given.to) for given in theirs]:
            wrong.append(f"inputs of {i}")
            continue
        for given_, expected in zip(ours, theirs, strict=True):
            spot = f"from {i} to input {expected.position}"
            if not same(given_["amount"], expected.amount, bound):
                wrong.append(f"amount {spot}: {given_['amount']}, not {expected.amount}")
            if given_["nothing"] is not expected.is_structural_zero:
                wrong.append(f"{'nothing' if given_['nothing'] else 'something'} {spot}")
            if (given_["local"] is None) != (expected.local is None):
                wrong.append(f"kind of local derivative {spot}")
            elif has_jacobian(at, i) and not same(given_["jacobian"], jacobian(at, i), bound):
                wrong.append(f"jacobian {spot}: {given_['jacobian']}, not {jacobian(at, i)}")
            elif expected.local is not None and not same(given_["local"], expected.local, bound):
                wrong.append(f"local {spot}: {given_['local']}, not {expected.local}")
    return wrong


def check(tab: Page, cases: Sequence[tuple[Expression, Sequence[Point]]], bound: Bound = (0.0, 0.0)) -> None:
    """Let the browser and Python compute the same; each evaluator is made at the first point and runs at all."""
    traces = [[trace(f, point) for point in points] for f, points in cases]
    found = computed(tab, [(ts[0], points) for ts, (_, points) in zip(traces, cases, strict=True)])
    wrong = [
        f"{f} at {dict(at.point)}: {what}"
        for (f, _), results, ts in zip(cases, found, traces, strict=True)
        for result, at in zip(results, ts, strict=True)
        for what in differences(result, at, bound)
    ]
    assert wrong[:3] == []


def expression(output: Node, leaves: Iterable[Node], sizes: Mapping[str, Shape] = MappingProxyType({})) -> Expression:
    """A graph as an expression of those leaves that it uses."""
    used = {leaf.text: leaf for leaf in leaves if leaf in Tape((output,)).index}
    return Expression(output, used, shapes={name: shape for name, shape in sizes.items() if name in used and shape})


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One empty page for all evaluators: they need nothing of it, and a new page for each would take longer."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


TRANSLATED = [op for op in all_ops() if not op.is_structural]


@pytest.mark.sampled
@pytest.mark.parametrize("op", TRANSLATED, ids=lambda op: op.name)
def test_an_operation_and_its_rule_mean_the_same(tab: Page, op: Op) -> None:
    grid = inputs_of(op)
    apart = 2 if op.min_inputs == 1 else max(7, len(grid) // 100 | 1)  # odd, so that all numbers of the grid occur
    points = [*grid[::apart], *POINTS.get(op.name, ())]
    cases = []
    for count in sorted({*map(len, points)}):
        leaves = [variable(name) for name in "xyzuv"[:count]]
        f = expression(op(*leaves), leaves)
        cases.append((f, [dict(zip("xyzuv", point, strict=False)) for point in points if len(point) == count]))
    check(tab, cases, bound_of(op))


WITH_TAB = examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@WITH_TAB
@given(st.lists(st.tuples(graphs(EXACT), st.lists(st.tuples(SPECIAL, SPECIAL, SPECIAL), max_size=3)), max_size=40))
def test_random_graphs_at_any_point(tab: Page, drawn: list[Any]) -> None:
    cases = [
        (expression(output, leaves), [dict(zip("xyz", p, strict=True)) for p in ps]) for (output, leaves), ps in drawn
    ]
    check(tab, [(f, [{name: p[name] for name in f.variables} for p in points]) for f, points in cases if points])


@WITH_TAB
@given(st.lists(array_graphs(WHOLE), max_size=20), st.randoms(use_true_random=False))
def test_random_graphs_of_arrays_at_whole_numbers(tab: Page, drawn: list[Any], random: Random) -> None:
    cases = []
    for output, leaves in drawn:
        tape = Tape((output,))
        if ROUNDED.isdisjoint(node.op.name for node in tape.nodes if node.op is not None):
            number_ = output if infer_shapes(tape, SHAPES)[-1] == () else get_op("sum")(output)
            f = expression(number_, leaves, SHAPES)
            cases.append((f, [{name: filled(SHAPES[name], random) for name in f.variables}]))
    check(tab, cases)


def filled(shape: tuple[int, ...], random: Random) -> Any:
    """A number, or nested lists of numbers, of this shape."""
    return [filled(shape[1:], random) for _ in range(shape[0])] if shape else float(random.randint(-3, 3))


ARRAYS: list[tuple[str, dict[str, Any]]] = [
    ("sum(tanh(W @ x + b))", {"W": [[0.3, -1.2, 2.0], [0.5, 0.25, -0.75]], "x": [1.0, -2.0, 0.5], "b": [0.1, -0.2]}),
    ("sum(x * softmax(y))", {"x": [1.0, 2.0, -3.0], "y": [0.5, 800.0, 799.0]}),
    ("logsumexp(x) + norm(x) + mean(x)", {"x": [1.0, 2.0, -3.0]}),
    ("norm(x) + logsumexp(x - 1000)", {"x": [0.0, 0.0]}),
    ("norm(x)", {"x": [3e200, 4e200]}),
    ("sum(logsoftmax(x)^2)", {"x": [[1.0, 2.0], [-3.0, 0.5]]}),
    ("max(x) - min(x) + prod(x)", {"x": [2.0, -1.0, 2.0, -1.0]}),
    ("dot(x, y)*sum(outer(x, y))", {"x": [2.0, -1.0], "y": [0.5, 3.0]}),
    ("sum(transpose(M) @ M)*M[0, 1] + sum(M[1])", {"M": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}),
    ("sum(sin(x) * M + gelu(x)/[1, 2, 3])", {"x": [1.0, 2.0, 3.0], "M": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}),
    ("sum(concat(x, [y, y^2]) * erf(y))", {"x": [1.0, 2.0], "y": 0.5}),
    ("sum(where(x > 0, x^2, 1/x))", {"x": [1.0, 0.0, -2.0]}),
    ("sum(where(x > 0, log(x), 0*x)) + sum(relu(x))", {"x": [-1.0, 0.0]}),
    ("norm(x)", {"x": [math.inf, -1.0]}),
    ("norm(x) + y*logsumexp(x)", {"x": [math.nan, 1.0], "y": 2.0}),
    ("logsumexp(x) + max(x)", {"x": [math.inf, 1.0]}),
    ("logsumexp(x)", {"x": [-math.inf, -math.inf]}),
    ("sum(max(x, y)) + sum(clip(x, 0, 2))", {"x": [1.0, 3.0, -1.0], "y": [1.0, 2.0, 0.0]}),
]


@pytest.mark.parametrize(("text", "point"), ARRAYS, ids=[text for text, _ in ARRAYS])
def test_formulas_with_arrays(tab: Page, text: str, point: Point) -> None:
    f = ad.parse(text)
    elsewhere = {name: (np.asarray(value) * 0.5 + 0.25).tolist() for name, value in point.items()}
    check(tab, [(f, [point, elsewhere])], (1e-13, 1e-15))


@pytest.mark.parametrize(
    ("text", "point", "slopes"),
    [
        ("where(x > 0, sqrt(x), 5*x)", {"x": 0.0}, {"x": 5.0}),
        ("where(x > 0, x, log(x - 1) + 1/x)", {"x": 1.0}, {"x": 1.0}),
        ("max(x, log(y))", {"x": 1.0, "y": 0.0}, {"x": 1.0, "y": 0.0}),
        ("where(s > 0, s, sum(log(v)))", {"s": 1.0, "v": [0.0, 1.0]}, {"s": 1.0, "v": [0.0, 0.0]}),
        ("sum(where(v > 0, v, 1/v))", {"v": [0.0, 2.0]}, {"v": [-math.inf, 1.0]}),
        (
            "v = sqrt(u); sum(where(a > 0, v, 1) + where(a > 1, 2*v, 1))",
            {"u": [0.0, 4.0, 9.0], "a": [-1.0, 1.0, 2.0]},
            {"u": [0.0, 0.25, 0.5]},
        ),
        ("sum(where(a > 0, a*sum(log(v)), 1))", {"a": [-1.0, -2.0], "v": [0.0, 1.0]}, {"v": [0.0, 0.0]}),
        ("0*x + y", {"x": math.inf, "y": 2.0}, {"x": 0.0, "y": 1.0}),
        ("s + sum(0*v)", {"s": 1.0, "v": [math.inf]}, {"s": 1.0, "v": [0.0]}),
    ],
)
def test_what_is_structurally_absent_contributes_exactly_0(
    tab: Page, text: str, point: Point, slopes: dict[str, Any]
) -> None:
    f = ad.parse(text)
    ((found,),) = computed(tab, [(trace(f, {name: np.ones_like(value) for name, value in point.items()}), [point])])
    for name, slope in slopes.items():
        assert np.array_equal(number(found["adjoints"][f.tape.index[f.leaves[name]]]), slope)


def test_only_what_a_chosen_variable_reaches_takes_a_gradient(tab: Page) -> None:
    at = trace(ad.parse("x*y + sin(y) + x^2"), {"x": 2, "y": 3}, ["x"])
    ((found,),) = computed(tab, [(at, [at.point])])
    assert differences(found, at, ROUNDING) == []
    assert found["adjoints"][at.tape.index[at.expression.leaves["y"]]] is None


def test_names_that_mean_something_in_javascript_are_only_names(tab: Page) -> None:
    names = ["__proto__", "constructor", "toString", "var", "evaluator", "Math", "sin", "z", "x0", "λ", "</script><!--"]
    leaves = [variable(name) for name in names]
    output = leaves[0]
    for k, leaf in enumerate(leaves[1:]):
        output = output * leaf if k % 2 else output + leaf
    f = expression(output, leaves)
    assert "<" not in evaluator(trace(f, dict.fromkeys(names, 1.0))).partition("return passes")[2]
    check(tab, [(f, [{name: k + 0.5 for k, name in enumerate(names)}])])


def test_constants_keep_all_their_digits(tab: Page) -> None:
    check(tab, [(ad.parse("x + 0.1 + pi - tau*e + 1e-300 - 6.02e23 + inf*0 + nan"), [{"x": 1.0}])])
    check(tab, [(ad.parse("0.1*x + pi*x + 1e22*x + 123456789012345678*x + 5e-324*x"), [{"x": 1.0}])])


@WITH_TAB
@given(st.lists(st.tuples(st.integers(-400, 400), st.integers(1, 10**25)), min_size=1, max_size=10))
def test_constants_of_any_size(tab: Page, drawn: list[tuple[int, int]]) -> None:
    terms = [f"{digits}e{exponent}*x" for exponent, digits in drawn]
    check(tab, [(ad.parse(term), [{"x": 1.5}]) for term in [*terms, "x + 1e400", "x - 2e308", "1e-400*x"]])


# Names that JavaScript, the evaluator or the elements of objects might have a use for.
HOSTILE = (
    "$ price",
    "$",
    "$$",
    "$sin",
    "$add",
    "sin",
    "passes",
    "lift",
    "evaluator",
    "constructor",
    "__proto__",
    '"$',
    "\\",
    "</script>",
)


@WITH_TAB
@given(
    st.lists(
        st.sampled_from(HOSTILE) | st.text("$_'\"\\ab", min_size=1, max_size=4), min_size=1, max_size=5, unique=True
    ),
    st.booleans(),
)
def test_variables_may_have_any_name(tab: Page, names: list[str], has_arrays: bool) -> None:
    products = "*".join(f"sin({quote_name(name)})" for name in names if name == name.strip())
    assume(products)
    f = ad.parse(f"sum({products}*[1, 2])" if has_arrays else products)
    check(tab, [(f, [{name: 0.5 + k for k, name in enumerate(f.variables)}])], ROUNDING)


@pytest.mark.slow
def test_a_long_chain_is_evaluated_without_recursion(tab: Page) -> None:
    x = variable("x")
    output = x
    for _ in range(20_000):
        output = output + x
    ((found,),) = computed(tab, [(trace(expression(output, [x]), {"x": 1.0}), [{"x": 2.0}])])
    assert (found["values"][-1], found["adjoints"][0]) == (40_002.0, 20_001.0)


RATES = """({source, point, seeds}) => {
  const evaluator = new Function(source + "return evaluator;")();
  const { rates } = evaluator.tangents(evaluator.forward(point), seeds);
  return rates.map((rate) => (rate === null || typeof rate === "number" ? rate : {...rate, data: [...rate.data]}));
}"""


@pytest.mark.parametrize(("text", "point"), ARRAYS, ids=[text for text, _ in ARRAYS])
def test_tangents_of_arrays_are_the_directional_derivative(tab: Page, text: str, point: Point) -> None:
    f = ad.parse(text)
    seeds = {name: (np.cos(np.arange(np.size(value))).reshape(np.shape(value)) + 0.5) for name, value in point.items()}
    found = tab.evaluate(
        RATES,
        {
            "source": evaluator(trace(f, point)),
            "point": {name: np.asarray(value).tolist() for name, value in point.items()},
            "seeds": {name: seed.tolist() for name, seed in seeds.items()},
        },
    )
    assert float(found[-1] or 0) == pytest.approx(f.jvp(seeds, **point)[1], rel=1e-12, abs=1e-14, nan_ok=True)


def test_no_tangent_goes_through_what_a_literal_zero_multiplies(tab: Page) -> None:
    at = trace(ad.parse("0/x + y"), {"x": 0.0, "y": 2.0})
    sent = {"source": evaluator(at), "point": at.point, "seeds": {"x": 1.0, "y": 1.0}}
    assert tab.evaluate(RATES, sent)[-1] == at.expression.jvp({"x": 1, "y": 1}, **at.point)[1] == 1


@WITH_TAB
@given(st.lists(st.tuples(graphs(EXACT), SPECIAL, SPECIAL, SPECIAL), max_size=20))
def test_tangents_of_random_graphs_are_those_of_forward_mode(tab: Page, drawn: list[Any]) -> None:
    for (output, leaves), *numbers in drawn:
        f = expression(output, leaves)
        point = {name: number for name, number in zip("xyz", numbers, strict=True) if name in f.variables}
        if not all(map(math.isfinite, point.values())):
            continue
        at = trace(f, point)
        for name, wanted in all_tangents(at).items():
            sent = {"source": evaluator(at), "point": point, "seeds": {name: 1.0}}
            found = [rate or 0.0 for rate in tab.evaluate(RATES, sent)]
            assert all(same(ours, theirs, ROUNDING) for ours, theirs in zip(found, wanted, strict=True))
