"""A plan of evaluation: operations in order, over numbered values, with as few of these alive as can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Step(NamedTuple):
    """One operation of a plan.

    Attributes:
        function: of the inputs' values.
        inputs: where these lie.
        output: where its value goes.
        into: the same function, for an array to write to as its last argument; None if there is no such function.
        shape: of one row of that array.
        is_fresh: whether the value has memory of its own, and is not a view of an input.
        spent: the values that nobody needs after.
        returned: those of them whose memory may be written to again.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    into: Callable[..., Any] | None = None
    shape: tuple[int, ...] = ()
    is_fresh: bool = False
    spent: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()


def run(steps: Sequence[Step], values: list[Any]) -> None:
    """Carry out the steps, in place."""
    for function, inputs, output, _, _, _, spent, _ in steps:
        values[output] = function(*[values[i] for i in inputs])
        for i in spent:
            values[i] = None


def run_reusing(steps: Sequence[Step], values: list[Any], rows: int, free: dict[tuple[int, ...], list[Array]]) -> None:
    """The same over a number of rows, in memory that is used again: large arrays cost more to get than to fill.

    Args:
        free: arrays that may be written to, by shape. They stay there from run to run.
    """
    for function, inputs, output, into, shape, _, spent, returned in steps:
        arguments = [values[i] for i in inputs]
        if into is None:
            values[output] = function(*arguments)
        else:
            reusable = free.setdefault((*shape, rows), [])
            values[output] = into(*arguments, reusable.pop() if reusable else np.empty((*shape, rows)))
        for i in returned:
            free.setdefault(values[i].shape, []).append(values[i])
        for i in spent:
            values[i] = None


def with_last_uses(steps: Sequence[Step], kept: Collection[int]) -> list[Step]:
    """The same steps without those that nothing needs, each knowing which values it is the last to read.

    Args:
        kept: the values that are needed after all of them.
    """
    alive = set(kept)
    own = {step.output for step in steps if step.into is not None}
    for step in steps:
        if not step.is_fresh:
            own.difference_update(step.inputs)  # what it makes may be a view of them
    marked = []
    for step in reversed(steps):
        if step.output not in alive:
            continue
        spent = tuple(dict.fromkeys(i for i in step.inputs if i not in alive))
        alive.update(spent)
        marked.append(step._replace(spent=spent, returned=tuple(i for i in spent if i in own)))
    return marked[::-1]


def recomputing(steps: Sequence[Step], forward: int, layers: Sequence[int], every: int, free: int) -> list[Step]:
    """The same steps with fewer values alive between the forward and the backward sweep: gradient checkpointing
    (Griewank & Walther 2000; Chen et al. 2016, arXiv 1604.06174).

    The forward sweep is cut into segments. What one segment hands to later ones is kept; all else in it is forgotten,
    and computed again, by the same operations, when the backward sweep arrives there.

    Args:
        steps: the forward sweep first.
        forward: how many of them it has.
        layers: the positions among these at which a layer begins.
        every: how many layers make a segment.
        free: the first number that no value has.
    """
    bounds = [0, *layers[every::every], forward]
    segments = [steps[start:stop] for start, stop in pairwise(bounds)]
    segment_of = {step.output: k for k, segment in enumerate(segments) for step in segment}
    read = ((i, k) for k, segment in enumerate(segments) for step in segment for i in step.inputs)
    kept = {i for i, k in read if segment_of.get(i, k) < k}
    again: dict[int, int] = {}  # the number of a value that is computed again
    planned = [*steps[:forward]]
    done = {len(segments) - 1}  # after the last segment the backward sweep begins: nothing of it is forgotten
    for step in steps[forward:]:
        for i in step.inputs:
            k = segment_of.get(i)
            if k is None or k in done or i in kept:
                continue
            done.add(k)
            for old in segments[k]:
                if old.output not in kept:
                    again[old.output] = free
                    free += 1
                    planned.append(_renumbered(old, again))
        planned.append(_renumbered(step, again))
    return planned


def _renumbered(step: Step, again: dict[int, int]) -> Step:
    inputs = tuple([again.get(i, i) for i in step.inputs])
    return step._replace(inputs=inputs, output=again.get(step.output, step.output))
