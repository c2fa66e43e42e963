"""Options declared once, as fields of records.

A field `seed: int = option("--seed N", "Seed for the random number generator.", at_least(0), default=0)` declares an
option with its flag, help, type, check and default. The parameters of commands and of Python functions are made from
such fields (`takes_options`), and so are the checks of values (`check_fields`). Commands declare the parameters of
their functions likewise. Combinations of options that are refused are a table of `Restriction`s.

This module does not import NumPy, because the command line reads it at start-up.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, overload

from autodiff_cli.language.errors import InputError, join_words, spelling_hint, suggest
from autodiff_cli.system import keys_by_word, read_tables


class OptionError(InputError):
    """An option that does not exist, has a value that it cannot have, or conflicts with another option."""


class Check(NamedTuple):
    """A test of a value.

    Attributes:
        holds: whether a value passes.
        explain: returns why a value does not pass, from the name of the option and the value.
        choices: the values that pass, if they can be listed.
    """

    holds: Callable[[Any], bool]
    explain: Callable[[str, Any], str]
    choices: tuple[str, ...] = ()

    def require(self, name: str, value: Any) -> None:
        """Raise OptionError, which names the option, if a value does not pass."""
        if not self.holds(value):
            raise OptionError(self.explain(name, value))


def must_be(words: str, holds: Callable[[Any], bool]) -> Check:
    """Return the check that a number `holds`; `words` describe the valid numbers."""
    return Check(
        holds, lambda name, value: f"{name} must be {words}, not {value if isinstance(value, int) else f'{value:g}'}"
    )


def at_least(least: int, unit: str = "") -> Check:
    """Return the check that a number is not below `least`."""
    return must_be(f"at least {least}{unit and f' ({unit})'}", lambda value: value >= least)


def between(least: int, most: int) -> Check:
    """Return the check that a number is neither below `least` nor above `most`."""
    return must_be(f"from {least} to {most:,}", lambda value: least <= value <= most)


POSITIVE = must_be("positive", lambda value: 0 < value < math.inf)
FRACTION = must_be("between 0 and 1", lambda value: 0 < value < 1)
NOT_NEGATIVE = must_be("a finite number of at least 0", lambda value: 0 <= value < math.inf)


def one_of(choices: Iterable[str]) -> Check:
    """Return the check that a text is one of several choices; the error suggests the closest one."""
    known = (*choices,)
    return Check(lambda value: value in known, lambda name, value: unknown_choice(name, value, known), known)


def suffix(*suffixes: str, hint: str = "") -> Check:
    """Return the check that the name of a file has one of several suffixes, in upper or lower case.

    Args:
        suffixes: the suffixes; `""` stands for a name without a suffix, or `-`.
        hint: what to say after the valid suffixes.
    """
    words = f"takes a FILE that ends in {join_words([*filter(None, suffixes)], 'or')}"
    return Check(
        lambda path: PurePath(path).suffix.lower() in suffixes, lambda name, path: f"{name} {words}, not `{path}`{hint}"
    )


@functools.cache
def other_tools() -> dict[str, dict[str, str]]:
    """Return the words of other tools in each table of `other_tools.toml`, with our words for them."""
    return {title: keys_by_word(table) for title, table in read_tables(__file__, "other_tools.toml").items()}


def unknown_choice(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that is not one of the known ones."""
    word = name.partition("(")[0].strip().lower().replace("-", "_").replace(" ", "_")
    meanings = other_tools()["choices"].get(word, word)
    meant = next((ours for ours in meanings.split() if ours in known), word)
    listed = f"there are {', '.join(known)}"
    hint = listed if meanings == "-" else spelling_hint(meant, known, listed, quote="")
    return f"there is no {kind.lstrip('-')} {name}; {hint}"


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option; see `option`.

    Attributes:
        usage: the flags and the name of the value, as help shows them: `--lr RATE`. Without a flag it is an argument,
            such as `DATA`; empty for an option of Python functions alone.
        help: a short imperative or noun phrase.
        check: the test of a value that is not the default.
        group: the heading of the option in help.
        repeats: whether the flag may be given several times.
    """

    usage: str = ""
    help: str = ""
    check: Check | None = None
    group: str = ""
    repeats: bool = False

    @property
    def flags(self) -> list[str]:
        """The flags, such as `--lr`."""
        return [word for word in self.usage.replace(", ", " ").split(" ") if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """The name of the value in help; None for an option without a value.

        >>> Option("-o, --output FILE").metavar
        'FILE'
        """
        words = self.usage.replace(", ", " ").split(" ")
        return " ".join(word for word in words if not word.startswith("-")) or None


_DECLARATION = "option"  # the key of the metadata of a field


def option(usage: str = "", help: str = "", check: Check | None = None, *, default: Any = ..., **more: Any) -> Any:
    """Return the field of a dataclass that is an option, or the default of a command's parameter that is one.

    Args:
        usage, help, check: see `Option`.
        default: the default value of the option; without it, False for a flag without a value, and None for others.
        more: the other fields of `Option`.

    >>> option("--json", "Write JSON.").default, option("--digits N", "Show N digits.").default
    (False, None)
    """
    return declared(Option(usage, help, check, **more), default)


argument = functools.partial(option, default=inspect.Parameter.empty)  # a required argument of a command


def declared(declaration: Option, default: Any) -> Any:
    """Return the field with a declaration; see `option`."""
    is_flag = bool(declaration.flags) and declaration.metavar is None
    value = (False if is_flag else None) if default is ... else default
    return dataclasses.field(default=value, metadata={_DECLARATION: declaration})


class OptionField(NamedTuple):
    """A field of a record that is an option.

    Attributes:
        option: its declaration.
        default: its default value.
        kinds: the types that its values may have, without None.
    """

    option: Option
    default: Any
    kinds: tuple[Any, ...]


def option_fields(record: type[Any]) -> Mapping[str, OptionField]:
    """Return the fields of a dataclass, all of which are options, by name."""
    if record not in _option_fields:
        hints = typing.get_type_hints(record)
        _option_fields[record] = {
            each.name: option_field(hints[each.name], each) for each in dataclasses.fields(record)
        }
    return _option_fields[record]


_option_fields: dict[type[Any], Mapping[str, OptionField]] = {}


def option_field(annotation: Any, field: dataclasses.Field[Any]) -> OptionField:
    """Return the option that a field of a type declares."""
    is_union = isinstance(annotation, types.UnionType | typing._UnionGenericAlias)  # type: ignore[attr-defined]
    known = tuple(each for each in (annotation.__args__ if is_union else (annotation,)) if each is not type(None))
    return OptionField(field.metadata[_DECLARATION], field.default, known)


def explicit_options(record: Any) -> dict[str, Any]:
    """Return the options of a record whose values are not the defaults, by name."""
    values = {name: (getattr(record, name), field.default) for name, field in option_fields(type(record)).items()}
    return {name: value for name, (value, default) in values.items() if is_explicit(value, default)}


def is_explicit(value: Any, default: Any) -> bool:
    """Whether the value of an option differs from its default. An array always does, and an empty container never."""
    if value is default or (isinstance(value, Mapping | list | tuple) and not value):
        return False
    return hasattr(value, "__array__") or type(value) is not type(default) or bool(value != default)


# For each type that is checked: the types that are accepted, its name in messages, and the conversion.
_PLAIN_TYPES: dict[Any, tuple[tuple[type, ...], str, Any]] = {
    str: ((str,), "a text", str),
    int: ((Integral,), "a whole number", int),
    float: ((Real,), "a number", float),
    bool: ((bool, Integral), "true or false", bool),
    os.PathLike: ((str, os.PathLike), "the path of a file", os.fspath),
    Callable: ((Callable,), "a function", lambda function: function),  # type: ignore[dict-item]
}


def convert_plain_value(value: Any, kind: Any, name: str) -> Any:
    """Return a value converted to a plain type, such as `str` or `float`, or to a path. NumPy scalars count as numbers.

    Raises OptionError, which names the option, for a value of another type.

    >>> convert_plain_value(2, float, "scale")
    2.0
    """
    accepted, words, make = _PLAIN_TYPES[kind]
    is_truth = kind is bool and getattr(getattr(value, "dtype", None), "kind", "") == "b" and not value.ndim
    try:
        if not (isinstance(value, accepted) or is_truth):
            raise TypeError
        return make(value)
    except (TypeError, OverflowError):
        shown = f"{value!r}" if isinstance(value, float | str | bytes) else type(value).__name__
        raise OptionError(f"{name} is {words}, not {shown[:40]}") from None


def as_list(value: Any) -> list[Any]:
    """Return the items of an iterable, or a list with a value that is a text or no iterable; empty for None.

    >>> as_list(("a", "b")), as_list("ab"), as_list(None)
    (['a', 'b'], ['ab'], [])
    """
    return [*value] if isinstance(value, Iterable) and not isinstance(value, str) else [] if value is None else [value]


def check_fields(record: Any) -> dict[str, Any]:
    """Convert the options of a record to their plain types, in place, and check their values.

    Options of other types stay as they are.

    Returns:
        The options that are given.

    Raises:
        OptionError: for a value of the wrong type, or one that fails its check.
    """
    values, explicit = vars(record), {}
    for name, (option, default, kinds) in option_fields(type(record)).items():
        value = values[name]
        if value is default:
            continue
        kind = typing.get_origin(kinds[-1]) or kinds[-1]
        if (len(kinds) == 1 or kind is os.PathLike) and kind in _PLAIN_TYPES:
            value = convert_plain_value(value, kind, name)
            if option.check is not None and value != default:
                option.check.require(name, value)
        values[name] = value
        if is_explicit(value, default):
            explicit[name] = value
    return explicit


class CheckedOptions:
    """The base of records of options that check their values and nothing else."""

    def __post_init__(self) -> None:
        check_fields(self)


class Restriction(NamedTuple):
    """A combination of options that is refused.

    Attributes:
        option: the option that must not be given.
        is_refused: whether it is refused, from the values of all options that are given, by name.
        message: why; it may refer to values, as `{optimizer}`.
    """

    option: str
    is_refused: Callable[[Mapping[str, Any]], bool]
    message: str


def refused(options: Iterable[str], message: str) -> tuple[Restriction, ...]:
    """Return the restrictions that options are refused in any case; `{option}` in the message is the option."""
    return tuple(Restriction(option, lambda explicit: True, message.replace("{option}", option)) for option in options)


def needs(option: str, other: str, message: str) -> Restriction:
    """Return the restriction that an option is refused without another one."""
    return Restriction(option, lambda explicit: other not in explicit, message)


def all_need(options: Iterable[str], other: str, words: str) -> tuple[Restriction, ...]:
    """Return the restrictions that each of several options of a command is refused without another one.

    Args:
        words: the other option, as the message names it.
    """
    return tuple(needs(option, other, f"{command_words(option)} needs {words}") for option in options)


def excludes(option: str, reasons: Mapping[str, str], words: Callable[[str], str] = str) -> tuple[Restriction, ...]:
    """Return the restrictions that an option cannot be combined with any of several others, each with the reason or
    with what to do.

    Args:
        words: returns an option as the message names it.
    """

    def excluded(other: str) -> Restriction:
        message = f"{words(option)} cannot be combined with {words(other)}: {reasons[other]}"
        return Restriction(option, lambda explicit: other in explicit, message)

    return tuple(map(excluded, reasons))


def exclusive(option: str, others: Iterable[str], reason: str = "leave one of them out") -> tuple[Restriction, ...]:
    """Return the restrictions that an option of a command cannot be combined with any of several others."""
    return excludes(option, dict.fromkeys(others, reason), command_words)


def command_words(name: str) -> str:
    """Return an option as users type it. A name with a blank stands for a phrase, and becomes a placeholder for it."""
    return f"{{{name}}}" if " " in name else f"--{name.rstrip('_').replace('_', '-')}"


def check_restrictions(restrictions: Iterable[Restriction], explicit: Mapping[str, Any]) -> None:
    """Raise OptionError for the first restriction that refuses the options that are given."""
    for each in restrictions:
        if each.option in explicit and each.is_refused(explicit):
            raise OptionError(each.message.format_map(explicit))


P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")
Record = TypeVar("Record", covariant=True)


class _TakesOptions(typing.Protocol[P, Record]):
    """The decorator that `takes_options` returns, for functions of one to three arguments before the options."""

    @overload
    def __call__(self, function: Callable[[A, Record], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, Record], R]) -> Callable[Concatenate[A, B, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, C, Record], R]) -> Callable[Concatenate[A, B, C, P], R]: ...


def _keyword_hint(name: str, record: Any) -> str:
    """Return what may be meant by a keyword that is not a field of a record: flags and words of other tools too."""
    fields = {flag: field for field, each in option_fields(record).items() for flag in (field, *each.option.flags)}
    word = name.lower().replace("_", "-")
    meanings = f"--{word} {other_tools()['options'].get(word, '')} {suggest(name, fields)}".split()
    return next((f"; did you mean {fields[meaning]!r}?" for meaning in meanings if meaning in fields), "")


def takes_options(record: Callable[P, Record]) -> _TakesOptions[P, Record]:
    """Return a decorator that gives a function one keyword argument for each field of a record.

    The function takes the record as its last argument. Type checkers and `inspect.signature` see the keywords.

    Raises:
        OptionError: at a call with options that the record refuses.
    """
    make: Callable[..., Record] = record

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [*inspect.signature(function).parameters.values()][:-1]
        keywords = inspect.signature(record).parameters
        # Only these are bound at a call, since to bind many keywords takes as long as to check their values.
        short = inspect.Signature([*own, inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)])

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                bound = short.bind(*arguments, **options)
                for name in bound.kwargs.keys() - keywords.keys():
                    raise TypeError(f"got an unexpected keyword argument {name!r}{_keyword_hint(name, record)}")
            except TypeError as error:
                words = f"{'got ' * str(error).startswith('too many')}{error}"
                raise TypeError(f"{function.__qualname__}() {words}") from None
            return function(*bound.args, make(**bound.kwargs))

        shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in keywords.values()]
        call.__signature__ = inspect.Signature([*own, *shown])  # type: ignore[attr-defined]
        return call

    return decorate
