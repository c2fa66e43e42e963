"""What `trace` shows: both passes, step by step, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from autodiff_cli.explain.moments import TURN
from autodiff_cli.explain.record import BackwardStep, ForwardStep, Trace
from autodiff_cli.explain.words import Words
from autodiff_cli.render.documents import trace_document
from autodiff_cli.render.grids import going_in, grid, handed_back_by, is_grid
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Paper, Style
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import write_result, write_title, write_warnings

S = TypeVar("S")


def trace_report(trace: Trace, digits: int | None) -> Report:
    """The forward steps with their numbers, the backward steps with what each hands on, and the result."""
    return Report(lambda paper: _write(paper, trace, digits), lambda: [trace_document(trace)])


def _write(paper: Paper, trace: Trace, digits: int | None) -> None:
    in_full, brief = shows(digits)
    words, known = Words(trace, brief), set[str]()

    def rows(array: Any, label: str = "") -> None:
        for line in grid(array, brief, label):
            paper.line(f"       {line}")

    def forward(step: ForwardStep) -> None:
        paper.line(f"  {step.step}. {words.forward(step)}")
        for label, array in going_in(trace, step):
            if label not in known:
                known.add(label)
                rows(array, label)

    def backward(step: BackwardStep) -> None:
        paper.line(f"  {step.step}. {trace.labels[step.node]}, adjoint {brief(step.adjoint)}: {words.backward(step)}")
        for label, array in handed_back_by(trace, step):
            rows(array, label)
        for given in step.contributions if words.hands_on(step) else ():
            paper.line(f"       {words.contribution(step, given)}")
            if is_grid(given.amount):
                rows(given.amount)

    write_title(paper, trace, in_full)
    paper.heading("forward pass: from the inputs to the output")
    write_steps(paper, trace.forward, forward)
    paper.heading("backward pass: from the output to the inputs")
    paper.line(f"  {TURN}", Style.FAINT)
    write_steps(paper, trace.backward, backward)
    write_result(paper, trace, in_full)
    write_warnings(paper, trace.warnings)


def write_steps(paper: Paper, steps: Iterable[S], write: Callable[[S], None]) -> None:
    """All steps; on paper that is short, those at both ends."""
    listed = [*steps]
    if not listed:
        paper.line("  There is nothing to do.", Style.FAINT)
    first, last = paper.shown(len(listed))
    for step in listed[:first]:
        write(step)
    paper.left_out(len(listed) - first - last, "step")
    for step in listed[len(listed) - last :]:
        write(step)
