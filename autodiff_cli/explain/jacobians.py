"""What there is to say of operations that mix the elements of an array: their Jacobians, and where they collapse.

A Jacobian is read from the rule: the adjoint that is 1 at one element of the output brings out its row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.record import Trace, shape_of
from autodiff_cli.graph.op import Gate
from autodiff_cli.graph.tape import Tape

LARGEST = 64  # numbers of a Jacobian that is worth showing


def has_jacobian(trace: Trace, i: int) -> bool:
    """Whether the slopes of an operation on one whole array are shown: those of one that computes, and that are few."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    if op is None or not op.structural or len(inputs) != 1 or op.gate not in (Gate.SCALE, Gate.SWAP):
        return False
    return math.prod(shape_of(trace.values[i]) + shape_of(trace.values[inputs[0]])) <= LARGEST


def jacobian(trace: Trace, i: int) -> Any:
    """How every element of the output changes with every element of the input, in the shape of the output and then of
    the input."""
    import numpy as np

    from autodiff_cli.numbers.arrays.table import ARRAYS, quiet

    op, x = trace.tape.nodes[i].op, trace.values[trace.tape.inputs[i][0]]
    assert op is not None
    own, shape = shape_of(trace.values[i]), shape_of(x)
    passage, count = op.passage((shape,)), math.prod(own)
    graph = passage.back[0]
    assert graph is not None
    tape = Tape((graph,))
    point = {  # rows are the last axis: one for each element of the output
        passage.adjoint.text: np.eye(count).reshape(*own, count),
        passage.output.text: np.asarray(trace.values[i])[..., None],
        passage.inputs[0].text: np.asarray(x)[..., None],
    }
    with quiet():
        found = forward(tape, ARRAYS, point)[tape.outputs[0]]
    return np.moveaxis(np.broadcast_to(found, (*shape, count)), -1, 0).reshape(own + shape)


class CrossEntropy(NamedTuple):
    """The sum of w*log(p) above a softmax p, or one element of log(p), as if w were 1 there and 0 elsewhere.

    What softmax hands to its input is (w - p*sum(w)) × the adjoint of the sum: the chain rule through log and softmax,
    in exact numbers.

    Attributes:
        weights: the node w; None for one element, which the node `taken` takes.
        total: the sum.
    """

    weights: int | None
    taken: int | None
    total: int


def cross_entropy(trace: Trace, i: int) -> CrossEntropy | None:
    """What stands above a softmax or a logsoftmax, if that is a cross-entropy and nothing else."""
    if _name(trace, i) not in ("softmax", "logsoftmax"):
        return None
    above = [i, *_only_users(trace, i)]
    names = [_name(trace, j) for j in above]
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
    if len(others) != 1 or shape_of(trace.values[others[0]]) != shape_of(trace.values[i]):
        return None
    return CrossEntropy(others[0], None, above[1] if names[1] == "dot" else above[2])


def cross_entropy_of_logits(trace: Trace, i: int) -> tuple[int, int] | None:
    """The difference logsumexp(z) - dot(w, z) above a logsumexp i: a cross-entropy of softmax(z), as losses compute it:
    the node w, and that of the difference.

    What its two terms hand to z is (softmax(z) - w) × the adjoint of the difference, all of it once i has had its turn.
    """
    if _name(trace, i) != "logsumexp":
        return None
    (z,) = trace.tape.inputs[i]
    users = [j for j, inputs in enumerate(trace.tape.inputs) for k in inputs if k == z]
    if len(users) != 2 or users[0] != i or _name(trace, users[1]) != "dot":
        return None
    total = next(_only_users(trace, i), i)
    if _name(trace, total) != "sub" or trace.tape.inputs[total] != (i, users[1]):
        return None
    if next(_only_users(trace, users[1]), None) != total:
        return None
    (weights,) = (j for j in trace.tape.inputs[users[1]] if j != z)
    return weights, total


def _only_users(trace: Trace, i: int) -> Iterator[int]:
    """The node that uses another, if that is used once, the node that uses this, and so on."""
    uses = Counter(j for inputs in trace.tape.inputs for j in inputs)
    users = {j: user for user, inputs in enumerate(trace.tape.inputs) for j in inputs}
    while uses[i] == 1:
        i = users[i]
        yield i


def _name(trace: Trace, i: int) -> str:
    op = trace.tape.nodes[i].op
    return "" if op is None else op.name
