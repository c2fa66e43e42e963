"""The page of a trace: both passes, step by step, in a real browser."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from autodiff_cli.render.formatting import number_formats
from tests.browser.support import in_document, numbers, opened, press, resize, says, wait_for
from tests.browser.test_page_movements import CALL
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]
NAMED = ["f(t) = t^2 + 1; a = x*y; b = relu(f(a) - x); b*f(y) + log(a)", "--x", "2", "--y", "3"]
FORMULAS = [
    XY,
    NAMED,
    ["where(x > 0, sqrt(x), log(y)) + max(x, y, 2)^-2", "--x", "2", "--y", "2"],
    ["relu(x)/floor(y) + 0*x + pi", "--x=-2", "--y", "2.5"],
    ["sum(tanh(W @ v + b)) * s", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]", "--b", "[0, 1]", "--s", "2"],
    ["log(x) * y / 0", "--x", "0", "--y", "3"],
    ["x^y + y", "--x", "2", "--y", "3", "--wrt", "x"],
    ["x", "--x", "2"],
    ["2 + 3"],
]


def nearly(document: dict[int, tuple[Any, Any]]) -> Any:
    return {i: pytest.approx(pair, rel=1e-12) for i, pair in document.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("words", FORMULAS, ids=lambda words: words[0])
def test_each_step_brings_the_numbers_of_its_node_and_no_others(page: Page, words: list[str]) -> None:
    document = opened(page, words)
    wanted = in_document(document)
    known: dict[int, tuple[Any, Any]] = dict.fromkeys(wanted, (None, None))
    operations = {step["node"] for step in document["forward"]}
    known |= {i: (wanted[i][0], None) for i in wanted if i not in operations}
    if len(wanted) > 1:
        assert numbers(page) == known
    for step in document["forward"]:
        page.keyboard.press("ArrowRight")
        known[step["node"]] = (step["value"], None)
        assert numbers(page) == known
    for step in document["backward"]:
        page.keyboard.press("ArrowRight")
        found = numbers(page)
        assert found[step["node"]] == (wanted[step["node"]][0], step["adjoint"])
        assert {i for i in operations if found[i][1] is not None} == {
            done["node"] for done in document["backward"][: step["step"]]
        }
    assert numbers(page) == wanted


@pytest.mark.sampled
@pytest.mark.parametrize("words", [XY, FORMULAS[4], FORMULAS[-1]], ids=lambda words: words[0])
def test_the_two_passes_play_to_their_ends(page: Page, words: list[str]) -> None:
    wanted = in_document(opened(page, words))
    page.get_by_label("Speed").fill("4")
    press(page, "Forward pass")
    wait_for(page, "[data-value]", len(wanted))
    assert {i: value for i, (value, _) in numbers(page).items()} == {i: value for i, (value, _) in wanted.items()}
    press(page, "Backward pass")
    count = sum(adjoint is not None for _, adjoint in wanted.values())
    if count:
        wait_for(page, "[data-adjoint]", count)
    assert numbers(page) == wanted


def test_the_backward_pass_runs_the_forward_pass_first(page: Page) -> None:
    wanted = in_document(opened(page, XY))
    page.get_by_label("Speed").fill("4")
    press(page, "Backward pass")
    wait_for(page, "[data-adjoint]", 5)
    assert numbers(page) == wanted


def test_the_arrow_keys_stay_in_a_field(page: Page) -> None:
    opened(page, XY)
    page.get_by_label("x", exact=True).press("ArrowRight")
    assert numbers(page)[2] == (None, None)


def test_a_pass_that_plays_stops_when_its_button_is_pressed_again(page: Page) -> None:
    opened(page, NAMED)
    button = page.get_by_role("button", name="Forward pass", exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert 0 < page.locator("[data-node].computed").count() < len(numbers(page))


def test_step_takes_over_from_a_pass_that_plays(page: Page) -> None:
    opened(page, NAMED)
    press(page, "Forward pass")
    press(page, "Step")
    button = page.get_by_role("button", name="Forward pass", exact=True)
    assert button.get_attribute("aria-pressed") == "false"


def test_the_part_of_the_formula_that_a_step_computes_is_marked(page: Page) -> None:
    document = opened(page, XY)
    assert page.locator("#formula mark").count() == 0
    assert page.locator("#formula").text_content() == "x*y + sin(x)"
    labels = {node["id"]: node["label"] for node in document["nodes"]}
    for step in document["forward"] + document["backward"]:
        page.keyboard.press("ArrowRight")
        assert page.locator("#formula mark").text_content() == labels[step["node"]]
        assert page.locator("#formula").text_content() == "x*y + sin(x)"


THREE_LINES = ["d = log(S/K)/T\ne = d - T\nS*normal_cdf(d) - K*normal_cdf(e)", "--S", "100", "--K", "95", "--T", "0.5"]
_HIDDEN_MARK = """() => {
  const [mark, formula] = ["#formula mark", "#formula"].map((each) =>
    document.querySelector(each)?.getBoundingClientRect());
  const hidden = mark && Math.max(formula.top - mark.top, mark.bottom - formula.bottom);
  return Boolean(mark) && hidden > Math.max(2, mark.height - formula.height + 2);
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_marked_line_of_a_formula_is_in_sight(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for step in opened(page, THREE_LINES)["forward"]:
        page.evaluate("step(1)")
        assert not page.evaluate(_HIDDEN_MARK), step["node"]


def test_local_times_adjoint_travels_back_along_the_edges(page: Page) -> None:
    opened(page, XY)
    page.evaluate("document.getElementById('speed').value = -2")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator(".traveller").all_text_contents() == ["−0.416147 × 1 = −0.416147"]


def test_a_negative_adjoint_stands_in_brackets(page: Page) -> None:
    opened(page, ["a - x*y", "--a", "1", "--x", "2", "--y=-3"])
    page.evaluate("document.getElementById('speed').value = -2")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert "x: -3 × (-1) = 3" in says(page)
    assert {*page.locator(".traveller").all_text_contents()} == {"−3 × (−1) = 3", "2 × (−1) = −2"}


def test_contributions_add_up_where_paths_meet(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    document = opened(page, ["x^2 + 3*x + sin(x)", "--x", "2"])
    totals = [given["total"] for step in document["backward"] for given in step["contributions"] if given["to"] == 0]
    shown = [text.replace("-", "−") for text in [*(f"{total:.4g} …" for total in totals[:-1]), f"{totals[-1]:.4g}"]]
    seen = []
    for _ in document["forward"] + document["backward"]:
        page.keyboard.press("ArrowRight")
        seen.append(page.locator("[data-node='0'] .adjoint").text_content())
    assert list(dict.fromkeys(filter(None, seen))) == shown


@pytest.mark.parametrize("words", [["x*x*y", "--x", "2", "--y", "3"], *FORMULAS[1:4]], ids=lambda words: words[0])
def test_every_edge_names_its_ends(page: Page, words: list[str]) -> None:
    document = opened(page, words)
    edges = page.evaluate("[...document.querySelectorAll('[data-from]')].map((e) => [+e.dataset.from, +e.dataset.to])")
    assert sorted(edges) == sorted([j, node["id"]] for node in document["nodes"] for j in node["inputs"])


def test_edges_look_passed_where_something_passes_and_blocked_elsewhere(page: Page) -> None:
    document = opened(page, ["where(x > 0, x^2, log(y)) + relu(y) + 3*x", "--x", "2", "--y=-3"])
    page.evaluate("go(playback.length)")
    script = """(kind) => Array.from(document.querySelectorAll(`.edge.${kind}`),
      ({ dataset }) => [+dataset.from, +dataset.to])"""
    wanted: dict[str, list[list[int]]] = {"passed": [], "blocked": []}
    for step in document["backward"]:
        for given in step["contributions"]:
            wanted["passed" if given["amount"] else "blocked"].append([given["to"], step["node"]])
    assert len(wanted["blocked"]) >= 3
    assert {kind: sorted(page.evaluate(script, kind)) for kind in wanted} == {k: sorted(v) for k, v in wanted.items()}


def test_pointing_at_a_node_explains_it(page: Page) -> None:
    opened(page, ["a = sin(x*y); a^2", "--x", "2", "--y", "3"])
    page.locator("[data-node='3']").hover()
    panel = page.locator("#details")
    assert "a = sin(x*y)" in panel.inner_text()
    assert "towards x*y: cos(x*y)" in panel.inner_text()
    assert "value" not in panel.inner_text()
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    wait_for(page, "[data-adjoint]", 5)
    page.locator("[data-node='3']").hover()
    assert "-0.27941549819892586" in panel.inner_text()
    assert "cos(x*y) = 0.96017" in panel.inner_text()
    page.evaluate("panel.show(record.nodes.findIndex(({ op }) => op === 'constant'))")
    assert "none: it depends on no variable" in panel.inner_text()


def test_named_parts_fold_and_open(page: Page) -> None:
    document = opened(page, NAMED)
    wanted = {i: (value, None) for i, (value, _) in in_document(document).items()}
    page.emulate_media(reduced_motion="reduce")
    press(page, "Forward pass")
    press(page, "Fold")
    folded = numbers(page)
    assert 0 < len(folded) < len(wanted)
    assert folded == {i: wanted[i] for i in folded}
    inside = [int(text) for text in re.findall(r"(\d+) inside", page.locator("#stage").text_content() or "")]
    assert sum(inside) + len(folded) - len(inside) == len(wanted)
    box = page.locator(".node.folded").filter(has_text=re.compile("^b"))
    box.click()
    opened_ = numbers(page)
    assert len(folded) < len(opened_)
    assert opened_ == {i: wanted[i] for i in opened_}
    press(page, "Fold")
    assert numbers(page) == wanted


def test_a_folded_part_shows_how_fast_it_changes_with_what_goes_in(page: Page) -> None:
    opened(page, ["a = x*y; b = x*exp(sin(x)); a*b", "--x", "2", "--y", "3"])
    press(page, "Fold")
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    document = run_cli(["grad", "x*exp(sin(x))", "--x", "3", "--json"]).json
    page.get_by_label("x", exact=True).fill("3")
    rate = page.locator("[data-from='0'][data-to='5'] text").first.text_content()
    assert rate == f"{document['gradient']['x']:.4g}".replace("-", "−")


def test_no_adjoint_passes_into_a_folded_part_only_where_no_path_leads_through_it(page: Page) -> None:
    opened(page, ["a = x*exp(x^2)*x; b = where(x > 5, x*y, y^2 + y); a + b", "--x", "0", "--y", "3"])
    press(page, "Fold")
    page.evaluate("playback.moveTo(playback.length); drawAll()")
    edges = page.locator("#stage .edge[data-from='0']").evaluate_all(
        "(all) => all.map((edge) => [record.nodes[edge.dataset.to].name[0], edge.classList.contains('blocked')])"
    )
    assert sorted(edges) == [["a", False], ["b", True]]


def test_find_matches_labels_and_operations(page: Page) -> None:
    opened(page, NAMED)
    find = page.get_by_label("Find a node")
    find.fill("LOG")
    assert page.locator(".match").text_content() is not None
    assert "log(a)" in (page.locator(".node.match").text_content() or "")
    find.fill("pow")
    assert page.locator("#matches").text_content() == "1 of 2"
    find.press("Enter")
    assert page.locator("#matches").text_content() == "2 of 2"
    find.press("Enter")
    assert page.locator("#matches").text_content() == "1 of 2"
    find.fill("nowhere")
    assert page.locator("#matches").text_content() == "no match"
    assert page.locator(".node.match").count() == 0


@pytest.mark.parametrize("width", [640, pytest.param(1280, marks=pytest.mark.slow)])
def test_find_opens_the_folded_part_of_a_match(page: Page, width: int) -> None:
    resize(page, width, 800)
    opened(page, [CALL, "--S=100", "--K=95", "--r=0.02", "--sigma=0.3", "--T=0.5"])
    page.evaluate("fold(true)")
    find = page.get_by_label("Find a node")
    for text, count in (("log", 2), ("sqrt", 12)):  # labels of users have the text too
        find.fill(text)
        for k in range(count):
            assert page.locator("#matches").text_content() == f"{k + 1} of {count}"
            assert text in f"{page.locator('.node.match').get_attribute('aria-label')}"
            assert "folded" not in f"{page.locator('.node.match').get_attribute('class')}"
            find.press("Enter")


def test_only_requested_nodes_are_drawn(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    run_cli(["trace", "x^2 + y*x + 2*3", "--x", "2", "--y", "3", "--only", "y", "--highlight", "y", "-o", str(file)])
    page.goto(file.as_uri())
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    wait_for(page, "[data-node][data-adjoint]", 4)
    labels = page.locator("[data-node]").evaluate_all(
        "nodes => nodes.map((node) => node.querySelector('title').textContent)"
    )
    assert labels == ["y", "y*x", "x^2 + y*x", "x^2 + y*x + 2*3"]
    assert page.locator(".node.highlighted").count() == 4


def test_numbers_are_rounded_to_the_requested_digits(page: Page) -> None:
    opened(page, [*XY, "--digits", "3"])
    press(page, "Step")
    press(page, "Step")
    assert says(page) == "sin(x) = sin(2) = 0.909"


def test_numbers_are_rounded_as_the_report_rounds_them(page: Page) -> None:
    opened(page, XY)
    chance = random.Random(0)
    numbers = [chance.uniform(-1, 1) * 10.0 ** chance.randint(-12, 25) for _ in range(500)]
    numbers += [k / 64 for k in range(-200, 200)]  # ties at some number of digits
    numbers += [0.0, 1e-5, 1e-4, 99999.95, 999999.5, 1e21, 1e22, 5e-324, 1.7976931348623157e308, 2.5, 3.5]
    for digits in (1, 2, 3, 6, 15, 17):
        shown = page.evaluate("([xs, digits]) => xs.map((x) => toDigits(x, digits))", [numbers, digits])
        assert shown == [f"{x:.{digits}g}" for x in numbers]


def test_arrays_are_written_as_the_report_writes_them(page: Page) -> None:
    opened(page, XY)
    arrays = [np.ones((2, 3)), np.full((3, 4), 0.1), np.arange(9.0) / 7, np.array([[1.5, -2.0]]), np.zeros((2, 2, 2))]
    shown = page.evaluate("(arrays) => arrays.map((x) => brief(x))", [x.tolist() for x in arrays])
    assert shown == [number_formats(None)[1](x) for x in arrays]


def test_warnings_are_shown_until_a_value_changes(page: Page) -> None:
    document = opened(page, ["abs(x)", "--x", "0"])
    assert page.locator("#warnings").inner_text() == document["warnings"][0]["message"]
    page.get_by_label("x", exact=True).fill("1")
    assert page.locator("#warnings li").count() == 0
