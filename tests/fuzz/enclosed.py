"""Bounds over an interval hold whatever value and gradient are inside of it, as proven digits have them."""

from __future__ import annotations

import math
from random import Random

from autodiff_cli import parse
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.precision import enclosure
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.numbers.ball_arithmetic import NEGATIVE_INF, from_float, is_nan
from tests.fuzz.grammar import Case

POINTS = 6
FAR = 1e8  # from here on an interval that a float can have is none


def enclosures(case: Case) -> None:
    """What lies in an interval of the first variable has values and derivatives within the bounds."""
    f = parse(case.text)
    has_arrays = f.shapes or any(node.op is not None and node.op.is_structural for node in f.tape.nodes)
    if not f.variables or has_arrays or not all(map(math.isfinite, case.point.values())):
        return
    chance = Random(case.seed)
    name, *_ = f.variables
    low = case.point[name] if abs(case.point[name]) < FAR else chance.uniform(-5, 5)
    high = low + 10 ** chance.uniform(-6, 1)
    place = {other: from_float(x) for other, x in case.point.items()}
    ends = {other: (x, x) for other, x in place.items()} | {name: (from_float(low), from_float(high))}
    found = enclosure(f, ends, f.variables).bounds
    graphs = [f.output, *gradient_nodes(f.output, [f.leaves[variable] for variable in f.variables])]
    for x in (low, high, *(chance.uniform(low, high) for _ in range(POINTS))):
        exact = evaluate_to_digits(graphs, 17, leaves={**place, name: from_float(x)})
        for label, number, is_proven in zip([VALUE, *f.variables], exact.numbers, exact.is_proven, strict=True):
            least, most = (from_float(end) for end in found[label])
            # Bounds of derivatives hold where there is one.
            is_undefined = label == VALUE and least != NEGATIVE_INF
            is_outside = is_undefined if is_nan(number) else number < least or number > most
            if is_proven and is_outside:
                raise AssertionError(f"{label} is {number} at {name} = {x!r}, not within {found[label]}")
