"""A program as straight lines of a language, with legal names; what goes around them is each language's own."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportProgram, Variable
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.graph.straight import Fragment, Lines, straight_lines
from autodiff_cli.targets.definitions import SHORTER
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.pen import Pen
from autodiff_cli.version import __version__

VALUE = "value"  # the name of the value, where it has a line
_WIDTH = 72  # of an expression within a line
_COMMENT = 92  # of a line of comment
_LONGEST = 600  # characters of a formula in a comment

Place = Callable[[Variable, str, int], str]  # how the k-th number of a variable is written, given its legal name


@dataclass(frozen=True)
class SourceLayout:
    """A program written as lines.

    Attributes:
        program: the program.
        library: what the lines call.
        names: the legal names of variables, by their own.
        lines: of the function's body.
        values: the fragments for the value, one for each number where an array is written out.
        gradient: the fragments for the derivatives, by variable.
        hessian: those for the second derivatives; None if not wanted.
    """

    program: ExportProgram
    library: Library
    names: Mapping[str, str]
    lines: Sequence[tuple[str, Fragment]]
    values: Sequence[Fragment]
    gradient: Mapping[str, Sequence[Fragment]]
    hessian: Sequence[Sequence[Fragment]] | None

    @property
    def used(self) -> list[Variable]:
        """The variables that the code reads."""
        texts = [part.text for _, part in self.lines] + [part.text for part in self.results]
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        return [variable for variable in self.program.variables if self.names[variable.name] in words]

    @property
    def results(self) -> list[Fragment]:
        """The fragments for all numbers that the function gives."""
        slopes = [part for parts in self.gradient.values() for part in parts]
        return [*self.values, *slopes, *(part for row in self.hessian or () for part in row)]

    @property
    def value(self) -> str:
        """The value; that of an array that is written out as nested lists."""
        return nested([part.text for part in self.values], self.program.shape)

    def slopes(self) -> dict[str, str]:
        """The derivatives by variable; those of an array as nested lists."""
        return {
            variable.name: nested(
                [part.text for part in self.gradient[variable.name]], () if variable.is_whole else variable.shape
            )
            for variable in self.program.wrt
        }

    def curvatures(self) -> dict[str, dict[str, str]]:
        """The second derivatives by two variables; those of arrays as nested lists, of the one's shape and then the
        other's."""
        assert self.hessian is not None
        found: dict[str, dict[str, str]] = {}
        i = 0
        for first in self.program.wrt:
            rows, j = self.hessian[i : i + first.count], 0
            found[first.name] = {}
            for second in self.program.wrt:
                block = [part.text for row in rows for part in row[j : j + second.count]]
                found[first.name][second.name] = nested(block, first.shape + second.shape)
                j += second.count
            i += first.count
        return found


def layout(
    program: ExportProgram, library: Library, names: LegalNames, place: Place, reserved: frozenset[str]
) -> SourceLayout:
    """Write the graphs of a program as lines.

    Args:
        names: what the language allows.
        place: how a number of a variable is written.
        reserved: names that the function uses itself.

    Raises:
        LackingError: where the language lacks an operation.
    """
    pen = Pen(library, SHORTER)
    graphs = pen.words([*program.roots, *program.called])
    roots, called = graphs[: len(program.roots)], graphs[len(program.roots) :]
    first = _write(pen, roots, {leaf: Fragment("x") for variable in program.variables for leaf in variable.leaves})
    taken = reserved | {VALUE, program.name} | set(library.texts) | library.words
    legal = names.legal([*(variable.name for variable in program.variables)], taken)
    own = names.legal(program.called.values(), taken | {*legal.values()})
    lines_called = {
        node: own[name] for node, name in zip(called, program.called.values(), strict=True) if node.op is not None
    }
    if program.has_gradient and roots[0].op is not None and not first.results[0].is_condition:
        lines_called.setdefault(roots[0], VALUE)
    leaves = {
        leaf: Fragment(place(variable, legal[variable.name], k))
        for variable in program.variables
        for k, leaf in enumerate(variable.leaves)
    }
    fresh = names.fresh(taken | {*legal.values(), *own.values()})
    lines = _write(pen, roots, leaves, lines_called, fresh)
    results = iter([library.target.given(part) for part in lines.results])
    return SourceLayout(
        program=program,
        library=library,
        names=legal,
        lines=lines.lines,
        values=[next(results) for _ in program.values],
        gradient={name: [next(results) for _ in slopes] for name, slopes in program.gradient.items()},
        hessian=None if program.hessian is None else [[next(results) for _ in row] for row in program.hessian],
    )


def _write(
    pen: Pen,
    roots: Sequence[Node],
    leaves: Mapping[Node, Fragment],
    called: Mapping[Node, str] | None = None,
    fresh: Iterator[str] | None = None,
) -> Lines:
    return straight_lines(roots, leaves, pen.write, _WIDTH, called, fresh)


def nested(texts: Sequence[str], shape: Sequence[int]) -> str:
    """Numbers as lists in lists.

    >>> nested(["a", "b", "c", "d"], (2, 2)), nested(["a"], ())
    ('[[a, b], [c, d]]', 'a')
    """
    for length in reversed(shape):
        texts = [f"[{', '.join(texts[k : k + length])}]" for k in range(0, len(texts), length)]
    return texts[0]


def indented(lines: Iterable[str], indent: str) -> str:
    """Lines as they stand in a function."""
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def wrapped(line: str, indent: str, width: int = 100) -> list[str]:
    """A statement on as many lines as it takes, broken where there are blanks; `indent` is that of the further ones."""
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def comment(text: str) -> list[str]:
    """Lines of a comment, without anything that could end it or mean something in it."""
    shown = re.sub(r"[^\S ]+|\\", " ", text)
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST // 2]} … {shown[-_LONGEST // 2 :]}"
    return textwrap.wrap(shown.replace("??", "? ?"), _COMMENT, break_on_hyphens=False)


def renamed(names: Mapping[str, str]) -> list[str]:
    """Lines of a comment that say which variables have other names here."""
    parts = [f"{name} is {legal}" for name, legal in names.items() if legal != name]
    return comment(f"Here {listed(parts)}.") if parts else []


def by_autodiff(program: ExportProgram) -> str:
    """Who wrote this, and what it is."""
    towards = f", and its derivatives towards {listed([v.name for v in program.wrt])}" if program.wrt else ""
    second = "; second derivatives too" if program.hessian is not None else ""
    return f"The value{program.note and f': {program.note}'}{towards}{second}. Written by autodiff {__version__}."


def explained(program: ExportProgram, made: SourceLayout) -> Iterator[str]:
    """The lines of comment above a function of one array: the formula, who wrote it, and what stands where."""
    yield from comment(program.text)
    yield ""
    yield from comment(by_autodiff(program))
    yield from comment(described("x", program.variables, made.names))
    if len(program.shape) > 1:
        yield from comment(f"In value: {in_words(program.shape)}, row by row.")
    if program.has_gradient and program.wrt != program.variables:
        yield from comment(described("gradient", program.wrt, made.names))


def described(array: str, variables: Sequence[Variable], names: Mapping[str, str]) -> str:
    """What stands where in an array of numbers: variables, with their names here, and the shapes of those with one."""
    parts = []
    for variable in variables:
        legal = names[variable.name]
        own = "" if legal == variable.name else f" (here {legal})"
        shape = f", {in_words(variable.shape)}, row by row" if variable.shape else ""
        parts.append(f"{variable.name}{own}{shape}")
    return f"In {array}, in this order: {'; '.join(parts)}." if parts else f"There is nothing in {array}."


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: `x, y and z`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
