"""Numbers that rounding has spoilt, and the right ones.

Whether a number can be trusted is asked of floats first: everything is computed again with every result moved by a few
units in the last place. What changes with that, is 0 or tiny although nothing was, or has overflowed is in doubt;
only then balls with proven digits say what is right, for the formula as it is written, at the floats that the values
are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.reverse import Reverse
from autodiff_cli.explain.record import Caveat, Trace, shape_of
from autodiff_cli.formula.formula import Formula
from autodiff_cli.numbers.floats.moved import TINY, WAYS, is_undecided, start_moves
from autodiff_cli.numbers.kind import Kind

DIGITS = 12  # right ones, with which a number is right
SHOWN = 15  # digits of the right number that are given
DOUBT = 5e-13  # of a number: how far it may go when results are moved

_MOST_SAID = 10  # numbers in a sentence

UNKNOWN = "unknown"  # for the right digits, where no number of digits that can be computed shows them
VALUE = "value"  # what the value is called among the numbers of a trace

Numbers = Mapping[str, float]


def checked_right(trace: Trace) -> list[Caveat]:
    """The warnings of a trace of numbers, with the right digits for whatever is spoilt."""
    # Arrays that are declared, and that nothing of the output is made of, have zeros for ever.
    point = {name: x for name, x in trace.point.items() if not shape_of(x)}
    found = {VALUE: trace.value, **{name: slope for name, slope in trace.gradient.items() if name in point}}
    doubtful = [*found] if trace.unheld else in_doubt(found, _computation(trace))
    right: dict[str, str] = {}
    if doubtful:
        right = right_numbers(trace.expression, point, {name: found[name] for name in doubtful}, trace.unheld)
    if any(caveat.kind in ("singular", "domain") for caveat in trace.warnings):
        right = {name: text for name, text in right.items() if text != "nan"}  # of an edge that floats round across
    warnings = trace.warnings
    if VALUE not in right and any(caveat.kind == "precision" for caveat in warnings) and _as_written(trace, point):
        warnings = [caveat for caveat in warnings if caveat.kind != "precision"]
    if not right:
        return warnings  # nothing needs to be called by its label
    return with_right(warnings, right, trace.tape.outputs[0], trace.labels[trace.tape.outputs[0]])


def unheld(value: Formula) -> Any:
    """What a formula without variables is, with all digits, if it is a number beyond the range of floats, as `1e-400`;
    else None."""
    found = value.value()
    if not value.is_scalar or not isinstance(found, float) or TINY <= abs(found) < math.inf:
        return None
    if not in_doubt({VALUE: found}, lambda kind: {VALUE: forward(value.tape, kind, {})[-1]}):
        return None
    from autodiff_cli.autodiff.digits import evaluate
    from autodiff_cli.numbers.balls.number import is_finite, is_zero, nearest

    (exact,) = evaluate([value.output], 3 * SHOWN).known
    if exact is None or not is_finite(exact) or is_zero(exact) or TINY <= abs(nearest(exact)) < math.inf:
        return None
    return None if _is_near(_decimals({VALUE: found})[VALUE], exact) else exact


def of_unheld(trace: Trace) -> Iterator[Caveat]:
    """A warning for every value that no float holds."""
    for name, exact in trace.unheld.items():
        from autodiff_cli.numbers.balls.number import short_text

        i = trace.tape.index.get(trace.expression.leaves[name], trace.tape.outputs[0])
        text, taken = short_text(exact, SHOWN), trace.point[name]
        yield Caveat(i, "precision", f"{name}: what was given is {text}; as a float it is {taken:.15g}")


def with_right(warnings: Sequence[Caveat], right: Mapping[str, str], node: int, label: str) -> list[Caveat]:
    """Warnings, with the right numbers added to the one on precision or on an overflow, or in one of their own."""
    if not right:
        return [*warnings]
    words = in_words(right)
    told = [k for kind in ("precision", "overflow") for k, caveat in enumerate(warnings) if caveat.kind == kind]
    if told:
        k, caveat = told[0], warnings[told[0]]
        said = caveat._replace(message=f"{caveat.message}; with all digits {words}", right={**caveat.right, **right})
        return [*warnings[:k], said, *warnings[k + 1 :]]
    message = f"{label}: rounding, or the range of floats, has spoilt what is printed; with all digits {words}"
    return [*warnings, Caveat(node, "precision", message, right)]


def in_words(right: Mapping[str, str]) -> str:
    """The right numbers as a part of a sentence."""
    words = [f"{_called(name)} is {text}" for name, text in right.items()]
    more = len(words) - _MOST_SAID
    return ", ".join(words if more < 2 else [*words[:_MOST_SAID], f"and {more} more that --json lists"])


def _called(name: str) -> str:
    if name == VALUE:
        return "the value"
    if name in ("derivative", "directional"):
        return f"the {name} derivative" if name == "directional" else "the derivative"
    kind, _, names = name.partition(".")
    row, _, column = names.partition(".")
    if kind == "outputs" and names:
        return f"output {names}"
    if column and kind in ("hessian", "jacobian"):
        return f"d^2/d{row}d{column}" if kind == "hessian" else f"d({row})/d{column}"
    return f"d/d{name}"


def _computation(trace: Trace) -> Callable[[Kind[float]], Numbers]:
    """What computes the value and the gradient of a trace with kinds of floats that have the same rules."""
    tape = trace.tape
    places = {name: tape.index.get(trace.expression.leaves[name]) for name in trace.wrt}
    back: Reverse[float] | None = None

    def compute(kind: Kind[float]) -> Numbers:
        nonlocal back
        back = back or Reverse(tape, kind)
        values = forward(tape, kind, trace.point)
        arrived = back(values, kind.rate("1"))
        slopes = {name: None if i is None else arrived[i] for name, i in places.items()}
        return {VALUE: values[tape.outputs[0]], **{name: 0.0 if x is None else x for name, x in slopes.items()}}

    return compute


def in_doubt(found: Numbers, compute: Callable[[Kind[float]], Numbers]) -> list[str]:
    """The numbers that are not the same, but for their last digits, when results are moved, or are not finite.

    Args:
        compute: gives the same numbers with a kind of float.
    """
    doubtful = dict.fromkeys(name for name, x in found.items() if not math.isfinite(x))
    for way in WAYS:
        moved = compute(start_moves(way))
        if is_undecided():
            return [*found]
        doubtful |= dict.fromkeys(name for name, x in found.items() if not abs(x - moved[name]) <= DOUBT * abs(x))
    return [*doubtful]


def right_numbers(
    expression: Formula, point: Mapping[str, Any], found: Numbers, unheld: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, str]:
    """The right digits of those among the value and the gradient that have fewer than 12.

    A number is right if it is that at the floats that the values are, or at the decimals that these are written as:
    `x - 0.3` at x = 0.3 is 0.

    Args:
        found: what floats give, by the name of the variable, and `VALUE`.
        unheld: as for `corrected`.
    """
    from autodiff_cli.autodiff.digits import evaluate
    from autodiff_cli.graph.gradient import gradient_nodes

    names = [name for name in found if name != VALUE]
    slopes = gradient_nodes(expression.output, [expression.leaves[name] for name in names])
    graphs = {VALUE: expression.output} if VALUE in found else {}
    graphs |= dict(zip(names, slopes, strict=True))

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        chosen = {name: graphs[name] for name in names}
        return dict(zip(chosen, evaluate([*chosen.values()], SHOWN, leaves=leaves).known, strict=True))

    return corrected(found, point, exact, unheld)


def _as_written(trace: Trace, point: Mapping[str, float]) -> bool:
    """Whether the value is also that at the decimals that the values are written as, although digits cancel."""
    from autodiff_cli.autodiff.digits import evaluate

    (exact,) = evaluate([trace.expression.output], SHOWN, leaves={**_decimals(point), **trace.unheld}).known
    return _is_right(trace.value, exact)


def _decimals(point: Mapping[str, float]) -> dict[str, Any]:
    from autodiff_cli.numbers.balls.number import of_float
    from autodiff_cli.numbers.balls.table import read

    return {name: read(repr(x)) if math.isfinite(x) else of_float(x) for name, x in point.items()}


def corrected(
    found: Numbers,
    point: Mapping[str, float],
    exact: Callable[[Mapping[str, Any], Iterable[str]], Mapping[str, Any]],
    unheld: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """The right digits of those numbers that have fewer than 12 of them, be it at the floats that the values are or at
    the decimals that these are written as.

    Args:
        found: the numbers as floats, at `point`.
        exact: gives those of some names with proven digits, at fractions or balls by the names of the variables;
            None for one of which nothing is known.
        unheld: what stands in the place of values that are not those which were given, as no float holds these.
    """
    from autodiff_cli.numbers.balls.number import of_float, short_text

    at_floats = exact({**{name: of_float(x) for name, x in point.items()}, **unheld}, found)
    spoilt = {name: number for name, number in at_floats.items() if not _is_right(found[name], number)}
    if not spoilt:
        return {}
    at_decimals = exact({**_decimals(point), **unheld}, spoilt)
    return {
        name: UNKNOWN if number is None else short_text(number, SHOWN)
        for name, number in spoilt.items()
        if not _is_right(found[name], at_decimals[name])
    }


def _is_right(found: float, exact: Any) -> bool:
    from autodiff_cli.numbers.balls.number import is_finite, nearest, of_float

    if exact is None:
        return False
    if not (is_finite(exact) and math.isfinite(found)):
        # The sign of an infinity is that of a zero, which a ball does not have.
        return not is_finite(exact) and math.isnan(found) == math.isnan(nearest(exact)) and not math.isfinite(found)
    if found == nearest(exact) and abs(found) >= TINY:
        return True
    return _is_near(of_float(found), exact)


def _is_near(x: Any, exact: Any) -> bool:
    from autodiff_cli.numbers.balls.number import is_finite, relative_size

    return is_finite(x) and is_finite(exact) and relative_size(x - exact, exact) <= -DIGITS
