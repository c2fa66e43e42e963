"""Operands of a text, to be repeated in suggestions."""

from __future__ import annotations

from autodiff_cli.language.errors import LONGEST_QUOTE, is_quotable
from autodiff_cli.language.lexer import Lexeme

ENDS_OPERAND = {"NUMBER", "NAME", "TEXT", "RPAR", "RSQB", "SUPERSCRIPT"}
CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB"}


def quote(text: str, found: Lexeme, after: list[Lexeme]) -> str:
    """The operand that begins with `found`, to repeat in a suggestion: brackets to the end if they are short."""
    whole = [found, *after[:LONGEST_QUOTE]]
    depth = 0
    for lexeme, following in zip(whole, [*whole[1:], None], strict=True):
        depth += (lexeme.type in CLOSING) - (lexeme.type in CLOSING.values())
        called = lexeme.type == "NAME" and following is not None and following.type == "LPAR"
        if depth == 0 and not called:
            quoted = text[found.start : lexeme.end]
            return quoted if is_quotable(quoted) else found.text
    return found.text


def quote_before(text: str, before: list[Lexeme]) -> str:
    """The operand that ends before the spot, to repeat in a suggestion: from its bracket or function if it is short."""
    depth, start = 0, len(before)
    while start:
        start -= 1
        lexeme = before[start]
        depth += (lexeme.type in CLOSING.values()) - (lexeme.type in CLOSING)
        applied = lexeme.type in CLOSING and start > 0 and before[start - 1].type in ENDS_OPERAND
        if depth == 0 and lexeme.type != "SUPERSCRIPT" and not applied:
            break
    quoted = text[before[start].start : before[-1].end]
    return quoted if is_quotable(quoted) else before[-1].text
