"""The tape, as a framework stores it, for people and as JSON."""

from __future__ import annotations

from typing import Any

from autodiff_cli.explain.views.tape_record import TapeRecord
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import write_title
from autodiff_cli.render.text import counted

NOTHING = "-"


def tape_report(record: TapeRecord, digits: int | None) -> Report:
    """Every operation with what it keeps for the backward pass, the memory, and what checkpoints would change."""
    return Report(lambda paper: _write(paper, record, digits), lambda: [_fields(record)])


def _write(paper: Paper, record: TapeRecord, digits: int | None) -> None:
    trace = record.trace
    write_title(paper, trace, shows(digits)[0])
    paper.heading("tape: what each operation keeps for the backward pass")
    rows = [
        (
            str(entry.node),
            entry.op.name,
            ", ".join(trace.labels[j] for j in entry.inputs),
            trace.labels[entry.node],
            ", ".join(trace.labels[j] for j in entry.saved) or NOTHING,
            _bytes(entry.bytes) if entry.bytes else NOTHING,
        )
        for entry in record.entries
    ]
    titles = (Column("id", True), Column("operation"), Column("inputs", is_dispensable=True), Column("output"))
    paper.table(TextTable((*titles, Column("keeps"), Column("new memory", True)), rows))
    paper.line("  A value that several operations keep is stored once; constants are part of the program.", Style.FAINT)
    paper.line()
    paper.line(f"kept for the backward pass: {_bytes(record.bytes)}; all results together: {_bytes(record.computed)}")
    if record.checkpoints:
        _write_checkpoints(paper, record)


def _fields(record: TapeRecord) -> dict[str, Any]:
    """What `--tape` adds to the document of a trace. Memory is in bytes."""
    entries = [
        {
            "node": entry.node,
            "op": entry.op.name,
            "inputs": entry.inputs,
            "output": entry.node,
            "saved": entry.saved,
            "bytes": entry.bytes,
        }
        for entry in record.entries
    ]
    checkpoints = [{**chosen._asdict(), "saved": record.without - chosen.peak} for chosen in record.checkpoints]
    return {"tape": entries, "tape_bytes": record.bytes, "checkpoints": checkpoints}


def _write_checkpoints(paper: Paper, record: TapeRecord) -> None:
    count = len(record.entries)
    paper.heading("checkpoints: keep only what crosses from one stretch of k operations to a later one")
    paper.line("  The backward pass computes each stretch but the last again before it goes through it.", Style.FAINT)
    rows = [
        (
            str(chosen.every),
            str(chosen.stretches),
            _bytes(chosen.kept),
            _bytes(chosen.peak),
            _bytes(record.without - chosen.peak),
            f"{chosen.recomputed} of {count}",
        )
        for chosen in record.checkpoints
    ]
    titles = ("k", "stretches", "kept", "at the peak", "saves", "redone")
    paper.table(TextTable(tuple(Column(title, is_number=True) for title in titles), rows))
    paper.line(
        f"  Without checkpoints: {_bytes(record.without)} for {counted(count, 'operation')}, inputs not counted."
    )


def _bytes(count: int) -> str:
    return f"{count:,} B"
