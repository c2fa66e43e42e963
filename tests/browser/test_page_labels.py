"""Labels are measured, not counted: whatever the letters and the font, no label is wider than its box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.support import measure, opened, resize
from tests.browser.test_page_layout import PAGES, sizes

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NAMES = (
    *("WWWWWWWW", "mmmmmmmm", "iiiiiiii", "llllllll", "W_MMMM", "m_iiii", "theta_lambda", "Delta_Omega", "sigma_max"),
    *("温度", "温度测量的平均值", "x_温度", "Ωmega", "ΣΣΣΣΣΣ", "жжжжжж", "Ж_Щ", "אבגד", "é_è", "illicit_ill"),
    *("MOMENTUM_W", "learning_rate", "km_per_hour", "temperature_in_kelvin", "gross_domestic_product_2020"),
)


def _functions(function: str, inner: str, x: str) -> list[str]:
    """Return a formula whose calls are folded, from names of its functions and of their arguments."""
    own = f"{inner}({x}, y) = {x}*y + sin({x})*exp(y) + {x}^2 + y^2 + tanh({x}*y)"
    outer = f"{function}(c) = {inner}(c, c*2)*{inner}(c/2, c) + log(c)"
    return [f"{own}; {outer}; {function}(a)*{function}(b) + {function}(a*b) + {inner}(a, b)", "--a=1.5", "--b=2"]


def _sum(name: str) -> list[str]:
    """Return a sum of many terms whose factors have a name and a number."""
    values = [f"--{name}{k}={k}" for k in range(1, 12)]
    return ["+".join(f"{name}{k}*sin({k}*x)" for k in range(1, 12)), "--x=0.3", *values]


FORMULAS = {
    **{name: [f"{name}*x + sin({name})", f"--{name}=1.25", "--x=-0.5"] for name in _NAMES},
    "wide functions": _functions("MMMM", "WMWMWM", "WWW"),
    "narrow functions": _functions("lili", "illillill", "iii"),
    "Chinese functions": _functions("平均", "温度变化率", "水"),
    "Greek functions": _functions("Lambda", "theta", "alpha"),
    "wide sum": _sum("WMW"),
    "Chinese sum": _sum("温"),
    "operations": [
        "gelu(x) + lambertw(y)*gamma(x) + normal_cdf(y) + softplus(x)*atan2(x, y) + hypot(x, y) + log1p(x)*erfc(y)",
        *("--x=1.1", "--y=0.4"),
    ],
    "long numbers": ["(-x)^3*1.23456789e-12 + y*x", "--x=-1.23456789e-7", "--y=3"],
    "cancelling": ["(x + 1e8)*y - x*y - 1e8*y", "--x=1e-9", "--y=-1.75"],
    "arrays": ["MMMM @ tanh(W @ x)", "--W=[[1, 2.5], [-4, 5.12345]]", "--x=[0.1, -0.2]", "--MMMM=[1, -2]"],
    **{name: PAGES[name] for name in ("named", "choices", "extreme", "reuse", "softmax", "xor")},
}
WIDER = """([font, position]) => {
  if (font) {
    document.styleSheets[0].insertRule(`.autodiff text { font-family: "${font}", sans-serif !important }`);
    fonts.clear();
    playback.computation = Computation.ofRecord(); // of which no drawing is known yet
    graph.refold(openFor(graph.parts, graph.stage));
    drawAll();
  }
  go(position * playback.length);
  const place = (element) => element.getBoundingClientRect();
  const isWider = (text, box) => {
    const [own, room] = [text, box].map(place);
    return own.left < room.left - 1.5 || own.right > room.right + 1.5;
  };
  const roomOf = (text) => text.closest(".group")?.querySelector(".enclosure")
    ?? text.closest(".node").querySelector(text.classList.contains("middle") ? ".outline" : ".reach");
  const texts = [...document.querySelectorAll("#stage .node text, #stage .group text")];
  const wider = texts.filter((text) => text.textContent && isWider(text, roomOf(text)));
  const squeezed = document.querySelectorAll("#stage .node > text[textLength]");
  return [...wider, ...squeezed].map(({ textContent }) => textContent);
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("name", FORMULAS)
def test_no_label_is_wider_than_its_box(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    for width, height in sizes(False, [*FORMULAS].index(name)):
        resize(page, width, height)
        opened(page, FORMULAS[name])
        for font, position in (("", 0), ("", 1), ("DejaVu Sans", 1)):
            assert measure(page, WIDER, [font, position]) == [], (font, position)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["länge_der_schiene", "θ_0", "sigma_max", "theta_lambda", "x_温度", "a1b", "x_max_2", "rate.y"]
)
def test_a_name_has_the_same_letters_and_index_in_its_node_as_in_the_formula(page: Page, name: str) -> None:
    opened(page, [f"{name}*sin({name})", f"--{name}=1.25"])
    parts = "([...document.querySelector('.node.input .name').childNodes].map((part) => part.textContent))"
    header = """[...document.querySelector("#typeset msub")?.children
      ?? [document.querySelector("#typeset mi[mathvariant=normal]")]].map((part) => part.textContent)"""
    assert page.evaluate(parts) == page.evaluate(header)


def test_a_comparison_has_its_own_sign(page: Page) -> None:
    signs = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "==": "=", "!=": "≠"}
    opened(page, [" + ".join(f"(x {sign} 1)" for sign in signs), "--x", "2"])
    drawn = page.locator(".node text").all_text_contents()
    assert [sign for sign in drawn if sign in signs.values()] == [*signs.values()]


def test_the_name_of_a_function_has_no_index(page: Page) -> None:
    opened(page, ["atan2(x, y)", "--x=1", "--y=2"])
    assert page.locator(".node.output .symbol").inner_html() == "atan2"


def test_a_power_of_a_name_has_no_index(page: Page) -> None:
    opened(page, ["b = sin(x); b^2 + x", "--x=1"])
    caption = page.locator(".node .caption", has_text="b2").first
    sizes = caption.evaluate(
        "(text) => [...text.childNodes].map((part) => [part.textContent, part.hasAttribute('font-size')])"
    )
    assert sizes == [["b", False], ["2", True]]


def test_a_name_is_cut_where_its_letters_end_the_room_not_where_their_number_does(page: Page) -> None:
    opened(page, PAGES["xy"])
    shown = page.evaluate("['iiiiiiiiiiiiiiiiii', 'WWWWWWWWWWWWWWWWWW'].map((name) => callIn(name, 125, NAME))")
    assert shown[0] == "i" * 18
    assert "…" in shown[1]


def test_a_shortened_label_is_not_wider_than_it_may_be(page: Page) -> None:
    opened(page, PAGES["xy"])
    widths = "Array.from({ length: 90 }, (_, room) => widthOf(cut('abcdefghijk', room), 'caption'))"
    assert all(width <= room for room, width in enumerate(page.evaluate(widths)))
    assert page.evaluate("cut('abcdefghijk', widthOf('abcd…ijk', 'caption'))") == "abcd…ijk"


def test_a_definition_without_room_for_its_call_keeps_its_name(page: Page) -> None:
    opened(page, PAGES["xy"])
    rooms = "['h3 = f(h2, x3)', 'h3 = f(…)', 'h3 = f(', 'h3'].map((text) => widthOf(text, 'caption') + 0.1)"
    names = page.evaluate(f"{rooms}.map((room) => callIn('h3 = f(h2, x3)', room))")
    assert names == ["h3 = f(h2, x3)", "h3 = f(…)", "h3", "h3"]


def test_a_call_that_is_cut_is_still_recognized(page: Page) -> None:
    opened(page, PAGES["xy"])
    wanted = ["temperature(a, b)", "temperature(…)", "temperature", "temp…ure", ""]
    names = f"{[*wanted[:-1], 't…e']}.map((text) => callIn('temperature(a, b)', widthOf(text) + 0.1, 'value'))"
    assert page.evaluate(names) == wanted


@pytest.mark.parametrize("text", ["x", "3"])
def test_an_output_that_is_a_leaf_shows_its_name(page: Page, text: str) -> None:
    opened(page, [text, *(["--x", "2"] if text == "x" else [])])
    assert page.locator("[data-node] text").all_text_contents()[0] == text


def test_long_names_leave_room_for_sliders(page: Page) -> None:
    opened(
        page, ["coefficient_of_expansion*length_of_the_rail", "--coefficient_of_expansion=1", "--length_of_the_rail=2"]
    )
    for width in (320, 1280):
        resize(page, width, 800)
        if width == 320:
            page.get_by_role("tab", name="Values").click()
        widths = measure(page, "[...document.querySelectorAll('.variable input')].map((each) => each.offsetWidth)")
        assert min(widths) >= 60, width  # pixels


def test_different_names_look_different_in_nodes_and_in_the_formula(page: Page) -> None:
    names = ["x1", "x_1", "x₁", "λ", "lambda"]
    opened(page, [" + ".join(f"sin({name})" for name in names), *(f"--{name}=1.25" for name in names)])
    labels = "[...document.querySelectorAll('.node.input .name')].map((name) => name.innerHTML)"
    typeset = "[...document.querySelectorAll('#typeset mi, #typeset msub')].map((part) => part.outerHTML)"
    assert len(set(page.evaluate(labels))) == len(names)
    assert sum("sin" not in part for part in set(page.evaluate(typeset))) >= len(names)
