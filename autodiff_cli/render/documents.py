"""Records as JSON: one document, numbers in full, what is not finite as "nan", "inf", "-inf"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.formula.formula import Formula


def number(x: Any) -> Any:
    """A number as JSON can say it, a negative zero as 0; an array as nested lists. One of more digits than a float has
    is a text already."""
    if isinstance(x, float):
        return (x or 0.0) if math.isfinite(x) else str(x)
    if x is None or isinstance(x, str):
        return x
    return [*map(number, x)] if isinstance(x, list) else number(x.tolist())


def numbers(named: Mapping[str, Any]) -> dict[str, Any]:
    """Named numbers as JSON can say them."""
    return {name: number(x) for name, x in named.items()}


def dumps(document: Mapping[str, Any]) -> str:
    """The text of a document, on one line. Refuses a number that JSON cannot say."""
    import json  # which a report on paper starts without

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
        "warnings": [warning_document(caveat) for caveat in trace.warnings],
    }


def warning_document(caveat: Caveat) -> dict[str, Any]:
    found = {"node": caveat.node, "kind": caveat.kind, "message": caveat.message}
    return {**found, "right": dict(caveat.right)} if caveat.right else found


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


def formulas_document(expression: Formula, derivatives: Mapping[str, Formula]) -> dict[str, Any]:
    """What `grad --json` writes without values."""
    return {
        "expression": expression.text,
        "variables": [*expression.variables],
        "derivatives": {name: str(derivative) for name, derivative in derivatives.items()},
    }
