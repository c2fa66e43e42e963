"""The value and its derivatives as equations, each as a person would write it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from autodiff_cli.algebra.passes.symbols import symbol_order
from autodiff_cli.algebra.readable import readable
from autodiff_cli.export.layout import comment
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.program import ExportProgram
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.straight import Fragment, straight_lines
from autodiff_cli.graph.tape import topological
from autodiff_cli.targets.latex import LATEX, LatexLibrary
from autodiff_cli.targets.pen import Pen

_WIDTH = 400  # characters of an expression; what is longer is set on a line of its own
_REPEATED = 60  # characters of what is written again wherever it is used
_GREEK = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega
"""
_COMMANDS = {
    **{name: rf"\{name}" for name in _GREEK.split()},
    **{name: rf"\{name}" for name in ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega")},
}
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0307": "dot", "\u0308": "ddot", "\u20d7": "vec"}


# A name is set whatever it is.
NAMES = LegalNames(frozenset(), lambda name: name.replace("_", "").isalnum())


def for_reading(roots: Sequence[Node], is_scalar: bool) -> list[Node]:
    """Derivatives as people write them; the value as it was written."""
    names = [node.text for node in topological(roots[:1]) if node.is_input]
    symbols = symbol_order(topological(roots[:1]), names)
    return [roots[0], *readable(roots[1:], symbols, scalar=is_scalar)]


def source(program: ExportProgram) -> str:
    """The equations, aligned."""
    pen = Pen(LatexLibrary(LATEX))
    leaves = {leaf: Fragment(symbol(leaf.text)) for variable in program.variables for leaf in variable.leaves}
    fresh = (f"t_{{{k}}}" for k in range(1, 1_000_000))
    called = {node: symbol(name) for node, name in program.called.items() if node.op is not None}
    lines = straight_lines(program.roots, leaves, pen.write, _WIDTH, called, fresh, _REPEATED)
    results = iter([LATEX.given(part).text for part in lines.results])
    name, variables = symbol(program.name), ", ".join(symbol(variable.name) for variable in program.variables)
    rows = [f"{name}\\left({variables}\\right) &= {next(results)}" if variables else f"{name} &= {next(results)}"]
    rows += [f"{_slope(name, leaf)} &= {next(results)}" for leaf in _towards(program)]
    if program.hessian is not None:
        towards = _towards(program)
        for i, row in enumerate(program.hessian):
            for j, _ in enumerate(row):
                text = next(results)
                rows += [f"{_curvature(name, towards[i], towards[j])} &= {text}"] if i <= j else []
    rows += [f"{label} &= {part.text}" for label, part in lines.lines]
    notes = "".join(f"% {line}\n" for line in comment(f"{program.text} (needs the package amsmath)"))
    return notes + "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}\n"


def _towards(program: ExportProgram) -> list[str]:
    return [symbol(leaf.text) for variable in program.wrt for leaf in variable.leaves]


def _slope(name: str, towards: str) -> str:
    return rf"\frac{{\partial {name}}}{{\partial {towards}}}"


def _curvature(name: str, first: str, second: str) -> str:
    below = rf"\partial {first}^{{2}}" if first == second else rf"\partial {first} \, \partial {second}"
    return rf"\frac{{\partial^{{2}} {name}}}{{{below}}}"


def symbol(name: str) -> str:
    r"""A name as mathematics is set: a letter, Greek ones too, with what follows as its index.

    >>> [symbol(name) for name in ("x", "λ", "theta_0", "x₁", "x̂", "rate", "v[0, 1]")]
    ['x', '\\lambda', '\\theta_{0}', 'x_{1}', '\\hat{x}', '\\mathrm{rate}', 'v_{0, 1}']
    """
    letters = unicodedata.normalize("NFD", name)
    plain = "".join(character for character in letters if character not in _ACCENTS)
    digits = "".join(str(unicodedata.digit(character, character)) for character in plain)
    found = re.fullmatch(r"([^\W\d_]+)_?([^\[]*)(?:\[(.*)\])?", digits)
    stem, index, place = found.groups() if found else (digits, "", None)
    text = _stem(stem)
    for character in letters:
        if character in _ACCENTS:
            text = rf"\{_ACCENTS[character]}{{{text}}}"
    below = ", ".join(filter(None, [_index(index), place]))
    return f"{text}_{{{below}}}" if below else text


def _stem(letters: str) -> str:
    if letters in _COMMANDS:
        return _COMMANDS[letters]
    if len(letters) == 1 and letters.isascii():
        return letters
    if len(letters) == 1:
        letter = unicodedata.name(letters, "").rpartition(" ")[2].replace("LAMDA", "LAMBDA")
        command = letter.capitalize() if letters.isupper() else letter.lower()
        if command in _COMMANDS:
            return _COMMANDS[command]
    return rf"\mathrm{{{_escaped(letters)}}}"


def _index(text: str) -> str:
    return text if text.isdigit() or len(text) < 2 else _stem(text)


def _escaped(text: str) -> str:
    return re.sub(r"([_%&#$])", r"\\\1", re.sub(r"[\\{}~^]", "", text))
