"""Export of fitted models: the prediction as a function of its columns, as source code or as an ONNX graph.

The ONNX graph has one operator for each operation of the model, so that viewers show the formula or the network. Rows
are not a dimension of a model's graph, but they are the first axis of every ONNX tensor that depends on a column. So a
product `W @ v` becomes `v @ W.T` over rows, and a number per row gets extra axes where it is combined with an array.
All tensors are doubles. The format is described at github.com/onnx/onnx, docs/Operators.md, opset 18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autodiff_cli.data.dialect import time_text
from autodiff_cli.export.languages import EXPORTERS, export, unsupported_error
from autodiff_cli.export.program import ExportError, ExportOptions
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.codegen import call_notation
from autodiff_cli.graph.node import Node, Shape, constant
from autodiff_cli.graph.tape import ShapeInference, substitute, topological_order
from autodiff_cli.language.errors import join_words
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.ops.arithmetic import abs_, equal, sign, where
from autodiff_cli.ops.functions import exp, log, sin, softplus, sqrt, tanh
from autodiff_cli.ops.structural import concat, sum_
from autodiff_cli.system import read_tables
from autodiff_cli.targets.translation import GraphWriter, UnsupportedOperationError
from autodiff_cli.training.objective.model import Model, constant_graph
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.version import __version__

OPSET = 18  # version of ONNX's operators
_IR_VERSION = 8  # version of the file format that was published with opset 18, so its runtimes read it
OUTPUT = "prediction"
_ROWS = "rows"

# --- Tables of operators

_OPERATORS = read_tables(__file__, "onnx.toml")  # ONNX's names of operators, by our names
_ELEMENTWISE_OPS = {**_OPERATORS["direct"], **_OPERATORS["comparison"], "where": "Where"}
_METHOD_OPS = ("matmul", "softmax", "stack", "concat", "index", "transpose", "outer", "mod")  # methods of `_OnnxGraph`


# --- ONNX


def _expm1(x: Node) -> Node:
    """Return exp(x) - 1; as 2t/(1 - t) with t = tanh(x/2) for |x| < 1, where the difference would cancel."""
    t = tanh(x * 0.5)
    return where(abs_(x) < 1, (t + t) / (1 - t), exp(x) - 1)


def _log1p(x: Node) -> Node:
    """Return log(1 + x) as log(u)·x/(u - 1) with u = 1 + x.

    Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), 1.14.1.
    """
    u = 1 + x
    return where(equal(u - 1, 0), x, where(equal(u - 1, x), log(u), log(u) * (x / (u - 1))))


# Definitions of operations that ONNX lacks, by operations that it has.
_DEFINITIONS: dict[str, Callable[..., Node]] = {
    "expm1": _expm1,
    "log1p": _log1p,
    "cbrt": lambda x: sign(x) * abs_(x) ** (1 / 3),
    "sinc": lambda x: where(equal(x, 0), 1, sin(x) / x),
    "exp2": lambda x: constant(2) ** x,
    "log2": lambda x: log(x) / math.log(2),
    "log10": lambda x: log(x) / math.log(10),
    "logit": lambda x: log(x / (1 - x)),
    "logsigmoid": lambda x: -softplus(-x),
    "hypot": lambda x, y: sqrt(x * x + y * y),
    "not": lambda x: equal(x, 0),
    "and": lambda x, y: (1 - equal(x, 0)) * (1 - equal(y, 0)),
    "or": lambda x, y: 1 - equal(x, 0) * equal(y, 0),
    "ne": lambda x, y: 1 - equal(x, y),
    "dot": lambda x, y: sum_(x * y),
}
_NO_TEXT = call_notation("", 1)  # an ONNX operator is a node of the file and has no text
_ONNX = Target(
    name="onnx",
    notations=dict.fromkeys((*_ELEMENTWISE_OPS, *_OPERATORS["reduction"], *_METHOD_OPS), _NO_TEXT),
    numbers={}, literal=str, as_number=_NO_TEXT, as_condition=_NO_TEXT,
    definitions=_DEFINITIONS,
)  # fmt: skip


def onnx_model(
    output: Node, shapes: Mapping[str, Shape], values: Mapping[str, Any], columns: Mapping[str, str], name: str
) -> bytes:
    """Write a prediction as an ONNX model.

    Args:
        output: the graph of the prediction for one row.
        shapes: the shapes of the leaves that are arrays, by name.
        values: the values of all leaves that are not columns, by name.
        columns: the description of each column, which is an input of shape (rows,).
        name: the name of the ONNX graph.

    Returns:
        The content of the file. Its output `prediction` has the shape (rows, …).

    Raises:
        ExportError: if the package onnx is not installed, and for operations that ONNX lacks.
    """
    try:
        import onnx
    except ImportError:
        raise ExportError("ONNX needs the package onnx: pip install onnx") from None
    from onnx import helper

    builder, number = _OnnxGraph(shapes, values, columns), onnx.TensorProto.DOUBLE
    builder.write_output(output)
    graph = helper.make_graph(
        builder.nodes,
        name,
        [helper.make_tensor_value_info(column, number, [_ROWS], text) for column, text in columns.items()],
        [helper.make_tensor_value_info(builder.output, number, [_ROWS, *builder.shape(output)])],
        builder.initializers,
    )
    producer = {"producer_name": "autodiff", "producer_version": __version__}
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, **producer)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _OnnxGraph:
    """Builds an ONNX graph node by node.

    Attributes:
        nodes, initializers: the arguments of `onnx.helper.make_graph`.
        output: the name of the output: `prediction`, with a number if a column has this name.
    """

    def __init__(self, shapes: Mapping[str, Shape], values: Mapping[str, Any], columns: Collection[str]) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._shapes = ShapeInference(shapes)
        self._columns, self._values = frozenset(columns), values
        self._names: dict[Node, str] = {}
        self._per_row: set[Node] = set()  # nodes whose values differ from row to row
        self._constants: dict[str, str] = {}
        self._used_names = {*columns}
        self.output = self._fresh(OUTPUT)

    def shape(self, node: Node) -> Shape:
        """Return the shape of a node for one row."""
        return self._shapes.infer(node) or ()

    def write_output(self, output: Node) -> None:
        """Write the output and all nodes that it depends on.

        Raises:
            ExportError: for operations that ONNX lacks.
        """
        try:
            (root,) = GraphWriter(Library(_ONNX)).lower([output])
        except UnsupportedOperationError as error:
            raise unsupported_error("ONNX", error) from None
        for node in topological_order([root]):
            self._names[node] = self._write_node(node)
        result = self._names[root]
        if root not in self._per_row and self._columns:
            result = self._repeat_per_row(result, self.shape(root))
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [result], [self.output]))

    def _write_node(self, node: Node) -> str:
        if node.op is None:
            return self._leaf(node)
        if any(child in self._per_row for child in node.inputs):
            self._per_row.add(node)
        name = node.op.name
        write: Callable[[Node], str] = self._elementwise if name in _ELEMENTWISE_OPS else self._reduce
        return getattr(self, f"_{name}")(node) if name in _METHOD_OPS else write(node)

    def _leaf(self, node: Node) -> str:
        if node.text in self._columns and node.is_input:
            self._per_row.add(node)
            return node.text
        if node.is_constant:
            return self._constant(FLOATS.parse_constant(node.text))
        return self._tensor(np.asarray(self._values[node.text], dtype=np.float64), node.text)

    # --- elementwise

    def _elementwise(self, node: Node) -> str:
        inputs, name = self._align(node), node.operation.name
        if name == "where":  # a condition is a number here, and a boolean in ONNX
            inputs[0] = self.add("Not", [self.add("Equal", [inputs[0], self._constant(0.0)], "zero")], "truth")
        result = self.add(_ELEMENTWISE_OPS[name], inputs, name)
        if name not in _OPERATORS["comparison"]:
            return result
        from onnx import TensorProto

        return self.add("Cast", [result], "number", to=TensorProto.DOUBLE)

    def _mod(self, node: Node) -> str:
        x, y = self._align(node)
        rest, sign = self.add("Mod", [x, y], "rest", fmod=1), self.add("Sign", [y], "sign")  # it has the sign of x
        is_opposite = self.add("Less", [self.add("Mul", [rest, sign], "product"), self._constant(0.0)], "opposite")
        return self.add("Where", [is_opposite, self.add("Add", [rest, y], "shifted"), rest], "mod")

    def _align(self, node: Node) -> list[str]:
        """Return the inputs of a node, with extra axes on per-row inputs of a lower rank, so that they broadcast."""
        rank = len(self.shape(node))
        aligned = []
        for child in node.inputs:
            name, missing = self._names[child], rank - len(self.shape(child))
            if child in self._per_row and missing:
                name = self.add("Unsqueeze", [name, self._constant([*range(1, missing + 1)])], "column")
            aligned.append(name)
        return aligned

    # --- arrays

    def _reduce(self, node: Node) -> str:
        (x,), name = node.inputs, node.operation.name
        start, rank, array = int(x in self._per_row), len(self.shape(x)), self._names[x]
        if not rank:  # a number, as an array of one element
            array, rank = self.add("Unsqueeze", [array, self._constant([start])], "element"), 1
        axes = self._constant([*range(start, start + rank)])
        return self.add(_OPERATORS["reduction"][name], [array, axes], name, keepdims=0)

    def _matmul(self, node: Node) -> str:
        a, b = node.inputs
        first, second = self._names[a], self._names[b]
        rows, of_rows = a in self._per_row, b in self._per_row
        ranks = len(self.shape(a)), len(self.shape(b))
        if ranks == (2, 1) and not rows:  # W @ v for all rows at once, as frameworks have it
            return self.add("MatMul", [second, self.add("Transpose", [first], "transposed", perm=[1, 0])], "product")
        if not of_rows or ranks == (2, 2):
            return self.add("MatMul", [first, second], "product")
        if ranks[0] == 1:
            first = self.add("Unsqueeze", [first, self._constant([int(rows)])], "row")
        if ranks[1] == 1:
            second = self.add("Unsqueeze", [second, self._constant([2])], "column")
        product = self.add("MatMul", [first, second], "product")
        axes = [axis for axis, rank in zip((1, 2), ranks, strict=True) if rank == 1]
        return self.add("Squeeze", [product, self._constant(axes)], "product")

    def _softmax(self, node: Node) -> str:
        (x,) = node.inputs
        if len(self.shape(x)) == 1:
            return self.add("Softmax", [self._names[x]], "softmax", axis=-1)
        rows = [0] if x in self._per_row else []
        flat = self.add("Reshape", [self._names[x], self._constant([*rows, -1])], "flat")
        soft = self.add("Softmax", [flat], "softmax", axis=-1)
        return self.add("Reshape", [soft, self._constant([*rows, *self.shape(x)])], "softmax")

    def _concat(self, node: Node) -> str:
        start, parts = 1 if node in self._per_row else 0, []
        for child in node.inputs:
            name = self._names[child]
            if node in self._per_row and child not in self._per_row:
                name = self._repeat_per_row(name, self.shape(child))
            parts.append(name if node.op is concat else self.add("Unsqueeze", [name, self._constant([start])], "part"))
        return self.add("Concat", parts, "vector", axis=start)

    _stack = _concat

    def _repeat_per_row(self, name: str, shape: Shape) -> str:
        """Return a result that is the same in every row, repeated for each row."""
        rows = self.add("Shape", [next(iter(self._columns))], "rows")
        target = self.add("Concat", [rows, self._constant([*shape])], "shape", axis=0)
        return self.add("Expand", [name, target], "alike")

    def _index(self, node: Node) -> str:
        x, *places = node.inputs
        element, axis = self._names[x], 1 if x in self._per_row else 0
        for place in places:
            element = self.add("Gather", [element, self._constant(int(place.text))], "element", axis=axis)
        return element

    def _transpose(self, node: Node) -> str:
        (x,) = node.inputs
        if len(self.shape(x)) < 2:
            return self._names[x]
        return self.add("Transpose", [self._names[x]], "transposed", perm=[0, 2, 1] if x in self._per_row else [1, 0])

    def _outer(self, node: Node) -> str:
        a, b = node.inputs
        tall = self.add("Unsqueeze", [self._names[a], self._constant([2 if a in self._per_row else 1])], "column")
        wide = self.add("Unsqueeze", [self._names[b], self._constant([1 if b in self._per_row else 0])], "row")
        return self.add("Mul", [tall, wide], "outer")

    # --- parts of nodes

    def add(self, kind: str, inputs: Sequence[str], name: str = "step", **attributes: Any) -> str:
        """Add a node, and return the name of its result."""
        from onnx import helper

        result = self._fresh(name)
        self.nodes.append(helper.make_node(kind, [*inputs], [result], name=result, **attributes))
        return result

    def _constant(self, value: float | int | Sequence[int]) -> str:
        """Return the name of a number, an axis, or axes."""
        key, is_number = repr(value), isinstance(value, float)
        if key not in self._constants:
            array = np.asarray(value, dtype=np.float64 if is_number else np.int64)
            self._constants[key] = self._tensor(array, key if is_number else "axes")
        return self._constants[key]

    def _tensor(self, values: Any, name: str) -> str:
        from onnx import numpy_helper

        result = self._fresh(name)
        self.initializers.append(numpy_helper.from_array(np.asarray(values), result))
        return result

    def _fresh(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._used_names:
            count += 1
            candidate = f"{name}_{count}"
        self._used_names.add(candidate)
        return candidate


# --- Predictions

MAX_SOURCE_PARAMETERS = 20_000  # numbers that source code spells out; compilers and editors are slow with more


def prediction_source(fit: FittedModel, target: str, options: ExportOptions) -> str:
    """Write the prediction of a fitted model, and its derivatives with respect to the columns, as a function's source.

    Args:
        fit: the fitted model.
        target: the language, a key of `EXPORTERS`.
        options: the name of the function, and its derivatives.

    Raises:
        ExportError: for derivatives of a prediction that is an array, for models that compare a column with text, for
            more than `MAX_SOURCE_PARAMETERS` parameters, and as `export` does.
    """
    model, values = _numeric_model(fit), {**fit.parameters, **fit.fixed}
    prediction = model.program.output
    shape = ShapeInference(model.shapes).infer(prediction) or ()
    if shape and options.gradient and not EXPORTERS[target].has_autodiff:
        outputs = "a probability for each class" if fit.classes is not None else f"{shape[0]} numbers"
        raise ExportError(f"this model predicts {outputs}; derivatives need one number: add --value-only")
    count = sum(np.size(value) for value in values.values())
    if count > MAX_SOURCE_PARAMETERS:
        raise ExportError(
            f"the model has {count:,} parameters; source code has at most {MAX_SOURCE_PARAMETERS:,}: use --to onnx"
        )
    leaves = {leaf.text: leaf for leaf in topological_order([prediction]) if leaf.is_input}
    numbers = {leaf: constant_graph(values[name]) for name, leaf in leaves.items() if name not in model.predictors}
    formula = Formula(substitute([prediction], numbers)[0], {name: leaves[name] for name in model.predictors})
    note = f"the probabilities of {join_words(fit.classes)}" if shape and fit.classes is not None else ""
    if units := _time_units(fit):
        note = f"{note or 'the prediction'} with {join_words([f'{name} in {unit}' for name, unit in units.items()])}"
    return export(formula, target, replace(options, note=note))


def _time_units(fit: FittedModel) -> dict[str, str]:
    """Return the units of the columns of dates and times, which are numbers in an exported function, also a target."""
    return {name: f"seconds since {time_text(fit.origins[name])}" for name in fit.columns if name in fit.origins}


def prediction_onnx(fit: FittedModel, name: str) -> bytes:
    """Write the prediction of a fitted model as an ONNX file.

    The inputs are the columns, of shape (rows,). The output `prediction` has the shape (rows,), or (rows, …) if the
    prediction is an array.

    Raises:
        ExportError: for models that compare a column with text or use no column, and as `onnx_model` does.
    """
    model = _numeric_model(fit)
    if not model.predictors:
        raise ExportError("the prediction uses no column, so its number of rows is undefined")
    units = _time_units(fit)
    columns = {name: units.get(name, "") for name in model.predictors}
    return onnx_model(model.program.output, model.shapes, {**fit.parameters, **fit.fixed}, columns, name)


def _numeric_model(fit: FittedModel) -> Model:
    """Return the model of a fit. Raises ExportError if it reads labels."""
    model = fit.parsed_model
    if labels := (*model.matches, *model.effects):
        raise ExportError(f"the model reads labels ({', '.join(labels)}); exported functions read numbers only")
    return model
