"""Gradient methods for the page: their steps, printed in JavaScript and as sentences, from the graphs that fits run."""

from __future__ import annotations

import re
from typing import Any

from autodiff_cli.backends.update import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.explain.phrases import Phrase, Slot
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.straight import Fragment, straight_lines
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.printer import to_pieces
from autodiff_cli.targets.javascript import JAVASCRIPT
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.pen import Pen
from autodiff_cli.training.methods.optimizers import OPTIMIZERS

SHOWN = ("sgd", "momentum", "adam")
_WIDTH = 100  # of an expression
_LONG = re.compile(r"\d+\.\d{7,}(?:e-?\d+)?")  # a number that shows how it was rounded, as 1 - 0.9 does


def methods() -> str:
    """A JavaScript statement: `methods`, by name functions of (theta, gradient, rate, step, memory), for one number.

    Each returns what is remembered, by name, and the number after the step as `theta`. What is remembered is 0 before
    the first step, which is number 1.
    """
    pen = Pen(Library(JAVASCRIPT))
    written = [f"  {name}: {_function(pen, OPTIMIZERS[name])},\n" for name in SHOWN]
    needed = "".join(pen.library.texts.values())
    return f"const methods = (() => {{\n{needed}return {{\n{''.join(written)}}};\n}})();\n"


def _function(pen: Pen, update: Update) -> str:
    roots = [update.theta, *update.memory.values()]
    words = pen.words(roots)
    names = {leaf: Fragment(leaf.text) for leaf in topological(words) if leaf.is_input}
    lines = straight_lines(words, names, pen.write, _WIDTH)
    body = "".join(f" const {name} = {piece.text};" for name, piece in lines.lines)
    results = zip(("theta", *(f"{name}Next" for name in update.memory)), lines.results, strict=True)
    remembered = ", ".join(f"{name} = 0" for name in update.memory)
    returned = ", ".join(f"{name.removesuffix('Next')}: {piece.text}" for name, piece in results)
    signature = f"{THETA}, {GRADIENT}, {RATE}, {STEP}, {{{remembered}}} = {{}}"
    return f"({signature}) => {{{body} return {{ {returned} }}; }}"


def steps() -> dict[str, list[list[Any]]]:
    """For each method its equations in order, `[name, phrase]`, the last that of `theta`.

    The slots of a phrase are named as the leaves of the graphs; in that of `theta` what is remembered is so already.
    """
    return {name: _equations(OPTIMIZERS[name]) for name in SHOWN}


def _equations(update: Update) -> list[list[Any]]:
    remembered = {node: variable(name) for name, node in update.memory.items()}
    (theta,) = rebuild([update.theta], remembered)
    equations = [*update.memory.items(), (THETA, theta)]
    return [[name, [_part(part) for part in _phrase(graph)]] for name, graph in equations]


def _phrase(graph: Node) -> Phrase:
    """A formula as at a blackboard, all of its leaves slots; a negative number stands in brackets but at the start."""
    leaves = [node for node in topological([graph]) if node.is_input]
    parts: list[str | Slot] = []
    for piece in to_pieces(graph, leaves):
        if isinstance(piece, str):
            parts.append(_LONG.sub(_short, piece).replace("*", " × ").replace("/", " / "))
        else:
            parts.append(Slot(piece.leaf.text, 0, bool(parts)))
    return tuple(parts)


def _short(found: re.Match[str]) -> str:
    return f"{float(found[0]):.6g}"


def _part(part: Any) -> Any:
    return part if isinstance(part, str) else part.data()
