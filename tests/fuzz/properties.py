"""What holds for every formula at every point. A property raises `Broken` where it does not.

Ways to compute the same number are compared up to what rounding explains: how far the number moves when the point is
moved by some units in the last place. Where numbers leave the range of floats on the way, ways differ by right.
"""

from __future__ import annotations

import contextlib
import math
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from random import Random
from types import FrameType
from typing import Any

import numpy as np
from mpmath import mpf

from autodiff_cli import ExpressionError, Objective, parse
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.autodiff.unrolling import unroll_at
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.selection import BACKEND_FACTORIES, make_backend
from autodiff_cli.explain.accuracy import UNKNOWN, exact_computation
from autodiff_cli.explain.array_accuracy import second_derivative_computation
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.warnings import check_higher_derivatives
from autodiff_cli.export.languages import export
from autodiff_cli.expression import Expression
from autodiff_cli.formula.derivatives import HigherDerivatives, hessian_by_name
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import from_float, is_finite, nearest_float
from autodiff_cli.numbers.balls import parse_constant as read_decimal
from autodiff_cli.numbers.floats import FACTORS, PERTURBED_RUNS, start_perturbed_run
from tests.fuzz import page
from tests.fuzz.enclosed import enclosures
from tests.fuzz.grammar import Case
from tests.fuzz.references import confirmed, is_near
from tests.fuzz.references import references as mpmath_values
from tests.language.compare import identical
from tests.support import run_cli

SECONDS = 20  # no command may take longer
ROUNDING = 1e-9  # of a number, that ways to compute it may differ by
RIGHT = 1e-11  # the error of 12 digits, and a little
MODERATE = (1e-100, 1e100)  # the sizes at which no way overflows
MOST_ROWS = 12  # of a matrix of second derivatives
MOVES = 6  # to see how far a number moves
ULPS = 4.0
SMALL_GRAPH = 4  # nodes; in larger graphs ways to compute overflow at different points
SAMPLES = 61  # of a range that is searched
MAX_BOXES = 50  # of a search


class Broken(AssertionError):  # noqa: N818 - what the property is
    """A property does not hold; the message says how."""


@contextlib.contextmanager
def in_time(seconds: int = SECONDS) -> Iterator[None]:
    """Raise Broken after so many seconds of the processor: a busy machine is no finding."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise Broken(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# --- comparing

Numbers = Mapping[str, Any]  # by what they are called


def size_of(at: Trace) -> float | None:
    """The size of the largest amount that is added up, as if nothing cancelled; None where ways to compute differ by
    right: where numbers are not of sizes that can be multiplied in any order, or where a warning says that digits are
    lost."""
    if any(caveat.kind == "precision" for caveat in at.warnings) or _depends_on_rounding(at):
        return None
    numbers = [*at.values, *(x for x in at.adjoints_or_none if x is not None)]
    numbers += [given.local for several in at.contributions for given in several if given.local is not None]
    sizes = np.abs(np.concatenate([np.ravel(x) for x in numbers]))
    if not (np.isfinite(sizes) & ((sizes == 0) | ((sizes > MODERATE[0]) & (sizes < MODERATE[1])))).all():
        return None
    reached = [0.0] * len(at.values)  # adjoints of which nothing cancels; a sum of rounding errors is as large as these
    reached[at.tape.outputs[0]] = 1.0
    for i in reversed(range(len(reached))):
        # An operation on whole arrays adds up products of its adjoints and inputs.
        whole = [np.size(at.values[i]), *(at.values[k] for k in at.tape.inputs[i])]
        for given in at.contributions[i]:
            factors = whole if given.local is None else [given.local]
            reached[given.to] += reached[i] * max(float(np.max(np.abs(x), initial=0.0)) for x in factors)
    size = float(np.max([np.max(np.abs(at.value)), *reached]))
    return size if math.isfinite(size) else None


# Operations that IEEE 754 rounds correctly, so that all ways to compute them agree.
ROUNDED = """
    add sub mul div neg sqrt abs sign floor ceil round heaviside where max min clip relu eq ne lt le gt ge and or not
"""


def _depends_on_rounding(at: Trace) -> bool:
    """Whether a jump or a branch is within the rounding errors of functions, whose last digits may differ."""
    ops = {node.op.name for node in at.tape.nodes if node.op is not None}
    if not at.is_scalar or ops <= {*ROUNDED.split()}:
        return False
    for perturbation in PERTURBED_RUNS:
        forward(at.tape, start_perturbed_run(perturbation), at.point)
    return FACTORS.has_undecided()


def gradient(f: Expression, point: Mapping[str, Any]) -> Numbers:
    """The value and the gradient."""
    value, slopes = f.value_and_grad(point)
    return {"value": value, **slopes}


Way = Callable[[Mapping[str, Any]], Numbers]  # what computes numbers at a point


def compare(one: Way, other: Way, point: Mapping[str, Any], terms: float = 0.0) -> None:
    """Raise Broken where two ways differ by more than rounding explains: by far more than each moves with its point.

    Args:
        terms: the size of what is added up on the way, of which some units in the last place may be left.
    """
    with np.errstate(all="ignore"):
        found, wanted = one(point), other(point)
        wrong = [name for name, ours in found.items() if not _near(ours, wanted[name], terms)]
        around = [_moved(point, Random(k)) for k in range(MOVES)] if wrong else []
        noises = [[way(near) for near in around] for way in (one, other)]
        for name in wrong:
            both = [np.asarray(x, dtype=float) for x in (found[name], wanted[name])]
            noise = sum(abs(np.asarray(near[name]) - at) for at, way in zip(both, noises, strict=True) for near in way)
            if not np.all(abs(both[0] - both[1]) <= 100 * noise):  # also where one of them is nan
                raise Broken(f"{name} is {_shown(both[0])}, not {_shown(both[1])}")


def _near(ours: Any, theirs: Any, terms: float) -> bool:
    size = max(float(np.max(np.abs(theirs), initial=0.0)), terms)
    return bool(np.all(np.isclose(ours, theirs, rtol=ROUNDING, atol=1e-14 * size + 1e-300, equal_nan=True)))


def _moved(point: Mapping[str, Any], chance: Random) -> dict[str, Any]:
    """The point, each number moved by up to some units in its last place."""
    return {
        name: np.asarray(value) + ULPS * chance.uniform(-1, 1) * np.spacing(np.abs(np.asarray(value, float)))
        for name, value in point.items()
    }


def _shown(number: Any) -> str:
    return str(np.asarray(number).tolist())


# --- properties


def words(case: Case) -> list[str]:
    """The expression and its values, as they are typed."""
    return [case.text, *(f"--set={name}={_shown(value)}" for name, value in case.point.items())]


COMMANDS = (
    "grad", "grad --json", "grad --precision 20", "grad --hessian --json", "grad --mode forward", "grad --symbolic",
    "check", "trace", "trace --json", "trace --paths", "trace --mode forward", "trace --tape", "trace --format svg",
    "trace --format dot --fold", "trace --format mermaid", "trace --format html",
)  # fmt: skip


def errors(case: Case) -> None:
    """Commands end in an answer or in an error in words, soon, and what they call JSON is JSON."""
    chance = Random(case.seed)
    for line in chance.sample(COMMANDS, 4):
        _command(line, case)
    if case.point:
        _command(f"grad --wrt {chance.choice([*case.point])} --order {chance.randint(2, 6)} --json", case)


def _command(line: str, case: Case) -> None:
    command, *options = line.split()
    with in_time():
        output = run_cli([command, *words(case), *options])
    if (
        output.status not in (0, 1, 2)
        or "Traceback" in output.stderr
        or (output.status == 2) != ("error: " in output.stderr)
    ):
        raise Broken(f"{line}: status {output.status}, {output.stderr}")
    if output.status == 2 and output:
        raise Broken(f"{line}: bad input, and something on standard output")
    if "--json" in line and output.status != 2:
        assert isinstance(output.json, dict)


def modes(case: Case) -> None:
    """Forward mode, reverse mode, and the gradient as a graph agree."""
    f = parse(case.text)
    at = trace(f, case.point)
    terms = size_of(at)
    if terms is None:
        return

    def by_loops(point: Mapping[str, Any]) -> Numbers:
        found = trace(f, point)
        return {"value": found.value, **found.gradient}

    def backward(point: Mapping[str, Any]) -> Numbers:
        return {name: np.sum(slope) for name, slope in f.grad(point).items()}

    def ahead(point: Mapping[str, Any]) -> Numbers:
        return {name: f.jvp({name: np.ones(np.shape(x))}, point)[1] for name, x in case.point.items()}

    compare(by_loops, partial(gradient, f), case.point, terms)
    compare(ahead, backward, case.point, terms)


def printed(case: Case) -> None:
    """What is printed is read as the same graph."""
    f = parse(case.text)
    text = to_text(f.output, f.names, shapes=f.shapes)
    if not identical(read(text).output, f.output):
        raise Broken(f"printed as {text}")


def derivatives(case: Case) -> None:
    """The text of a derivative has the value of the derivative."""
    f = parse(case.text)
    at = trace(f, case.point)
    terms = size_of(at)
    if terms is None or _has_no_textbook_formula(at):
        return
    for name in case.point:
        text = str(f.derivative(name))
        read_back = parse(text)

        def by_text(point: Mapping[str, Any], name: str = name, slope: Expression = read_back) -> Numbers:
            found = slope({other: point[other] for other in slope.variables})
            return {name: np.broadcast_to(found, np.shape(point[name]))}

        try:
            compare(by_text, partial(gradient, f), case.point, terms)
        except Broken as broken:
            said = trace(read_back, {other: case.point[other] for other in read_back.variables}).warnings
            right = [warning.right["value"] for warning in said if "value" in warning.right]  # only of a number
            if not any(is_near(number, mpf(float(at.gradient[name]))) for number in right):
                raise Broken(f"{broken}, by the text {text}") from None


def _has_no_textbook_formula(at: Trace) -> bool:
    """Whether a power or beta is where its slope, as printed, has no value (docs/derivatives.md)."""
    for node, inputs in zip(at.tape.nodes, at.tape.inputs, strict=True):
        if node.op is not None and node.op.name in ("beta", "pow"):
            a, b = (np.asarray(at.values[i], dtype=float) for i in inputs)
            total = a + b
            is_at_pole = (total <= 0) & (total == np.floor(total)) if node.op.name == "beta" else (a == 0) & (b == 0)
            if np.any(is_at_pole):
                return True
    return False


def digits(case: Case) -> None:
    """A number has 12 right digits, or a warning; what a warning calls right is so."""
    f = parse(case.text)
    at = trace(f, case.point)
    if _has_negative_zero(at):
        return
    names = [*case.point]
    slopes = gradient_nodes(f.output, [f.leaves[name] for name in names], f.value_shapes(at.point))
    graphs, elements, place = unroll_at([f.output, *slopes], at.point, f.leaves)
    leaves = {name: from_float(x) for name, x in place.items()}
    decimals = {name: read_decimal(repr(x)) if math.isfinite(x) else leaves[name] for name, x in place.items()}
    wanted = [graph for array in graphs for graph in np.ravel(array)]
    with in_time():
        exact = evaluate_to_digits(wanted, 15, leaves=leaves)
        written = evaluate_to_digits(wanted, 15, leaves=decimals)
    warned = {name for caveat in at.warnings for name in caveat.right}
    is_edge = any(caveat.kind in ("singular", "domain", "overflow", "kink") for caveat in at.warnings)
    if any(caveat.kind == "precision" and "are not computed" in caveat.message for caveat in at.warnings):
        return  # all is said
    called = ["value", *(leaf.text for name in names for leaf in np.ravel(elements[name]))]
    found = [at.value, *(float(x) for name in names for x in np.ravel(at.gradient[name]))]
    for k, (name, ours) in enumerate(zip(called, found, strict=True)):
        if not exact.is_proven[k] or name in warned or not is_finite(exact.numbers[k]):
            continue
        theirs = nearest_float(exact.numbers[k])
        both = theirs, nearest_float(written.numbers[k])  # at the floats, or at the decimals that these are written as
        if math.isfinite(ours) and any(abs(ours - right) <= RIGHT * abs(right) for right in both):
            continue
        if is_edge and not math.isfinite(ours):
            continue  # said in words
        raise Broken(f"{name} is {ours!r}, right is {theirs!r}")


def _has_negative_zero(at: Trace) -> bool:
    """Whether a value is -0, which exact arithmetic does not have: it decides the side of a cut (`atan2(-0, -1)`)."""
    return any(np.any((value == 0) & np.signbit(value)) for value in map(np.asarray, at.values))


def references(case: Case) -> None:
    """A number is what mpmath has, to 12 digits, or a warning has what mpmath has: as numbers, and in an array."""
    f = parse(case.text)
    if not f.is_scalar or not all(map(math.isfinite, case.point.values())):
        return
    names = [*case.point]
    graphs = [f.output, *gradient_nodes(f.output, list(f.leaves.values()))]
    exact = dict(zip(["value", *f.variables], mpmath_values(graphs, case.point), strict=True))
    in_array = parse(f"in_array: {len(names)}; " + _with_elements(case.text, names)) if names else f
    labels = {f"in_array[{k}]": name for k, name in enumerate(names)}
    for at in (trace(f, case.point), trace(in_array, {"in_array": list(case.point.values())} if names else {})):
        if math.isnan(at.value) or _has_negative_zero(at):
            continue  # the derivatives of an undefined value are conventions
        numbers = {"value": at.value, **at.gradient}
        if "in_array" in numbers:
            numbers |= dict(zip(labels, numbers.pop("in_array"), strict=True))
        warned = {labels.get(name, name): text for warning in at.warnings for name, text in warning.right.items()}
        is_edge = any(warning.kind in ("singular", "domain", "overflow", "kink") for warning in at.warnings)
        for label, number in numbers.items():
            name = labels.get(label, label)
            is_said = warned.get(name) in (UNKNOWN, "nan", "inf", "-inf") or (is_edge and not math.isfinite(number))
            text = warned.get(name, float(number))
            if exact[name] is None or is_said or is_near(text, exact[name]):
                continue
            sure = confirmed(graphs, case.point)
            wanted = [dict(zip(exact, values, strict=True))[name] for values in sure]
            if all(x is not None and not is_near(text, x) for x in wanted[: 1 if name in warned else 2]):
                raise Broken(f"{label} is {number!r}, {warned.get(name)} in a warning, right is {wanted[0]}")


def _with_elements(text: str, names: list[str]) -> str:
    """The text with elements of an array in place of its variables."""
    return re.sub(
        r"[^\W\d]\w*", lambda word: f"in_array[{names.index(word[0])}]" if word[0] in names else word[0], text
    )


def curvatures(case: Case) -> None:
    """A second derivative has 12 right digits, or a warning."""
    if not all(np.isfinite(x).all() for x in case.point.values()):
        return
    f = parse(case.text)
    at = trace(f, case.point)
    if any(caveat.kind != "precision" for caveat in at.warnings) or sum(map(np.size, case.point.values())) > MOST_ROWS:
        return
    found = HigherDerivatives(hessian=hessian_by_name(f, case.point, f.variables))
    right = check_higher_derivatives(f, at.point, found).correct
    slopes = gradient_nodes(f.output, [*f.leaves.values()], f.value_shapes(at.point))
    graphs, elements, place = unroll_at(slopes, at.point, f.leaves)
    leaves = [leaf.text for name in f.variables for leaf in np.ravel(elements[name])]
    graph_of = dict(zip(leaves, (graph for array in graphs for graph in np.ravel(array)), strict=True))
    operations = len(Tape([*graph_of.values()])) * len(leaves)
    compute = exact_computation(second_derivative_computation(graph_of, leaves), operations)
    ours = {
        f"hessian.{row}.{column}": x
        for row, xs in zip(leaves, _matrix(found.hessian or {}, f.variables), strict=True)
        for column, x in zip(leaves, xs, strict=True)
    }
    with in_time():
        exact = compute({name: from_float(x) for name, x in place.items()}, ours)
        written = compute({name: read_decimal(repr(x)) for name, x in place.items()}, ours)
    for name, x in ours.items():
        if None in (exact[name], written[name]):
            continue  # no affordable precision determines it
        if name in right or not (is_finite(exact[name]) and math.isfinite(x)):
            continue
        if not any(abs(x - nearest_float(e[name])) <= RIGHT * abs(nearest_float(e[name])) for e in (exact, written)):
            raise Broken(f"{name} is {x!r}, right is {nearest_float(exact[name])!r}")


def _matrix(found: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    rows = []
    for row in names:
        parts = [np.asarray(found[row][column]) for column in names]
        count = int(np.sqrt(np.size(found[row][row])))
        rows.append(np.concatenate([part.reshape(count, -1) for part in parts], axis=1))
    return np.concatenate(rows).tolist() if rows else []


def outputs(case: Case) -> None:
    """One of several outputs has the digits and the kinds of warnings that the formula has alone."""
    values = words(case)[1:]
    *bindings, last = [part for part in case.text.replace("\n", ";").split(";") if part.strip()]
    text = ";".join([*bindings, f"first = {last}", "[first, 1]"])
    f = parse(case.text)
    if not case.point or f.output.op is None or _has_negative_zero(trace(f, case.point)):
        return
    alone = run_cli(["grad", case.text, *values, "--json"])
    among = run_cli(["grad", text, *values, "--jacobian", "--json"])
    if (alone.status, among.status) != (0, 0):
        raise Broken(f"status {alone.status} alone, {among.status} among outputs: {among.stderr}")
    kinds = [{warning["kind"] for warning in found.json["warnings"]} - {"precision"} for found in (alone, among)]
    if kinds[0] != kinds[1]:
        raise Broken(f"warnings of {kinds[0]} alone, of {kinds[1]} among outputs")
    rights = [
        {name: text for warning in found.json["warnings"] for name, text in warning.get("right", {}).items()}
        for found in (alone, among)
    ]
    slopes = {f"jacobian.first.{name}": slope for name, slope in among.json["jacobian"]["first"].items()}
    numbers = {"outputs.first": among.json["outputs"]["first"], **slopes}
    for (name, number), (label, other) in zip(_printed(alone.json), numbers.items(), strict=True):
        shown = [rights[0].get(name, number), rights[1].get(label, other)]
        if np.ndim(number) or UNKNOWN in shown or shown[0] == shown[1]:
            continue
        if None in shown or not is_near(shown[0], mpf(shown[1])):
            raise Broken(f"{name} is {shown[0]} alone, {shown[1]} among outputs")


def _printed(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [("value", document["value"]), *document["gradient"].items()]


def pages(case: Case) -> None:
    """The page computes what the record of both passes has."""
    f = parse(case.text)
    at = trace(f, case.point)
    terms = size_of(at)
    if terms is None:
        return

    def by_page(point: Mapping[str, Any]) -> Numbers:
        value, slopes = page.computed(at, point)
        return {"value": value, **slopes}

    compare(by_page, partial(gradient, f), case.point, terms)


def kernels(case: Case) -> None:
    """Every backend computes, row by row, what a point alone has; sums over rows are the sums of these."""
    f = parse(case.text)
    scalars = [name for name, x in case.point.items() if not np.ndim(x)]
    terms = size_of(trace(f, case.point))
    if not scalars or terms is None:
        return
    column = scalars[0]
    sizes = {name: np.shape(x) for name, x in case.point.items() if np.ndim(x)}
    slopes = gradient_nodes(f.output, [f.leaves[name] for name in scalars], sizes)
    graphs = RowGraphs([f.output, *slopes], {column}, sizes)
    for name in BACKEND_FACTORIES:
        kernel = make_backend(name, 1).row_kernel(graphs)

        def by_rows(point: Mapping[str, Any], kernel: RowKernel = kernel) -> Numbers:
            found = np.empty((graphs.value_count, 1))
            kernel.write(kernel.prepare(point), {column: np.array([point[column]])}, found)
            return dict(zip(["value", *scalars], found[:, 0], strict=True))

        compare(by_rows, partial(gradient, f), case.point, terms)
        rows = case.point[column] * np.array([1.0, 1.0 + 1e-9, 1.0, 1.0 - 1e-9, 1.0])
        each = np.empty((graphs.value_count, len(rows)))
        kernel.write(kernel.prepare(case.point), {column: rows}, each)
        sums = make_backend(name, 1).sum_kernel(graphs).sums(case.point, {column: rows}, len(rows))
        size = float(np.max(np.sum(np.abs(each), axis=1, where=np.isfinite(each))))
        wanted = np.sum(each, axis=1)
        if not np.allclose(sums, wanted, rtol=0, atol=1e-10 * size, equal_nan=True):
            raise Broken(f"{name}: sums {sums.tolist()}, not {wanted.tolist()}")


def edges(case: Case) -> None:
    """At poles, jumps, ends of domains and infinities, columns have what a point alone has, with every backend.

    Graphs of operations that IEEE 754 rounds correctly do so of any size, also where digits are lost, up to roundings
    of their terms: kernels may round a product and a sum once, except before a jump. A finite number that a warning
    corrects may have other wrong digits, since terms may also cancel inside the rule of an operation (`sinc`).
    """
    f = parse(case.text)
    ops = {node.op.name for node in f.tape.nodes if node.op is not None}
    is_small = len(f.tape.nodes) <= SMALL_GRAPH
    if not (is_small or ops <= {*ROUNDED.split()}) or not f.is_scalar or not f.variables:
        return
    at = trace(f, case.point)
    corrections = [item for warning in at.warnings for item in warning.right.items()]
    doubted = {name: math.nan if right == UNKNOWN else float(right) for name, right in corrections}
    amounts = [at.value, *(given.amount for several in at.contributions for given in several), *at.values]
    finite = [abs(x) for x in amounts if math.isfinite(x)]
    receivers = Counter(given.to for several in at.contributions for given in several)
    sums_up = max(receivers.values(), default=0) > 1  # contributions may cancel, as those of x/x
    rounding = max(1e-300, 8 * math.ulp(max(finite, default=0.0))) if sums_up or not is_small else 1e-300
    graphs = RowGraphs([f.output, *gradient_nodes(f.output, [*f.leaves.values()])], {*f.variables}, {})
    rows = {name: np.array([x, x, x]) for name, x in case.point.items()}
    wanted = gradient(f, case.point)
    for name in BACKEND_FACTORIES:
        kernel = make_backend(name, 1).row_kernel(graphs)
        found = np.empty((graphs.value_count, 3))
        with np.errstate(all="ignore"):
            kernel.write(kernel.prepare({}), rows, found)
        for label, ours in zip(["value", *f.variables], found, strict=True):
            theirs = float(wanted[label])
            if label in doubted and (
                np.isfinite(theirs) == np.isfinite(ours).all() or np.allclose(ours, doubted[label], rtol=ROUNDING)
            ):
                continue
            if not np.allclose(ours, theirs, rtol=ROUNDING, atol=rounding, equal_nan=True):
                raise Broken(f"{name}: {label} is {ours.tolist()}, not {theirs!r}")


def exports(case: Case) -> None:
    """The exported function has the value and the gradient; a small one also what is nan or infinite in them."""
    f = parse(case.text)
    at = trace(f, case.point)
    terms = size_of(at)
    is_finite = all(np.isfinite(x).all() for x in case.point.values())
    if terms is None and (is_finite or len(f.tape.nodes) > SMALL_GRAPH):
        return
    scope: dict[str, Any] = {}
    exec(export(f, "python"), scope)

    def by_program(point: Mapping[str, Any]) -> Numbers:
        value, slopes = scope["f"](*(np.asarray(point[name]).tolist() for name in f.variables))
        return {name: np.asarray(number, dtype=float) for name, number in {"value": value, **slopes}.items()}

    if terms is not None:
        compare(by_program, partial(gradient, f), case.point, terms)
        return
    with np.errstate(all="ignore"):
        found, wanted = by_program(case.point), gradient(f, case.point)
    for name, number in wanted.items():
        if not np.array_equal(np.isnan(found[name]), np.isnan(number)):
            raise Broken(f"{name} is {_shown(found[name])}, not {_shown(number)}")


def objectives(case: Case) -> None:
    """A model's loss and its gradient are those of its residuals, row by row, with every backend."""
    f = parse(case.text)
    terms = size_of(trace(f, case.point))
    if f.shapes or len(case.point) < 2 or terms is None or not all(map(math.isfinite, case.point.values())):
        return  # data are finite
    column = next(iter(case.point))
    rows = case.point[column] * np.array([1.0, 1.0 + 1e-9, 1.0, 1.0 - 1e-9])
    if any(size_of(trace(f, {**case.point, column: float(x)})) is None for x in rows):
        return  # an infinite slope times a residual of 0 is nan, or 0 where a choice does not reach it
    targets = np.array([0.5, -1.0, 2.0, 0.0])
    *bindings, last = [part for part in case.text.replace("\n", ";").split(";") if part.strip()]
    model = ";".join([*bindings, f"target ~ {last}"])

    def by_hand(point: Mapping[str, Any]) -> Numbers:
        found = [f.value_and_grad({**point, column: float(x)}) for x in rows]
        residuals = [value - target for (value, _), target in zip(found, targets, strict=True)]
        slopes = {
            name: np.mean([2 * residual * at[name] for residual, (_, at) in zip(residuals, found, strict=True)])
            for name in point
            if name != column
        }
        return {"loss": np.mean(np.square(residuals)), **slopes}

    terms *= float(np.max(np.abs(targets))) + terms

    for name in BACKEND_FACTORIES:
        chosen: dict[str, Any] = {"backend": name} if len(BACKEND_FACTORIES) > 1 else {}
        objective = Objective(model, {column: rows, "target": targets}, **chosen)

        def by_objective(point: Mapping[str, Any], objective: Objective = objective) -> Numbers:
            values = {"e": math.e, "tau": math.tau, **point}  # constants elsewhere, parameters in models
            loss, slopes = objective.value_and_grad(np.array([values[name] for name in objective.parameters]))
            gradient = dict(zip(objective.parameters, slopes, strict=True))
            return {"loss": loss, **{name: slope for name, slope in gradient.items() if name in point}}

        compare(by_objective, by_hand, case.point, terms)


def searches(case: Case) -> None:
    """A search in a range loses neither a zero nor a minimum, and no sample is below its global minimum."""
    f = parse(case.text)
    chosen = next((name for name, x in case.point.items() if not np.ndim(x) and 1e-3 < abs(x) < 1e3), None)
    if chosen is None or f.shapes or not all(map(math.isfinite, case.point.values())):
        return
    point = {name: x + 0.0 for name, x in case.point.items()}  # in a search, -0 is the number 0
    middle, chance = point[chosen], Random(case.seed)
    low, high = middle - chance.choice([1e-3, 0.7, 3.1]), middle + chance.choice([1e-3, 0.6, 2.9])
    box = {**point, chosen: (low, high)}

    def value_at(x: float) -> float:
        return float(f({**point, chosen: x}))

    def size_at(x: float) -> float | None:
        return size_of(trace(f, {**point, chosen: x}))

    samples = np.linspace(low, high, SAMPLES).tolist()
    values = [value_at(x) for x in samples]
    zeros, optima = f.solve(box, max_boxes=MAX_BOXES), f.minimize(box, max_boxes=MAX_BOXES)
    for a, b in (root.enclosure[chosen] for root in zeros.roots if root.unique):
        # Both ends are rounded outward, by at most a unit in the last place.
        nearby = math.nextafter(a, b)
        if b - a > RIGHT * min(abs(a), abs(b)) and math.nextafter(nearby, b) < b and not a <= 0 <= b:
            raise Broken(f"a proven zero is only known to be between {a!r} and {b!r}")
    pairs = pairwise(zip(samples, values, strict=True))
    crossings = [_crossing(value_at, a, b) for (a, left), (b, right) in pairs if left * right < 0]
    dips = [
        _dip(value_at, samples[k - 1], samples[k + 1])
        for k in range(1, SAMPLES - 1)
        if values[k] < min(values[k - 1], values[k + 1])
    ]
    width = high - low
    for found, points, places, margin in (
        (zeros, zeros.roots, crossings, 1e-7 * width),
        (optima, optima.points, dips, width / SAMPLES),
    ):
        known = [point.enclosure[chosen] for point in points] + [part[chosen] for part in found.unresolved]
        for x in places:
            if x is not None and size_at(x) and not any(a - margin < x < b + margin for a, b in known):
                raise Broken(f"{chosen} = {x!r} is not among {known}")
    lowest, x = min((math.inf if math.isnan(value) else value, x) for x, value in zip(samples, values, strict=True))
    size = None if _has_negative_zero(trace(f, {**point, chosen: x})) else size_at(x)
    if optima.global_ and size is not None and lowest < optima.global_.value_enclosure[0] - ROUNDING * size:
        raise Broken(f"{lowest!r} at {chosen} = {x!r} is below the global minimum {optima.global_.value_enclosure}")


def _dip(value_at: Callable[[float], float], a: float, b: float) -> float | None:
    """Where a function has a minimum between two numbers; None if it jumps or is flat there."""
    ends = value_at(a), value_at(b)
    for _ in range(60):
        left, right = a + (b - a) / 3, b - (b - a) / 3
        a, b = (a, right) if value_at(left) < value_at(right) else (left, b)
    lowest, *around = (value_at(x) for x in ((a + b) / 2, a - 1e-9 * abs(a), b + 1e-9 * abs(b)))
    depth, size = min(ends) - lowest, max(map(abs, ends))
    is_lower_beyond = lowest - min(around) > 1e-12 * size  # beside a single point that is higher
    return a if depth > 1e-6 * size and max(around) - lowest < 1e-3 * depth and not is_lower_beyond else None


def _crossing(value_at: Callable[[float], float], a: float, b: float) -> float | None:
    """Where a function passes through 0 between two numbers; None if it jumps there or is not defined."""
    left, right = value_at(a), value_at(b)
    largest = max(abs(left), abs(right))
    while a < (middle := (a + b) / 2) < b:
        value = value_at(middle)
        if not math.isfinite(value):
            return None
        if (value < 0) == (left < 0):
            a, left = middle, value
        else:
            b, right = middle, value
    return a if max(abs(left), abs(right)) < 1e-6 * largest else None


_ALL = (
    errors,
    modes,
    printed,
    derivatives,
    digits,
    references,
    curvatures,
    outputs,
    enclosures,
    pages,
    kernels,
    edges,
    exports,
    objectives,
    searches,
)
PROPERTIES: dict[str, Callable[[Case], None]] = {found.__name__: found for found in _ALL}


def broken(name: str, case: Case) -> str | None:
    """How a property is broken by a case: what it says, or what escaped. None if it holds, or the case is refused."""
    try:
        PROPERTIES[name](case)
    except ExpressionError as error:
        return None if _is_refusal(error) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _is_refusal(error: ExpressionError) -> bool:
    """Whether it says that something cannot be had, in words, and not that our own text cannot be read."""
    return bool(str(error))
