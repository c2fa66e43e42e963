"""Values are changed in the page, and everything follows."""

from __future__ import annotations

import json
import math
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from autodiff_cli.language.lexer import quote_name
from tests.browser.support import in_document, numbers, opened, press, says
from tests.each import amount, each
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHANGES = [
    (["x*y + sin(x)", "--x", "2", "--y", "3"], {"x": "-1.25"}),
    (["f(t) = t^2 + 1; a = x*y; b = relu(f(a) - x); b*f(y) + log(a)", "--x", "2", "--y", "3"], {"x": "1e-3", "y": "7"}),
    (["where(x > 0, sqrt(x), y) + max(x, y)", "--x", "2", "--y", "3"], {"x": "-4"}),
    (["log(x)/y", "--x", "2", "--y", "3"], {"x": "0", "y": "0"}),
    (["gelu(x) + gamma(y)^x", "--x", "2", "--y", "3"], {"x": "0.5", "y": "4.5"}),
    (
        ["sum(tanh(W @ v)) * s", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]", "--s", "2"],
        {"W": "[[0, 1], [-2, .5]]", "s": "3"},
    ),
    (["x^y + y", "--x", "2", "--y", "3", "--wrt", "x"], {"y": "2"}),
    (["λ*θ_0 + x₁", "--λ", "2", "--θ_0", "3", "--x₁", "4"], {"λ": "5", "x₁": "0.1"}),
]


def flat(numbers: Any) -> list[Any]:
    """All elements, at any depth."""
    return [x for part in numbers for x in flat(part)] if isinstance(numbers, list | tuple) else [numbers]


def at_the_end(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")


@pytest.mark.sampled
@pytest.mark.parametrize(("words", "changes"), CHANGES, ids=lambda what: what[0] if isinstance(what, list) else "")
def test_changed_values_give_what_the_command_gives(page: Page, words: list[str], changes: dict[str, str]) -> None:
    opened(page, words)
    at_the_end(page)
    for name, text in changes.items():
        page.get_by_label(name, exact=True).fill(text)
    changed = [*words]
    for name, text in changes.items():
        place = changed.index(f"--{name}")
        changed[place : place + 2] = [f"--{name}={text}"]
    document = run_cli(["trace", *changed, "--json"]).json
    found = numbers(page)
    wanted = in_document(document)
    assert found.keys() == wanted.keys()
    for i in wanted:
        assert flat(found[i]) == [
            x if isinstance(x, str | None) else pytest.approx(x, rel=1e-12) for x in flat(wanted[i])
        ]
    report = [line.strip() for line in run_cli(["trace", *changed]).splitlines()]
    assert f"{len(document['backward'])}. {says(page).splitlines()[0]}" in report


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["$ price", "$", "__proto__", "constructor", "<b>$&</b>"])
def test_variables_may_have_any_name(page: Page, name: str) -> None:
    words = [f"{quote_name(name)}*x + x/1e400", f"--set={quote_name(name)}=3", "--x=2"]
    opened(page, words)
    at_the_end(page)
    page.get_by_label(name, exact=True).fill("5")
    words[1] = f"--set={quote_name(name)}=5"
    assert numbers(page) == in_document(run_cli(["trace", *words, "--json"]).json)


def test_a_number_that_becomes_negative_gets_brackets(page: Page) -> None:
    opened(page, ["(x - y)^3", "--x", "2", "--y", "3"])
    at_the_end(page)
    press(page, "Reset")
    press(page, "Step")
    assert says(page) == "x - y = 2 - 3 = -1"
    page.get_by_label("y", exact=True).fill("-3")
    assert says(page) == "x - y = 2 - (-3) = 5"
    page.get_by_label("x", exact=True).fill("-5")
    press(page, "Step")
    assert says(page) == "(x - y)^3 = (-2)^3 = -8"


def test_kinks_and_slopes_without_a_formula_have_the_warnings_of_the_command(page: Page) -> None:
    words = ["abs(x) + log(y) + 0^z + max(u, w, 1)"]
    opened(page, [*words, "--x", "2", "--y", "3", "--z", "2", "--u", "0", "--w", "0"])
    at_the_end(page)
    for name, value in {"x": "0", "y": "-1", "z": "3", "u": "2", "w": "2"}.items():
        page.get_by_label(name, exact=True).fill(value)
    said = set()
    for _ in range(14):
        said.update(says(page).splitlines())
        press(page, "Back")
    report = run_cli(["trace", *words, "--x=0", "--y=-1", "--z=3", "--u=2", "--w=2"])
    for sentence in (
        "abs(x), adjoint 1: abs has a kink here: the slopes are -1 and 1; 0 is used",
        "log(y), adjoint 1: log scales by its slope, nan",
        "0^z, adjoint 1: a power scales by its slope: 0 for z",
        "max(u, w, 1), adjoint 1: max is tied and splits its adjoint equally: 0.5 of it to u and w",
    ):
        assert sentence in report
        assert sentence in said


@pytest.mark.parametrize("text", ["", "-"])
def test_what_is_no_number_is_pointed_out_and_changes_nothing(page: Page, text: str) -> None:
    opened(page, ["x*y", "--x", "2", "--y", "3"])
    at_the_end(page)
    before = numbers(page)
    field = page.get_by_label("x", exact=True)
    field.fill("")
    field.type(text)
    assert says(page).startswith("x: needs a number")
    assert field.get_attribute("aria-invalid") == "true"
    assert numbers(page) == before
    field.fill("4")
    assert field.get_attribute("aria-invalid") == "false"
    assert numbers(page)[2] == (12, 1)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "text", ["[1, 2]", "[[1, 2], [3]]", "[[1, 2], [3, x]]", "nonsense", "[[1, 2], [3, 4], [5, 6]]"]
)
def test_an_array_keeps_its_shape(page: Page, text: str) -> None:
    opened(page, ["sum(W @ [1, 2])", "--W", "[[1, 2], [3, 4]]"])
    field = page.get_by_label("W", exact=True)
    field.fill(text)
    assert says(page) == "W: needs 2×2 numbers as nested lists; nothing has changed."
    texts = ["1", "-2.5", ".5", "1e3", "-1E-3", "inf", "-inf", "nan", "0"]
    for k, one in enumerate(texts):
        other = texts[k - 1]
        field.fill(f"[[{one}, 2], [3, {other}]]")
        shown = page.evaluate("playback.point.W.flat().map(String)")
        wanted = [float(one), 2, 3, float(other)]
        assert [float(number.replace("Infinity", "inf")) for number in shown] == pytest.approx(wanted, nan_ok=True)


def test_non_finite_values_can_be_entered_and_replaced(page: Page) -> None:
    opened(page, ["1/x + y", "--x", "inf", "--y", "1"])
    at_the_end(page)
    field = page.get_by_label("x", exact=True)
    assert field.input_value() == "inf"
    field.fill("2")
    assert 1.5 in [value for value, _ in numbers(page).values()]
    field.fill("-inf")
    assert 1 in [value for value, _ in numbers(page).values()]


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "if", "evaluator", "record"])
def test_names_that_mean_something_to_a_script_are_names(page: Page, name: str) -> None:
    opened(page, [f"{name}^2 + x", "--set", f"{name}=3", "--x", "1"])
    at_the_end(page)
    page.get_by_label(name, exact=True).fill("4")
    assert {pair for pair in numbers(page).values() if pair[1] == 8} == {(4, 8)}


def test_warnings_follow_the_values(page: Page) -> None:
    document = opened(page, ["abs(x) + log(y) + sqrt(z)", "--x", "0", "--y", "1", "--z", "4"])
    warnings = page.locator("#warnings li")

    def type_value(name: str, text: str) -> list[str]:
        page.get_by_label(name, exact=True).fill(text)
        return warnings.all_inner_texts()

    opening = warnings.all_inner_texts()
    assert opening == [warning["message"] for warning in document["warnings"]]
    assert len(opening) == 1
    assert type_value("x", "1") == []
    assert type_value("y", "-1") == ["log(y): log(-1) is not defined for real numbers, so nan"]
    assert type_value("y", "0") == ["log(y): the value is -inf"]
    assert type_value("y", "2") == []
    assert type_value("z", "0") == ["sqrt(z): the slope with respect to z is inf"]
    (kink,) = type_value("z", "4") or type_value("x", "0")
    assert kink.startswith("abs(x): ")
    assert type_value("y", "1") == opening


# Formulas, and points at which they have kinks, values or slopes that are infinite, or products 0 × inf.
_EDGES = [
    ("where(x > 1, x^2, 3*x)*max(x, y, 1)", {"x": 2, "y": 3}, [{"x": 1, "y": 1}]),
    ("norm(A @ v) + max(v) + sum(abs(v))", {"A": [[1, 2], [3, 4]], "v": [1, -2]}, [{"v": [0, 0]}]),
    ("y*log(x) - sqrt(x/(y + 1))", {"x": 1, "y": 3}, [{"x": 0, "y": 0}, {"x": 4, "y": -1}]),
    ("1/x^2 + tanh(y)/y", {"x": 1, "y": 2}, [{"x": 0, "y": 0}]),
    ("relu(x) + max(x, y) + clip(y, 0, 1)", {"x": math.inf, "y": math.inf}, [{"x": math.nan, "y": math.nan}]),
]
# Formulas at points where digits are lost or numbers underflow, or neither, though something there is near it.
_INACCURATE = [
    ("sigmoid(w*x)", {"w": 800, "x": 1}, True),
    ("sigmoid(w*x)", {"w": 8, "x": 1}, False),
    ("exp(x) + y", {"x": -800, "y": 0}, True),
    ("x*y", {"x": 1e-200, "y": 1e-200}, True),
    ("x*y", {"x": 0, "y": 1e-200}, False),
    ("prod(v)", {"v": [1e-200, 1e-200]}, True),
    ("prod(v)", {"v": [0, 2]}, False),
    ("log(softmax(v)[1])", {"v": [0, -1000]}, True),
    ("log(softmax(v)[1])", {"v": [0, -10]}, False),
    ("sum(v) - 1", {"v": [1, 1e-13]}, True),
    ("sum(v) - 1", {"v": [0.5, 0.5]}, False),
    ("sum(v) + w[0]", {"v": [1e16, 1], "w": [-1e16, 0]}, True),
    ("max(v) - v[0]", {"v": [0.3, 0.1]}, False),
    ("a*b - b*a + c", {"a": 0.1, "b": 0.3, "c": 0}, False),
    ("mean((v - mean(v))^2)", {"v": [1e9, 1e9 + 1.1]}, False),
    ("tanh(x) - 1", {"x": 20}, True),
    ("exp(x)/y", {"x": 800, "y": 1}, True),
]


@each(("text", "point", "is_inaccurate"), _INACCURATE, sampled=True)
def test_lost_digits_and_underflow_have_a_warning_after_a_change(
    page: Page, text: str, point: dict[str, Any], is_inaccurate: bool
) -> None:
    opened(
        page,
        [text, *(f"--{name}={[1.25, 0.75] if isinstance(value, list) else 1.25}" for name, value in point.items())],
    )
    page.evaluate("setValues", point)
    warnings = page.locator("#warnings li").all_inner_texts()
    words = ("rounding errors, or the range of floats", "too large for a float", "cancellation")
    assert any(word in warning for warning in warnings for word in words) == is_inaccurate
    document = run_cli(["trace", text, *(f"--{name}={value}" for name, value in point.items()), "--json"]).json
    assert any("correct: " in warning["message"] for warning in document["warnings"]) == is_inaccurate


_SCALAR_FORMS = ["({} + {})", "({} - {})", "{}*{}", "{}/{}", "exp({})", "log({})", "sqrt({})", "tanh({})", "({})^3"]
_FORMS = [*_SCALAR_FORMS, "abs({})", "max({}, {})", "relu({})", "where({} > 1, {}, {})", "softmax({} + v)"]
_REDUCTIONS = ["sum({})", "norm({})", "max({})", "mean({})", "dot({}, v)", "logsumexp({})", "prod({})"]
_EXTREMES = [0, 1, -1, 2, 0.5, 3, -800, 800]
_CONSTANTS = ["log(0)", "log(-1)", "(1/0)", "abs(0)"]


def drawn_formula(draw: random.Random) -> tuple[str, list[str], bool]:
    """A formula of scalars or of arrays, its variables, and whether these are arrays."""
    is_array = draw.random() < 0.5
    atoms = ["v", "w", "2"] if is_array else ["x", "y", "0.5", draw.choice(_CONSTANTS)]
    text = draw.choice(atoms[:2])
    for _ in range(draw.randint(2, 4)):
        form = draw.choice(_FORMS if is_array else _FORMS[:-1])
        operands = [draw.choice([*atoms, text]) for _ in range(form.count("{}"))]
        if form.startswith("where"):
            operands[0] = draw.choice([atoms[0], atoms[0] if is_array else f"log({atoms[0]})"])  # which hides a nan
        operands[-1] = text
        text = form.format(*operands)
    text = draw.choice(_REDUCTIONS).format(text) if is_array else text
    return text, [name for name in "vwxy" if re.search(rf"\b{name}\b", text)], is_array


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(amount(8, 60, 400)))
def test_warnings_about_operations_after_a_change_are_those_of_the_command(page: Page, seed: int) -> None:
    draw = random.Random(seed)
    text, names, is_array = drawn_formula(draw)
    point = {name: [draw.choice(_EXTREMES) for _ in range(2)] if is_array else draw.choice(_EXTREMES) for name in names}
    opened(page, [text, *(f"--{name}={[1.25, 0.75] if is_array else 1.25}" for name in names)])
    page.evaluate("setValues", point)
    found = page.locator("#warnings li").all_inner_texts()
    document = run_cli(["trace", text, *(f"--{name}={value}" for name, value in point.items()), "--json"]).json
    wanted = [of_operation(warning["message"]) for warning in document["warnings"]]
    assert sorted(filter(is_about_an_operation, found)) == sorted(filter(is_about_an_operation, wanted))


def of_operation(message: str) -> str:
    """A warning without what only the command says: places in the text, values, and what a derivative needs."""
    message = re.sub(r" \(column \d+\).*?(?=: )", "", message.partition("; correct: ")[0])
    return re.sub(r"(?<= the slope with respect to [vwxy]) (?:needs .*|is not defined), so nan$", " is nan", message)


def is_about_an_operation(warning: str) -> bool:
    """Whether a warning is not about rounding or underflow, which depend on luck where nothing proves the digits."""
    return not any(words in warning for words in ("rounding errors, or", "cancellation: ", "The correct digits are"))


_SAID = """() => [...Array(playback.length + 1).keys()].map((position) => {
  go(position);
  return byId("explanation").textContent;
})"""


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "start", "changes"), _EDGES, ids=lambda what: what if isinstance(what, str) else "")
def test_after_a_change_the_page_says_what_it_says_when_opened_there(
    page: Page, text: str, start: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    for changed in changes:
        point = start | changed
        opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
        at_once = page.locator("#warnings li").all_inner_texts()
        wanted = page.evaluate(_SAID)
        opened(page, [text, *(f"--{name}={value}" for name, value in start.items())])
        page.evaluate("setValues", point)
        assert page.evaluate(_SAID) == wanted
        found = page.locator("#warnings li").all_inner_texts()
        assert found == [re.sub(r" \(column \d+\).*?(?=: )", "", warning) for warning in at_once]


def test_elements_that_a_choice_removes_have_no_warning_after_a_change(page: Page) -> None:
    opened(page, ["sum(where(v > 0, sqrt(v) + log(v), -v))", "--v", "[1, 4]"])
    page.evaluate("setValues", {"v": [-1, 4]})
    assert page.locator("#warnings li").count() == 0


@each(
    ("text", "start", "changed"),
    [
        ("x + 1/0 + 2", {"x": 2}, {"x": 3}),
        ("round(acsc(0.5)/2)/x", {"x": 2}, {"x": 3}),
        ("where(x > 1, x, log(0)*log(-1))", {"x": 2}, {"x": 0}),
        ("where(log(y) > 2 and x > 1, x, 2*x)", {"x": 2, "y": 2}, {"x": 3, "y": -1}),
        ("asech(where(x > 0, 2, x))^0 + x", {"x": -1}, {"x": 1}),
        ("max(x, log(0)) + min(x, 1/0)", {"x": 2}, {"x": 3}),
    ],
)
def test_constants_and_conditions_have_the_warnings_of_the_command(
    page: Page, text: str, start: dict[str, Any], changed: dict[str, Any]
) -> None:
    opened(page, [text, *(f"--{name}={value}" for name, value in changed.items())])
    at_once = page.locator("#warnings li").all_inner_texts()
    opened(page, [text, *(f"--{name}={value}" for name, value in start.items())])
    page.evaluate("setValues", changed)
    found = page.locator("#warnings li").all_inner_texts()
    assert found == [re.sub(r" \(column \d+\).*?(?=: )", "", warning) for warning in at_once]


def test_the_edge_of_any_part_of_a_condition_has_the_warnings_of_the_command(page: Page) -> None:
    words = ["where(not (y > 9 or not x < 1) and abs(x - 3) < 5, x^2, 2*y)"]
    opened(page, [*words, "--x", "3", "--y", "2"])
    for name, value, other in (("x", "1", "--y=2"), ("y", "9", "--x=1"), ("x", "8", "--y=9")):
        page.get_by_label(name, exact=True).fill(value)
        document = run_cli(["trace", *words, f"--{name}={value}", other, "--json"]).json
        wanted = [re.sub(r" \(column \d+\).*?(?=: )", "", warning["message"]) for warning in document["warnings"]]
        assert page.locator("#warnings li").all_inner_texts() == wanted


def test_edges_of_conditions_have_the_warnings_of_the_command(page: Page) -> None:
    document = opened(page, ["where(x > 1 and y < 5 and 2 >= 2, x^2, 2*y)", "--x", "1", "--y", "2"])
    warnings = page.locator("#warnings li")
    opening = warnings.all_inner_texts()
    assert opening == [warning["message"] for warning in document["warnings"]]
    assert len(opening) == 1
    page.get_by_label("x", exact=True).fill("2")
    assert warnings.count() == 0
    page.get_by_label("y", exact=True).fill("5")
    assert warnings.all_inner_texts() == ["y < 5: it changes there, so the slope is one-sided"]
    page.get_by_label("y", exact=True).fill("2")
    page.get_by_label("x", exact=True).fill("1")
    assert warnings.all_inner_texts() == opening


@each(
    ("text", "start", "changed"),
    [("(1 + x) - 1", 0.5, 1e-10), ("sqrt(x^2 + 1) - x", 0.3, 1e6), ("1 - cos(x)", 1.25, 1e-5), ("x^3 - y*x", 2.5, 3)],
)
def test_lost_digits_are_found_at_other_values_as_the_command_finds_them(
    page: Page, text: str, start: float, changed: float
) -> None:
    others = ["--y", "1e-18"] if "y" in text else []
    opened(page, [text, f"--x={start}", *others])
    page.get_by_label("x", exact=True).fill(str(changed))
    trace = run_cli(["trace", text, f"--x={changed}", *others, "--json"]).json
    wanted = [re.findall(r"can destroy \d+ of", warning["message"]) for warning in trace["warnings"]]
    shown = re.findall(r"can destroy \d+ of", page.locator("#warnings").inner_text())
    assert shown == [words for found in wanted for words in found]
    assert bool(shown) == ("y" not in text)


def test_fields_of_elements_stand_as_in_the_array(page: Page) -> None:
    opened(page, ["sum(W @ v)", "--W", "[[1, 2, 3], [4, 5, 6]]", "--v", "[1, -1, 0]"])
    places = (
        page.locator("#variables .elements")
        .first.locator("input")
        .evaluate_all("(all) => all.map((one) => one.getBoundingClientRect()).map(({ left, top }) => [left, top])")
    )
    lefts, tops = (sorted({place[k] for place in places}) for k in (0, 1))
    assert places == [[left, top] for top in tops for left in lefts]
    assert (len(lefts), len(tops)) == (3, 2)


def test_elements_of_an_array_have_fields_of_their_own(page: Page) -> None:
    words = ["sum(tanh(W @ v))", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"]
    opened(page, words)
    at_the_end(page)
    matrix = [[1, 2], [3, 4]]
    for row, column, number in ((1, 0, -0.5), (0, 1, 7), (1, 1, 2.5), (1, 0, 0)):
        matrix[row][column] = number  # type: ignore[call-overload]
        page.get_by_label(f"W[{row}, {column}]", exact=True).fill(str(number))
        assert json.loads(page.get_by_label("W", exact=True).input_value()) == matrix
    words[2] = str(matrix)
    wanted = in_document(run_cli(["trace", *words, "--json"]).json)
    assert all(flat(pair) == pytest.approx(flat(wanted[i]), rel=1e-12) for i, pair in numbers(page).items())
    page.get_by_label("v", exact=True).fill("[3, 5]")
    assert page.get_by_label("v[1]", exact=True).input_value() == "5"
    page.get_by_label("v[1]", exact=True).fill("-")
    assert page.get_by_label("v[1]", exact=True).get_attribute("aria-invalid") == "true"
    assert page.get_by_label("v", exact=True).input_value() == "[3, 5]"


def test_a_warning_begins_with_its_node_typeset_as_a_whole(page: Page) -> None:
    document = opened(page, ["abs(x)*y + log(abs(x)*y) + sqrt(abs(x)*y + log(abs(x)*y))", "--x", "0", "--y", "2"])
    labels = {node["label"] for node in document["nodes"]}
    begun = page.locator("#warnings li > :first-child").evaluate_all(
        "(all) => all.map((one) => [one.className, one.textContent])"
    )
    assert len(begun) == len(document["warnings"]) >= 3
    for (kind, text), warning in zip(begun, document["warnings"], strict=True):
        assert kind == "math"
        assert text in labels
        assert re.match(re.escape(text) + r"(:| \()", warning["message"])
