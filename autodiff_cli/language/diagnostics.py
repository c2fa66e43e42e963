"""Messages for syntax errors: the mistake, the expected input, and a suggestion.

Many mistakes are habits from other languages and from mathematical notation (`2x`, `|x|`, `sin^2(x)`, `lambda`); the
tables below say how they are written here.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from autodiff_cli import ops
from autodiff_cli.language import errors
from autodiff_cli.language.lexer import BUILT_FUNCTIONS, Lexeme, Lexemes, is_signed_number, split_outside_brackets
from autodiff_cli.system import keys_by_word, read_tables

# --- Operands, quoted in suggestions

ENDS_OPERAND = {"NUMBER", "NAME", "TEXT", "RPAR", "RSQB", "SUPERSCRIPT"}
CLOSING_BRACKETS = {"LPAR": "RPAR", "LSQB": "RSQB"}
_NAME_AFTER_PI = re.compile(r"\bπ(?=[^\W\d_])")  # in 2πr
_PARTS_OF_FACTORS = {"NUMBER", "NAME", "POWER", "SUPERSCRIPT"}


def quote_operand(text: str, first: Lexeme, after: list[Lexeme]) -> str:
    """Return the operand that begins with the lexeme `first`; that lexeme alone if the operand is long."""
    lexemes = [first, *after[: errors.MAX_QUOTE]]
    depth = 0
    for lexeme, following in zip(lexemes, [*lexemes[1:], None], strict=True):
        depth += (lexeme.type in CLOSING_BRACKETS) - (lexeme.type in CLOSING_BRACKETS.values())
        is_called = lexeme.type == "NAME" and following is not None and following.type == "LPAR"
        if depth == 0 and not is_called:
            return errors.if_quotable(text[first.start : lexeme.end], first.text)
    return first.text


def quote_argument(text: str, first: Lexeme, after: list[Lexeme]) -> str:
    """Return the operand of a function without brackets, as in `sin 2x^2`: all factors up to the next operator."""
    factors = [first, *itertools.takewhile(lambda lexeme: lexeme.type in _PARTS_OF_FACTORS, after)]
    functions = [k for k, lexeme in enumerate(factors) if ops.overloads(lexeme.text)]
    factors = factors[: min(functions, default=None)]
    if len(factors) < 2 or factors[-1].type == "POWER":
        return quote_operand(text, first, after)
    argument = first.text
    for last, lexeme in itertools.pairwise(factors):
        is_factor = last.type != "POWER" and lexeme.type in ("NUMBER", "NAME")
        argument += f"*{lexeme.text}" if is_factor else lexeme.text
    return errors.if_quotable(_NAME_AFTER_PI.sub("π*", argument), first.text)


def quote_operand_before(text: str, before: list[Lexeme]) -> str:
    """Return the operand that ends with the lexemes `before`; the last lexeme alone if the operand is long."""
    depth, start = 0, len(before)
    while start:
        start -= 1
        lexeme = before[start]
        depth += (lexeme.type in CLOSING_BRACKETS.values()) - (lexeme.type in CLOSING_BRACKETS)
        applied = lexeme.type in CLOSING_BRACKETS and before[start - 1].type in ENDS_OPERAND
        if depth == 0 and lexeme.type != "SUPERSCRIPT" and not applied:
            break
    return errors.if_quotable(text[before[start].start : before[-1].end], before[-1].text)


# --- Mistakes

_MAX_CONTEXT = 100  # characters on either side of a mistake in which other notations are searched
Message = tuple[str, str | None]  # a message and a suggestion, or None for no suggestion
_START = Lexeme("START", "", -1, -1)  # stands for the lexeme before the first one


@dataclass(frozen=True)
class Mistake:
    """A lexeme that the grammar does not allow, and the text around it.

    Attributes:
        text: the source text.
        before: the lexemes before it.
        lexeme: the lexeme.
        after: the lexemes after it.
        accepts: the terminals that are allowed in its place.
    """

    text: str
    before: list[Lexeme]
    lexeme: Lexeme
    after: list[Lexeme]
    accepts: Set[str]

    @property
    def last(self) -> Lexeme:
        """The lexeme before it."""
        return self.before[-1] if self.before else _START

    @property
    def is_adjacent(self) -> bool:
        """Whether it follows the lexeme before it without a blank."""
        return self.last.end == self.lexeme.start

    @property
    def follows_operand(self) -> bool:
        """Whether an operand ends before it."""
        return self.last.type in ENDS_OPERAND

    @property
    def expected(self) -> str:
        """The terminals that are allowed in its place, in words."""
        return expected_terminals(self.accepts)

    @property
    def statement(self) -> tuple[str, int]:
        """The part of the statement around it, and its position in this text."""
        start = self.lexeme.start
        begin = max(0, start - _MAX_CONTEXT, *(self.text.rfind(mark, 0, start) + 1 for mark in ";\n"))
        return re.split("[;\n]", self.text[begin : start + _MAX_CONTEXT])[0], start - begin

    @cached_property
    def opening(self) -> Lexeme | None:
        """The innermost bracket that is open; None if all are closed."""
        return _open_bracket(self.before)

    @property
    def is_in_array(self) -> bool:
        """Whether the innermost open bracket encloses the elements of an array."""
        return self.opening is not None and self.opening.type == "LSQB" and not self._is_applied

    @property
    def is_in_call(self) -> bool:
        """Whether the innermost open bracket encloses the arguments of a function."""
        return self.opening is not None and self.opening.type == "LPAR" and self._is_applied

    @property
    def _is_applied(self) -> bool:
        opening = self.opening
        return opening is not None and any(each.end == opening.start and each.type == "NAME" for each in self.before)


# --- Other notations

_TABLES = read_tables(__file__, "other_notations.toml")
# What to write here, by what other languages write.
FOREIGN_CHARACTERS = {character: ours for ours, characters in _TABLES["characters"].items() for character in characters}
FOREIGN_OPERATORS = keys_by_word(_TABLES["operators"])
FOREIGN_WORDS = keys_by_word(_TABLES["words"])
_LIBRARIES = frozenset(_TABLES["libraries"].split())
_LIBRARY_PREFIX = re.compile(rf"^(?:(?:{'|'.join(_LIBRARIES)})\.)+")
FOREIGN_CONSTANTS = keys_by_word(_TABLES["constants"])
MODEL_FUNCTIONS: dict[str, str] = _TABLES["models"]
FOREIGN_FUNCTIONS = keys_by_word(_TABLES["functions"])
CORRECT_CALLS: dict[str, str] = _TABLES["arguments"]
UNAVAILABLE_FUNCTIONS: dict[str, Message] = {
    name: (row["message"], row.get("suggestion")) for row in _TABLES["unavailable"] for name in row["names"].split()
}
QUOTATION_MARKS = {"`": "a name of any characters", "'": "text", '"': "text"}  # what a pair of each encloses


def translate_call(name: str, arguments: str, count: int) -> Message | None:
    """Translate a call from another language: another name of the function, a library's prefix, or a method.

    Args:
        name: the name that is called.
        arguments: the arguments with their brackets.
        count: the number of arguments.

    Returns:
        A message, empty for the usual one, and what to write here; None if no translation is known.

    >>> calls = (("σ", "(x)"), ("np.sin", "(x)"), ("factorial", "(n)"), ("linear", "(x)"))
    >>> [translate_call(*call, count=1)[1] for call in calls]
    ['sigmoid(x)', 'sin(x)', 'gamma(n + 1)', 'a + b*x']
    >>> translate_call("x.sin", "()", 0), translate_call("x.pow", "(2)", 1), translate_call("x.round", "(2)", 1)[1]
    (('', 'sin(x)'), ('', 'pow(x, 2)'), None)
    """
    inside = arguments[1:].removesuffix(")").strip()
    before, _, last = name.rpartition(".")
    if before and (overloads := ops.overloads(last)):
        is_method = before.partition(".")[0] not in _LIBRARIES
        operands = count + is_method
        # The second operand of `max` and `min` may be an axis, except in JavaScript.
        if not any(op.accepts(operands) for op in overloads) or (
            last in ("max", "min") and before != "Math" and operands > 1
        ):
            return f"there is no function `{name}`; `{last}` has other arguments here", None
        return "", f"{last}({', '.join(filter(None, [before, inside]))})" if is_method else f"{last}{arguments}"
    name = _LIBRARY_PREFIX.sub("", name)
    name = "normal" if name == "N" and count > 1 else name  # `N(x)` is a value of its distribution function
    unavailable = UNAVAILABLE_FUNCTIONS.get(name) or UNAVAILABLE_FUNCTIONS.get(name.lower() if len(name) > 1 else "")
    if unavailable is not None:
        words, template = unavailable
        first = split_outside_brackets(inside, ",")[0].strip()
        operand = first if template in ("{}", "({})", "(not ({}))") or first.isidentifier() else f"({first})"
        template = template if first or "{}" not in (template or "") else None
        return words, template and template.replace("{}", operand)
    translation = FOREIGN_FUNCTIONS.get(name) or FOREIGN_FUNCTIONS.get(name.lower(), "")  # spreadsheets: `IF(…)`
    # Of several arguments only a list can be made; a letter before one operand is rather a factor.
    translation = translation.replace("([{}])", "({})") if count == 1 else translation
    if "{" in translation and (len(name) > 1 if count == 1 else "[" in translation):
        return "", translation.format(inside or "x")
    if any(op.accepts(count) for op in ops.overloads(translation)):
        return "", f"{translation}{arguments}"
    return ("", None) if translation and len(name) > 1 else None


class Idiom(NamedTuple):
    """An idiom of mathematics or of other languages.

    Attributes:
        pattern: matches it in the statement with the mistake, which stands in the match, or in its group `at`.
        message: the message, with the groups of the pattern in braces.
        suggestion: what to write here, in the same form; empty for no suggestion.
        otherwise: the suggestion in place of one that is too long.
    """

    pattern: str
    message: str
    suggestion: str = ""
    otherwise: str | None = None


_IDIOMS = tuple(Idiom(**row) for row in _TABLES["idioms"])  # the first that matches counts


def foreign_notation(mistake: Mistake) -> Message | None:
    """Return the message for a notation of other languages; None if the mistake is in none."""
    statement, place = mistake.statement
    for pattern, message, suggestion, otherwise in _IDIOMS:
        for match in re.finditer(pattern, statement):
            parts = match.groupdict("")
            begin, end = match.span("at" if "at" in parts else 0)
            if begin <= place <= end:
                correction = suggestion.format_map(parts).strip()
                is_whole = all(part.count("(") == part.count(")") for part in parts.values())
                return message.format_map(parts), correction if is_whole and errors.is_quotable(
                    correction
                ) else otherwise
    return None


def _power_of_function(mistake: Mistake) -> Message | None:
    """Return the message for `sin^2(x)`, `sin²x` and `sin^-1(x)`, at the lexeme after the exponent; None for others."""
    text, before, lexeme = mistake.text, mistake.before, mistake.lexeme
    start = next((k for k in range(len(before) - 1, max(len(before) - 5, -1), -1) if before[k].type == "NAME"), None)
    if start is None or lexeme.type not in ("LPAR", "NAME", "NUMBER"):
        return None
    function = before[start].text
    types = [each.type for each in before[start + 1 :]]
    exponent = text[before[start].end : before[-1].end]
    is_power = types in (["SUPERSCRIPT"], ["POWER", "NUMBER"], ["POWER", "SIGN", "NUMBER"])
    if not (is_power or exponent == "-1") or not ops.overloads(function):
        return None
    is_bracketed, after = lexeme.type == "LPAR", mistake.after
    operand = quote_operand(text, lexeme, after) if is_bracketed else f"({quote_argument(text, lexeme, after)})"
    if exponent.strip().lstrip("^*") in ("-1", "⁻¹") and ops.overloads(f"a{function}"):
        return f"`{function}` is a function; its inverse has a name of its own", f"a{function}{operand}"
    if not is_power:
        return None
    return f"`{function}` is a function; the power of its value goes after it", f"{function}{operand}{exponent.strip()}"


def _quotation_mark(mistake: Mistake) -> Message | None:
    """Return the message for a quotation mark or backtick that is never closed; None for others."""
    lexeme, mark = mistake.lexeme, mistake.lexeme.text[:1]
    if mark not in QUOTATION_MARKS or lexeme.type != "OTHER":
        return None
    return f"this {mark} is never closed; a pair of them encloses {QUOTATION_MARKS[mark]}", None


def _foreign_character(mistake: Mistake) -> Message:
    """Return the usual message for a character: what is written in its place."""
    character = mistake.lexeme.text
    message = f"`{character}` is not in the language"
    if character in FOREIGN_CHARACTERS:
        return message, FOREIGN_CHARACTERS[character]
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"the character U+{ord(character):04X} is not allowed in an expression", None
    plain = unicodedata.normalize("NFKC", character).replace("⁄", "/")
    if character in "⁺⁻⁼⁽⁾ⁱⁿ":
        return "only integers can be written as superscripts", f"^{plain}" if plain.isalpha() else "^"
    if "/" in plain[1:] and mistake.follows_operand:  # 2½ is a sum
        is_mixed = mistake.last.type == "NUMBER" and mistake.is_adjacent
        whole = quote_operand_before(mistake.text, mistake.before)
        return message, f"({whole} + {plain})" if is_mixed else f"{whole}*({plain})"
    if plain.isascii() and plain != character and (len(plain) == 1 or plain[0].isalnum()):
        return message, f"({plain})" if len(plain) > 1 else plain
    digit = unicodedata.decimal(character, None)
    return (message, None) if digit is None else ("only the digits 0 to 9 can be used in numbers", str(digit))


# --- Syntax errors

_EXPONENTIAL = re.compile(r"(?:\be|\b\d+\.?\d*)\s*(?:\^|\*\*)\s*-?$")  # before the exponent of e^2x
_BETWEEN = re.compile(r"\s*,\s*|\s+")  # what separates numbers that are meant as an array

_GROUPED_DIGITS = re.compile(r"[1-9]\d{0,2}([ ,])\d{3}(?:\1\d{3})*(?:\.\d+)?(?!\d)")  # as in 12,500
_DIGITS_WITH_POINT = re.compile(r"[1-9]\d{0,2}\.\d{3}")  # as in 1.000,50

BEGINS_OPERAND = {"NUMBER", "NAME", "TEXT", "LPAR"}
ENDS_EXPRESSION = {"RPAR", "RSQB", "SEPARATOR", "COMMA"}
OPERATORS = {"OR", "AND", "NOT", "COMPARE", "SIGN", "TIMES", "POWER", "EQUAL", "TILDE"}


def syntax_error(lexemes: Lexemes, number: int, accepts: Set[str]) -> errors.ExpressionError:
    """Return the error for a lexeme that the grammar does not allow.

    Args:
        lexemes: the lexemes of the text.
        number: the number of the first lexeme that is not allowed.
        accepts: the terminals that are allowed in its place.
    """
    text, all_lexemes = lexemes.text, lexemes.to_list()
    if number == len(all_lexemes):
        return _at_end(text, all_lexemes, accepts)
    mistake = Mistake(text, all_lexemes[:number], all_lexemes[number], all_lexemes[number + 1 :], accepts)
    message, suggestion = next(reply for rule in _RULES if (reply := rule(mistake)) is not None)
    return errors.ExpressionError(message, text, mistake.lexeme.start, suggestion)


def expected_terminals(accepts: Set[str]) -> str:
    """Return the allowed terminals in words: "a number, a name, `(` or `[`"."""
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
    return errors.join_words([word for word, fits in words.items() if fits] or ["another statement"], "or")


def _at_end(text: str, lexemes: list[Lexeme], accepts: Set[str]) -> errors.ExpressionError:
    if not lexemes:
        reason = "the text has no statements" if text.strip() else "the text is empty"
        return errors.ExpressionError(f"{reason}; expected an expression", text, 0)
    last = lexemes[-1]
    opening, end = _open_bracket(lexemes), Lexeme("END", "", last.end, last.end)
    if opening is not None and CLOSING_BRACKETS[opening.type] in accepts:
        message = f"{_bracket_position(text, opening)} is never closed; expected {expected_terminals(accepts)}"
    elif last.text == "%" and (reply := foreign_notation(Mistake(text, lexemes, end, [], accepts))):
        return errors.ExpressionError(reply[0], text, last.end, reply[1])
    else:
        message = f"something must follow {_quoted(last)}; expected {expected_terminals(accepts)}"
    return errors.ExpressionError(message, text, last.end)


def _unknown_character(mistake: Mistake) -> Message | None:
    """Return the message for a character that is not in the language; None for a lexeme of the language."""
    if mistake.lexeme.type != "OTHER":
        return None
    message, suggestion = _foreign_character(mistake)
    is_complete = suggestion or not message.startswith("`")
    return message if is_complete else f"{message}; expected {mistake.expected}", suggestion


def _foreign_operator(mistake: Mistake) -> Message | None:
    """Return the message for an operator of two signs that the language does not have; None for others."""
    operator = f"{mistake.last.text}{mistake.lexeme.text}"
    if not mistake.is_adjacent or operator not in FOREIGN_OPERATORS:
        return None
    ours = _between(mistake.text, mistake.before[:-1], FOREIGN_OPERATORS[operator], mistake.after)
    return f"`{operator}` is not an operator", ours


def _misplaced_sign(mistake: Mistake) -> Message | None:
    """Return the message for `=` where it is not allowed; None for other lexemes."""
    if mistake.lexeme.type != "EQUAL":
        return None
    return "`=` binds one name, at the start of a statement; use `==` to compare two values", "=="


def _misplaced_separator(mistake: Mistake) -> Message | None:
    """Return the message for a comma or a semicolon where the other one, or neither, is allowed; None for others."""
    separator = mistake.lexeme
    row = _array_literal(mistake)
    if separator.type == "COMMA" and row is not None:
        return "an array of numbers goes in square brackets", row
    if separator.type == "COMMA" and mistake.opening is None:
        return _comma_outside_brackets(mistake)
    if separator.text == ";" and [x.type for x in mistake.after[:2]] != ["NAME", "EQUAL"]:
        if mistake.is_in_array:
            return "commas separate the elements of an array", row or ","
        if mistake.is_in_call:
            return "commas separate the arguments of a function", ","
    return None


def _brackets_without_partner(mistake: Mistake) -> Message | None:
    """Return the message for a bracket that is never opened or closed; None for others."""
    bracket, opening = mistake.lexeme, mistake.opening
    is_closing = bracket.type in CLOSING_BRACKETS.values()
    if is_closing and opening is None:
        return f"this `{bracket.text}` has no opening bracket; expected {mistake.expected}", None
    if opening is None or bracket.type not in {"RPAR", "RSQB", "SEPARATOR"} - {CLOSING_BRACKETS[opening.type]}:
        return None
    return f"{_bracket_position(mistake.text, opening)} is not closed; expected {mistake.expected}", None


def _reserved_word(mistake: Mistake) -> Message | None:
    """Return the message for `and`, `or` and `not` in place of an operand; None for others."""
    word = mistake.lexeme
    if word.type not in ("OR", "AND", "NOT") or (mistake.before and mistake.accepts.isdisjoint(BEGINS_OPERAND)):
        return None
    return f"`{word.text}` is a reserved word, not a name; expected {mistake.expected}", None


def _missing_operand(mistake: Mistake) -> Message:
    """Return the message for an operator or a comma without an operand after it, and for everything else."""
    if mistake.last.type in {*OPERATORS, "COMMA"} and mistake.lexeme.type in ENDS_EXPRESSION:
        return f"something must follow {_quoted(mistake.last)}; expected {mistake.expected}", None
    return f"unexpected {_quoted(mistake.lexeme)}; expected {mistake.expected}", None


def _comma_outside_brackets(mistake: Mistake) -> Message:
    """Return the message for a comma in a number or between formulas."""
    text, last, after = mistake.text, mistake.last, mistake.after
    if last.type == "NUMBER" and after and after[0].type == "NUMBER":
        whole, decimals = last.text, after[0].text
        grouped = _GROUPED_DIGITS.match(text, last.start)
        if grouped and grouped[0] == f"{whole},{decimals}" and "." not in decimals:
            return f"numbers have no comma within them: write `{whole}{decimals}` or `{whole}.{decimals}`", None
        if grouped:
            return "digits cannot have separators", grouped[0].replace(",", "")
        if _DIGITS_WITH_POINT.fullmatch(whole):
            whole = whole.replace(".", "")
        if whole.isdigit() and "." not in decimals:
            words = f"numbers have a decimal point, not a comma; an array is `[{whole}, {decimals}]`"
            return words, f"{whole}.{decimals}"
    first, *others = (part.strip() for part in split_outside_brackets(text, ","))
    if not any(others):
        return "nothing follows this comma; leave it out", errors.if_quotable(first, None)
    if re.match(r"\s*[^\W\d]\w*\s*=(?!=)", text):
        return "a semicolon ends the binding of a name", ";"
    if "~" in text:
        return "a text has one model; to compare several, put each in its own quotes", None
    is_list = mistake.before and re.search(";|(?<![=<>!])=(?!=)", text) is None
    is_list = is_list and not (others[0].isidentifier() and others[0] in first)  # `x^2, x` is for x in other tools
    row = errors.if_quotable(f"[{text.strip()}]", None) if is_list else None
    return "several formulas are one list, in square brackets", row


def _array_literal(mistake: Mistake) -> str | None:
    """Return the array that the user may have meant by a list of numbers; None if it is not such a list.

    The numbers are separated by commas, semicolons or blanks, in brackets of any kind or in none. Two numbers with a
    comma and no brackets are not taken for an array: they may be one number with a decimal comma.
    """
    inside, opening = mistake.text, mistake.opening
    if opening is not None:
        inside, closed, _ = inside[opening.end :].partition(")" if opening.type == "LPAR" else "]")
        if mistake.is_in_call or not closed:
            return None
    rows = [_BETWEEN.split(row.strip()) for row in inside.strip().split(";")]
    numbers = [*itertools.chain(*rows)]
    is_array = len(numbers) > (2 if opening is None and "," in inside else 1) and all(map(is_signed_number, numbers))
    is_matrix = 1 < len(rows) < len(numbers)
    parts = [f"[{', '.join(row)}]" for row in rows] if is_matrix else numbers
    return errors.if_quotable(f"[{', '.join(parts)}]", None) if is_array else None


def _missing_operator(mistake: Mistake) -> Message | None:
    """Return the message for two operands without an operator between them; None for others."""
    text, before, after, last, lexeme = mistake.text, mistake.before, mistake.after, mistake.last, mistake.lexeme
    if not mistake.follows_operand or lexeme.type not in BEGINS_OPERAND:
        return None
    if mistake.opening is not None and any(newline in text[last.end : lexeme.start] for newline in "\r\n"):
        closing = ")" if mistake.opening.type == "LPAR" else "]"
        return f"{_bracket_position(text, mistake.opening)} is not closed; expected `{closing}` or an operator", None
    operand = quote_operand(text, lexeme, after)
    if "TEXT" in (last.type, lexeme.type):
        mark = text[lexeme.start if lexeme.type == "TEXT" else last.start]
        return f"`{mark}` encloses text, which can only be compared with a column of text: `group == 'A'`", None
    if last.type == "NAME" and (
        ops.overloads(last.text) or last.text in BUILT_FUNCTIONS or _is_function_defined(before, last.text)
    ):
        takes_one = all(op.max_inputs == 1 for op in ops.overloads(last.text)[:1])
        call = f"{last.text}({quote_argument(text, lexeme, after)})" if takes_one else None
        return f"`{last.text}` is a function; its arguments go in brackets", call
    if mistake.is_in_array:
        pair = _array_literal(mistake) or f"{quote_operand_before(text, before)}, {operand}"
        return f"expected `,` or an operator before {_quoted(lexeme)}", pair
    if last.type == lexeme.type == "NUMBER":
        if grouped := _GROUPED_DIGITS.match(text, last.start):
            return "digits cannot have separators, and an array goes in square brackets", grouped[0].replace(" ", "")
        return f"expected an operator between {_quoted(last)} and {_quoted(lexeme)}", _array_literal(mistake)
    if lexeme.text in FOREIGN_WORDS and after and after[0].type in BEGINS_OPERAND:
        return f"`{lexeme.text}` is not an operator", _between(text, before, FOREIGN_WORDS[lexeme.text], after)
    return _missing_product(mistake, f"{quote_operand_before(text, before)}*{_NAME_AFTER_PI.sub('π*', operand)}")


def _missing_product(mistake: Mistake, product: str) -> Message:
    """Return the message for a product without its operator, given how it is written."""
    last, lexeme = mistake.last, mistake.lexeme
    is_coefficient = last.type == "NUMBER" and mistake.is_adjacent
    message = f"expected an operator before {_quoted(lexeme)}; multiplication is written `*`"
    left = mistake.text[: last.start].rstrip()
    if is_coefficient and left.endswith(("/", "÷", "%")):
        return f"{message}: `{left[-1]}({product})` or `{left[-1]}{product}`", None
    return message, f"({product})" if mistake.is_adjacent and _EXPONENTIAL.search(left) else product


# Functions that explain a mistake, or return None; the first message is shown.
_RULES: tuple[Callable[[Mistake], Message | None], ...] = (
    foreign_notation, _quotation_mark, _power_of_function, _unknown_character, _foreign_operator, _missing_operator,
    _misplaced_sign, _misplaced_separator, _brackets_without_partner, _reserved_word, _missing_operand,
)  # fmt: skip


def _between(text: str, before: list[Lexeme], operator: str, after: list[Lexeme]) -> str:
    """Write an operator between the operands around it; `x` and `y` stand for operands that are missing."""
    left = quote_operand_before(text, before) if before else "x"
    right = quote_operand(text, after[0], after[1:]) if after else "y"
    if "(" in operator and before and after:  # its operands may be more than the numbers and names next to it
        signs = r"\^|\*\*|[⁺⁻¹²³⁰-⁹<>=≤≥]" if "!=" in operator else r"\^|\*\*|[⁺⁻¹²³⁰-⁹]"
        beginning, end = text[: before[-1].end].removesuffix(left), text[after[0].start :].removeprefix(right)
        if re.search(r"[-+*/%^@×·÷−<>=≤≥]\s*$", beginning) or re.match(rf"\s*({signs})", end) or left in ")]":
            left, right = "x", "y"
    return operator.format(left, right)


def _is_function_defined(before: Iterable[Lexeme], name: str) -> bool:
    """Whether the text before the error calls or defines a function of this name."""
    return any(a.type == "NAME" and a.text == name and b.type == "LPAR" for a, b in itertools.pairwise(before))


def _open_bracket(lexemes: Iterable[Lexeme]) -> Lexeme | None:
    """Return the innermost bracket that is still open after these lexemes; None if all are closed."""
    opened: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.type in CLOSING_BRACKETS:
            opened.append(lexeme)
        elif opened and lexeme.type == CLOSING_BRACKETS[opened[-1].type]:
            opened.pop()
    return opened[-1] if opened else None


def _quoted(lexeme: Lexeme) -> str:
    if lexeme.type == "SEPARATOR":
        return "`;`" if lexeme.text == ";" else "the end of the line"
    text = lexeme.text
    return f"`{text}`" if len(text) <= errors.MAX_QUOTE else f"`{text[: errors.MAX_QUOTE]}…`"


def _bracket_position(text: str, opening: Lexeme) -> str:
    line, column = errors.line_and_column(text, opening.start)
    return f"the `{opening.text}` at line {line}, column {column}"
