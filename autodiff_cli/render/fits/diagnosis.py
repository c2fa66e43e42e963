"""A diagnosis in words, each problem with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import Show
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.training.result.diagnosis import Diagnosis, Problem, Units

# What each kind of problem is called, what it is, and what may help.
_WORDS = {
    "dead": (
        "dead units",
        "{amount:g} of {of:g} units are dead: 0 in every row, so that nothing changes them any more",
        "a smaller --lr, another --seed, leaky_relu or elu instead of relu, inputs scaled to the size of 1",
    ),
    "saturated": (
        "saturated units",
        "{amount:g} of {of:g} units are saturated: flat in nearly all rows, so that they hardly learn",
        "inputs scaled to the size of 1, a smaller --lr, smaller starting weights, relu in hidden layers",
    ),
    "vanishing": (
        "vanishing gradients",
        "at the {when} the gradient is only {amount:.1g}{beside}",
        "fewer layers, relu or gelu instead of sigmoid or tanh, inputs scaled to the size of 1",
    ),
    "exploding": (
        "exploding gradients",
        "at the {when} the gradient is {amount:.1g}{beside}",
        "a smaller --lr, smaller starting weights, inputs and targets scaled to the size of 1",
    ),
}


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The part of `train --json` that `--diagnose` adds."""
    return {
        "units": [layer._asdict() for layer in diagnosis.units],
        "gradients": [
            {"layer": layer.layer, "start": number(layer.start), "end": number(layer.end)}
            for layer in diagnosis.gradients
        ],
        "problems": [
            {"kind": problem.kind, "layer": problem.layer, "when": problem.when, "message": _sentence(problem)}
            for problem in diagnosis.problems
        ],
    }


def write_diagnosis(paper: Paper, diagnosis: Diagnosis, show: Show) -> None:
    """The units and the gradients of each layer, what is wrong with them, and what may help."""
    paper.heading("diagnosis")
    if not (diagnosis.units or diagnosis.gradients):
        paper.line("  the model has no layers to examine")
        return
    if diagnosis.units:
        titles = (Column("layer"), Column("units"), Column("idle"))
        rows = [(layer.layer, f"{layer.units} {layer.activation}", _idle(layer)) for layer in diagnosis.units]
        paper.table(TextTable(titles, rows))
    if diagnosis.gradients:
        titles = (Column("layer"), Column("gradient at start", is_number=True), Column("at end", is_number=True))
        rows = [(layer.layer, show(layer.start), show(layer.end)) for layer in diagnosis.gradients]
        paper.table(TextTable(titles, rows))
    problems = diagnosis.problems
    if not problems:
        paper.line("  healthy: all units are at work, and no gradient vanishes or explodes")
    for problem in _worst(problems):
        paper.line(f"  {_sentence(problem)}", Style.WARNING)
    for kind in dict.fromkeys(problem.kind for problem in problems):
        name, _, advice = _WORDS[kind]
        paper.line(f"  against {name}: {advice}")


def _worst(problems: Sequence[Problem]) -> list[Problem]:
    """One of each kind for each end of the fit where layer after layer has it: the one with the first layer."""
    gradients = {(problem.kind, problem.when): problem for problem in reversed(problems)}
    return [
        problem
        for problem in problems
        if problem.kind in ("dead", "saturated") or problem is gradients[problem.kind, problem.when]
    ]


def _idle(layer: Units) -> str:
    found = [f"{count} {what}" for count, what in ((layer.dead, "dead"), (layer.saturated, "saturated")) if count]
    return ", ".join(found) or "none"


def _sentence(problem: Problem) -> str:
    beside = "" if problem.amount == problem.of else f", in the last layer {problem.of:.1g}"
    return f"{problem.layer}: {_WORDS[problem.kind][1].format(**problem._asdict(), beside=beside)}"
