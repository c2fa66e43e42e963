"""What a step of a gradient method is: a graph, like everything that a backend runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autodiff_cli.graph.node import Node

# The leaves that an `Update` may read, besides what it remembers.
THETA, GRADIENT, RATE, STEP = "theta", "gradient", "rate", "step"


@dataclass(frozen=True, slots=True)
class Update:
    """One step of a gradient method, as graphs for one number among the parameters.

    They read the leaves `theta`, `gradient` (of the mean loss) and what is remembered by its name, which differ from
    number to number, and `rate` and `step` (1 for the first), which do not.

    Attributes:
        theta: the number after the step.
        memory: what is remembered of it after the step, by name; 0 before the first.
    """

    theta: Node
    memory: Mapping[str, Node] = field(default_factory=dict)
