"""Panels of the page: wiggle, descend, why this number, a link. Numbers are held against those of the command."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest

import autodiff_cli as ad
from tests.browser.support import numbers, opened, press, resize, says
from tests.each import each
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]
NEURON = ["h = tanh(w*x + b); (h - t)^2", "--w", "0.5", "--x", "2", "--b", "0.1", "--t", "0.3"]


def panel(page: Page, heading: str) -> Any:
    """The panel under a heading."""
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading, exact=True))


def descend(page: Page, *learned: str, rate: str, method: str = "sgd", steps: str = "1") -> None:
    for name in learned:
        page.get_by_label(f"learn {name}").check()
    page.get_by_label("Learning rate").fill(rate)
    page.get_by_label("Method").select_option(method)
    page.get_by_label("Steps").fill(steps)
    press(page, "Descend")


def value_in(page: Page, name: str) -> float:
    return float(page.get_by_label(name, exact=True).input_value())


def test_real_changes_stand_beside_tangent_times_epsilon_and_what_is_left(page: Page) -> None:
    document = opened(page, XY)
    page.get_by_label("slide x", exact=True).fill("2.1")
    page.get_by_label("slide x", exact=True).fill("2.5")
    before = [node["value"] for node in document["nodes"]]
    after = [node["value"] for node in run_cli(["trace", XY[0], "--x", "2.5", "--y", "3", "--json"]).json["nodes"]]
    tangents = run_cli(["grad", *XY, "--mode", "forward", "--json"]).json["tangents"]["x"]
    shown = page.locator("svg [data-change]").evaluate_all(
        "all => all.map(({dataset}) => [dataset.node, dataset.change, dataset.predicted, dataset.error].map(Number))"
    )
    assert [int(i) for i, *_ in shown] == [0, 2, 3, 4]
    for i, change, predicted, error in shown:
        assert change == pytest.approx(after[int(i)] - before[int(i)], abs=1e-14)
        assert predicted == pytest.approx(0.5 * tangents[int(i)], abs=1e-14)
        assert error == pytest.approx(change - predicted, abs=1e-14)
    table = panel(page, "Wiggle").inner_text()
    assert "x: ε = 0.5" in table
    assert f"{tangents[4]:.6g} × 0.5 = {0.5 * tangents[4]:.6g}" in table
    press(page, "Step")
    assert page.locator("svg [data-change]").count() == 0


def test_a_slider_changes_an_array_or_one_element(page: Page) -> None:
    words = ["sum(tanh(W @ v)) * s", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]", "--s", "2"]
    opened(page, words)
    page.get_by_label("element of W").select_option("[1, 0]")
    page.get_by_label("slide W").fill("3.25")
    assert page.get_by_label("W", exact=True).input_value() == "[[1, 2], [3.25, 4]]"
    page.get_by_label("element of v").select_option("all elements")
    page.get_by_label("slide v").fill("0.125")
    assert page.get_by_label("v", exact=True).input_value() == "[1.125, -0.875]"
    f = ad.parse(words[0])
    rate = f.jvp({"v": [1, 1]}, W=[[1, 2], [3.25, 4]], v=[1, -1], s=2)[1]
    assert f"{rate:.6g} × 0.125 = {rate / 8:.6g}" in panel(page, "Wiggle").inner_text()


@pytest.mark.parametrize("method", ["sgd", "momentum", "adam"])
def test_descend_takes_the_steps_of_the_fit(page: Page, method: str) -> None:
    opened(page, NEURON)
    for _ in range(2):
        descend(page, "w", "b", rate="0.1", method=method, steps="3")
    model = NEURON[0].replace("(h - t)^2", "t ~ h")
    fit = ad.fit(
        model, {"x": [2.0], "t": [0.3]}, start={"w": 0.5, "b": 0.1}, optimizer=method, learning_rate=0.1, epochs=6
    )
    assert value_in(page, "w") == pytest.approx(fit.parameters["w"], rel=1e-12)
    assert value_in(page, "b") == pytest.approx(fit.parameters["b"], rel=1e-12)
    assert value_in(page, "x") == 2
    trail = panel(page, "Descend").locator("#trail").inner_text()
    assert trail.startswith(f"output: {fit.history[0]['loss']:.6g} → ")
    assert trail.endswith(f"→ {fit.loss:.6g}")


def test_a_descent_that_starts_again_takes_the_same_steps(page: Page) -> None:
    opened(page, NEURON)
    trail = panel(page, "Descend").locator("#trail")
    trails = []
    for _ in range(2):
        descend(page, "w", rate="0.1", method="adam")
        trails.append(trail.inner_text())
        press(page, "Back to the start")
        assert value_in(page, "w") == 0.5
        assert trail.inner_text() == ""
    assert trails[0] == trails[1]


def test_the_arithmetic_of_a_step_is_written_out_and_the_passes_run_again(page: Page) -> None:
    opened(page, ["(w*x - 1)^2", "--w", "3", "--x", "2"])
    descend(page, "w", rate="0.1")
    assert "w ← w - α × ∂f/∂w = 3 - 0.1 × 20 = 1" in panel(page, "Descend").inner_text()
    assert says(page).startswith("Step 1 of sgd: the output falls from 25 to 1.")
    assert (1, 4) in numbers(page).values()
    descend(page, rate="-1")
    assert says(page).startswith("Step 2 of sgd: the output rises from 1 to 81.")
    assert "w ← w - α × ∂f/∂w = 1 - (-1) × 4 = 5" in panel(page, "Descend").inner_text()
    press(page, "Back to the start")
    assert value_in(page, "w") == 3


def test_adams_memory_is_written_out(page: Page) -> None:
    opened(page, ["w^2", "--w", "3"])
    descend(page, "w", rate="0.1", method="adam")
    lines = panel(page, "Descend").locator("#update li").all_inner_texts()
    assert [line[0] for line in lines] == ["m", "s", "w"]
    assert lines[0] == "m ← 0.9 × m + 0.1 × ∂f/∂w = 0.9 × 0 + 0.1 × 6 = 0.6"
    assert value_in(page, "w") == pytest.approx(2.9, abs=1e-9)


def test_an_objective_that_cannot_be_descended_is_reported_and_unchanged(page: Page) -> None:
    opened(page, ["w^2", "--w", "3"])
    press(page, "Descend")
    assert says(page).startswith("Select the variables to learn")
    descend(page, "w", rate="")
    assert says(page) == "Learning rate: needs a number."
    assert page.get_by_label("Learning rate").get_attribute("aria-invalid") == "true"
    descend(page, rate="1e308", steps="2")
    assert "try a smaller learning rate" in says(page)
    opened(page, ["log(w)", "--w", "1"])
    descend(page, "w", rate="0.6", steps="9")
    assert "Steps 1 to 2 of sgd: the output goes from 0 to nan. The gradient is not finite here" in says(page)
    assert value_in(page, "w") == pytest.approx(-1.1)


IS_NOW = "(all) => all.map(({ classList }) => classList.contains('now'))"
# Whether each drawing of a curve has a tangent as steep as the curve is around the point that is marked there.
TANGENTS = """(selector) => [...document.querySelectorAll(selector)].map((svg) => {
  const [curve, tangent] = [svg.querySelector(".loss, .curve"), svg.querySelector(".tangent")];
  const [start, end] = [0, tangent.getTotalLength()].map((at) => tangent.getPointAtLength(at));
  const middle = (start.x + end.x) / 2;
  const places = Array.from({ length: 2000 }, (_, k) => curve.getPointAtLength((k * curve.getTotalLength()) / 1999));
  const near = places.filter(({ x }) => Math.abs(x - middle) < 6);
  const slope = ([a, b]) => (b.y - a.y) / (b.x - a.x);
  const [ofCurve, ofTangent] = [[near[0], near.at(-1)], [start, end]].map(slope);
  return Math.abs(ofCurve - ofTangent) < 0.05 + 0.1 * Math.abs(ofCurve);
})"""


def test_tangents_of_the_slope_picture_touch_their_curves(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, ["a = x*x; b = exp(-y); sin(a) + b*x", "--x", "0.6", "--y", "0.2"])
    script = f"""() => Array.from({{ length: playback.length }}, (_, k) => {{
      go(k + 1);
      return byId("slope").hidden ? [] : ({TANGENTS})("#slope svg");
    }})"""
    touches = [touch for step in page.evaluate(script) for touch in step]
    assert touches == [True] * 8  # x*x, -y, exp(-y) and sin(a), forward and backward


def test_one_parameter_has_a_curve_two_have_contours_with_the_trail(page: Page) -> None:
    opened(page, NEURON)
    descend(page, "w", rate="0.1", steps="4")
    curve = page.get_by_role("img", name="The output as w changes, with the trail")
    assert curve.locator("circle").count() == 5
    assert curve.locator("circle").evaluate_all(IS_NOW) == [False] * 4 + [True]
    assert curve.locator(".loss").count() == 1
    assert page.evaluate(TANGENTS, "#curve > svg") == [True]
    descend(page, "b", rate="0.1", steps="4")
    contours = page.get_by_role("img", name="Contours of the output over w and b, with the trail")
    assert contours.locator("circle").count() == 5
    heights = [float(title.split(" = ")[1]) for title in contours.locator(".level title").all_text_contents()]
    assert heights == sorted({*heights})
    assert len(heights) == contours.locator(".level").count() > 3
    descend(page, "x", rate="0.01", steps="2")
    assert page.get_by_role("img", name="The output after each step").locator("circle").count() == 3


# The points of a chart in the numbers of its axes: from the places of the numbers along them.
PLOTTED = """() => {
  const at = (one, name) => Number(one.getAttribute(name));
  const axis = (name, anchor) => {
    const texts = [...document.querySelectorAll(`#curve text[text-anchor=${anchor}]`)];
    const places = texts.map((one) => [at(one, name), Number(one.textContent.replace("−", "-"))]);
    const ticks = places.filter(([, x]) => Number.isFinite(x));
    const [[from, low], [to, high]] = [ticks[0], ticks.at(-1)];
    return (place) => low + ((place - from) / (to - from)) * (high - low);
  };
  const [toX, toY] = [axis("x", "middle"), axis("y", "end")];
  const circles = [...document.querySelectorAll("#curve circle")];
  return circles.map((circle) => [toX(at(circle, "cx")), toY(at(circle, "cy") + 4)]); // texts are 4 pixels lower
}"""


@pytest.mark.parametrize("names", ["w", "wb", "wbx"])
def test_the_trail_stands_at_its_numbers_along_both_axes(page: Page, names: str) -> None:
    opened(page, NEURON)
    for name in names:
        page.get_by_label(f"learn {name}").check()
    read = "[playback.point.w, playback.point.b, playback.computation.values[record.output]]"
    visited = [page.evaluate(read)]
    for _ in range(3):
        press(page, "Descend")
        visited.append(page.evaluate(read))
    points = [
        (w, value) if names == "w" else (w, b) if names == "wb" else (k, value)
        for k, (w, b, value) in enumerate(visited)
    ]
    spread = [max(each) - min(each) or 1 for each in zip(*points, strict=True)]
    for shown, wanted in zip(page.evaluate(PLOTTED), points, strict=True):
        for x, y, size in zip(shown, wanted, spread, strict=True):
            assert x == pytest.approx(y, abs=0.03 * max(size, abs(y)))


def test_contours_lie_where_the_output_has_their_height(page: Page) -> None:
    opened(page, ["a^2 + b^2", "--a", "1", "--b", "2"])
    script = """(formula) => {
      const at = (k) => k / 10 - 1.05;
      const height = new Function("x", "y", `return ${formula} - 0.5`);
      const axis = Array.from({ length: 22 }, (_, k) => at(k));
      const heights = axis.map((y) => axis.map((x) => height(x, y) + 0.5));
      const lines = levelLines(heights, 0.5, ([x, y]) => height(at(x), at(y)));
      return lines.map(({ points, isClosed }) => ({ isClosed, points: points.map((point) => point.map(at)) }));
    }"""
    pieces = page.evaluate(script, "x * x + y * y")
    assert [piece["isClosed"] for piece in pieces] == [True]
    assert len(pieces[0]["points"]) > 20
    for x, y in pieces[0]["points"]:
        assert math.hypot(x, y) == pytest.approx(math.sqrt(0.5), abs=0.005)
    points = [point for piece in page.evaluate(script, "x / y") for point in piece["points"]]
    assert len(points) > 20  # on the line y = 2*x, and none at the pole
    assert [abs(x - y / 2) < 0.001 for x, y in points] == [True] * len(points)
    assert page.evaluate(script, "(x > 0 ? 1 : 0)") == []  # no contour where the height jumps


def test_why_a_number_is_a_sum_in_symbols_in_numbers_and_what_it_gives(page: Page) -> None:
    opened(page, XY)
    page.locator("svg [data-node='0']").click()
    said = panel(page, "Why this number?").locator(".equation").all_inner_texts()
    assert said == ["∂f/∂x = cos(x) × ∂f/∂(sin(x)) + y × ∂f/∂(x*y)", "= (-0.416147) × 1 + 3 × 1", "= 2.58385"]


def test_a_slope_without_a_short_formula_is_named_as_a_derivative(page: Page) -> None:
    opened(page, ["s = spline(x, [0, 1], [2, 3]); s^2", "--x", "0.5"])
    page.evaluate("panel.show(record.variables[0].node)")
    assert panel(page, "Why this number?").locator(".equation").first.inner_text() == "∂f/∂x = ∂s/∂x × ∂f/∂s"
    sums = r"\frac{\partial s}{\partial x} \cdot \frac{\partial f}{\partial s}"
    assert sums in page.evaluate("why.latex()")


def test_paths_of_a_node_are_those_of_the_command_and_light_up(page: Page) -> None:
    words = ["a = x*y; a + sin(a)*x", "--x", "2", "--y", "3"]
    opened(page, words)
    document = run_cli(["trace", *words, "--paths", "x", "--json"]).json
    page.locator("svg [data-node='0']").click()
    shown = panel(page, "Why this number?")
    assert f"{document['paths_count']['x']} paths to the output" in shown.inner_text()
    products = [text.rpartition("= ")[2] for text in shown.locator("li").all_inner_texts()]
    assert products == [f"{path['product']:.6g}" for path in document["paths"]["x"]]
    assert page.locator("svg .edge.on-path").count() == page.locator("svg .edge").count() - 1  # all but that from y
    resize(page, 1100, 700)
    assert page.locator("svg .edge.on-path").count() == page.locator("svg .edge").count() - 1
    shown.get_by_role("button", name="x → a → a + sin(a)*x", exact=True).hover()
    assert page.locator("svg .edge.on-path").count() == 2
    page.mouse.move(0, 0)
    assert page.locator("svg .edge.on-path").count() == page.locator("svg .edge").count() - 1
    press(page, "Step")
    assert page.locator("svg .edge.on-path").count() == 0


def test_the_largest_paths_whatever_their_signs_are_those_of_the_command(page: Page) -> None:
    words = ["a = x - y; b = a*x - 3*a; b^2 - 7*b + sin(a)*b/5 - 9*a", "--x", "2", "--y", "3"]
    opened(page, words)
    document = run_cli(["trace", *words, "--paths", "--limit", "6", "--json"]).json
    for name, paths in document["paths"].items():
        node = next(node["id"] for node in document["nodes"] if node["label"] == name)
        found = page.evaluate("(start) => pathsFrom(start).paths.map(({ product }) => product)", node)
        assert len({product > 0 for product in found}) == 2
        assert found == pytest.approx([path["product"] for path in paths]), name


def test_more_paths_than_atoms_are_counted_exactly(page: Page) -> None:
    links = "; ".join(f"a{k + 1} = a{k} + sin(a{k})" for k in range(60))
    opened(page, [f"a0 = x; {links}; a60", "--x", "0.1"])
    page.evaluate("panel.show(0)")
    assert f"{2**60} paths to the output, the 6 largest" in panel(page, "Why this number?").inner_text()


def test_why_of_a_node_that_is_chosen_away_or_takes_no_gradient(page: Page) -> None:
    opened(page, ["where(x > 0, x^2, log(y))", "--x", "2", "--y", "3"])
    document = run_cli(["trace", "where(x > 0, x^2, log(y))", "--x", "2", "--y", "3", "--json"]).json
    ids = {node["label"]: node["id"] for node in document["nodes"]}
    page.locator(f"svg [data-node='{ids['log(y)']}']").click()
    assert "its derivative is a structural zero" in panel(page, "Why this number?").inner_text()
    page.locator("svg [data-node='0']").click()
    assert page.locator("svg .edge.on-path").count() == 2  # through x^2 only, not through the condition
    opened(page, ["where(x > 1, x^2, 3*x)", "--x", "2"])
    page.evaluate("panel.show(0)")
    reasons = panel(page, "Why this number?").inner_text()
    assert "3*x contributes nothing: its adjoint is 0." in reasons  # its derivative is 3
    page.locator(f"svg [data-node='{ids['2']}']").click()
    assert "has no adjoint" in panel(page, "Why this number?").inner_text()


def test_a_derivation_is_copied_as_latex(page: Page) -> None:
    opened(page, XY)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("svg [data-node='0']").click()
    press(page, "Copy as LaTeX")
    page.locator("#latex-copied").filter(has_text="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == (
        "\\begin{align*}\n"
        "\\frac{\\partial f}{\\partial x} &= \\cos\\left(x\\right) \\cdot "
        "\\frac{\\partial f}{\\partial \\left(\\sin\\left(x\\right)\\right)}"
        " + y \\cdot \\frac{\\partial f}{\\partial \\left(x \\, y\\right)} \\\\\n"
        "&= \\left(-0.416147\\right) \\cdot 1 + 3 \\cdot 1 \\\\\n"
        "&= 2.58385\n"
        "\\end{align*}"
    )
    escaped = page.evaluate("textInLatex('a_b #1 50% x&y $c')")
    assert not re.search(r"(?<!\\)[_#%&$]", escaped)
    numbers = [2.5e-7, -3e12, 0.125, -4, 1e100]
    shown = page.evaluate("(numbers) => numbers.map(latexNumber)", numbers)
    assert [float(re.sub(r" \\cdot 10\^\{(.*)\}", r"e\1", text)) for text in shown] == numbers


@pytest.mark.parametrize(
    ("words", "typed"),
    [(XY, "7.5"), (["sum(W @ v)", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"], "[[1, -inf], [3, 7.5]]")],
    ids=["numbers", "arrays"],
)
def test_a_link_opens_the_page_at_formula_values_and_step(page: Page, words: list[str], typed: str) -> None:
    opened(page, words)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    name = words[1].removeprefix("--")
    page.get_by_label(name, exact=True).fill(typed)
    for _ in range(3):
        press(page, "Step")
    page.wait_for_timeout(500)
    before = numbers(page), says(page)
    press(page, "Copy link")
    page.locator("#link-copied").filter(has_text="copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.search(r"#formula=.*&values=.*&step=3$", link)
    page.goto("about:blank")
    page.goto(link)
    assert (numbers(page), says(page)) == before


def test_a_link_keeps_forward_mode_its_variable_and_its_step(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, XY)
    page.get_by_label("Seed").select_option("y")
    press(page, "Step")
    tangents = "[...document.querySelectorAll('[data-node]')].map(({ dataset }) => dataset.tangent)"
    page.get_by_label("x", exact=True).fill("2.5")  # which changes no step
    before = says(page), page.evaluate(tangents)
    assert before[0].startswith("x*y = 2.5 × 3 = 7.5; tangent 2.5")
    link = page.evaluate("location.href.split('#')[0] + fragment()")
    page.goto("about:blank")
    page.goto(link)
    assert (says(page), page.evaluate(tangents)) == before


def test_a_link_keeps_the_view_of_elements(page: Page) -> None:
    opened(page, ["sum(W @ v)", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"])
    press(page, "Scalars")
    page.locator("#scalars[aria-pressed=true]").wait_for()
    page.evaluate("go(3)")
    before = numbers(page), says(page)
    link = page.evaluate("location.href.split('#')[0] + fragment()")
    page.goto("about:blank")
    page.goto(link)
    assert (numbers(page), says(page)) == before


def test_a_link_for_another_formula_changes_nothing(page: Page) -> None:
    opened(page, XY)
    before = numbers(page)
    page.evaluate("location.hash = 'formula=x^2&values={\"x\":5}&step=1'")
    page.get_by_role("status").filter(has_text="The link is for another formula").wait_for()
    assert numbers(page) == before


def test_the_quiz_leaves_nothing_to_peep_at(page: Page) -> None:
    opened(page, XY)
    page.locator("svg [data-node='0']").click()
    press(page, "Quiz")
    assert "2.58385" not in page.locator("body").inner_text()
    press(page, "Quiz")
    assert panel(page, "Why this number?").is_visible()


def test_names_that_mean_something_to_a_script_have_panels_too(page: Page) -> None:
    opened(page, ["__proto__^2 + constructor", "--set", "__proto__=3", "--set", "constructor=1"])
    page.get_by_label("slide __proto__").fill("3.5")
    assert value_in(page, "__proto__") == 3.5
    descend(page, "__proto__", "constructor", rate="0.5", method="adam")
    assert value_in(page, "constructor") == pytest.approx(0.5)


def test_contours_are_closed_only_around_stationary_points(page: Page) -> None:
    """The valley of Rosenbrock's function is narrower than a grid can resolve; its only stationary point is (1, 1)."""
    opened(page, ["(1 - x)^2 + 100*(y - x^2)^2", "--x", "-1", "--y", "1.5"])
    for name in "xy":
        page.get_by_role("checkbox", name=f"learn {name}").check()
    lines = [
        path or ""
        for path in page.locator("#curve .level").evaluate_all("all => all.map((path) => path.getAttribute('d'))")
    ]
    assert len(lines) >= 6
    pieces = [re.findall(r"-?[\d.]+ -?[\d.]+", piece) for path in lines for piece in path.split("M")[1:]]
    assert not [piece for piece in pieces if len(piece) > 2 and piece[0] == piece[-1]]
    opened(page, ["x^2 + y^2", "--x", "0.5", "--y", "0.3"])
    for name in "xy":
        page.get_by_role("checkbox", name=f"learn {name}").check()
    path = page.locator("#curve .level").first.get_attribute("d") or ""
    points = re.findall(r"-?[\d.]+ -?[\d.]+", path)
    assert points[0] == points[-1]


def test_several_steps_are_called_several_steps(page: Page) -> None:
    opened(page, ["w^2", "--w", "4"])
    page.get_by_role("checkbox", name="learn w").check()
    page.get_by_label("Steps", exact=True).fill("20")
    press(page, "Descend")
    assert says(page).startswith("Steps 1 to 20 of sgd: the output falls from 16 to ")
    trail = panel(page, "Descend").locator("#trail").inner_text()
    value = page.evaluate("brief(playback.computation.values[record.output])")
    values = [16 * 0.8 ** (2 * k) for k in range(21)]  # each step takes a fifth of w
    assert trail == f"output: 16 → … → {' → '.join(f'{x:.6g}' for x in values[-8:])}"
    assert trail.endswith(f" → {value}")


def test_why_of_arrays_shows_the_rule(page: Page) -> None:
    opened(page, ["sum(tanh(W @ x))", "--W", "[[1, 2], [3, 4]]", "--x", "[0.1, 0.2]"])
    page.evaluate("panel.show(record.variables.find(({name}) => name === 'W').node)")
    text = panel(page, "Why this number?").inner_text()
    assert "part of" not in text
    assert "∂f/∂W = outer(∂f/∂(W @ x), x)" in text
    assert r"\text{outer(}\frac{\partial f}{\partial \left(W \, x\right)}\text{, x)}" in page.evaluate("why.latex()")


def test_the_title_of_the_scalars_is_their_graph(page: Page) -> None:
    values = ["--W", "[[1, -1], [0, 2]]", "--x", "[1, 0.5]"]
    opened(page, ["p = softmax(W @ x); -log(p[0])", *values])
    press(page, "Scalars")
    page.locator("#scalars[aria-pressed=true]").wait_for()
    assert "exp(" in page.locator("#formula").inner_text()  # the graph has the exponentials of the softmax


@each("formula, parts", [("1/x", 2), ("tan(x)", 2), ("floor(x) + 0*x", 5), ("x^3", 1), ("abs(x)", 1)])
def test_the_slope_picture_does_not_connect_both_sides_of_a_pole_or_a_jump(
    page: Page, formula: str, parts: int
) -> None:
    opened(page, [formula, "--x=1.1"])
    page.evaluate("go(1)")
    curve = page.locator("#slope .curve").get_attribute("d") or ""
    assert len(re.findall("M[^ML]+L", curve)) == parts  # a part of a single point is not drawn


def test_a_derivation_calls_parts_that_are_too_long_by_what_the_page_calls_them(page: Page) -> None:
    text = "log1p(where(x > 0, x^2, sin(x))*max(x, y)*exp(x + y) + sin(x*y)/cosh(x - y)^3) + 2*x"
    opened(page, [text, "--x=2", "--y=3"])
    found = "record.nodes.flatMap((_, i) => { panel.show(i); return why.latex().match(/partial n_.*/) ?? []; })"
    assert page.evaluate("record.latex.nodes.some((text) => /^n_/.test(text))")
    assert page.evaluate(found) == []


NAMED = "d1 = x*y; d2 = d1 - 2*y; sin(d1)*exp(d2 + 𝑧)"


@pytest.mark.parametrize(
    ("text", "place", "label"),
    [
        (NAMED, "sin", "sin(d1)"),
        (NAMED, "exp", "exp(d2 + 𝑧)"),
        (NAMED, "2 + 𝑧", "d2"),
        (NAMED, "+ 𝑧", "d2 + 𝑧"),
        ("x*tanh(x)", "x)", "x"),  # drawn once, and read from its first place
    ],
)
def test_a_click_on_a_part_of_the_formula_shows_its_node(page: Page, text: str, place: str, label: str) -> None:
    opened(page, [text, *(f"--{name}=1" for name in "xy𝑧" if name in text)])
    at = page.evaluate(
        """(place) => {
          const range = new Range();
          const walker = document.createTreeWalker(byId("formula"), NodeFilter.SHOW_TEXT);
          let [before, node] = [0, walker.nextNode()];
          const start = byId("formula").textContent.indexOf(place);
          for (; before + node.data.length <= start; node = walker.nextNode()) before += node.data.length;
          range.setStart(node, start - before);
          range.setEnd(node, start - before + 1);
          const { right, top, bottom } = range.getBoundingClientRect();
          return [right - 1, (top + bottom) / 2];
        }""",
        place,
    )
    page.mouse.click(*at)
    outlined = "record.nodes.filter((_, i) => graph.element(i)?.matches('.match')).map((node) => node.label)"
    assert page.evaluate(outlined) == [label]
    typeset = page.evaluate("(label) => htmlElement('p', math(label)).textContent", label)
    assert (page.locator("#details h3").text_content() or "").startswith(typeset)
