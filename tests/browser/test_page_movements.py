"""What moves in the drawing at each step is what the step contributes, and nothing else, folded or not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser.support import opened, resize
from tests.each import amount

if TYPE_CHECKING:
    from playwright.sync_api import Page

CALL = (
    "d1 = (log(S/K) + (r + sigma^2/2)*T)/(sigma*sqrt(T)); d2 = d1 - sigma*sqrt(T); "
    "N(x) = (1 + erf(x/sqrt(2)))/2; 2*S*N(d1) - K*exp(-r*T)*N(d2)"
)
NETWORK = (
    "n(a, b) = v1*tanh(w11*a + w12*b + b1) + v2*tanh(w21*a + w22*b + b2) + c; "
    "(n(0, 0) - 0)^2 + (n(0, 1) - 1)^2 + (n(1, 0) - 1)^2 + (n(1, 1) - 0)^2"
)


def drawn(seed: int) -> tuple[str, dict[str, float | str]]:
    """Return a formula with several definitions at random, whose nodes have several users, and its point."""
    chance = random.Random(seed)
    names = ["x", "y", "z"]

    def part(depth: int) -> str:
        form = chance.choice(["{} + {}", "{}*{}", "{} - 3*{}", "tanh({})", "sin({})", "max({}, {})", "{}/(2+cos({}))"])
        return f"({form.format(*(part(depth - 1) for _ in range(form.count('{'))))})" if depth else chance.choice(names)

    lines = []
    for name in "abc":
        lines.append(f"{name} = {part(2)}")
        names.append(name)
    return f"{'; '.join(lines)}; {part(3)} + a*b*c", {name: chance.uniform(-2, 2) for name in "xyz"}


FORMULAS: list[tuple[str, dict[str, float | str]]] = [
    ("x*y + sin(x)", {"x": 2, "y": 3}),
    ("x*x*x - x", {"x": 1.5}),
    ("(relu(x) + 1)*y + max(x, y, z)", {"x": -1, "y": 2, "z": 3}),
    ("where(x > 0, x^2, log(y)) + 3*x", {"x": 2, "y": 3}),
    ("f(t) = t*t + t; f(x)*f(y) + f(x)", {"x": 2, "y": 3}),
    ("h = tanh(w*x + b); h2 = tanh(h*h + b); (h2 - y)^2", {"w": 0.5, "x": 2, "b": 0.1, "y": 1}),
    ("p = softmax(W @ x + b); -log(p[0])", {"W": "[[1, -1], [0, 2]]", "x": "[1, 0.5]", "b": "[0, 1]"}),
    ("+".join(f"x{i}*sin(x{i + 1})" for i in range(18)), {f"x{i}": (i + 1) / 4 for i in range(19)}),
    drawn(1),
    (CALL, {"S": 100, "K": 95, "r": 0.02, "sigma": 0.3, "T": 0.5}),
    (NETWORK, {n: k / 7 for k, n in enumerate(["v1", "v2", "w11", "w12", "w21", "w22", "b1", "b2", "c"], 1)}),
]

# Of steps the box of every node, whether its own node is a box by itself, the edges that stand out, the texts that
# move, and whether these begin at the inputs.
STEPS = """([isOpen, every]) => {
  fold(!isOpen);
  const steps = [];
  const placeOf = (element) => {
    const { e, f } = element.transform.baseVal.consolidate().matrix;
    return { x: e, y: f };
  };
  const away = (at, ends) => Math.min(...ends.map(({ x, y }) => Math.hypot(at.x - x, at.y - y)));
  const isAtInputs = (moving, edges) => {
    const paths = edges.map((edge) => edge.querySelector("path"));
    const [inputs, nodes] = [0, 1].map((k) => paths.map((path) => path.getPointAtLength(k * path.getTotalLength())));
    const farther = (element) => away(placeOf(element), nodes) - away(placeOf(element), inputs);
    return moving.reduce((sum, element) => sum + farther(element), 0) > 0;
  };
  for (let position = 1; position <= playback.length; position += every) {
    go(position, () => 1e7);
    const moving = [...document.querySelectorAll(".traveller")];
    const edges = [...document.querySelectorAll(".edge.flowing, .edge.returning")];
    steps.push({
      isAtInputs: isAtInputs(moving, edges),
      isReturning: [...moving, ...edges].some((element) => element.classList.contains("returning")),
      isFlowing: [...moving, ...edges].some((element) => element.classList.contains("flowing")),
      box: record.nodes.map((_, i) => graph.boxOf(i)),
      isInSight: graph.isInSight(playback.current),
      edges: edges.map(({dataset}) => [Number(dataset.from), Number(dataset.to)]),
      texts: moving.map(({ textContent }) => textContent),
      status: document.querySelector("#status p").textContent,
      sentences: [...document.querySelectorAll("#status li")].map((item) => item.textContent),
    });
  }
  return steps;
}"""


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "point"), FORMULAS, ids=range(len(FORMULAS)))
def test_each_step_moves_its_own_numbers_only(page: Page, text: str, point: dict[str, Any]) -> None:
    document = opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
    nodes = document["nodes"]
    forward = [(step["node"], set(step["inputs"]), None) for step in document["forward"]]
    every_step = [*forward, *((step["node"], _receivers(step), step) for step in document["backward"])]
    every = 1 + len(every_step) // amount(5, 5, 9)  # of many steps some
    for is_open in (False, True):
        steps = page.evaluate(STEPS, [is_open, every])
        for (i, inputs, back), step in zip(every_step[::every], steps, strict=True):
            box = step["box"]
            assert step["isInSight"], (text, is_open, i)
            wanted = {(box[j], box[i]) for j in inputs if box[j] != box[i]}
            assert {tuple(edge) for edge in step["edges"]} == wanted, (text, is_open, i)
            assert len(step["texts"]) == min(len(step["edges"]), 24)
            if step["texts"]:
                ways = (step["isAtInputs"], step["isFlowing"], step["isReturning"])
                assert ways == ((True, True, False) if back is None else (False, False, True)), (text, is_open, i)
            moved = [brief(nodes[j]["value"]) for j in nodes[i]["inputs"]] if back is None else list(products(back))
            if all(isinstance(nodes[j]["value"], float | int) for j in {i, *nodes[i]["inputs"]}) and len(moved) <= 24:
                assert sorted(step["texts"]) == sorted(moved), (text, is_open, i)
            if back is None:
                continue
            assert step["status"].startswith(f"{nodes[i]['label']}, adjoint ")
            heads = [nodes[term["to"]]["label"] for term in back["contributions"]]
            lines = step["sentences"] or [f"{head}: " for head in heads]  # there are none if no adjoint arrives
            assert all(line.startswith(f"{head}: ") for head, line in zip(heads, lines, strict=True))


def brief(x: Any) -> str:
    """A number as a drawing has it."""
    return f"{x:.6g}".replace("-", "−") if isinstance(x, float | int) else str(x)


def products(step: dict[str, Any]) -> Iterator[str]:
    """What a step moves back along each edge: local derivative × adjoint = amount."""
    adjoint = brief(step["adjoint"])
    for term in step["contributions"]:
        if np.any(term["amount"]):
            factor = f"({adjoint})" if adjoint.startswith("−") else adjoint
            yield f"{brief(term['local'])} × {factor} = {brief(term['amount'])}"


def _receivers(step: dict[str, Any]) -> set[int]:
    """The inputs to which a step contributes. At these points only structural zeros are 0."""
    return {term["to"] for term in step["contributions"] if np.any(term["amount"])}


# The numbers that cover one another, or that the explanation covers, at moments of every step. Frames are made when
# they are asked for.
COVERED = """() => {
  let frame = null;
  const asked = window.requestAnimationFrame;
  window.requestAnimationFrame = (callback) => { frame = callback; return 0; };
  const covered = [];
  for (let position = 1; position <= playback.length; position++) {
    go(position, () => 1000);
    const start = performance.now();
    for (const share of [0, 0.1, 0.25, 0.5, 0.75, 0.9]) {
      if (share) frame?.(start + 1000 * share);
      const shown = document.querySelectorAll(".traveller, .callout");
      const boxes = Array.from(shown, (element) => element.getBoundingClientRect());
      const pairs = boxes.flatMap((a, k) => boxes.slice(k + 1).filter((b) =>
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
      if (pairs.length) covered.push([position, share, pairs.length]);
    }
  }
  window.requestAnimationFrame = asked;
  return covered;
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("(a - b)^2*exp(-k_1*x)/λ", {"a": 2, "b": 3, "k_1": 0.5, "x": 1.5, "λ": 2}),
        (CALL, {"S": 100, "K": 95, "r": 0.02, "sigma": 0.3, "T": 0.5}),
        ("sum(v) + a + b + max(a, b, c, d) + (a + c)*d", {"v": "[1, 2]", "a": 1, "b": 2, "c": 3, "d": 4}),
    ],
    ids=["decay", "call", "sums"],
)
def test_numbers_that_move_do_not_cover_one_another(page: Page, text: str, point: dict[str, Any], width: int) -> None:
    resize(page, width, 800)
    opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
    assert page.evaluate(COVERED) == []
