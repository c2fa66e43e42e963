r"""Names, numbers and operations as LaTeX sets them, for any text that people may write.

What is set is ASCII, so that pdflatex sets it with its own fonts and no package but amsmath.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from autodiff_cli.export.latex import symbol
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.straight import TIGHTEST, Fragment
from autodiff_cli.graph.tape import topological
from autodiff_cli.targets.latex import LATEX, NOTATIONS, POWER, PRODUCT, SIGN, LatexLibrary
from autodiff_cli.targets.pen import Pen

WIDEST = 78  # signs of a formula on one line, as `width` counts them
_MOST_OPERANDS = 8  # of an operation, such as a maximum, that are all set
_LEFT = 18  # signs for what stands left of a matrix
_LARGEST = 8  # rows, and columns, of an array that is set as one
_PLAIN_NAME = re.compile(r"[^\W\d_][\w\u0300-\u036f\u20d7]*(?:\[[\w, ]*\])?")
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?")
_FRACTION = re.compile(r"\\frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_ENVIRONMENT = re.compile(r"\\begin\{\w+\}((?:(?!\\begin|\\end).)*)\\end\{\w+\}", re.DOTALL)
_FIGURE = re.compile(r"(-?[\d.]+)e([-+]\d+)")
_WORDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "<": "$<$", ">": "$>$", "|": "$|$",
    "×": r"$\times$", "·": r"$\cdot$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "≠": r"$\ne$", "∂": r"$\partial$",
    "→": r"$\to$", "∞": r"$\infty$", "±": r"$\pm$", "…": r"\dots{}", "²": "$^2$", "°": r"$^\circ$", "`": "'",
}  # fmt: skip


def words(text: str) -> str:
    r"""Text between formulas.

    >>> print(words("50 % of a_1, naïve, ж"))
    50 \% of a\_1, naive, [U+0436]
    """
    return "".join(_WORDS.get(character) or _ascii(character) for character in text)


def _ascii(character: str) -> str:
    """A character without its accents; of what is not Latin, its number."""
    if character.isascii():
        return character if character.isprintable() else " "
    plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return plain if plain.isascii() and plain else f"[U+{ord(character):04X}]"


class Symbols:
    """What names are set as: different ones differently.

    >>> symbols = Symbols(["x_1", "x₁", "rate"])
    >>> [symbols.of(name) for name in ("x_1", "x₁", "rate")]
    ['x_{1}', '\\\\mathrm{x1}', '\\\\mathrm{rate}']
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._symbols: dict[str, str] = {}
        for name in names:
            self._add(name)

    def of(self, name: str) -> str:
        """The symbol of a name."""
        return self._symbols[name]

    def letter(self, choice: str) -> str:
        """The first of some letters that no name begins with, however it goes on; the last one if there is none."""
        taken = {re.sub(r"^\\\w+\{", "", text)[:1] for text in self._symbols.values()}
        return next((letter for letter in choice if letter not in taken), choice[-1])

    def _add(self, name: str) -> None:
        found = symbol(name) if _PLAIN_NAME.fullmatch(name) else ""
        text = words(name).replace("$", "")
        if not found.isascii() or not found:
            found = rf"\text{{{words(name)}}}"
        elif found in self._symbols.values():
            found = rf"\mathrm{{{text}}}"
        while found in self._symbols.values():
            found += "'"
        self._symbols[name] = found


def barred(symbol_: str) -> str:
    r"""The symbol of how fast the output changes with something: a bar above the letter.

    >>> barred("v_{2}"), barred(r"\mathrm{rate}")
    ('\\bar{v}_{2}', '\\overline{\\mathrm{rate}}')
    """
    stem, low, index = symbol_.partition("_{") if "{" not in symbol_.partition("_{")[0] else (symbol_, "", "")
    short = re.fullmatch(r"\\?[a-zA-Z]+", stem) and (len(stem) == 1 or stem.startswith("\\"))
    return rf"\{'bar' if short else 'overline'}{{{stem}}}{low}{index}"


def number(x: Any, show: Callable[[Any], str], shorter: Callable[[Any], str] | None = None) -> Fragment:
    r"""A number, or an array as a matrix; a large one by its shape and range.

    Args:
        shorter: how numbers are written in a matrix that would be too wide.

    >>> number(-1.5e-7, lambda x: f"{x:.3g}").text
    '-1.5 \\cdot 10^{-7}'
    """
    shape = getattr(x, "shape", ())
    if not shape:
        return _figure(show(x))
    if len(shape) > 2 or max(shape) > _LARGEST:
        return _summary(x, show)
    rows = [[item] for item in x.tolist()] if len(shape) == 1 else x.tolist()
    for written in filter(None, (show, shorter)):
        body = r" \\ ".join(" & ".join(_figure(written(item)).text for item in row) for row in rows)
        matrix = rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"
        if width(matrix) <= WIDEST - _LEFT:
            return Fragment(matrix)
    return _summary(x, shorter or show)


def _summary(x: Any, show: Callable[[Any], str]) -> Fragment:
    """An array by its shape and range."""
    size, least, most = r" \times ".join(map(str, x.shape)), float(x.min()), float(x.max())
    low, high = (_figure(show(end)).text for end in (least, most))
    range_ = f"all ${low}$" if low == high else f"from ${low}$ to ${high}$"
    return Fragment(rf"\text{{${size}$ numbers, {range_}}}")


def _figure(text: str) -> Fragment:
    if text in ("inf", "-inf", "nan"):
        set_ = LATEX.numbers[text.removeprefix("-")]
        return Fragment("-" + set_, SIGN) if text.startswith("-") else Fragment(set_)
    found = _FIGURE.fullmatch(text)
    set_ = text if found is None else rf"{found[1]} \cdot 10^{{{int(found[2])}}}"
    return Fragment(set_, SIGN if text.startswith("-") else PRODUCT if found else TIGHTEST)


def product(factors: Sequence[Fragment]) -> str:
    """Numbers multiplied; negative ones in brackets, but for the first."""
    texts = [
        rf"\left({part.text}\right)" if k and part.binding <= SIGN and part.text.startswith("-") else part.text
        for k, part in enumerate(factors)
    ]
    return r" \cdot ".join(texts)


_BY_ELEMENTS = NOTATIONS["mul"]._replace(texts=("", r" \odot ", ""))
_PEN = Pen(LatexLibrary(LATEX))


def operation(node: Node, operands: Sequence[Fragment], arrays: Collection[Node] = ()) -> Fragment:
    """An operation on operands, as a number; of very many operands those at the ends.

    Args:
        arrays: the nodes that are arrays: their product element by element is not set as one of matrices is.
    """
    assert node.op is not None
    if node.op.symbol == "*" and all(child in arrays for child in node.inputs):
        return LATEX.written(_BY_ELEMENTS, operands)
    if len(operands) > _MOST_OPERANDS:
        operands = [*operands[: _MOST_OPERANDS - 2], Fragment(r"\dots"), operands[-1]]
    if node.op.name == "index" and operands[0].text.endswith("}") and operands[0].binding > POWER:
        operands = [Fragment(rf"\left({operands[0].text}\right)"), *operands[1:]]  # TeX takes one index only
    return _PEN.write(node, operands)


def operation_on_numbers(node: Node, numbers: Sequence[Fragment]) -> Fragment:
    """The same with a dot between factors."""
    if node.op is not None and node.op.symbol == "*":
        return Fragment(product(numbers), PRODUCT)
    return operation(node, numbers)


def formula(
    root: Node,
    known: Mapping[Node, Fragment],
    fresh: Callable[[Node], str],
    widest: int = WIDEST,
    arrays: Collection[Node] = (),
) -> tuple[str, list[tuple[str, str]]]:
    """A graph as a formula, and what stands in it for parts for which there is no room on a line, each as a formula.

    Args:
        known: what is set for leaves, and whatever else is known.
        fresh: what to call a part.
        arrays: the nodes that are arrays.
    """
    parts: list[tuple[str, str]] = []
    written = dict(known)
    for node in topological([root]):
        if node in written:
            continue
        operands = [written[child] for child in node.inputs]
        piece = _PEN.write(node, ()) if node.op is None else operation(node, operands, arrays)
        if node.op is not None and width(piece.text) > widest:
            operands = []
            for child in node.inputs:
                part = written[child]
                if child.op is not None and child not in known and width(part.text) > widest // (2 * len(node.inputs)):
                    name = fresh(child)
                    parts.append((name, LATEX.given(part).text))
                    part = written[child] = Fragment(name)
                operands.append(part)
            piece = operation(node, operands, arrays)
        written[node] = piece
    return LATEX.given(written[root]).text, parts


def width(text: str) -> int:
    r"""About how many signs wide a formula is.

    >>> width(r"\frac{x + 1}{2 \, y} + \sin\left(x\right)")
    13
    """
    while (found := _FRACTION.search(text)) is not None:
        above, below = found.groups()
        text = text[: found.start()] + (above if width(above) > width(below) else below) + text[found.end() :]
    while (inner := _ENVIRONMENT.search(text)) is not None:
        rows = inner[1].split(r"\\")
        text = text[: inner.start()] + "xxx" + max(rows, key=len).replace("&", "xxx") + text[inner.end() :]
    text = text.replace(r"\left", "").replace(r"\right", "").replace(r"\,", "")
    names = re.sub(r"\\(?:operatorname|mathrm|text)\{([^}]*)\}", r"\1", text)
    signs = re.sub(r"(?<=[^({])[-+=<>]", "   ", re.sub(r"[{}^_ ]", "", _COMMAND.sub("xx", names)))  # space around them
    return len(signs)


def equation(left: str, sides: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows of an equation between sums, given by their terms: one row, or one for each side, and of a side where
    there is no room on one, as many as it takes. A side that says nothing new is left out."""
    kept = [side for side, _ in itertools.groupby(sides)]
    whole = " = ".join(" + ".join(side) for side in kept)
    if width(whole) <= WIDEST:
        yield f"{left} &= {whole}"
        return
    for k, side in enumerate(kept):
        row = f"{'' if k else left} &= "
        for n, term in enumerate(side):
            sign = " + " if n else ""
            if n and width(row + sign + term) > WIDEST:
                yield row
                row = rf"&\quad + {term}"
            else:
                row += sign + term
        yield row
