"""Warnings: where the value or the derivative is not what a reader may assume, and why.

The record of an operation (the predicates `kink`, `domain`, `singular`) and the numbers of both passes decide which
warnings there are at a point; no formula is treated specially. Only nodes that contribute to the output are checked,
not the branch that a choice does not take. Scalar operations are always checked; of an operation on arrays, only the
elements that are not finite or at which a predicate holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.autodiff.sweeps import ReversePass, forward
from autodiff_cli.explain import accuracy
from autodiff_cli.explain.accuracy import InaccurateDigits, Numbers
from autodiff_cli.explain.labels import format_operation_on_numbers
from autodiff_cli.explain.record import NodeWarning, Trace, any_true, array_shape
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import derivative_key
from autodiff_cli.graph.node import Gate, Node, Op, is_literal
from autodiff_cli.graph.tape import Tape, substitute
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.kind import Kind

Index = tuple[int, ...]  # the index of an element in its array; empty for a number


class ElementContext(NamedTuple):
    """One operation on numbers: a scalar node, or one element of an elementwise operation on arrays.

    Attributes:
        node: the id of the node.
        inputs: the values of the inputs at this element.
        value: the value of the node at this element.
        adjoint: the adjoint at this element; None for a structural zero.
        slopes: the local derivatives that contribute to an input, by input position.
        index: the index of the element; empty for a scalar node.
    """

    node: int
    op: Op
    inputs: Sequence[float]
    value: float
    adjoint: float | None
    slopes: Mapping[int, float]
    element_index: Index


def element_contexts(trace: Trace, i: int, contributing: Any) -> Iterator[ElementContext]:
    """Yield the elements of an elementwise operation at which a warning may be due, of those that contribute."""
    op, numbers = trace.tape.nodes[i].operation, _input_values(trace, i)
    slopes = {part.position: part.local for part in trace.contributions[i] if not part.is_structural_zero}
    if isinstance(trace.values[i], float):
        yield ElementContext(i, op, numbers, trace.values[i], trace.adjoints_or_none[i], slopes, ())
        return
    import numpy as np

    shape = trace.values[i].shape

    def at(number: Any, element_index: Index) -> float:
        return float(np.broadcast_to(number, shape)[element_index])

    selected = _selected_inputs(trace, i, op)
    for element_index in _suspect_elements(trace, i, op, contributing, slopes.values()):
        adjoint = None if trace.adjoints_or_none[i] is None else at(trace.adjoints_or_none[i], element_index)
        local_slopes = {k: at(local, element_index) for k, local in slopes.items() if at(selected[k], element_index)}
        elements, value = [at(x, element_index) for x in numbers], at(trace.values[i], element_index)
        yield ElementContext(i, op, elements, value, adjoint, local_slopes, element_index)


def _suspect_elements(trace: Trace, i: int, op: Op, contributing: Any, slopes: Collection[Any]) -> Iterator[Index]:
    """Yield the indices of the elements that are not finite, or at which a predicate of the operation holds."""
    import numpy as np

    from autodiff_cli.array_types import ignore_float_errors
    from autodiff_cli.numbers.arrays import ARRAYS

    inputs = _input_values(trace, i)
    suspect = np.zeros(trace.values[i].shape, dtype=bool)
    with ignore_float_errors():
        adjoint = trace.adjoints_or_none[i]
        products = () if adjoint is None else [slope * adjoint for slope in slopes]
        for number in (trace.values[i], adjoint, *slopes, *products):
            suspect |= False if number is None else ~np.isfinite(number)
        for which in ("kink", "singular", "domain"):
            predicate = ARRAYS.predicate(op, which, len(inputs))
            if predicate is not None:
                holds = np.asarray(predicate(*inputs)) != 0
                suspect |= ~holds if which == "domain" else holds
    suspect &= contributing
    return (tuple(map(int, element_index)) for element_index in np.argwhere(suspect))


def is_kink_of_arrays(trace: Trace, i: int) -> bool:
    """Whether an operation on whole arrays has a one-sided derivative at its inputs."""
    import numpy as np

    from autodiff_cli.array_types import ignore_float_errors
    from autodiff_cli.numbers.arrays import ARRAYS

    op = trace.tape.nodes[i].operation
    inputs = [np.asarray(x)[..., None] for x in _input_values(trace, i)]
    predicate = ARRAYS.predicate(op, "kink", len(inputs))
    with ignore_float_errors():
        return predicate is not None and bool(np.any(predicate(*inputs)))


def predicate_holds(op: Op, which: str, inputs: Sequence[float]) -> bool:
    """Whether a predicate of an operation (such as `kink` or `domain`) holds for these inputs."""
    predicate = FLOATS.predicate(op, which, len(inputs))
    return predicate is not None and bool(predicate(*inputs))


def contributing_elements(trace: Trace) -> list[Any]:
    """Return for every node whether it contributes to the output; of an array, a mask where not all elements do.

    A node contributes if it has an adjoint, or if it is a constant input or the condition of such a node. It also
    contributes if it makes the output nan although no derivative passes (`0*log(x)`, `relu(log(x))`). A nan that a
    comparison hides contributes too (`where(log(x) > 1, 1, x)`), unless a condition before it decides (`x > 0 and
    log(x) > 1`).
    """
    tape = trace.tape
    contributes: list[Any] = [adjoint is not None for adjoint in trace.adjoints_or_none]
    for i, is_absent in trace.zero_masks.items():
        contributes[i] = ~is_absent
    for i in range(len(tape) - 1, -1, -1):
        op, inputs = tape.nodes[i].op, tape.inputs[i]
        if op is None or not any_true(contributes[i]):
            continue
        elements = any_true(contributes[i]) if op.is_structural else contributes[i]
        used: list[tuple[int, Any]] = [(j, elements) for j in inputs]
        if op.gate in (Gate.BLOCK, Gate.ROUTE) or not all(tape.is_active[j] for j in inputs):
            selected, conditions = _selected_inputs(trace, i, op), _conditions(op, inputs)
            used = [(j, elements & is_selected) for j, is_selected in zip(inputs, selected, strict=True)]
            for j, part in used:
                if j in conditions or not tape.is_active[j]:
                    contributes[j] = contributes[j] | _elements_of_input(part, trace.values[j])
        is_nan, is_hidden = trace.values[i] != trace.values[i], op.gate is Gate.BLOCK
        if any_true(is_nan) or is_hidden:
            everywhere = elements & (any_true(is_nan) if op.is_structural else is_nan)
            reached = [(j, _elements_of_input(everywhere | part & is_hidden, trace.values[j])) for j, part in used]
            undefined = [(j, part & (trace.values[j] != trace.values[j])) for j, part in reached]
            if not any(any_true(part & contributes[j]) for j, part in undefined):
                for j, part in undefined:
                    contributes[j] = contributes[j] | part
    return contributes


def _elements_of_input(elements: Any, number: Any) -> Any:
    """Return which elements of an input belong to elements of a result, by broadcasting."""
    shape = array_shape(number)
    if not array_shape(elements) or not shape:
        return any_true(elements)
    import numpy as np

    result = np.zeros(shape, np.bool_)
    shape_of_both = np.broadcast_shapes(shape, elements.shape)
    positions = np.broadcast_to(np.arange(result.size).reshape(shape), shape_of_both)
    result.flat[positions[np.broadcast_to(elements, shape_of_both)]] = True
    return result


def _conditions(op: Op, inputs: Sequence[int]) -> Sequence[int]:
    """Return the inputs that decide which input is selected, or that conditions consist of."""
    if op.is_structural or op.gate is not Gate.ROUTE:
        return inputs if op.name in ("and", "or", "not") else ()
    partials = op.derivative_rule(len(inputs)).partials
    return [j for j, partial in zip(inputs, partials, strict=True) if is_literal(partial.local, 0)]


def _selected_inputs(trace: Trace, i: int, op: Op) -> Sequence[Any]:
    """Return for each input whether the operation selects it; of operations on arrays, at which elements."""
    if op.is_structural:
        return [True] * len(trace.tape.inputs[i])
    if op.name in ("and", "or"):
        return [True, (_input_values(trace, i)[0] == 0) == (op.name == "or")]
    rule = op.derivative_rule(len(trace.tape.inputs[i]))
    masks = {
        k: partial.mask
        for k, partial in enumerate(rule.partials)
        if partial.mask is not None and not is_literal(partial.local, 0)  # conditions are always used
    }
    if not masks:
        return [True] * len(rule.inputs)
    point = rule.point(trace.values[i], _input_values(trace, i))
    tape = Tape([*masks.values()])
    holds = _evaluate_tape(tape, point)
    is_selected = {k: holds[position] != 0 for k, position in zip(masks, tape.outputs, strict=True)}
    return [is_selected.get(k, True) for k in range(len(rule.inputs))]


def _evaluate_tape(tape: Tape, point: Mapping[str, Any]) -> list[Any]:
    """Return the value of every node of a tape of elementwise operations."""
    if all(isinstance(value, float) for value in point.values()):
        return forward(tape, FLOATS, point)
    from autodiff_cli.array_types import ignore_float_errors
    from autodiff_cli.numbers.arrays import ARRAYS

    with ignore_float_errors():
        return forward(tape, ARRAYS, point)


def _input_values(trace: Trace, i: int) -> list[Any]:
    return [trace.values[j] for j in trace.tape.inputs[i]]


Reason: TypeAlias = tuple[str, str]  # kind, and why

FLOAT_DIGITS = 16  # significant decimal digits of a double, about
LARGE_FLOAT = 2.0**43  # every double from here up is a multiple of 1/1024
CANCELLATION = (  # the text before and after the number of digits
    "cancellation: rounding its inputs can destroy ",
    f" of the {FLOAT_DIGITS} digits of the value",
)
UNDEFINED_ELEMENTS = "it is not defined for these infinite elements, so nan"
UNDEFINED_SLOPES = "its slope is 0*inf, inf/inf or inf - inf, so nan"
OPPOSITE_INFINITIES = "inf - inf: its adjoint is a sum of infinite contributions of both signs, so nan"
MAX_MAGNIFICATION = 1e6  # amplification of rounding errors that causes a warning: 10 of 16 digits are left


def find_warnings(trace: Trace) -> list[NodeWarning]:
    """Return the warnings of a trace, from the inputs to the output.

    An array gets one warning of each kind, for its first such element.
    """
    contributes = contributing_elements(trace)
    worst = _worst_severities(trace)
    warnings: list[NodeWarning] = []
    for i, node in enumerate(trace.tape.nodes):
        if not any_true(contributes[i]):
            continue
        messages: dict[str, str] = {}  # by kind; the first message of a kind is kept
        adjoint = trace.adjoints_or_none[i]
        severity = 0 if adjoint is None else _severity(adjoint)
        if any_true(severity > worst[i]):
            kind, reason = "overflow", "its adjoint is too large for a float, so infinite"
            if any_true((severity > worst[i]) & (severity == _NAN)):
                kind, reason = "singular", OPPOSITE_INFINITIES
            messages[kind] = f"{_location(trace, i)}: {reason}"
        if node.op is not None and node.op.is_structural:
            for kind, reason in _structural_reasons(trace, i):
                messages[kind] = f"{_location(trace, i)}: {reason}"
        elif node.op is not None:
            for element in element_contexts(trace, i, contributes[i]):
                for kind, reason in _element_reasons(trace, element):
                    messages.setdefault(kind, f"{_location(trace, i, element)}: {reason}")
        warnings.extend(NodeWarning(i, kind, message) for kind, message in messages.items())
    return [*warnings, *(_cancellation_warnings(trace) if trace.is_scalar else ())]


def jumping_derivative(trace: Trace, order: int) -> str:
    """Return a message if a derivative of an operation, up to an order, jumps at this point; else nothing."""
    for i, node in enumerate(trace.tape.nodes):
        jumping_order = node.op and node.op.jumping_order
        if jumping_order and jumping_order <= order and trace.adjoints_or_none[i] is not None:
            x, *pairs = _input_values(trace, i)
            if any(any_true(x == place) for place in pairs[::2] or [0.0]):
                what = {2: "slope has a kink", 3: "second derivative has a kink"}[jumping_order]
                return f"{_location(trace, i)}: its {what} here; higher derivatives do not exist, a convention is used"
    return ""


def _worst_severities(trace: Trace) -> list[Any]:
    """Return for every node the severity of the worst contribution to its adjoint."""
    worst: list[Any] = [0] * len(trace.tape)
    for contributions in trace.contributions:
        for contribution in contributions:
            excess = _severity(contribution.amount) - worst[contribution.to]
            worst[contribution.to] = worst[contribution.to] + excess * (excess > 0)
    return worst


def _cancellation_warnings(trace: Trace) -> Iterator[NodeWarning]:
    """Yield a warning if rounding can destroy digits of the value, at the operation that magnifies errors most.

    Rounding a number changes the value by the rounding error times the adjoint of that number.
    """
    total_error = sum(
        abs(trace.values[i] * adjoint)
        for i, adjoint in enumerate(trace.adjoints_or_none)
        if adjoint and not _is_exact(trace.values[i], is_computed=bool(trace.tape.inputs[i]))
    )
    size = abs(trace.value)
    if not MAX_MAGNIFICATION * size < total_error < math.inf:
        return
    lost = min(FLOAT_DIGITS, round(math.log10(total_error) - math.log10(size))) if size else FLOAT_DIGITS
    worst, magnified = trace.tape.outputs[0], 0.0
    for i, adjoint in enumerate(trace.adjoints_or_none):
        if adjoint:
            parts = [part for part in trace.contributions[i] if not part.is_structural_zero]
            weight = sum(abs(trace.values[part.to] * part.amount) for part in parts)
            own_error = abs(trace.values[i] * adjoint)
            if weight > total_error / MAX_MAGNIFICATION and weight > magnified * own_error:
                worst, magnified = i, weight / own_error if own_error else math.inf
    yield NodeWarning(worst, "precision", f"{_location(trace, worst)}: {str(lost).join(CANCELLATION)}")


def _is_exact(value: float, is_computed: bool) -> bool:
    """Whether a number can be assumed to be exact because it is short in binary (2, 0.25).

    Every float from 2^43 up is a multiple of 1/1024, so a computed number of that size proves nothing.
    """
    return (value * 1024).is_integer() and not (is_computed and abs(value) >= LARGE_FLOAT)


def _structural_reasons(trace: Trace, i: int) -> Iterator[Reason]:
    """Yield the kinds and reasons of warnings about an operation on whole arrays."""
    adjoint, amounts = trace.adjoints_or_none[i], [contribution.amount for contribution in trace.contributions[i]]
    if adjoint is not None and is_kink_of_arrays(trace, i):
        yield "kink", trace.tape.nodes[i].operation.kink_note
    if _has_nan(*_input_values(trace, i)):
        return
    if _has_nan(trace.values[i]):
        yield "domain", UNDEFINED_ELEMENTS
    elif not _has_nan(adjoint) and _has_nan(*amounts):
        yield "singular", UNDEFINED_SLOPES


def _has_nan(*numbers: Any) -> bool:
    """Whether a number, or an element of an array, is nan."""
    return any(any_true(number != number) for number in numbers)


def _element_reasons(trace: Trace, element: ElementContext) -> Iterator[Reason]:
    """Yield the kinds and reasons of warnings about an operation at its inputs, the most important first."""
    if any(map(math.isnan, element.inputs)):  # the operation that produced the nan has its own warning
        return
    singular = predicate_holds(element.op, "singular", element.inputs)
    yield from _value_reasons(element.op, element.inputs, element.value, singular)
    if trace.tape.is_active[element.node] and predicate_holds(element.op, "kink", element.inputs):
        yield "kink", element.op.kink_note  # of a condition too, which has no adjoint
    if element.adjoint is None:
        return
    for k, local in element.slopes.items():
        yield from _amount_reasons(local, element.adjoint)
        if not math.isfinite(local) and not math.isnan(element.value):
            yield from _slope_reasons(element, k, local, singular, trace.labels[trace.tape.inputs[element.node][k]])


def _value_reasons(op: Op, inputs: Sequence[float], value: float, singular: bool) -> Iterator[Reason]:
    if math.isnan(value) and op.domain is None and not singular and all(map(math.isfinite, inputs)):
        yield "domain", f"the digits of {op.name} cannot be computed for a number of this size, so nan"
    elif math.isnan(value):
        yield "domain", f"{_format_undefined(op, inputs)}, so nan"
    elif math.isinf(value) and singular:
        yield "singular", f"the value is {_format_number(value)}"
    elif math.isinf(value) and all(map(math.isfinite, inputs)):
        yield "overflow", f"the value is too large for a float, so {_format_number(value)}"


def _amount_reasons(local: float, adjoint: float) -> Iterator[Reason]:
    amount = local * adjoint
    if math.isnan(amount) and not math.isnan(local) and not math.isnan(adjoint):
        product = f"slope {_format_number(local)} times adjoint {_format_number(adjoint)}"
        yield "singular", f"0 × inf: {product} is not defined, so nan"
    elif math.isinf(amount) and math.isfinite(local) and math.isfinite(adjoint):
        yield "overflow", "slope times adjoint is too large for a float, so infinite"


def _slope_reasons(element: ElementContext, k: int, local: float, singular: bool, towards: str) -> Iterator[Reason]:
    """Yield a warning about a local derivative that is not finite although the value is defined."""
    if k in element.op.unavailable_inputs:
        yield "unavailable", f"the derivative of {element.op.name} with respect to {towards} is not available, so nan"
    elif singular:
        yield "singular", f"the slope with respect to {towards} is {_format_number(local)}"
    elif math.isnan(local):
        missing = _undefined_subexpression(element.op, k, element.inputs, element.value)
        if missing is None:
            yield "singular", f"the slope with respect to {towards} is not defined, so nan"
        else:
            yield "domain", f"the slope with respect to {towards} needs {missing}, so nan"
    elif math.isfinite(element.value) and all(map(math.isfinite, element.inputs)):
        yield "overflow", f"the slope with respect to {towards} is too large for a float, so {_format_number(local)}"


def _undefined_subexpression(op: Op, k: int, inputs: Sequence[float], value: float) -> str | None:
    """Return the part of a local derivative's formula that is outside its domain, with numbers: `log(-2)`."""
    rule = op.derivative_rule(len(inputs))
    point = rule.point(value, inputs)
    local = rule.partials[k].local
    expansion = local.op.expand(len(local.inputs)) if local.op is not None and local.op.is_helper else None
    if expansion is not None:
        placeholders = local.operation.placeholders(len(local.inputs))
        (local,) = substitute([expansion], dict(zip(placeholders, local.inputs, strict=True)))
    tape = Tape([local])
    values = forward(tape, FLOATS, point)
    for node, positions in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is not None and node.op.domain is not None:
            arguments = [values[j] for j in positions]
            is_inside, is_unknown = (predicate_holds(node.op, name, arguments) for name in ("domain", "uncomputed"))
            if not any(map(math.isnan, arguments)) and (is_unknown or not is_inside):
                return _format_undefined(node.op, arguments, ", which ")
    return None


def _severity(number: Any) -> Any:
    """Return 0 for a finite number, `_INFINITE` or `_NAN`; for an array with others, the severity of each element."""
    ends = (number,) if isinstance(number, float) else (number.min(), number.max())  # both are nan if one element is
    if all(map(math.isfinite, ends)):
        return 0
    return _NAN * (number != number) + _INFINITE * (abs(number) == math.inf)


_INFINITE, _NAN = 1, 2


def _format_undefined(op: Op, inputs: Sequence[float], link: str = " ") -> str:
    why = "cannot be computed" if predicate_holds(op, "uncomputed", inputs) else "is not defined for real numbers"
    return f"{format_operation_on_numbers(op, [*map(_format_number, inputs)])}{link}{why}"


def _format_number(x: float) -> str:
    return f"{x or 0.0:.6g}"  # a negative zero is a zero


def _location(trace: Trace, i: int, element: ElementContext | None = None) -> str:
    """Return the location of a warning: sub-expression, column in the text, input values, index of the element."""
    source = trace.expression.source
    position = None if source is None else source.line_and_column(trace.tape.nodes[i])
    words = trace.labels[i]
    if position is not None:
        line, column = position
        words += f" (column {column})" if "\n" not in trace.expression.text else f" (line {line}, column {column})"
    inputs = trace.tape.inputs[i]
    values = [trace.values[j] for j in inputs] if element is None else element.inputs
    numbers = [(j, x) for j, x in zip(inputs, values, strict=True) if isinstance(x, float)]
    operands = {trace.labels[j]: _format_number(x) for j, x in numbers}
    known = [f"{label} = {value}" for label, value in operands.items() if label != value]
    if known:
        words += f" at {', '.join(known)}"
    if element is not None and element.element_index:
        words += f", element [{', '.join(map(str, element.element_index))}]"
    return words


# --- Inaccurate digits: NumPy is imported only for arrays, Hessians and directional derivatives ---


def check_accuracy(trace: Trace, slopes: Mapping[str, Node] = MappingProxyType({})) -> list[NodeWarning]:
    """Return the warnings of a trace, with the correct digits of every inaccurate number.

    Args:
        trace: both passes, with the warnings so far.
        slopes: the graphs of the derivatives, by variable; only for a trace with arrays.
    """
    warnings = trace.warnings
    if trace.is_scalar:
        inaccurate = _inaccurate_scalars(trace)
    else:
        from autodiff_cli.explain.array_accuracy import inaccurate_elements

        graphs = {accuracy.VALUE: trace.expression.output, **{derivative_key(name): x for name, x in slopes.items()}}
        numbers = {accuracy.VALUE: trace.value, **{derivative_key(name): trace.gradient[name] for name in slopes}}
        inaccurate = inaccurate_elements(graphs, numbers, trace.point, trace.expression.leaves, trace.unrepresentable)
    inaccurate = inaccurate.without_nan(warnings)
    is_cancelling = trace.is_scalar and any(warning.kind == "precision" for warning in warnings)
    if is_cancelling and accuracy.VALUE not in inaccurate.correct and _is_correct_as_written(trace):
        warnings = [warning for warning in warnings if warning.kind != "precision"]
    if inaccurate == ({}, 0):
        return warnings  # computing the labels, which nothing needs, takes time
    output = trace.tape.outputs[0]
    return inaccurate.add_to(warnings, output, trace.labels[output])


def _inaccurate_scalars(trace: Trace) -> InaccurateDigits:
    """Return the inaccurate numbers among value and gradient of a trace of numbers."""
    point = _scalars(trace.point)
    slopes = {derivative_key(name): slope for name, slope in trace.gradient.items() if name in point}
    numbers = {accuracy.VALUE: trace.value, **slopes}
    doubtful = [*numbers] if trace.unrepresentable else accuracy.doubtful_numbers(numbers, _recomputation(trace))
    if not doubtful:
        return InaccurateDigits({})
    selected = {name: numbers[name] for name in doubtful}
    return InaccurateDigits(accuracy.inaccurate_numbers(trace.expression, point, selected, trace.unrepresentable))


def _scalars(point: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a point, without the arrays that are declared but that the output does not use."""
    return {name: x for name, x in point.items() if not array_shape(x)}


def _recomputation(trace: Trace) -> Callable[[Kind[float]], Numbers]:
    """Return a function that computes the value and the gradient of a trace with a kind of float."""
    tape = trace.tape
    places = {derivative_key(name): tape.index.get(trace.expression.leaves[name]) for name in trace.wrt}
    back: ReversePass[float] | None = None

    def compute(kind: Kind[float]) -> Numbers:
        nonlocal back
        back = back or ReversePass(tape, kind)
        values = forward(tape, kind, trace.point)
        adjoints = back(values, kind.parse_derivative("1"))
        slopes = {name: (None if i is None else adjoints[i]) or 0.0 for name, i in places.items()}
        return {accuracy.VALUE: values[tape.outputs[0]], **slopes}

    return compute


def _is_correct_as_written(trace: Trace) -> bool:
    """Whether the value is correct, despite cancellation, at the decimals that the given values are written as."""
    exact = accuracy.exact_evaluator({accuracy.VALUE: trace.expression.output})
    try:
        at_decimals = exact({**accuracy.as_decimals(_scalars(trace.point)), **trace.unrepresentable}, [accuracy.VALUE])
    except ModuleNotFoundError:  # without FLINT nothing can be proven
        return False
    return accuracy.is_correct(trace.value, at_decimals[accuracy.VALUE])


def unrepresentable_warnings(formula: Formula, unrepresentable: Mapping[str, Any]) -> Iterator[NodeWarning]:
    """Yield a warning for every given value that no float represents.

    Args:
        formula: the formula, whose variables may be elements, such as `v[0]`.
        unrepresentable: the exact values by name.
    """
    for name, exact in unrepresentable.items():
        from autodiff_cli.numbers.ball_arithmetic import format_shortest, nearest_float

        leaf = formula.leaves[name if name in formula.leaves else name.partition("[")[0]]
        i = formula.tape.index.get(leaf, formula.tape.outputs[0])
        text, used = format_shortest(exact, accuracy.SETTINGS.shown_digits), nearest_float(exact)
        words = f"{name}: {text} is not representable as a float; {used:.15g} is used instead"
        yield NodeWarning(i, "precision", words)


def check_higher_derivatives(
    formula: Formula,
    point: Mapping[str, Any],
    derivatives: HigherDerivatives,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> InaccurateDigits:
    """Return the inaccurate numbers among higher derivatives: `derivative`, `directional`, `hessian.x.y`.

    Args:
        formula: the formula, whose output is a number.
        point: a number or an array for every variable.
        derivatives: the derivatives as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    parts = []
    if derivatives.derivative is not None:
        parts.append(_check_order(formula, point, derivatives, unrepresentable))
    if derivatives.directional is not None or derivatives.hessian is not None:
        from autodiff_cli.explain.array_accuracy import check_directional, check_hessian

        if derivatives.directional is not None and derivatives.direction is not None:
            direction, slope = derivatives.direction, derivatives.directional
            parts.append(check_directional(formula, point, direction, slope, unrepresentable))
        if derivatives.hessian is not None:
            parts.append(check_hessian(formula, point, derivatives.hessian, unrepresentable))
    correct = {name: text for part in parts for name, text in part.correct.items()}
    return InaccurateDigits(correct, sum(part.unknown_count for part in parts))


def _check_order(
    formula: Formula, point: Mapping[str, Any], request: HigherDerivatives, unrepresentable: Mapping[str, Any]
) -> InaccurateDigits:
    """Check a derivative of higher order, which comes from a Taylor series and has no graph."""
    from autodiff_cli.autodiff.taylor import derivatives

    output, leaf = formula.output, formula.leaves[request.variable]
    if not formula.is_scalar or any(map(array_shape, point.values())):
        from autodiff_cli.autodiff.unrolling import TooManyOperationsError, unroll_at

        try:
            (array,), leaves, point = unroll_at([output], point, formula.leaves, accuracy.SETTINGS.max_operations)
        except TooManyOperationsError:
            return InaccurateDigits({}, 1)
        output, leaf = array.item(), leaves[request.variable].item()
    tape = Tape((output,), [leaf])

    def compute(kind: Kind[accuracy.N], point: Mapping[str, accuracy.N]) -> dict[str, accuracy.N]:
        return {"derivative": derivatives(tape, leaf, kind, point, request.order)[-1]}

    numbers = {"derivative": float(request.derivative)}
    if not (unrepresentable or accuracy.doubtful_numbers(numbers, lambda kind: compute(kind, point))):
        return InaccurateDigits({})
    exact = accuracy.exact_computation(compute, len(tape) * (request.order + 1))
    return InaccurateDigits(accuracy.correct_digits(numbers, point, exact, unrepresentable))
