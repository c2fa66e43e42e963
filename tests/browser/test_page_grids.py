"""Arrays in the drawing: as grids, in numbers or in shades, with what is behind an element."""

from __future__ import annotations

import json
import random
import re
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


CELLS = """() => [...document.querySelectorAll("#stage .cell")].map((cell) => {
  const placeOf = (one) => [one.closest("[data-node]").dataset.node, one.parentElement.matches(".value") ? 0 : 1,
    one.dataset.row, one.dataset.column].map(Number);
  cell.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  const origins = [...document.querySelectorAll(".cell.origin")].filter((one) => one !== cell);
  return [placeOf(cell), byId("element").textContent, origins.map(placeOf)];
})"""
PRODUCTS = [
    SOFTMAX,
    ["sum((A @ B)^2)", "--A", "[[1, 2], [3, 4]]", "--B", "[[5, 6], [7, 8]]"],
    [
        "sum(tanh(M @ (N @ v)))",
        "--M",
        "[[1, -2, 0.5], [3, 4, -1]]",
        "--N",
        "[[1, 2], [-1, 0.25], [3, 0]]",
        "--v",
        "[0.5, -1]",
    ],
]


@pytest.mark.parametrize("words", PRODUCTS, ids=lambda words: words[0])
def test_behind_each_element_are_the_elements_it_is_computed_from(page: Page, words: list[str]) -> None:
    """The sentence of an element names it, ends in its number, and is a sum of products of the highlighted elements."""
    nodes = list(walked(page, words).values())
    by_id = {node["id"]: node for node in nodes}

    def number(place: list[int]) -> float:
        node, kind, row, column = place
        array = by_id[node]["adjoint" if kind else "value"]
        return float(array[row][column] if isinstance(array[0], list) else array[column])

    explained = []
    for place, said, origins in page.evaluate(CELLS):
        node, kind, row, column = place
        label, is_matrix = by_id[node]["label"], isinstance(by_id[node]["value"][0], list)
        label = label if re.fullmatch(r"\w+(\([^()]*\))?", label) else f"({label})"
        assert said.startswith(f"{'∂' if kind else ''}{label}[{f'{row}, ' if is_matrix else ''}{column}]")
        assert float(said.rpartition("= ")[2]) == pytest.approx(number(place), rel=1e-5)
        if not origins:
            continue
        *names, terms, _ = re.split(r" = |: ", said)
        factors = [float(x) for x in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", terms)]
        assert sum(float(a) * float(b) for a, b in zip(factors[::2], factors[1::2], strict=True)) == pytest.approx(
            number(place), rel=1e-4, abs=1e-5
        )
        assert sorted(factors) == pytest.approx(sorted(number(origin) for origin in origins), rel=1e-5)
        if "outer product" in said:
            assert re.findall(r"\[(\d+)\]", names[-1]) == [
                str(origin[3]) for origin in sorted(origins, key=lambda at: -at[1])
            ]
        else:
            rows, columns = ({origin[k] for origin in origins if origin[0] == origins[0][0]} for k in (2, 3))
            places = [int(k) for k in re.findall(r"(?:row|column) (\d+)", said)]
            assert not places or places[0] in rows | columns
        explained.append(place)
    assert {kind for _, kind, *_ in explained} == {0, 1} or "A @ B" in words[0]


def test_the_keys_move_in_the_grids_of_a_node(page: Page) -> None:
    words = ["sum(tanh(A @ B))", "--A", "[[1, 2], [3, 4]]", "--B", "[[5, 6, 1], [7, 8, 0]]"]
    nodes, chance = walked(page, words), random.Random(7)
    node = page.locator(f"[data-node='{nodes['A @ B']['id']}']")
    node.press("Enter")
    grid, row, column = 0, 0, 0
    script = """(node) => [...node.querySelectorAll(".cell.at")].map((cell) =>
      [cell.parentElement.matches(".value") ? 0 : 1, Number(cell.dataset.row), Number(cell.dataset.column)])"""
    for _ in range(40):
        key, down, across = chance.choice([("Up", -1, 0), ("Down", 1, 0), ("Left", 0, -1), ("Right", 0, 1)])
        node.press(f"Arrow{key}")
        column = max(0, min(column + across, 2))
        line = max(0, min(2 * grid + row + down, 3))  # both grids have two rows
        grid, row = divmod(line, 2)
        assert node.evaluate(script) == [[grid, row, column]]


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
