"""Operations explained: their descriptions, and their local derivatives as formulas and as Jacobians.

`Description` prints an operation from its record, for `autodiff ops`. The functions explain an operation at a node of a
trace:

- Local derivatives as people read them. A rule may use helper operations that are 0 by convention, or undefined, where
  the readable formula has another value (`log(0)` in the derivative of `0^x`). `is_readable_form_equal` tells when the
  readable formula may be shown as an equation.
- Jacobians of operations that mix the elements of an array, read from the rule: an adjoint of 1 at one element of the
  output gives one row. A cross-entropy above a softmax simplifies, so it is recognized.
- The contribution of an operation on whole arrays as a formula of labels: `outer(adjoint, x)`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain.labels import MAX_LABEL_LENGTH
from autodiff_cli.explain.record import Contribution, Trace, array_shape
from autodiff_cli.explain.warnings import is_kink_of_arrays, predicate_holds
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Gate, Node, Op, Precedence, Shape, StructuralRule, as_node, constant, variable
from autodiff_cli.graph.tape import ShapeError, Tape, expand_helpers, shape_of, substitute, topological_order
from autodiff_cli.language.parser import OPERATOR_ALIASES
from autodiff_cli.language.printer import Gap, to_pieces, to_text
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops, overloads

ADJOINT = "g"  # the name of the adjoint of a structural operation's output in printed derivatives
_VARIADIC_NAMES = ("x", "y")  # names for the inputs of an operation that takes any number of them
# Operations whose indices are numbers are shown with these inputs.
_EXAMPLE_INPUTS: Mapping[str, Sequence[str]] = {
    "index": ("x", "0"),
    "place": ("x", "like", "0"),
    "part": ("x", "0", "2"),
    "pad": ("x", "0", "2", "like"),
}
# A structural operation is shown with the first of these shapes that it accepts.
_EXAMPLE_SHAPES: Sequence[Shape] = ((2, 2), (3,), ())


class Description:
    """An operation described by formulas in the expression language.

    Attributes:
        op: the record of the operation.
        call: the operation written with names for its inputs.
        derivatives: the local derivative by input. For an operation on whole arrays: the contribution of the adjoint
            `g` of the output to the adjoint of each input; inputs without one are missing.
        textbook: the derivative in terms of the operation's own value, as textbooks write it; None if it is the same.
        definition: the expansion of an operation that is defined by others, else None.
        kink: the condition under which the derivative is one-sided; None if it never is.
        domain: the condition under which the operation is defined; None if it always is.
        singular: the condition under which the value or a slope is infinite or undefined; None if it never is.
    """

    def __init__(self, op: Op) -> None:
        from autodiff_cli.algebra.simplify import simplify_text

        names = _input_names(op)
        inputs = [constant(name) if name.isdigit() else variable(name) for name in names]
        substitution = dict(zip(op.placeholders(len(names)), inputs, strict=True))
        call = op(*inputs)

        def text(graph: Node | None) -> str | None:
            return None if graph is None else to_text(simplify_text(substitute([graph], substitution)[0]), share=False)

        derivatives = (_structural_derivatives if op.is_structural else _elementwise_derivatives)(op, call, names)
        textbook = None if op.textbook_slope is None else as_node(op.textbook_slope(call, *inputs))
        self.op = op
        self.call = to_text(call, share=False)
        self.derivatives = {name: to_text(simplify_text(graph), share=False) for name, graph in derivatives.items()}
        self.textbook = None if textbook is None else to_text(textbook, share=False)
        self.definition = text(op.expand(len(names)))
        self.kink, self.domain, self.singular = (
            text(op.predicate(kind, len(names))) for kind in ("kink", "domain", "singular")
        )


def operations() -> Iterator[Op]:
    """Return the operations of the language, in the order of their table."""
    return (op for op in all_ops() if not op.is_helper)


def find_operations(name: str) -> tuple[Op, ...]:
    """Return the operations with this name or symbol (`**` is `^`); empty if there are none."""
    symbol = OPERATOR_ALIASES.get(name, name)
    return overloads(name) or tuple(op for op in operations() if name and symbol in (op.name, op.symbol))


def plotted_formulas(op: Op) -> list[Formula]:
    """Return the functions to plot for an operation on one number: its value and its derivative, as formulas of `x`.

    A constant derivative is left out. Operations on several numbers or on arrays have no plot.
    """
    if op.is_structural or not op.accepts(1):
        return []
    x = variable("x")
    value = Formula(op(x), {"x": x})
    return [expression for expression in (value, value.derivative("x")) if expression.variables]


def _input_names(op: Op) -> tuple[str, ...]:
    """Return the names of the inputs; an operation with any number of inputs gets at least two."""
    names = [*_EXAMPLE_INPUTS.get(op.name, op.parameters)]
    if op.max_inputs is None:
        free = (name for name in _VARIADIC_NAMES if name not in names)
        names += itertools.islice(free, max(op.min_inputs, len(_VARIADIC_NAMES)) - len(names))
    return tuple(names)


def _elementwise_derivatives(op: Op, call: Node, names: Sequence[str]) -> dict[str, Node]:
    rule = op.derivative_rule(len(names))
    slopes = substitute([partial.masked_graph for partial in rule.partials], rule.bind(call, call.inputs))
    return dict(zip(names, slopes, strict=True))


def _structural_derivatives(op: Op, call: Node, names: Sequence[str]) -> dict[str, Node]:
    for shapes in itertools.product(_EXAMPLE_SHAPES, repeat=len(names)):
        try:
            shape_of(call, shapes)
            structural_rule = op.structural_rule(shapes)
        except ShapeError:
            continue
        substitution = structural_rule.bind(call, call.inputs) | {structural_rule.adjoint: variable(ADJOINT)}
        contributions = {
            name: back for name, back in zip(names, structural_rule.vjp_graphs, strict=True) if back is not None
        }
        return dict(zip(contributions, substitute([*contributions.values()], substitution), strict=True))
    return {}


RELATIVE_TOLERANCE = 1e-6  # two ways to compute one number may differ by this much, by rounding


@cache
def readable_local_derivative(op: Op, count: int, position: int) -> Node | None:
    """Return the graph of a local derivative as people read it; None if the computed one reads the same."""
    local = op.derivative_rule(count).partials[position].local
    readable = expand_helpers([local])[local]
    return None if readable is local else readable


def readable_local_value(trace: Trace, i: int, contribution: Contribution) -> float | None:
    """Return the value of the readable formula of a local derivative of an operation on numbers.

    Returns None if the computed formula is the readable one.
    """
    op, inputs = trace.tape.nodes[i].operation, trace.tape.inputs[i]
    graph = readable_local_derivative(op, len(inputs), contribution.position)
    if graph is None:
        return None
    rule = op.derivative_rule(len(inputs))
    return float(_evaluate(graph, rule.point(trace.values[i], [trace.values[j] for j in inputs])))


def is_readable_form_equal(trace: Trace, i: int, contribution: Contribution) -> bool:
    """Whether a local derivative is not nan and equals the value of its readable formula."""
    local, readable = contribution.local, readable_local_value(trace, i, contribution)
    return not math.isnan(local) if readable is None else math.isclose(readable, local, rel_tol=RELATIVE_TOLERANCE)


def has_value_at(formula: Node, point: Mapping[str, float], number: float) -> bool:
    """Whether the readable form of a formula of numbers has this value at a point."""
    return math.isclose(float(_evaluate(expand_helpers([formula])[formula], point)), number, rel_tol=RELATIVE_TOLERANCE)


def is_at_kink(trace: Trace, i: int) -> bool:
    """Whether the derivative of an operation is one-sided at its inputs, or at an element of an input."""
    values = [trace.values[j] for j in trace.tape.inputs[i]]
    if all(isinstance(value, float) for value in values):
        return predicate_holds(trace.tape.nodes[i].operation, "kink", values)
    return is_kink_of_arrays(trace, i)


def _evaluate(graph: Node, point: Mapping[str, Any]) -> Any:
    tape = Tape([graph])
    return forward(tape, FLOATS, point)[tape.outputs[0]]


MAX_JACOBIAN_SIZE = 64  # numbers; a larger Jacobian is not readable


def has_jacobian(trace: Trace, i: int) -> bool:
    """Whether the Jacobian of an operation on one array is shown: it does more than rearrange, and is small enough."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    if op is None or not op.is_structural or len(inputs) != 1 or op.gate not in (Gate.SCALE, Gate.SWAP):
        return False
    return math.prod(array_shape(trace.values[i]) + array_shape(trace.values[inputs[0]])) <= MAX_JACOBIAN_SIZE


def jacobian(trace: Trace, i: int) -> Any:
    """Return the Jacobian of an operation on one array, of the output's shape followed by the input's shape."""
    import numpy as np

    from autodiff_cli.array_types import ignore_float_errors
    from autodiff_cli.numbers.arrays import ARRAYS

    op, x = trace.tape.nodes[i].operation, trace.values[trace.tape.inputs[i][0]]
    output_shape, shape = array_shape(trace.values[i]), array_shape(x)
    rule, count = op.structural_rule((shape,)), math.prod(output_shape)
    graph = rule.vjp_graphs[0]
    assert graph is not None
    tape = Tape((graph,))
    # The last axis has one row for each element of the output.
    point = rule.point(np.asarray(trace.values[i])[..., None], [np.asarray(x)[..., None]])
    point[rule.adjoint.text] = np.eye(count).reshape(*output_shape, count)
    with ignore_float_errors():
        adjoints = forward(tape, ARRAYS, point)[tape.outputs[0]]
    return np.moveaxis(np.broadcast_to(adjoints, (*shape, count)), -1, 0).reshape(output_shape + shape)


class CrossEntropy(NamedTuple):
    """A cross-entropy above a softmax p: the sum of w*log(p), or one element of log(p).

    The contribution of softmax to its input is (w - p*sum(w)) × the adjoint of the sum, by the chain rule through log
    and softmax. For one element, w is 1 there and 0 elsewhere.

    Attributes:
        weights: the node w; None for one element.
        index_node: the node that picks the element; None for a sum.
        total: the node of the sum or the element.
    """

    weights: int | None
    index_node: int | None
    total: int


def cross_entropy_above(trace: Trace, i: int) -> CrossEntropy | None:
    """Return the cross-entropy that is the only use of a softmax or logsoftmax node, or None."""
    if _op_name(trace, i) not in ("softmax", "logsoftmax"):
        return None
    above = [i, *_chain_of_single_users(trace, i)]
    names = [_op_name(trace, j) for j in above]
    if names[:3] == ["softmax", "index", "log"]:
        return CrossEntropy(None, above[1], above[2])
    if names[0] == "softmax":
        del above[0], names[0]
        if names[:1] != ["log"]:
            return None
    if names[1:2] == ["index"]:
        return CrossEntropy(None, above[1], above[1])
    if names[1:2] != ["dot"] and names[1:3] != ["mul", "sum"]:
        return None
    others = [j for j in trace.tape.inputs[above[1]] if j != above[0]]
    if len(others) != 1 or array_shape(trace.values[others[0]]) != array_shape(trace.values[i]):
        return None
    return CrossEntropy(others[0], None, above[1] if names[1] == "dot" else above[2])


def cross_entropy_above_logsumexp(trace: Trace, i: int) -> tuple[int, int] | None:
    """Return the nodes of w and of the difference logsumexp(z) - dot(w, z) above a logsumexp node i, or None.

    This is how losses compute the cross-entropy of softmax(z). Both terms together contribute (softmax(z) - w) × the
    adjoint of the difference to z; the running total reaches it at node i.
    """
    if _op_name(trace, i) != "logsumexp":
        return None
    (z,) = trace.tape.inputs[i]
    users = trace.users[z]
    if len(users) != 2 or users[0] != i or _op_name(trace, users[1]) != "dot":
        return None
    total = next(_chain_of_single_users(trace, i), i)
    if _op_name(trace, total) != "sub" or trace.tape.inputs[total] != (i, users[1]):
        return None
    if next(_chain_of_single_users(trace, users[1]), None) != total:
        return None
    (weights,) = (j for j in trace.tape.inputs[users[1]] if j != z)
    return weights, total


def _chain_of_single_users(trace: Trace, i: int) -> Iterator[int]:
    """Yield the user of a node, the user of that user, and so on, while each node has a single use."""
    while len(trace.users[i]) == 1:
        (i,) = trace.users[i]
        yield i


def _op_name(trace: Trace, i: int) -> str:
    op = trace.tape.nodes[i].op
    return "" if op is None else op.name


_MAX_FORMULA_LENGTH = 72  # characters; a longer formula does not fit beside its numbers on a line
_LABEL_LENGTHS = (MAX_LABEL_LENGTH, 24, 12)  # characters of a label in a formula; shorter ones make a long formula fit


def adjoint_formula(trace: Trace, i: int, position: int) -> str | None:
    """Return the contribution of an operation on whole arrays to an input as a formula of labels, `Wᵀ @ adjoint`.

    Returns None if the input takes no contribution.
    """
    from autodiff_cli.algebra.simplify import simplify_text

    op, inputs = trace.tape.nodes[i].operation, trace.tape.inputs[i]
    rule = op.structural_rule(tuple(array_shape(trace.values[j]) for j in inputs))
    graph = rule.vjp_graphs[position]
    if graph is None:
        return None
    if op.gate is Gate.ROUTE and op.kink is not None:
        return f"its share of the adjoint at {op.summary}, 0 elsewhere"
    nodes = rule.bind(i, inputs)
    # A constant stands for itself in a formula of labels.
    leaves = {}
    for j in nodes.values():
        node = trace.tape.nodes[j]
        leaves[j] = node if node.op is None and node not in trace.expression.names else variable(trace.labels[j])
    sizes = {
        node: constant(str(math.prod(array_shape(trace.values[nodes[node.inputs[0]]]))))
        for node in topological_order([graph])
        if node.op is not None and node.op.name == "size" and node.inputs[0] in nodes
    }
    substitution = {placeholder: leaves[j] for placeholder, j in nodes.items()} | sizes
    passed = simplify_text(substitute([graph], substitution)[0])
    if (arranged := _placement_in_words(rule, passed)) is not None:
        return arranged
    every = passed.op is not None and passed.op.name == "broadcast_like"
    passed = passed.inputs[0] if every else passed
    slots = {leaf: j for j, leaf in leaves.items() if not leaf.is_constant}
    levels = {leaf: trace.naming.precedence(j) for leaf, j in slots.items()} | {rule.adjoint: Precedence.ATOM}
    pieces = to_pieces(passed, levels, levels)
    formulas = (_joined_pieces(trace, pieces, slots, levels, length) for length in _LABEL_LENGTHS)
    formula = min(formulas, key=lambda text: max(len(text), _MAX_FORMULA_LENGTH))  # the first that fits, or the last
    return f"{formula}, for every element" if every else formula


def _joined_pieces(
    trace: Trace, pieces: Sequence[str | Gap], slots: Mapping[Node, int], levels: Mapping[Node, int], length: int
) -> str:
    """Return a printed rule with labels of at most `length` characters for its inputs, and `adjoint`."""
    formula = ""
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        if isinstance(piece, str):
            formula += piece[1:] if formula.endswith("ᵀ") else piece
            continue
        label = "adjoint"
        if piece.leaf in slots:
            label = trace.naming.label_in_call(slots[piece.leaf], length)
        is_loose = piece.needs_brackets
        if formula.endswith("transpose(") and isinstance(after, str) and after.startswith(")"):
            formula = formula.removesuffix("transpose(")
            label, is_loose = f"({label})ᵀ" if levels[piece.leaf] < Precedence.ATOM else f"{label}ᵀ", False
        formula += f"({label})" if is_loose else label
    return formula


def _placement_in_words(rule: StructuralRule, passed: Node) -> str | None:
    """Return in words how a rule picks or places parts of the adjoint; None for another rule."""
    if passed.op is None or passed.inputs[0] is not rule.adjoint:
        return None
    match passed.op.name:
        case "place":
            return f"adjoint at [{', '.join(at.text for at in passed.inputs[2:])}], 0 elsewhere"
        case "part":
            first, last = int(passed.inputs[1].text), int(passed.inputs[2].text) - 1
            return f"element {first} of the adjoint" if first == last else f"elements {first} to {last} of the adjoint"
    return None
