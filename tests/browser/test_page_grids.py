"""Arrays in the drawing: as grids, in numbers or in shades, with what is behind an element."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import opened, press
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

W, X = [[1.0, 2.0, 0.5], [3.0, 4.0, -1.0]], [1.0, -1.0, 2.0]
SOFTMAX = ["-log(softmax(W @ x + b)[0])", "--W", json.dumps(W), "--x", json.dumps(X), "--b", "[0, 1]"]


def walked(page: Page, words: list[str]) -> dict[str, Any]:
    """The page of a trace at its end; the nodes of the document, by label."""
    page.emulate_media(reduced_motion="reduce")
    document = opened(page, words)
    press(page, "Backward pass")
    return {node["label"]: node for node in document["nodes"]}


def grid(page: Page, node: Any, kind: str) -> list[str]:
    return page.locator(f"[data-node='{node['id']}'] .grid.{kind} text").all_text_contents()


def point_at(page: Page, node: Any, kind: str, row: int, column: int) -> str:
    cell = f".grid.{kind} .cell[data-row='{row}'][data-column='{column}']"
    page.locator(f"[data-node='{node['id']}'] {cell}").hover()
    return page.locator("#element").inner_text()


def highlighted(page: Page) -> set[tuple[int, str, int, int]]:
    found = page.locator(".cell.origin").evaluate_all("""cells => cells.map((cell) => [
      +cell.closest("[data-node]").dataset.node, cell.parentElement.matches(".value") ? "value" : "adjoint",
      +cell.dataset.row, +cell.dataset.column])""")
    return {tuple(cell) for cell in found}


def test_arrays_stand_in_the_drawing_number_by_number(page: Page) -> None:
    nodes = walked(page, SOFTMAX)
    assert grid(page, nodes["W"], "value") == ["1", "2", "0.5", "3", "4", "−1"]
    for label in ("W", "x", "W @ x", "b", "softmax(W @ x + b)"):
        for kind in ("value", "adjoint"):
            numbers = nodes[label][kind]
            flat = [x for row in numbers for x in row] if label == "W" else numbers
            assert grid(page, nodes[label], kind) == [f"{x:.3g}".replace("-", "−") for x in flat]


def test_numbers_come_when_they_are_computed(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    nodes = {node["label"]: node for node in opened(page, SOFTMAX)["nodes"]}
    assert grid(page, nodes["W @ x"], "value") == ["", ""]
    press(page, "Step")
    assert grid(page, nodes["W @ x"], "value") == ["0", "−3"]
    assert grid(page, nodes["W @ x"], "adjoint") == ["", ""]


def test_behind_an_element_of_a_product_are_a_row_and_a_column(page: Page) -> None:
    nodes = walked(page, SOFTMAX)
    said = point_at(page, nodes["W @ x"], "value", 0, 1)
    assert said == "(W @ x)[1], row 1 of W with all of x: 3 × 1 + 4 × (-1) + -1 × 2 = -3"
    row = {(nodes["W"]["id"], "value", 1, k) for k in range(3)}
    column = {(nodes["x"]["id"], "value", 0, k) for k in range(3)}
    assert highlighted(page) == row | column | {(nodes["W @ x"]["id"], "value", 0, 1)}


def test_behind_an_element_of_a_product_of_matrices_are_its_row_and_its_column(page: Page) -> None:
    nodes = walked(page, ["sum((A @ B)^2)", "--A", "[[1, 2], [3, 4]]", "--B", "[[5, 6], [7, 8]]"])
    said = point_at(page, nodes["A @ B"], "value", 1, 0)
    assert said == "(A @ B)[1, 0], row 1 of A with column 0 of B: 3 × 5 + 4 × 7 = 43"
    row = {(nodes["A"]["id"], "value", 1, k) for k in range(2)}
    column = {(nodes["B"]["id"], "value", k, 0) for k in range(2)}
    assert highlighted(page) == row | column | {(nodes["A @ B"]["id"], "value", 1, 0)}


def test_behind_an_element_of_a_matrixs_adjoint_is_an_outer_product(page: Page) -> None:
    nodes = walked(page, SOFTMAX)
    adjoint = nodes["W @ x"]["adjoint"]
    for row in range(2):
        for column in range(3):
            said = point_at(page, nodes["W"], "adjoint", row, column)
            assert said.startswith(f"∂W[{row}, {column}], outer product: ∂(W @ x)[{row}] × x[{column}] = ")
            assert float(said.rpartition("= ")[2]) == pytest.approx(adjoint[row] * X[column], rel=1e-5)
    assert highlighted(page) == {
        (nodes["W"]["id"], "adjoint", 1, 2),
        (nodes["W @ x"]["id"], "adjoint", 0, 1),
        (nodes["x"]["id"], "value", 0, 2),
    }


def test_behind_an_element_of_a_vectors_adjoint_is_a_column_of_the_matrix(page: Page) -> None:
    nodes = walked(page, SOFTMAX)
    said = point_at(page, nodes["x"], "adjoint", 0, 2)
    assert said.startswith("∂x[2], column 2 of W with all of ∂(W @ x): 0.5 × (-0.119203) + -1 × 0.119203 = ")
    assert float(said.rpartition("= ")[2]) == pytest.approx(nodes["x"]["adjoint"][2], rel=1e-5)
    column = {(nodes["W"]["id"], "value", row, 2) for row in range(2)}
    adjoint = {(nodes["W @ x"]["id"], "adjoint", 0, k) for k in range(2)}
    assert highlighted(page) == column | adjoint | {(nodes["x"]["id"], "adjoint", 0, 2)}


def test_a_large_array_is_shades(page: Page) -> None:
    large = [[(i * 31 + j) % 7 - 3 for j in range(40)] for i in range(5)]
    nodes = walked(page, ["sum(tanh(A))", "--A", json.dumps(large)])
    cells = page.locator(f"[data-node='{nodes['A']['id']}'] .grid.value.shades .cell")
    assert cells.count() == 5 * 24
    assert page.locator(f"[data-node='{nodes['A']['id']}'] .grid text").count() == 0
    shown = cells.evaluate_all("""cells => cells.map((cell) => [+cell.dataset.row, +cell.dataset.column,
      +cell.firstChild.style.fillOpacity, cell.firstChild.matches(".negative")])""")
    for row, column, shade, is_negative in shown:
        number = large[row][column]
        assert shade == pytest.approx(0.06 + 0.84 * abs(number) / 3, abs=1e-6)
        assert is_negative == (number < 0)
    assert point_at(page, nodes["A"], "value", 2, 0) == f"A[2, 0] = {large[2][0]}"


def test_an_array_without_room_for_its_grid_has_its_shape_in_the_drawing(page: Page) -> None:
    nodes = walked(page, ["sum(W @ x)", "--W", "[[1, 2, 3], [4, 5, 6]]", "--x", "[1, 2, 3]"])
    texts = page.evaluate(
        "(nodes) => nodes.map((i) => caption('text', 'value', i, false))", [nodes[k]["id"] for k in "Wx"]
    )
    assert texts == ["2×3", "3 numbers"]


def test_arrays_can_be_shown_as_scalars(page: Page) -> None:
    nodes = walked(page, SOFTMAX)
    page.get_by_label("x", exact=True).fill("[1, -1, 3]")
    press(page, "Scalars")
    page.get_by_label("x[2]", exact=True).wait_for()
    assert page.get_by_label("x[2]", exact=True).input_value() == "3"
    press(page, "Backward pass")
    document = run_cli(["trace", *SOFTMAX[:3], "--x", "[1, -1, 3]", *SOFTMAX[5:], "--json"]).json
    gradient = page.evaluate("""Object.fromEntries(record.variables.map(({ name, node }) =>
      [name, Number(document.querySelector(`[data-node='${node}']`).dataset.adjoint)]))""")
    flat = {f"W[{i}, {j}]": x for i, row in enumerate(document["gradient"]["W"]) for j, x in enumerate(row)}
    flat |= {f"{name}[{k}]": x for name in "xb" for k, x in enumerate(document["gradient"][name])}
    assert gradient == pytest.approx(flat, rel=1e-9)
    page.get_by_label("W[0, 1]", exact=True).fill("5")
    press(page, "Scalars")
    page.get_by_label("W", exact=True).wait_for()
    assert page.get_by_label("W", exact=True).input_value() == "[[1, 5, 0.5], [3, 4, -1]]"
    assert page.get_by_label("x", exact=True).input_value() == "[1, -1, 3]"
    assert len(nodes) == page.locator("[data-node]").count()


def test_there_is_no_switch_where_all_are_scalars(page: Page) -> None:
    opened(page, ["x*y", "--x", "2", "--y", "3"])
    assert page.get_by_role("button", name="Scalars").count() == 0


def test_elements_are_gone_through_by_keyboard(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    words = ["sum(W @ x)", "--W", "[[1, 2], [3, 4]]", "--x", "[5, 6]"]
    document = opened(page, words)
    product = next(node["id"] for node in document["nodes"] if node["op"] == "matmul")
    said, node = page.locator("#element"), page.locator(f"[data-node='{product}']")
    assert said.get_attribute("aria-live") == "polite"
    node.press("Enter")
    assert said.inner_text() == "(W @ x)[0]: its value is not known yet"
    node.press("Escape")
    press(page, "Backward pass")
    node.press("Enter")
    assert said.inner_text().endswith("row 0 of W with all of x: 1 × 5 + 2 × 6 = 17")
    for key, wanted in (("ArrowRight", "3 × 5 + 4 × 6 = 39"), ("ArrowDown", "∂(W @ x)[1] = 1"), ("ArrowUp", "= 39")):
        node.press(key)
        assert said.inner_text().endswith(wanted)
        assert page.locator(".cell.at").count() == 1
        assert page.evaluate("document.activeElement.dataset.node") == str(product)
    position = page.locator("#where").inner_text()
    node.press("Escape")
    assert said.inner_text() == ""
    assert page.locator(".cell.at").count() == 0
    node.press("ArrowLeft")
    assert page.locator("#where").inner_text() != position
    assert "17, 39" in (node.get_attribute("aria-label") or "")


def test_tangents_of_arrays_stand_in_the_grids(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    words = ["sum((W @ x)^2)", "--W", "[[1, 2], [3, 4]]", "--x", "[5, 6]"]
    nodes = {node["label"]: node for node in opened(page, words)["nodes"]}
    press(page, "Forward mode")
    page.get_by_label("Seed").select_option("W[0, 0]")
    press(page, "Forward pass")
    assert grid(page, nodes["W"], "adjoint") == ["1", "0", "0", "0"]
    assert grid(page, nodes["W @ x"], "adjoint") == ["5", "0"]
    assert grid(page, nodes["(W @ x)^2"], "adjoint") == ["170", "0"]


def test_a_running_total_is_labelled_above_its_grid(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    words = ["norm(A @ x - b)/norm(b)", "--A", "[[1, 2], [3, 4]]", "--x", "[1, 2]", "--b", "[3, 4]"]
    document = opened(page, words)
    caption = page.locator(
        f"[data-node='{next(node['id'] for node in document['nodes'] if node['label'] == 'b')}'] text.adjoint"
    )
    press(page, "Forward pass")
    for said in ("", "so far", "so far", "adjoint"):
        press(page, "Step")
        assert caption.text_content() == said
