"""The languages that formulas are exported to, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autodiff_cli.export import c, fortran, frameworks, javascript, latex, numpy, python
from autodiff_cli.export.layout import listed
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportError, ExportProgram, Tidy, Wanted, for_evaluating, for_tensors, program
from autodiff_cli.graph.op import Op
from autodiff_cli.targets.c import C
from autodiff_cli.targets.definitions import SHORTER
from autodiff_cli.targets.fortran import FORTRAN, FortranLibrary
from autodiff_cli.targets.frameworks import JAX, TORCH, JaxLibrary, TorchLibrary
from autodiff_cli.targets.javascript import JAVASCRIPT
from autodiff_cli.targets.latex import LATEX, LatexLibrary
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.numpy import NUMPY, NumpyLibrary
from autodiff_cli.targets.pen import LackingError, Pen
from autodiff_cli.targets.python import PYTHON, PythonLibrary

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula


@dataclass(frozen=True)
class Exporter:
    """A language.

    Attributes:
        title: what people call it.
        suffix: of its files.
        source: the text of a program.
        library: what it calls.
        names: what names it allows.
        has_arrays: whether arrays stay arrays; else they are written out.
        differentiates: whether derivatives are the language's own business.
        tidy: what is done to graphs beforehand.
    """

    title: str
    suffix: str
    source: Callable[[ExportProgram], str]
    library: Callable[[], Library]
    names: LegalNames
    has_arrays: bool = False
    differentiates: bool = False
    tidy: Tidy = for_evaluating

    def has(self, op: Op) -> bool:
        """Whether the language has an operation."""
        if op.structural and not self.has_arrays:
            return True  # written out
        try:
            Pen(self.library(), SHORTER).words([op(*op.placeholders(op.least))])
        except LackingError:
            return False
        return True


_ALL = Wanted()
EXPORTERS: Mapping[str, Exporter] = {
    "c": Exporter("C", ".c", c.source, lambda: Library(C), c.NAMES),
    "fortran": Exporter("Fortran", ".f90", fortran.source, lambda: FortranLibrary(FORTRAN), fortran.NAMES),
    "python": Exporter("Python", ".py", python.source, lambda: PythonLibrary(PYTHON), python.NAMES),
    "numpy": Exporter("NumPy", ".py", numpy.source, lambda: NumpyLibrary(NUMPY), numpy.NAMES, has_arrays=True),
    "jax": Exporter(
        "JAX", ".py", frameworks.jax_source, lambda: JaxLibrary(JAX), frameworks.JAX_NAMES,
        has_arrays=True, differentiates=True,
    ),
    "torch": Exporter(
        "PyTorch", ".py", frameworks.torch_source, lambda: TorchLibrary(TORCH), frameworks.TORCH_NAMES,
        has_arrays=True, differentiates=True, tidy=for_tensors,
    ),
    "js": Exporter("JavaScript", ".js", javascript.source, lambda: Library(JAVASCRIPT), javascript.NAMES),
    "latex": Exporter(
        "LaTeX", ".tex", latex.source, lambda: LatexLibrary(LATEX), latex.NAMES, has_arrays=True, tidy=latex.for_reading
    ),
}  # fmt: skip


def export(formula: Formula, target: str, wanted: Wanted = _ALL) -> str:
    """A formula, and its derivatives, as the source of a function in a language.

    >>> from autodiff_cli import parse
    >>> print(export(parse("x*y + sin(x)"), "js", Wanted(wrt=("x",))))
    // x*y + sin(x)
    //
    // The value, and its derivatives towards x. Written by autodiff 0.1.0.
    <BLANKLINE>
    export function f({ x, y }) {
      const value = x*y + Math.sin(x);
      const gradient = { x: y + Math.cos(x) };
      return { value, gradient };
    }
    <BLANKLINE>

    Args:
        target: one of `EXPORTERS`.

    Raises:
        ExportError: for a name of the function that the language does not allow, derivatives that it makes itself, and
            operations that it lacks.
        ExpressionError, TooLargeError: as `program` does.
    """
    exporter = EXPORTERS[target]
    if not exporter.names.allows(wanted.name):
        raise ExportError(f"`{wanted.name}` cannot name a function in {exporter.title}: give another name with --name")
    if exporter.differentiates and (wanted.hessian or wanted.wrt is not None):
        option = "--hessian" if wanted.hessian else "--wrt"
        raise ExportError(
            f"{exporter.title} differentiates by itself: its code is a function of the value, without {option}"
        )
    towards = replace(wanted, wrt=(), gradient=False) if exporter.differentiates else wanted
    made = program(formula, towards, exporter.has_arrays, exporter.tidy)
    try:
        return exporter.source(made)
    except LackingError as error:
        raise ExportError(_lacking(exporter, error)) from None


def _lacking(exporter: Exporter, error: LackingError) -> str:
    """Which operations a language lacks, and which languages have them."""
    names = [f"`{op.spelling or op.symbol or op.name}`" for op in error.ops]
    others = [name for name, other in EXPORTERS.items() if all(map(other.has, error.ops))]
    what = f"{listed(others)} {'have' if len(others) > 1 else 'has'} {'it' if len(names) == 1 else 'them'}"
    return f"{exporter.title} has no {' and no '.join(names)}; {what}: choose with --to"
