"""What is said before the first step back and after the last one, as phrases."""

from __future__ import annotations

from autodiff_cli.explain.phrases import Phrase, Slot
from autodiff_cli.explain.record import Trace, shape_of

_MOST = 4  # variables that the end speaks of


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
    """What one pass back has found: a sentence, then one for each of the first variables that there are."""
    count, index = len(trace.wrt), trace.tape.index
    whole = "how fast the output changes with its variable" if count == 1 else f"all {count} derivatives at once"
    found: list[Phrase] = [(f"Both passes are done. One way back was enough for {whole}.",)]
    for name in trace.wrt[:_MOST]:
        leaf = trace.expression.leaves[name]
        if leaf not in index:
            found.append((f"d/d{name} = 0: the output does not depend on {name}.",))
        elif shape_of(trace.point[name]):
            found.append((f"d/d{name} has one number for each of {name}: how fast the output changes with that one.",))
        else:
            slope = Slot("adjoint at", index[leaf])
            small = slope._replace(is_loose=True)
            line = (
                f"d/d{name} = ",
                slope,
                f": move {name} by a little h, and the output moves by about ",
                small,
                " × h.",
            )
            found.append(line)
    if count > _MOST:
        found.append((f"The other {count - _MOST} stand beside the values.",))
    return found
