"""`autodiff solve`, `minimize` and `maximize`: all zeros and optima of a formula in a box, with proofs."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from autodiff_cli.cli import inputs
from autodiff_cli.cli.command_line import EXPR, IMPLICIT, Call, command, output_option
from autodiff_cli.cli.environment import BadInput, ExitStatus, Output
from autodiff_cli.expression import parse
from autodiff_cli.language.errors import ExpressionError, MissingValueError, format_names
from autodiff_cli.options import CheckedOptions, at_least, between, exclusive, option
from autodiff_cli.solving import MAX_BOXES

if TYPE_CHECKING:
    from autodiff_cli.solving.solutions import BoxProblem

_MAX_DIGITS = 10_000  # limit of --precision; more digits take minutes
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_OTHER_RANGE = re.compile(rf"{_NUMBER}(?:\s*(?:[,;:]|to|<=?\s*\w+\s*<=?)\s*|\s+){_NUMBER}")  # other than LOW..HIGH
_search = partial(option, group="Search")
_BOXES_HELP = "Stop after N boxes, and list the undecided ones."


@dataclass(frozen=True)
class SearchOptions(CheckedOptions):
    """The options of a search."""

    max_boxes: int = _search("--max-boxes N", _BOXES_HELP, at_least(1), default=MAX_BOXES)
    precision: int | None = _search("--precision DIGITS", "Proven digits of each point.", between(2, _MAX_DIGITS))
    plot: bool = output_option("--plot", "Draw the function, or its contour lines, with the points.")
    implicit: bool = IMPLICIT


@command(*exclusive("plot", ["json"]), options=SearchOptions)
def solve(call: Call, expression: str = EXPR, *, options: SearchOptions) -> Output:
    """Find all zeros of a formula in a box, and prove each.

    A variable with a range LOW..HIGH is an unknown; one with a value is fixed. EXPR is a formula, whose zeros are
    found, or an equation (==). For several unknowns it is a vector of as many formulas or equations.

    The search divides the box into smaller ones and bounds the formula on each. Every zero has bounds that contain no
    other zero. If the search is complete, it is proven that there are no more. Undecided boxes are listed.

    \b
    Examples:
      autodiff solve "x^3 - 2*x - 5" --x 0..3
      autodiff solve "cos(x) == x" --x -10..10 --precision 50
      autodiff solve "[x^2 + y^2 == 1, y == x]" --x -2..2 --y -2..2
      autodiff solve "a*x^2 == 1" --a 3 --x 0..1 --json
    """
    from autodiff_cli.render.solutions import solution_report
    from autodiff_cli.solving import solutions

    problem = _read_problem(call, expression, options)
    return Output(solution_report(solutions.solve(problem), problem if options.plot else None))


@command(*exclusive("plot", ["json"]), options=SearchOptions)
def minimize(call: Call, expression: str = EXPR, *, options: SearchOptions) -> Output:
    """Find the global minimum of a formula in a box and all its stationary points, with proof.

    A variable with a range LOW..HIGH is an unknown; one with a value is fixed. All stationary points are found, and
    classified as minimum, maximum or saddle. The global minimum may also lie on an edge of the box.

    Without any range, the values are the start of a local search, which ends in a proven minimum nearby.

    \b
    Examples:
      autodiff minimize "x^4 - 3*x^2 + x" --x -2..2
      autodiff minimize "(1 - x)^2 + 100*(y - x^2)^2" --x -5..5 --y -5..5
      autodiff minimize "x^2 + a*cos(3*x)" --a 2 --x -4..4 --plot
      autodiff minimize "(1 - x)^2 + 100*(y - x^2)^2" --x -1 --y 2
    """
    return _optimum_output(call, expression, options, is_maximum=False)


@command(*exclusive("plot", ["json"]), options=SearchOptions)
def maximize(call: Call, expression: str = EXPR, *, options: SearchOptions) -> Output:
    """Find the global maximum of a formula in a box and all its stationary points, with proof.

    A variable with a range LOW..HIGH is an unknown; one with a value is fixed. All stationary points are found, and
    classified as minimum, maximum or saddle. The global maximum may also lie on an edge of the box.

    Without any range, the values are the start of a local search, which ends in a proven maximum nearby.

    \b
    Examples:
      autodiff maximize "x*exp(-x)" --x 0..10
      autodiff maximize "x*y*(1 - x - y)" --x 0..1 --y 0..1
      autodiff maximize "x*exp(-x)" --x 0.5
    """
    return _optimum_output(call, expression, options, is_maximum=True)


def _optimum_output(call: Call, expression: str, options: SearchOptions, is_maximum: bool) -> Output:
    from autodiff_cli.render.solutions import optima_report
    from autodiff_cli.solving import solutions

    problem = _read_problem(call, expression, options, with_start=True)
    if options.plot and not problem.ranges:
        raise BadInput("--plot draws the function over a range LOW..HIGH, and there is none")
    optima = solutions.optimize(problem, is_maximum)
    report = optima_report(optima, problem if options.plot else None)
    return Output(report, ExitStatus.DONE if problem.ranges or optima.points else ExitStatus.FAILED)


def _read_problem(call: Call, expression: str, options: SearchOptions, with_start: bool = False) -> BoxProblem:
    """Return the problem that the command line describes.

    Raises:
        BadInput: for a value that is neither a range nor a number, and if there is no unknown.
        MissingValueError: for a variable with neither range nor value.
    """
    from autodiff_cli.solving.solutions import BoxProblem

    values = call.values
    try:
        formula = inputs.read_formula(call, expression, options.implicit)
    except ExpressionError:
        equation = re.sub("(?<![=<>!:~])=(?!=)", "==", expression)
        with contextlib.suppress(ExpressionError):
            if call.command.name == "solve" and equation != expression and {*values} <= {*parse(equation).leaves}:
                raise BadInput(f"an equation is written with `==`: {equation}") from None
        raise
    if missing := [name for name in formula.variables if name not in values]:
        option = partial(inputs.value_option, call, missing[0])
        raise MissingValueError(
            f"no range or value for {format_names(missing, '`')}; add {option('-10..10')} for an unknown, "
            f"or {option('2')} to fix it"
        )
    for name, text in values.items():
        if (ends := _OTHER_RANGE.fullmatch(text.strip("()[]{} "))) or ":" in text:
            example = "..".join(f"{end:g}" for end in sorted(map(float, ends.groups()))) if ends else "-10..10"
            raise BadInput(f"the value of `{name}`: a range is LOW..HIGH, such as {example}, not `{text}`")
    numbers = {name: text for name, text in values.items() if not inputs.split_interval(text)}
    ranges = {name: inputs.read_interval(name, text) for name, text in values.items() if name not in numbers}
    if not formula.variables:
        raise BadInput("the expression has no variables, so there is nothing to solve for")
    if not ranges and not with_start:
        name = formula.variables[0]
        example = inputs.value_option(call, name, "-10..10")
        raise BadInput(f"no variable has a range; to solve for `{name}`, write {example}")
    # The report shows them as floats.
    fixed = {name: inputs.representable_constant(f"`{name}`", text).output for name, text in numbers.items()}
    progress = call.environment.progress_bar().update_search
    return BoxProblem(formula, ranges, fixed, options.precision, options.max_boxes, progress)
