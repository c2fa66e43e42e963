"""Forward mode, step by step, for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autodiff_cli.explain.formulas import applied_to_numbers
from autodiff_cli.explain.record import ForwardStep
from autodiff_cli.explain.views.forward_mode import ForwardMode, TangentStep
from autodiff_cli.explain.words import Words
from autodiff_cli.graph.registry import registered
from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import write_result, write_title, write_warnings
from autodiff_cli.render.reports.steps import write_steps


def forward_mode_report(
    found: Callable[[str], ForwardMode], names: Sequence[str], shown: Sequence[str], digits: int | None
) -> Report:
    """For each variable its tangent on the way up, and the work that both modes need.

    Args:
        found: forward mode for a variable, of those of these `names`.
        shown: the variables that are written on paper.
    """
    return Report(lambda paper: _write(paper, [*map(found, shown)], digits), lambda: [_fields([*map(found, names)])])


def _write(paper: Paper, found: Sequence[ForwardMode], digits: int | None) -> None:
    in_full, brief = shows(digits)
    trace = found[0].trace
    words = Words(trace, brief)
    write_title(paper, trace, in_full)
    for mode in found:

        def write(step: TangentStep, name: str = mode.name) -> None:
            computed = words.forward(
                ForwardStep(step.step, step.node, step.op, trace.tape.inputs[step.node], step.value)
            )
            if not step.carried:
                paper.line(f"  {step.step}. {computed}; no change with {name} arrives, tangent 0")
                return
            paper.line(f"  {step.step}. {computed}; tangent {brief(step.tangent)}")
            for carried in step.carried:
                factors = applied_to_numbers(registered("mul"), [brief(carried.local), brief(carried.tangent)])
                paper.line(f"       from {trace.labels[carried.input]}: {factors} = {brief(carried.amount)}")

        paper.heading(f"forward mode: how fast every node changes with {mode.name}")
        paper.line(
            f"  {mode.name} moves at the rate 1. A node's tangent is the sum of what its inputs add:", Style.FAINT
        )
        paper.line("  local derivative × tangent of the input.", Style.FAINT)
        write_steps(paper, mode.steps, write)
    write_result(paper, trace, in_full, {mode.name: mode.tangents[trace.tape.outputs[0]] for mode in found})
    _write_work(paper, found)
    write_warnings(paper, trace.warnings)


def _fields(found: Sequence[ForwardMode]) -> dict[str, Any]:
    """What `--mode forward` adds to the document of a trace."""
    work = {
        "forward": {mode.name: mode.work._asdict() for mode in found},
        "forward_all": found[0].all_variables._asdict(),
        "reverse": found[0].reverse._asdict(),
    }
    return {"tangents": {mode.name: [*map(number, mode.tangents)] for mode in found}, "work": work}


def _write_work(paper: Paper, found: Sequence[ForwardMode]) -> None:
    count = len(found[0].trace.wrt)
    passes = {f"forward mode, {mode.name}": mode.work for mode in found}
    if count > 1:
        passes[f"forward mode, all {count} variables"] = found[0].all_variables
    passes[f"reverse mode, {f'all {count} variables' if count > 1 else found[0].name}"] = found[0].reverse
    paper.heading("work, besides values and local derivatives")
    rows = [(name, str(work.multiplications), str(work.additions)) for name, work in passes.items()]
    titles = (Column("pass"), Column("multiplications", is_number=True), Column("additions", is_number=True))
    paper.table(TextTable(titles, rows))
