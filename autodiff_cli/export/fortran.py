"""`subroutine f(x, value, gradient)`, in Fortran as of 2008."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from autodiff_cli.export.layout import VALUE, SourceLayout, explained, indented, layout, wrapped
from autodiff_cli.export.names import LegalNames, plain
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.targets.fortran import FORTRAN, RESULT, FortranLibrary, split

_INDENT = "    "
_LONGEST_NAME = 63
# No word of the language is reserved.
NAMES = LegalNames(frozenset({"dp", RESULT}), lambda name: plain(name) and len(name) <= _LONGEST_NAME, folds_case=True)
_RESERVED = frozenset({"x", "gradient", "hessian"})


def source(program: ExportProgram) -> str:
    """A file with the subroutine; what it calls is contained in it."""
    made = layout(program, FortranLibrary(FORTRAN), NAMES, _place, _RESERVED)
    declared, contained = split(made.library.texts.values())
    parameters = ["x", "value", *(["gradient"] if program.has_gradient else []), *(["hessian"] if made.hessian else [])]
    body = [*_statements(program, made)]
    lines = [
        *(["use, intrinsic :: ieee_arithmetic"] if "ieee_" in "\n".join([*body, *contained]) else []),
        "use, intrinsic :: iso_c_binding, only: dp => c_double",
        "implicit none",
        *_arguments(program),
        *(line for part in declared for line in part.splitlines()),
        *_variables(made),
        "",
        *_broken(body),
    ]
    functions = [f"\n{textwrap.indent(part, _INDENT)}" for part in contained]
    return "".join(
        [
            *(f"! {line}".rstrip() + "\n" for line in explained(program, made)),
            f"subroutine {program.name}({', '.join(parameters)})\n",
            indented(lines, _INDENT),
            *(["contains\n", *functions] if functions else []),
            f"end subroutine {program.name}\n",
        ]
    )


def _place(variable: Variable, name: str, k: int) -> str:
    return f"{name}({k + 1})" if variable.shape else name


def _arguments(program: ExportProgram) -> Iterator[str]:
    inputs = sum(variable.count for variable in program.variables)
    outputs = sum(variable.count for variable in program.wrt)
    yield f"real(dp), intent(in) :: x({inputs})"
    yield f"real(dp), intent(out) :: value{f'({len(program.values)})' if program.shape else ''}"
    if program.has_gradient:
        yield f"real(dp), intent(out) :: gradient({outputs})"
    if program.hessian is not None:
        yield f"real(dp), intent(out) :: hessian({outputs}, {outputs})"


def _variables(made: SourceLayout) -> Iterator[str]:
    names = [made.names[variable.name] + (f"({variable.count})" if variable.shape else "") for variable in made.used]
    numbers = [*names, *(name for name, part in made.lines if not part.is_condition and name != VALUE)]
    conditions = [name for name, part in made.lines if part.is_condition]
    for kind, group in (("real(dp)", numbers), ("logical", conditions)):
        for line in textwrap.wrap(", ".join(group), 84):
            yield f"{kind} :: {line.rstrip(',')}"


def _statements(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    if not made.used:
        yield "if (size(x) < 0) return  ! x is not used"
    if program.has_gradient and not program.wrt:
        yield "gradient = 0.0_dp  ! there is nothing in it"
    start = 1
    for variable in program.variables:
        if variable in made.used:
            stop = start + variable.count - 1
            yield f"{made.names[variable.name]} = x({f'{start}:{stop}' if variable.shape else start})"
        start += variable.count
    for name, part in made.lines:
        yield f"{name} = {part.text}"
    if program.shape:
        yield from (f"value({k}) = {part.text}" for k, part in enumerate(made.values, 1))
    elif made.value != VALUE:
        yield f"value = {made.value}"
    slopes = [part for parts in made.gradient.values() for part in parts]
    for k, part in enumerate(slopes, 1):
        yield f"gradient({k}) = {part.text}"
    for i, row in enumerate(made.hessian or (), 1):
        for j, part in enumerate(row, 1):
            yield f"hessian({i}, {j}) = {part.text if i <= j else f'hessian({j}, {i})'}"


def _broken(lines: Iterable[str]) -> Iterator[str]:
    """Lines of at most 132 characters; those that go on say so."""
    for line in lines:
        first, *rest = wrapped(line, _INDENT) or [""]
        for further in rest:
            yield f"{first} &"
            first = further
        yield first
