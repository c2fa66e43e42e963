"""Random graphs over the whole table of operations, for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hypothesis import strategies as st

from autodiff_cli.graph.node import Node, Op, Shape, constant, variable
from autodiff_cli.graph.tape import ShapeError, shape_of
from autodiff_cli.ops import all_ops

ELEMENTWISE = tuple(op for op in all_ops() if not op.is_structural and not op.is_helper)
STRUCTURAL = tuple(op for op in all_ops() if op.is_structural)
# Order-n families take whole numbers for their first argument; random graphs leave them out.
OPS = tuple(op for op in ELEMENTWISE if op.name != "sinc_derivative")
SMOOTH = tuple(
    op for op in OPS if op.name in {"add", "sub", "mul", "neg", "sin", "cos", "tanh", "sigmoid", "exp", "atan"}
)

SHAPES: dict[str, Shape] = {"x": (), "y": (), "v": (3,), "w": (2,), "A": (2, 3), "B": (3, 2)}
# Outer products of outer products grow beyond any memory, and a Jacobian has the square of it.
MOST_ELEMENTS = 64
# The inputs that are whole numbers, of the operations that have such.
NUMBERS = {"index": (1, 2), "place": (2, 3), "part": (1, 2), "pad": (1, 2)}


@st.composite
def graphs(draw: st.DrawFn, ops: tuple[Op, ...] = OPS, names: str = "xyz", most: int = 12) -> tuple[Node, list[Node]]:
    """A graph of up to `most` operations, with fan-out, and its leaves (not all of them need be used)."""
    leaves = [variable(name) for name in names]
    nodes: list[Node] = [*leaves, constant("0"), constant("1"), constant("2"), constant("0.5"), constant("pi")]
    for _ in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from(ops))
        nodes.append(op(*(draw(st.sampled_from(nodes)) for _ in range(draw(counts(op))))))
    return nodes[-1], leaves


@st.composite
def array_graphs(draw: st.DrawFn, ops: Sequence[Op] = OPS, most: int = 12) -> tuple[Node, list[Node]]:
    """A graph of up to `most` operations on arrays and numbers, and its leaves, which have the shapes `SHAPES`."""
    leaves = [variable(name) for name in SHAPES]
    shapes: dict[Node, Shape] = dict(zip(leaves, SHAPES.values(), strict=True))
    shapes |= {constant("1"): (), constant("0.5"): ()}
    for _ in range(draw(st.integers(1, most))):
        op = draw(st.one_of(st.sampled_from(STRUCTURAL), st.sampled_from(ops)))
        inputs = [draw(st.sampled_from(list(shapes))) for _ in range(draw(counts(op)))]
        for k in NUMBERS.get(op.name, ()):
            if k < len(inputs):
                inputs[k] = constant(str(draw(st.integers(0, 2))))
        node = op(*inputs)
        try:
            shape = shape_of(node, [shapes.get(child, ()) for child in inputs])
        except ShapeError:
            continue  # these inputs do not fit together
        if prod(shape) <= MOST_ELEMENTS:
            shapes[node] = shape
    return list(shapes)[-1], leaves


def counts(op: Op) -> st.SearchStrategy[int]:
    """How many inputs an operation can have."""
    return st.integers(op.min_inputs, op.max_inputs if op.max_inputs is not None else max(op.min_inputs, 3))
