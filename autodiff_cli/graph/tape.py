"""Tapes, the shapes of their nodes, and passes that rebuild graphs: substitution, packing, templates, expansion.

A tape numbers the nodes of a graph once, in topological order. Loops then run over integers and lists, and nothing
recurses, so a chain of 100,000 nodes needs no deeper call stack than a sum.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

from autodiff_cli.graph.node import Node, Op, Shape, is_literal


class LazyTable(dict[Any, Any]):
    """A dictionary that computes each value when its key is first looked up.

    >>> squares = LazyTable(lambda x: x * x)
    >>> squares[3], squares
    (9, {3: 9})
    """

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self._compute(key)
        return value


def group_pairs(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the values of pairs (key, value) in a list for each key, in the order of the keys' first appearance.

    >>> group_pairs([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector inside a `with` block.

    Nearly all objects made while a graph or a tape is built stay alive. Scanning them for garbage again and again would
    take as long as building them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


_POSITIONS = ((), (0,), (0, 1), (0, 1, 2))  # shared tuples of input positions, for the usual numbers of inputs


class Vertex(Protocol):
    """A vertex of a directed acyclic graph: it has inputs of its own type."""

    @property
    def inputs(self) -> tuple[Any, ...]: ...


V = TypeVar("V", bound=Vertex)
T = TypeVar("T")
K = TypeVar("K")


def topological_order(outputs: Iterable[V], visited: set[V] | None = None) -> list[V]:
    """Return all ancestors of the outputs, and the outputs, each once and after its inputs, visited in input order.

    Args:
        outputs: the vertices to begin with.
        visited: vertices to leave out, with all their ancestors; it grows.
    """
    order: list[V] = []
    visited = set() if visited is None else visited
    stack: list[V | None] = [*[*outputs][::-1]]  # None: the inputs of the node below it are in the order
    while stack:
        node = stack.pop()
        if node is None:
            node = stack.pop()
            assert node is not None
            order.append(node)
        elif node not in visited:
            visited.add(node)
            if node.inputs:
                stack += (node, None, *node.inputs[::-1])
            else:
                order.append(node)
    return order


def dependents(order: Iterable[Node], sources: Iterable[Node]) -> set[Node]:
    """Return the sources, and the nodes of a topological order that depend on them."""
    nodes = {*sources}
    for node in order:
        if not nodes.isdisjoint(node.inputs):
            nodes.add(node)
    return nodes


def leaf_names(outputs: Iterable[Node]) -> list[str]:
    """Return the names of the inputs that nodes depend on, in order."""
    return list(dict.fromkeys(node.text for node in topological_order(outputs) if node.is_input))


def has_array_operations(nodes: Iterable[Node]) -> bool:
    """Whether an operation on whole arrays is among nodes."""
    return any(node.op is not None and node.op.is_structural for node in nodes)


def infer(root: Node, known: dict[Node, T], rule: Callable[[Node], T]) -> T:
    """Return a property of a node that follows from its inputs' properties. Visits each node once, without recursion.

    Args:
        root: the node.
        known: the property of nodes that were visited; it grows.
        rule: returns the property of a node whose inputs are known.
    """
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [child for child in node.inputs if child not in known]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if node not in known:
            known[node] = rule(node)
    return known[root]


class Tape:
    """The nodes of a graph in topological order, with each node's inputs as positions in that order.

    Args:
        outputs: the nodes to evaluate.
        wrt: the input leaves to differentiate with respect to; all input leaves by default.

    Attributes:
        nodes: the nodes in topological order; a node's position is its id.
        index: the id of each node.
        inputs: for each node, the ids of its inputs.
        outputs: the ids of the outputs.
        is_active: for each node, whether it is, or depends on, one of the `wrt` leaves. Other nodes have no gradient.
        active_inputs: for each node, the positions among its inputs through which a derivative propagates: the active
            inputs, without those that a literal zero multiplies (`0*x`, `x^0`).
    """

    __slots__ = ("active_inputs", "index", "inputs", "is_active", "nodes", "outputs")

    def __init__(self, outputs: Sequence[Node], wrt: Iterable[Node] | None = None) -> None:
        seeds = None if wrt is None else set(wrt)
        self.index: dict[Node, int] = {}
        self.inputs: list[tuple[int, ...]] = []
        self.is_active: list[bool] = []
        self.active_inputs: list[tuple[int, ...]] = []
        with gc_paused():
            self.nodes = topological_order(outputs)
            self._number_nodes(seeds)
        self.outputs = tuple(self.index[output] for output in outputs)

    def _number_nodes(self, seeds: set[Node] | None) -> None:
        index, is_active, active_inputs = self.index, self.is_active, self.active_inputs
        zeros: set[int] = set()
        for i, node in enumerate(self.nodes):
            op = node.op
            index[node] = i
            if op is None:
                self.inputs.append(())
                active_inputs.append(())
                is_active.append(not node.is_constant if seeds is None else node in seeds)
                if node.is_constant and is_literal(node, 0):
                    zeros.add(i)
                continue
            inputs = tuple([index[child] for child in node.inputs])
            self.inputs.append(inputs)
            active = _POSITIONS[len(inputs)] if len(inputs) < len(_POSITIONS) else tuple(range(len(inputs)))
            if False in [is_active[j] for j in inputs]:
                active = tuple([k for k in active if is_active[inputs[k]]])
            is_active.append(bool(active))
            if zeros and op.factors and active:
                # A partial derivative is 0 if the input that multiplies it is literally 0.
                factors = op.factors
                active = tuple([k for k in active if (j := factors[k]) is None or inputs[j] not in zeros])
            elif zeros and is_literal(node, 0):
                zeros.add(i)
            active_inputs.append(active)

    def __len__(self) -> int:
        return len(self.nodes)


NodeRewrite = Callable[[Node, tuple[Node, ...]], Node]  # returns the new node for a node and its new inputs


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return a node with other inputs; the node itself if they are its own."""
    return node if inputs == node.inputs else Node(node.op, inputs)


def rebuild(
    roots: Iterable[Node], rewrite: NodeRewrite = with_inputs, replace: Mapping[Node, Node] | None = None
) -> dict[Node, Node]:
    """Visit each node of graphs once, after its inputs, and return the new node for each.

    Args:
        roots: the graphs.
        rewrite: returns the new node for a node and its new inputs. By default, parts without a new node are shared.
        replace: the new nodes of some nodes, which are not visited.
    """
    new: dict[Node, Node] = dict(replace or {})
    with gc_paused():
        for node in topological_order(roots):
            if node not in new:
                new[node] = rewrite(node, tuple([new[child] for child in node.inputs]))
    return new


def substitute(roots: Sequence[Node], replace: Mapping[Node, Node]) -> list[Node]:
    """Return graphs with some nodes replaced."""
    new = rebuild(roots, replace=replace)
    return [new[root] for root in roots]


PackedGraph = tuple[list[Node | tuple[Op, tuple[int, ...]]], tuple[int, ...]]


def pack(roots: Sequence[Node]) -> PackedGraph:
    """Return the graphs of `roots` as flat lists, so that pickling does not recurse over their depth.

    Leaves stay nodes, so that graphs that are pickled together share them afterwards too.
    """
    tape = Tape(roots)
    steps = zip(tape.nodes, tape.inputs, strict=True)
    return [node if node.op is None else (node.op, inputs) for node, inputs in steps], tape.outputs


def unpack(packed: PackedGraph) -> list[Node]:
    """Return the roots of graphs that `pack` flattened. Nodes that were shared are shared again."""
    nodes: list[Node] = []
    for step in packed[0]:
        nodes.append(step if isinstance(step, Node) else Node(step[0], tuple(nodes[i] for i in step[1])))
    return [nodes[i] for i in packed[1]]


def _unpack_one(packed: PackedGraph) -> Node:
    """Return the only root of a graph that `pack` flattened."""
    return unpack(packed)[0]


def _reduce_node(node: Node) -> tuple[Any, ...]:
    return (Node, (None, (), node.text, node.is_constant)) if node.op is None else (_unpack_one, (pack((node,)),))


copyreg.pickle(Node, _reduce_node)


class Template:
    """Graphs over placeholder leaves, prepared for repeated instantiation over other nodes.

    Nodes that do not depend on a placeholder are shared by all instances.

    >>> from autodiff_cli.graph.node import variable
    >>> x, placeholder = variable("x"), variable("placeholder")
    >>> [built] = Template([placeholder], [placeholder * placeholder]).build([x])
    >>> built.inputs
    (<input x>, <input x>)
    """

    __slots__ = ("_fixed", "_roots", "_steps")

    def __init__(self, placeholders: Sequence[Node], roots: Sequence[Node]) -> None:
        order = topological_order(roots)
        depends = dependents(order, placeholders)
        self._fixed = [node for node in order if node not in depends]
        dependent = [node for node in order if node in depends and node.inputs]
        index = {node: i for i, node in enumerate([*placeholders, *self._fixed, *dependent])}
        self._steps: list[tuple[Op | None, list[int]]] = [
            (node.op, [index[child] for child in node.inputs]) for node in dependent
        ]
        self._roots = [index[root] for root in roots]

    def build(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the graphs with the placeholders replaced by these nodes."""
        built = [*nodes, *self._fixed]
        for op, inputs in self._steps:
            built.append(Node(op, tuple([built[i] for i in inputs])))
        return [built[i] for i in self._roots]


def expand_helpers(
    roots: Sequence[Node], postprocess: Callable[[Op, tuple[Node, ...], Node], Node] | None = None
) -> dict[Node, Node]:
    """Replace helper operations in graphs by their definitions, and return the new node for each node of the graphs.

    Args:
        postprocess: returns the replacement of a helper, given the operation, its new inputs and its definition over
            them; the definition by default.
    """

    def expand(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is None or not node.op.is_helper:
            return with_inputs(node, inputs)
        (definition,) = _helper_template(node.op, len(inputs)).build(inputs)
        return definition if postprocess is None else postprocess(node.op, inputs, definition)

    return rebuild(roots, expand)


@functools.cache
def _helper_template(op: Op, count: int) -> Template:
    """Return the definition of a helper without helpers in it. It recurses over definitions, which are small."""
    definition = op.expand(count)
    assert definition is not None
    return Template(op.placeholders(count), [expand_helpers([definition])[definition]])


# --- Shapes ---

# A scalar has the shape `()`. Elementwise operations broadcast by NumPy's rules: shapes are aligned at their last axis,
# and an axis of length 1 stretches. A structural operation declares its own shape function.


class ShapeError(ValueError):
    """The shapes of an operation's inputs are incompatible.

    Attributes:
        node: the operation; None if not known.
    """

    def __init__(self, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.node = node


def infer_shapes(tape: Tape, leaves: Mapping[str, Shape]) -> list[Shape]:
    """Return the shape of every node of a tape, by position.

    Args:
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.

    Raises:
        ShapeError: if shapes are incompatible; its `node` is the operation.
    """
    shapes = ShapeInference(leaves)
    return [shapes.infer(node) or () for node in tape.nodes]


class ShapeInference:
    """Shapes of nodes, inferred on demand and cached.

    Args:
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.
        unknown: the names of leaves with an unknown shape.
    """

    def __init__(self, leaves: Mapping[str, Shape], unknown: Set[str] = frozenset()) -> None:
        self._leaves = leaves
        self._unknown = unknown
        self._shapes: dict[Node, Shape | None] = {}

    def infer(self, root: Node) -> Shape | None:
        """Return the shape of a node; None if it depends on an unknown shape.

        Raises:
            ShapeError: if known shapes are incompatible.
        """
        return infer(root, self._shapes, self._shape)

    def _shape(self, node: Node) -> Shape | None:
        if node.op is None:
            if node.is_input and node.text in self._unknown:
                return None
            return self._leaves.get(node.text, ()) if node.is_input else ()
        inputs = [shape for shape in map(self._shapes.__getitem__, node.inputs) if shape is not None]
        if len(inputs) < len(node.inputs):
            return None
        try:
            return shape_of(node, inputs)
        except ShapeError as error:
            raise ShapeError(str(error), node) from None


def shape_of(node: Node, inputs: Sequence[Shape]) -> Shape:
    """Return the shape of one node, given the shapes of its inputs. Raises ShapeError if they are incompatible."""
    op = node.op
    assert op is not None
    if op.shape is not None:
        return op.shape(node, *inputs)
    return inputs[0] if inputs.count(inputs[0]) == len(inputs) else broadcast_shapes(*inputs)


def broadcast_shapes(*inputs: Shape) -> Shape:
    """Return the common shape that arrays with these shapes broadcast to. Raises ShapeError if there is none."""
    rank = max(map(len, inputs))
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in inputs if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"shapes {' and '.join(map(format_shape, filter(None, inputs)))} do not fit together")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def format_shape(shape: Shape) -> str:
    """Return a shape in the notation of the language: `2x3`, `3`, or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"
