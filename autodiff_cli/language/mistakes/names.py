"""What is wrong with the use of a name, in people's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodiff_cli import ops
from autodiff_cli.language.code import LAYERS, Statement
from autodiff_cli.language.errors import ExpressionError, is_quotable, suggest
from autodiff_cli.language.lexer import Lexemes, written_name
from autodiff_cli.language.mistakes.notations import DERIVATIVES, DIFFERENTIATES, elsewhere
from autodiff_cli.language.source import spans

LONGEST_LIST = 200  # characters of names that an error lists

if TYPE_CHECKING:
    from autodiff_cli.language.names import Names


def misplaced(lexemes: Lexemes, statement: Statement) -> ExpressionError:
    """The error for a bare expression, or a model, that is not the last statement."""
    if statement.target is None:
        code = statement.code
        words = "only the last statement may be an expression; one that continues on the next line stands in brackets"
    else:
        code, words = statement.target, "a model `target ~ prediction` is the last statement"
    start, _ = spans(code, lexemes)[code.places[-1]]
    return ExpressionError(words, lexemes.text, start)


def without_value(lexemes: Lexemes, statement: Statement, number: int) -> ExpressionError:
    """The error for a definition or a declaration, of the name at a lexeme, that is the last statement."""
    words = "the last statement is the output, and this one only"
    if statement.parameters is None:
        return lexemes.error(f"{words} declares a shape", number)
    call = lexemes.text[lexemes.start(number) : lexemes.end(number)]
    whole = f"{lexemes.text.strip()}; {call}"
    example = f"; add a last line such as `{call}`" if is_quotable(call) else ""
    return lexemes.error(f"{words} defines a function{example}", number, whole if is_quotable(whole) else None)


def wanted(accepted: list[tuple[int, int | None]]) -> str:
    """How many arguments a function takes, of the ranges that it accepts: "takes 1 or 2 arguments"."""
    least = min(least for least, _ in accepted)
    limits = [most for _, most in accepted if most is not None]
    if len(limits) < len(accepted):
        return f"takes {least} argument or more" if least == 1 else f"takes {least} arguments or more"
    counts = [str(n) for n in range(least, max(limits) + 1)]
    return f"takes {' or '.join(counts)} argument{'s' if counts != ['1'] else ''}"


def misused_text(names: Names, number: int) -> ExpressionError:
    """The error for quoted text, at a lexeme, that is not compared with a column of text."""
    lexemes, texts = names.lexemes, names.columns.texts
    words = "quoted text is compared with a column of text, by `==` or `!=`, as in `group == 'A'`"
    if not texts:
        return lexemes.error(f"{words}; there is no such column here", number)
    is_compared = lexemes.types[max(number - 2, 0) : number] == ["NAME", "COMPARE"]
    name = lexemes.words[number - 2] if is_compared else ""
    close = suggest(name, texts) if name and name not in texts else None
    listed = ", ".join(f"`{name}`" for name in texts)
    known = f"; columns of text: {listed}" if len(listed) <= LONGEST_LIST else ""
    return lexemes.error(words + known, number, close and written_name(close))


def misused_column(lexemes: Lexemes, name: str, number: int) -> ExpressionError:
    """The error for a column of text, at a lexeme, that stands where a number does."""
    words = f"`{name}` is a column of text; it is compared with quoted text, by `==` or `!=`"
    return lexemes.error(words, number, f"{written_name(name)} == 'A'")


def too_early(names: Names, name: str, number: int) -> ExpressionError:
    """The error for a name, at a lexeme, that has a value only later, or is a function."""
    lexemes, binder = names.lexemes, names.binders[name]
    assert binder.name is not None
    line, column = lexemes.place(binder.name)
    if binder.parameters is not None:
        words = f"`{name}` is a function (line {line}, column {column}); its arguments stand in brackets"
        return lexemes.error(words, number, f"{name}(x)")
    if binder.name < number:
        return lexemes.error(f"`{name}` is used in its own binding", number)
    return lexemes.error(f"`{name}` is used before its binding in line {line}, column {column}", number)


def no_function(names: Names, name: str, number: int, is_value: bool) -> ExpressionError:
    """The error for the call, at a lexeme, of something that cannot be called, or not yet.

    Args:
        is_value: whether the name has a value there.
    """
    lexemes, binder = names.lexemes, names.binders.get(name)
    if binder is not None and binder.parameters is not None:
        assert binder.name is not None
        cycle = _cycle(names, name)
        if cycle:
            return lexemes.error(f"a function cannot call itself, directly or through others: {cycle}", number)
        line, column = lexemes.place(binder.name)
        return lexemes.error(f"`{name}` is called before its definition in line {line}, column {column}", number)
    arguments = lexemes.text[lexemes.start(number + 1) : lexemes.end(number)]
    arguments = arguments if is_quotable(arguments) else "("
    inside = arguments[1:].removesuffix(")").strip()
    if not is_value and (name in DERIVATIVES or (name.startswith("d") and lexemes.words[:number] == ["d", "/"])):
        return lexemes.error(DIFFERENTIATES, number, inside.split(",")[0] or None)
    habit = None if is_value else elsewhere(name, arguments)
    if habit is not None:
        return lexemes.error(f"there is no function `{name}`", number, habit)
    close = suggest(name, [*ops.function_names(), *LAYERS, *names.functions])
    if close is not None and not is_value and not lexemes.is_in_backticks(number):
        return lexemes.error(f"there is no function `{name}`", number, close)
    if not inside or "," in inside:
        words = f"`{name}` is not a function; one of your own is defined first, as `f(a, b) = a*b; f(x, y)`"
        return lexemes.error(words, number)
    product = f"{written_name(name)}*{arguments}"
    return lexemes.error(f"`{name}` is not a function; multiplication is written `*`", number, product)


def _cycle(names: Names, name: str) -> str:
    """The calls that lead from a function of the text back to it, as "f → g → f"; empty if none do."""
    came_from: dict[str, str] = {}
    waiting = [name]
    while waiting:
        caller = waiting.pop()
        for instruction in dict.fromkeys(names.binders[caller].code.instructions):
            called = instruction.text
            if instruction.type == "CALL" and called in names.binders and called not in came_from:
                came_from[called] = caller
                waiting.append(called)
    if name not in came_from:
        return ""
    path = [name, came_from[name]]
    while path[-1] != name:
        path.append(came_from[path[-1]])
    path.reverse()
    return " → ".join(path if len(path) <= 6 else [*path[:3], "…", *path[-2:]])
