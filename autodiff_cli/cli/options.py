"""Splitting the arguments, before Typer sees them.

A variable's value is an option of its own name, and an expression may begin with `-`: only we can tell these from
options, because only we know both. Which options exist, which take a value and which may be repeated is read from the
Typer app, so that each is declared once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup, TyperOption

from autodiff_cli.cli.errors import BadInput
from autodiff_cli.language.errors import suggest
from autodiff_cli.language.lexer import canonical, is_name, is_name_of_level, is_signed_number

HELP = ("-h", "--help")
# Never expressions, in any command: a script means the same whichever options a command has.
ALONE = (*HELP, "-o")


class Arguments(NamedTuple):
    """A command line, taken apart.

    Attributes:
        options: those that the command declares, with their values, as Typer reads them.
        positionals: expressions and files, in order.
        values: the text that was given for each variable, by its canonical name.
    """

    options: list[str]
    positionals: list[str]
    values: dict[str, str]


def arrange(group: TyperGroup, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """What to give to Typer, and the values of variables.

    Raises:
        BadInput: for an unknown command, an option given twice or without the value that it takes, a word too many.
    """
    if not words:
        return ["--help"], {}
    first, *rest = words
    command = group.commands.get(first)
    if isinstance(command, TyperCommand):
        arguments = split(command, rest)
        _check_values(arguments.options, _declared(command))
        return [first, *arguments.options, "--", *arguments.positionals], arguments.values
    if first in HELP or first in _declared(group):
        return [first], {}
    close = suggest(first, [*group.commands, *_declared(group)])
    hint = f"did you mean `{close}`?" if close else f"the commands are {', '.join(group.commands)}"
    raise BadInput(f"there is no command `{first}`; {hint}")


def split(command: TyperCommand, words: Sequence[str]) -> Arguments:
    """Tell a command's own options, values of variables, and positional arguments apart."""
    declared = _declared(command)
    found = Arguments([], [], {})
    seen: set[tuple[str, str]] = set()
    optional: list[tuple[str, str, int]] = []  # options whose value may be left out, with the word that follows each
    queue = list(words)[::-1]
    while queue:
        word = queue.pop()
        if word == "--":
            found.positionals.extend(queue[::-1])
            break
        name, equals, text = word.partition("=")
        if not _is_option(name, declared) or (equals and name in ALONE):
            found.positionals.append(word)
            continue
        option = declared.get(name)
        if name in HELP:
            return Arguments(["--help"], [], {})
        if option is None and name in ALONE:
            raise BadInput(f"this command has no option {name}; for the expression, write it in brackets: `({name})`")
        if option is not None and option.is_flag:
            if equals:
                hint = f"; that of a variable of its name is --set {word[2:]}"
                raise BadInput(f"{name} takes no value{hint if _takes_values(command) else ''}")
            _once(seen, name, option.name or name)
            found.options.append(name)
            continue
        if not equals and option is not None and _may_stand_alone(option):
            _once(seen, name, option.name or name)
            word = "" if not queue or _is_option(queue[-1].partition("=")[0], declared) else queue.pop()
            optional.append((name, word, len(found.positionals)))
            continue
        if not equals:
            text = _value(name, queue, declared)
        if option is None:
            variable = canonical(name[2:])
            _once(seen, name, variable)
            found.values[variable] = text
        else:
            if not text:
                raise _without_value(name, option)
            _once(seen, name, option.name or name, _part(text) if option.multiple else "")
            found.options.append(f"{max(option.opts, key=len)}={text}")  # Typer wants no `=` after a short one
    for name, word, place in optional:
        if word and len(found.positionals) < _needed(command):
            found.positionals.insert(place, word)  # it was the expression
            word = ""
        found.options.append(f"{name}={word}")
    _check_count(command, found, declared)
    return found


def assignments(values: Mapping[str, str], more: Iterable[str], option: str = "--set") -> dict[str, str]:
    """The values of variables, with those of `--set NAME=VALUE`.

    Raises:
        BadInput: for one that is not of this form, or for a name that has a value already.
    """
    merged = dict(values)
    for assignment in more:
        name, equals, text = partition(assignment)
        if not equals or not (is_name(name) or is_name_of_level(name)):
            raise BadInput(f"{option} takes NAME=VALUE, as {option} x=2, not `{assignment}`")
        name = canonical(name)
        if name in merged:
            raise BadInput(f"`{name}` is given two values: `{merged[name]}` and `{text}`")
        merged[name] = text
    return merged


def partition(assignment: str) -> tuple[str, str, str]:
    """A NAME=VALUE as its name, `=` and its value, as `str.partition` gives it; in backticks a name may have a `=`."""
    name, equals, text = assignment.partition("=")
    while equals and name.count("`") == 1:
        more, equals, text = text.partition("=")
        name += f"={more}"
    return name.strip(), equals, text


def close_option(word: str, options: Iterable[str]) -> str | None:
    """The option that a word like `--jsn` may be a misspelling of. The dashes do not count."""
    close = suggest(word.lstrip("-"), [option.lstrip("-") for option in options])
    return None if close is None else f"--{close}"


def _part(text: str) -> str:
    """What an option that may be repeated says something of: a name once, and nothing twice."""
    name = partition(text)[0]
    return canonical(name) if is_name(name) else text


def _check_values(options: Iterable[str], declared: Mapping[str, TyperOption]) -> None:
    """Say what an option takes if its value is not that."""
    for word in options:
        name, equals, text = word.partition("=")
        if equals:
            try:
                declared[name].type.convert(text, declared[name], None)
            except BadParameter as error:
                raise BadInput(f"{name} takes {_wanted(declared[name])}, not `{text}`") from error


def _wanted(option: TyperOption) -> str:
    kind = option.type
    *others, last = getattr(kind, "choices", ("a number" if kind.name == "float" else "a whole number",))
    wanted = f"{', '.join(others)} or {last}" if others else last
    for words, bound in (("at least", getattr(kind, "min", None)), ("at most", getattr(kind, "max", None))):
        if bound is not None:
            wanted += f", {words} {bound}"
    return wanted


def _declared(command: TyperCommand | TyperGroup) -> dict[str, TyperOption]:
    """The options of a command, by every name that they have."""
    return {
        name: parameter
        for parameter in command.params
        if isinstance(parameter, TyperOption)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def _needed(command: TyperCommand) -> int:
    """How many arguments the command needs besides options."""
    return sum(parameter.required for parameter in command.params if not isinstance(parameter, TyperOption))


def _takes_values(command: TyperCommand) -> bool:
    """Whether variables are given values on the command line."""
    return any(parameter.name == "assignments" for parameter in command.params)


def _may_stand_alone(option: TyperOption) -> bool:
    """Whether the option's value may be left out; its metavar is in brackets then."""
    return (option.metavar or "").startswith("[")


def _is_option(name: str, declared: Mapping[str, TyperOption]) -> bool:
    return name in declared or name in ALONE or (name.startswith("--") and is_name(name[2:]))


def _value(name: str, queue: list[str], declared: Mapping[str, TyperOption]) -> str:
    """The next word, which is the value of `name`."""
    if queue and not _is_option(queue[-1].partition("=")[0], declared):
        return queue.pop()
    if name not in declared:
        close = close_option(name, declared)
        if close:
            raise BadInput(f"there is no option {name}; did you mean {close}?")
    raise _without_value(name, declared.get(name), f", but {queue[-1]} follows" if queue else "")


def _without_value(name: str, option: TyperOption | None, instead: str = "") -> BadInput:
    sample = (option and option.metavar) or "2"
    return BadInput(f"{name} needs a value, as {name} {sample}{instead}")


def _once(seen: set[tuple[str, str]], name: str, key: str, part: str = "") -> None:
    if (key, part) in seen:
        raise BadInput(f"{name}{f' {part}' if part else ''} is given twice")
    seen.add((key, part))


def check_no_value(word: str) -> None:
    """Raise BadInput for a number that stands alone: it may have been meant as a value."""
    if is_signed_number(word):
        raise BadInput(f"`{word}` is one word too many; the value of a variable is an option, as --x {word}")


def _check_count(command: TyperCommand, found: Arguments, declared: Mapping[str, TyperOption]) -> None:
    """Explain a word too many or too few: a misspelt option, or an expression without its quotes."""
    arguments = [p for p in command.params if not isinstance(p, TyperOption)]
    wanted = [p.metavar or p.name or "" for p in arguments]
    least = sum(p.required for p in arguments)
    most = math.inf if any(p.nargs == -1 for p in arguments) else len(wanted)
    if least <= len(found.positionals) <= most:
        return
    suspects = [f"--{name}" for name in found.values] + [word for word in found.positionals if word.startswith("--")]
    for suspect in suspects:
        close = close_option(suspect.partition("=")[0], declared)
        if close:
            raise BadInput(f"there is no option {suspect}; did you mean {close}?")
    if len(found.positionals) < least:
        missing = wanted[len(found.positionals) :]
        raise BadInput(f"{' and '.join(missing)} missing: autodiff {command.name} {' '.join(wanted)}, in quotes")
    extra = found.positionals[len(wanted)]
    name, equals, _ = extra.lstrip("-").partition("=")
    if _takes_values(command) and (equals or extra.startswith("-")) and is_name(name):
        raise BadInput(f"`{extra}` is one word too many; the value of a variable is an option, as --{name} 2")
    if _takes_values(command):
        check_no_value(extra)
    if not least:
        raise BadInput(f"`{extra}` is one word too many; autodiff {command.name} --help has examples")
    raise BadInput(f'`{extra}` is one word too many; put an expression in quotes, as autodiff {command.name} "x*y"')
