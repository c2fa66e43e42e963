"""Syntax errors in people's words: what is wrong at the spot, what was expected, what may have been meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from autodiff_cli import ops
from autodiff_cli.language.code import LAYERS
from autodiff_cli.language.errors import LONGEST_QUOTE, ExpressionError, is_quotable, line_and_column
from autodiff_cli.language.lexer import Lexeme, Lexemes, is_signed_number
from autodiff_cli.language.mistakes.notations import PAIRS, of_habit, strange
from autodiff_cli.language.mistakes.quoting import CLOSING, ENDS_OPERAND, quote, quote_before

_BETWEEN = re.compile(r"\s*[,;]\s*|\s+")

BEGINS_OPERAND = {"NUMBER", "NAME", "TEXT", "LPAR"}
ENDS_EXPRESSION = {"RPAR", "RSQB", "SEPARATOR", "COMMA"}
OPERATORS = {"OR", "AND", "NOT", "COMPARE", "SIGN", "TIMES", "POWER", "EQUAL", "TILDE"}


def syntax_error(lexemes: Lexemes, number: int, accepts: Set[str]) -> ExpressionError:
    """The error for a lexeme, by its number, where the grammar would have taken one of the terminals `accepts`."""
    text, read = lexemes.text, lexemes.all()
    if number == len(read):
        return _at_end(text, read, accepts)
    found = read[number]
    message, suggestion = _explain(text, read[:number], found, read[number + 1 :], accepts)
    return ExpressionError(message, text, found.start, suggestion)


def expected(accepts: Set[str]) -> str:
    """The terminals that would fit, as words: "a number, a name, `(` or `[`"."""
    words = {
        "a number": "NUMBER" in accepts,
        "a name": "NAME" in accepts,
        "`(`": {"LPAR", "NUMBER"} <= accepts,
        "`[`": {"LSQB", "NUMBER"} <= accepts,
        "an operator": not accepts.isdisjoint({"SIGN", "TIMES", "POWER", "COMPARE"}) and "NUMBER" not in accepts,
        "`,`": "COMMA" in accepts,
        "`)`": "RPAR" in accepts,
        "`]`": "RSQB" in accepts,
        "the end of the statement": "$END" in accepts,
    }
    *most, last = [word for word, fits in words.items() if fits] or ["another statement"]
    return f"{', '.join(most)} or {last}" if most else last


def _at_end(text: str, read: list[Lexeme], accepts: Set[str]) -> ExpressionError:
    if not read:
        what = "there is nothing but comments" if text.strip() else "the text is empty"
        return ExpressionError(f"{what}; expected an expression", text, 0)
    last = read[-1]
    opening = _unclosed(read)
    if opening is not None and CLOSING[opening.type] in accepts:
        message = f"{_at(text, opening)} is never closed; expected {expected(accepts)}"
    else:
        message = f"something must follow {_shown(last)}; expected {expected(accepts)}"
    return ExpressionError(message, text, last.end)


def _explain(
    text: str, before: list[Lexeme], found: Lexeme, after: list[Lexeme], accepts: Set[str]
) -> tuple[str, str | None]:
    last = before[-1] if before else None
    habit = of_habit(text, before, found, after)
    if habit is not None:
        return habit
    if found.type == "OTHER":
        message, suggestion = strange(text, last, found)
        return message if suggestion else f"{message}; expected {expected(accepts)}", suggestion
    if last is not None:
        if last.end == found.start and (last.text, found.text) in PAIRS:
            return f"`{last.text}{found.text}` is not an operator", PAIRS[last.text, found.text]
        if last.type in ENDS_OPERAND and found.type in BEGINS_OPERAND:
            return _side_by_side(text, before, found, after)
    opening = _unclosed(before)
    if found.type == "EQUAL" and opening is not None and len(before) > 1 and before[-2].type == "COMMA":
        return "the arguments of a function have no names here; `autodiff ops` says what each function takes", None
    if found.type == "EQUAL":
        return "`=` gives a value to one name, at the start of a statement; two values are compared with `==`", "=="
    if found.type == "TILDE":
        return "a model has one `~`, between its target and its prediction: `y ~ a*x`", None
    if found.type == "SHAPE":
        if opening is not None and opening.type == "LSQB":
            return "`:` is not in the language here: an index is one whole number, as in `v[0]`", None
        return "a `:` declares the shape of one name, in a statement of its own: `W: 2x3`", None
    if found.type in CLOSING.values() and opening is None:
        return f"this `{found.text}` closes nothing; expected {expected(accepts)}", None
    if last is not None and (last.type, found.type) == ("LSQB", "RSQB"):
        return "there is nothing between these brackets; an array has at least one element", None
    if found.type == "COMMA" and (row := _row(text, opening, before)) is not None:
        return "several numbers, an array, stand in square brackets", row
    if found.type == "COMMA" and opening is None:
        decimal = last is not None and last.type == "NUMBER" and after and after[0].type == "NUMBER"
        suggestion = f"{last.text}.{after[0].text}" if last is not None and decimal else None
        return "a `,` stands between the arguments of a function; numbers have a decimal point", suggestion
    if opening is not None and opening.type == "LSQB" and found.text == ";" and _row(text, opening, before):
        return "the elements of an array stand between commas", _row(text, opening, before)
    if opening is not None and found.type in {"SEPARATOR", *CLOSING.values()} - {CLOSING[opening.type]}:
        return f"{_at(text, opening)} is not closed; expected {expected(accepts)}", None
    if found.type in ("OR", "AND", "NOT") and (not accepts.isdisjoint(BEGINS_OPERAND) or last is None):
        if found.type == "NOT" and last is not None:
            return "`not` binds more loosely than the operator before it, and needs brackets", "(not x)"
        return f"`{found.text}` is a reserved word, not a name; expected {expected(accepts)}", None
    if last is not None and last.type in {*OPERATORS, "COMMA"} and found.type in ENDS_EXPRESSION:
        return f"something must follow {_shown(last)}; expected {expected(accepts)}", None
    return f"unexpected {_shown(found)}; expected {expected(accepts)}", None


def _row(text: str, opening: Lexeme | None, before: list[Lexeme]) -> str | None:
    """The array that is meant by numbers between commas, semicolons or blanks, in other brackets than square ones, or
    in none; None where that is not what stands there, and for two in no brackets, which may be one with a comma.

    Args:
        opening: the bracket that is open; it belongs to no call.
    """
    if opening is not None:
        called = opening.type == "LPAR" and any(a.end == opening.start and a.type == "NAME" for a in before)
        inside, closed, _ = text[opening.end :].partition({"(": ")", "[": "]"}.get(opening.text, "]"))
        if called or not closed:
            return None
    else:
        inside = text
    numbers = _BETWEEN.split(inside.strip())
    is_row = len(numbers) > (2 if opening is None and "," in inside else 1) and all(map(is_signed_number, numbers))
    row = f"[{', '.join(numbers)}]"
    return row if is_row and is_quotable(row) else None


def _side_by_side(text: str, before: list[Lexeme], found: Lexeme, after: list[Lexeme]) -> tuple[str, str | None]:
    """Two operands with nothing between them."""
    last = before[-1]
    opening = _unclosed(before)
    if opening is not None and any(newline in text[last.end : found.start] for newline in "\r\n"):
        closing = ")" if opening.type == "LPAR" else "]"
        return f"{_at(text, opening)} is not closed; expected `{closing}` or an operator", None
    operand = quote(text, found, after)
    if "TEXT" in (last.type, found.type):
        mark = text[found.start if found.type == "TEXT" else last.start]
        return f"`{mark}` encloses text, which is compared with a column of text, as in `group == 'A'`", None
    if last.type == "NAME" and (ops.function(last.text) or last.text in LAYERS or _defined(before, last.text)):
        return f"`{last.text}` is a function; its arguments stand in brackets", f"{last.text}({operand})"
    if opening is not None and opening.type == "LSQB":
        pair = f"{quote_before(text, before)}, {operand}"
        return f"expected `,` or an operator before {_shown(found)}", pair
    adjacent = last.end == found.start
    if last.type == "NUMBER" and adjacent and found.text.startswith("_") and found.text.strip("_0123456789") == "":
        return "digits are written without separators", last.text + found.text.replace("_", "")
    if last.type == "NUMBER" and found.type == "NUMBER":
        if adjacent:
            return "a number has one decimal point", None
        row = _row(text, opening, before) if opening is None else None
        return f"expected an operator between {_shown(last)} and {_shown(found)}", row
    product = f"{quote_before(text, before)}*{operand}"
    return f"expected an operator before {_shown(found)}; multiplication is written `*`", product


def _defined(before: Iterable[Lexeme], name: str) -> bool:
    """Whether the text so far calls or defines a function of this name."""
    previous = None
    for lexeme in before:
        if lexeme.type == "LPAR" and previous == name:
            return True
        previous = lexeme.text if lexeme.type == "NAME" else None
    return False


def _unclosed(lexemes: Iterable[Lexeme]) -> Lexeme | None:
    """The last bracket that is open after these lexemes."""
    opened: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.type in CLOSING:
            opened.append(lexeme)
        elif opened and lexeme.type == CLOSING[opened[-1].type]:
            opened.pop()
    return opened[-1] if opened else None


def _shown(lexeme: Lexeme) -> str:
    if lexeme.type == "SEPARATOR":
        return "`;`" if lexeme.text == ";" else "the end of the line"
    text = lexeme.text
    return f"`{text}`" if len(text) <= LONGEST_QUOTE else f"`{text[:LONGEST_QUOTE]}…`"


def _at(text: str, opening: Lexeme) -> str:
    line, column = line_and_column(text, opening.start)
    return f"the `{opening.text}` at line {line}, column {column}"
