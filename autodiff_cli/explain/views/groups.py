"""The parts of a graph that the text gives a name, and how each as a whole depends on what goes into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from autodiff_cli.explain.record import Trace
from autodiff_cli.language.source import Group


class Frame(NamedTuple):
    """A group with at least two nodes of the graph.

    Attributes:
        label: the name of an intermediate or a layer, a call with what it was given (`f(x)`); where two groups have the
            same nodes, both (`a = f(x)`).
        outer: the position of the frame in which this one stands, which comes before; None for an outermost one.
        members: the nodes that stand in this frame and in none within it, in topological order. All nodes in a frame
            serve the last one alone, which is its value.
    """

    label: str
    outer: int | None
    members: list[int]


def frames(trace: Trace, shown: Sequence[bool]) -> list[Frame]:
    """The frames around those operations and constants of a graph that are shown, outer ones first."""
    groups = _groups(trace)
    direct: dict[Group, list[int]] = {}
    for i, group in enumerate(groups):
        if group is not None and shown[i]:
            for around in reversed([*_outwards(group, direct)]):
                direct[around] = []
            direct[group].append(i)
    counts = Counter({group: len(members) for group, members in direct.items()})
    for group in reversed(direct):
        if group.outer is not None:
            counts[group.outer] += counts[group]
    found: list[Frame] = []
    places: dict[Group | None, int | None] = {None: None}
    for group, members in direct.items():
        outer = places[group.outer]
        places[group] = outer
        if counts[group] > 1 and group.outer is not None and counts[group] == counts[group.outer]:
            assert outer is not None
            found[outer] = found[outer]._replace(label=f"{found[outer].label} = {_label(trace, group)}")
        elif counts[group] > 1:
            places[group] = len(found)
            found.append(Frame(_label(trace, group), outer, []))
        place = places[group]
        if place is not None:
            found[place].members.extend(members)
    return [frame._replace(members=sorted(frame.members)) for frame in found]


class Folded(NamedTuple):
    """Frames with some of them folded: what is left, and of each folded frame all nodes at any depth.

    In the frames that are left, the last node of a folded one stands for it.
    """

    frames: list[Frame]
    folds: list[Frame]


def fold(frames: Sequence[Frame], output: int) -> Folded:
    """Fold all frames but those that hold the output."""
    around: list[int] = []  # the positions of frames that hold the output, inner ones first
    place = next((k for k, frame in enumerate(frames) if output in frame.members), None)
    while place is not None:
        around.append(place)
        place = frames[place].outer
    left: dict[int | None, int | None] = {None: None}
    left |= {k: place for place, k in enumerate(reversed(around))}
    kept = [frames[k]._replace(outer=left[frames[k].outer], members=[*frames[k].members]) for k in reversed(around)]
    folds: list[Frame] = []
    fold_of: dict[int, Frame] = {}
    for k, frame in enumerate(frames):
        if k in left:
            continue
        if frame.outer in left:
            fold_of[k] = frame._replace(outer=left[frame.outer], members=[])
            folds.append(fold_of[k])
        elif frame.outer is not None:
            fold_of[k] = fold_of[frame.outer]
        fold_of[k].members.extend(frame.members)
    for whole in folds:
        whole.members.sort()
        if whole.outer is not None:
            kept[whole.outer].members.append(whole.members[-1])
    return Folded(kept, folds)


def rates(trace: Trace, members: Iterable[int]) -> dict[int, float | None]:
    """How fast the value of a frame changes with each node outside that goes into it: the products of the local
    derivatives along all paths between the two, summed.

    Args:
        members: all nodes in the frame, at any depth.

    Returns:
        By node; None for a node that takes no gradient, and for all nodes if there are arrays.
    """
    downwards = sorted(members, reverse=True)
    inside, entering = set(downwards), set[int]()
    slopes = {downwards[0]: 1.0}
    for i in downwards:
        entering.update(j for j in trace.tape.inputs[i] if j not in inside)
        if i in slopes and trace.is_scalar:
            for given in trace.handed[i]:
                if not given.is_nothing:
                    slopes[given.to] = slopes.get(given.to, 0.0) + given.local * slopes[i]
    has_rate = trace.is_scalar
    return {j: slopes.get(j, 0.0) if has_rate and trace.tape.reached[j] else None for j in sorted(entering)}


def _groups(trace: Trace) -> list[Group | None]:
    """The innermost group of every node. A constant without a group belongs to that of its users, if they have one."""
    source = trace.expression.source
    if source is None:
        return [None] * len(trace.tape)
    nodes = trace.tape.nodes
    found = [None if node.is_input else source.group(node) for node in nodes]
    users: dict[int, set[Group | None]] = {
        i: set() for i, node in enumerate(nodes) if node.is_constant and found[i] is None
    }
    for i, inputs in enumerate(trace.tape.inputs):
        for j in inputs:
            if j in users:
                users[j].add(found[i])
    for i, groups in users.items():
        if len(groups) == 1:
            (found[i],) = groups
    return found


def _outwards(group: Group | None, known: Iterable[Group]) -> Iterator[Group]:
    """A group and those around it, up to the first that is known."""
    while group is not None and group not in known:
        yield group
        group = group.outer


def _label(trace: Trace, group: Group) -> str:
    """What to call a group."""
    return trace.naming.call(group)
