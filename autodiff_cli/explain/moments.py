"""What is said before the first step back and after the last one, as phrases."""

from __future__ import annotations

from autodiff_cli.explain.phrases import Cases, Phrase, Slot
from autodiff_cli.explain.record import Trace, shape_of

# The same as `beginning` in a line.
TURN = "The output's adjoint is 1. A node waits until all its users have handed it their share."


def beginning(trace: Trace) -> Phrase:
    """Why the output's adjoint is 1."""
    label = trace.labels[trace.tape.outputs[0]]
    return (
        f"Why does the way back begin with 1? An adjoint says how fast the output changes with a node. {label} is the "
        "output itself, and changes exactly as fast as it does: its adjoint is ",
        Slot("adjoint at", trace.tape.outputs[0]),
        ". All others follow from it.",
    )


def closing(trace: Trace) -> list[Phrase]:
    """What one pass back has found, and what the first of it says."""
    count, index = len(trace.wrt), trace.tape.index
    whole = "how fast the output changes with its variable" if count == 1 else f"all {count} derivatives at once"
    found: list[Phrase] = [(f"Both passes are done. One way back was enough for {whole}.",)]
    for name in trace.wrt:
        leaf = trace.expression.leaves[name]
        if leaf in index:
            others = "; the others say the same of theirs" if count > 1 else ""
            if shape_of(trace.point[name]):
                each = f"Each number of d/d{name} says how fast the output changes with that number of {name}{others}."
                return [*found, (each,)]
            slope = Slot("adjoint at", index[leaf])
            small = slope._replace(is_loose=True)
            moves = f": move {name} by a little h, and the output moves by about "
            rough = ". At a kink, or where it is not finite, a slope does not say how far the output moves."
            said = Cases("smooth", ((rough,), (moves, small, f" × h{others}.")), index[leaf])
            return [*found, (f"d/d{name} = ", slope, said)]
    return found
