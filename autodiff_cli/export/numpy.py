"""`f(x, y) -> (value, {"x": …})`, in NumPy: numbers, or arrays of them element by element."""

from __future__ import annotations

from collections.abc import Iterator

from autodiff_cli.export import python
from autodiff_cli.export.layout import VALUE, SourceLayout, indented, layout
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.export.python import INDENT, docstring, entries, head, joined, statements
from autodiff_cli.targets.numpy import NUMPY, NumpyLibrary

NAMES = LegalNames(python.NAMES.keywords | {"np"}, python.NAMES.is_legal)
_RESERVED = frozenset({"gradient", "hessian", "zeros"})


def source(program: ExportProgram) -> str:
    """A module with the function and all that it calls."""
    made = layout(program, NumpyLibrary(NUMPY), NAMES, place, _RESERVED)
    assert isinstance(made.library, NumpyLibrary)
    body = [
        *docstring(program, made),
        *(f"{made.names[v.name]} = np.asarray({made.names[v.name]}, dtype=float)" for v in made.used),
        'with np.errstate(all="ignore"):',
        *(INDENT + line for line in [*statements(made), *_results(program, made)]),
    ]
    functions = [text for text in made.library.texts.values() if text]
    math = "import math\n" if any("math." in text for text in functions) else ""
    standard = math + made.library.imports
    imports = (f"{standard}\n" if standard else "") + "import numpy as np\n"
    return joined([imports, *functions, head(program, made) + indented(body, INDENT)])


def place(variable: Variable, name: str, k: int) -> str:
    """A variable, or an element of it."""
    return name if variable.is_whole else f"{name}[{', '.join(map(str, variable.position(k)))}]"


def _results(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    """The value alone, or with the derivatives, which have an element for each of the value's."""
    given = [made.value]
    is_elementwise = not any(variable.shape for variable in program.variables)
    if is_elementwise and program.has_gradient:
        if made.value != VALUE:
            yield f"{VALUE} = {made.value}"
        yield f"zeros = np.zeros_like({VALUE})"
        given = [VALUE]
    more = " + zeros" if is_elementwise else ""
    if program.has_gradient:
        yield from entries("gradient = ", {name: text + more for name, text in made.slopes().items()})
        given.append("gradient")
    if made.hessian is not None:
        rows = {a: {b: text + more for b, text in row.items()} for a, row in made.curvatures().items()}
        yield from entries("hessian = ", rows)
        given.append("hessian")
    yield f"return {', '.join(given)}"
