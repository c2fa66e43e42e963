"""How a prediction depends on its parameters: which ones it is linear in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, is_literal, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.activations import sigmoid
from autodiff_cli.ops.elementary import exp
from autodiff_cli.ops.structural import dot, softmax

LINKS = (softmax, sigmoid, exp)  # their inverses, as books have it
_ADJOINT = "adjoint of a score"  # no name in a text has a blank


def linear(prediction: Node, parameters: Sequence[Node], leaves: Mapping[str, Shape]) -> list[str]:
    """The names of parameters that a prediction is linear in, all of them together.

    Of `a*b*x` it is one of the two; which one is up to their order. One that only a condition reads is none.

    >>> from autodiff_cli.language.lowering import read
    >>> program = read("a*exp(-b*x) + c")
    >>> linear(program.output, [program.leaves[name] for name in "abc"], {})
    ['a', 'c']
    """
    shared, *own = share([prediction, *parameters])
    slopes = simplify(gradient_nodes(shared, own, leaves))
    read_by = [{leaf.text for leaf in topological([slope]) if leaf.is_input} for slope in slopes]
    chosen: list[int] = []
    for k, leaf in enumerate(own):
        together = {own[j].text for j in chosen} | {leaf.text}
        if not is_literal(slopes[k], 0) and all(together.isdisjoint(read_by[j]) for j in (*chosen, k)):
            chosen.append(k)
    return [own[k].text for k in chosen]


def is_generalised_linear(prediction: Node, parameters: Sequence[Node], leaves: Mapping[str, Shape]) -> bool:
    """Whether a prediction is linear in all of its parameters together, or a softmax, a sigmoid or exp of what is.

    >>> from autodiff_cli.language.lowering import read
    >>> program = read("sigmoid(a*x + b)")
    >>> is_generalised_linear(program.output, [program.leaves["a"], program.leaves["b"]], {})
    True
    """
    score = prediction.inputs[0] if prediction.op in LINKS else prediction
    shape = Shapes(leaves).of(score) or ()
    shapes = {**leaves, _ADJOINT: shape} if shape else leaves
    shared, *own = share([dot(variable(_ADJOINT), score) if len(shape) == 1 else score, *parameters])
    if len(shape) > 1:
        return False
    slopes = simplify(gradient_nodes(shared, own, shapes))
    names = {leaf.text for leaf in own}
    return all(names.isdisjoint(node.text for node in topological([slope]) if node.is_input) for slope in slopes)
