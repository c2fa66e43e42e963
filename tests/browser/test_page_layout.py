"""The drawing opens as a whole, in a size to read, whatever the formula and the window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import in_document, least_text, measure, numbers, opened, press, resize, settle, wait_until
from tests.browser.test_page_movements import FORMULAS as MOVING_FORMULAS
from tests.each import is_exhaustive
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WEIGHTS = {"w1": 1, "w2": -1, "b1": 0.1, "w3": -1, "w4": 1, "b2": 0.2, "v1": 1, "v2": 1, "c": -0.5}
XOR = [
    "n(a, b) = sigmoid(v1*tanh(w1*a + w2*b + b1) + v2*tanh(w3*a + w4*b + b2) + c); "
    "(n(0, 0) - 0)^2 + (n(0, 1) - 1)^2 + (n(1, 0) - 1)^2 + (n(1, 1) - 0)^2",
    *(word for name, x in _WEIGHTS.items() for word in (f"--{name}", str(x))),
]
PAGES = {
    "xy": ["x*y + sin(x)", "--x", "2", "--y", "3"],
    "named": ["f(t) = t^2 + 1; a = x*y; b = relu(f(a) - x); b*f(y) + log(a)", "--x", "2", "--y", "3"],
    "softmax": [
        *["-log(softmax(W @ x + b)[0])", "--W", "[[1, 2, 0.5], [3, 4, -1]]"],
        *["--x", "[1, -1, 2]", "--b", "[0, 1]"],
    ],
    "xor": XOR,
    "mlp": [
        *[
            "h = tanh(W @ x + b); k = tanh(U @ h + c); o = v @ k + d; (o - t)^2",
            "--W",
            "[[0.1, 0.4], [-0.3, 0.2], [0.5, -0.6]]",
        ],
        *[
            "--x",
            "[1, 2]",
            "--b",
            "[0.1, 0, -0.1]",
            "--U",
            "[[0.2, -0.1, 0.4], [0.3, 0.6, -0.2]]",
            "--c",
            "[0.05, -0.05]",
        ],
        *["--v", "[0.7, -0.8]", "--d", "0.1", "--t", "1"],
    ],
    "polynomial": [
        " + ".join(f"a{k}*x^{k}" for k in range(2, 11)) + " + a1*x + a0",
        *["--x", "0.9", *(word for k in range(11) for word in (f"--a{k}", str(k / 4)))],
    ],
    "choices": ["where(x > 1, x^2, 3*x) * where(y > 0 and x < 5, y, -y)", "--x", "2", "--y=-1"],
    "dead": ["h = relu(w*x + b); (h - t)^2", "--w", "3", "--x=-2", "--b", "1", "--t", "5"],
    "norm": ["norm(A @ x - b)/norm(b)", "--A", "[[1, 2], [3, 4]]", "--x", "[1, 2]", "--b", "[3, 4]"],
    "extreme": ["a*b + exp(c)*a", "--a", "1e-300", "--b", "1e300", "--c", "300"],
    "none": ["log(x)*y + 1/z + exp(x)", "--x=-1", "--y", "2", "--z", "0"],
    "chain": ["sin(" * 25 + "x" + ")" * 25, "--x", "1"],
    "reuse": ["c = a + b; d = a*b + b^3; e = c - d; f = e^2; g = f/2; g + 10/f", "--a=-4", "--b", "2"],
    "attention": [
        *["s = softmax(Q @ k/sqrt(2)); sum(s*v)", "--Q", "[[1, 2], [3, 4], [0.1, 0.2]]"],
        *["--k", "[0.3, 0.4]", "--v", "[1, 2, 3]"],
    ],
    "sum": ["+".join(f"sin({k}*x)^2*y" for k in range(12)), "--x", "1", "--y", "2"],
}
SIZES = [(1280, 800), (390, 844), (1920, 1080)]
LARGE = [PAGES[name] for name in ("xy", "softmax", "polynomial")]  # seen in a large window too
# The lowest end of the drawing, the sentence and the controls in the document.
BOTTOM = """["stage", "status", "step"].map((id) => byId(id).getBoundingClientRect().bottom + scrollY)
  .reduce((a, b) => Math.max(a, b))"""
NUMBERS = """() => {
  const place = (element) => element.getBoundingClientRect();
  const boxes = [...document.querySelectorAll("#stage .outline")].map(place);
  const numbers = [...document.querySelectorAll("#stage .edge")]
    .map((edge) => [...edge.querySelectorAll("text")].map(place).filter(({ width }) => width))
    .filter((texts) => texts.length)
    .map((texts) => ({
      left: Math.min(...texts.map(({ left }) => left)), right: Math.max(...texts.map(({ right }) => right)),
      top: Math.min(...texts.map(({ top }) => top)), bottom: Math.max(...texts.map(({ bottom }) => bottom)),
    }));
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return {
    onBoxes: numbers.filter((one) => boxes.some((box) => meet(one, box))).length,
    onNumbers: numbers.filter((one, k) => numbers.slice(k + 1).some((other) => meet(one, other))).length,
    count: numbers.length,
  };
}"""
SEEN = """() => {
  const box = document.getElementById("stage").getBoundingClientRect();
  const nodes = [...document.querySelectorAll("#stage [data-node]")].map((node) => node.getBoundingClientRect());
  return {
    outside: nodes.filter(({ left, right, top, bottom }) =>
      left < box.left - 1 || right > box.right + 1 || top < box.top - 1 || bottom > box.bottom + 1).length,
    overlapping: nodes.filter((a, k) => nodes.slice(k + 1).some((b) =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length,
    count: nodes.length,
  };
}"""


def seen(page: Page) -> Any:
    """How many nodes stand outside the panel, or on another; the size of the smallest text; how many there are."""
    return measure(page, SEEN) | {"least": least_text(page)}


def sizes(is_shown_everywhere: bool, number: int) -> list[tuple[int, int]]:
    """Return the windows in which a drawing is looked at: all, or a desktop's for every second one and a phone's for
    the others."""
    return SIZES if is_shown_everywhere else SIZES[:2] if is_exhaustive() else [SIZES[number % 2]]


@pytest.mark.sampled
@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_a_drawing_opens_as_a_whole_and_can_be_read(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in sizes(words in LARGE, [*PAGES.values()].index(words)):
        resize(page, width, height)
        document = opened(page, words)
        found = seen(page)
        assert found["outside"] == found["overlapping"] == 0
        assert found["count"] <= 30, width
        if width == 1280 and len(document["nodes"]) <= 17:
            assert page.locator("#stage .folded").count() == 0
        press(page, "Backward pass")
        found = seen(page)
        assert found["overlapping"] == 0, width
        assert found["outside"] == 0 or page.evaluate("graph.parts.areFolded"), width  # a part is open for the step
        assert found["least"] >= 11, width
        labels = measure(page, NUMBERS)
        assert labels["onBoxes"] == labels["onNumbers"] == 0, width
        assert measure(page, BOTTOM) <= height


@pytest.mark.parametrize("name", ["xy", "mlp"])
def test_on_a_phone_the_sentence_of_a_step_is_visible_below_the_drawing(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, 390, 844)
    opened(page, PAGES[name])
    press(page, "Backward pass")
    settle(page)
    stage, sentence = page.locator("#stage").bounding_box(), page.locator("#status").bounding_box()
    assert stage is not None
    assert sentence is not None
    assert sentence["y"] > stage["y"] + 250
    assert sentence["y"] + sentence["height"] <= 844
    if name == "xy":
        assert stage["y"] + stage["height"] <= sentence["y"]


@pytest.mark.parametrize("width", [390, 1280])
def test_parts_with_a_name_are_what_a_folded_drawing_shows(page: Page, width: int) -> None:
    resize(page, width, 844)
    opened(page, XOR)
    titles = [title.split("\n")[0] for title in page.locator("#stage .folded title").all_text_contents()]
    assert {"n(0, 0)", "n(0, 1)", "n(1, 0)", "n(1, 1)"} <= set(titles)
    assert page.locator("#stage .node.input").count() == len(_WEIGHTS)
    assert page.locator("#stage .bundle").count() == 1
    assert page.locator("#stage .edge").count() >= 4 * (len(_WEIGHTS) + 1)


def test_an_edge_shows_its_numbers_on_hover(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, PAGES["xy"])
    title = page.locator("#stage .edge[data-from='1'] title")
    assert title.text_content() == "y → x*y"
    press(page, "Backward pass")
    assert title.text_content() == "y → x*y: local derivative 2, contributes 2"


def test_a_tap_shows_the_numbers_of_an_edge_and_of_a_node_in_full(page_of_its_own: Page) -> None:
    page = page_of_its_own
    page.emulate_media(reduced_motion="reduce")
    resize(page, 390, 844)
    document = opened(page, ["sin(x)*y", "--x=1.1", "--y=3"])
    page.evaluate("go(playback.length)")
    tap = "(element) => element.dispatchEvent(new PointerEvent('pointerover', { pointerType: 'touch', bubbles: true }))"
    page.locator("#stage .edge[data-from='0'] .reach").evaluate(tap)
    contribution = document["backward"][-1]["contributions"][0]
    shown = page.locator("#element").inner_text()
    assert shown == f"x → sin(x): local derivative {contribution['local']!r}, contributes {contribution['amount']!r}"
    page.locator("#stage [data-node='0'] .outline").evaluate(tap)
    gradient = document["gradient"]["x"]
    assert page.locator("#element").inner_text() == f"x: value 1.1, adjoint {gradient!r}"


_NETWORK = (
    "h1 = sigmoid(w1*i1 + w2*i2 + b1); h2 = sigmoid(w3*i1 + w4*i2 + b1); o1 = sigmoid(w5*h1 + w6*h2 + b2);"
    "o2 = sigmoid(w7*h1 + w8*h2 + b2); (t1 - o1)^2/2 + (t2 - o2)^2/2"
)
NETWORK = [_NETWORK, *(f"--{name}=0.{k + 1}" for k, name in enumerate(sorted({*re.findall(r"[wibt]\d", _NETWORK)})))]


def test_a_network_of_many_variables_is_seen_whole_on_a_phone_with_its_units(page: Page) -> None:
    resize(page, 390, 844)
    opened(page, NETWORK)
    found = seen(page)
    assert found["outside"] == found["overlapping"] == 0
    assert found["least"] >= 11
    titles = page.locator("#stage .folded title").all_text_contents()
    assert {"h1", "h2", "o1", "o2"} <= {title.split("\n")[0] for title in titles}


def test_folded_boxes_have_different_texts(page: Page) -> None:
    both = "inside: 2, short: 'f(…)', caption"
    boxes = f"distinct([{{ id: 1, {both}: 'f(a, …)' }}, {{ id: 2, {both}: %s }}])"
    opened(page, PAGES["xy"])
    assert page.evaluate(f"{boxes % repr('f(b, …)')}.map(({{ short }}) => short)") == ["f(a, …)", "f(b, …)"]
    assert page.evaluate(f"{boxes % repr('f(a, …)')}.map(({{ short }}) => short)") == ["f(a, …) #1", "f(a, …) #2"]


def test_numbers_on_edges_that_become_longer_find_another_place(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, PAGES["xy"])
    press(page, "Backward pass")
    page.get_by_label("y", exact=True).fill("-0.123456789")
    found = measure(page, NUMBERS)
    assert found == {"onBoxes": 0, "onNumbers": 0, "count": 5}
    assert page.locator("#stage .edge text[textLength]").count() == 0


def test_the_drawing_follows_the_window(page: Page) -> None:
    opened(page, PAGES["softmax"])
    across = measure(page, "graph.size.width/graph.size.height")
    resize(page, 390, 844)
    page.wait_for_timeout(300)
    assert seen(page)["outside"] == 0
    assert measure(page, "graph.size.width/graph.size.height") < across


def test_large_graphs_begin_folded_and_a_click_opens_one_part(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    wanted = in_document(opened(page, XOR))
    press(page, "Backward pass")
    folded = numbers(page)
    assert folded == {i: wanted[i] for i in folded}
    box = page.locator(".node.folded").first
    inside = int((box.locator("text").nth(1).text_content() or "").split()[0])
    box.click()
    opened_ = numbers(page)
    assert len(folded) < len(opened_) <= len(folded) + inside
    assert opened_ == {i: wanted[i] for i in opened_}
    assert seen(page)["least"] >= 11
    press(page, "Fold")
    assert numbers(page) == wanted
    assert seen(page)["least"] >= 11
    press(page, "Fold")
    assert len(numbers(page)) <= 30


def test_fit_keeps_it_readable(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, XOR)
    press(page, "Fold")
    for _ in range(3):
        press(page, "Zoom out")
    press(page, "Fit")
    assert seen(page)["least"] >= 11


def test_nodes_out_of_view_are_on_the_map(page: Page) -> None:
    opened(page, PAGES["named"])
    overview = page.locator("#map")
    assert overview.is_hidden()
    for _ in range(3):
        press(page, "Zoom in")
    assert overview.is_visible()
    assert overview.locator(".place").count() == seen(page)["count"]
    overview.scroll_into_view_if_needed()
    place = overview.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + place["width"] - 3, place["y"] + place["height"] - 3)
    left, top = measure(
        page,
        """(() => {
      const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight } = graph.stage;
      return [scrollWidth - clientWidth - scrollLeft, scrollHeight - clientHeight - scrollTop];
    })()""",
    )
    assert max(left, top) <= 2


def test_print_has_the_drawing_on_sheets_in_a_size_to_read(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, XOR)
    before = seen(page)["count"]
    page.emulate_media(media="print", reduced_motion="reduce")
    page.locator("table").wait_for(state="visible")
    assert least_text(page, "#stage") >= 11  # 8 points on paper
    wait_until(
        page,
        """() => [...document.querySelectorAll("#stage svg")].map((svg) => svg.getBoundingClientRect())
            .every((box) => box.width <= 700 && box.height <= 940)""",
    )
    page.emulate_media(media="screen", reduced_motion="reduce")
    page.locator("table").wait_for(state="hidden")
    assert seen(page)["count"] == before


def test_print_has_every_node_that_a_sheet_has_room_for_and_marks_no_step(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in ((390, 844), (800, 600)):
        resize(page, width, height)
        document = opened(page, PAGES["softmax"])
        page.emulate_media(media="print", reduced_motion="reduce")
        page.locator("table").wait_for(state="visible")
        assert numbers(page) == in_document(document)
        assert page.locator(".current, mark").count() == 0
        page.emulate_media(media="screen", reduced_motion="reduce")
        page.locator("table").wait_for(state="hidden")


@pytest.mark.slow
def test_a_folded_part_shows_its_rate_only_where_it_is_one_number(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, ["f(t) = sum(W @ [t, 2*t])^2; f(x) + f(y)*b", "--W", "[[1, 2]]", "--x", "1", "--y", "2", "--b", "3"])
    press(page, "Backward pass")
    if page.get_by_role("button", name="Fold", exact=True).get_attribute("aria-pressed") == "false":
        press(page, "Fold")
    labels = page.locator("#stage .edge .local").all_text_contents()
    assert "nan" not in labels
    assert page.locator("#stage .edge.blocked").count() == 0
    assert "3" in labels  # that of b * f(y) towards f(y)


def test_numbers_on_edges_stand_inside_the_drawing(page: Page) -> None:
    resize(page, 390, 844)
    page.emulate_media(reduced_motion="reduce")
    opened(page, ["y - a*exp(-b*x)", "--y", "0.3", "--a", "2.10009", "--b", "0.966477", "--x", "2"])
    press(page, "Backward pass")
    assert (
        measure(
            page,
            """() => {
      const box = document.querySelector("#stage svg").getBoundingClientRect();
      return [...document.querySelectorAll("#stage .edge text")].map((text) => text.getBoundingClientRect())
        .filter(({ left, right, width }) => width && (left < box.left - 1 || right > box.right + 1)).length;
    }""",
        )
        == 0
    )


ARRAYS = [
    *["sum(tanh(W @ x + b)^2)", "--W", "[[1, 2, 0.5, -1], [3, 4, -1, 0.2], [0.1, 0.2, 0.3, 0.4]]"],
    *["--x", "[1, -1, 2, 0.3]", "--b", "[0.1, 0.2, -0.3]"],
]
IS_IN_ORDER = """() => [28, 18, 12, 8, 5].every((most) => {
  graph.parts.fold(most);
  return graph.parts.shown.arrows.every(({ from, to }) => from < to);
})"""


@pytest.mark.sampled
@pytest.mark.parametrize("words", [XOR, PAGES["polynomial"], PAGES["sum"], PAGES["choices"], PAGES["softmax"], ARRAYS])
def test_folded_parts_never_use_each_other_in_a_circle(page: Page, words: list[str]) -> None:
    opened(page, words)
    assert measure(page, IS_IN_ORDER)
    if page.get_by_role("button", name="Scalars").is_visible():
        press(page, "Scalars")
        wait_until(page, "typeof isInScalars !== 'undefined' && isInScalars && graph.ids.length")
        assert measure(page, IS_IN_ORDER)


# Edges that a box hides: of every edge, the boxes other than its ends that it passes behind.
HIDDEN = """() => {
  const boxOf = (rectangle) => {
    const { x, y, width, height } = rectangle.getBBox();
    return { x, y, width, height };
  };
  const boxes = graph.ids.map((i) => ({ id: String(i), ...boxOf(graph.element(i).querySelector("rect")) }));
  return [...graph.svg.querySelectorAll(".edge")].flatMap((edge) => {
    const path = edge.querySelector("path");
    const { from, to } = edge.dataset;
    const others = boxes.filter(({ id }) => id !== from && id !== to);
    const length = path.getTotalLength();
    const points = Array.from({ length: Math.ceil(length / 5) }, (_, k) => path.getPointAtLength(5 * k));
    return points.flatMap(({ x, y }) => others
      .filter((box) => x > box.x + 1 && x < box.x + box.width - 1 && y > box.y + 1 && y < box.y + box.height - 1)
      .map(({ id }) => `${from} to ${to} behind ${id}`));
  });
}"""
# Steps, of many six, at which the node, those it takes from, the sentence or the button is covered or outside the
# window, or text is small: steps before the end of a pass have a close-up if the drawing is too large to read.
COVERED = """() => {
  const isInSight = (element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const at = (x, y) => element.contains(document.elementFromPoint(left + x, top + y));
    return [[width / 2, 4], [width / 2, height - 4], [3, height / 2], [width - 3, height / 2]].every((to) => at(...to));
  };
  const covered = [];
  for (let position = 1; position <= playback.length; position += Math.ceil(playback.length / 6)) {
    go(position);
    const nodes = [playback.current, ...record.nodes[playback.current].inputs].map((i) => graph.element(i));
    if (![...nodes, byId("step")].every(isInSight)) covered.push(position);
    const isEnd = [record.forward.length, playback.length].includes(position);
    if (!isEnd && 12 * graph.svg.getScreenCTM().a < 11) covered.push(`small text ${position}`);
    const { left, top } = byId("status").firstChild.getBoundingClientRect();
    if (!byId("status").contains(document.elementFromPoint(left + 4, top + 4))) covered.push(`sentence ${position}`);
  }
  return covered;
}"""
# Numbers and titles of frames that another text, or a line, runs through, and names that are wider than their boxes.
TOUCHED = """() => {
  go(playback.length);
  const scale = graph.svg.getScreenCTM().a;
  const texts = [...graph.svg.querySelectorAll("text")].filter(({ textContent }) => textContent.trim())
    .map((text) => ({ text, box: text.getBoundingClientRect() }));
  const numbers = texts.filter(({ text }) => text.matches(".value, .adjoint, .local, .group text"));
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const points = [...graph.svg.querySelectorAll(".edge")].flatMap((edge) => {
    const path = edge.querySelector("path:not(.reach)");
    const matrix = path.getScreenCTM();
    const count = Math.ceil(path.getTotalLength() / 5);
    return Array.from({ length: count }, (_, k) => path.getPointAtLength(5 * k).matrixTransform(matrix));
  });
  const inside = ({ left, right, top, bottom }) => points.some(({ x, y }) =>
    x > left + 1 && x < right - 1 && y > top + 2 * scale && y < bottom - 2 * scale);
  return numbers.flatMap(({ text, box }) => [
    ...texts.filter((other) => other.text !== text && meet(box, other.box))
      .map((other) => `${text.textContent} on ${other.text.textContent}`),
    ...(inside(box) ? [`${text.textContent} on a line`] : []),
  ]).concat([...graph.svg.querySelectorAll(".node .first")].filter((text) => {
    const shapes = [text, text.parentNode.querySelector(".outline")];
    const [own, outline] = shapes.map((shape) => shape.getBoundingClientRect());
    return own.left < outline.left || own.right > outline.right;
  }).map(({ textContent }) => `${textContent} wider than its box`));
}"""


# Steps whose explanation is joined to its node by a line that runs through a box, a number or a name.
CROSSED = """() => Array.from({ length: playback.length }, (_, k) => k + 1).filter((position) => {
  go(position);
  const line = document.querySelector(".leader");
  if (!line) return false;
  const inside = [0.15, 0.85].map((share) => share * line.getTotalLength());
  const points = Array.from({ length: 40 }, (_, k) => inside[0] + (k / 39) * (inside[1] - inside[0]))
    .map((at) => line.getPointAtLength(at).matrixTransform(graph.svg.getScreenCTM()));
  const own = graph.element(playback.current).querySelector(".outline");
  return [...graph.svg.querySelectorAll(".node .outline, .node text, .edge text")].filter((part) => part !== own)
    .map((part) => part.getBoundingClientRect()).some(({ left, right, top, bottom }) =>
      points.some(({ x, y }) => x > left && x < right && y > top + 2 && y < bottom - 2));
})"""
# Steps whose explanation stands away from its node, on a line that does not begin at the box or at its numbers.
FLOATING = """() => Array.from({ length: playback.length }, (_, k) => k + 1).filter((position) => {
  go(position);
  const line = document.querySelector(".leader");
  if (!line) return false;
  const { x, y } = line.getPointAtLength(0).matrixTransform(graph.svg.getScreenCTM());
  const parts = graph.element(playback.current).querySelectorAll(".outline, text");
  return ![...parts].map((part) => part.getBoundingClientRect()).some(({ left, right, top, bottom }) =>
    x >= left - 12 && x <= right + 12 && y >= top - 12 && y <= bottom + 12);
})"""


@pytest.mark.parametrize(
    "words",
    [
        ["u = w*x + b; h = relu(u); (h - t)^2", "--w=0.5", "--x=2", "--b=-3", "--t=1"],
        ["f(t) = t^2*exp(-t); f(f(f(f(x)))) + f(y)", "--x=0.5", "--y=2"],
    ],
)
def test_the_line_to_an_explanation_begins_at_its_node_and_crosses_nothing(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    assert (measure(page, FLOATING), page.evaluate(CROSSED)) == ([], [])
    ends = page.evaluate("""record.forward.map((_, k) => {
      go(k + 1);
      const line = document.querySelector(".leader");
      if (!line) return null;
      const end = line.getPointAtLength(line.getTotalLength()).matrixTransform(line.getScreenCTM());
      const { left, top, right, bottom } = byId("explanation").getBoundingClientRect();
      return Math.max(left - end.x, end.x - right, top - end.y, end.y - bottom);
    }).filter((away) => away !== null)""")
    assert len(ends) > 1
    assert max(ends) < 3  # pixels between its end and the explanation


def test_on_a_phone_the_closing_remark_is_in_sight(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, 390, 844)
    for text, point in (MOVING_FORMULAS[0], MOVING_FORMULAS[-2]):
        opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
        page.evaluate("go(playback.length)")
        ends = measure(
            page, "['#remark', '.controls'].map((name) => document.querySelector(name).getBoundingClientRect())"
        )
        assert 0 < ends[0]["bottom"] <= ends[1]["top"]


FRAMED = [
    ["f(h, x) = tanh(w*x + u*h + b); h1 = f(0, x1); h2 = f(h1, x2); h3 = f(h2, x3); (v*h3 - t)^2"],
    ["h1 = tanh(w*x1); h2 = tanh(w*x2 + u*h1); h3 = tanh(w*x3 + u*h2); (h3 - t)^2"],
    ["momentum*WWWW + lambda_max*sigma_1^2/(Mmmm_2 + epsilon)"],
]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("formula", FRAMED)
def test_titles_of_frames_and_names_are_free_of_lines_and_texts(page: Page, formula: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    names = sorted({*re.findall(r"(?<![a-z0-9])(?!h\d|h\b|x\b|f\b|tanh)[A-Za-z]\w*", formula[0])})
    for width, height in sizes(False, FRAMED.index(formula)):
        resize(page, width, height)
        opened(page, [*formula, *(f"--{name}={0.2 * k + 0.1}" for k, name in enumerate(names))])
        for is_folded in (True, False):
            page.evaluate("fold", is_folded)
            assert measure(page, TOUCHED.replace("go(playback.length)", "go(4)")) == [], (width, is_folded)
            assert measure(page, TOUCHED) == [], (width, is_folded)


# Formulas above the drawing that are not typeset, are cut off at the side, or whose lines run into each other.
CROWDED = """() => {
  const { hidden, scrollWidth, clientWidth } = byId("typeset");
  const boxes = [...document.querySelectorAll("#typeset .pieces > math")].map((math) => {
    const signs = [...math.querySelectorAll("mi, mn, mo")].map((sign) => sign.getBoundingClientRect());
    const [top, left] = ["top", "left"].map((side) => Math.min(...signs.map((sign) => sign[side])));
    const [bottom, right] = ["bottom", "right"].map((side) => Math.max(...signs.map((sign) => sign[side])));
    return { top, left, bottom, right };
  });
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const meeting = boxes.filter((a, k) => boxes.slice(k + 1).some((b) => meet(a, b))).length;
  return { hidden, sideways: scrollWidth > clientWidth, meeting };
}"""


BLACK_SCHOLES = [
    "S*normal_cdf((log(S/K) + (r + sigma^2/2)*T)/(sigma*sqrt(T)))"
    " - K*exp(-r*T)*normal_cdf((log(S/K) + (r - sigma^2/2)*T)/(sigma*sqrt(T)))",
    *["--S=100", "--K=95", "--r=0.03", "--sigma=0.2", "--T=0.5"],
]
TOWER = ["1/(1 + 1/(1 + 1/(1 + x/(1 + y^2/(x + sqrt(y))))))", "--x=1.5", "--y=2"]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [
        BLACK_SCHOLES,
        ["+".join(f"exp(-{k}*x^2/2)*y/{k + 1}" for k in range(1, 9)), "--x=0.7", "--y=1.3"],
        XOR,
        [
            "(moon - sigmoid((weights_two @ tanh(weights_one @ [x1, x2] + shift_one) + shift_two)[0]))^2",
            *["--weights_two=[[1, 2]]", "--weights_one=[[1, 2], [3, 4]]", "--shift_one=[1, 2]", "--shift_two=[1]"],
            *["--x1=1", "--x2=2", "--moon=1"],
        ],
        TOWER,
    ],
    ids=["options", "sum", "xor", "network", "tower"],
)
def test_long_formulas_are_typeset_and_fit_beside_the_buttons(page: Page, words: list[str]) -> None:
    resize(page, *SIZES[0])
    opened(page, words)
    for width, height in SIZES[:2]:
        resize(page, width, height)
        assert measure(page, CROWDED) == {"hidden": False, "sideways": False, "meeting": 0}, width
        opened(page, words)
        assert measure(page, CROWDED) == {"hidden": False, "sideways": False, "meeting": 0}, width
        assert least_text(page) >= 11, width


@pytest.mark.sampled
@pytest.mark.parametrize("words", [TOWER, PAGES["mlp"], PAGES["polynomial"]], ids=["tower", "mlp", "polynomial"])
def test_on_a_phone_the_typeset_formula_has_the_whole_width_and_does_not_scroll(page: Page, words: list[str]) -> None:
    resize(page, 390, 844)
    opened(page, words)
    names = ("scrollHeight", "clientHeight", "offsetWidth")
    needed, height, width = (measure(page, f"byId('typeset').{name}") for name in names)
    assert needed <= height + 1
    assert width > 350


STEPS = "; ".join(f"h{k + 1} = tanh(w*x{k} + u*h{k} + b)" for k in range(20))
# Whether the typeset formula is shown, and whether it scrolls in either direction.
CUT = """() => {
  const { hidden, scrollWidth, clientWidth, scrollHeight, clientHeight } = byId("typeset");
  return [hidden, scrollWidth > clientWidth || scrollHeight > clientHeight];
}"""


# How many lines of the formula as it is typed are in sight, and whether it is nearly as wide as the window.
SHOWN = """() => {
  const { clientHeight, scrollHeight, clientWidth } = byId("formula");
  const line = parseFloat(getComputedStyle(byId("formula")).lineHeight);
  return [clientHeight === scrollHeight ? Infinity : clientHeight / line, clientWidth > 0.9 * innerWidth];
}"""


@pytest.mark.slow
def test_a_formula_that_does_not_fit_is_typeset_without_definitions_or_not_at_all(page: Page) -> None:
    names = sorted({*re.findall(r"\b(?:h0|w|u|b|x\d+)\b", STEPS)})
    for width, height in SIZES:
        resize(page, width, height)
        opened(page, [f"{STEPS}; (h20 - 1)^2", *(f"--{name}=0.3" for name in names)])
        assert measure(page, CUT) == [False, False]
        opened(page, PAGES["softmax"])
        assert measure(page, CUT) == [False, False]
        press(page, "Scalars")
        wait_until(page, "isInScalars")
        assert measure(page, CUT)[1] is False
        assert least_text(page) >= 11
        if measure(page, CUT)[0] and width < 600:  # the text has the room instead
            lines, wide = measure(page, SHOWN)
            assert (lines >= 4, wide) == (True, True)


# The width that words have beside the picture of a slope, at some steps that show it.
BESIDE_SLOPE = """() => [56, 57, 58, 59, 60].flatMap((k) => {
  go(k);
  const { left } = byId("explanation").getBoundingClientRect();
  return byId("slope").hidden ? [] : [byId("slope").getBoundingClientRect().left - left];
})"""


@pytest.mark.slow
def test_the_picture_of_a_slope_leaves_room_for_words(page: Page) -> None:
    names = sorted({*re.findall(r"\b(?:h0|w|u|b|x\d+)\b", STEPS)})
    opened(page, [f"{STEPS}; (h20 - 1)^2", *(f"--{name}=0.3" for name in names)])
    widths = measure(page, BESIDE_SLOPE)
    assert widths
    assert min(widths) > 170


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["损失_权重", "Жора", "rate", "learning_rate"])
def test_names_of_any_script_are_typeset_as_they_are_written(page: Page, name: str) -> None:
    opened(page, [f"a{name} = {name}*x; sin(a{name})", f"--{name}=2", "--x=3"])
    letters = page.locator("#typeset").evaluate("(element) => element.textContent")
    assert name in letters
    assert f"a{name}" in letters


def test_names_of_functions_are_typeset_without_marks_of_latex(page: Page) -> None:
    opened(
        page, ["normal_pdf(x, mu, s) + leaky_relu(x)*log_odds", "--x", "1", "--mu", "0", "--s", "1", "--log_odds", "2"]
    )
    letters = page.locator("#typeset").evaluate("(element) => element.textContent")
    assert "\\" not in letters
    assert "normal_pdf" in letters


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["xy", "xor", "lesson"])
def test_on_a_small_phone_tabs_and_controls_do_not_wrap(page: Page, name: str, tmp_path: Path) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, 360, 640)
    if name == "lesson":
        assert run_cli(["lesson", "diamond", "-o", str(tmp_path / "page.html")]).status == 0
        page.goto((tmp_path / "page.html").as_uri())
    else:
        opened(page, PAGES[name])
    for position in ("0", "1", "playback.length - 1", "playback.length"):
        page.evaluate(f"go({position})")
        tops = (
            "(name) => new Set([...document.querySelectorAll(name)].map((one) => one.getBoundingClientRect().top)).size"
        )
        assert measure(page, tops, ".tabs button:not([hidden])") == 1
        assert measure(page, tops, ".controls button") == 1
        assert measure(page, "byId('where').getBoundingClientRect().height < 30")


# How long the lines are, relative to straight ones between their ends: all together, and the longest.
DETOURS = """() => {
  const lines = [...graph.svg.querySelectorAll(".edge path:not(.reach):not(.head)")].map(({ track }) => {
    const [a, b] = [track.at(0), track.at(track.length)];
    return { own: track.length, straight: Math.hypot(a.x - b.x, a.y - b.y) };
  });
  const sum = (key) => lines.reduce((total, line) => total + line[key], 0);
  return [sum("own") / sum("straight"), Math.max(...lines.map(({ own, straight }) => own / straight))];
}"""
MAZUR = [
    "h1 = sigmoid(w1*i1 + w2*i2 + b1); h2 = sigmoid(w3*i1 + w4*i2 + b1); o1 = sigmoid(w5*h1 + w6*h2 + b2);"
    "o2 = sigmoid(w7*h1 + w8*h2 + b2); (t1 - o1)^2/2 + (t2 - o2)^2/2",
    *["--i1=0.05", "--i2=0.1", "--b1=0.35", "--b2=0.6", "--t1=0.01", "--t2=0.99"],
    *(f"--w{k}={0.1 + 0.05 * k}" for k in range(1, 9)),
]
DIRECT = [
    PAGES["xy"],
    ["sigmoid(w1*x1 + w2*x2 + b)", "--w1=2", "--x1=-1", "--w2=-3", "--x2=-2", "--b=-3"],
    BLACK_SCHOLES,
    XOR,
    ["(a+b)*(b+1)", "--a=2", "--b=1"],
    ["log(1 + exp(x))", "--x=0.5"],
    ["p = sigmoid(w*x + b); -(y*log(p) + (1 - y)*log(1 - p))", "--w=0.5", "--x=2", "--b=-0.3", "--y=1"],
    MAZUR,
    ["sqrt(x^2 + y^2)/(x + y)", "--x=3", "--y=4"],
    ["x*exp(-x^2) + cos(x*y)", "--x=0.7", "--y=1.3"],
]


@pytest.mark.sampled
@pytest.mark.parametrize("words", DIRECT, ids=range(len(DIRECT)))
def test_lines_take_no_long_ways_round(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in SIZES if is_exhaustive() else [SIZES[DIRECT.index(words) % 3]]:
        resize(page, width, height)
        opened(page, words)
        together, longest = measure(page, DETOURS)
        assert together < 1.5, width
        assert longest < 3.5, width


# Whether the map in the corner of the drawing covers a number, or a line along which the step moves numbers.
IS_MAPPED = """() => {
  const map = byId("map");
  const own = map.getBoundingClientRect();
  const isUnder = ({ left, right, top, bottom }) =>
    left < own.right && own.left < right && top < own.bottom && own.top < bottom;
  const lines = ".edge:is(.flowing, .returning) path:not(.reach)";
  const shapes = graph.stage.querySelectorAll(`.node text, .edge text, ${lines}`);
  return !map.hasAttribute("hidden") && [...shapes].some((shape) => isUnder(shape.getBoundingClientRect()));
}"""


@pytest.mark.parametrize(
    ("words", "k"),
    [(BLACK_SCHOLES, 0), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(XOR, 1), (MAZUR, 2)])],
    ids=["options", "xor", "mazur"],
)
def test_the_map_of_a_large_drawing_covers_nothing_of_a_step(page: Page, words: list[str], k: int) -> None:
    page.emulate_media(reduced_motion="reduce")
    for size in SIZES if is_exhaustive() else [SIZES[k]]:
        resize(page, *size)
        opened(page, words)
        length = page.evaluate("playback.length")
        for position in range(12, length + 1, 7 if is_exhaustive() else length // 6 + 1):
            page.evaluate("(position) => { go(position); graph.zoomIn(); graph.zoomIn(); }", position)
            assert not measure(page, IS_MAPPED), (size, position)


NEAR = """(isFolded) => {
  fold(isFolded);
  const place = (element) => element.getBoundingClientRect();
  const isBetween = (a, b, from, to) => a[from] >= b[from] - 1 && a[to] <= b[to] + 1;
  const isWithin = (a, b) => isBetween(a, b, "left", "right") && isBetween(a, b, "top", "bottom");
  const flaws = [];
  for (let position = 1; position <= playback.length; position++) {
    go(position);
    const texts = [...document.querySelectorAll("#stage text")].filter(({ textContent }) => textContent);
    const least = Math.min(...texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));
    if (least < 9) flaws.push(`text of ${least} pixels at step ${position}`);
    const nodes = [playback.focus, ...record.nodes[playback.focus].inputs];
    const boxes = nodes.map((i) => graph.element(i)?.querySelector(".outline"));
    const isInSight = (box) => box && isWithin(place(box), place(graph.stage));
    if (!boxes.every(isInSight)) flaws.push(`a node is out of sight at step ${position}`);
  }
  return flaws;
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("words", [BLACK_SCHOLES, NETWORK], ids=["options", "network"])
@pytest.mark.parametrize("is_folded", [True, False])
def test_on_a_phone_each_step_is_in_sight_in_a_size_to_read(page: Page, words: list[str], is_folded: bool) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, 390, 844)
    opened(page, words)
    assert measure(page, NEAR, is_folded) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xor", "mlp"])
def test_buttons_that_change_move_nothing_beside_them(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in sizes(False, name == "mlp"):
        resize(page, width, height)
        opened(page, PAGES[name])
        page.evaluate("fold(true)")
        places = []
        for position in page.evaluate("Array.from({length: 5}, (_, k) => Math.round(k * playback.length / 4))"):
            page.evaluate("(position) => go(position)", position)
            script = "[...document.querySelectorAll('.toolbar button, header.head')].map((one) => "
            script += "Object.values(one.getBoundingClientRect().toJSON()).join())"
            places.append(tuple(measure(page, script)))
        assert len(set(places)) == 1, width


def test_the_buttons_of_a_small_formula_stand_in_one_line(page: Page) -> None:
    for width, height in SIZES:
        resize(page, width, height)
        opened(page, PAGES["xy"])
        buttons = "[...document.querySelectorAll('.toolbar button:not([hidden])')]"
        assert len({*measure(page, f"{buttons}.map((one) => one.getBoundingClientRect().top)")}) == 1, width


# Points at which a moving number would not be on its line to half a pixel.
OFF_LINE = """() => [...document.querySelectorAll(".edge path:not(.reach):not(.head)")].flatMap((path) => {
  const d = path.getAttribute("d");
  const line = svgElement("path", { d, fill: "none", "stroke-width": 1, "stroke-linecap": "round" });
  graph.svg.append(line);
  const points = path.track.every(5).filter(({ x, y }) => !line.isPointInStroke(new DOMPoint(x, y)));
  line.remove();
  return points;
})"""


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "point"), MOVING_FORMULAS, ids=range(len(MOVING_FORMULAS)))
def test_nothing_is_covered_in_any_fold_at_any_step(page: Page, text: str, point: dict[str, Any]) -> None:
    page.emulate_media(reduced_motion="reduce")
    k = MOVING_FORMULAS.index((text, point))
    for width, height in sizes(k == 0, k):
        resize(page, width, height)
        opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
        is_large = page.evaluate("record.nodes.length") > 40
        for is_folded in (True, False) if width == 1280 or (width < 1280 and not is_large) else (True,):
            page.evaluate("fold", is_folded)
            found = [measure(page, script) for script in (HIDDEN, COVERED, TOUCHED)] + [page.evaluate(OFF_LINE)]
            assert found == [[], [], [], []], (width, is_folded)


# How many arrangements in layers and in columns are made while the page decides what to fold.
ARRANGED = """() => {
  const [made, own] = [{ layered: 0, inColumn: 0 }, { layered, inColumn }];
  for (const name of Object.keys(own)) window[name] = (...given) => (made[name]++, own[name](...given));
  arrangements.delete(playback.computation);
  openFor(graph.parts, graph.stage);
  Object.assign(window, own);
  return made;
}"""


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_a_page_of_100_operations_tries_few_arrangements_before_it_opens(page: Page, size: tuple[int, int]) -> None:
    recurrence = "; ".join(["y1 = sin(x)*x", *(f"y{k} = sin(y{k - 1})*x + y{k - 1}" for k in range(2, 34)), "y33"])
    resize(page, *size)
    opened(page, [recurrence, "--x", "0.7"])
    made = page.evaluate(ARRANGED)
    assert 0 < made["layered"] <= 2
    assert 0 < made["inColumn"] <= 30


# How many lines cross in each layered arrangement that is tried, and how many would in the order that dagre finds.
CROSSINGS = """() => {
  const [own, found] = [orderLayers, []];
  window.orderLayers = (drawing, order, hasFrames) => {
    const count = () => crossings(drawing.edges().map(({ v, w }) => [drawing.node(v), drawing.node(w)]));
    order(drawing);
    const other = count();
    own(drawing, order, hasFrames);
    found.push([count(), other]);
  };
  const { clientWidth, clientHeight } = graph.stage;
  new Arrangements(graph.parts.shown, sizeOf, labelOf).best(clientWidth, clientHeight);
  window.orderLayers = own;
  return found;
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_few_lines_cross(page: Page, words: list[str]) -> None:
    opened(page, words)
    for own, other in page.evaluate(CROSSINGS):
        assert own <= other + 1


# The variables in each row and in each column, by their places in the formula, from left to right or top to bottom.
VARIABLES_IN_LINE = """() => {
  const isVariable = ({ id }) => record.nodes[id]?.op === "variable";
  const drawn = graph.parts.shown.boxes.filter(isVariable).map(({ id }) => {
    const { x, y, width, height } = document.querySelector(`[data-node="${id}"]`).getBoundingClientRect();
    return { id, across: x + width / 2, down: y + height / 2 };
  });
  const lines = (same) => [...Map.groupBy(drawn, (at) => Math.round(at[same] / 3)).values()];
  const inOrder = (line, other) => line.sort((a, b) => a[other] - b[other]).map(({ id }) => id);
  const both = [["down", "across"], ["across", "down"]];
  return both.flatMap(([same, other]) => lines(same).map((line) => inOrder(line, other)));
}"""


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_variables_are_drawn_in_the_order_of_the_formula(page: Page, size: tuple[int, int]) -> None:
    """Also where another order would have as many crossings."""
    resize(page, *size)
    for words in (["(a + b)*(b + c)*(a*c)", "--a=2", "--b=3", "--c=4"], PAGES["extreme"], BLACK_SCHOLES):
        opened(page, words)
        lines = measure(page, VARIABLES_IN_LINE)
        assert max(map(len, lines)) > 1
        assert lines == [*map(sorted, lines)], words[0]


# How often the line that turns most goes back by more than 8 pixels, to the side or down.
TURNS = """() => Math.max(...[...graph.svg.querySelectorAll(".edge")].flatMap((edge) => ["x", "y"].map((side) => {
  let [turns, way, furthest] = [0, 0, null];
  for (const { [side]: at } of drawnEdge(edge).path.track.every(2)) {
    furthest ??= at;
    if (way === 0 && Math.abs(at - furthest) > 8) way = Math.sign(at - furthest);
    if (way !== 0 && (at - furthest) * way < -8) [turns, way] = [turns + 1, -way];
    if (way !== 0 && (at - furthest) * way > 0) furthest = at;
  }
  return turns;
})))"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        PAGES["choices"],
        ["disc = b^2 - 4*a*c; (-b + sqrt(disc))/(2*a)", "--a", "1", "--b=-3", "--c", "1"],
        ["1/(1/f - 1/d)*(1 + exp(-k*(d - c)^2))/b", "--f", "0.5", "--d", "2", "--k", "0.3", "--c", "1.5", "--b", "1"],
    ],
    ids=["choices", "quadratic", "lens"],
)
def test_lines_do_not_bend_to_their_numbers_and_back(page: Page, words: list[str]) -> None:
    for width, height in SIZES:
        resize(page, width, height)
        opened(page, words)
        assert measure(page, TURNS) <= 1, width
