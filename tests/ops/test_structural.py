"""Operations on whole arrays against the same formulas written out in numbers, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.gradient import gradient_nodes, tangents
from autodiff_cli.graph.node import Node, Shape, constant, variable
from autodiff_cli.graph.tape import ShapeError, Tape, infer_shapes
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops, get_op
from autodiff_cli.ops.declaration import _structural_fields
from tests.each import each

ROWS = 4

exp, log, sqrt, largest_of, smallest_of = (get_op(name) for name in ("exp", "log", "sqrt", "max", "min"))
exps = np.frompyfunc(exp, 1, 1)


class Case(NamedTuple):
    """An operation, the shapes of its inputs, and its formula, over NumPy arrays of nodes, one node per element.

    `build` makes its node, where that takes more than its inputs.
    """

    name: str
    inputs: Sequence[Shape]
    formula: Callable[..., Any]
    build: Callable[..., Node] | None = None


def at(name: str, *numbers: int, before_last: bool = False) -> Callable[..., Node]:
    """The operation with these whole numbers after its other inputs, or before the last of them."""

    def build(*inputs: Node) -> Node:
        positions = [constant(str(number)) for number in numbers]
        if before_last:
            return get_op(name)(*inputs[:-1], *positions, inputs[-1])
        return get_op(name)(*inputs, *positions)

    return build


def zeros(shape: Shape) -> NDArray[Any]:
    found = np.empty(shape, dtype=object)
    found.fill(constant("0"))
    return found


def placed(x: Any, like: NDArray[Any], position: Any) -> NDArray[Any]:
    found = zeros(like.shape)
    found[position] = x
    return found


def softmax(x: NDArray[Any]) -> Any:
    return exps(x) / exps(x).sum()


CASES = [
    Case("broadcast_like", [(3,), (2, 3)], lambda x, like: np.broadcast_to(x, like.shape)),
    Case("broadcast_like", [(), (2, 3)], lambda x, like: np.broadcast_to(x, like.shape)),
    Case("sum_like", [(2, 3), (3,)], lambda x, like: x.sum(axis=0)),
    Case("sum_like", [(2, 3), (2, 1)], lambda x, like: x.sum(axis=1, keepdims=True)),
    Case("sum_like", [(3,), ()], lambda x, like: x.sum()),
    Case("sum", [(2, 3)], lambda x: x.sum()),
    Case("size", [(2, 3)], lambda x: constant("6")),
    Case("mean", [(2, 3)], lambda x: x.sum() / 6),
    Case("norm", [(3,)], lambda x: sqrt((x * x).sum())),
    Case("logsumexp", [(3,)], lambda x: log(exps(x).sum())),
    Case("largest", [(2, 3)], lambda x: largest_of(*x.flat)),
    Case("smallest", [(4,)], lambda x: smallest_of(*x.flat)),
    Case("prod", [(2, 2)], lambda x: x.prod()),
    Case("prod", [(3, 1)], lambda x: x.prod()),
    Case("prod", [()], lambda x: x.item()),
    Case("matmul", [(2, 3), (3, 2)], lambda a, b: a @ b),
    Case("matmul", [(2, 3), (3,)], lambda a, b: a @ b),
    Case("matmul", [(2,), (2, 3)], lambda a, b: a @ b),
    Case("matmul", [(3,), (3,)], lambda a, b: a @ b),
    Case("outer", [(2,), (3,)], np.multiply.outer),
    Case("dot", [(3,), (3,)], lambda a, b: (a * b).sum()),
    Case("dot", [(2, 2), (2, 2)], lambda a, b: (a * b).sum()),
    Case("softmax", [(3,)], softmax),
    Case("logsoftmax", [(3,)], lambda x: np.frompyfunc(log, 1, 1)(softmax(x))),
    Case("stack", [(), (), ()], lambda *xs: np.array([x.item() for x in xs])),
    Case("stack", [(3,), (3,)], lambda *xs: np.array(xs)),
    Case("index", [(3,)], lambda x: x[2], at("index", 2)),
    Case("index", [(2, 3)], lambda x: x[1], at("index", 1)),
    Case("index", [(2, 3)], lambda x: x[1, 2], at("index", 1, 2)),
    Case("place", [(), (3,)], lambda x, like: placed(x, like, 1), at("place", 1)),
    Case("place", [(3,), (2, 3)], lambda x, like: placed(x, like, 1), at("place", 1)),
    Case("place", [(), (2, 3)], lambda x, like: placed(x, like, (1, 0)), at("place", 1, 0)),
    Case("concat", [(2,), (3,)], lambda *xs: np.concatenate(xs)),
    Case("concat", [(1, 2), (2, 2)], lambda *xs: np.concatenate(xs)),
    Case("part", [(4,)], lambda x: x[1:3], at("part", 1, 3)),
    Case("part", [(3, 2)], lambda x: x[1:3], at("part", 1, 3)),
    Case("pad", [(2,), (4,)], lambda x, like: placed(x, like, slice(1, 3)), at("pad", 1, 3, before_last=True)),
    Case("transpose", [(2, 3)], lambda x: x.T),
    Case("transpose", [(3,)], lambda x: x),
    # Elementwise operations stretch their inputs.
    Case("mul", [(2, 3), (3,)], lambda a, b: a * b),
    Case("div", [(2, 1), (2, 3)], lambda a, b: a / b),
    Case("sub", [(), (3,)], lambda a, b: a - b),
]


def identity(case: Case) -> str:
    return f"{case.name} of {', '.join('x'.join(map(str, shape)) or 'number' for shape in case.inputs)}"


class ArrayAndNumbers:
    """One case as a total of its weighted elements, in arrays and in numbers, at the same random points.

    The weights and the directions are inputs too, so that every element counts for itself.

    Args:
        fixed: which input is the same for all rows; by default none is.
    """

    def __init__(self, case: Case, fixed: int | None = None) -> None:
        names = [f"x{i}" for i in range(len(case.inputs))]
        self.leaves = [variable(name) for name in names]
        output = (case.build or get_op(case.name))(*self.leaves)
        self.sizes: dict[str, Shape] = dict(zip(names, case.inputs, strict=True))
        tape = Tape((output,))
        shape = infer_shapes(tape, self.sizes)[-1]
        self.sizes |= {f"d{name}": self.sizes[name] for name in names} | {"weights": shape}
        self.total = get_op("sum")(output * variable("weights"))
        self.directions = [variable(f"d{name}") for name in names]

        generator = np.random.default_rng(7)
        self.point = {
            name: generator.uniform(0.5, 1.5, (*shape, 1 if fixed is not None and name == f"x{fixed}" else ROWS))
            for name, shape in self.sizes.items()
        }
        elements = {name: self._elements(name) for name in self.sizes}
        written = np.asarray(case.formula(*(elements[name] for name in names)), dtype=object)
        assert written.shape == shape
        weighted = np.asarray(written * elements["weights"], dtype=object)
        self.written = sum(weighted.flat, start=constant("0"))
        self.numbers = [node for name in names for node in elements[name].flat]
        self.number_directions = [node for name in names for node in elements[f"d{name}"].flat]

    def _elements(self, name: str) -> NDArray[Any]:
        """A leaf for every element of an input."""
        found = np.empty(self.sizes[name], dtype=object)
        for position in np.ndindex(found.shape):
            found[position] = variable(f"{name}{list(position)}")
        return found

    def in_arrays(self, *roots: Node) -> list[NDArray[np.float64]]:
        """The elements of these graphs, for every row."""
        tape = Tape(roots)
        sizes = infer_shapes(tape, self.sizes)
        with ignore_float_errors():
            values = forward(tape, ARRAYS, self.point)
        return [np.broadcast_to(values[i], (*sizes[i], ROWS)).reshape(-1, ROWS) for i in tape.outputs]

    def in_numbers(self, *roots: Node) -> NDArray[np.float64]:
        """The values of these graphs over numbers, for every row."""
        tape = Tape(roots)
        rows = []
        for row in range(ROWS):
            place = {
                f"{name}{list(position)}": float(np.broadcast_to(values, (*values.shape[:-1], ROWS))[(*position, row)])
                for name, values in self.point.items()
                for position in np.ndindex(values.shape[:-1])
            }
            values = forward(tape, FLOATS, place)
            rows.append([values[i] for i in tape.outputs])
        return np.array(rows).T

    def gradient(self, root: Node) -> list[Node]:
        """The gradient, each of the shape of its leaf (where nothing arrives it is a plain 0)."""
        return [
            get_op("broadcast_like")(slope, leaf)
            for slope, leaf in zip(gradient_nodes(root, self.leaves, self.sizes), self.leaves, strict=True)
        ]


def agree(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_every_structural_operation_has_a_case() -> None:
    assert {op.name for op in all_ops() if op.is_structural} <= {case.name for case in CASES}


@each(
    ("case", "fixed"),
    [(case, fixed) for case in CASES for fixed in (None, *range(len(case.inputs)))],
    ids=lambda value: identity(value) if isinstance(value, Case) else f"fixed {value}",
    quick=lambda case, fixed: fixed is None or case.name == "matmul",
)
def test_value_and_derivatives_are_those_of_the_formula(case: Case, fixed: int | None) -> None:
    both = ArrayAndNumbers(case, fixed)
    agree(both.in_arrays(both.total)[0], both.in_numbers(both.written))

    slopes = both.gradient(both.total)
    written_slopes = gradient_nodes(both.written, both.numbers)
    agree(np.concatenate(both.in_arrays(*slopes)), both.in_numbers(*written_slopes))

    rates = dict(zip(both.leaves, both.directions, strict=True))
    rate = tangents([both.total], rates, both.sizes)[0]
    written_rates = [s * d for s, d in zip(written_slopes, both.number_directions, strict=True)]
    written_rate = sum(written_rates, start=constant("0"))
    agree(both.in_arrays(rate)[0], both.in_numbers(written_rate))

    curvatures = both.gradient(rate)
    agree(np.concatenate(both.in_arrays(*curvatures)), both.in_numbers(*gradient_nodes(written_rate, both.numbers)))


def gradient_at(name: str, values: Sequence[float]) -> list[float]:
    x = variable("x")
    (slope,) = gradient_nodes(get_op(name)(x), [x], {"x": (len(values),)})
    with ignore_float_errors():
        found = forward(Tape((slope,)), ARRAYS, {"x": np.array(values)[:, None]})[-1]
    return np.broadcast_to(found, (len(values), 1))[:, 0].tolist()


def test_the_largest_share_equally_and_the_others_get_nothing() -> None:
    assert gradient_at("largest", [2.0, 5.0, 5.0, -math.inf]) == [0.0, 0.5, 0.5, 0.0]
    assert gradient_at("smallest", [2.0, 5.0, 2.0, math.inf]) == [0.5, 0.0, 0.5, 0.0]


def test_the_shares_of_nan_are_nan() -> None:
    assert np.isnan(gradient_at("largest", [2.0, math.nan])).all()
    assert np.isnan(gradient_at("smallest", [2.0, math.nan])).all()


def test_the_length_of_nothing_has_no_slope() -> None:
    assert gradient_at("norm", [0.0, 0.0]) == [0.0, 0.0]


def test_a_zero_does_no_harm_to_a_product() -> None:
    assert gradient_at("prod", [2.0, 0.0, 3.0]) == [0.0, 6.0, 0.0]
    assert gradient_at("prod", [0.0, 0.0, 3.0]) == [0.0, 0.0, 0.0]


@each(
    ("name", "values", "expected"),
    [
        ("logsumexp", [1000.0, 1000.0], 1000.0 + math.log(2)),
        ("logsumexp", [-math.inf, 3.0], 3.0),
        ("norm", [3e200, 4e200], 5e200),
        ("norm", [3e-200, 4e-200], 5e-200),
    ],
)
def test_nothing_overflows_or_vanishes_on_the_way(name: str, values: list[float], expected: float) -> None:
    with ignore_float_errors():
        found = ARRAYS.function(get_op(name), 1)(np.array(values)[:, None])
    assert found.item() == pytest.approx(expected, rel=1e-15)
    assert ARRAYS.function(get_op("softmax"), 1)(np.array([[1000.0], [1000.0]])).tolist() == [[0.5], [0.5]]


def build(name: str, *shaped: Shape, numbers: Sequence[int] = ()) -> Shape:
    leaves = [variable(f"x{i}") for i in range(len(shaped))]
    node = at(name, *numbers)(*leaves)
    sizes = {leaf.text: shape for leaf, shape in zip(leaves, shaped, strict=True)}
    return infer_shapes(Tape((node,)), sizes)[-1]


@each(
    ("name", "inputs", "numbers", "words"),
    [
        ("matmul", [(2, 3), (2, 3)], [], ["2x3 @ 2x3"]),
        ("matmul", [(), (3,)], [], ["scalar and 3"]),
        ("dot", [(2,), (3,)], [], ["2 and 3"]),
        ("outer", [(2, 2), (3,)], [], ["2x2 and 3"]),
        ("stack", [(), (2,)], [], ["scalar and 2"]),
        ("stack", [(2, 2), (2, 2)], [], ["two dimensions"]),
        ("concat", [(2,), ()], [], ["2 and scalar"]),
        ("concat", [(2, 2), (2, 3)], [], ["2x2 and 2x3"]),
        ("add", [(2,), (3,)], [], ["2 and 3"]),
        ("index", [(2,)], [2], ["index 2 is out of range"]),
        ("index", [(2,)], [0, 0], ["a vector of 2 takes one index"]),
        ("index", [()], [0], ["a number has no elements"]),
        ("place", [(2,), (3,)], [0], ["2", "scalar"]),
        ("part", [(3,)], [1, 4], ["from 1 up to 4 are out of range"]),
        ("part", [(3,)], [2, 2], ["from 2 up to 2"]),
        ("part", [()], [0, 1], ["part takes an array"]),
    ],
)
def test_shapes_that_do_not_fit(
    name: str, inputs: Sequence[Shape], numbers: Sequence[int], words: Sequence[str]
) -> None:
    with pytest.raises(ShapeError) as caught:
        build(name, *inputs, numbers=numbers)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.node is not None
    assert caught.value.node.op is get_op(name)


@each("shift", [0.0, 2.0**40, -(2.0**52)])
def test_scores_of_any_size_keep_the_digits_of_their_differences(shift: float) -> None:
    v = variable("v")
    (slope,) = gradient_nodes(get_op("logsumexp")(v), [v], {"v": (3,)})
    for name, found in {"softmax": get_op("softmax")(v), "logsoftmax": get_op("logsoftmax")(v), "slope": slope}.items():
        scores = np.array([1.0, 3.0, 2.0])
        there = forward(Tape([found]), ARRAYS, {"v": (scores + shift)[:, None]})[-1]
        here = forward(Tape([found]), ARRAYS, {"v": scores[:, None]})[-1]
        assert there == pytest.approx(here, rel=1e-15), name


def test_an_operation_defined_by_others_is_named_where_shapes_do_not_fit() -> None:
    """Users do not know the operations that it consists of."""
    shape = _structural_fields(get_op("matmul"))["shape"]
    node = variable("a") + variable("b")
    assert shape(node, (2, 3), (3,)) == (2,)
    with pytest.raises(ShapeError) as caught:
        shape(node, (2, 3), (2, 3))
    assert "2x3 @ 2x3" in str(caught.value)
    assert caught.value.node is None
