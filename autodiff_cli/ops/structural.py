"""Operations on whole arrays: products of matrices, sums, pieces and arrangements.

Each says what shape it has and how an adjoint `g` and tangents `d` pass through it; everything else (Jacobians, second
derivatives, the columns of a batch) follows. In `s` are the shapes of the inputs. Rows of data are not a dimension here.
"""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Gate, Op, Partial, Precedence, Shape
from autodiff_cli.graph.shapes import ShapeError, broadcast, in_words
from autodiff_cli.ops.arithmetic import equal, greater, less, not_
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.declare import composite, structural
from autodiff_cli.ops.elementary import direction, exp

Passed = Sequence[Node | None]
Reached = Sequence[Partial | None]  # with the elements that are reached

# Rules may name operations that are defined further down.
broadcast_like: Op
sum_like: Op
sum_: Op
largest: Op
norm: Op
smallest: Op
matmul: Op
transpose: Op
outer: Op
dot: Op
index: Op
place: Op
part: Op
pad: Op
stack: Op


def _always(*_: Shape | None) -> bool:
    return True


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ShapeError(message)


def whole_number(node: Node) -> int | None:
    """The index or size that a node is; None if it is not written as a whole number, or is beyond any array."""
    return int(node.text) if node.is_constant and node.text.isdecimal() and len(node.text) < 10 else None


def _numbers(node: Node, start: int, stop: int | None = None) -> tuple[int, ...]:
    """The whole numbers that a node's inputs from `start` up to `stop` are; they are written, not computed."""
    found = []
    for child in node.inputs[start:stop]:
        number = whole_number(child)
        if number is None:
            raise ShapeError("an index is a whole number from 0, written as a number")
        found.append(number)
    return tuple(found)


# --- stretching and summing: what broadcasting does, and its reverse


def _stretched(_: Node, x: Shape, like: Shape) -> Shape:
    _need(broadcast(x, like) == like, f"an array of {in_words(x)} cannot be stretched to {in_words(like)}")
    return like


def _summed(_: Node, x: Shape, like: Shape) -> Shape:
    _need(broadcast(x, like) == x, f"an array of {in_words(x)} is not one of {in_words(like)} stretched")
    return like


broadcast_like = structural(
    "broadcast_like", _stretched, gate=Gate.DISTRIBUTE, array_inputs=(), shape_only=(1,), keeps_all=True,
    gives_array=lambda x, like: bool(like),
    vjp=lambda s, g, z, x, like: (sum_like(g, x), None), jvp=lambda s, d, z, x, like: (broadcast_like(d[0], like), None),
    summary="x stretched to the shape of another array",
)  # fmt: skip
sum_like = structural(
    "sum_like", _summed, gate=Gate.DISTRIBUTE, array_inputs=(), shape_only=(1,), gives_array=lambda x, like: bool(like),
    vjp=lambda s, g, z, x, like: (broadcast_like(g, x), None), jvp=lambda s, d, z, x, like: (sum_like(d[0], like), None),
    summary="x summed over the axes along which another array was stretched to it",
)  # fmt: skip

# --- reductions of one array to a number

sum_ = structural(
    "sum", lambda node, s: (), gate=Gate.DISTRIBUTE,
    vjp=lambda s, g, z, x: (broadcast_like(g, x),), jvp=lambda s, d, z, x: (sum_(d[0]),),
    summary="the sum of all elements",
)  # fmt: skip
size = structural(
    "size", lambda node, s: (), gate=Gate.BLOCK, shape_only=(0,),
    vjp=lambda s, g, z, x: (None,), jvp=lambda s, d, z, x: (None,),
    summary="the number of elements",
)  # fmt: skip
norm = structural(
    "norm", lambda node, s: (),
    vjp=lambda s, g, z, x: (g * direction(x, z),), jvp=lambda s, d, z, x: (sum_(direction(x, z) * d[0]),),
    kink=lambda x: equal(norm(x), 0), kink_note="it is the tip of a cone; gradient 0 is taken",
    summary="the length: the root of the sum of squares",
)  # fmt: skip
logsumexp = structural(
    "logsumexp", lambda node, s: (),
    vjp=lambda s, g, z, x: (g * exp(x - z),), jvp=lambda s, d, z, x: (sum_(exp(x - z) * d[0]),),
    summary="log(sum(exp(x))), without overflow",
)  # fmt: skip


def _winners(x: Node, z: Node) -> Node:
    return sum_(equal(x, z))


# Equal shares among all that tie, selected so that what does not win contributes exactly 0. Where the value is nan, so
# is every share: 0/0.
def _to_winners(beaten: Op, g: Node, z: Node, x: Node) -> Reached:
    return (Partial(g * (equal(x, z) / _winners(x, z)), not_(beaten(x, z))),)


def _of_winners(_: Sequence[Shape], d: Sequence[Node], z: Node, x: Node) -> Passed:
    return (sum_(where(equal(x, z), d[0], 0)) / _winners(x, z),)


largest = structural(
    "largest", lambda node, s: (), spelling="max", gate=Gate.ROUTE,
    vjp=lambda s, g, z, x: _to_winners(less, g, z, x), jvp=_of_winners,
    kink=lambda x: _winners(x, largest(x)) > 1, kink_note="two or more are the largest; they get equal shares",
    summary="the largest element",
)  # fmt: skip
smallest = structural(
    "smallest", lambda node, s: (), spelling="min", gate=Gate.ROUTE,
    vjp=lambda s, g, z, x: _to_winners(greater, g, z, x), jvp=_of_winners,
    kink=lambda x: _winners(x, smallest(x)) > 1, kink_note="two or more are the smallest; they get equal shares",
    summary="the smallest element",
)  # fmt: skip
mean = composite(
    "mean", lambda x: sum_(x) / size(x), on_arrays=True, summary="the sum of all elements over their number"
)


# --- products


def _product_shape(_: Node, a: Shape, b: Shape) -> Shape:
    words = f"`@` multiplies vectors and matrices; it got {in_words(a)} and {in_words(b)}"
    _need(len(a) in (1, 2) and len(b) in (1, 2), words)
    inner = "the left side needs as many columns as the right side has rows"
    _need(a[-1] == b[0], f"{in_words(a)} @ {in_words(b)}: {inner}")
    return a[:-1] + b[1:]


def _product_back(s: Sequence[Shape], g: Node, _: Node, a: Node, b: Node) -> Passed:
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
    "matmul", _product_shape, spelling="", symbol="@", precedence=Precedence.PRODUCT, gate=Gate.SWAP,
    gives_array=lambda *s: any(len(x or ()) == 2 for x in s), title="a product of arrays",
    vjp=_product_back, jvp=lambda s, d, z, a, b: (matmul(d[0], b), matmul(a, d[1])),
)  # fmt: skip


def _outer_shape(_: Node, a: Shape, b: Shape) -> Shape:
    _need(len(a) == len(b) == 1, f"outer takes two vectors; it got {in_words(a)} and {in_words(b)}")
    return a + b


outer = structural(
    "outer", _outer_shape, gate=Gate.SWAP, gives_array=_always,
    vjp=lambda s, g, z, a, b: (matmul(g, b), matmul(transpose(g), a)),
    jvp=lambda s, d, z, a, b: (outer(d[0], b), outer(a, d[1])),
    summary="the matrix of all products of two vectors' elements",
)  # fmt: skip


def _same(node: Node, a: Shape, b: Shape) -> Shape:
    _need(
        a == b,
        f"{node.op.name if node.op else ''} takes two arrays of one shape; it got {in_words(a)} and {in_words(b)}",
    )
    return ()


dot = structural(
    "dot", _same, gate=Gate.SWAP,
    vjp=lambda s, g, z, a, b: (g * b, g * a), jvp=lambda s, d, z, a, b: (dot(d[0], b), dot(a, d[1])),
    summary="the sum of the products of corresponding elements",
)  # fmt: skip


def _unrolled(shape: Shape, x: Node) -> list[Node]:
    """All elements of an array, each by its index."""
    positions: list[tuple[int, ...]] = [()]
    for length in shape:
        positions = [(*p, i) for p in positions for i in range(length)]
    return [index(x, *map(constant, p)) if p else x for p in positions]


def _others(shape: Shape, x: Node) -> list[Node]:
    """For every element the product of all others, without division, so that zeros do no harm."""
    elements = _unrolled(shape, x)
    before: list[Node] = [constant("1")]
    after: list[Node] = [constant("1")]
    for element in elements[:-1]:
        before.append(before[-1] * element)
    for element in elements[:0:-1]:
        after.append(after[-1] * element)
    return [left * right for left, right in zip(before, reversed(after), strict=True)]


def _prod_back(s: Sequence[Shape], g: Node, _: Node, x: Node) -> Passed:
    others = _others(s[0], x)
    for length in s[0][:0:-1]:
        others = [stack(*others[k : k + length]) for k in range(0, len(others), length)]
    return (g * (stack(*others) if s[0] else others[0]),)


def _prod_ahead(s: Sequence[Shape], d: Sequence[Node], _: Node, x: Node) -> Passed:
    total: Node | None = None
    for tangent, others in zip(_unrolled(s[0], d[0]), _others(s[0], x), strict=True):
        amount = others * tangent
        total = amount if total is None else total + amount
    return (total,)


prod = structural(
    "prod", lambda node, s: (), vjp=_prod_back, jvp=_prod_ahead, gate=Gate.SWAP,
    summary="the product of all elements",
)  # fmt: skip

# --- the softmax family, over all elements of a vector

softmax = structural(
    "softmax", lambda node, s: s, gives_array=_always,
    vjp=lambda s, g, z, x: (z * (g - sum_(g * z)),), jvp=lambda s, d, z, x: (z * (d[0] - sum_(z * d[0])),),
    summary="exp(x) over its sum",
)  # fmt: skip
logsoftmax = composite(
    "logsoftmax", lambda x: x - logsumexp(x), on_arrays=True, gives_array=_always,
    vjp=lambda s, g, z, x: (g - exp(z) * sum_(g),), jvp=lambda s, d, z, x: (d[0] - sum_(exp(z) * d[0]),),
    summary="log(softmax(x)), with all digits",
)  # fmt: skip


# --- arranging: none of these computes anything


def _inside(put: Op, shape: Shape, x: Node, *others: Node) -> Partial:
    """An array of this shape put among zeros: it counts where it is put."""
    everything = broadcast_like(1, x) if shape else constant("1")
    return Partial(put(x, *others), put(everything, *others), settled=True)


def _stacked(_: Node, *s: Shape) -> Shape:
    different = next((shape for shape in s if shape != s[0]), s[0])
    _need(
        different == s[0], f"the parts of an array have one shape; here are {in_words(s[0])} and {in_words(different)}"
    )
    _need(len(s[0]) < 2, "an array has at most two dimensions: rows and columns")
    return (len(s), *s[0])


stack = structural(
    "stack", _stacked, least=1, most=None, spelling="", title="an array", gate=Gate.ROUTE, array_inputs=(), gives_array=_always,
    vjp=lambda s, g, z, *xs: tuple(index(g, k) for k in range(len(xs))),
    jvp=lambda s, d, z, *xs: tuple(_inside(place, s[k], d[k], z, constant(k)) for k in range(len(xs))),
    summary="an array of its parts, written `[a, b]`",
)  # fmt: skip


def _indexed(node: Node, s: Shape, *_: Shape) -> Shape:
    return _at(s, _numbers(node, 1))


def _at(s: Shape, positions: Sequence[int]) -> Shape:
    """The shape of what stands at an index of an array."""
    _need(s != (), "a number has no elements: an index needs an array")
    _need(len(positions) <= len(s), f"a vector of {in_words(s)} takes one index, not {len(positions)}")
    for position, length in zip(positions, s, strict=False):
        _need(position < length, f"index {position} is out of range: there are {length}, counted from 0")
    return s[len(positions) :]


def _placed(node: Node, x: Shape, like: Shape, *_: Shape) -> Shape:
    spot = _at(like, _numbers(node, 2))
    _need(x == spot, f"place puts an array of {in_words(x)} where one of {in_words(spot)} belongs")
    return like


index = structural(
    "index", _indexed, least=2, most=3, spelling="", gate=Gate.ROUTE, array_inputs=(0,), title="an index",
    vjp=lambda s, g, z, x, *at: (_inside(place, s[0][len(at) :], g, x, *at), *(None for _ in at)),
    jvp=lambda s, d, z, x, *at: (index(d[0], *at), *(None for _ in at)),
    summary="an element, or a row, written `v[0]`, `M[i, j]`; counted from 0",
)  # fmt: skip
place = structural(
    "place", _placed, least=3, most=4, gate=Gate.ROUTE, array_inputs=(1,), gives_array=_always, shape_only=(1,),
    keeps_all=True,
    vjp=lambda s, g, z, x, like, *at: (index(g, *at), None, *(None for _ in at)),
    jvp=lambda s, d, z, x, like, *at: (_inside(place, s[0], d[0], like, *at), None, *(None for _ in at)),
    summary="zeros of the shape of another array, with x at one index",
)  # fmt: skip


def _concatenated(_: Node, *s: Shape) -> Shape:
    _need(
        all(shape and shape[1:] == s[0][1:] for shape in s),
        f"concat joins arrays along their first axis; it got {' and '.join(map(in_words, s))}",
    )
    return (sum(shape[0] for shape in s), *s[0][1:])


def _starts(s: Sequence[Shape]) -> list[int]:
    starts = [0]
    for shape in s:
        starts.append(starts[-1] + shape[0])
    return starts


def _concat_ahead(s: Sequence[Shape], d: Sequence[Node], z: Node, *_: Node) -> Reached:
    ends = [constant(start) for start in _starts(s)]
    return [_inside(pad, s[k], dx, ends[k], ends[k + 1], z) for k, dx in enumerate(d)]


concat = structural(
    "concat", _concatenated, least=1, most=None, gate=Gate.ROUTE, gives_array=_always,
    vjp=lambda s, g, z, *xs: tuple(part(g, a, b) for a, b in zip(_starts(s), _starts(s)[1:], strict=False)),
    jvp=_concat_ahead,
    summary="its arguments one after the other, along their first axis",
)  # fmt: skip


def _piece(node: Node, s: Shape) -> Shape:
    """The shape of the piece of an array that a node's numbers bound."""
    start, stop = _numbers(node, 1, 3)
    _need(s != (), f"{node.op.name if node.op else ''} takes an array; it got a number")
    _need(start < stop <= s[0], f"there is no piece from {start} up to {stop} of {in_words(s)}")
    return (stop - start, *s[1:])


def _padded(node: Node, s: Shape, like: Shape) -> Shape:
    spot = _piece(node, like)
    _need(s == spot, f"pad puts an array of {in_words(s)} where one of {in_words(spot)} belongs")
    return like


part = structural(
    "part", lambda node, s, *_: _piece(node, s), gate=Gate.ROUTE, array_inputs=(0,), gives_array=_always,
    vjp=lambda s, g, z, x, a, b: (_inside(pad, s[0], g, a, b, x), None, None),
    jvp=lambda s, d, z, x, a, b: (part(d[0], a, b), None, None),
    summary="the elements from one index up to another",
)  # fmt: skip
pad = structural(
    "pad", lambda node, s, start, stop, like: _padded(node, s, like), gate=Gate.ROUTE, array_inputs=(0, 3),
    gives_array=_always, shape_only=(3,), keeps_all=True,
    vjp=lambda s, g, z, x, a, b, like: (part(g, a, b), None, None, None),
    jvp=lambda s, d, z, x, a, b, like: (_inside(pad, s[0], d[0], a, b, like), None, None, None),
    summary="zeros of the shape of another array, with x from one index up to another",
)  # fmt: skip
transpose = structural(
    "transpose", lambda node, s: s[::-1], gate=Gate.ROUTE, gives_array=_always, keeps_all=True,
    vjp=lambda s, g, z, x: (transpose(g),), jvp=lambda s, d, z, x: (transpose(d[0]),),
    summary="rows made columns",
)  # fmt: skip
