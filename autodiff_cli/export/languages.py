"""Export of formulas to other languages: `export` writes the source of a function, and `EXPORTERS` has all languages.

The sources in C, Fortran and JavaScript are written here; those in Python, NumPy, JAX and PyTorch in `python`, and
equations in `latex`. `framework_gradient` runs an exported source in JAX or PyTorch, to compare its gradient with ours.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli.export import latex, python
from autodiff_cli.export import program as programs
from autodiff_cli.graph.node import Op
from autodiff_cli.language.errors import join_words
from autodiff_cli.numbers.translation import Library, identifiers
from autodiff_cli.system import read_tables
from autodiff_cli.targets.languages import C_STATEMENTS, FORTRAN, FORTRAN_STATEMENTS, JAVASCRIPT, C, FortranLibrary
from autodiff_cli.targets.latex import LATEX, LatexLibrary
from autodiff_cli.targets.python import JAX, LIBRARIES, TORCH
from autodiff_cli.targets.translation import GraphWriter, UnsupportedOperationError

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula

# --- C (C99): `double f(const double x[N], double gradient[N])`

_C_INDENT = "    "
_RESERVED_NAMES = read_tables(__file__, "reserved_names.toml")
_C_WORDS = {kind: names.split() for kind, names in _RESERVED_NAMES["c"].items()}
_C_NUMBER_SUFFIXES = ("", "f", "l", "f32", "f64", "f128", "f32x", "f64x", "F32", "F64", "F128", "F32X", "F64X")
C_NAMES = programs.NamingRules(
    frozenset([*_C_WORDS["keywords"], *map("".join, product(_C_WORDS["numbers"], _C_NUMBER_SUFFIXES))]),
    programs.is_plain_name,
    function_keywords=frozenset(
        [*_C_WORDS["functions"], *map("".join, product(_C_WORDS["math"], ("", "f", "l", "_r")))]
    ),
)
_C_RESERVED = frozenset({"x", "gradient", "hessian"})


def c_source(program: programs.ExportProgram) -> str:
    """Return a C file with the function, and with all functions that it calls beyond C's own library."""
    layout = programs.SourceLayout(program, Library(C), C_NAMES, _vector_element("[{}]", 0), _C_RESERVED)
    body = [part for line in _c_body(program, layout) for part in programs.wrap_statement(line, _C_INDENT)]
    parts = [
        programs.indent_lines(layout.array_comment(), "// "),
        "#include <math.h>\n",
        *[f"{C_STATEMENTS.function_head(function)};\n" for function in layout.library.forward_declared.values()],
        *layout.library.texts.values(),
        f"{_c_signature(program)}\n{{\n{programs.indent_lines(body, _C_INDENT)}}}\n",
    ]
    return "\n".join(parts)


def _vector_element(form: str, first: int) -> programs.ElementNotation:
    """Return the notation of elements of arrays that are stored as vectors, numbered from `first`."""
    return lambda variable, name, k: name + form.format(k + first) if variable.shape else name


def _c_signature(program: programs.ExportProgram) -> str:
    inputs = sum(variable.size for variable in program.variables)
    outputs = program.slope_count
    parameters = [f"const double {_c_array('x', inputs)}"]
    if program.options.gradient:
        parameters.append(f"double {_c_array('gradient', outputs)}")
    if program.options.hessian:
        parameters.append(f"double hessian[{outputs}][{outputs}]")
    if program.shape:
        parameters.append(f"double {_c_array('value', math.prod(program.shape))}")
    return f"{'void' if program.shape else 'double'} {program.options.name}({', '.join(parameters)})"


def _c_array(name: str, count: int) -> str:
    return f"{name}[{count}]" if count else f"*{name}"


def _c_body(program: programs.ExportProgram, layout: programs.SourceLayout) -> Iterator[str]:
    for name, variable, start in layout.used_slices:
        place = f"x + {start}" if start else "x"
        yield f"const double *const {name} = {place};" if variable.shape else f"const double {name} = x[{start}];"
    if not layout.used_variables:
        yield "(void)x;"
    if program.options.gradient and not program.wrt:
        yield "(void)gradient;"
    for name, part in layout.lines:
        yield f"const {'int' if part.is_condition else 'double'} {name} = {part.text};"
    yield from (f"{statement};" for statement in _array_results(layout, "[{}]", "[{}][{}]", 0))
    if not program.shape:
        yield f"return {layout.value};"


def _array_results(layout: programs.SourceLayout, index: str, pair: str, first: int) -> Iterator[str]:
    """Yield the assignments of results that are arrays, whose elements are numbered from `first`."""
    values, slopes, hessian = layout.program.split_results(layout.results)
    for name, parts in (("value", values if layout.program.shape else ()), ("gradient", slopes)):
        yield from (f"{name}{index.format(k)} = {part}" for k, part in enumerate(parts, first))
    for i, row in enumerate(hessian, first):
        for j, part in enumerate(row, first):
            yield f"hessian{pair.format(i, j)} = {part if i <= j else f'hessian{pair.format(j, i)}'}"


# --- Fortran (2008): `subroutine f(x, value, gradient)`

_FORTRAN_INDENT = "    "
_FORTRAN_MAX_NAME = 63  # characters of a name in Fortran 2008
# The last three are intrinsics that `inf()` and `nan()` call. No word of the language is reserved.
_FORTRAN_RESERVED = frozenset({"x", "gradient", "hessian", "ieee_value", "ieee_positive_inf", "ieee_quiet_nan"})
FORTRAN_NAMES = programs.NamingRules(
    frozenset({"dp", "returned"}),  # the kind of numbers, and the result of functions
    programs.is_plain_name,
    is_case_insensitive=True,
    function_keywords=_FORTRAN_RESERVED.union(
        {"value"}, *(identifiers(text) for notation in FORTRAN.notations.values() for text in notation.texts)
    ),
    max_length=_FORTRAN_MAX_NAME,
)


def fortran_source(program: programs.ExportProgram) -> str:
    """Return a Fortran file with the subroutine, which contains all functions that it calls."""
    layout = programs.SourceLayout(
        program, FortranLibrary(FORTRAN), FORTRAN_NAMES, _vector_element("({})", 1), _FORTRAN_RESERVED
    )
    declared, contained = split_declarations(layout.library.texts.values())
    parameters = ["x", "value", *["gradient"] * program.options.gradient, *["hessian"] * program.options.hessian]
    body = [*_fortran_statements(program, layout)]
    words = layout.library.used_words.union(*map(identifiers, contained))
    intrinsics = sorted(word for word in words if word.startswith("ieee_"))
    lines = [
        *[f"use, intrinsic :: ieee_arithmetic, only: {', '.join(intrinsics)}"] * bool(intrinsics),
        "use, intrinsic :: iso_c_binding, only: dp => c_double",
        "implicit none",
        *_fortran_arguments(program),
        *(line for part in declared for line in part.splitlines()),
        *_fortran_variables(layout),
        "",
        *(part for line in body for part in FORTRAN_STATEMENTS.wrapped(line).splitlines() or [""]),
    ]
    functions = [f"\n{textwrap.indent(part, _FORTRAN_INDENT)}" for part in contained]
    return "".join(
        [
            programs.indent_lines(layout.array_comment(), "! "),
            f"subroutine {program.options.name}({', '.join(parameters)})\n",
            programs.indent_lines(lines, _FORTRAN_INDENT),
            *(["contains\n", *functions] if functions else []),
            f"end subroutine {program.options.name}\n",
        ]
    )


def split_declarations(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the declarations that precede a program's statements, and the functions that follow them."""
    declared = [text for text in texts if text.startswith(("real(dp), parameter", "interface"))]
    return declared, [text for text in texts if text not in declared]


def _fortran_arguments(program: programs.ExportProgram) -> Iterator[str]:
    inputs = sum(variable.size for variable in program.variables)
    outputs = program.slope_count
    yield f"real(dp), intent(in) :: x({inputs})"
    yield f"real(dp), intent(out) :: value{f'({math.prod(program.shape)})' if program.shape else ''}"
    if program.options.gradient:
        yield f"real(dp), intent(out) :: gradient({outputs})"
    if program.options.hessian:
        yield f"real(dp), intent(out) :: hessian({outputs}, {outputs})"


def _fortran_variables(layout: programs.SourceLayout) -> Iterator[str]:
    names = [
        layout.names[variable.name] + (f"({variable.size})" if variable.shape else "")
        for variable in layout.used_variables
    ]
    numbers = [*names, *(name for name, part in layout.lines if not part.is_condition and name != programs.VALUE_NAME)]
    conditions = [name for name, part in layout.lines if part.is_condition]
    for kind, group in (("real(dp)", numbers), ("logical", conditions)):
        for line in textwrap.wrap(", ".join(group), 84):
            yield f"{kind} :: {line.rstrip(',')}"


def _fortran_statements(program: programs.ExportProgram, layout: programs.SourceLayout) -> Iterator[str]:
    if not layout.used_variables:
        yield "if (size(x) < 0) return  ! x is not used"
    if program.options.gradient and not program.wrt:
        yield "gradient = 0.0_dp  ! there is nothing in it"
    for name, variable, start in layout.used_slices:
        yield f"{name} = x({f'{start + 1}:{start + variable.size}' if variable.shape else start + 1})"
    for name, part in layout.lines:
        yield f"{name} = {part.text}"
    if not program.shape and layout.value != programs.VALUE_NAME:
        yield f"value = {layout.value}"
    yield from _array_results(layout, "({})", "({}, {})", 1)


# --- JavaScript: `f({ x, y })`, which returns `{ value, gradient }`, as a module without imports

_JAVASCRIPT_INDENT = "  "


def _is_javascript_name(text: str) -> bool:
    """Whether a text is a name in JavaScript and in Python, which differ in the letters that they accept."""
    return text.isidentifier() and re.fullmatch(r"[\w$]+", text) is not None


JAVASCRIPT_NAMES = programs.NamingRules(
    frozenset(_RESERVED_NAMES["javascript"]["keywords"].split()), _is_javascript_name
)


def javascript_source(program: programs.ExportProgram) -> str:
    """Return a JavaScript module with the function, and with all functions that it calls."""
    layout = programs.SourceLayout(
        program, Library(JAVASCRIPT), JAVASCRIPT_NAMES, programs.indexed_element, frozenset({"gradient", "hessian"})
    )
    legal = {variable.name: layout.names[variable.name] for variable in layout.used_variables}
    parameters = ", ".join(name if name == text else f"{_object_key(name)}: {text}" for name, text in legal.items())
    head = f"export function {program.options.name}({f'{{ {parameters} }}' if parameters else ''}) {{\n"
    parts = [
        programs.indent_lines(layout.comment(program.origin), "// "),
        *layout.library.texts.values(),
        f"{head}{programs.indent_lines(_javascript_body(layout), _JAVASCRIPT_INDENT)}}}\n",
    ]
    return "\n".join(parts)


def _object_key(name: str) -> str:
    """Return a name as the key of an object. `__proto__` needs brackets, else it would set the object's prototype."""
    if name == "__proto__":
        return '["__proto__"]'
    return name if _is_javascript_name(name) else json.dumps(name, ensure_ascii=False)


def _javascript_body(layout: programs.SourceLayout) -> Iterator[str]:
    for name, part in layout.lines:
        yield from programs.wrap_statement(f"const {name} = {part.text};", _JAVASCRIPT_INDENT)
    derivatives = layout.derivatives()
    for name, entries in derivatives.items():
        yield from _OBJECT.statement(f"const {name} = ", entries, ";")
    value = programs.VALUE_NAME if layout.value == programs.VALUE_NAME else f"value: {layout.value}"
    yield f"return {{ {', '.join([value, *derivatives])} }};"


_OBJECT = python.DictSyntax(
    lambda name, text: name if text == name and _is_javascript_name(name) else f"{_object_key(name)}: {text}",
    ("{ ", " }"),
    _JAVASCRIPT_INDENT,
)


# --- All languages


@dataclass(frozen=True)
class Exporter:
    """A language that formulas can be exported to.

    Attributes:
        title: its name, for people.
        source: writes a program in the language.
        library: creates the library of functions that a program calls.
        names: the names that the language allows.
        has_arrays: whether the language has arrays; else they are unrolled.
        has_autodiff: whether the language differentiates by itself, so that programs have no derivatives.
        graph_pass: a pass over the graphs of a program.
    """

    title: str
    source: Callable[[programs.ExportProgram], str]
    library: Callable[[], Library]
    names: programs.NamingRules
    has_arrays: bool = False
    has_autodiff: bool = False
    graph_pass: programs.GraphPass = programs.simplify_for_code

    def supports(self, op: Op) -> bool:
        """Whether the language has an operation."""
        if op.is_structural and not self.has_arrays:
            return True  # arrays are unrolled
        try:
            GraphWriter(self.library()).lower([op(*op.placeholders(op.min_inputs))])
        except UnsupportedOperationError:
            return False
        return True


_DEFAULT_OPTIONS = programs.ExportOptions()
EXPORTERS: Mapping[str, Exporter] = {
    "c": Exporter("C", c_source, lambda: Library(C), C_NAMES),
    "fortran": Exporter("Fortran", fortran_source, lambda: FortranLibrary(FORTRAN), FORTRAN_NAMES),
    "python": Exporter("Python", python.python_source, LIBRARIES["python"], python.PYTHON_NAMES),
    "numpy": Exporter("NumPy", python.numpy_source, LIBRARIES["numpy"], python.NUMPY_NAMES, has_arrays=True),
    "jax": Exporter(
        "JAX", python.jax_source, LIBRARIES["jax"], python.JAX_NAMES, has_arrays=True, has_autodiff=True,
        graph_pass=partial(programs.simplify_for_framework, JAX, programs.is_singular),
    ),
    "torch": Exporter(
        "PyTorch", python.torch_source, LIBRARIES["torch"], python.TORCH_NAMES, has_arrays=True, has_autodiff=True,
        graph_pass=partial(programs.simplify_for_framework, TORCH, lambda _: True),
    ),
    "js": Exporter("JavaScript", javascript_source, lambda: Library(JAVASCRIPT), JAVASCRIPT_NAMES),
    "latex": Exporter(
        "LaTeX", latex.latex_source, lambda: LatexLibrary(LATEX), latex.LATEX_NAMES,
        has_arrays=True, graph_pass=latex.readable_derivatives,
    ),
}  # fmt: skip


def export(formula: Formula, target: str, options: programs.ExportOptions = _DEFAULT_OPTIONS) -> str:
    """Write a formula and its derivatives as the source of a function in a language.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.export.program import ExportOptions
    >>> print(export(parse("x*y + sin(x)"), "js", ExportOptions(wrt=("x",))))
    // x*y + sin(x)
    //
    // The value, and its derivatives with respect to x. Written by autodiff 0.1.0.
    <BLANKLINE>
    export function f({ x, y }) {
      const value = x*y + Math.sin(x);
      const gradient = { x: y + Math.cos(x) };
      return { value, gradient };
    }
    <BLANKLINE>

    Args:
        formula: the formula.
        target: the language, a key of `EXPORTERS`.
        options: the name of the function, and its derivatives.

    Raises:
        ExportError: if the language does not allow the name of the function, differentiates by itself, or lacks an
            operation, and as `ExportProgram` does.
        ExpressionError: as `ExportProgram` does.
    """
    exporter = EXPORTERS[target]
    if not exporter.names.allows(options.name):
        raise programs.ExportError(
            f"`{options.name}` is not a legal name in {exporter.title}: choose another one with --name"
        )
    if exporter.has_autodiff and (options.hessian or options.wrt is not None):
        option = "--hessian" if options.hessian else "--wrt"
        raise programs.ExportError(
            f"{exporter.title} differentiates by itself, so its code has the value only: omit {option}"
        )
    if exporter.has_autodiff:
        options = replace(options, wrt=(), gradient=False)
    program = programs.ExportProgram(formula, options, exporter.has_arrays, exporter.graph_pass)
    try:
        return exporter.source(program)
    except UnsupportedOperationError as error:
        raise unsupported_error(exporter.title, error) from None


def unsupported_error(title: str, error: UnsupportedOperationError) -> programs.ExportError:
    """Return the error for operations that a language lacks, with the languages that have them."""
    names = [f"`{op.spelling or op.symbol or op.name}`" for op in error.ops]
    others = [name for name, other in EXPORTERS.items() if all(map(other.supports, error.ops))]
    supported = f"{join_words(others)} {'have' if len(others) > 1 else 'has'} {'it' if len(names) == 1 else 'them'}"
    return programs.ExportError(f"{title} has no {' and no '.join(names)}; {supported}: choose with --to")


# --- Gradients by other frameworks


class FrameworkGradient(NamedTuple):
    """The value and the gradient of a formula as another framework computes them.

    Attributes:
        framework: the name of the framework.
        version: its version.
        value: the value of the formula.
        gradient: the derivatives, by variable; an element of an array is `W[0, 1]`.
        agrees: whether our derivatives agree with them, up to rounding errors.
    """

    framework: str
    version: str
    value: float
    gradient: Mapping[str, float]
    agrees: Mapping[str, bool]


def framework_gradient(
    framework: str, formula: Formula, point: Mapping[str, Any], ours: Mapping[str, float]
) -> FrameworkGradient:
    """Compute the gradient of a formula with another framework.

    Args:
        framework: a key of `FRAMEWORKS`.
        formula: the formula.
        point: floats and arrays, by variable.
        ours: our derivatives.

    Raises:
        ExportError: if the framework lacks an operation.
        ModuleNotFoundError: if it is not installed.
    """
    import numpy as np

    source = export(formula, framework, programs.ExportOptions("f", gradient=False))
    library = importlib.import_module(framework)
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # the source is our own
    values = [np.asarray(point[name], dtype=np.float64) for name in formula.variables]
    value, slopes = FRAMEWORKS[framework](library, namespace["f"], values)
    theirs = {
        f"{name}{[*place] if place else ''}": float(number)
        for name, slope in zip(formula.variables, slopes, strict=True)
        for place, number in np.ndenumerate(slope)
    }
    gradient = {name: theirs[name] for name in ours}
    # Two correct gradients differ by far less, or near 0 by rounding errors of larger terms.
    same = np.isclose([*ours.values()], [*gradient.values()], rtol=1e-9, atol=1e-12, equal_nan=True)
    agrees = dict(zip(ours, same.tolist(), strict=True))
    return FrameworkGradient(framework, library.__version__, float(value), gradient, agrees)


def _torch_gradient(torch: Any, f: Callable[..., Any], point: Sequence[Any]) -> tuple[Any, list[Any]]:
    # Lists, because PyTorch reads arrays only of the NumPy that it was built for.
    leaves = [torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True) for x in point]
    value = f(*leaves)
    if value.requires_grad:
        value.backward()
    return value.detach(), [(torch.zeros_like(x) if x.grad is None else x.grad).tolist() for x in leaves]


def _jax_gradient(jax: Any, f: Callable[..., Any], point: Sequence[Any]) -> tuple[Any, list[Any]]:
    jax.config.update("jax_enable_x64", True)
    value, slopes = jax.value_and_grad(f, argnums=tuple(range(len(point))))(*point)
    return value, slopes


FRAMEWORKS: Mapping[str, Callable[..., tuple[Any, Sequence[Any]]]] = {"torch": _torch_gradient, "jax": _jax_gradient}
