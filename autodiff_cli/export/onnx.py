"""Predictions as ONNX graphs, operation by operation, so that viewers show the formula or the network that was fitted.

Rows are the first axis of whatever depends on a column; in the model's own graph they are no dimension. So a product
`W @ v` is `v @ W.T` over rows, and where a number of a row meets an array of it, the number gets the array's axes. All
is computed in doubles. The format: github.com/onnx/onnx, docs/Operators.md, opset 18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autodiff_cli.export.program import ExportError
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.numbers.floats.table import FLOATS
from autodiff_cli.version import __version__

OPSET = 18
_IR_VERSION = 8  # the one that came with this opset, which all runtimes of it read
OUTPUT = "prediction"
_ROWS = "rows"

# Operations of one name and meaning there, by our names.
_SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "pow": "Pow", "abs": "Abs", "sign": "Sign",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid",
    "softplus": "Softplus", "softsign": "Softsign", "relu": "Relu", "max": "Max", "min": "Min",
    "elu": "Elu", "celu": "Elu",  # alpha is 1 in all of them
}  # fmt: skip
# Comparisons and what is made of truth values: they give truth values there, and 1 or 0 here.
_COMPARED = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"}
_REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "largest": "ReduceMax",
            "smallest": "ReduceMin", "norm": "ReduceL2", "logsumexp": "ReduceLogSumExp"}  # fmt: skip


def model_bytes(
    output: Node, shapes: Mapping[str, Shape], values: Mapping[str, Any], columns: Sequence[str], name: str
) -> bytes:
    """A prediction as an ONNX model.

    Args:
        output: the graph of the prediction of a row.
        shapes: of the leaves that are arrays.
        values: of all leaves that are no columns.
        columns: the inputs, each of shape (rows,), by these names.
        name: of the graph.

    Returns:
        The file's content. Its output `prediction` is of shape (rows, …).

    Raises:
        ExportError: if the package onnx is not installed, and for operations that the format lacks.
    """
    try:
        import onnx
    except ImportError:
        raise ExportError("ONNX needs the package onnx: pip install 'autodiff-cli[onnx]'") from None
    from onnx import helper

    made = _Graph(shapes, values, columns)
    made.finish(output)
    graph = helper.make_graph(
        made.nodes,
        name,
        [helper.make_tensor_value_info(column, onnx.TensorProto.DOUBLE, [_ROWS]) for column in columns],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.DOUBLE, [_ROWS, *made.shape(output)])],
        made.initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="autodiff",
        producer_version=__version__,
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


class _Graph:
    """An ONNX graph that grows node by node.

    Attributes:
        nodes, initializers: what `make_graph` takes.
    """

    def __init__(self, shapes: Mapping[str, Shape], values: Mapping[str, Any], columns: Sequence[str]) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._shapes = Shapes(shapes)
        self._columns, self._values = frozenset(columns), values
        self._names: dict[Node, str] = {}
        self._of_rows: set[Node] = set()  # those that have a value of their own in each row
        self._constants: dict[str, str] = {}
        self._taken = {*columns, OUTPUT}
        self._lacking: dict[str, None] = {}

    def shape(self, node: Node) -> Shape:
        """The shape of a node in one row."""
        return self._shapes.of(node) or ()

    def finish(self, output: Node) -> None:
        """Write all that an output needs, and the output by its name. Raises ExportError for what there is not."""
        (root,) = _expanded([output])
        for node in topological([root]):
            self._names[node] = self._written(node)
        if self._lacking:
            raise ExportError(
                f"ONNX has no {' and no '.join(f'`{name}`' for name in self._lacking)}; "
                "c, python, numpy and js have: choose with --to"
            )
        found = self._names[root]
        if root not in self._of_rows:  # the same in every row
            rows = self.add("Shape", [next(iter(self._columns))], "rows") if self._columns else None
            if rows is not None:
                target = self.add("Concat", [rows, self._whole([*self.shape(root)])], "shape", axis=0)
                found = self.add("Expand", [found, target], "alike")
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [found], [OUTPUT]))

    def _written(self, node: Node) -> str:
        if node.op is None:
            return self._leaf(node)
        if any(child in self._of_rows for child in node.inputs):
            self._of_rows.add(node)
        name = node.op.name
        if name in _REDUCED and self.shape(node.inputs[0]):
            return self._reduced(node, _REDUCED[name])
        if node.op.structural:
            write: Callable[[Node], str] | None = getattr(self, f"_{name}", None)
            if write is None:
                self._lacking[node.op.spelling or name] = None
                return ""
            return write(node)
        return self._elementwise(node, node.op)

    def _leaf(self, node: Node) -> str:
        if node.text in self._columns and node.is_input:
            self._of_rows.add(node)
            return node.text
        if node.is_constant:
            return self.number(FLOATS.read(node.text))
        return self._tensor(np.asarray(self._values[node.text], dtype=np.float64), node.text)

    # --- elementwise

    def _elementwise(self, node: Node, op: Op) -> str:
        inputs = self._aligned(node)
        if op.name in _SAME:
            return self.add(_SAME[op.name], inputs, op.name)
        if op.name in _COMPARED:
            return self.as_number(self.add(_COMPARED[op.name], inputs, op.name))
        if op.name == "where":
            condition = self.truth(inputs[0])
            return self.add("Where", [condition, *inputs[1:]], op.name)
        written = _DERIVED.get(op.name)
        if written is None:
            self._lacking[op.spelling or op.name] = None
            return ""
        return written(self, inputs)

    def _aligned(self, node: Node) -> list[str]:
        """The inputs, with axes for those of rows that have fewer than the result."""
        rank = len(self.shape(node))
        found = []
        for child in node.inputs:
            name, lacking = self._names[child], rank - len(self.shape(child))
            if child in self._of_rows and lacking:
                name = self.add("Unsqueeze", [name, self._whole([*range(1, lacking + 1)])], "column")
            found.append(name)
        return found

    def truth(self, name: str) -> str:
        """A number as a truth value."""
        return self.add("Not", [self.add("Equal", [name, self.number(0.0)], "zero")], "truth")

    def as_number(self, name: str) -> str:
        """A truth value as a number."""
        from onnx import TensorProto

        return self.add("Cast", [name], "number", to=TensorProto.DOUBLE)

    # --- arrays

    def _reduced(self, node: Node, kind: str) -> str:
        (x,) = node.inputs
        start = 1 if x in self._of_rows else 0
        axes = [*range(start, start + len(self.shape(x)))]
        return self.add(kind, [self._names[x], self._whole(axes)], node.op.name if node.op else kind, keepdims=0)

    def _matmul(self, node: Node) -> str:
        a, b = node.inputs
        first, second = self._names[a], self._names[b]
        rows, of_rows = a in self._of_rows, b in self._of_rows
        ranks = len(self.shape(a)), len(self.shape(b))
        if ranks == (2, 1) and of_rows and not rows:  # W @ v for all rows at once, as frameworks have it
            return self.add("MatMul", [second, self.add("Transpose", [first], "transposed", perm=[1, 0])], "product")
        if not of_rows or ranks == (2, 2):
            return self.add("MatMul", [first, second], "product")
        if ranks[0] == 1:
            first = self.add("Unsqueeze", [first, self._whole([int(rows)])], "row")
        if ranks[1] == 1:
            second = self.add("Unsqueeze", [second, self._whole([2])], "column")
        product = self.add("MatMul", [first, second], "product")
        axes = [axis for axis, rank in zip((1, 2), ranks, strict=True) if rank == 1]
        return self.add("Squeeze", [product, self._whole(axes)], "product")

    def _dot(self, node: Node) -> str:
        a, b = node.inputs
        product = self.add("Mul", [self._names[a], self._names[b]], "product")
        axis = 1 if node in self._of_rows else 0
        return self.add("ReduceSum", [product, self._whole([axis])], "dot", keepdims=0)

    def _softmax(self, node: Node) -> str:
        (x,) = node.inputs
        rank = len(self.shape(x))
        if rank == 1:
            return self.add("Softmax", [self._names[x]], "softmax", axis=-1)
        flat = self.add("Reshape", [self._names[x], self._whole([*self._head(x), -1])], "flat")
        soft = self.add("Softmax", [flat], "softmax", axis=-1)
        return self.add("Reshape", [soft, self._whole([*self._head(x), *self.shape(x)])], "softmax")

    def _head(self, node: Node) -> list[int]:
        return [0] if node in self._of_rows else []

    def _stack(self, node: Node) -> str:
        start = 1 if node in self._of_rows else 0
        own = (self._of_each_row(child, node) for child in node.inputs)
        parts = [self.add("Unsqueeze", [part, self._whole([start])], "part") for part in own]
        return self.add("Concat", parts, "vector", axis=start)

    def _concat(self, node: Node) -> str:
        start = 1 if node in self._of_rows else 0
        parts = [self._of_each_row(child, node) for child in node.inputs]
        parts = [
            part if self.shape(child) else self.add("Unsqueeze", [part, self._whole([start])], "part")
            for part, child in zip(parts, node.inputs, strict=True)
        ]
        return self.add("Concat", parts, "vector", axis=start)

    def _of_each_row(self, child: Node, node: Node) -> str:
        """A part, repeated for each row where the whole has a value of its own in each."""
        name = self._names[child]
        if child in self._of_rows or node not in self._of_rows:
            return name
        rows = self.add("Shape", [next(iter(self._columns))], "rows")
        target = self.add("Concat", [rows, self._whole([*self.shape(child)])], "shape", axis=0)
        return self.add("Expand", [name, target], "alike")

    def _index(self, node: Node) -> str:
        x, *places = node.inputs
        found, axis = self._names[x], 1 if x in self._of_rows else 0
        for place in places:
            found = self.add("Gather", [found, self._whole(int(place.text))], "element", axis=axis)
        return found

    def _transpose(self, node: Node) -> str:
        (x,) = node.inputs
        if len(self.shape(x)) < 2:
            return self._names[x]
        perm = [0, 2, 1] if x in self._of_rows else [1, 0]
        return self.add("Transpose", [self._names[x]], "transposed", perm=perm)

    def _outer(self, node: Node) -> str:
        a, b = node.inputs
        tall = self.add("Unsqueeze", [self._names[a], self._whole([2 if a in self._of_rows else 1])], "column")
        wide = self.add("Unsqueeze", [self._names[b], self._whole([1 if b in self._of_rows else 0])], "row")
        return self.add("Mul", [tall, wide], "outer")

    # --- what nodes are made of

    def add(self, kind: str, inputs: Sequence[str], name: str = "step", **attributes: Any) -> str:
        """One more node; gives the name of what it computes."""
        from onnx import helper

        result = self._fresh(name)
        self.nodes.append(helper.make_node(kind, [*inputs], [result], name=result, **attributes))
        return result

    def number(self, value: float) -> str:
        """A number that is always the same."""
        key = repr(value)
        if key not in self._constants:
            self._constants[key] = self._tensor(np.float64(value), key)
        return self._constants[key]

    def _whole(self, values: int | Sequence[int]) -> str:
        key = f"axes {values}"
        if key not in self._constants:
            self._constants[key] = self._tensor(np.asarray(values, dtype=np.int64), "axes")
        return self._constants[key]

    def _tensor(self, values: Any, name: str) -> str:
        from onnx import numpy_helper

        result = self._fresh(name)
        self.initializers.append(numpy_helper.from_array(np.asarray(values), result))
        return result

    def _fresh(self, name: str) -> str:
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found


def _expanded(roots: Sequence[Node]) -> list[Node]:
    """Graphs in which operations that ONNX lacks are what they are made of, as far as they are made of others."""
    found = list(roots)
    while True:
        replace: dict[Node, Node] = {}
        for node in topological(found):
            op = node.op
            if op is None or _is_known(op) or any(child in replace for child in node.inputs):
                continue
            expansion = op.expand(len(node.inputs))
            if expansion is not None:
                places = dict(zip(op.placeholders(len(node.inputs)), node.inputs, strict=True))
                (replace[node],) = rebuild([expansion], places)
        if not replace:
            return found
        found = rebuild(found, replace)


def _is_known(op: Op) -> bool:
    return op.name in _SAME or op.name in _COMPARED or op.name in _REDUCED or op.name in _DERIVED


def _expm1(g: _Graph, inputs: list[str]) -> str:
    """2t/(1 - t) with t = tanh(x/2) where exp(x) - 1 would cancel."""
    (x,) = inputs
    t = g.add("Tanh", [g.add("Mul", [x, g.number(0.5)])])
    near = g.add("Div", [g.add("Add", [t, t]), g.add("Sub", [g.number(1.0), t])])
    is_near = g.add("Less", [g.add("Abs", [x]), g.number(1.0)])
    return g.add("Where", [is_near, near, g.add("Sub", [g.add("Exp", [x]), g.number(1.0)])])


def _log1p(g: _Graph, inputs: list[str]) -> str:
    """log(u)·x/(u - 1) with u = 1 + x (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 1.14.1)."""
    (x,) = inputs
    u = g.add("Add", [g.number(1.0), x])
    more = g.add("Sub", [u, g.number(1.0)])
    scaled = g.add("Mul", [g.add("Log", [u]), g.add("Div", [x, more])])
    is_plain = g.add("Equal", [more, x])
    return g.add(
        "Where", [g.add("Equal", [more, g.number(0.0)]), x, g.add("Where", [is_plain, g.add("Log", [u]), scaled])]
    )


# What is made of several nodes, as (graph, inputs) -> name.
_DERIVED: dict[str, Callable[[_Graph, list[str]], str]] = {
    "expm1": _expm1,
    "log1p": _log1p,
    "cbrt": lambda g, x: g.add("Mul", [g.add("Sign", x), g.add("Pow", [g.add("Abs", x), g.number(1 / 3)])]),
    "sinc": lambda g, x: g.add(
        "Where", [g.add("Equal", [x[0], g.number(0.0)]), g.number(1.0), g.add("Div", [g.add("Sin", x), x[0]])]
    ),
    "square": lambda g, x: g.add("Mul", [x[0], x[0]]),
    "exp2": lambda g, x: g.add("Pow", [g.number(2.0), x[0]]),
    "log2": lambda g, x: g.add("Div", [g.add("Log", x), g.number(math.log(2))]),
    "log10": lambda g, x: g.add("Div", [g.add("Log", x), g.number(math.log(10))]),
    "sec": lambda g, x: g.add("Reciprocal", [g.add("Cos", x)]),
    "csc": lambda g, x: g.add("Reciprocal", [g.add("Sin", x)]),
    "cot": lambda g, x: g.add("Div", [g.add("Cos", x), g.add("Sin", x)]),
    "sech": lambda g, x: g.add("Reciprocal", [g.add("Cosh", x)]),
    "csch": lambda g, x: g.add("Reciprocal", [g.add("Sinh", x)]),
    "coth": lambda g, x: g.add("Reciprocal", [g.add("Tanh", x)]),
    "acot": lambda g, x: g.add("Atan", [g.add("Reciprocal", x)]),
    "logit": lambda g, x: g.add("Log", [g.add("Div", [x[0], g.add("Sub", [g.number(1.0), x[0]])])]),
    "logsigmoid": lambda g, x: g.add("Neg", [g.add("Softplus", [g.add("Neg", x)])]),
    "clip": lambda g, x: g.add("Min", [g.add("Max", x[:2]), x[2]]),
    "mod": lambda g, x: g.add("Sub", [x[0], g.add("Mul", [g.add("Floor", [g.add("Div", x)]), x[1]])]),
    "hypot": lambda g, x: g.add("Sqrt", [g.add("Add", [g.add("Mul", [x[0], x[0]]), g.add("Mul", [x[1], x[1]])])]),
    "not": lambda g, x: g.as_number(g.add("Equal", [x[0], g.number(0.0)])),
    "and": lambda g, x: g.as_number(g.add("And", [g.truth(x[0]), g.truth(x[1])])),
    "or": lambda g, x: g.as_number(g.add("Or", [g.truth(x[0]), g.truth(x[1])])),
    "ne": lambda g, x: g.as_number(g.add("Not", [g.add("Equal", x)])),
    "broadcast_like": lambda g, x: x[0],
}
