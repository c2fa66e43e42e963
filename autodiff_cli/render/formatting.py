"""Text and numbers as people read them.

Text is escaped so that it cannot control a terminal, measured in terminal columns, wrapped and shortened. Numbers are
written in full or to a few digits; a value with a standard error is rounded to the place of the error's second digit.
JSON documents do not come from here: they always have numbers in full (see `data.json_records`).
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

from autodiff_cli.language.errors import character_width, escape_character, escape_controls

# --- Text ---

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+")

HANGING_INDENT = 2  # columns by which continuation lines are indented further than the first line

# Name of an error handler for `str.encode`: a character that the encoding lacks is replaced by one that looks like it.
LOOKALIKE_ERRORS = "lookalikes"
_SUBSTITUTES = {"×": "*", "·": "*", "÷": "/", "−": "-", "²": "^2", "±": "+-", "≤": "<=", "≥": ">=", "≠": "!="}
_SUBSTITUTES |= {"…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "∂": "d", "ᵀ": "'"}
_SUBSTITUTES |= {"▸": ">", "◂": "<", "•": "*", "░": ".", "▒": ":", "▓": "*", "█": "#"}
# For lines by weight: horizontal, vertical, corners.
_LINE_SUBSTITUTES = {"HEAVY": ("=", "#", "#"), "DOUBLE": ("=", "|", "*"), "LIGHT": ("-", "|", "+")}
_CONTINUES = re.compile(r"(?:[-+*/%@^=<>≤≥≠~,;×·÷−]|\b(?:and|or|not))$")  # ends a line whose formula continues below
_FIRST_BRAILLE, _LAST_BRAILLE = "\u2800", "\u28ff"  # plots in the terminal are made of Braille patterns


def _replace_lacking(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by similar ones, or by their codes (a codec error handler)."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_lookalike, error.object[error.start : error.end])), error.end


def _lookalike(character: str) -> str:
    if _FIRST_BRAILLE <= character <= _LAST_BRAILLE:
        return " " if character == _FIRST_BRAILLE else "*"
    words = unicodedata.name(character, "").split()
    if words[:2] == ["BOX", "DRAWINGS"]:
        horizontal, vertical, corner = next(each for weight, each in _LINE_SUBSTITUTES.items() if weight in words)
        if {"UP", "DOWN", "VERTICAL"}.isdisjoint(words):
            return horizontal
        return vertical if {"LEFT", "RIGHT", "HORIZONTAL"}.isdisjoint(words) else corner
    return _SUBSTITUTES.get(character) or escape_character(character)


codecs.register_error(LOOKALIKE_ERRORS, _replace_lacking)


def single_line(text: str) -> str:
    """Return a formula on one line, with control characters escaped.

    Statements are joined by `; `. Lines that only continue a statement are joined by a space. Comments are dropped from
    texts of several lines, because a comment would seem to include everything after it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [code for line in lines if (code := line.partition("#")[0].rstrip())]
    joined: list[str] = []
    depth = 0
    for line in lines:
        if joined:
            joined.append(" " if depth > 0 or _CONTINUES.search(joined[-1]) else "; ")
        joined.append(line)
        depth += sum(map(line.count, "([")) - sum(map(line.count, ")]"))
    return escape_controls("".join(joined))


# A double negation, or a quoted name or text (`--` there is not a negation).
_DOUBLE_NEGATION = re.compile(r"(`[^`]*`|'[^']*'|\"[^\"]*\")|--")


def drop_double_negations(formula: str) -> str:
    """Return a formula without `--`, which numbers in place of parameters cause after a minus sign.

    >>> drop_double_negations("2*exp(--0.6*x)")
    '2*exp(0.6*x)'
    """
    return _DOUBLE_NEGATION.sub(lambda match: match[1] or "", formula)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PRINTED = {"-": "−", "*": "·", "**": "^", "<=": "≤", ">=": "≥", "!=": "≠"}
# A minus sign stands between blanks, or before an operand; others belong to names and to powers of ten.
_SIGN = re.compile(r"`[^`]*`|(?:\^|\*\*)-?\d+(?![\w.^(]|\*\*)|\*\*?|[<>!]=|(?<![^\s(\[,=*/^<>-])-")


def in_print(text: str) -> str:
    """Return a formula or a number with the signs of mathematics, which the language also reads.

    >>> [in_print(text) for text in ("x^2*y - 3", "-1e-05", "`a-b`*x^-1", "2^x^2", "2**n")]
    ['x²·y − 3', '−1e-05', '`a-b`·x⁻¹', '2^x²', '2^n']
    """

    def sign(match: re.Match[str]) -> str:
        if match[0][-1].isdigit():
            return match[0].lstrip("^*").translate(_RAISED)
        return _PRINTED.get(match[0], match[0])

    return _SIGN.sub(sign, text)


def left_to_right(text: str) -> str:
    """Return a text in which signs and numbers stay behind names that are written from right to left.

    >>> left_to_right("א - 2").encode("ascii", "backslashreplace")
    b'\\\\u05d0\\\\u200e - 2'
    """
    return _RIGHT_TO_LEFT.sub("\\g<0>\u200e", text)


def markup(text: str) -> str:
    """Return a text escaped for HTML and SVG, in the order of `left_to_right`."""
    return escape(left_to_right(text))


def display_width(text: str) -> int:
    """Number of terminal columns that a text occupies; wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def line_break(text: str, width: int) -> int:
    """Number of characters of a text that go on one line of `width` columns.

    The line ends before the last space up to which the text fits; without such a space it takes as many characters as
    fit, at least one.
    """
    used, space = 0, 0
    for i, character in enumerate(text):
        if character == " " and text[:i].strip():
            space = i
        used += character_width(character)
        if used > width:
            return space or max(i, 1)
    return len(text)


def wrap_line(line: str, width: int) -> Iterator[str]:
    """Yield the lines, `width` columns wide at most, that a long line is broken into; later ones are indented."""
    available, indent = width, ""
    while (end := line_break(line, available)) < len(line):
        yield indent + line[:end]
        if not indent:
            hanging = len(line) - len(line.lstrip()) + HANGING_INDENT
            indent = " " * min(hanging, width // 2)
            available = width - len(indent)
        line = line[end:].lstrip()
    yield indent + line


def elide_middle(text: str, width: int) -> str:
    """Shorten a text to `width` columns (at least 3) by leaving out its middle."""
    if display_width(text) <= width:
        return text
    tail = "".join(reversed([*leading_characters(reversed(text), (width - 1) // 2)]))
    return f"{''.join(leading_characters(text, width - 1 - display_width(tail)))}…{tail}"


def leading_characters(text: Iterator[str] | str, width: int) -> Iterator[str]:
    """Yield the first characters of a text that fit into `width` columns."""
    for character in text:
        width -= display_width(character)
        if width < 0:
            return
        yield character


_WORD = re.compile(r"[\w.]+")
_PARTIAL_WORD_END, _PARTIAL_WORD_START = re.compile(r"[\w.]+$"), re.compile(r"^[\w.]+")


def shorten_middle(text: str, limit: int | None) -> str:
    """Return a text whose middle is replaced by a note of its length if it has more than `limit` characters.

    A text that is longer than `limit` by less than the length of the note stays as it is. Words and numbers stay whole
    or are left out, unless they are very long.
    """
    if limit is None or len(text) <= limit:
        return text
    half = limit // 2
    head, tail = text[:half], text[-half:]
    whole_head, whole_tail = _PARTIAL_WORD_END.sub("", head), _PARTIAL_WORD_START.sub("", tail)
    if _WORD.fullmatch(text, half - 1, half + 1) and len(whole_head) > half // 2:
        head = whole_head
    if _WORD.fullmatch(text, len(text) - half - 1, len(text) - half + 1) and len(whole_tail) > half // 2:
        tail = whole_tail
    missing = len(text) - len(head) - len(tail)
    note = f" … ({missing} characters) … "
    return f"{head}{note}{tail}" if missing > len(note) else text


# --- Numbers ---

NumberFormat: TypeAlias = Callable[[Any], str]

TABLE_DIGITS = 6  # significant digits in tables and steps: enough to follow a computation by hand
MAX_RESULT_ELEMENTS = 100  # larger arrays are shown as shape and range where they are a result
MAX_TABLE_ELEMENTS = 6  # larger arrays are shown as shape and range in tables and steps
_LARGE_EXPONENT = 400  # `g` formats write any number of this exponent in scientific notation


def shortest_text(x: float) -> str:
    """Return the shortest text that reads back as the same float: without a trailing `.0`, and `0` for -0.0."""
    return repr(x or 0.0).removesuffix(".0")


def digits_format(digits: int) -> Callable[[float], str]:
    """Return a function that writes numbers with `digits` significant digits."""
    return lambda x: f"{x or 0.0:.{digits}g}"


def number_formats(digits: int | None) -> tuple[NumberFormat, NumberFormat]:
    """Return two functions that write numbers or arrays: one for results, one for tables and steps.

    Args:
        digits: the value of `--digits`. Without it, results have all digits and tables have `TABLE_DIGITS`.
    """
    full = shortest_text if digits is None else digits_format(digits)
    brief = digits_format(digits or TABLE_DIGITS)
    return _array_format(full, MAX_RESULT_ELEMENTS), _array_format(brief, MAX_TABLE_ELEMENTS)


def text_within(x: Any, show: NumberFormat, width: int) -> str:
    """Return a number or an array as text of at most `width` characters where possible.

    An array gets fewer digits than `show` writes, down to two, and then only its shape and range. A single number is
    always written by `show`.
    """
    text = show(x)
    if len(text) <= width or isinstance(x, float | str):
        return text
    shorter = (_array_format(digits_format(digits), MAX_TABLE_ELEMENTS) for digits in range(TABLE_DIGITS - 1, 1, -1))
    summaries = (_array_format(digits_format(digits), 0) for digits in (3, 2))
    texts = [write(x) for write in (*shorter, *summaries)]
    return next((candidate for candidate in texts if len(candidate) <= width), texts[-1])


def _array_format(show: Callable[[float], str], max_elements: int) -> NumberFormat:
    """Extend a format of numbers to arrays: small ones as nested lists, larger ones as their shape and range."""

    def write(x: Any) -> str:
        if isinstance(x, float):
            return show(x)
        if isinstance(x, str):
            return x if show is shortest_text else _round_text(x, show)
        if isinstance(x, list):
            return f"[{', '.join(map(write, x))}]"
        if x.size <= max_elements:
            return write(x.tolist())
        shape, numbers = "×".join(map(str, x.shape)), x.astype(float)
        low, high = float(numbers.min()), float(numbers.max())
        return f"{shape}, all {show(low)}" if low == high else f"{shape} from {show(low)} to {show(high)}"

    return write


def _round_text(text: str, show: Callable[[Any], str]) -> str:
    """Round a number that is a text because a float has too few digits or too small a range for it."""
    nearest = float(text)
    is_float = text.removeprefix("-") in ("inf", "nan") or not math.isinf(nearest)
    if is_float and (nearest or "e" not in text):
        return show(nearest)
    from decimal import Decimal

    if "e" not in text:
        return show(Decimal(text))
    from flint import fmpz

    # The exponent may be too large even for a Decimal, so the mantissa is rounded with an exponent of our own.
    mantissa, _, exponent = text.partition("e")
    rounded, _, power = show(Decimal(f"{mantissa}e{_LARGE_EXPONENT}")).partition("e")
    power_of_ten = fmpz(exponent.removeprefix("+")) + (int(power) - _LARGE_EXPONENT)  # `int` has a limit of length
    return f"{rounded}e{'+' if power_of_ten >= 0 else ''}{power_of_ten}"


# --- Values with standard errors ---

_MAX_ERROR_RATIO = 1e6  # error / value above which the error does not say how many digits of the value to show
_MIN_FIXED, _MAX_FIXED = 1e-4, 1e7  # numbers between these sizes are written without an exponent


@dataclass(frozen=True, slots=True)
class Rounding:
    """Functions that write a value and its standard error, both rounded to the place of the error's second digit.

    >>> rounding = Rounding.from_error(2.50016, 0.01047, None)
    >>> rounding.format_value(2.50016), rounding.format_error(0.01047)
    ('2.500', '0.010')
    """

    format_value: Callable[[Any], str]
    format_error: Callable[[Any], str]

    @classmethod
    def from_error(cls, value: Any, error: Any, digits: int | None) -> Rounding:
        """Choose the rounding for a value and its standard error.

        Args:
            value: a number or an array; arrays are written with `TABLE_DIGITS` digits.
            error: its standard error, or None if that is unknown; the value then has `TABLE_DIGITS` digits.
            digits: the value of `--digits`, which takes precedence.

        >>> Rounding.from_error(5.4999813e-07, 1.23e-11, None).format_value(5.4999813e-07)
        '5.49998e-07'
        >>> Rounding.from_error(12345.6, 1234.5, None).format_value(12345.6)
        '12300'
        >>> Rounding.from_error(2.0, 1e30, None).format_value(2.0)
        '2'
        >>> Rounding.from_error(2.0, None, None).format_value(2 / 3)
        '0.666667'
        """
        if digits is not None:
            return cls(*number_formats(digits))
        are_floats = isinstance(value, float) and isinstance(error, float)
        if not (are_floats and math.isfinite(value) and 0 < error < math.inf):
            brief = number_formats(TABLE_DIGITS)[1]
            return cls(brief, brief)
        if error > _MAX_ERROR_RATIO * abs(value) > 0:
            return cls(number_formats(TABLE_DIGITS)[1], _exponent_format(math.floor(math.log10(error)) - 1))
        error = float(f"{error:.1e}")
        place = math.floor(math.log10(error)) - 1  # power of ten of the last digit
        if _MIN_FIXED <= max(abs(value), error) < _MAX_FIXED:
            return cls(*[lambda x: f"{round(x, -place) or 0.0:.{max(0, -place)}f}"] * 2)
        return cls(_exponent_format(place), _exponent_format(place))


def _exponent_format(place: int) -> Callable[[Any], str]:
    def write(x: float) -> str:
        decimals = math.floor(math.log10(abs(x))) - place if x else 0
        return f"{x:.{decimals}e}" if decimals >= 0 else "0"

    return write
