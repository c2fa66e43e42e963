"""Random graphs over the whole table of operations, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Op
from autodiff_cli.ops import all_ops

# Order-n families take whole numbers for their first argument; random graphs leave them out.
OPS = tuple(op for op in all_ops() if not op.helper and op.name != "sinc_derivative")
SMOOTH = tuple(
    op for op in OPS if op.name in {"add", "sub", "mul", "neg", "sin", "cos", "tanh", "sigmoid", "exp", "atan"}
)


@st.composite
def graphs(draw: st.DrawFn, ops: tuple[Op, ...] = OPS, names: str = "xyz", most: int = 12) -> tuple[Node, list[Node]]:
    """A graph of up to `most` operations, with fan-out, and its leaves (not all of them need be used)."""
    leaves = [variable(name) for name in names]
    nodes: list[Node] = [*leaves, constant("0"), constant("1"), constant("2"), constant("0.5"), constant("pi")]
    for _ in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from(ops))
        most_inputs = op.most if op.most is not None else 3
        count = draw(st.integers(op.least, most_inputs))
        nodes.append(op(*(draw(st.sampled_from(nodes)) for _ in range(count))))
    return nodes[-1], leaves
