"""`f({x, y})`, which gives `{value, gradient}`, as a module of JavaScript without imports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from autodiff_cli.export.layout import VALUE, SourceLayout, by_autodiff, comment, indented, layout, renamed, wrapped
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.targets.javascript import JAVASCRIPT
from autodiff_cli.targets.library import Library

_INDENT = "  "
_WIDTH = 100  # of a line
_KEYWORDS = """
    arguments await break case catch class const continue debugger default delete do else enum eval export extends false
    finally for function if implements import in instanceof interface let new null package private protected public
    return static super switch this throw true try typeof undefined var void while with yield
    Infinity Math NaN Number Object
"""


def _is_name(text: str) -> bool:
    """Letters of any script, but not what only Python, or only JavaScript, takes for one."""
    return text.isidentifier() and re.fullmatch(r"[\w$]+", text) is not None


NAMES = LegalNames(frozenset(_KEYWORDS.split()), _is_name)
_RESERVED = frozenset({"gradient", "hessian"})


def source(program: ExportProgram) -> str:
    """A module with the function and all that it calls."""
    made = layout(program, Library(JAVASCRIPT), NAMES, _place, _RESERVED)
    parameters = ", ".join(_parameter(variable.name, made.names[variable.name]) for variable in made.used)
    head = f"export function {program.name}({f'{{ {parameters} }}' if parameters else ''}) {{\n"
    parts = [
        "".join(f"// {line}".rstrip() + "\n" for line in _explained(program, made)),
        *made.library.texts.values(),
        f"{head}{indented(_body(program, made), _INDENT)}}}\n",
    ]
    return "\n".join(parts)


def _explained(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    yield from comment(program.text)
    yield ""
    yield from comment(by_autodiff(program))
    yield from renamed(made.names)


def _parameter(name: str, legal: str) -> str:
    return name if name == legal else f"{_key(name)}: {legal}"


def _key(name: str) -> str:
    """A name as a key of an object."""
    return name if _is_name(name) else json.dumps(name, ensure_ascii=False)


def _place(variable: Variable, name: str, k: int) -> str:
    return name + "".join(f"[{i}]" for i in variable.position(k))


def _body(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    for name, part in made.lines:
        yield from wrapped(f"const {name} = {part.text};", _INDENT)
    given = [VALUE if made.value == VALUE else f"value: {made.value}"]
    if program.has_gradient:
        yield from _object("const gradient = ", made.slopes(), ";")
        given.append("gradient")
    if made.hessian is not None:
        yield from _object("const hessian = ", made.curvatures(), ";")
        given.append("hessian")
    yield f"return {{ {', '.join(given)} }};"


def _object(start: str, entries: Mapping[str, str] | Mapping[str, Mapping[str, str]], end: str) -> list[str]:
    """A statement or an entry that ends in an object, of texts or of objects; each entry on lines of its own where one
    line is not enough."""
    flat = f"{start}{_flat(entries)}{end}"
    if len(flat) <= _WIDTH:
        return [flat]
    lines = [f"{start}{{"]
    for name, text in entries.items():
        part = (
            wrapped(f"{_entry(name, text)},", _INDENT)
            if isinstance(text, str)
            else _object(f"{_key(name)}: ", text, ",")
        )
        lines += [f"{_INDENT}{line}" for line in part]
    return [*lines, f"}}{end}"]


def _flat(entries: Mapping[str, str] | Mapping[str, Mapping[str, str]]) -> str:
    inside = [_entry(name, text if isinstance(text, str) else _flat(text)) for name, text in entries.items()]
    return f"{{ {', '.join(inside)} }}" if inside else "{}"


def _entry(name: str, text: str) -> str:
    return name if text == name and _is_name(name) else f"{_key(name)}: {text}"
