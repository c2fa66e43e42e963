"""The commands of `autodiff`, and the parsing of a command line into options, values and arguments.

Each command is a function of its own name, which `command` turns into a `Command`; `COMMANDS` has the module it is in.
Only the module of the command that runs is imported. The parameters of the function, and the fields of the records that
it takes, declare the arguments and options, each once. Typer writes their help.

Words are split and converted here. A variable's value is an option of its own name, and an expression may begin with
`-`; only the command and its options together tell these apart. Options that several commands share stand at the end.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, EnumType, StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli import options as schema
from autodiff_cli.cli.environment import BadInput, Environment, check_not_replaced
from autodiff_cli.language import lexer
from autodiff_cli.language.errors import join_words, suggest
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, is_signed_number, split_assignment
from autodiff_cli.options import Option, OptionField, Restriction, at_least, between, option, other_tools

if TYPE_CHECKING:
    from autodiff_cli.cli.environment import ExitStatus, Output

HELP = ("-h", "--help")
VERSION = ("-V", "--version")
# These words are never expressions in any command, so that scripts stay valid if a command gets these options.
NEVER_EXPRESSIONS = (*HELP, "-o")
EXPRESSIONS = ("EXPR", "MODEL", "MODEL...")  # names of arguments that are expressions

# Every command, in the order of the help page, and the module of this package that has it.
COMMANDS = {
    "grad": "grad", "trace": "trace", "lesson": "learning", "serve": "learning", "train": "train",
    "predict": "predict", "compare": "train", "data": "inspection", "solve": "solve", "minimize": "solve",
    "maximize": "solve", "check": "inspection", "ops": "inspection", "doctor": "inspection", "export": "export",
    "completion": "completion",
}  # fmt: skip

# Commands that take values of variables as options.
_COMMANDS_WITH_VALUES = ("grad", "trace", "train", "compare", "solve", "minimize", "maximize", "check", "predict")
_COMMANDS_WITH_DIGITS = ("grad", "trace", "train", "compare", "solve", "minimize", "maximize", "data", "lesson")


class Parameter(NamedTuple):
    """An argument or an option of a command.

    Attributes:
        name: the name of the function's parameter, or of the record's field.
        option: its declaration.
        kind: the type of the value, or of each of several values.
        default: the default; `inspect.Parameter.empty` for a required argument.
        repeats: whether it takes several values.
    """

    name: str
    option: Option
    kind: Any
    default: Any
    repeats: bool

    @classmethod
    def of(cls, name: str, field: OptionField) -> Parameter:
        """Return the argument or option that a field declares.

        Values of other than plain types are typed as text.
        """
        plain = (each for each in field.kinds if each in (bool, int, float) or isinstance(each, EnumType))
        repeats = field.option.repeats or field.kinds == (list[str],)
        return cls(name, field.option, next(plain, str), field.default, repeats)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it accepts, if they can be listed."""
        if issubclass(self.kind, Enum):
            return tuple(map(str, self.kind))
        return self.option.check.choices if self.option.check else ()

    @property
    def metavar(self) -> str:
        """The name of the value in help."""
        return self.option.metavar or ""

    @property
    def is_required(self) -> bool:
        """Whether the argument must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool

    @property
    def writes_file(self) -> bool:
        """Whether the value is the name of a file that the command writes."""
        return re.search("FILE|MODEL", self.metavar) is not None and self.name not in ("at", "resume")

    @property
    def has_optional_value(self) -> bool:
        """Whether the value of the option may be left out; its metavar is then in brackets."""
        return self.metavar.startswith("[")

    @property
    def help_row(self) -> tuple[str, str]:
        """The flags with the name of the value, or the name of the argument, and its help."""
        flags = ", ".join(sorted(self.option.flags, key=len))
        value = self.metavar or ("" if self.is_flag else f"<{'|'.join(self.choices)}>")
        has_default = self.default is not None and self.default is not False and not isinstance(self.default, Enum)
        note = "  [required]" if self.is_required else f"  [default: {self.default}]" * has_default
        return " ".join(filter(None, (flags, value))), self.option.help + note

    def convert(self, text: str, name: str) -> Any:
        """Return the value that a text stands for.

        Args:
            name: the name of the option, for messages.

        Raises:
            BadInput: for a text of the wrong type.
        """
        try:
            return self.kind(text)
        except ValueError:
            accepted = self.choices or ("a number" if self.kind is float else "a whole number",)
            plain = text.removesuffix("%").replace(",", "." if self.kind is float else "")
            is_number = self.kind in (int, float) and is_signed_number(plain)
            meant = float(plain) / (100 if text.endswith("%") else 1) if is_number else math.nan
            is_meant = meant.is_integer() or (is_number and self.kind is float)
            is_allowed = is_meant and (self.option.check is None or self.option.check.holds(meant))
            theirs = other_tools()["choices"].get(text.lower(), text)
            close = f"{meant:.15g}" if is_allowed else suggest(theirs, self.choices)
            hint = f"; did you mean {close}?" if close else ""
            raise BadInput(f"{name} takes {join_words(accepted, 'or')}, not `{text}`{hint}") from None

    def accepts(self, text: str | None) -> bool:
        """Whether the option can stand in place of a misspelt one with this value; None for no value."""
        if text is None or self.is_flag:
            return text is None and (self.is_flag or self.has_optional_value)
        try:
            value = self.convert(text, "")
        except BadInput:
            return False
        if self.option.check is not None and not self.option.check.holds(value):
            return False
        return "=" not in self.metavar or re.search("[:<>]" if ":" in self.metavar else "[=<>~]", text) is not None

    @property
    def sample(self) -> str:
        """A value that the option accepts, for messages; the name of the value if none is known."""
        numbers = () if self.kind is str else (str(self.default), "0.95" * (self.metavar == "LEVEL"), "2", "0.5", "100")
        return next(filter(self.accepts, (*self.choices, *numbers)), self.metavar)


# Options with the same meaning in several commands.
_DIGITS_OPTION = Option("--digits N", "Show numbers with N significant digits (1 to 17).", between(1, 17))
_DIGITS = Parameter("digits", _DIGITS_OPTION, int, None, repeats=False)
_JSON_OPTION = Option("--json", "Write one JSON document, with numbers at full precision.", group="Output")
_JSON = Parameter("json", _JSON_OPTION, bool, False, repeats=False)
_SET = Parameter(
    "assignments", Option("--set NAME=VALUE", "Set a variable whose name is also an option."), str, None, repeats=True
)


@dataclass(frozen=True)
class Command:
    """A command: a function that takes arguments and options, and records of options.

    A parameter of the function without a declaration is a record, the `call`, or the `explicit` options: those that are
    given. A field that is a parameter of the function too is passed to the function, as it was typed; the record keeps
    its default.

    Attributes:
        function: the function.
        restrictions: the combinations of options that are refused.
        is_included: whether the command has an option of a record.
        records: the dataclass of each parameter of the function that is a record.
    """

    function: Callable[..., Output]
    restrictions: tuple[Restriction, ...]
    is_included: Callable[[Option], bool]
    records: Mapping[str, type[Any]]

    @property
    def name(self) -> str:
        """The name that users type."""
        return self.function.__name__

    @cached_property
    def _own_parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function, eval_str=True).parameters

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments and options: first arguments, then options of the records, then options of the command."""
        fields = {
            name: Parameter.of(name, field)
            for record in self.records.values()
            for name, field in schema.option_fields(record).items()
            if field.option.usage and self.is_included(field.option)
        }
        own: tuple[list[Parameter], list[Parameter]] = [], []  # before the options of the records, and after them
        for name, parameter in self._own_parameters.items():
            if isinstance(parameter.default, dataclasses.Field):
                field = schema.option_field(parameter.annotation, parameter.default)
                own[parameter.kind is inspect.Parameter.KEYWORD_ONLY].append(Parameter.of(name, field))
        shared = {
            _DIGITS: self.name in _COMMANDS_WITH_DIGITS,
            _JSON: self.name not in ("serve", "completion"),
            _SET: self.takes_values,
        }
        return (*own[0], *fields.values(), *own[1], *(each for each, has_it in shared.items() if has_it))

    @cached_property
    def arguments(self) -> tuple[Parameter, ...]:
        """The positional arguments; only the last one may take several words."""
        return tuple(each for each in self.parameters if not each.option.flags)

    @cached_property
    def options(self) -> dict[str, Parameter]:
        """The options by each of their flags."""
        return {flag: each for each in self.parameters for flag in each.option.flags}

    @property
    def takes_values(self) -> bool:
        """Whether the command takes values of variables as options."""
        return self.name in _COMMANDS_WITH_VALUES

    @property
    def required_count(self) -> int:
        """The number of arguments that must be given."""
        return sum(each.is_required for each in self.arguments)

    def run(self, environment: Environment, words: Sequence[str]) -> ExitStatus:
        """Run the command with the words after its name, and write its output.

        Raises:
            BadInput: for words that cannot be used.
            Failure: for a file that cannot be written.
        """
        arguments = split_arguments(self, words)
        check_not_replaced(
            [path.removeprefix("@") for path in arguments.positionals],
            (text for flag, text in arguments.options if self.options[flag].writes_file),
        )
        defaults = {each.name: each.default for each in self.parameters}
        values = dict(defaults)
        for flag, text in arguments.options:
            option = self.options[flag]
            value = True if option.is_flag else option.convert(text, flag)
            values[option.name] = [*(values[option.name] or ()), value] if option.repeats else value
        rest = arguments.positionals
        for each in self.arguments:
            if rest:
                own, rest = (rest, []) if each.repeats else (rest[:1], rest[1:])
                converted = [each.convert(text, f"autodiff {self.name}") for text in own]
                values[each.name] = converted if each.repeats else converted[0]
        texts = merge_assignments(arguments.values, values.pop(_SET.name, None) or ())
        explicit = {name: value for name, value in values.items() if schema.is_explicit(value, defaults[name])}
        for each in self.parameters:
            if each.name in explicit and each.option.check is not None:
                each.option.check.require(each.option.flags[0], explicit[each.name])
        schema.check_restrictions(self.restrictions, explicit)
        for name, record in self.records.items():
            fields = schema.option_fields(record).keys() - self._own_parameters
            values[name] = record(**{field: values[field] for field in fields if field in values})
        environment = environment._replace(digits=values.get(_DIGITS.name), json=values.get(_JSON.name, False))
        values |= {"call": Call(environment, texts, self), "explicit": explicit}
        return self.function(**{name: values[name] for name in self._own_parameters}).write(environment)

    def help(self, width: int) -> str:
        """Return the help of the command, for lines of at most `width` columns."""
        from typer import Context

        usage = "[--VARIABLE VALUE]... [OPTIONS]" if self.takes_values else "[OPTIONS]"
        text, kind = inspect.getdoc(self.function), _help_command(self.parameters)
        command = kind(self.name, help=text, options_metavar=usage, rich_markup_mode=None)
        context = Context(command, info_name=f"autodiff {self.name}", max_content_width=width, terminal_width=width)
        return _wrap_examples(command.get_help(context), width) + "\n"


class Call(NamedTuple):
    """The inputs of a command besides its declared options.

    Attributes:
        environment: the streams, and how to write the output.
        values: the text given for each variable (`--x pi/4`), by the name of the variable.
        command: the command that runs.
    """

    environment: Environment
    values: Mapping[str, str]
    command: Command


def _help_command(parameters: Sequence[Parameter]) -> Any:
    """Return the class of commands whose help lists parameters under the headings of their groups.

    Usage and lists are written here, because versions of Typer write them differently.
    """
    from typer.core import TyperCommand

    class HelpCommand(TyperCommand):
        def collect_usage_pieces(self, _: Any) -> list[str]:
            arguments = (each for each in parameters if not each.option.flags)
            names = (f"{{{each.metavar}}}" if each.is_required else each.metavar for each in arguments)
            return [self.options_metavar or "", *names]

        def format_options(self, _: Any, formatter: Any) -> None:
            sections: dict[str, list[tuple[str, str]]] = {}
            for each in parameters:
                heading = (each.option.group or "Options") if each.option.flags else "Arguments"
                sections.setdefault(heading, []).append(each.help_row)
            sections.setdefault("Options", []).append((", ".join(HELP), "Show this message and exit."))
            for heading in sorted(sections, key=lambda heading: (heading == "Options", heading == "Output")):
                with formatter.section(heading):
                    # In a narrow terminal, descriptions begin on a line of their own.
                    formatter.write_dl(sections[heading], col_max=30 if formatter.width >= 60 else 4)

    return HelpCommand


def command(
    *restrictions: Restriction, is_included: Callable[[Option], bool] = lambda option: True, **records: type[Any]
) -> Callable[[Callable[..., Output]], Command]:
    """Return a decorator that makes a command of a function; see `Command` for the arguments."""
    return lambda function: Command(function, restrictions, is_included, records)


def find_command(name: str) -> Command:
    """Return a command by its name.

    Raises:
        BadInput: if there is no such command; the message suggests one.
    """
    if name in COMMANDS:
        command: Command = getattr(importlib.import_module(f"autodiff_cli.cli.{COMMANDS[name]}"), name)
        return command
    from autodiff_cli import ops
    from autodiff_cli.language.program import read

    functions = [each for each in ops.function_names() if len(each) == len(name) and ops.overloads(each)[0].accepts(1)]
    close = other_tools()["commands"].get(name) or suggest(name, [*COMMANDS, *functions])
    if close in functions:
        raise BadInput(f'there is no command `{name}`; to differentiate an expression: autodiff grad "{close}(x)"')
    if close is None and os.path.isfile(name):
        raise BadInput(f"`{name}` is a file, not a command; to look at its columns: autodiff data {shlex.quote(name)}")
    if close is None and not name.isidentifier() and not name.startswith("-"):
        read(name)  # raises an error that says what is wrong with the expression
        raise BadInput(f'`{name}` is not a command; to differentiate an expression: autodiff grad "{name}"')
    hint = f"did you mean `{close}`?" if close else f"the commands are {', '.join(COMMANDS)}"
    raise BadInput(f"there is no command `{name}`; {hint}")


def overview(width: int = 80) -> str:
    """Return the help of the program, for lines of `width` columns: its commands by purpose, each with an example."""
    return _wrap_examples(Path(__file__).with_name("overview.txt").read_text(encoding="utf-8"), width)


def _wrap_examples(text: str, width: int) -> str:
    r"""Return help with lines of at most `width` columns; a description goes below its command.

    Commands that take several lines can still be pasted into a shell.

    >>> print(_wrap_examples('  autodiff grad "x + y" --x 2 --y 3   a gradient', 30))
      autodiff grad "x + y" \
          --x 2 --y 3
          a gradient
    """
    import textwrap

    def wrap(line: str) -> Iterable[str]:
        indent = " " * (len(line) - len(line.lstrip()))
        for part in re.split(r"(?<=\S) {3,}", line.strip()):
            # A command is not broken inside quotes, nor between an option and its value.
            unbroken = re.sub(r'"[^"]*"|--\S+ (?!-[-a-z])', lambda words: words[0].replace(" ", "\0"), part)
            end, hanging = (" \\", indent + "    ") if indent and "autodiff " in part else ("", indent)
            rows = textwrap.wrap(unbroken, width - len(hanging + end), break_long_words=False, break_on_hyphens=False)
            yield indent + f"{end}\n{hanging}".join(rows).replace("\0", " ")
            indent += "    "

    return "\n".join(part for line in text.split("\n") for part in (wrap(line) if len(line) > width else [line]))


def is_model(word: str) -> bool:
    """Whether a word has `~` between two sides, and is not a file."""
    return re.search(r"[^\s~]\s*~", word) is not None and not os.path.exists(word)


def model_first(words: Iterable[str]) -> list[str]:
    """Return a model and data files with the model first. Raises BadInput for several models."""
    models, others = split_models(words)
    if len(models) > 1:
        raise BadInput("only one model is expected; to fit several, use autodiff compare DATA MODEL MODEL")
    return [*models, *others]


def split_models(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split words into models and all other words.

    Raises:
        BadInput: if all words are models, so that no word is a data file; for standard input as two of them.
    """
    models = [word for word in words if is_model(word)]
    others = [word for word in words if not is_model(word)]
    if models and not others:
        raise BadInput("missing DATA: all arguments are models, but none is a data file")
    if (models + others).count("-") > 1:
        raise BadInput("only one argument can be `-`, standard input")
    return models, others


# --- Splitting


class Arguments(NamedTuple):
    """The parts of a command line.

    Attributes:
        options: the flags of the options that are given, each with its value; "" for an option without a value.
        positionals: the positional arguments (expressions and files), in order.
        values: the text given for each variable, by its canonical name.
    """

    options: list[tuple[str, str]]
    positionals: list[str]
    values: dict[str, str]


def split_arguments(command: Command, words: Sequence[str]) -> Arguments:
    """Separate the options of a command, the values of variables, and the positional arguments.

    Raises:
        BadInput: for a repeated or unknown option, an option without its value, or an unexpected argument.
    """
    arguments = _ArgumentSplitter(command, words).split()
    _check_count(command, arguments)
    return arguments


class _ArgumentSplitter:
    """Splits the words after a command from left to right; `_queue` has the words that are left."""

    def __init__(self, command: Command, words: Sequence[str]) -> None:
        self._command, self._words = command, words
        self._queue = deque(words)
        self._takes_expression = any(each.metavar in EXPRESSIONS for each in command.arguments[:1])
        self._arguments = Arguments([], [], {})
        self._given: set[tuple[str, str]] = set()  # the options so far, with the names that repeatable ones are for
        # The flag, the next word and the position among the arguments of each option with an optional value.
        self._optional: list[tuple[str, str, int]] = []

    def split(self) -> Arguments:
        """Return the parts of the command line."""
        while self._queue:
            word = self._queue.popleft()
            if word == "--":
                self._arguments.positionals.extend(self._queue)
                break
            name, equals, text = word.partition("=")
            if _is_option(name, self._command.options) and not (equals and name in NEVER_EXPRESSIONS):
                self._add_option(name, text if equals else None)
            else:
                self._add_positional(word)
        for name, word, position in self._optional:
            is_positional = bool(word) and len(self._arguments.positionals) < self._command.required_count
            if is_positional:  # the word is not the value of the option
                self._arguments.positionals.insert(position, word)
            self._arguments.options.append((name, "" if is_positional else word))
        return self._arguments

    def _add_positional(self, word: str) -> None:
        may_be_expression = self._takes_expression and not self._arguments.positionals
        if re.fullmatch(r"-\w[\w.-]*|--\w[\w.-]*(=.*)?", word) and not may_be_expression and not is_signed_number(word):
            raise _unknown_option_error(self._command, word, next(iter(self._queue), None), self._words)
        flag, text = next(reversed(self._arguments.options), ("", ""))
        repeats_names = bool(flag) and re.match("NAME.*=", self._command.options[flag].metavar) is not None
        if repeats_names and not may_be_expression and not os.path.exists(word):
            if is_signed_number(word) and is_name(text):
                raise BadInput(f"{flag} takes one value: {flag} {text}={word}")
            if re.fullmatch(r"\w+=[^/*?]+", word):
                raise BadInput(f"{flag} takes one value; repeat it for each name: {flag} {word}")
        self._arguments.positionals.append(word)

    def _add_option(self, name: str, text: str | None) -> None:
        """Add an option or the value of a variable; `text` is the value after `=`, None if there is no `=`."""
        if text is not None and re.search(r"\s--\w[\w.-]*=", text):
            raise BadInput(f"`{name}={text}` has several options in one pair of quotes; put each in its own")
        option = self._command.options.get(name)
        value = self._next_value() if text is None else text
        # Two options of NAME=VALUE are also likely names of variables: without `=`, they give that variable a value.
        if option is None or (option.repeats and name in ("--sigma", "--correlation") and "=" not in (value or "=")):
            self._add_variable(name, value)
        elif option.is_flag:
            self._add_flag(option, name, text)
            return
        elif text is None and option.has_optional_value:
            self._check_given_once(name, option.name)
            self._optional.append((name, value or "", len(self._arguments.positionals)))
        else:
            self._add_value(option, name, value)
        if text is None and value is not None:
            self._queue.popleft()

    def _next_value(self) -> str | None:
        """Return the next word if it can be the value of an option."""
        word = next(iter(self._queue), None)
        return None if word is None or _is_option(word.partition("=")[0], self._command.options) else word

    def _add_variable(self, name: str, value: str | None) -> None:
        if value is None or not (self._command.takes_values and name.startswith("--") and is_name(name[2:])):
            raise _unknown_option_error(self._command, name, value, self._words)
        key = canonical_name(name[2:])
        if key in self._arguments.values and (explanation := explain_option(self._command, name, value)):
            raise BadInput(f"{name} is given twice; {explanation}")
        self._check_given_once(name, key)
        self._arguments.values[key] = value

    def _add_flag(self, option: Parameter, name: str, text: str | None) -> None:
        if text is not None:
            hint = f"; to set a variable of this name, use --set {name[2:]}={text}"
            raise BadInput(f"{name} takes no value{hint if self._command.takes_values else ''}")
        follows = next(iter(self._queue), "")
        if name == "--json" and follows.endswith(".json") and not os.path.exists(follows):
            raise BadInput(f"--json takes no value, but `{follows}` follows; write --json > {follows}")
        if follows in ("True", "False", "true", "false"):
            raise BadInput(f"{name} takes no value, but `{follows}` follows; leave it out")
        self._check_given_once(name, option.name)
        self._arguments.options.append((name, ""))

    def _add_value(self, option: Parameter, name: str, value: str | None) -> None:
        if not value:
            follows = f", but {self._queue[0]} follows" if self._queue and value is None else ""
            raise BadInput(f"{name} needs a value, such as {name} {option.sample}{follows}")
        parts = _assignments(value)
        if re.match("NAME.*=", option.metavar) and len(parts) > 1:
            raise BadInput(f"{name} takes one value; repeat it for each name: {' '.join(f'{name} {x}' for x in parts)}")
        if name == "--at" and parts and re.fullmatch(r"[\w.=, +-]+", value) and not os.path.exists(value):
            raise BadInput(f"--at takes a FILE of points; for a single one, write {_value_options(parts)}")
        self._check_given_once(name, option.name, _repetition_key(value) if option.repeats else "")
        self._arguments.options.append((name, value))

    def _check_given_once(self, name: str, key: str, part: str = "") -> None:
        """Record an option, or a part of a repeatable one. Raises BadInput if it was given before."""
        if (key, part) in self._given:
            raise BadInput(f"{name}{f' {part}' if part else ''} is given twice")
        self._given.add((key, part))


def merge_assignments(values: Mapping[str, str], assignments: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Return the values of variables, including the values given by `--set NAME=VALUE`.

    Raises:
        BadInput: for an assignment of another form, or for a name that has a value already.
    """
    merged = dict(values)
    for assignment in assignments:
        name, equals, text = split_assignment(assignment)
        if not equals or not (is_name(name) or is_level_name(name)):
            quoted = f"`{name}`"
            hint = f"; put any other name in backticks: {option} '{quoted}={text}'"
            form = f"{option} takes NAME=VALUE, such as {option} x=2, not `{assignment}`"
            raise BadInput(form + hint if equals and is_name(quoted) else form)
        name = canonical_name(name)
        if name in merged:
            raise BadInput(f"`{name}` is given two values: `{merged[name]}` and `{text}`")
        merged[name] = text
    return merged


def commands_with_option(flag: str) -> str:
    """Return the commands that have an option, in words: `` `autodiff train` and `autodiff compare` ``; "" for none."""
    return join_words(f"`autodiff {name}`" for name in COMMANDS if flag in find_command(name).options)


def explain_option(command: Command, name: str, value: str | None) -> str | None:
    """Return a message about an option that the command does not have: the command that has it, and what may be meant.

    Returns None if nothing is known about it. Arguments are those of `_suggest_option`.
    """
    commands = commands_with_option(name)
    close = _suggest_option(command, name, value, is_misspelt=not commands)
    kind = other_tools()["options_without_counterpart"].get(name.lstrip("-"))
    hint = f"; did you mean {close}?" if close else ""
    if kind == "ranges" and command.name in ("solve", "minimize", "maximize"):
        hint = "; the range of a variable is the value of its option, such as --x -5..5"
    elif kind == "needless":
        hint = "; leave it out"
    elif kind == "arguments" and value is not None:
        hint = f"; write only its value, `{value}`"
    elif name.lstrip("-") in COMMANDS:
        hint = f"; it is a command: autodiff {name.lstrip('-')} --help"
    if commands:
        return f"{name} is an option of {commands}, not of `autodiff {command.name}`{hint}"
    return f"there is no option {name}{hint}" if hint else None


def _suggest_option(command: Command, name: str, value: str | None, *, is_misspelt: bool) -> str | None:
    """Return what may be meant by an option that does not exist, or None.

    The suggestion works in place of the option: options that do not accept its value are left out.

    Args:
        name: the option, with its dashes.
        value: its value; None for none.
        is_misspelt: whether an option of a similar name may be meant.
    """
    options = command.options
    bare = name.lstrip("-").replace("_", "-")
    others = other_tools()["options"].get(bare, "").split()
    for other in others:
        if other in options:
            if other == "--set" and len(parts := _assignments(value or "")) > 1:
                return _value_options(parts)
            is_fitting = options[other].accepts(value) or options[other].accepts(None)
            return other if is_fitting else f"{other} {options[other].sample}"
    if "--output" in others:
        return "--json" if value == "json" else f"> {value or 'FILE'}"
    if bare in ("svg", "html", "tex", "dot") and command.name == "trace":
        suffix = f".{bare}"
        return f"-o {value}" if value is not None and value.endswith(suffix) else f"-o FILE{suffix}"
    if others or bare in other_tools()["options_without_counterpart"] or not is_misspelt or len(bare) == 1:
        return None
    words = other_tools()["choices"].get(bare.replace("-", "_"), bare).split()
    if choices := [f"{flag} {word}" for flag, each in options.items() for word in words if word in each.choices]:
        return choices[0]
    fitting = {flag.lstrip("-"): flag for flag, each in options.items() if each.accepts(value) or each.accepts(None)}
    close = suggest(bare, [flag for flag in fitting if len(flag) > 1])
    return None if close is None else fitting[close]


def _assignments(text: str) -> list[str]:
    """Return the assignments in a list such as `a=1,b=2`; no assignments for other text."""
    parts = [part.strip() for part in lexer.split_outside_brackets(text, ",")]
    return parts if all(equals and is_name(name) for name, equals, _ in map(split_assignment, parts)) else []


def _value_options(assignments: Iterable[str]) -> str:
    """Return the options that give variables these values."""
    return " ".join(f"--{name} {value.strip()}" for name, _, value in map(split_assignment, assignments))


def _unknown_option_error(command: Command, name: str, value: str | None, words: Sequence[str]) -> BadInput:
    """Return the error for a word that looks like an option but is not.

    Args:
        name: the word.
        value: the word after it, if that may be its value.
        words: all words after the command.
    """
    if os.path.exists(name):
        return BadInput(f"there is no option {name}; to read the file of this name, write ./{name}")
    bare = name.lstrip("-")
    expressions = " ".join(word for word in words if not word.startswith("--") and word != name)
    is_mentioned = re.search(rf"(?<![\w.]){re.escape(bare)}(?![\w.])", expressions) is not None
    is_variable = is_mentioned and command.takes_values and is_name(bare)
    next_word = next(iter(words[words.index(name) + 1 :]), "") if name in words else ""
    if is_variable and name.startswith("--"):
        return BadInput(f"{name} needs a value, such as {name} 2{next_word and f', but {next_word} follows'}")
    if explanation := explain_option(command, name, value):
        return BadInput(explanation)
    hint = ""
    if is_variable:
        hint = f"; to set a variable, use `--{bare} {next_word if is_signed_number(next_word) else 2}`"
    elif command.takes_values and words[0] == name:
        hint = f"; to use it as an expression, put it in brackets: `({name})`"
    return BadInput(f"there is no option {name}; autodiff {command.name} --help lists all{hint}")


def _repetition_key(text: str) -> str:
    """Return the key by which a repeatable option may not be repeated: the NAME of its value, else the value."""
    name = split_assignment(text)[0]
    return canonical_name(name) if is_name(name) else text


def _is_option(name: str, declared: Mapping[str, Parameter]) -> bool:
    """Whether a word is an option: of the command, of every command, for the value of a variable, or a misspelt one."""
    is_like_one = name.startswith("--") and is_name(name[2:].replace("-", ""))
    return name in declared or name in NEVER_EXPRESSIONS or is_like_one


_DASHES = "–—−"  # a word processor may have put them in place of hyphens


def _check_count(command: Command, arguments: Arguments) -> None:
    """Raise BadInput for the wrong number of positional arguments.

    The message suggests the likely cause: a misspelt option, a value of a variable, or an expression without quotes.
    """
    names = [each.metavar or each.name for each in command.arguments]
    least, count = command.required_count, len(arguments.positionals)
    if names[:1] == ["MODEL"] and count > 2 and os.path.expanduser("~") in arguments.positionals:
        raise BadInput('put the model in quotes, "y ~ a*x": without them, the shell replaces ~ by your home folder')
    for word in arguments.positionals[1:] if command.takes_values else ():
        name, _, value = word.rpartition("=")
        is_lone_number = not (name or arguments.values) and word == arguments.positionals[1]  # not in `grad x ^ 2`
        if (is_name(name) or is_lone_number) and is_signed_number(value) and not os.path.exists(word):
            raise BadInput(f"unexpected argument `{word}`; to set a variable, use `--{name or 'NAME'} {value}`")
    if least <= count <= (math.inf if any(each.repeats for each in command.arguments) else len(names)):
        return
    for name, text in arguments.values.items():
        if explanation := explain_option(command, f"--{name}", text):
            raise BadInput(explanation)
    if count < least:
        is_file = names[0] == "MODEL" and count == 1 and os.path.exists(arguments.positionals[0])
        missing = "MODEL" if is_file else " and ".join(names[count:least])
        usage = " ".join(f'"{name}"' if name in EXPRESSIONS else name for name in names)
        raise BadInput(f"missing {missing}; usage: autodiff {command.name} {usage}")
    extra = arguments.positionals[len(names)]
    name, equals, value = extra.lstrip("-").partition(":" if re.match(r"--?\w+:", extra) else "=")
    if extra.startswith("--") and equals != ":":
        raise BadInput(f"unexpected argument `{extra}`; options go {'without quotes' if ' ' in extra else 'before --'}")
    if command.takes_values and (equals or extra.startswith("-")) and is_name(name):
        options = _value_options(_assignments(extra)) or f"--{name} {value or 2}"
        raise BadInput(f"unexpected argument `{extra}`; to set a variable, use `{options}`")
    if extra[:1] in _DASHES and is_name(name.lstrip(f"{_DASHES}-")):
        raise BadInput(f"unexpected argument `{extra}`; options begin with hyphens: --{extra.lstrip(f'{_DASHES}-')}")
    for flag, each in command.options.items():
        is_meant = extra.isidentifier() if flag == "--wrt" else extra.isdecimal() and flag == "--port"
        if extra in each.choices or is_meant:
            raise BadInput(f"unexpected argument `{extra}`; did you mean {flag} {extra}?")
    if not least:
        raise BadInput(f"unexpected argument `{extra}`; autodiff {command.name} --help has examples")
    if "--at" in command.options and is_signed_number(extra):
        words = "several points are a range, such as --x 0:10:101, or a file: --at FILE"
        raise BadInput(f"unexpected argument `{extra}`; {words}")
    words = f"{command.name} takes one expression, in quotes, such as"
    raise BadInput(f'unexpected argument `{extra}`; {words} "x*y"; several are written as one list, "[x*y, x + y]"')


# --- Options and arguments that several commands share ---


class PassMode(StrEnum):
    """The differentiation mode."""

    REVERSE = "reverse"
    FORWARD = "forward"


output_option = partial(option, group="Output")

EXPR: str = schema.argument("EXPR", "Expression, in quotes; - reads it from standard input, @FILE from a file.")
IMPLICIT: bool = option("--implicit", "Read 2x and 3(x + 1) as products.")
WRT: str | None = option("--wrt x,y", "Differentiate with respect to these variables only.")
OUTPUT_FILE: str | None = output_option("-o, --output FILE", "Write to FILE instead of standard output.")

_MODE_HELP = "Differentiation mode; forward shows the tangents of all nodes."
mode_option = partial(option, "--mode", _MODE_HELP, group="Derivatives", default=PassMode.REVERSE)

uncertainty_option = partial(option, group="Uncertain values")
_MONTE_CARLO_HELP = "Also draw N random inputs, and show the distribution of the value."


@dataclass(frozen=True)
class UncertaintyRequest(schema.CheckedOptions):
    """The options for values with standard errors, besides the values themselves."""

    sigma: list[str] | None = uncertainty_option("--sigma x=0.1", "Standard error (number or column).", repeats=True)
    correlation: list[str] | None = uncertainty_option("--correlation x,y=0.8", "Correlation of errors.", repeats=True)
    monte_carlo: int | None = uncertainty_option("--monte-carlo N", _MONTE_CARLO_HELP, between(100, 100_000_000))
    seed: int = uncertainty_option("--seed N", "Seed for the random number generator.", at_least(0), default=0)


UNCERTAIN = "an uncertain value"  # stands for uncertain values in tables of restrictions
UNCERTAINTY_RESTRICTIONS = (
    *schema.all_need(("correlation", "monte_carlo"), UNCERTAIN, "uncertain values, such as --x 2+-0.1"),
    schema.needs(
        "seed", "monte_carlo", "--seed needs --monte-carlo N; for a variable of this name, use --set seed={seed}"
    ),
)


DATA_HELP = (
    "Data files: CSV, TSV, JSON lines (also gzipped), Parquet or Arrow; - is standard input. Several files, a folder "
    "or a pattern are read as one table."
)
