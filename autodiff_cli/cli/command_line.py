"""The commands of `autodiff`, and how a command line is split into options, values and arguments.

Each command is a function of its own name; `COMMANDS` has the module it is in. Only the module of the command that runs
is imported.

Words are split here, before Typer reads them. A variable's value is an option of its own name, and an expression may
begin with `-`; only the command and its options together tell these apart. Which options exist, which take a value and
which may be repeated is read from the Typer app, so that each option is declared once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer import BadParameter
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from autodiff_cli.cli.environment import BadInput
from autodiff_cli.language.errors import suggest
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, is_signed_number
from autodiff_cli.version import __version__

HELP = ("-h", "--help")
# These words are never expressions in any command, so that a script means the same whatever options a command has.
NEVER_EXPRESSIONS = (*HELP, "-o")

# Every command, in the order of the help page, and the module of this package that has it.
COMMANDS = {
    "grad": "grad",
    "trace": "trace",
    "lesson": "lesson",
    "serve": "serve",
    "train": "train",
    "predict": "predict",
    "compare": "train",
    "data": "inspection",
    "check": "inspection",
    "ops": "inspection",
    "doctor": "inspection",
    "export": "export",
    "completion": "completion",
}

_OVERVIEW = """Type a formula: get its gradient, watch backpropagation, fit it to data.

\b
  autodiff grad  "x*y + sin(x)" --x 2 --y 3     value, gradient, every node
  autodiff grad  "x*y + sin(x)"                 the derivatives as formulas
  autodiff trace "x*y + sin(x)" --x 2 --y 3     backpropagation, step by step
  autodiff lesson                               lessons on backpropagation
  autodiff serve                                the same in the browser
  autodiff train "y ~ a*exp(-b*x)" decay.csv    fit parameters to data
  autodiff predict MODEL.json new.csv           predict with a saved model
  autodiff compare DATA MODEL MODEL...          compare models of the same data
  autodiff data measured.csv                    show how a data file is parsed
  autodiff check "x*y + sin(x)" --x 2 --y 3     verify a gradient
  autodiff ops tanh                             an operation and its derivative
  autodiff doctor                               show what this installation computes with
  autodiff completion bash                      completion for bash, zsh or fish
  autodiff export "x*y + sin(x)" --to c         write value and gradient in another language

Run `autodiff COMMAND --help` for details and examples.
"""


class _GroupedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups."""

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the arguments and options, a section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None:
                group = getattr(parameter, "rich_help_panel", None) or "Options"
                heading = group if isinstance(parameter, TyperOption) else "Arguments"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command_group(wanted: str) -> TyperGroup:
    """Return the Typer group with the command `wanted` alone, or with all commands if there is no such command."""
    app = typer.Typer(
        name="autodiff",
        help=_OVERVIEW,
        callback=_root_command,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": [*HELP]},
    )
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        command = getattr(importlib.import_module(f"autodiff_cli.cli.{COMMANDS[name]}"), name)
        values = "[--VARIABLE VALUE]... " if "assignments" in command.__annotations__ else ""
        app.command(cls=_GroupedCommand, options_metavar=f"{values}[OPTIONS]")(command)
    return get_group(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autodiff {__version__}")
        raise typer.Exit


def _root_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Handle the options of `autodiff` itself."""


# --- Splitting


class Arguments(NamedTuple):
    """The parts of a command line.

    Attributes:
        options: the options that the command declares, with their values, in the form that Typer reads.
        positionals: the positional arguments (expressions and files), in order.
        values: the text given for each variable, by its canonical name.
    """

    options: list[str]
    positionals: list[str]
    values: dict[str, str]


def split_command_line(group: TyperGroup, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split a command line into the words for Typer and the values of variables.

    Raises:
        BadInput: for an unknown command, a repeated option, an option without its value, or an unexpected argument.
    """
    if not words:
        return ["--help"], {}
    first, *rest = words
    command = group.commands.get(first)
    if isinstance(command, TyperCommand):
        arguments = split_arguments(command, rest)
        _check_option_values(arguments.options, _declared_options(command))
        return [first, *arguments.options, "--", *arguments.positionals], arguments.values
    if first in HELP or first in _declared_options(group):
        return [first], {}
    close = suggest(first, [*group.commands, *_declared_options(group)])
    hint = f"did you mean `{close}`?" if close else f"the commands are {', '.join(group.commands)}"
    raise BadInput(f"there is no command `{first}`; {hint}")


def split_arguments(command: TyperCommand, words: Sequence[str]) -> Arguments:
    """Separate the options of a command, the values of variables, and the positional arguments.

    Raises:
        BadInput: for a repeated option, an option without its value, or an unexpected argument.
    """
    declared = _declared_options(command)
    arguments = Arguments([], [], {})
    explicit_options: set[tuple[str, str]] = set()
    optional: list[tuple[str, str, int]] = []  # (option, next word, position) of options with an optional value
    unknown: BadInput | None = None  # raised at the end, because --help may follow
    queue = list(words)[::-1]
    while queue:
        word = queue.pop()
        if word == "--":
            arguments.positionals.extend(queue[::-1])
            break
        name, equals, text = word.partition("=")
        if not _is_option(name, declared) or (equals and name in NEVER_EXPRESSIONS):
            arguments.positionals.append(word)
            continue
        option = declared.get(name)
        if name in HELP:
            return Arguments(["--help"], [], {})
        if option is None and name.startswith("--") and not (takes_values(command) and is_name(name[2:])):
            unknown = unknown or _unknown_option_error(name, command, declared)
            continue
        if option is None and name in NEVER_EXPRESSIONS:
            raise BadInput(
                f"this command has no option {name}; to use it as an expression, put it in brackets: `({name})`"
            )
        if option is not None and option.is_flag:
            if equals:
                hint = f"; to set a variable of this name, use --set {word[2:]}"
                raise BadInput(f"{name} takes no value{hint if takes_values(command) else ''}")
            _check_not_repeated(explicit_options, name, option.name or name)
            arguments.options.append(name)
            continue
        if not equals and option is not None and _has_optional_value(option):
            _check_not_repeated(explicit_options, name, option.name or name)
            word = "" if not queue or _is_option(queue[-1].partition("=")[0], declared) else queue.pop()
            optional.append((name, word, len(arguments.positionals)))
            continue
        if not equals:
            text = _next_value(name, queue, declared)
        if option is None:
            variable = canonical_name(name[2:])
            _check_not_repeated(explicit_options, name, variable)
            arguments.values[variable] = text
        else:
            if not text:
                raise _missing_value_error(name, option)
            _check_not_repeated(
                explicit_options, name, option.name or name, _repetition_key(text) if option.multiple else ""
            )
            long_name = next(each for each in option.opts if each.startswith("--"))
            arguments.options.append(f"{long_name}={text}")  # Typer accepts no `=` after a short option
    for name, word, position in optional:
        if word and len(arguments.positionals) < _required_arguments(command):
            arguments.positionals.insert(
                position, word
            )  # the word was a positional argument, not the value of the option
            word = ""
        arguments.options.append(f"{name}={word}")
    if unknown is not None:
        raise unknown
    _check_count(command, arguments, declared)
    return arguments


def merge_assignments(values: Mapping[str, str], more: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Return the values of variables together with those of `--set NAME=VALUE`.

    Raises:
        BadInput: for an assignment of another form, or for a name that has a value already.
    """
    merged = dict(values)
    for assignment in more:
        name, equals, text = split_assignment(assignment)
        if not equals or not (is_name(name) or is_level_name(name)):
            raise BadInput(f"{option} takes NAME=VALUE, such as {option} x=2, not `{assignment}`")
        name = canonical_name(name)
        if name in merged:
            raise BadInput(f"`{name}` is given two values: `{merged[name]}` and `{text}`")
        merged[name] = text
    return merged


def split_assignment(assignment: str) -> tuple[str, str, str]:
    """Split NAME=VALUE into its name, `=` and its value, like `str.partition`. A name in backticks may contain `=`."""
    name, equals, text = assignment.partition("=")
    while equals and name.count("`") == 1:
        more, equals, text = text.partition("=")
        name += f"={more}"
    return name.strip(), equals, text


def close_option(word: str, options: Iterable[str]) -> str | None:
    """Return the option that a word such as `--jsn` may be a misspelling of, or None. Dashes do not count."""
    close = suggest(word.lstrip("-"), [option.lstrip("-") for option in options])
    return None if close is None else f"--{close}"


def _repetition_key(text: str) -> str:
    """Return the key by which a repeatable option may not be repeated: the NAME of its value, else the value."""
    name = split_assignment(text)[0]
    return canonical_name(name) if is_name(name) else text


def _check_option_values(options: Iterable[str], declared: Mapping[str, TyperOption]) -> None:
    """Raise BadInput for an option whose value has the wrong type."""
    for word in options:
        name, equals, text = word.partition("=")
        if equals:
            try:
                declared[name].type.convert(text, declared[name], None)
            except BadParameter as error:
                raise BadInput(f"{name} takes {_accepted_values(declared[name])}, not `{text}`") from error


def _accepted_values(option: TyperOption) -> str:
    """Return in words which values an option accepts."""
    kind = option.type
    *others, last = getattr(kind, "choices", ("a number" if kind.name == "float" else "a whole number",))
    accepted = f"{', '.join(others)} or {last}" if others else last
    for words, bound in (("at least", getattr(kind, "min", None)), ("at most", getattr(kind, "max", None))):
        if bound is not None:
            accepted += f", {words} {bound}"
    return accepted


def _declared_options(command: TyperCommand | TyperGroup) -> dict[str, TyperOption]:
    """Return the options of a command by each of their names."""
    return {
        name: parameter
        for parameter in command.params
        if isinstance(parameter, TyperOption)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def _required_arguments(command: TyperCommand) -> int:
    """Return the number of positional arguments that the command requires."""
    return sum(parameter.required for parameter in command.params if not isinstance(parameter, TyperOption))


def takes_values(command: TyperCommand) -> bool:
    """Whether the command takes values of variables as options."""
    return any(parameter.name == "assignments" for parameter in command.params)


def _has_optional_value(option: TyperOption) -> bool:
    """Whether the value of an option may be left out; its metavar is then in brackets."""
    return (option.metavar or "").startswith("[")


def _is_option(name: str, declared: Mapping[str, TyperOption]) -> bool:
    """Whether a word is an option: of the command, of every command, for the value of a variable, or a misspelt one."""
    return (
        name in declared or name in NEVER_EXPRESSIONS or (name.startswith("--") and is_name(name[2:].replace("-", "")))
    )


def _next_value(name: str, queue: list[str], declared: Mapping[str, TyperOption]) -> str:
    """Take the next word from the queue as the value of option `name`.

    Raises:
        BadInput: if there is no such word.
    """
    if queue and not _is_option(queue[-1].partition("=")[0], declared):
        return queue.pop()
    if name not in declared:
        close = close_option(name, declared)
        if close:
            raise BadInput(f"there is no option {name}; did you mean {close}?")
    raise _missing_value_error(name, declared.get(name), f", but {queue[-1]} follows" if queue else "")


def _unknown_option_error(name: str, command: TyperCommand, declared: Mapping[str, TyperOption]) -> BadInput:
    """Return the error for a word that looks like an option and is none."""
    close = close_option(name, declared)
    if close:
        return BadInput(f"there is no option {name}; did you mean {close}?")
    if not takes_values(command):
        return BadInput(f"unexpected option {name}: {command.name} takes no values of variables")
    return BadInput(
        f"there is no option {name}; autodiff {command.name} --help lists all; "
        f"to use it as an expression, put it in brackets: `({name})`"
    )


def _missing_value_error(name: str, option: TyperOption | None, instead: str = "") -> BadInput:
    """Return the error for an option without its value, with an example from its metavar."""
    sample = (option and option.metavar) or "2"
    return BadInput(f"{name} needs a value, such as {name} {sample}{instead}")


def _check_not_repeated(known: set[tuple[str, str]], name: str, key: str, part: str = "") -> None:
    """Raise BadInput for an option that was given before, and record that it was given.

    Args:
        known: the keys of the options so far.
        name: the option as typed.
        key: the parameter that it sets.
        part: for a repeatable option, the part that may not be repeated; see `_repetition_key`.
    """
    if (key, part) in known:
        raise BadInput(f"{name}{f' {part}' if part else ''} is given twice")
    known.add((key, part))


def check_not_a_number(word: str) -> None:
    """Raise BadInput for a positional argument that is a number: it may have been meant as a value."""
    if is_signed_number(word):
        raise BadInput(f"unexpected argument `{word}`; to set a variable, use `--x {word}`")


def _check_count(command: TyperCommand, arguments: Arguments, declared: Mapping[str, TyperOption]) -> None:
    """Raise BadInput for the wrong number of positional arguments.

    The message suggests the likely cause: a misspelt option, a value of a variable, or an expression without quotes.
    """
    parameters = [p for p in command.params if not isinstance(p, TyperOption)]
    names = [p.metavar or p.name or "" for p in parameters]
    least = sum(p.required for p in parameters)
    most = math.inf if any(p.nargs == -1 for p in parameters) else len(names)
    if least <= len(arguments.positionals) <= most:
        return
    suspects = [f"--{name}" for name in arguments.values] + [
        word for word in arguments.positionals if word.startswith("--")
    ]
    for suspect in suspects:
        close = close_option(suspect.partition("=")[0], declared)
        if close:
            raise BadInput(f"there is no option {suspect}; did you mean {close}?")
    if len(arguments.positionals) < least:
        missing = " and ".join(names[len(arguments.positionals) :])
        usage = " ".join(f'"{name}"' if name in ("EXPR", "MODEL", "MODEL...") else name for name in names)
        raise BadInput(f"missing {missing}; usage: autodiff {command.name} {usage}")
    extra = arguments.positionals[len(names)]
    name, equals, value = extra.lstrip("-").partition("=")
    if takes_values(command) and (equals or extra.startswith("-")) and is_name(name):
        raise BadInput(f"unexpected argument `{extra}`; to set a variable, use `--{name} {value or 2}`")
    if takes_values(command):
        check_not_a_number(extra)
    if not least:
        raise BadInput(f"unexpected argument `{extra}`; autodiff {command.name} --help has examples")
    raise BadInput(f'unexpected argument `{extra}`; put an expression in quotes, such as autodiff {command.name} "x*y"')
