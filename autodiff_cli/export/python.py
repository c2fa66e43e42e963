"""`f(x, y) -> (value, {"x": …})`, in Python with `math` alone."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from autodiff_cli.export.layout import SourceLayout, by_autodiff, comment, indented, layout, renamed, wrapped
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.targets.python import PYTHON, PythonLibrary

INDENT = "    "
WIDTH = 100  # of a line


def is_name(text: str) -> bool:
    """Whether Python takes a text for a name, and for no other: it reads some letters as others."""
    return text.isidentifier() and unicodedata.normalize("NFKC", text) == text and not text.startswith("_")


NAMES = LegalNames(frozenset({*keyword.kwlist, "math", "abs", "float", "max", "min", "any", "round"}), is_name)
_RESERVED = frozenset({"gradient", "hessian"})


def source(program: ExportProgram) -> str:
    """A module with the function and all that it calls."""
    made = layout(program, PythonLibrary(PYTHON), NAMES, place, _RESERVED)
    assert isinstance(made.library, PythonLibrary)
    body = [*docstring(program, made), *statements(made), *results(made)]
    functions = [text for text in made.library.texts.values() if text]
    math = "import math\n" if "math." in "\n".join([*body, *functions]) else ""
    return joined([math + made.library.imports, *functions, head(program, made) + indented(body, INDENT)])


def joined(parts: list[str]) -> str:
    """The parts of a module, two lines between them."""
    return "\n\n".join(filter(None, parts))


def head(program: ExportProgram, made: SourceLayout) -> str:
    """The line that begins the function."""
    return f"def {program.name}({', '.join(made.names[variable.name] for variable in program.variables)}):\n"


def docstring(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    """What the function says of itself."""
    first, *rest = comment(program.text)
    lines = [first, *rest, "", *comment(by_autodiff(program)), *renamed(made.names)]
    yield from quoted_lines(lines)


def quoted_lines(lines: Sequence[str]) -> Iterator[str]:
    """Lines as documentation, which nothing in them ends."""
    first, *rest = (line.replace('"""', "'''") for line in lines)
    yield f'"""{first}'
    yield from rest
    yield '"""'


def place(variable: Variable, name: str, k: int) -> str:
    """The k-th number of a variable."""
    return name + "".join(f"[{i}]" for i in variable.position(k))


def statements(made: SourceLayout) -> Iterator[str]:
    """The lines of the function up to its results."""
    for name, part in made.lines:
        yield from broken(f"{name} = ", part.text)


def results(made: SourceLayout) -> Iterator[str]:
    """The value alone, or with the derivatives."""
    given = [made.value]
    if made.program.has_gradient:
        yield from entries("gradient = ", made.slopes())
        given.append("gradient")
    if made.hessian is not None:
        yield from entries("hessian = ", made.curvatures())
        given.append("hessian")
    yield from broken("return ", ", ".join(given))


def entries(start: str, texts: Mapping[str, str] | Mapping[str, Mapping[str, str]]) -> list[str]:
    """A statement that ends in a dictionary, of texts or of dictionaries of them; each entry on lines of its own where
    one line is not enough."""
    inside = [(f"{quoted(name)}: ", text) for name, text in texts.items()]
    flat = start + "{" + ", ".join(key + (text if isinstance(text, str) else _flat(text)) for key, text in inside) + "}"
    if len(flat) <= WIDTH:
        return [flat]
    lines = [f"{start}{{"]
    for key, text in inside:
        part = broken(key, text) if isinstance(text, str) else entries(key, text)
        lines += [f"{INDENT}{line}" for line in part]
        lines[-1] += ","
    return [*lines, "}"]


def _flat(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{quoted(name)}: {text}" for name, text in texts.items()) + "}"


def quoted(name: str) -> str:
    """A name as a string."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def broken(start: str, text: str) -> list[str]:
    """A statement that ends in an expression; in brackets where it takes several lines."""
    line = start + text
    if len(line) <= WIDTH:
        return [line]
    return [f"{start}(", *(f"{INDENT}{part}" for part in wrapped(text, "", WIDTH - 8)), ")"]
