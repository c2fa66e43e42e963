"""Nothing in the drawing covers anything else, at any step: texts, lines, boxes, borders of frames, the explanation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import measure, opened, press, resize, wait_until
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


@pytest.mark.sampled
@pytest.mark.parametrize("name", FORMULAS)
def test_nothing_covers_anything_at_any_step(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in sizes(name == ALL_WINDOWS, [*FORMULAS].index(name))[:2]:
        resize(page, width, height)
        opened(page, FORMULAS[name])
        for is_folded in (True, False) if page.evaluate("graph.parts.canFold") else (True,):
            page.evaluate("fold", is_folded)
            assert measure(page, FLAWS, amount(6, 6, 12)) == [], (width, is_folded)


def test_numbers_beside_a_line_at_the_margin_are_not_cut(page: Page) -> None:
    opened(page, PAGES["xy"])
    script = """(y) => {
      const line = lineShape([{ x: 0, y }, { x: 300, y }], false);
      return new LabelPlaces([], [line], 300, 300).along(line, spaceOf(60, false)) !== undefined;
    }"""
    assert [page.evaluate(script, y) for y in (5, 150, 295)] == [False, True, False]


COLUMNS = {
    "mlp": PAGES["mlp"],
    **{name: FORMULAS[name] for name in ("options", "xor", "mazur", "recurrent", "kinks", "softmax", "long")},
    "norm": ["norm(W @ x + b)", "--W=[[1,2],[3,4]]", "--x=[1,-1]", "--b=[0.5,2]"],
    "gelu": ["gelu(a*x + b)*gelu(b*x - a)", "--a=0.3", "--b=0.7", "--x=1.1"],
    "logsumexp": ["logsumexp([a*x, b*x, c - x]) - a*x", "--a=0.3", "--b=0.7", "--c=2", "--x=1.1"],
    "nested": ["f(u) = u*sin(u); g(u, v) = f(u*v) + f(u + v); g(f(x), y)*g(y, x)", "--x=0.4", "--y=1.3"],
    "crossing": ["sin(y)*x + cos(x)*y", "--x=0.4", "--y=1.3"],
}
# In columns of several widths and details: lines of two sources in one stretch, and lines through boxes of others.
SHARED = """() => {
  const flaws = new Set();
  const stretchesOf = (points) => points.slice(1).map((b, k) => [points[k], b]);
  const range = (a, b, at) => [Math.min(a[at], b[at]), Math.max(a[at], b[at])];
  const common = ([a, b], [c, d]) => Math.min(b, d) - Math.max(a, c);
  const isStretch = ([a, b], at, other) => Math.abs(a[at] - b[at]) < 0.01 && Math.abs(a[other] - b[other]) > 1;
  for (const width of [280, 360, 480]) for (const detail of ["brief", "bare"]) for (const parts of [true, false]) {
    if (graph.parts.canFold) fold(parts);
    const { shown } = graph.parts;
    const { hasNumbers } = DETAILS[detail];
    const joined = new Bundles(shown, (arrow, members) => labelOf(arrow, members, true), hasNumbers);
    const sizes = joined.sizes(new Map(shown.boxes.map((box) => [box.id, sizeOf(box, detail, true)])), width);
    for (const { routes, arrows, places, boxes } of [inColumn(joined, sizes, width, !hasNumbers)]) {
      const lines = routes.map((points, k) => ({ ...arrows[k], stretches: stretchesOf(points) }));
      for (const [k, line] of lines.entries()) {
        for (const [a, b] of line.stretches) {
          for (const { id } of boxes) {
            const { x, y, width: w, height: h } = coreOf(places.get(id));
            const [across, down] = [["x", w], ["y", h]].map(([at, size]) => {
              const middle = at === "x" ? x : y;
              return common(range(a, b, at), [middle - size / 2, middle + size / 2]);
            });
            const isThrough = down > 0 && across >= 0 && (across > 0 || down > 1);
            if (id !== line.from && id !== line.to && isThrough) flaws.add(`${line.from} to ${line.to} behind ${id}`);
          }
        }
        for (const other of lines.slice(k + 1)) {
          if (other.from === line.from) continue;
          const pairs = line.stretches.flatMap((one) => other.stretches.map((two) => [one, two]));
          for (const [one, two] of pairs) for (const [at, along] of [["x", "y"], ["y", "x"]]) {
            if (!isStretch(one, at, along) || !isStretch(two, at, along)) continue;
            const isNear = Math.abs(one[0][at] - two[0][at]) < 3;
            const isShared = isNear && common(range(...one, along), range(...two, along)) > 1;
            if (isShared) flaws.add(`${line.from} to ${line.to} on ${other.from} to ${other.to}`);
          }
        }
      }
    }
  }
  return [...flaws];
}"""


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", COLUMNS)
def test_in_a_column_lines_from_two_boxes_share_no_stretch(page: Page, name: str) -> None:
    resize(page, 390, 844)
    opened(page, COLUMNS[name])
    assert page.evaluate(SHARED) == []


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "crossing"])
def test_on_a_phone_the_end_is_seen_without_scrolling(page: Page, name: str) -> None:
    """The closing remark and the node of the last step are in sight, and nothing scrolls sideways."""
    page.emulate_media(reduced_motion="reduce")
    resize(page, 390, 844)
    opened(page, COLUMNS[name])
    page.evaluate("go(playback.length)")
    script = """() => {
      const placeOf = (element) => element.getBoundingClientRect();
      const isBetween = (a, b, from, to) => a[from] >= b[from] - 1 && a[to] <= b[to] + 1;
      const isWithin = (a, b) => isBetween(a, b, "top", "bottom") && isBetween(a, b, "left", "right");
      const node = graph.element(playback.focus)?.querySelector(".outline");
      const { scrollWidth, clientWidth } = byId("typeset");
      return [
        byId("remark").textContent.length > 0,
        isWithin(placeOf(byId("remark")), placeOf(document.querySelector(".scroller"))),
        !node || isWithin(placeOf(node), placeOf(graph.stage)),
        scrollWidth <= clientWidth,
        document.documentElement.scrollWidth,
      ];
    }"""
    assert measure(page, script) == [True, True, True, True, 390]


def test_the_map_marks_the_part_of_the_drawing_that_is_seen(page: Page) -> None:
    opened(page, FORMULAS["options"])
    script = """() => {
      const { stage, svg, size } = graph;
      graph.zoom(2);
      stage.scrollTo(0.2 * stage.scrollWidth, 0.1 * stage.scrollHeight);
      graph.overview.refresh();
      const [seen, all] = [stage, svg].map((element) => element.getBoundingClientRect());
      const mark = graph.overview.seen;
      const places = [["x", "left", "width", "clientWidth"], ["y", "top", "height", "clientHeight"]];
      return places.map(([at, side, length, room]) => [
        Number(mark.getAttribute(at)) / size[length] - (seen[side] - all[side]) / all[length],
        Number(mark.getAttribute(length)) / size[length] - stage[room] / all[length],
      ]);
    }"""
    for differences in measure(page, script):
        assert differences == pytest.approx([0, 0], abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["options", "kinks"])
def test_the_map_covers_no_node(page: Page, name: str) -> None:
    opened(page, FORMULAS[name])
    page.evaluate("fold", False)
    script = """([across, down]) => {
      const { stage } = graph;
      graph.zoom(1.8);
      const { scrollWidth, clientWidth, scrollHeight, clientHeight } = stage;
      stage.scrollTo(across * (scrollWidth - clientWidth), down * (scrollHeight - clientHeight));
      return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
        const own = byId("map").getBoundingClientRect();
        const nodes = Array.from(stage.querySelectorAll(".outline"), (node) => node.getBoundingClientRect());
        const meet = (a, b, from, to) => a[from] < b[to] && b[from] < a[to];
        done(nodes.some((node) => meet(node, own, "left", "right") && meet(node, own, "top", "bottom")));
      })));
    }"""
    places = [(across / 4, down / 4) for across in range(5) for down in range(5)]
    assert [place for place in places if page.evaluate(script, place)] == []


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["WWWWWWWWWW", "iiiiiiiiii", "損失関数重み損失", "ΩΩΨΨΦΦΣΣ", "été_ÅÅÅÅ"])
def test_labels_of_wide_letters_stay_in_their_places(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    words = [
        f"{name}1 = {name}*x + sin({name}); f{name}(u) = u*cos(u); f{name}({name}1)*{name}",
        f"--{name}=0.5",
        "--x=2",
    ]
    for width, height in [(1280, 800), (390, 844)]:
        resize(page, width, height)
        opened(page, words)
        for is_folded in (True, False):
            page.evaluate("fold", is_folded)
            assert measure(page, FLAWS, 2) == [], (width, is_folded)


GAUSS = ["exp(-(x - mu)^2/(2*sigma^2))/(sigma*sqrt(2*pi))", "--x=1.2", "--mu=0.4", "--sigma=0.7"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [FORMULAS["options"], GAUSS, PAGES["softmax"], ["-x", "--x=1.5"]],
    ids=["options", "gauss", "softmax", "one operation"],
)
def test_on_a_desktop_the_longest_sentences_need_no_scrolling(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    script = """() => [1, 2, playback.length].map((step) => {
      go(Math.min(record.forward.length + step, playback.length));
      return byId("explanation").scrollHeight - byId("explanation").clientHeight;
    })"""
    assert max(measure(page, script)) <= 1


def test_a_drawing_in_bands_has_few_lines_between_them(page: Page) -> None:
    """More of them cannot be followed, so that parts are folded instead."""
    resize(page, 1920, 1080)
    values = {"w": 0.5, "u": 0.8, "b": 0.1, "h0": 0, "x1": 1, "x2": -0.5, "x3": 2, "t": 0.3}
    text = "step(h, x) = tanh(w*x + u*h + b); h1 = step(h0, x1); h2 = step(h1, x2); h3 = step(h2, x3); (h3 - t)^2"
    opened(page, [text, *(f"--{name}={value}" for name, value in values.items())])
    script = """() => {
      const ways = new Arrangements(graph.parts.shown, sizeOf, labelOf);
      const { routes } = ways.best(graph.stage.clientWidth, graph.stage.clientHeight);
      const turning = routes.filter((points) => points.filter(({ isTurn }) => isTurn).length > 2);
      return new Set(turning.map((points) => `${points[0].x} ${points[0].y}`)).size;
    }"""
    assert measure(page, script) <= 3


def test_lines_do_not_go_far_aside_to_their_numbers(page: Page) -> None:
    """Between neighbouring layers, a line stays between its ends."""
    opened(page, ["h = relu(w*x + b); where(h > 1, h^2, max(h, x)) - min(w, b)", "--w=1.5", "--x=2", "--b=-1"])
    script = """() => Math.max(...[...graph.svg.querySelectorAll(".edge")].map((edge) => {
      const points = edge.querySelector("path:not(.reach):not(.head)").track.every(4);
      const [first, last] = [points[0], points.at(-1)];
      if (last.y - first.y > 90) return 0;
      return Math.max(...points.map(({ x }) => Math.max(x - Math.max(first.x, last.x), Math.min(first.x, last.x) - x)));
    }))"""
    assert measure(page, script) <= 25


def test_the_mark_of_the_node_ends_above_the_words_about_it(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, FORMULAS["options"])
    script = """() => {
      go(playback.length);
      const [panel, words] = [byId("explanation"), document.querySelector("#status p")];
      const room = words.getBoundingClientRect().top - panel.getBoundingClientRect().top;
      return [parseFloat(getComputedStyle(panel).backgroundSize.split(" ")[1]), room];
    }"""
    mark, room = measure(page, script)
    assert 0 < mark <= room


TYPESET = r"""() => {
  byId("table").open = true;
  table.refresh();
  const isTyped = (text) => text.parentElement.closest(".keyboard, #formula, script, style, title, mark, code");
  const flaws = new Set();
  const look = (when) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { data } = walker.currentNode;
      if (/[\u2068\u2069]|\^/.test(data) && !isTyped(walker.currentNode)) flaws.add(`${when}: ${data}`);
    }
  };
  for (let position = 0; position <= playback.length; position++) {
    go(position);
    look(position);
  }
  for (const name of Object.keys(levels)) {
    byId("level").value = name;
    beginQuiz();
    look(name);
    const { question } = playback.quiz;
    const wrong = question?.choices?.find((choice) => !question.isRight(choice)) ?? "77e77";
    for (const _ of question ? [1, 2, 3] : []) {
      showStatus(playback.quiz.check(wrong).verdict);
      look(`hint of ${name}`);
    }
  }
  return [...flaws];
}"""


@pytest.mark.parametrize(
    "words",
    [
        ["sqrt(x^2)/(1 + abs(z)^theta_1) - max(x^2, z)", "--x=0", "--z=2", "--theta_1=1.5"],
        pytest.param(FORMULAS["options"], marks=pytest.mark.slow),
        pytest.param(FORMULAS["arrays"], marks=pytest.mark.slow),
        pytest.param(["(x - 1)^(y - 2)^2 + 2^-x + x^-2", "--x=3", "--y=2.5"], marks=pytest.mark.slow),
    ],
    ids=["roots", "options", "arrays", "towers"],
)
def test_no_power_is_shown_as_it_is_typed(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    assert page.evaluate(TYPESET) == []


def test_formulas_in_sentences_are_read_and_copied_as_they_are_typed(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, ["abs(z)^theta_1/2 - 3*x", "--x=2", "--z=2", "--theta_1=1.5"])
    page.evaluate("go(record.forward.length)")
    sentence = "abs(z)^theta_1/2 - 3*x = 1.41421 - 6 = -4.58579"
    status = page.get_by_role("status")
    assert status.inner_text() == sentence
    page.evaluate("getSelection().selectAllChildren(byId('status'))")
    assert page.evaluate("getSelection().toString()").strip() == sentence
    assert status.locator(".sup").inner_text() == "theta_1"
    assert sentence in status.aria_snapshot()
    assert page.get_by_label("theta_1", exact=True).input_value() == "1.5"


SHOWN = r"""() => {
  const shown = new Set();
  const look = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { parentElement, data } = walker.currentNode;
      if (!parentElement.closest(".keyboard, title")) shown.add(data);
    }
  };
  byId("table").open = true;
  table.refresh();
  for (let position = 0; position <= playback.length; position++) {
    go(position);
    [graph.svg, ...["explanation", "details", "table", "result"].map(byId)].forEach(look);
  }
  return [...shown];
}"""


@pytest.mark.parametrize(
    "words",
    [
        ["(a - b)^2/(c - 1) - exp(-a*b)*1e-7", "--a=-1.5", "--b=2e-9", "--c=-3"],
        pytest.param(["sum(tanh(W @ x)^-2)", "--W=[[1,-2],[-0.5,1]]", "--x=[-1,-3]"], marks=pytest.mark.slow),
        pytest.param(["log(x) + 1/y", "--x=0", "--y=-0.0"], marks=pytest.mark.slow),
    ],
    ids=["scalars", "arrays", "infinite"],
)
def test_minus_signs_are_no_hyphens(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    hyphens = [text for text in page.evaluate(SHOWN) if re.search(r"-(\d|\.|inf)", text)]
    assert hyphens == []


# The numbers of an element that do not stand on one line.
BROKEN = r"""(element) => {
  const broken = [];
  const texts = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode);
  const bottomAt = (place) => {
    let at = place;
    const node = texts.find(({ data }) => at < data.length || ((at -= data.length), false));
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return range.getBoundingClientRect().bottom;
  };
  for (const { index, 0: number } of element.textContent.matchAll(/\d[\d.]*e[-+]\d+/g))
    if (Math.abs(bottomAt(index) - bottomAt(index + number.length - 1)) > 9) broken.push(number);
  return broken;
}"""


def test_no_line_ends_within_a_number(page: Page) -> None:
    opened(page, ["exp(x)^20*1e-200/(y + 1e-300)", "--x=12.3456789", "--y=0"])
    broken_at_steps = f"""() => Array.from({{ length: playback.length + 1 }}, (_, position) => {{
      go(position);
      return ({BROKEN})(byId("explanation"));
    }}).flat()"""
    for width in range(320, 420, 10):
        resize(page, width, 844)
        assert page.evaluate(broken_at_steps) == [], width


def test_names_with_signs_are_no_formulas(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    names = ["my-col", "x^2", "a*b", "2theta", "{b}", "m~1"]
    formula = " + ".join(f"{k}*`{name}`^3*`my-col`" for k, name in enumerate(names, 2))
    opened(page, [formula, *(w for name in names for w in ("--set", f"`{name}`=2"))])
    shown = page.evaluate(SHOWN)
    title = page.locator("#typeset").evaluate("(element) => element.textContent")
    for name in names:
        assert name in shown
        assert name in title
    assert "col" not in shown


def test_words_joined_by_lines_are_one_name(page: Page) -> None:
    opened(
        page,
        ["learning_rate*x_max + theta_1*rate_2 + y₁", *(f"--{n}=2" for n in ("learning_rate", "x_max"))]
        + [f"--{n}=3" for n in ("theta_1", "rate_2", "y₁")],
    )
    indices = page.evaluate('[...document.querySelectorAll("#details .sub, #panels .sub")].map((e) => e.innerText)')
    shown = page.evaluate(SHOWN)
    assert "learning_rate" in shown
    assert {"max", "1", "2"} <= {*shown}, indices


def test_letters_from_right_to_left_do_not_turn_what_follows(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, ["2*שלום^2/x + نص*3", "--שלום=3", "--x=4", "--نص=-1"])
    script = r"""() => {
      const isIn = (element) => element.closest("bdi, .bdi, mi, mtext");
      const turned = [];
      for (let position = 0; position <= playback.length; position++) {
        go(position);
        const places = [graph.svg, byId("explanation"), byId("details"), byId("formula")];
        for (const place of places) {
          const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const { parentElement, data } = walker.currentNode;
            if (/[\u0590-\u06ff]/.test(data) && /[\d/=×]/.test(place.textContent) && !isIn(parentElement)
              && !parentElement.closest("title, desc, .keyboard")) turned.push(data);
          }
        }
      }
      return [...new Set(turned)];
    }"""
    assert page.evaluate(script) == []


def test_elements_of_arrays_are_names_with_an_index(page: Page) -> None:
    opened(page, ["sum(W*`a-b`)", "--W=[1, 2]", "--set", "`a-b`=3"])
    press(page, "Scalars")
    wait_until(page, "location.hash.includes('scalars')")
    assert page.evaluate("[...LITERAL_NAMES]") == ["a-b"]
