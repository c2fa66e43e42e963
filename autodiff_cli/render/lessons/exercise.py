"""A trace as an exercise: a sheet with blanks and a key, one step on each printed page.

The sheet has no script. A blank is a field, which can be filled in on the screen and is a line on paper; the drawing on
a page has what is known before its step.
"""

from __future__ import annotations

import hashlib
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from autodiff_cli.explain.record import BackwardStep, ForwardStep, Handed, Trace
from autodiff_cli.explain.sentences import name
from autodiff_cli.explain.words import Words
from autodiff_cli.graph.op import Gate
from autodiff_cli.render.drawing.diagrams import View, drawable, drawing
from autodiff_cli.render.drawing.svg import STYLE, graph
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.text import on_one_line

_FOLDER = Path(__file__).parent
_LARGEST = 1_500_000  # characters of all drawings; beyond that only the first page has one
_MARGIN = 8
_ROOM = 9
_NODE = re.compile(r'data-(?:node|copy)="(\d+)"')
_EDGE = re.compile(r'data-from="\d+" data-to="(\d+)"')
_NUMBER = re.compile(r' data-(?:value|adjoint|local)="[^"]*"')
_SHOWN = {kind: re.compile(rf">{kind} [^<]*</text>") for kind in ("value", "adjoint")}
_LOCAL = re.compile(r'(<text class="local"[^>]*>)[^<]*</text>')


def exercise_sheet(trace: Trace, view: View, digits: int | None = None) -> str:
    """The sheet as one file that needs nothing else. Raises TooLarge for a graph of too many nodes.

    Args:
        view: which part of the graph to draw.
        digits: how many digits of a number to show.
    """
    style = STYLE + (_FOLDER / "exercise.css").read_text(encoding="utf-8")
    hashed = b2a_base64(hashlib.sha256(style.encode()).digest(), newline=False).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'"
    text = escape(drawable(on_one_line(trace.expression.text)))
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>exercise: {text}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>",
            *_Sheet(trace, view, digits).pages(text),
            "</main>\n</body>\n</html>\n",
        ]
    )


class _Sheet:
    def __init__(self, trace: Trace, view: View, digits: int | None) -> None:
        self._trace = trace
        self._full, self._brief = shows(digits)
        self._words = Words(trace, self._brief)
        self._forward = [*trace.forward]
        self._backward = [*trace.backward]
        self._size, self._shapes, _ = graph(drawing(trace, view), self._brief, _ROOM)
        self._count = len(self._forward) + len(self._backward)
        self._is_drawn_once = self._count * sum(map(len, self._shapes)) > _LARGEST

    def pages(self, text: str) -> Iterator[str]:
        """All pages: what is given, the steps, the gradient to fill in, the key."""
        given = (f"{escape(drawable(key))} = {escape(self._full(x))}" for key, x in self._trace.point.items())
        yield _page(
            "Backpropagation, an exercise",
            f'<p class="formula">{text}</p>',
            f"<p>at {', '.join(given)}</p>" if self._trace.point else "",
            "<p>One step to a page. Going forward, fill in each operation's value. Going back, fill in each node's "
            "adjoint, and what it hands to each of its inputs: local derivative × adjoint. The key is at the end.</p>",
            self._drawing(0, is_first=True),
            '<p class="name">Name <span class="line"></span> Date <span class="line"></span></p>',
            level=1,
        )
        for step in self._forward:
            yield self._page_forward(step)
        for back in self._backward:
            yield self._page_backward(back)
        if self._trace.gradient:
            rows = [f"<li>d/d{escape(drawable(key))} = {_blank(f'd/d{key}')}</li>" for key in self._trace.gradient]
            yield _page("The gradient", f"<ul>{''.join(rows)}</ul>", self._drawing(self._count))
        yield self._key()

    def _page_forward(self, step: ForwardStep) -> str:
        asked = self._words.forward(step).rpartition(" = ")[0]
        label = self._trace.labels[step.node]
        return _page(
            f"Forward, step {step.step} of {len(self._forward)}",
            f'<p class="task">{escape(drawable(asked))} = {_blank(f"Value of {label}")}</p>',
            self._drawing(step.step - 1),
        )

    def _page_backward(self, step: BackwardStep) -> str:
        label = self._trace.labels[step.node]
        is_output = step.node in self._trace.tape.outputs
        adjoint = "1, as the output's always is" if is_output else _blank(f"Adjoint of {label}")
        return _page(
            f"Back, step {step.step} of {len(self._backward)}",
            f'<p class="task">{escape(drawable(name(self._trace, step.node)))}: adjoint {adjoint}</p>',
            f"<p>{escape(drawable(_sentence(self._hint(step))))}</p>",
            f"<ul>{''.join(self._handed(step, given) for given in step.contributions)}</ul>",
            self._drawing(len(self._forward) + step.step - 1),
        )

    def _hint(self, step: BackwardStep) -> str:
        """What the operation does with an adjoint, without its numbers."""
        sentence = self._words.backward(step)
        if step.op.gate is Gate.ROUTE:
            return sentence if step.op.structural else "It chooses: say who gets the adjoint, and who nothing"
        if step.op.gate is Gate.SCALE:
            return re.split(r"[,:]", sentence)[0]
        return sentence

    def _handed(self, step: BackwardStep, given: Handed) -> str:
        label = self._trace.labels[given.to]
        if given.local is None:
            rule = self._words.contribution(step, given).partition(": ")[2].partition(" = ")[0]
            product = f"{escape(drawable(rule))} = "
        else:
            product = f"{_blank(f'Local derivative towards {label}')} × adjoint = "
        total = ""
        if given.uses > 1 and not given.is_nothing:
            total = f", use {given.use} of {given.uses}: total so far {_blank(f'Total of {label}')}"
        return f"<li>{escape(drawable(label))}: {product}{_blank(f'Amount for {label}')}{total}</li>"

    def _drawing(self, done: int, is_first: bool = False) -> str:
        """The graph with what is known after so many steps."""
        if self._is_drawn_once and not is_first:
            return ""
        steps = [*(step.node for step in self._forward), *(step.node for step in self._backward)]
        forward = len(self._forward)
        leaves = {i for i, node in enumerate(self._trace.tape.nodes) if node.op is None}
        computed = leaves | {*steps[: min(done, forward)]}
        handed = {*steps[forward:done]}
        users: dict[int, set[int]] = {}
        for i in steps[forward:]:
            for j in self._trace.tape.inputs[i]:
                users.setdefault(j, set()).add(i)
        known = handed | {i for i in leaves if users.get(i, {-1}) <= handed}
        shapes = [self._hidden(shape, computed, known, handed) for shape in self._shapes]
        width, height = self._size.width + 2 * _MARGIN, self._size.height + 2 * _MARGIN
        return "\n".join(
            [
                '<div class="drawing" tabindex="0" role="group" aria-label="Drawing">',
                '<svg class="autodiff" role="img" aria-label="The graph, with what is known so far" '
                f'width="{width:.0f}" viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}">',
                *shapes,
                "</svg>\n</div>",
            ]
        )

    @staticmethod
    def _hidden(shape: str, computed: set[int], known: set[int], handed: set[int]) -> str:
        """A part of the drawing without the numbers that are not known yet."""
        if (edge := _EDGE.search(shape)) is not None and int(edge[1]) not in handed:
            shape = _LOCAL.sub(r"\1</text>", shape)
        if (node := _NODE.search(shape)) is not None:
            for kind, seen in (("value", computed), ("adjoint", known)):
                if int(node[1]) not in seen:
                    shape = _SHOWN[kind].sub(f">{kind} ____</text>", shape)
        return _NUMBER.sub("", shape)

    def _key(self) -> str:
        forward = (f"<li>{escape(drawable(self._words.forward(step)))}</li>" for step in self._forward)
        parts = ["<h3>Forward</h3>", f"<ol>{''.join(forward)}</ol>"] if self._forward else []
        if self._backward:
            parts += ["<h3>Back</h3>", f"<ol>{''.join(map(self._answer, self._backward))}</ol>"]
        slopes = (
            f"<li>d/d{escape(drawable(key))} = {escape(self._full(x))}</li>" for key, x in self._trace.gradient.items()
        )
        gradient = ["<h3>The gradient</h3>", f"<ul>{''.join(slopes)}</ul>"] if self._trace.gradient else []
        return _page("Key", *parts, *gradient, kind="key")

    def _answer(self, step: BackwardStep) -> str:
        label = escape(drawable(self._trace.labels[step.node]))
        said = escape(drawable(self._words.backward(step)))
        given = step.contributions if self._words.hands_on(step) else ()
        handed = "".join(f"<li>{escape(drawable(self._words.contribution(step, part)))}</li>" for part in given)
        return f"<li>{label}, adjoint {escape(self._brief(step.adjoint))}: {said}<ul>{handed}</ul></li>"


def _page(title: str, *parts: str, kind: str = "", level: int = 2) -> str:
    return "\n".join([f'<section class="page {kind}">', f"<h{level}>{title}</h{level}>", *_filled(parts), "</section>"])


def _filled(parts: Iterable[str]) -> Iterator[str]:
    return (part for part in parts if part)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _blank(label: str) -> str:
    return f'<input class="blank" autocomplete="off" aria-label="{escape(drawable(label))}">'
