"""Other views of a trace: paths, forward mode, the tape, and the frames of a drawing.

- `PathNetwork`: every path from a variable to the output, and its contribution to the gradient. A path contributes the
  product of its local derivatives; the gradient is the sum over all paths. There can be 2^300 of them, so they are
  counted and summed in a single pass, and listed one by one, largest first.
- `variance_sources`: the paths along which the errors of uncertain inputs reach the output.
- `ForwardMode`: how fast every node changes with one variable, from the inputs to the output.
- `TapeRecord`: the values that every operation saves for the backward pass, and their memory. They are the values that
  occur in its local derivatives: none for a sum, the factors for a product, the output for `exp`. For `tanh` it is the
  output, too, because frameworks compute its derivative as textbooks do.
- `frames`: the parts of a graph that have a name in the text, and how each depends on its inputs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from autodiff_cli.autodiff.sweeps import tangents
from autodiff_cli.explain.record import ForwardStep, Trace, array_shape
from autodiff_cli.graph.node import Node, Op, as_node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.program import Group
from autodiff_cli.numbers.floats import FLOATS

if TYPE_CHECKING:
    from autodiff_cli.formula.uncertainty import ErrorSource, Uncertainty

# Paths are ordered by the logarithm of their products. These numbers replace the logarithms of a structural zero, of 0,
# and of an infinity or nan. They are finite, so that their sums can be ordered, too.
_LOG_OF_ABSENT, _LOG_OF_ZERO, _LOG_OF_NONFINITE = -1e12, -1e6, 1e6


class Edge(NamedTuple):
    """An edge from a node to one of its users.

    Attributes:
        user: the id of the user.
        local: the local derivative of the user with respect to the node.
        factor: the factor that the edge contributes to a path; None for a structural zero (a branch that was not
            taken, a literal zero factor), else `local`.
    """

    user: int
    local: float
    factor: float | None


class Path(NamedTuple):
    """A path from a variable to the output.

    Attributes:
        nodes: the ids of the nodes, from the variable to the output.
        local_derivatives: the local derivative of every edge, in the same order.
        product: their product; exactly 0 if one of the edges is a structural zero.
    """

    nodes: tuple[int, ...]
    local_derivatives: tuple[float, ...]
    product: float


class Paths(NamedTuple):
    """The paths from one variable to the output.

    Attributes:
        name: the variable.
        total: the number of paths.
        listed: the paths with the largest products, largest first.
        rest: the sum of the products of all other paths.
    """

    name: str
    total: int
    listed: list[Path]
    rest: float

    @property
    def unlisted(self) -> int:
        """The number of paths that are not listed."""
        return self.total - len(self.listed)


class PathNetwork:
    """The graph of a trace, with the number of paths from every node to the output and the largest paths.

    Raises:
        ExpressionError: for a trace with arrays, whose local derivatives are not numbers.
    """

    def __init__(self, trace: Trace) -> None:
        if not trace.is_scalar:
            raise ExpressionError("--paths multiplies numbers, but this formula has arrays; write it with scalars only")
        self._trace = trace
        count = len(trace.tape)
        self._users: list[list[Edge]] = [[] for _ in range(count)]
        self._counts = [0] * count
        self._best_edges: list[Edge | None] = [None] * count  # the next edge of the largest path from each node
        self._log_weights = [0.0] * count  # the logarithm of the product of that path
        self._counts[trace.tape.outputs[0]] = 1
        for i in range(count - 1, -1, -1):
            if self._users[i]:
                best = max(self._users[i], key=self._log_weight)
                self._best_edges[i], self._log_weights[i] = best, self._log_weight(best)
            for each in trace.contributions[i]:
                self._users[each.to].append(Edge(i, each.local, None if each.is_structural_zero else each.local))
                self._counts[each.to] += self._counts[i]

    def from_variable(self, name: str, limit: int) -> Paths:
        """Return the paths from a variable; the `limit` largest are listed."""
        start = self._trace.tape.index.get(self._trace.expression.leaves[name])
        if start is None or not self._trace.tape.is_active[start]:
            return Paths(name, 0, [], 0.0)
        listed, rest = self._largest_paths(start, limit)
        # By absolute product, largest first; nan is first of all.
        paths = [_make_path(start, edges) for edges in listed]
        paths.sort(key=lambda path: math.inf if math.isnan(path.product) else abs(path.product), reverse=True)
        return Paths(name, self._counts[start], paths, rest)

    def _log_weight(self, edge: Edge) -> float:
        """Return the logarithm of the absolute product of the largest path that starts with an edge."""
        return _logarithm(edge.factor) + self._log_weights[edge.user]

    def _largest_paths(self, start: int, limit: int) -> tuple[list[EdgeChain], float]:
        """Return the `limit` largest paths from a node, as edges, and the sum of the products of all others.

        This is Lawler's method (1972, "A procedure for computing the k best solutions"). Paths that share their first
        edges form a class, whose largest path is known. The class with the largest path gives the next result; its
        other paths are split into smaller classes by the node where they leave that path. The remaining classes hold
        exactly the paths that are not listed, so their sums give the rest.
        """
        paths: list[EdgeChain] = []
        counter = itertools.count()
        classes = [_PathClass(-self._log_weights[start], next(counter), start, None, 1.0, 0.0)]
        while classes and len(paths) < limit:
            _, _, node, edges, product, weight = heappop(classes)
            while (following := self._best_edges[node]) is not None:
                for edge in self._users[node]:
                    if edge is not following:
                        priority, beyond = -weight - self._log_weight(edge), weight + _logarithm(edge.factor)
                        rest = (edges, edge), _multiply(product, edge.factor), beyond
                        heappush(classes, _PathClass(priority, next(counter), edge.user, *rest))
                node, edges, product = following.user, (edges, following), _multiply(product, following.factor)
                weight += _logarithm(following.factor)
            paths.append(edges)
        return paths, sum(map(self._sum, classes), 0.0)

    def _sum(self, remaining: _PathClass) -> float:
        """Return the sum of the products of all paths of a class."""
        adjoint = self._trace.adjoints_or_none[remaining.node]
        return 0.0 if remaining.product is None or adjoint is None else remaining.product * adjoint


# The edges of a path so far: those before the last one, and the last one; None for no edges.
EdgeChain: TypeAlias = "tuple[EdgeChain, Edge] | None"


class _PathClass(NamedTuple):
    """A class of paths that share their first edges.

    Classes are ordered by `priority`, then by `order`.

    Attributes:
        priority: minus the logarithm of the largest product in the class.
        order: the number of the class in order of creation, which breaks ties.
        node: the node to which the shared edges lead.
        edges: the shared edges.
        product: the product of the shared edges; None for a structural zero.
        log_weight: the logarithm of that product.
    """

    priority: float
    order: int
    node: int
    edges: EdgeChain
    product: float | None
    log_weight: float


def _make_path(start: int, chain: EdgeChain) -> Path:
    """Return the path along some edges. The product is computed in the order of the backward pass."""
    product: float | None = 1.0
    edges: list[Edge] = []
    while chain is not None:
        chain, edge = chain
        product = _multiply(product, edge.factor)
        edges.append(edge)
    edges.reverse()
    return Path((start, *(edge.user for edge in edges)), tuple(edge.local for edge in edges), product or 0.0)


def _multiply(product: float | None, rate: float | None) -> float | None:
    return None if product is None or rate is None else rate * product


def _logarithm(rate: float | None) -> float:
    if rate is None:
        return _LOG_OF_ABSENT
    return math.log(abs(rate)) if rate and math.isfinite(rate) else _LOG_OF_NONFINITE if rate else _LOG_OF_ZERO


class VarianceSource(NamedTuple):
    """The paths along which the error of one input reaches the value.

    Attributes:
        source: the input, with its standard error and its share in the variance.
        paths: its paths. The error of the input changes the value by `source.deviation` times the product of each.
    """

    source: ErrorSource
    paths: Paths

    def change(self, product: float) -> float:
        """Return the change of the value along paths, from the sum of their products."""
        return self.source.deviation * product if self.source.deviation else 0.0

    def share(self, product: float) -> float:
        """Return the share of the variance that comes along paths, from the sum of their products."""
        return self.change(product) * self.source.share_rate


def variance_sources(trace: Trace, uncertainty: Uncertainty, limit: int) -> list[VarianceSource]:
    """Return where the variance of the value comes from, the largest source first.

    Args:
        trace: a trace of numbers with respect to the uncertain inputs.
        uncertainty: the uncertainty of its value.
        limit: the number of paths to list for each input.
    """
    network = PathNetwork(trace)
    sources = [each for each in uncertainty.sources if each.name in trace.wrt]
    sources.sort(key=lambda source: -abs(source.share))
    return [VarianceSource(source, network.from_variable(source.name, limit)) for source in sources]


class TangentContribution(NamedTuple):
    """The contribution of an input to the tangent of a node: `amount = local * tangent`.

    Attributes:
        input: the id of the input.
        local: the local derivative of the node with respect to the input.
        tangent: the tangent of the input.
        amount: the contribution.
    """

    input: int
    local: float
    tangent: float
    amount: float


class TangentStep(NamedTuple):
    """One step of forward mode: an operation, and its tangent as a sum of contributions.

    Inputs that do not depend on the variable contribute nothing and are left out.
    """

    forward: ForwardStep
    contributions: tuple[TangentContribution, ...]
    tangent: float


class OperationCounts(NamedTuple):
    """The operations of a pass, not counting those for values and local derivatives. Choices count like others."""

    multiplications: int
    additions: int


class ForwardMode:
    """A pass of forward mode for one of the variables that a trace differentiates with respect to.

    Attributes:
        trace: the values at the point.
        name: the variable, whose tangent is 1.
        tangents: the derivative of every node with respect to it; 0 for nodes that do not depend on it.
        steps: the operations, in the order of evaluation.
        work: the operations of this pass.
        all_variables: the operations of one such pass for each variable, in total.
        reverse: the operations of the reverse pass, which gives all derivatives at once.

    Raises:
        ExpressionError: for a trace with arrays, whose tangents are not single numbers.
    """

    def __init__(self, trace: Trace, name: str) -> None:
        if not trace.is_scalar:
            words = "forward mode shows one number per node, but this formula has arrays"
            raise ExpressionError(f"{words}; use --mode reverse")
        rates = _node_tangents(trace, name)
        self.trace, self.name = trace, name
        self.tangents = [0.0 if rate is None else rate for rate in rates]
        self.steps = [*_steps(trace, rates)]
        self.work = forward_operations(trace, [name])
        self.all_variables = forward_operations(trace, trace.wrt)
        self.reverse = reverse_operations(trace)


def all_tangents(trace: Trace) -> dict[str, list[float]]:
    """Return for each variable of a scalar trace the derivative of every node with respect to it, by forward mode."""
    return {name: [rate or 0.0 for rate in _node_tangents(trace, name)] for name in trace.wrt}


def _node_tangents(trace: Trace, name: str) -> list[float | None]:
    return tangents(trace.tape, FLOATS, trace.values, {name: 1.0})


def forward_operations(trace: Trace, names: Iterable[str]) -> OperationCounts:
    """Return the number of operations of one forward pass for each of some variables, in total.

    A pass multiplies once for each input that depends on its variable, and adds the products of each node.
    """
    tape = trace.tape
    bit = {trace.expression.leaves[name]: 1 << k for k, name in enumerate(names)}
    dependencies: list[int] = []  # for each node, the variables that it depends on, as a bit set
    multiplications = additions = 0
    for node, inputs, active in zip(tape.nodes, tape.inputs, tape.active_inputs, strict=True):
        variables = bit.get(node, 0)
        products = 0
        for k in active:
            variables |= dependencies[inputs[k]]
            products += dependencies[inputs[k]].bit_count()
        multiplications += products
        additions += products - variables.bit_count() if active else 0
        dependencies.append(variables)
    return OperationCounts(multiplications, additions)


def reverse_operations(trace: Trace) -> OperationCounts:
    """Return the number of operations of the reverse pass: a product per edge, a sum per further use of a node."""
    tape = trace.tape
    used_inputs = [inputs[k] for inputs, active in zip(tape.inputs, tape.active_inputs, strict=True) for k in active]
    return OperationCounts(len(used_inputs), len(used_inputs) - len(set(used_inputs)))


def _steps(trace: Trace, rates: list[float | None]) -> Iterator[TangentStep]:
    for step in trace.forward:
        inputs, rate, terms = step.inputs, rates[step.node], []
        if rate is not None:
            active = tuple(k for k in trace.tape.active_inputs[step.node] if rates[inputs[k]] is not None)
            partials = FLOATS.partials(step.op, len(inputs), active)
            for k, local in zip(active, partials(step.value, *[trace.values[j] for j in inputs]), strict=True):
                tangent = rates[inputs[k]]
                if local is not None and tangent is not None:
                    terms.append(TangentContribution(inputs[k], local, tangent, local * tangent))
        yield TangentStep(step, tuple(terms), rate or 0.0)


BYTES_PER_NUMBER = 8  # bytes of a double


class TapeEntry(NamedTuple):
    """One operation on the tape.

    Attributes:
        node: the id of the node.
        op: its operation.
        inputs: the ids of its inputs.
        saved: the nodes whose values the backward pass reads here; constants are part of the program and not saved.
        bytes: the memory of those nodes among `saved` that no earlier entry saves.
    """

    node: int
    op: Op
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    bytes: int


class CheckpointingCost(NamedTuple):
    """The cost of activation checkpointing with a checkpoint after every `every` operations.

    The names of the fields are keys of the JSON document.

    Only values that a later segment reads are stored. The backward pass recomputes a segment before it enters it; the
    last segment is still in memory.

    Attributes:
        every: operations per segment.
        stretches: the number of segments.
        kept: bytes of the values that are stored throughout.
        peak: peak memory in bytes: the stored values and the largest segment.
        recomputed: the number of operations that are evaluated twice.
    """

    every: int
    stretches: int
    kept: int
    peak: int
    recomputed: int


class TapeRecord:
    """The values that the forward pass saves for the backward pass, and their memory.

    Attributes:
        trace: both passes at the point.
        entries: the operations on the tape.
        bytes: memory that the backward pass needs, inputs included, each value once.
        computed: bytes of the values of all operations.
        peak_without_checkpoints: peak memory without checkpoints: the operations whose values the backward pass needs.
        checkpoints: the cost of checkpointing for segments of 2, 4, 8, … operations, where it saves memory.
    """

    def __init__(self, trace: Trace) -> None:
        memory = [BYTES_PER_NUMBER * math.prod(array_shape(value)) for value in trace.values]
        self.trace, self.entries = trace, [*_entries(trace, memory)]
        saved = {j for entry in self.entries for j in entry.saved}
        operations = [entry.node for entry in self.entries]
        self.bytes, self.computed = sum(entry.bytes for entry in self.entries), sum(memory[i] for i in operations)
        self.peak_without_checkpoints = sum(memory[j] for j in saved if trace.tape.nodes[j].op is not None)
        distances = [2**power for power in range(1, max(1, (len(operations) - 1).bit_length()))]
        costs = [_checkpointing_cost(trace, operations, saved, memory, every) for every in distances]
        self.checkpoints = [cost for cost in costs if cost.peak < self.peak_without_checkpoints]


def _entries(trace: Trace, memory: Sequence[int]) -> Iterator[TapeEntry]:
    saved_so_far: set[int] = set()
    tape = trace.tape
    for _, i, op, inputs, _ in trace.forward:
        shapes = tuple(array_shape(trace.values[j]) for j in inputs) if op.is_structural else ()
        positions = _saved_positions(op, len(inputs), tape.active_inputs[i], shapes)
        places = [inputs[position - 1] if position else i for position in positions]
        saved = tuple(dict.fromkeys(j for j in places if not tape.nodes[j].is_constant))
        new = {*saved} - saved_so_far
        saved_so_far |= new
        yield TapeEntry(i, op, inputs, saved, sum(memory[j] for j in new))


@cache
def _saved_positions(
    op: Op, count: int, active: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """Return which values the derivative rule reads for the inputs at `active`: 0 for the output, k + 1 for input k."""
    if op.is_structural:
        structural_rule = op.structural_rule(shapes)
        places = structural_rule.places
        roots = [graph for k in active if (graph := structural_rule.vjp_graphs[k]) is not None]
    else:
        rule = op.derivative_rule(count)
        places = rule.places
        partials = [rule.partials[k] for k in active]
        roots = [node for partial in partials for node in (partial.local, partial.mask) if node is not None]
        if active and op.textbook_slope is not None:
            roots = [as_node(op.textbook_slope(*places))]
    leaves_read = _values_read(roots)
    return tuple(k for k, leaf in enumerate(places) if leaf in leaves_read)


def _values_read(roots: list[Node]) -> set[Node]:
    """Return the nodes of some graphs whose values are read, not only their shapes."""
    tape = Tape(roots)
    read = set(roots)
    for node in reversed(tape.nodes):
        if node in read and node.op is not None:
            read.update(child for k, child in enumerate(node.inputs) if k not in node.op.shape_only_inputs)
    return read


def _checkpointing_cost(
    trace: Trace, operations: list[int], saved: set[int], memory: list[int], every: int
) -> CheckpointingCost:
    segment = {i: position // every for position, i in enumerate(operations)}
    last = segment[operations[-1]]
    crossing = {
        j
        for i in operations
        for j in trace.tape.inputs[i]
        if trace.tape.nodes[j].op is not None and segment[j] < segment[i]
    }
    inside = [0] * (last + 1)
    for i in saved - crossing:
        if i in segment:
            inside[segment[i]] += memory[i]
    stored = sum(memory[i] for i in crossing)
    again = sum(1 for i in operations if segment[i] < last and i not in crossing)
    return CheckpointingCost(every, last + 1, stored, stored + max(inside), again)


class Frame(NamedTuple):
    """A frame around at least two operations that belong together in the text.

    Attributes:
        label: the name of an intermediate or a layer, or a call with its arguments (`f(x)`); both if two groups have
            the same nodes (`a = f(x)`).
        outer: the position of the enclosing frame in the list, which comes before this one; None for an outermost one.
        members: the nodes in this frame but not in an inner one, in topological order. The last one is the value of the
            frame; earlier ones are used only in the frame.
    """

    label: str
    outer: int | None
    members: list[int]


def frames(trace: Trace, shown: Sequence[bool]) -> list[Frame]:
    """Return the frames around those nodes of a graph that are shown, outer frames first."""
    groups = _innermost_groups(trace)
    direct: dict[Group, list[int]] = {}
    for i, group in enumerate(groups):
        if group is not None and shown[i]:
            for around in reversed([*_enclosing_groups(group, direct)]):
                direct[around] = []
            direct[group].append(i)
    nodes = trace.tape.nodes
    counts = Counter({group: sum(nodes[i].op is not None for i in members) for group, members in direct.items()})
    for group in reversed(direct):
        if group.parent is not None:
            counts[group.parent] += counts[group]
    named_frames: list[Frame] = []
    places: dict[Group | None, int | None] = {None: None}
    for group, members in direct.items():
        outer = places[group.parent]
        places[group] = outer
        if counts[group] > 1 and group.parent is not None and counts[group] == counts[group.parent]:
            assert outer is not None
            label = f"{named_frames[outer].label} = {trace.naming.call_label(group)}"
            named_frames[outer] = named_frames[outer]._replace(label=label)
        elif counts[group] > 1:
            places[group] = len(named_frames)
            named_frames.append(Frame(trace.naming.call_label(group), outer, []))
        position = places[group]
        if position is not None:
            named_frames[position].members.extend(members)
    return [frame._replace(members=sorted(frame.members)) for frame in named_frames]


class FoldedFrames(NamedTuple):
    """Frames of which some are folded into single nodes.

    Attributes:
        frames: the frames that stay open. In these, the last node of a folded frame represents it.
        folds: the folded frames, with all their nodes at any depth.
    """

    frames: list[Frame]
    folds: list[Frame]


def fold_frames(frames: Sequence[Frame], output: int) -> FoldedFrames:
    """Fold all frames except for those that contain the output."""
    enclosing: list[int] = []  # the positions of the frames that contain the output, inner ones first
    position = next((k for k, frame in enumerate(frames) if output in frame.members), None)
    while position is not None:
        enclosing.append(position)
        position = frames[position].outer
    renumbered: dict[int | None, int | None] = {None: None}
    renumbered |= {k: position for position, k in enumerate(reversed(enclosing))}
    open_frames = [
        frames[k]._replace(outer=renumbered[frames[k].outer], members=[*frames[k].members]) for k in reversed(enclosing)
    ]
    folds: list[Frame] = []
    fold_of: dict[int, Frame] = {}
    for k, frame in enumerate(frames):
        if k in renumbered:
            continue
        if frame.outer in renumbered:
            fold_of[k] = frame._replace(outer=renumbered[frame.outer], members=[])
            folds.append(fold_of[k])
        elif frame.outer is not None:
            fold_of[k] = fold_of[frame.outer]
        fold_of[k].members.extend(frame.members)
    for folded in folds:
        folded.members.sort()
        if folded.outer is not None:
            open_frames[folded.outer].members.append(folded.members[-1])
    return FoldedFrames(open_frames, folds)


def frame_derivatives(trace: Trace, members: Iterable[int]) -> dict[int, float | None]:
    """Return the derivative of the value of a frame with respect to each node outside that the frame uses.

    It is the sum over all paths between the two of the products of local derivatives.

    Args:
        members: all nodes in the frame, at any depth.

    Returns:
        The derivative by node; None for a node that takes no gradient, and for all nodes if there are arrays.
    """
    downwards = sorted(members, reverse=True)
    inside, entering = set(downwards), set[int]()
    slopes = {downwards[0]: 1.0}
    for i in downwards:
        entering.update(j for j in trace.tape.inputs[i] if j not in inside)
        if i in slopes and trace.is_scalar:
            for contribution in trace.contributions[i]:
                if not contribution.is_structural_zero:
                    slopes[contribution.to] = slopes.get(contribution.to, 0.0) + contribution.local * slopes[i]
    return {j: slopes.get(j, 0.0) if trace.is_scalar and trace.tape.is_active[j] else None for j in sorted(entering)}


def _innermost_groups(trace: Trace) -> list[Group | None]:
    """Return the innermost group of every node. A constant without a group joins the common group of its users."""
    source = trace.expression.source
    if source is None:
        return [None] * len(trace.tape)
    nodes = trace.tape.nodes
    innermost = [None if node.is_input else source.groups.get(node) for node in nodes]
    for i, node in enumerate(nodes):
        if node.is_constant and innermost[i] is None and len(groups := {innermost[j] for j in trace.users[i]}) == 1:
            (innermost[i],) = groups
    return innermost


def _enclosing_groups(group: Group | None, known: Iterable[Group]) -> Iterator[Group]:
    """Yield a group and the groups around it, up to the first that is known."""
    while group is not None and group not in known:
        yield group
        group = group.parent
