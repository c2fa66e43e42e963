"""The page for everybody: by keyboard, by screen reader, on a phone, in the dark, on paper, with any text in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import in_document, measure, numbers, opened, press, resize, says, wait_for
from tests.browser.test_page_layout import PAGES
from tests.browser.test_page_movements import CALL
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]
NAMED = ["f(t) = t^2 + 1; a = x*y; b = relu(f(a) - x); b*f(y) + log(a) + abs(x - 2)", "--x", "2", "--y", "3"]

# Every text that is seen, with its colour and what is behind it: of a node its outline, of a label its room, else the
# first background on the way up.
TEXTS = """() => {
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  const behind = (element) => {
    if (element.closest("svg")) {
      const shape = element.closest(".node, .edge, .traveller")?.querySelector("rect.outline, rect");
      if (shape && getComputedStyle(shape).fill !== "none") return getComputedStyle(shape).fill;
      element = element.ownerSVGElement;
    }
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *")]
    .filter((element) => seen(element) && !element.disabled
      && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .map((element) => {
      const style = getComputedStyle(element);
      return [element.textContent, element instanceof SVGElement ? style.fill : style.color, behind(element)];
    });
}"""

CONTROLS = ["Forward pass", "Backward pass", "Back", "Step", "Reset", "Quiz"]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out(page: Page, tmp_path: Path, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    file = tmp_path / "page.html"
    run_cli(["trace", *NAMED, "--highlight", "x", "-o", str(file)])
    page.goto(file.as_uri())
    page.locator("summary").click()

    def check() -> None:
        texts = measure(page, TEXTS)
        assert len(texts) > 40
        assert [text for text in texts if contrast(text[1], text[2]) < 4.5] == []

    check()
    press(page, "Forward pass")
    press(page, "Step")
    check()
    press(page, "Backward pass")
    check()
    press(page, "Fold")
    check()
    press(page, "Quiz")
    check()


def test_what_scrolls_is_a_region_with_a_name(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    softmax = 'trace "p = softmax(W @ x); -dot(y, log(p))" --W [[1,2],[3,4],[0,1]] --x [1,-1] --y [0,1,0]'
    resize(page, 360, 740)
    for words in (softmax, f"{softmax} --fold", "trace x*y+sin(x) --x 2 --y 3 --exercise", "lesson diamond"):
        assert run_cli(f"{words} -o {file}").status == 0
        page.goto(file.as_uri())
        regions, others, texts = page.evaluate(
            """() => {
              const scrolled = [...document.querySelectorAll("[tabindex='0']:not(button, input, svg *)")];
              const isRegion = (part) => part.matches("[role=region]:is([aria-label], [aria-labelledby])");
              const texts = [...document.querySelectorAll("svg text")].map((text) => getComputedStyle(text).overflow);
              const others = scrolled.filter((part) => !isRegion(part)).map(({ outerHTML }) => outerHTML.slice(0, 80));
              return [scrolled.length, others, [...new Set(texts)]];
            }"""
        )
        assert regions > 0, words
        assert others == [], words
        assert texts == ["visible"], words


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["softmax", "xor", "named"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_lines_of_the_drawing_stand_out_before_and_after_both_passes(page: Page, scheme: Any, name: str) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    opened(page, PAGES[name])
    for position in (0, 1000):
        lines, paper = page.evaluate(
            """(position) => {
              go(Math.min(position, playback.length));
              const shapes = [...document.querySelectorAll("#stage :is(path, rect, line):not(.reach)")];
              const strokes = shapes.filter((shape) => shape.checkVisibility())
                .map((shape) => getComputedStyle(shape).stroke);
              return [strokes.filter((stroke) => stroke !== "none"), getComputedStyle(document.body).backgroundColor];
            }""",
            position,
        )
        assert len(lines) > 10
        assert [line for line in lines if contrast(line, paper) < 3] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_stands_out_on_paper(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    opened(page, NAMED)
    press(page, "Backward pass")
    page.emulate_media(color_scheme=scheme, media="print", reduced_motion="reduce")
    page.locator("table").wait_for(state="visible")
    texts = measure(page, TEXTS)
    assert len(texts) > 40
    assert {behind for _, _, behind in texts} >= {"rgb(255, 255, 255)"}
    assert [text for text in texts if contrast(text[1], text[2]) < 4.5] == []
    assert [text for text in texts if luminance(text[2]) < 0.5] == []


def test_numbers_of_arrays_are_whole_on_paper(page: Page) -> None:
    opened(page, ["sum((W @ x)^2)", f"--W={[[2**0.5, -(3**0.5), 0.1], [1 / 3, 2 / 3, -4 / 3]]}", "--x=[1, 2, 3]"])
    resize(page, 696, 1024)  # a sheet of A4 without its margins
    page.emulate_media(media="print")
    cut = measure(
        page,
        """[...document.querySelectorAll(".variable input")].filter((each) =>
        each.offsetWidth && each.scrollWidth > each.clientWidth).map((each) => each.value)""",
    )
    assert cut == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sheets_and_courses_are_printed_light(page: Page, tmp_path: Path, scheme: Any) -> None:
    sheet, course = tmp_path / "sheet.html", tmp_path / "course"
    assert run_cli(["trace", *NAMED, "--exercise", "-o", str(sheet)]).status == 0
    assert run_cli(f"lesson --course -o {course}").status == 0
    page.emulate_media(color_scheme=scheme, media="print", reduced_motion="reduce")
    for file in (sheet, *(course / f"{name}.html" for name in ("index", "answers", "chain"))):
        page.goto(file.as_uri())
        texts = measure(page, TEXTS)
        assert len(texts) > 15, file
        assert [text for text in texts if contrast(text[1], "rgb(255, 255, 255)") < 4.5] == [], file
        assert [text for text in texts if luminance(text[2]) < 0.5] == [], file


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark_as_the_reader_has_it(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    opened(page, XY)
    ground = measure(page, "getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) < 0.1) == (scheme == "dark")


def test_everything_that_can_be_used_has_a_name_of_its_own(page: Page) -> None:
    opened(page, NAMED)
    for name in ("Forward pass", "Backward pass", "Step", "Back", "Reset", "Quiz"):
        assert page.get_by_role("button", name=name, exact=True).count() == 1
    for name in ("x", "y"):
        assert page.get_by_role("spinbutton", name=name, exact=True).count() == 1
    assert page.get_by_role("status").count() == 1
    tree = page.locator("body").aria_snapshot()
    for role in ("button", "textbox", "searchbox", "spinbutton", "slider", "region", "progressbar"):
        assert f"- {role}\n" not in tree
    press(page, "Quiz")
    assert page.get_by_role("textbox", name=re.compile("^Adjoint of ")).count() == 1
    assert page.get_by_role("button", name="Check", exact=True).count() == 1


def test_the_page_has_a_language_a_title_a_heading_and_landmarks(page: Page) -> None:
    opened(page, XY)
    assert measure(page, "document.documentElement.lang") == "en"
    assert page.title() == "x*y + sin(x) · backpropagation"
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("main").count() == 1
    ids = measure(page, "[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


def test_the_tab_key_reaches_every_control_and_shows_where_it_is(page: Page) -> None:
    opened(page, NAMED)
    wanted = [*CONTROLS, "Position", "Speed", "Find a node", "Fold", "Zoom out", "Fit", "Zoom in", "Drawing"]
    reached = []
    for _ in range(len(wanted)):
        page.keyboard.press("Tab")
        name, is_shown = measure(
            page,
            """() => {
          const at = document.activeElement;
          return [at.labels?.[0]?.textContent.trim() || at.getAttribute("aria-label") || at.textContent.trim(),
                  getComputedStyle(at).outlineStyle === "solid" && parseFloat(getComputedStyle(at).outlineWidth) >= 2];
        }""",
        )
        reached.append(name)
        assert is_shown
    assert reached == wanted


def test_the_drawing_is_navigated_by_keyboard(page: Page) -> None:
    opened(page, XY)
    page.get_by_role("region", name="Drawing").focus()
    page.keyboard.press("Tab")
    seen = []
    for _ in range(5):
        seen.append(measure(page, "document.activeElement.dataset.node"))
        assert page.locator("#details h3").inner_text() == measure(
            page, "document.activeElement.querySelector('title').textContent"
        )
        page.keyboard.press("ArrowDown")
    assert seen == ["0", "1", "2", "3", "4"]
    page.keyboard.press("ArrowUp")
    assert measure(page, "document.activeElement.dataset.node") == "3"
    page.keyboard.press("ArrowRight")
    assert numbers(page)[2] == (6, None)


def test_named_parts_are_folded_and_opened_by_keyboard(page: Page) -> None:
    opened(page, ["f(t) = t^2 + 1; b = relu(f(x) - y); b*f(y)", "--x", "2", "--y", "3"])
    count = len(numbers(page))
    page.get_by_role("button", name=re.compile("^Fold b")).press("Enter")
    assert len(numbers(page)) < count
    assert measure(page, "document.getElementById('stage').contains(document.activeElement)")
    page.locator("#stage .folded").first.press("Enter")
    assert len(numbers(page)) == count


def test_the_arrow_keys_go_through_the_tabs(page: Page) -> None:
    opened(page, XY)
    tabs = page.locator("#tabs [role=tab]")
    names, at = tabs.all_inner_texts(), 0
    tabs.first.focus()
    for way in (1, 1, -1, 1, -1, -1, -1, 1):
        page.keyboard.press("ArrowRight" if way > 0 else "ArrowLeft")
        at = (at + way) % len(names)
        assert page.evaluate("document.activeElement.textContent") == names[at]
        assert tabs.evaluate_all("(all) => all.filter((tab) => tab.tabIndex === 0).length") == 1


def test_the_drawing_is_zoomed_by_keyboard(page: Page) -> None:
    opened(page, NAMED)
    width = "document.querySelector('.stage svg').getBoundingClientRect().width"
    stage = page.get_by_role("region", name="Drawing")
    before = measure(page, width)
    stage.press("+")
    assert measure(page, width) == pytest.approx(1.25 * before)
    stage.press("-")
    assert measure(page, width) == pytest.approx(before)
    stage.press("0")
    assert measure(page, width) <= measure(page, "document.getElementById('stage').clientWidth") + 1
    natural = page.evaluate("graph.size.width")
    for zoom, scale in (("zoomOut", 0.05), ("zoomIn", 4)):
        page.evaluate("(zoom) => { for (let k = 0; k < 20; k++) graph[zoom](); }", zoom)
        assert measure(page, width) == pytest.approx(scale * natural, abs=1)
    page.evaluate("graph.stage.scrollTo(0, 0)")
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("[graph.stage.scrollLeft, graph.stage.scrollTop]") == [80, 0]


# What a state changes of the looks of an element or of its parts, so that people see it: colours by far, widths, lines.
_LOOKS = """([selector, state]) => {
  const element = document.querySelector(selector);
  if (!element) return `no ${selector}`;
  const [name, value] = state.split("=");
  const was = value === undefined ? element.classList.contains(name) : element.getAttribute(name);
  const set = (is) => {
    if (value === undefined) element.classList.toggle(name, is);
    else if (is === null) element.removeAttribute(name);
    else element.setAttribute(name, is);
  };
  const looks = () => [element, ...element.querySelectorAll("*")].map((one) => {
    const style = getComputedStyle(one);
    const { stroke, fill, color, backgroundColor, borderBottomColor } = style;
    return {
      colours: [stroke, fill, color, backgroundColor, borderBottomColor],
      numbers: [style.strokeWidth, style.fontWeight / 100, style.borderBottomWidth, 10 * style.opacity].map(parseFloat),
      words: [style.strokeDasharray, style.display, style.outlineStyle, style.cursor].join(),
    };
  });
  const parts = (colour) => (colour.match(/[\\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
  const differ = (a, b, by) => a.some((x, k) => Math.abs(x - b[k]) >= by);
  const isOther = (a, b) => a.words !== b.words || differ(a.numbers, b.numbers, 0.8)
    || differ(a.colours.flatMap(parts), b.colours.flatMap(parts), 24);
  set(value === undefined ? false : null);
  const without = looks();
  set(value ?? true);
  const isSeen = looks().some((look, k) => isOther(look, without[k]));
  set(was);
  return isSeen ? "" : `${selector} ${state}`;
}"""
_STATES = {
    ".node.computed:not(.output)": ["current", "match", "on-path", "highlighted"],
    ".node:not(.computed)": ["computed"],
    ".edge": ["blocked", "flowing", "returning", "on-path", "highlighted", "carried"],
    ".grid:not(.shades) .cell": ["at", "origin"],
    ".shades rect:not(.negative)": ["negative"],
    "#stage:has(.current)": ["backward-step"],
    "#explanation": ["backward"],
    "#forward-pass": ["aria-pressed=true", "disabled=true"],
    "#tabs button[aria-selected=false]": ["aria-selected=true"],
    "#variables input": ["aria-invalid=true"],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_can_be_seen(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    opened(page, ["sum(tanh(W @ v)) + sum(u)", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]", f"--u={[*range(9)]}"])
    for _ in range(3):
        press(page, "Step")
    seen = [page.evaluate(_LOOKS, [selector, state]) for selector, states in _STATES.items() for state in states]
    assert [text for text in seen if text] == []


# How a reader moves a large drawing, and where the view goes: by pixels across and down, and by a scale.
_WAYS = {
    "Shift+ArrowRight": (80, 0, 1),
    "Shift+ArrowLeft": (-80, 0, 1),
    "drag 40 30": (-40, -30, 1),
    "drag -25 -60": (25, 60, 1),
    "wheel -100": (0, 0, 1.25),
    "wheel 100": (0, 0, 0.8),
    "scroll 100": (0, 0, 1),
    "+": (0, 0, 1.25),
    "-": (0, 0, 0.8),
}
_VIEW = """() => {
  const { stage, svg, size } = graph;
  const scale = svg.getBoundingClientRect().width / size.width;
  return { scale, left: stage.scrollLeft, top: stage.scrollTop,
    middle: [(stage.scrollLeft + stage.clientWidth / 2) / scale, (stage.scrollTop + stage.clientHeight / 2) / scale] };
}"""


def test_a_large_drawing_moves_the_way_it_is_moved(page: Page) -> None:
    opened(page, NAMED)
    stage = page.locator("#stage")
    for way, (across, down, scale) in _WAYS.items():
        page.evaluate("graph.zoom(3); graph.stage.scrollTo(300, 250); graph.stage.focus()")
        before = measure(page, _VIEW)
        kind, *numbers_of_way = way.split()
        if kind == "drag":
            x, y = map(int, numbers_of_way)
            page.mouse.move(400, 400)
            page.mouse.down()
            page.mouse.move(400 + x, 400 + y, steps=3)
            page.mouse.up()
        elif kind in ("wheel", "scroll"):  # a wheel zooms only with the key Ctrl
            stage.dispatch_event("wheel", {"ctrlKey": kind == "wheel", "deltaY": int(numbers_of_way[0])})
        else:
            page.keyboard.press(way)
        after = measure(page, _VIEW)
        assert after["scale"] == pytest.approx(scale * before["scale"], rel=1e-3), way
        if scale == 1:
            moved = (after["left"] - before["left"], after["top"] - before["top"])
            assert moved == pytest.approx((across, down), abs=2), way
        else:
            assert after["middle"] == pytest.approx(before["middle"], abs=3), way


@pytest.mark.sampled
@pytest.mark.parametrize("words", [XY, NAMED, ["sum(tanh(W @ v))", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"]])
def test_only_the_drawing_scrolls_sideways(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    for name in ("Forward pass", "Backward pass", "Quiz"):
        press(page, name)
        for width in (320, 360, 768, 1280):
            resize(page, width, 740)
            assert measure(page, "document.documentElement.scrollWidth") <= width


def test_long_names_widen_no_panel(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    name = "a" * 150
    opened(page, [f"{name}*x + sin({name})", "--set", f"{name}=2", "--x", "3"])
    press(page, "Backward pass")
    page.evaluate("panel.show(0)")
    for width in (360, 1280):
        resize(page, width, 740)
        assert measure(page, "byId('scroller').scrollWidth <= byId('scroller').clientWidth")


def test_on_a_phone_controls_are_as_large_as_a_finger(page: Page) -> None:
    resize(page, 360, 740)
    opened(page, XY)
    sizes = page.locator("button:visible, input:visible").evaluate_all(
        "elements => elements.map((e) => e.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height))"
    )
    assert min(sizes) >= 24


@pytest.mark.slow
def test_the_current_node_is_scrolled_into_view(page: Page) -> None:
    resize(page, 360, 740)
    document = opened(page, NAMED)
    for step in document["forward"] + document["backward"]:
        page.keyboard.press("ArrowRight")
        drawn = measure(page, "(i) => graph.boxOf(i)", step["node"])
        node = page.locator(f"[data-node='{drawn}'] .outline").bounding_box()
        box = page.locator("#stage").bounding_box()
        assert node is not None
        assert box is not None
        for start, extent in (("x", "width"), ("y", "height")):
            assert box[start] - 1 <= node[start] <= box[start] + box[extent] - node[extent] + 1  # type: ignore[literal-required]


def test_with_reduced_motion_nothing_travels_and_passes_are_there_at_once(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    wanted = in_document(opened(page, XY))
    press(page, "Step")
    assert page.locator(".traveller").count() == 0
    press(page, "Backward pass")
    assert numbers(page) == wanted


def test_print_has_nothing_to_press(page: Page) -> None:
    opened(page, NAMED)
    page.evaluate("graph.zoom(3); showNumbers(graph.element(2)); byId('table').open = true")
    page.emulate_media(media="print")
    kinds = (
        "button, input[type=range], input[type=search], select, [role=tab], #map, #explanation, #element, kbd, progress"
    )
    assert (
        page.locator(kinds).evaluate_all("(all) => all.filter((one) => one.checkVisibility()).map((one) => one.id)")
        == []
    )


def test_print_has_all_numbers_and_sentences_and_then_goes_back(page: Page) -> None:
    document = opened(page, XY)
    press(page, "Step")
    before = (numbers(page), says(page))
    page.emulate_media(media="print")
    wait_for(page, "[data-adjoint]", 5)
    assert numbers(page) == in_document(document)
    printed = page.locator("body").inner_text()
    assert "x: 3 × 1 = 3, the last of 2 uses: total 2.58385" in printed
    assert "Step" not in printed
    page.emulate_media(media="screen")
    page.locator("table").wait_for(state="hidden")
    assert (numbers(page), says(page)) == before


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (XY, 1),
        (["1/(1 + exp(-(w1*x1 + w2*x2 + b)))", "--w1=2", "--x1=-1", "--w2=-3", "--x2=-2", "--b=-3"], 1),
        (["(a - b)^2*exp(-k*x)/λ", "--a=2", "--b=3", "--k=0.5", "--x=1.5", "--λ=2"], 1),
        ([CALL, "--S=100", "--K=95", "--r=0.02", "--sigma=0.3", "--T=0.5"], 3),
    ],
    ids=["sum", "neuron", "decay", "thirty"],
)
def test_a_page_is_printed_on_few_sheets(page: Page, words: list[str], most: int) -> None:
    opened(page, words)
    printed = page.pdf(format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "10mm"))
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= most


def test_the_table_agrees_with_the_drawing(page: Page) -> None:
    document = opened(page, XY)
    page.emulate_media(reduced_motion="reduce")
    page.locator("summary").click()
    press(page, "Backward pass")
    rows = page.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[:4] for row in rows] == [
        [node["label"], node["op"].replace("input", "variable"), f"{node['value']:.6g}", f"{node['adjoint']:.6g}"]
        for node in document["nodes"]
    ]
    press(page, "Quiz")
    assert page.locator("tbody tr td:nth-child(4)").all_text_contents() == [""] * 5


HOSTILE = [
    "x  # </script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "x  # <!-- <script> ]]> &lt; &amp; ' \" ` ${x} {x} \\u003c \\",
    "x  # \u202e\u2066 bidi \u200f, \x07 bell, \x1b[31m, \u2028 \u2029 \ufeff, 𝒳 and 😀",
    "x  # {policy} {data}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_the_user_wrote_is_text(page: Page, text: str) -> None:
    opened(
        page,
        ["--x", "2", "--", text] if text.startswith("-") else [f"{text}\nx^2".replace("x  #", "a = x  #"), "--x", "2"],
    )
    shown = page.locator("#formula").text_content() or ""
    assert len(re.findall("</?script>|<img", shown)) == len(re.findall("</?script>|<img", text))
    assert re.search("[\u202e\u2066\u200f\x07\x1b\u2028\u2029\ufeff]", shown) is None
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    press(page, "Step")
    assert page.locator("#formula mark").text_content() == "x^2"


def test_names_in_any_script_are_shown_as_they_are(page: Page) -> None:
    opened(page, ["שלום*名前 + x̂", "--שלום", "2", "--名前", "3", "--x̂", "1"])
    assert page.get_by_role("spinbutton", name="名前", exact=True).input_value() == "3"
    assert page.locator("#formula").text_content() == "שלום*名前 + x̂"


def test_accents_are_typeset_over_their_letters(page: Page) -> None:
    """A letter is a symbol under its accent; a word keeps its letters as they are."""
    opened(page, ["température*é + ž/3", "--température", "2", "--é", "3", "--ž", "1"])
    assert (page.locator("#typeset").text_content() or "").replace(
        "\u200b", ""
    ) == "f(température,e´,zˇ)=températuree´+zˇ3"


def formula(count: int) -> str:
    """A formula of about so many nodes, with wide and deep parts."""
    links = "; ".join(f"a{k + 1} = sin(a{k})*x + y/{k + 2}" for k in range(count // 5))
    return f"a0 = x + y; {links}; a{count // 5}"


def test_the_way_back_from_a_close_up_is_called_show_all(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    resize(page, 480, 640)
    opened(page, [formula(60), "--x", "0.9", "--y", "0.5"])
    page.evaluate("fold(false)")
    page.evaluate("go(20)")
    few = len(numbers(page))
    press(page, "Show all")
    assert len(numbers(page)) > few
    assert page.get_by_role("button", name="Fit", exact=True).count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(600, marks=pytest.mark.exhaustive)])
def test_large_formulas_can_be_stepped_through(page: Page, count: int) -> None:
    page.emulate_media(reduced_motion="reduce")
    document = opened(page, [formula(count), "--x", "0.9", "--y", "0.5"])
    assert len(document["nodes"]) >= count
    wanted = in_document(document)
    assert len(numbers(page)) <= 30
    press(page, "Fold")
    press(page, "Step")
    press(page, "Forward pass")
    press(page, "Step")
    assert numbers(page)[document["backward"][0]["node"]] == (document["value"], 1)
    assert len(numbers(page)) < 20  # a close-up of the step
    press(page, "Show all")
    assert len(numbers(page)) == len(wanted)
    press(page, "Backward pass")
    press(page, "Show all")  # so many nodes cannot be read as a whole: the pass ends with a close-up
    assert numbers(page) == wanted
    page.get_by_label("x", exact=True).fill("0.25")
    changed = run_cli(["grad", formula(count), "--x", "0.25", "--y", "0.5", "--json"]).json
    found = numbers(page)
    for i, (value, adjoint) in in_document(changed).items():
        assert found[i] == (pytest.approx(value, rel=1e-9), adjoint and pytest.approx(adjoint, rel=1e-9))


def test_a_long_formula_is_printed_whole_above_the_drawing(page: Page) -> None:
    values = [f"--x{k}={k / 4}" for k in range(36)]
    opened(page, ["+".join(f"x{k}*sin(x{k + 1})" for k in range(35)), *values])
    resize(page, 696, 1024)  # a sheet of A4 without its margins
    page.emulate_media(media="print", reduced_motion="reduce")
    page.locator("table").wait_for(state="visible")
    ends = """(() => {
      const range = document.createRange();
      const endOf = (element) => (range.selectNodeContents(element), range.getBoundingClientRect().bottom);
      return ["typeset", "formula"].map((id) => endOf(byId(id)) - byId(id).getBoundingClientRect().bottom);
    })()"""
    assert max(measure(page, ends)) <= 2
    assert measure(page, "graph.svg.getBoundingClientRect().top - byId('formula').getBoundingClientRect().bottom") >= 0
