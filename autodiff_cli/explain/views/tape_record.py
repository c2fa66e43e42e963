"""The tape as a framework stores it: what every operation keeps for the backward pass, and what that costs.

What is kept is read from the rule: the values that occur in the local derivatives that are needed. A sum keeps nothing,
a product its factors, `exp` its own output; so does `tanh`, whose slope frameworks compute as books have it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from autodiff_cli.explain.record import Trace, shape_of
from autodiff_cli.graph.node import Node, as_node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape

NUMBER = 8  # bytes


class Entry(NamedTuple):
    """One operation on the tape.

    Attributes:
        saved: the nodes whose values the backward pass reads here; constants are part of the program, not kept.
        bytes: the memory of those among `saved` that no earlier entry keeps.
    """

    node: int
    op: Op
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    bytes: int


class Checkpoints(NamedTuple):
    """What it means to keep only what crosses from one stretch of `every` operations to a later one.

    The backward pass computes a stretch again before it enters it; the last one is still there.

    Attributes:
        kept: bytes of the values that are kept throughout.
        peak: bytes at the fullest moment: what is kept, and the largest stretch.
        recomputed: operations that are carried out twice.
    """

    every: int
    stretches: int
    kept: int
    peak: int
    recomputed: int


class TapeRecord(NamedTuple):
    """The record of a forward pass.

    Attributes:
        bytes: what the backward pass needs in all, inputs included, each value once.
        computed: bytes of the values of all operations.
        without: bytes at the peak without checkpoints: the values of operations that the backward pass needs.
        checkpoints: for several distances, from 2 operations up, those that save memory.
    """

    trace: Trace
    entries: list[Entry]
    bytes: int
    computed: int
    without: int
    checkpoints: list[Checkpoints]


def tape_record(trace: Trace) -> TapeRecord:
    """The record of the forward pass of a trace."""
    entries = [*_entries(trace)]
    saved = {j for entry in entries for j in entry.saved}
    memory = [NUMBER * math.prod(shape_of(value)) for value in trace.values]
    operations = [entry.node for entry in entries]
    without = sum(memory[j] for j in saved if trace.tape.nodes[j].op is not None)
    distances = [2**power for power in range(1, max(1, (len(operations) - 1).bit_length()))]
    tried = [_checkpoints(trace, operations, saved, memory, every) for every in distances]
    return TapeRecord(
        trace,
        entries,
        sum(entry.bytes for entry in entries),
        sum(memory[i] for i in operations),
        without,
        [chosen for chosen in tried if chosen.peak < without],
    )


def _entries(trace: Trace) -> Iterator[Entry]:
    read: dict[object, tuple[int, ...]] = {}
    kept: set[int] = set()
    tape = trace.tape
    for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
        if node.op is None:
            continue
        shapes = tuple(shape_of(trace.values[j]) for j in inputs) if node.op.structural else ()
        key = node.op, len(inputs), tape.edges[i], shapes
        if key not in read:
            read[key] = _read_by(node.op, len(inputs), tape.edges[i], shapes)
        places = [inputs[position - 1] if position else i for position in read[key]]
        saved = tuple(dict.fromkeys(j for j in places if not tape.nodes[j].is_constant))
        new = [j for j in saved if j not in kept]
        kept.update(new)
        yield Entry(i, node.op, inputs, saved, sum(NUMBER * math.prod(shape_of(trace.values[j])) for j in new))


def _read_by(op: Op, count: int, live: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Which values the rule reads towards the inputs at `live`: 0 for the output, k + 1 for the k-th input."""
    if op.structural:
        passage = op.passage(shapes)
        places = (passage.output, *passage.inputs)
        roots = [graph for k in live if (graph := passage.back[k]) is not None]
    else:
        rule = op.partials(count)
        places = (rule.output, *rule.inputs)
        partials = [rule.partials[k] for k in live]
        roots = [node for partial in partials for node in (partial.local, partial.mask) if node is not None]
        if op.textbook is not None:
            roots = [as_node(op.textbook(*places))]
    read = _values_read(roots)
    return tuple(k for k, place in enumerate(places) if place in read)


def _values_read(roots: list[Node]) -> set[Node]:
    """The nodes of some graphs whose values are read, not only their shapes."""
    tape = Tape(roots)
    read = set(roots)
    for node in reversed(tape.nodes):
        if node in read and node.op is not None:
            read.update(child for k, child in enumerate(node.inputs) if k not in node.op.shape_only)
    return read


def _checkpoints(trace: Trace, operations: list[int], saved: set[int], memory: list[int], every: int) -> Checkpoints:
    stretch = {i: position // every for position, i in enumerate(operations)}
    last = stretch[operations[-1]]
    crossing = {
        j
        for i in operations
        for j in trace.tape.inputs[i]
        if trace.tape.nodes[j].op is not None and stretch[j] < stretch[i]
    }
    inside = [0] * (last + 1)
    for i in saved - crossing:
        if i in stretch:
            inside[stretch[i]] += memory[i]
    kept = sum(memory[i] for i in crossing)
    again = sum(1 for i in operations if stretch[i] < last and i not in crossing)
    return Checkpoints(every, last + 1, kept, kept + max(inside), again)
