"""Records as JSON: one document, numbers in full, what is not finite as "nan", "inf", "-inf"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autodiff_cli.explain.steps import Trace
from autodiff_cli.expression import Expression

if TYPE_CHECKING:
    from autodiff_cli.explain.derivatives import Further
    from autodiff_cli.explain.uncertainty import Uncertainty


def number(x: Any) -> Any:
    """A number as JSON can say it; an array as nested lists. One of more digits than a float has is a text already."""
    if isinstance(x, float):
        return x if math.isfinite(x) else str(x)
    if x is None or isinstance(x, str):
        return x
    return [*map(number, x)] if isinstance(x, list) else number(x.tolist())


def numbers(named: Mapping[str, Any]) -> dict[str, Any]:
    """Named numbers as JSON can say them."""
    return {name: number(x) for name, x in named.items()}


def dumps(document: Mapping[str, Any]) -> str:
    """The text of a document, on one line. Refuses a number that JSON cannot say."""
    return json.dumps(document, allow_nan=False) + "\n"


def gradient_document(trace: Trace) -> dict[str, Any]:
    """What `grad --json` writes."""
    tape = trace.tape
    nodes = [
        {
            "id": i,
            "label": label,
            "op": "input" if node.is_input else "constant" if node.op is None else node.op.name,
            "inputs": inputs,
            "value": number(value),
            "adjoint": number(adjoint),
        }
        for i, (node, label, inputs, value, adjoint) in enumerate(
            zip(tape.nodes, trace.labels, tape.inputs, trace.values, trace.adjoints, strict=True)
        )
    ]
    return {
        "expression": trace.expression.text,
        "variables": numbers(trace.point),
        "value": number(trace.value),
        "gradient": numbers(trace.gradient),
        "nodes": nodes,
        "order": [*range(len(tape))],
        "warnings": [
            {"node": caveat.node, "kind": caveat.kind, "message": caveat.message} for caveat in trace.warnings
        ],
    }


def uncertainty_document(uncertainty: Uncertainty) -> dict[str, Any]:
    """The field that uncertain inputs add."""
    return {"value": number(uncertainty.value), "shares": numbers(uncertainty.shares)}


def trace_document(trace: Trace) -> dict[str, Any]:
    """What `trace --json` writes: the document of `grad`, and the steps of both passes."""
    forward = [
        {"step": step.step, "node": step.node, "op": step.op.name, "inputs": step.inputs, "value": number(step.value)}
        for step in trace.forward
    ]
    backward = [
        {
            "step": step.step,
            "node": step.node,
            "op": step.op.name,
            "adjoint": number(step.adjoint),
            "contributions": [
                {
                    "to": given.to,
                    "local": number(given.local),
                    "amount": number(given.amount),
                    "total": number(given.total),
                }
                for given in step.contributions
            ],
        }
        for step in trace.backward
    ]
    return {**gradient_document(trace), "forward": forward, "backward": backward}


def formulas_document(expression: Expression, derivatives: Mapping[str, Expression]) -> dict[str, Any]:
    """What `grad --json` writes without values."""
    return {
        "expression": expression.text,
        "variables": [*expression.variables],
        "derivatives": {name: str(derivative) for name, derivative in derivatives.items()},
    }


def further_formulas_document(expression: Expression, further: Further) -> dict[str, Any]:
    """What `grad --json` writes without values, when more than the gradient is asked for."""
    return {"expression": expression.text, "variables": [*expression.variables], **_further(further)}


def further_document(
    expression: Expression, point: Mapping[str, Any], trace: Trace | None, further: Further
) -> dict[str, Any]:
    """What `grad --json` writes when more than the gradient is asked for.

    Args:
        trace: of the passes at the point; None for an output that is an array, which has no gradient.
    """
    if trace is None:
        elements = [*map(number, (further.outputs or {}).values())]
        known = {"expression": expression.text, "variables": numbers(point), "value": elements, "warnings": []}
    else:
        known = gradient_document(trace)
    if further.tangents is not None:
        known["gradient"] = {name: number(column[-1]) for name, column in further.tangents.items()}
    return {**known, **_further(further)}


def _further(further: Further) -> dict[str, Any]:
    """The fields for what was asked for."""
    fields = {
        "derivatives": further.formulas,
        "tangents": further.tangents,
        "hessian": further.hessian,
        "directional": further.directional,
        "derivative": further.derivative,
        "jacobian": further.jacobian,
        "outputs": further.outputs,
    }
    return {name: _nested(found) for name, found in fields.items() if found is not None}


def _nested(found: Any) -> Any:
    """Named numbers and formulas, at any depth, as JSON can say them."""
    if isinstance(found, Mapping):
        return {name: _nested(x) for name, x in found.items()}
    return str(found) if isinstance(found, Expression) else number(found)
