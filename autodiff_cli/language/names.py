"""Name resolution, the second step of reading an expression: `resolve` finds the meaning of each name of a text.

A name is bound by a statement, defined as a function, a constant, or free. Free names become the variables of an
expression, or the columns and parameters of a model.

Columns that do not hold numbers can be compared with quoted text (`group == 'A'`), and can index parameters that have
one value for each level (`a[group]`). Either gives one number per row, so each such term becomes an input leaf of its
own (`TextMatch`, `LevelParameter`). The caller, who has the rows, supplies its values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Op, Shape, get_op
from autodiff_cli.language import lexer, parser
from autodiff_cli.language.errors import ExpressionError, if_quotable, is_quotable, suggest
from autodiff_cli.language.lexer import BACKTICK, BUILT_FUNCTIONS, TRANSPOSE_SUFFIX, Lexemes, is_level_name, quote_name
from autodiff_cli.language.parser import Code, Instruction, LayerCall, ParsedText, Statement
from autodiff_cli.numbers.floats import DIGITS

# --- Columns that do not hold numbers


class ColumnNames(NamedTuple):
    """The columns of the data that do not hold numbers, by canonical names.

    Attributes:
        texts: the columns of text.
        levels: the columns whose levels can index a parameter.
    """

    texts: Collection[str] = ()
    levels: Collection[str] = ()


NO_COLUMNS = ColumnNames()


class TextMatch(NamedTuple):
    """A comparison of a column with a text: 1 in the rows where they are equal, else 0."""

    column: str
    text: str

    def __str__(self) -> str:
        mark = '"' if "'" in self.text else "'"
        return f"({_in_backticks(self.column)} == {mark}{self.text}{mark})"


class LevelParameter(NamedTuple):
    """A parameter with one value for each level of a column: in each row, the value for that row's level.

    Several columns, `a[type, dose]`, count as one column `type, dose` whose levels are their combinations.
    """

    parameter: str
    column: str

    def __str__(self) -> str:
        return f"{quote_name(self.parameter)}[{_in_backticks(self.column)}]"


JOINT_SEPARATOR = ", "  # between the names of columns whose combinations are levels, and between their labels


def joined_columns(name: str, names: Collection[str]) -> list[str]:
    """Return the columns whose combinations of labels are the levels of a column; the column itself if it exists.

    >>> joined_columns("type, dose", ["dose", "type"]), joined_columns("dose", ["dose", "type"])
    (['type', 'dose'], ['dose'])
    """
    return [name] if name in names else name.split(JOINT_SEPARATOR)


class LevelEffect(NamedTuple):
    """A random effect: in each row a number that belongs to that row's level of a column, and is not a parameter."""

    parameter: str
    column: str


def _in_backticks(name: str) -> str:
    """Return a name in backticks, even where it needs none: `quote_name` then leaves the leaf's text as it is."""
    return f"{BACKTICK}{name}{BACKTICK}"


def replace_column_terms(code: Code, names: ResolvedNames, columns: ColumnNames) -> Code:
    """Return the code with a `LEAF` instruction for each comparison with text and each parameter with levels.

    A comparison with text that is part of a chained comparison is left as it is.

    Args:
        code: the code of an expression.
        names: the names of the text; their `column_leaves` receive the meaning of each leaf.
        columns: the columns of the data that do not hold numbers.
    """
    instructions, numbers = list(code.instructions), list(code.numbers)
    negations: list[tuple[int, Instruction]] = []
    for k in range(2, len(instructions)):
        last = instructions[k]
        count = last.operands if last.type == "INDEX" else 2
        operands = instructions[max(k - count, 0) : k]
        leaf = _column_leaf(operands, last, columns)
        if leaf is None:
            continue
        following = names.lexemes.types[max(numbers[k - 2 : k + 1]) + 1]
        if isinstance(leaf, TextMatch) and following == "COMPARE":
            continue
        if last.text in ("!=", "≠"):
            negations.append((k, Instruction("PREFIX", "not", 1)))
        instructions[k - count : k] = [Instruction("WORD", word.text, 0) for word in operands]
        instructions[k] = Instruction("LEAF", str(leaf), count)
        names.column_leaves[str(leaf)] = leaf
    for k, negation in reversed(negations):
        instructions.insert(k + 1, negation)
        numbers.insert(k + 1, numbers[k])
    return Code(instructions, numbers)


def names_compared_with_text(lexemes: Lexemes) -> set[str]:
    """Return the names of which the text says that they are equal to quoted text, or that they are not."""
    types, words = lexemes.types, lexemes.words
    equalities = [k for k, word in enumerate(words) if parser.OPERATOR_ALIASES.get(word, word) in ("==", "!=")]
    sides = [(a, b) for k in equalities for a, b in ((k - 1, k + 1), (k + 1, k - 1))]
    return {words[a] for a, b in sides if (types[a], types[b]) == ("NAME", "TEXT")}


def _column_leaf(
    operands: Sequence[Instruction], last: Instruction, columns: ColumnNames
) -> TextMatch | LevelParameter | None:
    """Return the comparison with text, or the parameter with levels, that an instruction and its operands form; None if
    they form neither.
    """
    if last.type == "INDEX" and all(word.type == "NAME" for word in operands):
        name = JOINT_SEPARATOR.join(word.text for word in operands[1:])
        is_known = columns.levels and {*joined_columns(name, columns.levels)} <= {*columns.levels}
        return LevelParameter(operands[0].text, name) if is_known else None
    if last.type != "INFIX" or parser.OPERATOR_ALIASES.get(last.text, last.text) not in ("==", "!="):
        return None
    first, second = operands
    types = first.type, second.type
    if types == ("TEXT", "NAME"):
        first, second = second, first
    elif types != ("NAME", "TEXT"):
        return None
    return TextMatch(first.text, second.text[1:-1]) if first.text in columns.texts else None


# --- Names

# The constants, and how to write each where its name means something else.
CONSTANTS = {**DIGITS, "inf": "(1/0)", "nan": "(0/0)"}

_BRACKET_OPS = {"ARRAY": get_op("stack"), "INDEX": get_op("index")}
LAYER_ARITY = (2, 3)  # the least and the largest number of arguments of a layer
_SHAPE_PATTERN = r"([0-9]{1,9})(?:\s*[x×*]\s*([0-9]{1,9}))?"  # not compiled here: few texts declare a shape


class FunctionDefinition(NamedTuple):
    """A function that the text defines."""

    name: str
    parameters: tuple[str, ...]
    code: Code


@dataclass(slots=True)
class ResolvedNames:
    """The meaning of each name of a text. A name that is neither bound nor a constant is free.

    Attributes:
        lexemes: the lexemes of the text.
        statements: the parsed statements; after an error, those before it.
        variables: names of constants to read as variables.
        columns: the columns of the data that do not hold numbers.
        column_leaves: the comparison with text, or the parameter with levels, that a leaf stands for, by its name.
        first_uses: the free names and constants that are used, each with the number of the lexeme of its first use.
        binding_statements: the first statement of the text that binds each name, or defines it as a function.
        functions: the functions that the text defines, by name.
        shape_lexemes: the number of the lexeme where each name with a declared shape is declared.
        shapes: the declared shapes, by name.
        operations: the built-in operation of each call, and of each pair of square brackets.
        notes: notes for the user on a text without mistakes, as sentences.
        error: the first mistake; None if there is none.
    """

    lexemes: Lexemes
    statements: list[Statement]
    variables: frozenset[str]
    columns: ColumnNames
    column_leaves: dict[str, TextMatch | LevelParameter] = field(default_factory=dict)
    first_uses: dict[str, int] = field(default_factory=dict)
    binding_statements: dict[str, Statement] = field(default_factory=dict)
    functions: dict[str, FunctionDefinition] = field(default_factory=dict)
    shape_lexemes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    operations: dict[Instruction, Op] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: ExpressionError | None = None

    def is_constant(self, name: str) -> bool:
        """Whether a name that the text does not bind is a constant."""
        return name in CONSTANTS and name not in self.variables


def resolve(parsed: ParsedText, variables: frozenset[str], columns: ColumnNames) -> ResolvedNames:
    """Resolve the names of a text.

    A mistake is returned as `ResolvedNames.error`, not raised.

    Args:
        parsed: the statements of the text.
        variables: names of constants to read as variables.
        columns: the columns of the data that do not hold numbers.
    """
    names = ResolvedNames(parsed.lexemes, parsed.statements, variables, columns, error=parsed.error)
    if columns.texts or columns.levels:
        names.statements = [_replace_column_terms(names, statement) for statement in parsed.statements]
    resolver = _Resolver(names)
    for number, statement in enumerate(names.statements):
        try:
            resolver.resolve(statement, number == len(names.statements) - 1)
        except ExpressionError as error:  # it stands earlier in the text than a syntax error
            names.statements, names.error = names.statements[:number], error
            break
    if names.error is None:
        names.notes = tuple(resolver.notes())
    return names


def _replace_column_terms(names: ResolvedNames, statement: Statement) -> Statement:
    """Return a statement in which comparisons with text, and parameters with levels, are leaves."""
    parameters = {parameter.text for parameter in (statement.parameters or parser.EMPTY_CODE).instructions}
    columns = ColumnNames(*({*kind} - parameters for kind in names.columns))
    code = replace_column_terms(statement.code, names, columns)
    target = statement.target and replace_column_terms(statement.target, names, columns)
    return statement._replace(code=code, target=target)


class _Resolver:
    """Checks the statements of a text in their order, and records what their names mean."""

    def __init__(self, names: ResolvedNames) -> None:
        self.names = names
        self.lexemes = names.lexemes
        self.defined_names: set[str] = set()  # the names with a value so far
        self.checked: set[Instruction] = set()  # instructions that need no second check later in the text
        self.shadowed_constants: dict[str, None] = {}  # constants whose names are bound or declared, in order
        for statement in names.statements:
            if statement.name is not None and statement.shape is None:
                names.binding_statements.setdefault(self.lexemes.words[statement.name], statement)

    def resolve(self, statement: Statement, is_last: bool) -> None:
        """Check one statement, and record the names that it binds."""
        name = statement.name
        if name is None:
            if not is_last:
                raise misplaced_statement_error(self.lexemes, statement)
            self.check(statement.target or parser.EMPTY_CODE)
            self.check(statement.code)
        elif statement.shape is not None:
            self.declare(name, statement.shape)
        elif statement.parameters is not None:
            self.define(statement, name, statement.parameters)
        else:
            self.check_bound_once(statement, name)
            self.note_constant(self.lexemes.words[name])
            self.check(statement.code)
            self.defined_names.add(self.lexemes.words[name])
            return
        if is_last and name is not None:
            raise missing_output_error(self.lexemes, statement, name)

    def check_bound_once(self, statement: Statement, name: int) -> None:
        """Raise ExpressionError for a name that an earlier statement binds."""
        word = self.lexemes.words[name]
        first = self.names.binding_statements[word]
        if first is not statement:
            assert first.name is not None
            place = f"first in {self.lexemes.place(first.name)}"
            raise self.lexemes.error(f"`{word}` is bound twice; {place}; equations are one list, with `==`", name)

    def note_constant(self, name: str) -> None:
        """Record a name that hides the constant of the same name, for a note."""
        if name in CONSTANTS:
            self.shadowed_constants[name] = None

    def declare(self, name: int, shape: int) -> None:
        """Record the shape that a statement declares for a free name."""
        names, word = self.names, self.lexemes.words[name]
        if word in names.shape_lexemes:
            first = self.lexemes.place(names.shape_lexemes[word])
            raise self.lexemes.error(f"`{word}` is declared twice; first in {first}", name)
        if role := self.role(word):
            raise self.lexemes.error(f"`{word}` is {role}; only a free name can have a declared shape", name)
        if word in self.defined_names:
            raise self.lexemes.error(f"`{word}` is used before its declaration", name)
        names.shapes[word] = self.shape(word, shape)
        names.shape_lexemes[word] = name

    def shape(self, name: str, number: int) -> Shape:
        """Return the shape that a declaration states."""
        word, text = self.lexemes.words[number], self.lexemes.text
        shape = word[1:].strip()
        start = self.lexemes.start(number) + word.index(shape, 1)
        if shape.startswith("="):
            raise self.lexemes.error("`:=` is not in the language; use `=` to bind a value", number, "=")
        match = re.fullmatch(_SHAPE_PATTERN, shape)
        if match is None:
            words = f"a shape is one or two integers, as in `{name}: 3` and `{name}: 2x3`"
            raise ExpressionError(words, text, start)
        sizes = tuple(int(size) for size in match.groups() if size is not None)
        if 0 in sizes:
            raise ExpressionError("an array cannot have a dimension of length 0", text, start)
        return sizes

    def define(self, statement: Statement, name: int, parameters: Code) -> None:
        """Check the definition of a function, and record it."""
        word = self.lexemes.words[name]
        if ops.overloads(word) or word in BUILT_FUNCTIONS:
            words = f"`{word}` is a built-in function; choose another name for your own (a model has `~`, not `=`)"
            raise self.lexemes.error(words, name)
        self.check_bound_once(statement, name)
        if not parameters.numbers:
            message = "a function needs parameters; to bind a value, leave out the brackets"
            raise self.lexemes.error(message, name, f"{word} =")
        names: dict[str, None] = {}
        for parameter, number in zip(*parameters, strict=True):
            if parameter.type != "NAME":
                raise self.lexemes.error(f"the parameters of a function must be names, as in `{word}(t) = t^2`", number)
            if parameter.text in names:
                raise self.lexemes.error(f"`{word}` has two parameters named `{parameter.text}`", number)
            names[parameter.text] = None
        self.check(statement.code, names)
        self.names.functions[word] = FunctionDefinition(word, tuple(names), statement.code)

    def check(self, code: Code, parameters: Container[str] = ()) -> None:
        """Check an expression, and record the names that it uses.

        Args:
            code: the code of the expression.
            parameters: the parameters of the function whose body it is.
        """
        checked = self.checked
        if checked.issuperset(code.instructions):
            return
        for instruction, number in zip(*code, strict=True):
            if instruction in checked or (instruction.type == "NAME" and instruction.text in parameters):
                continue
            if instruction.type == "NAME":
                self.use_name(instruction.text, number)
            elif isinstance(instruction, LayerCall):
                self.check_layer(instruction, number)
            elif instruction.type in ("CALL", *_BRACKET_OPS):
                self.check_call(instruction, number, parameters)
            elif instruction.type == "TEXT":
                raise misused_text_error(self.names, number)
            elif instruction.type == "LEAF":
                self.check_leaf(self.names.column_leaves[instruction.text], number, parameters)
            checked.add(instruction)

    def use_name(self, name: str, number: int) -> None:
        """Record the first use of a constant or a free name."""
        if name in self.defined_names:
            return
        if name in self.names.columns.texts:
            words = f"`{name}` is a column of text; it can only be compared with quoted text, by `==` or `!=`, as in "
            raise self.lexemes.error(f"{words}`{quote_name(name)} == 'A'`", number)
        if name in self.names.binding_statements:
            raise early_use_error(self.names, name, number)
        is_transposed = name.endswith(TRANSPOSE_SUFFIX) and name not in self.names.variables
        if is_transposed and not self.lexemes.is_in_backticks(number):
            words = "`.T` is not in the language; use the function `transpose`"
            raise self.lexemes.error(words, number, f"transpose({name.removesuffix(TRANSPOSE_SUFFIX)})")
        if not self.names.is_constant(name):
            self.note_constant(name)
        self.names.first_uses[name] = number
        self.defined_names.add(name)

    def role(self, name: str, parameters: Container[str] = ()) -> str:
        """Return what a name is that is not free; empty for a free name."""
        if name in self.names.binding_statements or name in parameters:
            return "bound in this text"
        return "a constant" if self.names.is_constant(name) else ""

    def check_leaf(self, leaf: TextMatch | LevelParameter, number: int, parameters: Container[str]) -> None:
        """Record the leaf of a comparison with text or a parameter with levels.

        Raises:
            ExpressionError: for levels of a name that is not free.
        """
        if isinstance(leaf, LevelParameter):
            name = leaf.parameter
            if role := self.role(name, parameters):
                words = f"`{name}` is {role}; only a free name can have a value for each level of `{leaf.column}`"
                raise self.lexemes.error(words, number)
        self.names.first_uses.setdefault(str(leaf), number)

    def check_call(self, call: Instruction, number: int, parameters: Container[str]) -> None:
        """Record the operation of a call or of a pair of square brackets, unless it calls a function of the text."""
        if call.type == "CALL" and (call.text in self.names.functions or call.text in BUILT_FUNCTIONS):
            self.check_arity(call, number)  # a call of a layer with fewer than two arguments is not a LayerCall
            return
        candidates = (_BRACKET_OPS[call.type],) if call.type in _BRACKET_OPS else ops.overloads(call.text)
        if not candidates:
            raise unknown_function_error(
                self.names, call, number, call.text in self.defined_names or call.text in parameters
            )
        if call.type == "INDEX" and not candidates[0].accepts(call.operands):
            raise self.lexemes.error("an array takes one or two indices, as in `v[0]` and `M[i, j]`", number)
        if call.type == "CALL":
            self.check_arity(call, number)
        self.names.operations[call] = next((op for op in candidates if op.accepts(call.operands)), candidates[0])

    def check_layer(self, call: LayerCall, number: int) -> None:
        """Check the arguments of a layer."""
        from autodiff_cli.language.arrays import LAYER_EXAMPLES, activation_op

        example = f", as in `{LAYER_EXAMPLES[call.text]}`"
        self.check_arity(call, number, example)
        if call.operands == 3:
            raise self.lexemes.error(f"the activation must be the name of a function{example}", number)
        activation_op(call, self.lexemes)

    def check_arity(self, call: Instruction, number: int, example: str = "") -> None:
        """Raise ExpressionError, which ends with an example, for a call with a wrong number of arguments."""
        if not _accepts(self.names, call.text, call.operands):
            words = f"`{call.text}` {arity_text(_arities(self.names, call.text))}, not {call.operands}{example}"
            raise self.lexemes.error(words, number, self._corrected_call(call, number))

    def _corrected_call(self, call: Instruction, number: int) -> str | None:
        """Return a call, at a lexeme, with the arguments that its function takes; None if they are unknown."""
        from autodiff_cli.language.diagnostics import CORRECT_CALLS

        inside = self.lexemes.text[self.lexemes.start(number + 1) + 1 : self.lexemes.end(number) - 1].strip()
        is_known = (call.operands == 1) is (call.text in BUILT_FUNCTIONS)  # a layer, or several elements of an array
        return if_quotable(CORRECT_CALLS.get(call.text, "").format(inside), None) if inside and is_known else None

    def notes(self) -> Iterator[str]:
        """Yield notes for the user: constants that are hidden, and bindings that are not used."""
        for name in self.shadowed_constants:
            digits = CONSTANTS[name]
            value = f" {digits[:7]}…" if digits[0].isdigit() else ""
            yield f"`{name}` is a variable here, not the constant{value}"
        if _ARROW.match(self.lexemes.text):
            yield _ARROW_HINT
        for call in _NUMBER_FIRST.finditer(self.lexemes.text):
            if call.start() in map(self.lexemes.start, range(len(self.lexemes.words))):  # else in a comment or a name
                role = "base" if call["f"] == "log" else "degree"
                written = f"`{call['f']}({call['x']}, {call['n']})`"
                yield f"`{call['x']}` is the {role} in `{call[0]}`; for the {role} {call['n']}, write {written}"
        used = {(instruction.text, instruction.type == "CALL") for instruction in self.checked}
        unused: dict[str, list[str]] = {}
        for statement in self.names.statements[:-1]:
            assert statement.name is not None
            name, is_function = self.lexemes.words[statement.name], statement.parameters is not None
            if (name, is_function) not in used and not is_level_name(name):  # the level's parameter uses it
                done = "declared" if statement.shape is not None else "defined" if is_function else "bound"
                unused.setdefault(done, []).append(f"`{name}`")
        for done, names in unused.items():
            yield f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {done} but never used"


# --- Errors

_ARROW = re.compile(r"\s*(\w+)\s*<-(?= )")  # R's assignment; `x<-2` and `x < -2` are comparisons
_NUMBER_FIRST = re.compile(r"\b(?P<f>log|root)\(\s*(?P<n>\d+)\s*,\s*(?P<x>[^\W\d]\w*)\s*\)")  # as in other tools
_ARROW_HINT = "`<-` is a comparison with a negative number; a name is bound by `=`"
MAX_LIST_LENGTH = 200  # characters; an error leaves out a list of column names that is longer


def misplaced_statement_error(lexemes: Lexemes, statement: Statement) -> ExpressionError:
    """Return the error for an expression or a model that is not the last statement."""
    if statement.target is None:
        code = statement.code
        words = "only the last statement may be an expression; put several outputs, or a continued line, in brackets"
    else:
        code, words = statement.target, "a model `target ~ prediction` must be the last statement"
    start, _ = parser.spans(code, lexemes)[code.numbers[-1]]
    if arrow := _ARROW.match(lexemes.text, start):
        return ExpressionError(_ARROW_HINT, lexemes.text, start, f"{arrow[1]} =")
    return ExpressionError(words, lexemes.text, start)


def missing_output_error(lexemes: Lexemes, statement: Statement, number: int) -> ExpressionError:
    """Return the error for a text that ends in a definition or a declaration, of the name at a lexeme."""
    words = "the last statement must be the output, but this one only"
    if statement.parameters is None:
        return lexemes.error(f"{words} declares a shape", number)
    call = lexemes.text[lexemes.start(number) : lexemes.end(number)]
    example = f"; add a last line such as `{call}`" if is_quotable(call) else ""
    called = if_quotable(f"{lexemes.text.strip().rstrip('; ')}; {call}", None)
    return lexemes.error(f"{words} defines a function{example}", number, called)


def arity_text(accepted: list[tuple[int, int | None]]) -> str:
    """Return how many arguments a function takes, from the ranges that it accepts: "takes 1 or 2 arguments"."""
    least = min(least for least, _ in accepted)
    limits = [most for _, most in accepted if most is not None]
    if len(limits) < len(accepted):
        return f"takes at least {least} argument{'s' if least != 1 else ''}"
    counts = [str(n) for n in range(least, max(limits) + 1)]
    return f"takes {' or '.join(counts)} argument{'s' if counts != ['1'] else ''}"


def misused_text_error(names: ResolvedNames, number: int) -> ExpressionError:
    """Return the error for quoted text, at a lexeme, that is not compared with a column of text."""
    lexemes, texts = names.lexemes, names.columns.texts
    if len(lexemes.words) == 2:  # the text, and the end
        words = "leave out the quotation marks around the formula"
        return lexemes.error(words, number, if_quotable(lexemes.words[number][1:-1].strip(), None))
    if re.search(r"^Q\($|^\w+\[$", "".join(lexemes.words[max(number - 2, 0) : number])):  # `Q("a b")`, `df["a b"]`
        words = "a column is written by its name alone, in backticks if it is not one word"
        return lexemes.error(words, number, quote_name(lexemes.words[number][1:-1]))
    if re.search(r"\d[-/:]\d|\d\.\d+\.\d", quoted := lexemes.words[number][1:-1]):
        return lexemes.error(lexer.DATE_ADVICE.format(quoted), number)
    words = "quoted text can only be compared with a column of text, by `==` or `!=`, as in `group == 'A'`"
    if lexemes.types[number - 1] == "EQUAL":
        return lexemes.error(words, number - 1, "==")
    is_compared = lexemes.types[max(number - 2, 0) : number] == ["NAME", "COMPARE"]
    name = lexemes.words[number - 2] if is_compared else ""
    close = suggest(name, texts) if name and name not in texts else None
    listed = ", ".join(f"`{name}`" for name in texts)
    columns = f"; columns of text: {listed}" if 0 < len(listed) <= MAX_LIST_LENGTH else ""
    return lexemes.error(words + columns, number, close and quote_name(close))


def early_use_error(names: ResolvedNames, name: str, number: int) -> ExpressionError:
    """Return the error for a name that is used, at a lexeme, before its binding, or that is a function."""
    lexemes, binder = names.lexemes, names.binding_statements[name]
    assert binder.name is not None
    place = lexemes.place(binder.name)
    if binder.parameters is not None:
        return lexemes.error(f"`{name}` is a function ({place}); its arguments go in brackets", number, f"{name}(x)")
    if binder.name < number:
        return lexemes.error(f"`{name}` is used in its own binding", number)
    return lexemes.error(f"`{name}` is used before its binding in {place}", number)


def unknown_function_error(names: ResolvedNames, call: Instruction, number: int, is_value: bool) -> ExpressionError:
    """Return the error for a call, at a lexeme, of a name that is not a function, or is not yet defined.

    Args:
        is_value: whether the name has a value there, as a variable or by a binding.
    """
    from autodiff_cli.language.diagnostics import MODEL_FUNCTIONS, translate_call

    lexemes, name, binder = names.lexemes, call.text, names.binding_statements.get(call.text)
    if binder is not None and binder.parameters is not None:
        assert binder.name is not None
        if cycle := _call_cycle(names, name):
            return lexemes.error(f"a function cannot call itself, directly or through others: {cycle}", number)
        return lexemes.error(f"`{name}` is called before its definition in {lexemes.place(binder.name)}", number)
    arguments = if_quotable(lexemes.text[lexemes.start(number + 1) : lexemes.end(number)], "(")
    inside = arguments[1:].removesuffix(")").strip()
    is_quotient = name.startswith("d") and lexemes.words[:number] == ["d", "/"]
    translation = translate_call("derivative" if is_quotient else name, arguments, call.operands)
    if translation is not None and not is_value:
        return lexemes.error(translation[0] or f"there is no function `{name}`", number, translation[1])
    if name in MODEL_FUNCTIONS and "TILDE" in lexemes.types and inside.isidentifier():
        meaning = MODEL_FUNCTIONS[name].format(inside)
        return lexemes.error(f"`{name}` is not a function; {meaning}, and a product `{name}*{inside}`", number)
    if call.operands == 1 and inside and (is_value or lexemes.is_in_backticks(number) or len(name) == 1):
        words = f"`{name}` is not a function; multiplication is written `*`"
        return lexemes.error(words, number, f"{quote_name(name)}*{arguments}")
    functions = [*ops.function_names(), *BUILT_FUNCTIONS, *names.functions]
    callable_functions = [function for function in functions if _accepts(names, function, call.operands)]
    if name[1:] in callable_functions and name[0] in lexemes.words:
        return lexemes.error(f"`{name}` is one name; multiplication is written `*`", number, f"{name[0]}*{name[1:]}")
    for candidates in () if is_value else (callable_functions, functions):
        close = suggest(name, candidates, allow_prefix=False)
        if close in callable_functions:
            return lexemes.error(f"there is no function `{name}`", number, close)
        if close is not None and close[0] == name[0].lower():
            words = f"there is no function `{name}`; `{close}` {arity_text(_arities(names, close))}"
            return lexemes.error(words, number)
    words = f"`{name}` is not a function; define your own before you call it: `f(a, b) = a*b; f(x, y)`"
    return lexemes.error(words, number)


def _arities(names: ResolvedNames, function: str) -> list[tuple[int, int | None]]:
    """Return the ranges of the numbers of arguments that a function accepts."""
    if function in names.functions:
        count = len(names.functions[function].parameters)
        return [(count, count)]
    if function in BUILT_FUNCTIONS:
        return [(2, 2) if function == "convolve" else LAYER_ARITY]
    arities = [(op.min_inputs, op.max_inputs) for op in ops.overloads(function)]
    return [(3, 3), *arities] if function == "spline" else arities  # or x and two arrays


def _accepts(names: ResolvedNames, function: str, count: int) -> bool:
    """Whether a function accepts this number of arguments."""
    return any(least <= count and (most is None or count <= most) for least, most in _arities(names, function))


def _call_cycle(names: ResolvedNames, name: str) -> str:
    """Return the calls that lead from a function of the text back to itself, as "f → g → f"; empty if none do."""
    callers: dict[str, str] = {}
    stack = [name]
    while stack:
        caller = stack.pop()
        for instruction in dict.fromkeys(names.binding_statements[caller].code.instructions):
            callee = instruction.text
            if instruction.type == "CALL" and callee in names.binding_statements and callee not in callers:
                callers[callee] = caller
                stack.append(callee)
    if name not in callers:
        return ""
    path = [name, callers[name]]
    while path[-1] != name:
        path.append(callers[path[-1]])
    path.reverse()
    return " → ".join(path if len(path) <= 6 else [*path[:3], "…", *path[-2:]])
