"""Structural operations, which work on whole arrays: products, reductions, slices and rearrangements.

Each declares its shape and its vector-Jacobian product; forward mode, Jacobians and second derivatives follow from
these. In the rules, `s` are the shapes of the inputs, and `g` is the adjoint of the output. Rows of data are not a
dimension of these arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autodiff_cli.graph.node import Gate, Node, Op, Partial, Precedence, Shape, as_node, constant
from autodiff_cli.graph.tape import ShapeError, broadcast_shapes, format_shape
from autodiff_cli.ops.arithmetic import abs_, equal, greater, less, not_, where
from autodiff_cli.ops.declaration import composite, structural
from autodiff_cli.ops.functions import direction, exp, log

NodeContributions = Sequence[Node | None]
MaskedContributions = Sequence[Partial | None]  # contributions with masks of the elements that they reach


def _always(*_: Shape | None) -> bool:
    return True


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ShapeError(message)


def literal_index(node: Node) -> int | None:
    """Return the index or size that a node represents; None if it is not an integer literal below 10^9."""
    return int(node.text) if node.is_constant and node.text.isdecimal() and len(node.text) < 10 else None


def _literal_indices(node: Node, start: int, stop: int | None = None) -> tuple[int, ...]:
    """Return the inputs of a node from `start` up to `stop` as integers. Raises ShapeError if one is not a literal."""
    indices = tuple(number for child in node.inputs[start:stop] if (number := literal_index(child)) is not None)
    if len(indices) < len(node.inputs[start:stop]):
        raise ShapeError("an index must be an integer from 0, written as a number")
    return indices


# --- Broadcasting, and its transpose: summing ---


def _broadcast_like_shape(_: Node, x: Shape, like: Shape) -> Shape:
    _require(
        broadcast_shapes(x, like) == like, f"an array of {format_shape(x)} cannot be broadcast to {format_shape(like)}"
    )
    return like


def _sum_like_shape(_: Node, x: Shape, like: Shape) -> Shape:
    _require(broadcast_shapes(x, like) == x, f"an array of {format_shape(x)} cannot be summed to {format_shape(like)}")
    return like


broadcast_like = structural(
    "broadcast_like", _broadcast_like_shape, gate=Gate.DISTRIBUTE, array_inputs=(), shape_only_inputs=(1,), keeps_all_elements=True,
    returns_array=lambda x, like: bool(like),
    vjp=lambda s, g, z, x, like: (sum_like(g, x), None),
    summary="x stretched to the shape of another array",
)  # fmt: skip
sum_like = structural(
    "sum_like", _sum_like_shape, gate=Gate.DISTRIBUTE, array_inputs=(), shape_only_inputs=(1,), returns_array=lambda x, like: bool(like),
    vjp=lambda s, g, z, x, like: (broadcast_like(g, x), None),
    summary="x summed over the axes along which another array was stretched to it",
)  # fmt: skip

# --- Reductions to a number ---

sum_ = structural(
    "sum", lambda node, s: (), gate=Gate.DISTRIBUTE,
    vjp=lambda s, g, z, x: (broadcast_like(g, x),),
    summary="the sum of all elements",
)  # fmt: skip
size = structural(
    "size", lambda node, s: (), gate=Gate.BLOCK, shape_only_inputs=(0,),
    vjp=lambda s, g, z, x: (None,),
    summary="the number of elements",
)  # fmt: skip
norm = structural(
    "norm", lambda node, s: (),
    vjp=lambda s, g, z, x: (g * direction(x, z),),
    kink=lambda x: equal(norm(x), 0), kink_note="it is the tip of a cone; gradient 0 is used",
    summary="the length: the root of the sum of squares",
)  # fmt: skip
logsumexp = structural(
    "logsumexp", lambda node, s: (),
    vjp=lambda s, g, z, x: (g * softmax(x),),
    summary="log(sum(exp(x))), without overflow",
)  # fmt: skip


def _extremum(name: str, spelling: str, loses_to: Op) -> Op:
    """Return the operation that selects the largest or the smallest element.

    Elements that tie share the gradient equally, and the mask makes the contribution of all others exactly 0. If the
    value is nan, so is every share: 0/0.
    """

    def tie_count(x: Node, z: Node) -> Node:
        return sum_(equal(x, z))

    def vjp(_: Sequence[Shape], g: Node, z: Node, x: Node) -> MaskedContributions:
        return (Partial(g * (equal(x, z) / tie_count(x, z)), not_(loses_to(x, z))),)

    operation: Op = structural(
        name, lambda node, s: (), spelling=spelling, gate=Gate.ROUTE, vjp=vjp,
        kink=lambda x: tie_count(x, operation(x)) > 1, kink_note=f"two or more are the {name}; they get equal shares",
        summary=f"the {name} element",
    )  # fmt: skip
    return operation


largest = _extremum("largest", "max", less)
smallest = _extremum("smallest", "min", greater)
mean = composite("mean", lambda x: sum_(x) / size(x), is_structural=True, summary="the arithmetic mean of all elements")


# --- Products ---


def _matmul_shape(_: Node, a: Shape, b: Shape) -> Shape:
    words = f"`@` multiplies vectors and matrices; it got {format_shape(a)} and {format_shape(b)}"
    _require(len(a) in (1, 2) and len(b) in (1, 2), words)
    inner = "the left side needs as many columns as the right side has rows"
    _require(a[-1] == b[0], f"{format_shape(a)} @ {format_shape(b)}: {inner}")
    return a[:-1] + b[1:]


def _matmul_vjp(s: Sequence[Shape], g: Node, _: Node, a: Node, b: Node) -> NodeContributions:
    match len(s[0]), len(s[1]):
        case 2, 2:
            return matmul(g, transpose(b)), matmul(transpose(a), g)
        case 2, 1:
            return outer(g, b), matmul(transpose(a), g)
        case 1, 2:
            return matmul(b, g), outer(a, g)
        case _:
            return g * b, g * a


matmul = structural(
    "matmul", _matmul_shape, spelling="", symbol="@", precedence=Precedence.PRODUCT, gate=Gate.SWAP,
    returns_array=lambda *s: any(len(x or ()) == 2 for x in s), title="a product of arrays",
    vjp=_matmul_vjp,
)  # fmt: skip


def _outer_shape(_: Node, a: Shape, b: Shape) -> Shape:
    _require(len(a) == len(b) == 1, f"outer takes two vectors; it got {format_shape(a)} and {format_shape(b)}")
    return a + b


outer = structural(
    "outer", _outer_shape, gate=Gate.SWAP, returns_array=_always,
    vjp=lambda s, g, z, a, b: (matmul(g, b), matmul(transpose(g), a)),
    summary="the matrix of all products of two vectors' elements",
)  # fmt: skip


def _dot_shape(node: Node, a: Shape, b: Shape) -> Shape:
    _require(
        a == b,
        f"{node.op.name if node.op else ''} takes two arrays of the same shape; it got {format_shape(a)} and {format_shape(b)}",
    )
    return ()


dot = structural(
    "dot", _dot_shape, gate=Gate.SWAP,
    vjp=lambda s, g, z, a, b: (g * b, g * a),
    summary="the sum of the products of corresponding elements",
)  # fmt: skip


def _elements(shape: Shape, x: Node) -> list[Node]:
    """Return the elements of an array as nodes, in row-major order."""
    positions: list[tuple[int, ...]] = [()]
    for length in shape:
        positions = [(*p, i) for p in positions for i in range(length)]
    return [index(x, *map(constant, p)) for p in positions]


def _products_of_others(shape: Shape, x: Node) -> list[Node]:
    """Return for each element the product of all other elements, without divisions, which would fail for zeros."""
    elements = _elements(shape, x)
    before: list[Node] = [constant("1")]
    after: list[Node] = [constant("1")]
    for element in elements[:-1]:
        before.append(before[-1] * element)
    for element in elements[:0:-1]:
        after.append(after[-1] * element)
    return [left * right for left, right in zip(before, reversed(after), strict=True)]


def _prod_vjp(s: Sequence[Shape], g: Node, _: Node, x: Node) -> NodeContributions:
    others = _products_of_others(s[0], x)
    for length in s[0][:0:-1]:
        others = [stack(*others[k : k + length]) for k in range(0, len(others), length)]
    return (g * (stack(*others) if s[0] else others[0]),)


prod = structural(
    "prod", lambda node, s: (), vjp=_prod_vjp, gate=Gate.SWAP,
    summary="the product of all elements",
)  # fmt: skip

# --- The softmax family, over all elements of a vector ---

softmax = structural(
    "softmax", lambda node, s: s, returns_array=_always,
    vjp=lambda s, g, z, x: (z * (g - sum_(g * z)),),
    summary="exp(x) over its sum",
)  # fmt: skip


def finite_largest(x: Node) -> Node:
    """Return the largest element, or 0 if it is infinite: subtracted before exponentials, so that none overflows."""
    maximum = largest(x)
    return where(abs_(maximum) < as_node(math.inf), maximum, 0)


def _logsoftmax(x: Node) -> Node:
    shifted = x - finite_largest(x)  # large scores that differ little keep the digits of their difference
    return shifted - log(sum_(exp(shifted)))


logsoftmax = composite(
    "logsoftmax", _logsoftmax, is_structural=True, returns_array=_always,
    vjp=lambda s, g, z, x: (g - exp(z) * sum_(g),),
    summary="log(softmax(x)), computed accurately",
)  # fmt: skip


# --- Rearrangements, which compute nothing ---


def _embed(put: Op, shape: Shape, x: Node, *others: Node) -> Partial:
    """Return an array embedded in zeros by the operation `put`, with a mask of its elements."""
    ones = broadcast_like(1, x) if shape else constant("1")
    return Partial(put(x, *others), put(ones, *others), is_masked=True)


def _stack_shape(_: Node, *s: Shape) -> Shape:
    different = next((shape for shape in s if shape != s[0]), s[0])
    _require(
        different == s[0],
        f"the parts of an array must have the same shape, not {format_shape(s[0])} and {format_shape(different)}",
    )
    _require(len(s[0]) < 2, "an array has at most two dimensions: rows and columns")
    return (len(s), *s[0])


stack = structural(
    "stack", _stack_shape, min_inputs=1, max_inputs=None, spelling="", title="an array", gate=Gate.ROUTE, array_inputs=(), returns_array=_always,
    vjp=lambda s, g, z, *xs: tuple(index(g, k) for k in range(len(xs))),
    summary="an array of its parts, written `[a, b]`",
)  # fmt: skip


def _positions(node: Node, start: int) -> tuple[int, ...]:
    """Return the positions of an index; the index of a whole row has column 0."""
    return (0,) if is_gathered(node) else _literal_indices(node, start)


def is_gathered(node: Node) -> bool:
    """Whether `index` or `place` has a position that is a column: each row has its own element. Only kernels have them."""
    return node.op in (index, place) and node.inputs[-1].is_input


def _shape_at(s: Shape, positions: Sequence[int]) -> Shape:
    """Return the shape of the element or row at an index of an array. Raises ShapeError if the index is invalid."""
    _require(s != (), "a number has no elements; only arrays have indices")
    _require(len(positions) <= len(s), f"a vector of {format_shape(s)} takes one index, not {len(positions)}")
    for position, length in zip(positions, s, strict=False):
        _require(position < length, f"index {position} is out of range: this axis has {length}, counted from 0")
    return s[len(positions) :]


def _place_shape(node: Node, x: Shape, like: Shape, *_: Shape) -> Shape:
    target_shape = _shape_at(like, _positions(node, 2))
    _require(x == target_shape, f"place needs an array of {format_shape(target_shape)}; it got {format_shape(x)}")
    return like


index = structural(
    "index", lambda node, s, *_: _shape_at(s, _positions(node, 1)), min_inputs=2, max_inputs=3, spelling="", gate=Gate.ROUTE, array_inputs=(0,), title="an index",
    vjp=lambda s, g, z, x, *at: (_embed(place, s[0][len(at) :], g, x, *at), *(None for _ in at)),
    summary="an element, or a row, written `v[0]`, `M[i, j]`; counted from 0",
)  # fmt: skip
place = structural(
    "place", _place_shape, min_inputs=3, max_inputs=4, gate=Gate.ROUTE, array_inputs=(1,), returns_array=_always, shape_only_inputs=(1,),
    keeps_all_elements=True,
    vjp=lambda s, g, z, x, like, *at: (index(g, *at), None, *(None for _ in at)),
    summary="zeros of the shape of another array, with x at one index",
)  # fmt: skip


def _concat_shape(_: Node, *s: Shape) -> Shape:
    _require(
        all(shape and shape[1:] == s[0][1:] for shape in s),
        f"concat joins arrays along their first axis; it got {' and '.join(map(format_shape, s))}",
    )
    return (sum(shape[0] for shape in s), *s[0][1:])


def _offsets(s: Sequence[Shape]) -> list[int]:
    starts = [0]
    for shape in s:
        starts.append(starts[-1] + shape[0])
    return starts


concat = structural(
    "concat", _concat_shape, min_inputs=1, max_inputs=None, gate=Gate.ROUTE, returns_array=_always,
    vjp=lambda s, g, z, *xs: tuple(part(g, a, b) for a, b in zip(_offsets(s), _offsets(s)[1:], strict=False)),
    summary="its arguments one after the other, along their first axis",
)  # fmt: skip


def _slice_shape(node: Node, s: Shape) -> Shape:
    """Return the shape of the slice of an array from a node's second to its third input."""
    start, stop = _literal_indices(node, 1, 3)
    _require(s != (), f"{node.op.name if node.op else ''} takes an array; it got a number")
    _require(
        start < stop <= s[0], f"elements from {start} up to {stop} are out of range for an array of {format_shape(s)}"
    )
    return (stop - start, *s[1:])


def _pad_shape(node: Node, s: Shape, like: Shape) -> Shape:
    target_shape = _slice_shape(node, like)
    _require(s == target_shape, f"pad needs an array of {format_shape(target_shape)}; it got {format_shape(s)}")
    return like


part = structural(
    "part", lambda node, s, *_: _slice_shape(node, s), gate=Gate.ROUTE, array_inputs=(0,), returns_array=_always,
    vjp=lambda s, g, z, x, a, b: (_embed(pad, s[0], g, a, b, x), None, None),
    summary="the elements from one index up to another",
)  # fmt: skip
pad = structural(
    "pad", lambda node, s, start, stop, like: _pad_shape(node, s, like), gate=Gate.ROUTE, array_inputs=(0, 3),
    returns_array=_always, shape_only_inputs=(3,), keeps_all_elements=True,
    vjp=lambda s, g, z, x, a, b, like: (part(g, a, b), None, None, None),
    summary="zeros of the shape of another array, with x from one index up to another",
)  # fmt: skip
transpose = structural(
    "transpose", lambda node, s: s[::-1], gate=Gate.ROUTE, returns_array=_always, keeps_all_elements=True,
    vjp=lambda s, g, z, x: (transpose(g),),
    summary="rows made columns",
)  # fmt: skip
