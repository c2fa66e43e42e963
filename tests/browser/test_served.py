"""The pages of `autodiff serve`, from a real server, in a real browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.support import numbers, press, resize
from tests.browser.test_axe import troubles
from tests.tools import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DECAY = "x,y\n0,2\n1,1.2\n2,0.75\n3,0.44\n4,0.27\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        missing("the server was not tested; `pip install -e '.[serve]'` brings what it needs")
    words = [sys.executable, "-m", "autodiff_cli", "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.send_signal(signal.SIGINT)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The server's first page. The test fails if anything is reported as an error, or asks another server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    opened = context.new_page()
    troubles: list[Any] = []
    opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith(address) else troubles.append(asked.url))
    opened.goto(address)
    yield opened
    context.close()
    assert troubles == []


def type_formula(page: Page, formula: str, values: str = "") -> None:
    page.get_by_role("textbox", name="Formula", exact=True).fill(formula)
    page.get_by_role("textbox", name="Values", exact=True).fill(values)
    press(page, "Trace")


def test_a_typed_formula_can_be_traced_and_shared(page: Page) -> None:
    type_formula(page, "x*y + sin(x)", "x=2, y=3")
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    assert numbers(page)[0] == (2, pytest.approx(2.5838531634528574))
    page.get_by_role("spinbutton", name="x", exact=True).fill("5")
    press(page, "Copy link")
    page.locator("#link-copied").filter(has_text="copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    before = numbers(page)
    page.goto("about:blank")
    page.goto(link)
    assert numbers(page) == before


@pytest.mark.slow
def test_the_examples_work(page: Page, address: str) -> None:
    examples = page.locator("[data-formula]").evaluate_all(
        "(all) => all.map((one) => [one.textContent, one.dataset.values])"
    )
    for text, values in examples:
        page.goto(address)
        page.get_by_role("button", name=text, exact=True).click()
        page.get_by_role("button", name="Backward pass", exact=True).wait_for()
        assert page.get_by_role("textbox", name="Values", exact=True).input_value() == values
        assert page.get_by_role("alert").count() == 0
    assert len(examples) >= 3


@pytest.mark.slow
def test_the_course_is_a_link_away(page: Page) -> None:
    page.get_by_role("link", name="A course on backpropagation").click()
    page.get_by_role("link", name="Fan-out").click()
    page.get_by_role("heading", name="Fan-out: why += and not =").wait_for()
    page.get_by_role("link", name="Next").click()
    page.get_by_role("button", name="Backward pass", exact=True).wait_for()


def test_a_fragment_alone_finds_its_formula(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#formula=x^2&values=%7B%22x%22%3A3%7D&step=1")
    page.wait_for_url(re.compile(r"\?formula="))
    assert numbers(page) == {0: (3, None), 1: (2, None), 2: (9, None)}


def test_a_mistake_has_the_message_of_the_terminal(page: Page) -> None:
    type_formula(page, "sine(x)")
    said = page.get_by_role("alert").inner_text()
    assert said.startswith("error: line 1, column 1: there is no function `sine`")
    assert "Did you mean `sin`?" in said
    assert page.get_by_role("textbox", name="Formula", exact=True).input_value() == "sine(x)"


def test_a_file_is_fitted_and_a_row_traced(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "decay.csv"
    file.write_text(DECAY, encoding="utf-8")
    page.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    page.get_by_label("Data").set_input_files(file)
    page.get_by_label("Start").fill("a=1.5")
    page.get_by_label("Optimizer").select_option("adam")
    page.get_by_label("Learning rate").fill("0.2")
    page.get_by_label("Epochs").fill("9")
    with page.expect_request("**/fit?*") as request:
        press(page, "Fit")
    query = parse_qs(urlsplit(request.value.url).query)
    assert query["values"] == ["a=1.5"]
    assert {"optimizer": ["adam"], "learning_rate": ["0.2"], "epochs": ["9"]}.items() <= query.items()
    page.get_by_label("Row").wait_for()
    assert "adam" in page.get_by_role("status").inner_text()
    press(page, "Watch it learn")
    page.get_by_label("Epoch", exact=True).wait_for()
    page.go_back()
    page.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    page.get_by_label("Data").set_input_files(file)
    press(page, "Fit")
    page.get_by_label("Row").wait_for()
    page.get_by_label("Row").fill("2")
    press(page, "Trace this row's loss")
    page.get_by_role("button", name="Backward pass", exact=True).wait_for()
    record = json.loads(page.locator("#record").text_content() or "")
    assert {v["name"]: v["value"] for v in record["variables"]}["y"] == 1.2


def test_rows_are_those_of_the_last_fit_and_of_the_last_file(page: Page, tmp_path: Path) -> None:
    file, row = tmp_path / "decay.csv", page.get_by_label("Row")
    file.write_text(DECAY, encoding="utf-8")
    model = page.get_by_role("textbox", name="Model")

    def fit(formula: str) -> None:
        model.fill(formula)
        press(page, "Fit")
        page.locator("#report").filter(has_not_text="Fitting").wait_for()

    page.evaluate("""() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["x,y\\n1,2\\n2,3\\n3,5\\n"], "other.csv"));
      document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
    }""")
    assert page.locator("#report").inner_text() == "other.csv: press Fit."
    fit("y ~ a*x")
    assert (row.is_visible(), row.get_attribute("max")) == (True, "3")
    page.get_by_label("Data").set_input_files(file)
    fit("y ~ a*exp(-b*x)")
    assert (row.is_visible(), row.get_attribute("max")) == (True, "5")
    page.route("**/fit?*", lambda route: route.fulfill(json={"error": "no such model"}))
    fit("y ~ b*x")
    assert (page.locator("#report").inner_text(), row.is_visible()) == ("no such model", False)


def test_on_a_phone_nothing_scrolls_sideways(page: Page) -> None:
    resize(page, 360, 740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    type_formula(page, "x*y + sin(x)")
    page.get_by_role("button", name="Backward pass", exact=True).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_a_phone_the_drawing_has_as_much_room_as_in_a_file(page: Page) -> None:
    resize(page, 390, 844)
    type_formula(page, "p = softmax(W @ x); -log(p[0])", "W=[[1, -1], [0, 2]], x=[1, 0.5]")
    page.get_by_role("button", name="Backward pass", exact=True).wait_for()
    assert {0, 1} <= numbers(page).keys()  # W and x


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(page: Page, tmp_path: Path, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    assert troubles(page) == []
    file = tmp_path / "decay.csv"
    file.write_text(DECAY, encoding="utf-8")
    page.get_by_role("textbox", name="Model").fill("y ~ a*exp(-b*x)")
    page.get_by_label("Data").set_input_files(file)
    press(page, "Fit")
    page.get_by_label("Row").wait_for()
    for width in (390, 1280, 1920):
        resize(page, width, 900)
        assert troubles(page) == []
    type_formula(page, "sine(x)")
    page.get_by_role("alert").wait_for()
    assert troubles(page) == []
    type_formula(page, "sin(x)")
    press(page, "Backward pass")
    for width in (390, 1280, 1920):
        resize(page, width, 900)
        assert troubles(page) == []
