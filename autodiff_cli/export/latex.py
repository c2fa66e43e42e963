"""Export of formulas to LaTeX: the value and its derivatives as aligned equations, in readable form."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce

from autodiff_cli.algebra.readable import readable, symbol_order
from autodiff_cli.export.program import ExportProgram, NamingRules, comment_lines, transliterate
from autodiff_cli.graph import codegen, tape
from autodiff_cli.graph.node import Node, Shape
from autodiff_cli.targets.latex import LATEX, LatexWriter

_MAX_EXPRESSION_LENGTH = 400  # characters of LaTeX; longer parts of an expression get a symbol and a line of their own
_MAX_REPEATED_LENGTH = 60  # characters of LaTeX; shorter expressions are repeated wherever they are used
_GREEK = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega
"""
_COMMANDS = {
    **{name: rf"\{name}" for name in _GREEK.split()},
    **{name: rf"\{name}" for name in ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega")},
}
_ACCENTS = {
    "\u0300": "grave", "\u0301": "acute", "\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0306": "breve",
    "\u0307": "dot", "\u0308": "ddot", "\u030a": "mathring", "\u030c": "check", "\u20d7": "vec",
}  # fmt: skip
_MARKS = "[\u0300-\u036f\u20d0-\u20ff]*"  # combining marks over or under a letter
_LETTER = re.compile(f"(.)({_MARKS})", re.DOTALL)
_NAME = re.compile(rf"((?:[^\W\d_]{_MARKS})+)[_.]?((?:[\w.]{_MARKS})*)(?:\[([\d, ]*)\])?")

# All names can be typeset; only the name of the function is checked.
LATEX_NAMES = NamingRules(frozenset(), lambda name: name.replace("_", "").isalnum())


def readable_derivatives(roots: Sequence[Node], shapes: Mapping[str, Shape]) -> list[Node]:
    """Rewrite derivatives in readable form; the first graph, the value, stays as it was written."""
    symbols = symbol_order(tape.topological_order(roots[:1]), tape.leaf_names(roots[:1]))
    return [roots[0], *readable(roots[1:], symbols, shapes)]


def latex_source(program: ExportProgram) -> str:
    """Return the aligned equations of a program."""
    writer = LatexWriter(program.arrays)
    function = latex_symbol(program.options.name)
    variables = [variable.name for variable in program.variables]
    leaves = {leaf: leaf.text for variable in program.variables for leaf in variable.leaves}
    nodes = tape.topological_order(program.roots)
    symbols = latex_symbols([*variables, *leaves.values(), *program.intermediates.values()], nodes, [function])
    fragments = {leaf: codegen.Fragment(symbols[text]) for leaf, text in leaves.items()}
    names_of = {node: symbols[name] for node, name in program.intermediates.items() if node.op is not None}
    fresh = fresh_symbols(symbols.values())
    lines = codegen.straight_line_code(
        program.roots, fragments, writer.write, _MAX_EXPRESSION_LENGTH, names_of, fresh, _MAX_REPEATED_LENGTH
    )
    (value, *_), slopes, hessian = program.split_results([LATEX.coerce(part).text for part in lines.results])
    arguments = ", ".join(symbols[name] for name in variables)
    rows = [f"{function}\\left({arguments}\\right) &= {value}" if arguments else f"{function} &= {value}"]
    towards = [symbols[leaf.text] for variable in program.wrt for leaf in variable.leaves]
    pairs = zip(towards, slopes, strict=True)
    rows += [rf"\frac{{\partial {function}}}{{\partial {leaf}}} &= {slope}" for leaf, slope in pairs]
    for i, row in enumerate(hessian):
        rows += [f"{_second_partial(function, towards[i], towards[j])} &= {row[j]}" for j in range(i, len(row))]
    rows += [f"{label} &= {part.text}" for label, part in lines.lines]
    texts = f"{program.text} (needs the package amsmath)", program.options.note
    notes = "".join(f"% {line}\n" for text in texts for line in comment_lines(text))
    return notes + "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}\n"


def _second_partial(name: str, first: str, second: str) -> str:
    below = rf"\partial {first}^{{2}}" if first == second else rf"\partial {first} \, \partial {second}"
    return rf"\frac{{\partial^{{2}} {name}}}{{{below}}}"


def latex_symbol(name: str, *, has_all_letters: bool = False) -> str:
    r"""Return a name as a mathematical symbol: a letter, Latin or Greek, with an index, or words.

    Args:
        has_all_letters: whether letters of other scripts can be typeset, as browsers do; TeX's fonts lack them.

    >>> [latex_symbol(name) for name in ("x", "λ", "theta_0", "x₁", "x̂", "rate", "señal", "v[0, 1]")]
    ['x', '\\lambda', '\\theta_{0}', 'x_{1}', '\\hat{x}', '\\mathrm{rate}', '\\mathrm{se\\tilde{n}al}', 'v_{0, 1}']
    >>> [latex_symbol(name) for name in ("x_max", "rate_2", "learning_rate", "my-col")]
    ['x_{\\mathrm{max}}', '\\mathrm{rate}_{2}', '\\mathrm{learning\\_rate}', '\\mathrm{my-col}']
    """
    letters = "".join(str(unicodedata.digit(each, each)) for each in unicodedata.normalize("NFD", name))
    match = _NAME.fullmatch(letters)
    stem, index, place = match.groups() if match else (letters, "", None)
    if index and not index.isdigit() and _stem(stem, has_all_letters).startswith(r"\mathrm"):
        stem, index = letters.partition("[")[0], ""  # the index of a word would be a word of its own
    text = _stem(stem, has_all_letters)
    below = ", ".join(filter(None, [index if index.isdigit() or not index else _stem(index, has_all_letters), place]))
    return f"{text}_{{{below}}}" if below else text


def latex_symbols(
    names: Iterable[str], nodes: Iterable[Node], reserved: Iterable[str] = (), *, has_all_letters: bool = False
) -> dict[str, str]:
    r"""Return the LaTeX symbols of names; different names have different symbols, and none has that of a constant.

    Args:
        names: the names.
        nodes: the nodes of the formula, for its constants. `e` and `pi` also occur in derivatives.
        reserved: symbols of other things.
        has_all_letters: whether letters of other scripts can be typeset, as browsers do; TeX's fonts lack them.

    >>> latex_symbols(["x_1", "x₁", "rate", "f", "e"], [], ["f"])
    {'x_1': 'x_{1}', 'x₁': '\\mathrm{x1}', 'rate': '\\mathrm{rate}', 'f': '\\mathrm{f}', 'e': '\\mathrm{e}'}
    """
    symbols: dict[str, str] = {}
    constants = {"e", "pi", *(node.text for node in nodes if node.is_constant)}
    used = {*reserved, *(symbol for name, symbol in LATEX.numbers.items() if name in constants)}
    for name in dict.fromkeys(names):
        symbol = latex_symbol(name, has_all_letters=has_all_letters)
        if symbol in used:
            symbol = _words(unicodedata.normalize("NFKD", name), has_all_letters)
        while symbol in used:
            symbol += "'"
        used.add(symbol)
        symbols[name] = symbol
    return symbols


def fresh_symbols(used: Collection[str]) -> Iterator[str]:
    r"""Yield LaTeX symbols for parts of a formula that have no name, without those that are used.

    >>> list(itertools.islice(fresh_symbols(["x", "t_{1}"]), 2))
    ['t_{2}', 't_{3}']
    """
    return (symbol for k in itertools.count(1) if (symbol := f"t_{{{k}}}") not in used)


def _stem(text: str, has_all_letters: bool) -> str:
    if text in _COMMANDS:
        return _COMMANDS[text]
    letters = _LETTER.findall(text)
    if len(letters) == 1 and set(letters[0][1]) <= _ACCENTS.keys() and (symbol := _symbol(letters[0][0])):
        return _accented(symbol, letters[0][1])
    return _words(text, has_all_letters)


def _words(text: str, has_all_letters: bool) -> str:
    if has_all_letters:
        return rf"\mathrm{{{_escape(unicodedata.normalize('NFC', text))}}}"
    letters = ((base if base.isascii() else transliterate(base), accents) for base, accents in _LETTER.findall(text))
    return rf"\mathrm{{{''.join(_accented(_escape(text), accents) for text, accents in letters)}}}"


def _symbol(letter: str) -> str | None:
    if letter.isascii() and letter.isalnum():
        return letter
    word = unicodedata.name(letter, "").rpartition(" ")[2].replace("LAMDA", "LAMBDA")
    return _COMMANDS.get(word.capitalize() if letter.isupper() else word.lower())


def _accented(text: str, accents: str) -> str:
    return reduce(lambda inside, accent: rf"\{_ACCENTS[accent]}{{{inside}}}", filter(_ACCENTS.get, accents), text)


_ESCAPES = {"\\": r"{\backslash}", "~": r"{\sim}", "^": r"{\wedge}"} | {mark: rf"\{mark}" for mark in "_%&#${} "}


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)
