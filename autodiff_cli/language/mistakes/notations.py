"""What other notations write, and what stands for it here."""

from __future__ import annotations

import re
import unicodedata

from autodiff_cli import ops
from autodiff_cli.language.errors import LONGEST_QUOTE, is_quotable
from autodiff_cli.language.lexer import Lexeme
from autodiff_cli.language.mistakes.quoting import ENDS_OPERAND, quote, quote_before

Words = tuple[str, str | None]  # a message and a suggestion

CHARACTERS = {
    "&": "and",
    "∑": "sum(v)",
    "∏": "prod(v)",
    "∞": "inf",
    "?": "where(condition, a, b)",
    "{": "(",
    "}": ")",
    "⋅": "*",
    "∙": "*",
    "∗": "*",
    "•": "*",
    "∕": "/",
    "⁄": "/",
    "–": "-",
    "—": "-",
    "≈": "==",
    "‘": "'A'",
    "’": "'A'",
    "“": "'A'",
    "”": "'A'",
}
PAIRS = {
    ("=", ">"): ">=",
    ("=", "<"): "<=",
    ("<", ">"): "!=",
    ("==", "="): "==",
    ("!=", "="): "!=",
    ("/", "/"): "floor(x/y)",
    ("^", "^"): "^",
}
MARKS = {"`": "a name of any characters", "'": "text", '"': "text"}  # of which one alone is a mistake

# Functions that are called otherwise elsewhere; `{}` stands for the argument where it is not the same.
FUNCTIONS = {
    "σ": "sigmoid",
    "expit": "sigmoid",
    "Γ": "gamma",
    "ψ": "digamma",
    "Ψ": "digamma",
    "θ": "heaviside",
    "Θ": "heaviside",
    "H": "heaviside",
    "step": "heaviside",
    "W": "lambertw",
    "φ": "normal_pdf",
    "phi": "normal_pdf",
    "tg": "tan",
    "ctg": "cot",
    "cotan": "cot",
    "cosec": "csc",
    "sh": "sinh",
    "ch": "cosh",
    "th": "tanh",
    "arctg": "atan",
    "arsinh": "asinh",
    "arcosh": "acosh",
    "artanh": "atanh",
    "lg": "log10",
    "lb": "log2",
    "ld": "log2",
    "sgn": "sign",
    "fabs": "abs",
    "int": "floor",
    "power": "pow",
    "average": "mean",
    "avg": "mean",
    "product": "prod",
    "Σ": "sum",
    "Π": "prod",
    "factorial": "gamma({} + 1)",
    "if": "where",
    "ifelse": "where",
    "iif": "where",
    "piecewise": "where",
}


DERIVATIVES = {"grad", "diff", "derivative", "deriv", "D"}  # what is called elsewhere to differentiate
DIFFERENTIATES = "`grad` gives derivatives of what it is given, which is the expression alone"


def elsewhere(name: str, arguments: str) -> str | None:
    """The call here of a function that is called otherwise elsewhere, or is written with the name of a library or
    behind its argument; None if there is none.

    >>> elsewhere("σ", "(x)"), elsewhere("np.sin", "(x)"), elsewhere("x.sin", "()"), elsewhere("factorial", "(n)")
    ('sigmoid(x)', 'sin(x)', 'sin(x)', 'gamma(n + 1)')
    """
    inside = arguments[1:].removesuffix(")").strip()
    before, _, last = name.rpartition(".")
    if before and ops.function(last):
        return f"{last}{arguments}" if inside else f"{last}({before})"
    found = FUNCTIONS.get(name)
    if found is None or "{}" not in found:
        return found and f"{found}{arguments}"
    return found.format(inside or "x")


def of_habit(text: str, before: list[Lexeme], found: Lexeme, after: list[Lexeme]) -> Words | None:
    """What to say of a lexeme that does not fit, if it is a habit from elsewhere that takes more than one lexeme.

    Args:
        before, after: the lexemes around it.
    """
    last = before[-1] if before else None
    follows_name = last is not None and last.type == "NAME" and last.end == found.start
    if found.text[:1] in MARKS and found.type in ("OTHER", "TEXT"):
        return _mark(text, found, follows_name)
    if last is None:
        return None
    if found.text == "|" and follows_name and ops.function(last.text):
        return _BAR, f"{last.text}({_absolute(text, found)})"
    if found.text == "!" and last.type in ENDS_OPERAND:
        return "`!` is not in the language; a factorial is a gamma function", f"gamma({quote_before(text, before)} + 1)"
    if found.text == "if" or (last.text == "if" and last.type == "NAME"):
        return "`if` is not in the language; a choice is a function", "where(condition, a, b)"
    if last.text == "lambda" and found.type == "NAME":
        return "`lambda` is not in the language; a function has a name, as `f(x) = x^2; f(3)`", None
    if [lexeme.text for lexeme in before[:2]] == ["d", "/"] and len(before) == 3 and last.text.startswith("d"):
        rest = text[found.start :].strip()
        return DIFFERENTIATES, rest if is_quotable(rest) else None
    if found.type == "COMMA" and [lexeme.type for lexeme in after[:2]] == ["NAME", "EQUAL"]:
        name = after[0].text
        return f"the values of variables are no part of the expression; the option `--{name} 2` gives one", None
    return _power_of_function(text, before, found, after)


def _power_of_function(text: str, before: list[Lexeme], found: Lexeme, after: list[Lexeme]) -> Words | None:
    """What to say of `sin^2(x)`, `sin²x` and `sin^-1(x)`, at what follows the exponent."""
    start = next((k for k in range(len(before) - 1, max(len(before) - 5, -1), -1) if before[k].type == "NAME"), None)
    if start is None or found.type not in ("LPAR", "NAME", "NUMBER"):
        return None
    function = before[start].text
    types = [lexeme.type for lexeme in before[start + 1 :]]
    if types not in (["SUPERSCRIPT"], ["POWER", "NUMBER"], ["POWER", "SIGN", "NUMBER"]) or not ops.function(function):
        return None
    exponent = text[before[start + 1].start : before[-1].end]
    operand = quote(text, found, after)
    operand = operand if found.type == "LPAR" else f"({operand})"
    if exponent.lstrip("^*") in ("-1", "⁻¹") and ops.function(f"a{function}"):
        return f"`{function}` is a function; its inverse is another one", f"a{function}{operand}"
    return f"`{function}` is a function; a power of its value stands after it", f"{function}{operand}{exponent}"


def _mark(text: str, found: Lexeme, follows_name: bool) -> Words | None:
    """What to say of a quotation mark or a backtick."""
    mark = found.text[0]
    if mark == "'" and follows_name:
        return "a prime is not in the language; `grad` gives the derivatives of an expression", None
    if found.type == "TEXT":
        return None
    if text.startswith("``", found.start):
        return "there is nothing between these backticks; in them a name has any characters", None
    return f"this {mark} is never closed; two of them enclose {MARKS[mark]}", None


_OPERAND = re.compile(r"\s*(?:\(([^()]*)\)|(\w+))")
_BRACES = re.compile(r"\{([^{}]*)\}")
_PARTIAL = re.compile(r"∂\w*\s*/\s*∂\w+")
_BAR = "`|` is not in the language; the size of a number is a function"


def _absolute(text: str, bar: Lexeme) -> str:
    """What is meant by bars around an operand, of which this is the first."""
    inside, closing, _ = text[bar.end : bar.end + LONGEST_QUOTE].partition("|")
    return f"abs({inside.strip()})" if closing and inside.strip() and is_quotable(inside) else "abs(x)"


def strange(text: str, last: Lexeme | None, found: Lexeme) -> Words:
    """What to say of a character that begins nothing in the language."""
    character = found.text
    doubled = text.startswith(character * 2, found.start)
    if character == "|":
        if doubled or (last is not None and last.type in ENDS_OPERAND):
            return "`|` is not in the language; the logical or is a word", "or"
        return _BAR, _absolute(text, found)
    if character == "!":
        return "`!` is not in the language", "not"
    if character == "\\":
        return "`\\` is not in the language; formulas are typed as in `sqrt(x)/2`, not in LaTeX", None
    if character == "√":
        operand = _OPERAND.match(text, found.end, found.end + LONGEST_QUOTE)
        return "`√` is not in the language", f"sqrt({(operand and (operand[1] or operand[2])) or 'x'})"
    if character == "∂" and (quotient := _PARTIAL.match(text, found.start)):
        rest = text[quotient.end() :].strip()
        return DIFFERENTIATES, rest if rest and is_quotable(rest) else None
    if character == "{" and last is not None and last.type == "NAME" and (braces := _BRACES.match(text, found.start)):
        called = f"{last.text}({braces[1]})"
        return "`{` is not in the language; arguments stand in round brackets", called if is_quotable(called) else "("
    if character in CHARACTERS:
        shown = character * 2 if character == "&" and doubled else character
        return f"`{shown}` is not in the language", CHARACTERS[character]
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"the character U+{ord(character):04X} cannot stand in an expression", None
    if character in "⁺⁻⁼⁽⁾ⁱⁿ":
        return "only whole numbers are read as superscripts", "^"
    plain = unicodedata.normalize("NFKC", character).replace("⁄", "/")
    if plain.isascii() and plain != character:
        return f"`{character}` is not in the language", f"({plain})" if len(plain) > 1 else plain
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return "the digits of a number are 0 to 9", str(digit)
    return f"`{character}` is not in the language", None
