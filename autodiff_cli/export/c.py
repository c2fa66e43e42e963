"""`double f(const double x[N], double gradient[N])`, in C as of 1999."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autodiff_cli.export.layout import SourceLayout, explained, indented, layout, wrapped
from autodiff_cli.export.names import LegalNames, plain
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.targets.c import C, declaration
from autodiff_cli.targets.library import Library

_INDENT = "    "
_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    main NULL errno
"""
NAMES = LegalNames(frozenset(_KEYWORDS.split()), plain)
_RESERVED = frozenset({"x", "gradient", "hessian"})


def source(program: ExportProgram) -> str:
    """A file with the function and all that it calls, but for C's own library."""
    made = layout(program, Library(C), NAMES, _place, _RESERVED)
    parts = [
        "".join(f"// {line}".rstrip() + "\n" for line in explained(program, made)),
        "#include <math.h>\n",
        *[declaration(function) for function in made.library.ahead.values()],
        *made.library.texts.values(),
        f"{_head(program)}\n{{\n{indented(_wrapped(_body(program, made)), _INDENT)}}}\n",
    ]
    return "\n".join(parts)


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from wrapped(line, _INDENT)


def _place(variable: Variable, name: str, k: int) -> str:
    return f"{name}[{k}]" if variable.shape else name


def _head(program: ExportProgram) -> str:
    inputs = sum(variable.count for variable in program.variables)
    outputs = sum(variable.count for variable in program.wrt)
    parameters = [f"const double {_array('x', inputs)}"]
    if program.has_gradient:
        parameters.append(f"double {_array('gradient', outputs)}")
    if program.hessian is not None:
        parameters.append(f"double hessian[{outputs}][{outputs}]")
    if program.shape:
        parameters.append(f"double {_array('value', len(program.values))}")
    kind = "void" if program.shape else "double"
    return f"{kind} {program.name}({', '.join(parameters)})"


def _array(name: str, count: int) -> str:
    return f"{name}[{count}]" if count else f"*{name}"


def _body(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    used = made.used
    start = 0
    for variable in program.variables:
        if variable in used:
            name = made.names[variable.name]
            is_array = bool(variable.shape)
            place = f"x + {start}" if start else "x"
            yield f"const double *const {name} = {place};" if is_array else f"const double {name} = x[{start}];"
        start += variable.count
    if not used:
        yield "(void)x;"
    if program.has_gradient and not program.wrt:
        yield "(void)gradient;"
    for name, part in made.lines:
        yield f"const {'int' if part.is_condition else 'double'} {name} = {part.text};"
    slopes = [part for parts in made.gradient.values() for part in parts]
    for k, part in enumerate(slopes):
        yield f"gradient[{k}] = {part.text};"
    for i, row in enumerate(made.hessian or ()):
        for j, part in enumerate(row):
            yield f"hessian[{i}][{j}] = {part.text if i <= j else f'hessian[{j}][{i}]'};"
    if program.shape:
        yield from (f"value[{k}] = {part.text};" for k, part in enumerate(made.values))
    else:
        yield f"return {made.value};"
