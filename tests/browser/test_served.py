"""The pages of `autodiff serve`, from a real server, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.support import numbers, press, resize
from tests.browser.test_axe import troubles

if TYPE_CHECKING:
    from playwright.sync_api import Page

DECAY = "x,y\n0,2\n1,1.2\n2,0.75\n3,0.44\n4,0.27\n"


def type_formula(page: Page, formula: str, values: str = "") -> None:
    page.get_by_role("textbox", name="Formula", exact=True).fill(formula)
    page.get_by_role("textbox", name="Values", exact=True).fill(values)
    press(page, "Trace")


def test_a_typed_formula_can_be_traced_and_shared(served: Page) -> None:
    type_formula(served, "x*y + sin(x)", "x=2, y=3")
    served.emulate_media(reduced_motion="reduce")
    press(served, "Backward pass")
    assert numbers(served)[0] == (2, pytest.approx(2.5838531634528574))
    served.get_by_role("spinbutton", name="x", exact=True).fill("5")
    press(served, "Copy link")
    served.locator("#link-copied").filter(has_text="copied").wait_for()
    link = served.evaluate("navigator.clipboard.readText()")
    before = numbers(served)
    served.goto("about:blank")
    served.goto(link)
    assert numbers(served) == before


@pytest.mark.slow
def test_the_examples_work(served: Page, address: str) -> None:
    examples = served.locator("[data-formula]").evaluate_all(
        "(all) => all.map((one) => [one.textContent, one.dataset.values])"
    )
    for text, values in examples:
        served.goto(address)
        served.get_by_role("button", name=text, exact=True).click()
        served.get_by_role("button", name="Backward pass", exact=True).wait_for()
        assert served.get_by_role("textbox", name="Values", exact=True).input_value() == values
        assert served.get_by_role("alert").count() == 0
    assert len(examples) >= 3


@pytest.mark.slow
def test_the_course_is_a_link_away(served: Page) -> None:
    served.get_by_role("link", name="A course on backpropagation").click()
    served.get_by_role("link", name="Fan-out").click()
    served.get_by_role("heading", name="Fan-out: why += and not =").wait_for()
    served.get_by_role("link", name="Next").click()
    served.get_by_role("button", name="Backward pass", exact=True).wait_for()


def test_a_fragment_alone_finds_its_formula(served: Page, address: str) -> None:
    served.goto("about:blank")
    served.goto(f"{address}#formula=x^2&values=%7B%22x%22%3A3%7D&step=1")
    served.wait_for_url(re.compile(r"\?formula="))
    assert numbers(served) == {0: (3, None), 1: (2, None), 2: (9, None)}


def test_a_mistake_has_the_message_of_the_terminal(served: Page) -> None:
    type_formula(served, "sine(x)")
    said = served.get_by_role("alert").inner_text()
    assert said.startswith("error: line 1, column 1: there is no function `sine`")
    assert "Did you mean `sin`?" in said
    assert served.get_by_role("textbox", name="Formula", exact=True).input_value() == "sine(x)"


def test_a_file_is_fitted_and_a_row_traced(served: Page, tmp_path: Path) -> None:
    file = tmp_path / "decay.csv"
    file.write_text(DECAY, encoding="utf-8")
    served.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    served.get_by_label("Data").set_input_files(file)
    served.get_by_label("Start").fill("a=1.5")
    served.get_by_label("Optimizer").select_option("adam")
    served.get_by_label("Learning rate").fill("0.2")
    served.get_by_label("Epochs").fill("9")
    with served.expect_request("**/fit?*") as request:
        press(served, "Fit")
    query = parse_qs(urlsplit(request.value.url).query)
    assert query["values"] == ["a=1.5"]
    assert {"optimizer": ["adam"], "learning_rate": ["0.2"], "epochs": ["9"]}.items() <= query.items()
    served.get_by_label("Row").wait_for()
    assert "adam" in served.get_by_role("status").inner_text()
    press(served, "Watch it learn")
    served.get_by_label("Epoch", exact=True).wait_for()
    served.go_back()
    served.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    served.get_by_label("Data").set_input_files(file)
    press(served, "Fit")
    served.get_by_label("Row").wait_for()
    served.get_by_label("Row").fill("2")
    press(served, "Trace this row's loss")
    served.get_by_role("button", name="Backward pass", exact=True).wait_for()
    record = json.loads(served.locator("#record").text_content() or "")
    assert {v["name"]: v["value"] for v in record["variables"]}["y"] == 1.2


def test_rows_are_those_of_the_last_fit_and_of_the_last_file(served: Page, tmp_path: Path) -> None:
    file, row = tmp_path / "decay.csv", served.get_by_label("Row")
    file.write_text(DECAY, encoding="utf-8")
    model = served.get_by_role("textbox", name="Model")

    def fit(formula: str) -> None:
        model.fill(formula)
        press(served, "Fit")
        served.locator("#report").filter(has_not_text="Fitting").wait_for()

    served.evaluate("""() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["x,y\\n1,2\\n2,3\\n3,5\\n"], "other.csv"));
      document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
    }""")
    assert served.locator("#report").inner_text() == "other.csv: press Fit."
    fit("y ~ a*x")
    assert (row.is_visible(), row.get_attribute("max")) == (True, "3")
    served.get_by_label("Data").set_input_files(file)
    fit("y ~ a*exp(-b*x)")
    assert (row.is_visible(), row.get_attribute("max")) == (True, "5")
    served.route("**/fit?*", lambda route: route.fulfill(json={"error": "no such model"}))
    fit("y ~ b*x")
    assert (served.locator("#report").inner_text(), row.is_visible()) == ("no such model", False)


def test_on_a_phone_nothing_scrolls_sideways(served: Page) -> None:
    resize(served, 360, 740)
    assert served.evaluate("document.documentElement.scrollWidth") <= 360
    type_formula(served, "x*y + sin(x)")
    served.get_by_role("button", name="Backward pass", exact=True).wait_for()
    assert served.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_a_phone_the_drawing_has_as_much_room_as_in_a_file(served: Page) -> None:
    resize(served, 390, 844)
    type_formula(served, "p = softmax(W @ x); -log(p[0])", "W=[[1, -1], [0, 2]], x=[1, 0.5]")
    served.get_by_role("button", name="Backward pass", exact=True).wait_for()
    assert {0, 1} <= numbers(served).keys()  # W and x


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(served: Page, tmp_path: Path, scheme: Any) -> None:
    served.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert troubles(served) == []
    file = tmp_path / "decay.csv"
    file.write_text(DECAY, encoding="utf-8")
    served.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    served.get_by_label("Data").set_input_files(file)
    press(served, "Fit")
    served.get_by_label("Row").wait_for()
    for width in (390, 1280, 1920):
        resize(served, width, 900)
        assert troubles(served) == []
    type_formula(served, "sine(x)")
    served.get_by_role("alert").wait_for()
    assert troubles(served) == []
    type_formula(served, "sin(x)")
    press(served, "Backward pass")
    for width in (390, 1280, 1920):
        resize(served, width, 900)
        assert troubles(served) == []
