"""Reading of command arguments: expressions, values of variables, and lists of names.

A value is any constant expression. `grad` also accepts intervals (`1.9..2.1`), ranges (`0:10:101`) and values with a
standard error (`2+-0.1`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodiff_cli import ops
from autodiff_cli.cli.command_line import HELP, Call, commands_with_option, explain_option, merge_assignments
from autodiff_cli.cli.environment import DATA_SUFFIXES, BadInput, Environment
from autodiff_cli.expression import parse
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node
from autodiff_cli.language import errors as messages
from autodiff_cli.language.lexer import canonical_name, is_name, quote_name
from autodiff_cli.language.parser import MAX_TEXT_LENGTH
from autodiff_cli.language.program import read
from autodiff_cli.system import error_reason

if TYPE_CHECKING:
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.numbers.ball_arithmetic import Number

_END_DIGITS = 30  # digits of an end of an interval that is not a decimal number
_MAX_PRODUCTS = 1000  # products that `--implicit` inserts; each is found by reading the text again
_PLUS_MINUS = re.compile(r"±|\+/?-")
# The standard error in brackets, such as 2.0(1), 2.0(1)e-3 or 2.0(0.1).
_LAST_DIGITS = re.compile(r"\s*([+-]?(?:\d+\.?(\d*)|\.(\d+)))\s*\((\d+|\d*\.\d+)\)(?:[eE]([+-]?\d+))?\s*")
MODEL_SUFFIX = ".json"  # the suffix of files with fitted models; no formula ends like this
_COMMA = re.compile(r",(?![^\[\]]*\])(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # outside brackets and backticks


def read_text(argument: str, environment: Environment, implicit: bool = False) -> str:
    """Return the text of an expression: the argument itself, standard input for `-`, or a file for `@file`.

    Reading stops where the text is known to be too long.

    Args:
        argument: the argument of the command.
        environment: the streams.
        implicit: whether to insert `*` between factors; see `insert_products`.

    Raises:
        BadInput: for a file that cannot be read.
    """
    text = argument
    if argument == "-":
        text = _read_utf8("standard input", lambda: environment.stdin.read(MAX_TEXT_LENGTH + 1))
    elif argument == "@":
        raise BadInput("@ needs the name of a file, such as @formula.txt")
    elif argument.startswith("@") and not argument.startswith("@("):
        text = _read_utf8(f"the file `{argument[1:]}`", lambda: _read_file(argument[1:]))
    elif "." in argument and os.path.isfile(argument):
        is_text = argument.lower().endswith(".txt") or not argument.lower().endswith((*DATA_SUFFIXES, MODEL_SUFFIX))
        raise BadInput(f"`{argument}` is a file, not an expression" + f"; to read it, write `@{argument}`" * is_text)
    return insert_products(text) if implicit else text


def insert_products(text: str) -> str:
    """Return an expression with `*` between factors that stand side by side.

    A text with another error, or with very many products, is returned as it is from there on.

    >>> [insert_products(text) for text in ("2x", "3(x + 1)y", "x(y + 1)", "2 sin(x) x^2", "xy")]
    ['2*x', '3*(x + 1)*y', 'x*(y + 1)', '2*sin(x)*x^2', 'xy']
    """
    for _ in range(_MAX_PRODUCTS):
        try:
            read(text)
            break
        except messages.ExpressionError as error:
            if error.start is None or "multiplication is written `*`" not in error.message:
                break
            at = text.index("(", error.start) if "not a function" in error.message else error.start
            text = f"{text[:at].rstrip()}*{text[at:]}"
    return text


def _read_file(path: str) -> str:
    with Path(path).open(encoding="utf-8") as stream:
        return stream.read(MAX_TEXT_LENGTH + 1)


@functools.lru_cache(maxsize=4096)  # each value is parsed once, although it is needed both as a float and exactly
def constant_expression(name: str, text: str) -> Formula:
    """Parse the value of an option as a formula without variables.

    Raises:
        BadInput: for a text that is not a constant expression.
    """
    if _PLUS_MINUS.search(text) or _LAST_DIGITS.fullmatch(text):
        hint = "; a sum is written 2+(-0.1), a product 2*(1)"
        raise BadInput(f"the value of {name} cannot have an error here (`{text}`), only in `grad` and `trace`{hint}")
    if ":" in text or split_interval(text):
        who = "only `grad` takes grids, and `grad`, `solve`, `minimize` and `maximize` take intervals"
        raise BadInput(f"the value of {name} cannot be a range here (`{text}`); {who}")
    try:
        expression = parse(text)
        if not expression.variables:
            return expression
    except messages.ExpressionError as error:
        units: tuple[str, ...] = ()
        with contextlib.suppress(messages.ExpressionError):
            units = parse(error.suggestion or "0").variables
        if not units:  # with one, the suggestion is no value either
            raise BadInput(f"the value of {name}: {error}") from error
    # Such as `2 kg` or `9.81 m/s^2`; a prefix alone, as in `1k`, is a factor.
    number = re.match(r"\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(?![kMGTmuµnp]$)[^\W\d]\w*(?:[*/^ ·].*)?$", text)
    hint = f"; numbers have no units: write {number[1]}" if number else _constant_hint(text.strip("+- "))
    raise BadInput(f"the value of {name} must be a number or a constant expression, not `{text}`{hint}")


def representable_constant(name: str, text: str) -> Formula:
    """Return an option that is a constant expression, `pi/4` or `[1, 2, 3]`.

    Raises:
        BadInput: for a text that is not a constant expression, and for a number that no float represents.
    """
    from autodiff_cli.explain.accuracy import unrepresentable_numbers

    constant = constant_expression(name, text)
    if unrepresentable_numbers({name: constant}):
        raise BadInput(f"the value of {name} must be representable as a float, not `{text}`")
    return constant


def constant_value(name: str, text: str) -> Any:
    """Return the value of an option as a float or an array; see `representable_constant`."""
    return representable_constant(name, text).value()


def constant_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of several variables; see `constant_value`."""
    return {name: constant_value(f"`{name}`", text) for name, text in texts.items()}


def rounded_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of several variables as `constant_values` does, rounded where no float represents them."""
    return {name: constant_expression(f"`{name}`", text).value() for name, text in texts.items()}


def read_formula(
    call: Call, argument: str, implicit: bool = False, columns: Iterable[str] = (), notes: bool = True
) -> Formula:
    """Read an expression, some variables of which have values in the call.

    A name with a value that is also a constant of the language (`e`) is a variable.

    Args:
        call: the inputs of the command.
        argument, implicit: see `read_text`.
        columns: further names that replace constants; the expression need not contain them.
        notes: whether to print notes about the text.

    Raises:
        ExpressionError: for a text that is not an expression, and for a value of a name that it does not contain.
        BadInput: as `read_text` does.
    """
    expression = parse(read_text(argument, call.environment, implicit), [*call.values, *columns])
    for name in call.values:
        if name not in expression.leaves:
            joined = filter(None, (_joined_names_error(leaf, call.values) for leaf in expression.variables))
            missing = "expression has no variable"
            raise next(joined, None) or unknown_name_error(name, expression.leaves, expression.bound, missing, call)
    call.environment.note(*(f"note: {note}" for note in expression.notes if notes))
    return expression


def _joined_names_error(leaf: str, names_with_values: Collection[str]) -> messages.UnknownNameError | None:
    """Return the error for a name that is made of names with values, such as `xy` if `x` and `y` have values.

    Returns None for another name.
    """
    if leaf in names_with_values:
        return None
    if leaf.endswith("ᵀ") and leaf[:-1] in names_with_values:
        words = f"`{leaf}` is one name; to transpose, call a function"
        return messages.UnknownNameError(words, suggestion=f"transpose({leaf[:-1]})")
    for name in filter(None, names_with_values):
        head = leaf.removesuffix(name)
        for function in (head, head.rstrip("0123456789")):
            if any(op.accepts(1) for op in ops.overloads(function)):
                call = f"{function}({'*'.join(filter(None, (head.removeprefix(function), name)))})"
                words = f"`{leaf}` is one name; the arguments of a function go in brackets"
                return messages.UnknownNameError(words, suggestion=call)
    longest_first = sorted({*names_with_values, "π", "pi"} - {""}, key=len, reverse=True)
    parts = re.findall("|".join(map(re.escape, longest_first)) or "$", leaf)
    if "".join(parts) != leaf or len({*parts}) < len(parts):
        return None
    return messages.UnknownNameError(f"`{leaf}` is one name; multiplication is written `*`", suggestion="*".join(parts))


def unknown_name_error(
    name: str, names: Collection[str], bound: Iterable[str], missing: str, call: Call
) -> messages.UnknownNameError:
    """Return the error for a value of a name that does not exist, which may also be a misspelt option.

    Args:
        name: the unknown name.
        names: the names that take a value.
        bound: the names that the text itself defines.
        missing: the missing kind of name, as in the message: "expression has no variable".
        call: the inputs of the command.
    """
    if name in bound:
        return messages.UnknownNameError(f"`{name}` is defined in the expression, so it takes no value")
    message = f"the {missing} `{name}`"
    only = f", only {messages.format_names(names, '`')}" if names else ""
    if declared := call.command.options.get(f"--{name}"):
        return messages.UnknownNameError(f"{message}; the option is written {declared.option.usage}")
    is_option = name in call.values  # else the value of an option such as `--fix` names it
    explanation = explain_option(call.command, f"--{name}", call.values[name]) if is_option else None
    if explanation and commands_with_option(f"--{name}"):
        return messages.UnknownNameError(f"{message}{only}; {explanation}")
    close = messages.suggest(name, [each for each in names if each not in call.values])
    if close is not None:
        return messages.UnknownNameError(message, suggestion=f"--{close}" if is_option else close)
    return messages.UnknownNameError(
        explanation or f"{f'--{name} is not an option, and ' if is_option else ''}{message}{only}"
    )


def trace_at(call: Call, expression: Formula, wrt: Iterable[str]) -> Trace:
    """Trace both passes over an expression at the values given on the command line.

    Raises:
        MissingValueError: if variables have no value; it names all of them.
        BadInput: for a value that is not a constant expression.
    """
    from autodiff_cli.explain.tracing import trace

    return trace(expression, read_point(call, expression), wrt, unrepresentable_values(expression, call.values))


def read_point(call: Call, expression: Formula) -> dict[str, Any]:
    """Return the value of every variable.

    Raises:
        MissingValueError: if variables have no value; it names all of them.
        BadInput: for a value that is not a constant expression.
    """
    values = rounded_values(call.values)
    check_all_have_values(call, expression, values)
    return {name: values[name] for name in expression.variables}


def unrepresentable_values(expression: Formula, value_texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the exact values of those variables, or elements, whose value no float represents, such as `1e-400`."""
    from autodiff_cli.explain.accuracy import unrepresentable_numbers

    values = {name: constant_expression(f"`{name}`", value_texts[name]) for name in value_texts}
    return unrepresentable_numbers({name: values[name] for name in expression.variables if name in values})


def value_graphs(call: Call, expression: Formula) -> dict[str, Node]:
    """Return the value of every variable as a constant graph, for evaluation with more digits than a float has.

    Raises:
        MissingValueError: if variables have no value; it names all of them.
        BadInput: for a value that is not a constant expression.
    """
    check_all_have_values(call, expression, call.values)
    return {name: constant_expression(f"`{name}`", call.values[name]).output for name in expression.variables}


def split_uncertainties(texts: Mapping[str, str], sigmas: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """Split values with standard errors into the values and the errors, by variable, all as constant expressions.

    The notations are `2+-0.1`, `2±0.1`, `2+-5%`, and `2.0(1)`, whose error is in the last digits, or `2.0(0.1)`.

    Args:
        texts: the values, by variable.
        sigmas: further errors: the assignments of `--sigma NAME=ERROR`.

    Raises:
        BadInput: for a text that is not a value and an error, and for a variable with two errors.

    >>> split_uncertainties({"x": "2.05(12)e3", "y": "-4±5%", "z": "3"})
    ({'x': '2.05e3', 'y': '-4', 'z': '3'}, {'x': '12e1', 'y': 'abs(-4)*(5)/100'})
    """
    values, errors = {}, {}
    for name, text in texts.items():
        value, *rest = _PLUS_MINUS.split(text)
        if rest:
            error = rest[0].strip().removesuffix("%")
            if len(rest) > 1 or not value.strip() or not error or re.search(r"\[[^]]*$|\([^)]*$", value):
                raise BadInput(
                    f"the value of `{name}`: a value and its error are written 2+-0.1, an array and the errors of its "
                    f"elements [1, 2]+-[0.1, 0.2], not `{text}`"
                )
            errors[name] = f"abs({value})*({error})/100" if rest[0].strip().endswith("%") else error
        elif brief := _LAST_DIGITS.fullmatch(text):
            number, decimals, more_decimals, digits, exponent = brief.groups("")
            value = f"{number}e{exponent}" if exponent else number
            place = 0 if "." in digits else len(decimals or more_decimals)
            errors[name] = f"{digits}e{int(exponent or 0) - place}"
        elif re.search(r"(?<![\w.])[\d.]+(?:[eE][+-]?\d+)?\s*\([\d.]+\)", text):
            forms = "2.0(1)e-3 or 2e-3+-1e-4, an array and its errors [1, 2]+-[0.1, 0.2], a product 2*(1)"
            raise BadInput(f"the value of `{name}`: a number and its error are written {forms}, not `{text}`")
        values[name] = value
    return values, merge_assignments(errors, sigmas, "--sigma")


def read_correlations(assignments: Iterable[str]) -> dict[tuple[str, str], float]:
    """Return the correlations of `--correlation x,y=0.8`, by the names of variables or of elements of arrays.

    Raises:
        BadInput: for an assignment of another form, and for a pair with two correlations.
    """
    pairs: dict[tuple[str, str], float] = {}
    for assignment in assignments:
        left, _, number = assignment.rpartition("=")
        names = [re.sub(r",\s*", ", ", name) for name in split_names(left)]
        correlation = constant_value(f"--correlation {left}", number) if number.strip() else None
        if len(names) != 2 or not all(names) or not isinstance(correlation, float):
            raise BadInput(f"--correlation takes two names and a number, such as x,y=0.8, not `{assignment}`")
        first, second = names
        if (first, second) in pairs or (second, first) in pairs:
            raise BadInput(f"the correlation of `{first}` and `{second}` is given twice")
        pairs[first, second] = correlation
    return pairs


def split_interval(text: str) -> tuple[str, str] | None:
    """Return the two ends of an interval such as `1.9..2.1`; None for another value.

    Raises:
        BadInput: for three dots, which may be two and those of a decimal number.
    """
    low, dots, high = text.partition("..")
    if dots and high.startswith("."):
        raise BadInput(f"a range has two dots: write {low}..{high[1:]} or {low}..0{high}, not `{text}`")
    return (low, high) if dots else None


def read_interval(name: str, text: str) -> tuple[Number, Number]:
    """Parse an interval, or a single value as an interval without width."""
    from autodiff_cli.numbers.ball_arithmetic import Undecided, compare

    ends = split_interval(text)
    if ends is None:
        number = _read_end(name, text)
        return number, number
    order = 0
    if all(map(str.strip, ends)):
        low, high = (_read_end(name, end) for end in ends)
        with contextlib.suppress(Undecided):
            order = compare(low, high)
    if order >= 0:
        form = "an interval is LOW..HIGH with LOW < HIGH, such as 1.9..2.1"
        raise BadInput(f"the value of `{name}`: {form}, not `{text}`")
    return low, high


def _read_end(name: str, text: str) -> Number:
    """Parse the end of an interval as an exact number."""
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
    from autodiff_cli.numbers.ball_arithmetic import is_finite

    constant = representable_constant(f"`{name}`", text)  # ends are shown as floats
    if not constant.is_scalar:
        raise BadInput(f"the value of `{name}`: the ends of an interval are numbers, but `{text}` is an array")
    (number,) = evaluate_to_digits([constant.output], _END_DIGITS).numbers
    if not is_finite(number):
        raise BadInput(f"the value of `{name}`: the ends of an interval are finite numbers, not `{text}`")
    return number


def check_all_have_values(call: Call, expression: Formula, valued_names: Container[str]) -> None:
    """Raise MissingValueError if variables have no value.

    It names all of them, and suggests values whose shapes fit the given ones.
    """
    missing = [name for name in expression.variables if name not in valued_names]
    if missing:
        from autodiff_cli.render.gradient import example_value

        known_texts = valued_names if isinstance(valued_names, Mapping) and not expression.is_scalar else {}
        known_values = {
            name: constant_expression(f"`{name}`", x).value() if isinstance(x, str) else x
            for name, x in known_texts.items()
        }
        known_shapes = {name: getattr(x, "shape", ()) for name, x in known_values.items()}
        expression.check_no_arrays(known_shapes)
        shapes = expression.example_shapes(known_shapes)
        values = {name: example_value(shapes.get(name, ())) for name in missing[: messages.MAX_LISTED]}
        example = " ".join(value_option(call, name, value) for name, value in values.items())
        more = " …" if len(missing) > messages.MAX_LISTED else ""
        hints = [*filter(None, map(_constant_hint, missing))]
        hints += [f"; the function is written `{name}(x)`" for name in missing if ops.overloads(name)]
        raise messages.MissingValueError(
            f"no value for {messages.format_names(missing, '`')}; add {example}{more}{''.join(hints[:1])}"
        )


def _constant_hint(name: str) -> str:
    """Return the end of a message about a name that other languages have for a constant; empty for other names."""
    from autodiff_cli.language.diagnostics import FOREIGN_CONSTANTS

    ours = FOREIGN_CONSTANTS.get(name.rpartition(".")[2])
    return f"; the constant is written {ours}" if ours else ""


def value_option(call: Call, name: str, value: str) -> str:
    """Return the option that gives a variable a value.

    It is `--NAME VALUE`, or `--set NAME=VALUE` if the command has an option of that name or the name needs backticks.
    """
    quoted = quote_name(name)
    if quoted != name:
        bare = value.strip('"')
        return f"--set {shlex.quote(f'{quoted}={bare}')}"
    return f"--set {name}={value}" if f"--{name}" in (*HELP, *call.command.options) else f"--{name} {value}"


def split_names(names: str) -> tuple[str, ...]:
    """Return the names in a list such as `x,y`, without repetition."""
    return tuple(dict.fromkeys(canonical_name(name.strip()) for name in _COMMA.split(names)))


def select_variables(expression: Formula, names: str | None) -> tuple[str, ...]:
    """Return the variables in a list such as `x,y`; all variables of the expression for None.

    Raises:
        BadInput: for an empty name.
        UnknownNameError: for a name that the expression does not contain.
    """
    if names is None:
        return expression.variables
    chosen = split_names(names)
    for name in chosen:
        if name not in expression.leaves and not is_name(name):
            raise BadInput("--wrt takes names separated by commas, such as --wrt x,y")
        check_variable(f"--wrt {names}", name, expression.leaves)
    return chosen


def check_variable(option: str, name: str, names: Collection[str]) -> None:
    """Raise UnknownNameError if an option names a variable that the expression does not contain."""
    messages.check_known(name, names, f"{option}: the expression has no variable")


def _read_utf8(source_name: str, read: Callable[[], str]) -> str:
    """Return the text that `read` reads, without a byte-order mark and trailing space.

    Raises:
        BadInput: for a text that cannot be read or is not UTF-8.
    """
    try:
        return read().removeprefix("\ufeff").rstrip()
    except UnicodeDecodeError as error:
        raise BadInput(f"{source_name} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise BadInput(f"cannot read {source_name}: {error_reason(error)}") from error


def trace_of_elements(trace: Trace, environment: Environment | None = None) -> Trace:
    """Return a trace in which every element of an array is a node: paths and tangents are numbers there.

    A note in the environment says if it has a stable form in place of an operation of the text.

    Raises:
        BadInput: if there are too many elements.
    """
    from autodiff_cli.explain.tracing import elementwise_trace

    elements = trace if trace.is_scalar else elementwise_trace(trace)
    if elements is None:
        raise BadInput("--paths and --mode forward show each element of an array as a node; this formula has too many")
    before, after = ({node.op.name for node in one.tape.nodes if node.op is not None} for one in (trace, elements))
    if environment is not None and "logaddexp" in after - before:
        environment.note("note: softmax and logsumexp are in a stable form: logaddexp(a, b) is log(exp(a) + exp(b))")
    return elements
