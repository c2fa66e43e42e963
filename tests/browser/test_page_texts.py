"""Nothing in the drawing covers anything else, at any step: texts, lines, boxes, borders of frames, the explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.support import measure, opened, resize
from tests.browser.test_page_layout import ARRAYS, PAGES, XOR, sizes
from tests.browser.test_page_movements import drawn
from tests.each import amount

if TYPE_CHECKING:
    from playwright.sync_api import Page

_MAZUR = [*(f"{letter}{k}" for letter in "tbi" for k in (1, 2)), *(f"w{k}" for k in range(1, 9))]
FORMULAS = {
    "options": [
        "d1 = (log(S/K) + (r + sigma^2/2)*T)/(sigma*sqrt(T)); d2 = d1 - sigma*sqrt(T); "
        "S*normal_cdf(d1) - K*exp(-r*T)*normal_cdf(d2)",
        *["--S=100", "--K=95", "--r=0.03", "--sigma=0.2", "--T=0.5"],
    ],
    "xor": XOR,
    "mazur": [
        "h1 = sigmoid(w1*i1 + w2*i2 + b1); h2 = sigmoid(w3*i1 + w4*i2 + b1); o1 = sigmoid(w5*h1 + w6*h2 + b2); "
        "o2 = sigmoid(w7*h1 + w8*h2 + b2); (t1 - o1)^2/2 + (t2 - o2)^2/2",
        *(f"--{name}={(k + 1) / 20}" for k, name in enumerate(_MAZUR)),
    ],
    "recurrent": [
        "f(h, x) = tanh(w*x + u*h + b); h1 = f(0, x1); h2 = f(h1, x2); (v*h2 - t)^2",
        *(
            f"--{name}={value}"
            for name, value in {"w": 0.5, "u": 0.8, "b": 0.1, "x1": 1, "x2": -1, "v": 1.2, "t": 0.5}.items()
        ),
    ],
    "kinks": ["where(x > 1, x^2, 3*x)*max(x, y, 0) + relu(y) + abs(x - y)", "--x=1", "--y=1"],
    "arrays": ARRAYS,
    "softmax": PAGES["softmax"],
    "long": [
        "+".join(f"a{k}*sin({k + 1}*x + c{k})^2" for k in range(9)),
        *["--x=0.7", *(f"--{letter}{k}={(k + 1) / 7}" for k in range(9) for letter in "ac")],
    ],
    **{
        f"random {seed}": [text, *(f"--{name}={value}" for name, value in point.items())]
        for seed in (2, 5)
        for text, point in [drawn(seed)]
    },
}
# Of many steps, what touches something that it should not.
FLAWS = """(looks) => {
  const flaws = new Set();
  const placeOf = (element) => element.getBoundingClientRect();
  const all = (selector) => [...graph.svg.querySelectorAll(selector)];
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const isNear = ({ left, right, top, bottom }, { x, y }, by) =>
    x > left - by && x < right + by && y > top - by && y < bottom + by;
  const isBetween = (a, b) => a.left > b.left - 1 && a.right < b.right + 1;
  const isWithin = (a, b) => isBetween(a, b) && a.top > b.top - 1 && a.bottom < b.bottom + 1;
  const textPlace = (text) => {
    const { left, right, top, bottom } = placeOf(text);
    const margin = Math.max(2, 0.18 * (bottom - top));
    const node = text.closest("[data-node]");
    return { text, name: text.textContent, node, left, right, top: top + margin, bottom: bottom - margin };
  };
  const sidesOf = (frame) => {
    const { left, right, top, bottom } = placeOf(frame);
    const sides = [{ right: left }, { left: right }, { bottom: top }, { top: bottom }];
    return sides.map((side) => ({ left, right, top, bottom, ...side }));
  };
  const pointsOf = (edge) => {
    const path = edge.querySelector("path");
    const matrix = path.getScreenCTM();
    const count = Math.ceil(path.getTotalLength() / 5);
    return Array.from({ length: count + 1 }, (_, k) => path.getPointAtLength(5 * k).matrixTransform(matrix));
  };
  const look = (position) => {
    go(position);
    const note = (is, flaw) => { if (is) flaws.add(`${position}: ${flaw}`); };
    const outlines = all("[data-node]").map((node) => [node.dataset.node, placeOf(node.querySelector(".outline"))]);
    const boxes = new Map(outlines);
    const bundles = all(".bundle").map(placeOf);
    const texts = all("text").filter((text) => text.textContent.trim() && text.checkVisibility()).map(textPlace);
    const borders = all(".enclosure").flatMap(sidesOf);
    const isOnBorder = (place) => borders.some(({ left, right, top, bottom }) =>
      place.left + 1 < right && left < place.right - 1 && place.top + 1 < bottom && top < place.bottom - 1);
    const explanation = document.querySelector(".callout");
    const callout = explanation && placeOf(explanation);
    for (const edge of all(".edge")) {
      const { from, to } = edge.dataset;
      const name = `edge ${from} to ${to}`;
      const points = pointsOf(edge);
      const crosses = (place, by) => points.some((at) => isNear(place, at, by));
      note(![boxes.get(from), ...bundles].some((box) => isNear(box, points[0], 3)), `${name} begins nowhere`);
      note(!isNear(boxes.get(to), points.at(-1), 3), `${name} ends nowhere`);
      for (const [id, box] of boxes) note(id !== from && id !== to && crosses(box, -1.5), `${name} behind ${id}`);
      for (const place of texts) note(crosses(place, -1), `${place.name} on ${name}`);
      note(callout && crosses(callout, -1), `explanation on ${name}`);
    }
    texts.forEach((place, k) => {
      const { text, name, node } = place;
      const own = node?.dataset.node;
      for (const other of texts.slice(k + 1)) note(meet(place, other), `${name} on ${other.name}`);
      for (const [id, box] of boxes) note(id !== own && meet(place, box), `${name} on box ${id}`);
      note(!isWithin(place, placeOf(graph.svg)), `${name} outside`);
      note(isOnBorder(place), `${name} on a border`);
      const isInBox = node && text.matches(".first, .small") && !node.matches(".constant");
      note(isInBox && !isWithin(place, boxes.get(own)), `${name} leaves its box`);
      const cell = text.matches(".number") && placeOf(text.parentNode.querySelector("rect"));
      note(cell && !isBetween(place, cell), `${name} leaves its cell`);
      note(callout && meet(callout, place), `explanation on ${name}`);
    });
    if (!callout) return;
    note(isOnBorder(callout), "explanation on a border");
    for (const [id, box] of boxes) note(meet(callout, box), `explanation on box ${id}`);
    const [room, controls] = [".drawing", ".controls"].map((name) => placeOf(document.querySelector(name)));
    const { left, right, top } = room;
    note(!isWithin(callout, { left, right, top, bottom: controls.top }), "explanation outside");
  };
  for (let k = 0; k <= looks; k++) look(Math.round((k * playback.length) / looks));
  return [...flaws];
}"""
ALL_WINDOWS = "arrays"  # looked at in every window; each other formula in one


@pytest.mark.parametrize("name", FORMULAS)
def test_nothing_covers_anything_at_any_step(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in sizes(name == ALL_WINDOWS, [*FORMULAS].index(name))[:2]:
        resize(page, width, height)
        opened(page, FORMULAS[name])
        for is_folded in (True, False) if page.evaluate("graph.parts.canFold") else (True,):
            page.evaluate("fold", is_folded)
            assert measure(page, FLAWS, amount(6, 6, 12)) == [], (width, is_folded)


def test_a_shortened_label_is_not_longer_than_it_may_be(page: Page) -> None:
    opened(page, PAGES["xy"])
    lengths = "Array.from({ length: 12 }, (_, k) => [...cut('abcdefghijk', k + 1)].length)"
    assert all(length <= most for most, length in enumerate(page.evaluate(lengths), 1))


def test_numbers_beside_a_line_at_the_margin_are_not_cut(page: Page) -> None:
    opened(page, PAGES["xy"])
    script = """(y) => {
      const line = lineShape([{ x: 0, y }, { x: 300, y }], false);
      return new LabelPlaces([], [line], 300, 300).along(line, spaceOf(60, false)) !== undefined;
    }"""
    assert [page.evaluate(script, y) for y in (5, 150, 295)] == [False, True, False]


def test_in_a_column_lines_from_two_boxes_do_not_turn_at_the_same_height(page: Page) -> None:
    opened(page, PAGES["xy"])
    script = """() => {
      const { isColumn, routes, arrows } = waysOf(graph.parts).best(390, 480, ["brief"]);
      const turns = routes.map((points, k) => {
        const ends = [points[0].x, points.at(-1).x];
        return { ...arrows[k], height: points[1].y, x: ends.sort((a, b) => a - b) };
      });
      const meet = ([a, b], [c, d]) => Math.max(a, c) < Math.min(b, d);
      const isOn = (one, other) => one.from !== other.from && one.height === other.height && meet(one.x, other.x);
      return [isColumn, turns.some((one, k) => turns.slice(k + 1).some((other) => isOn(one, other)))];
    }"""
    assert page.evaluate(script) == [True, False]
