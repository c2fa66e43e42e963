"""The quiz: adjoints are hidden, asked for, and checked."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import autodiff_cli as ad
from tests.browser.support import in_document, measure, numbers, opened, press, resize, says, settle
from tests.browser.test_page_movements import FORMULAS, NETWORK
from tests.each import amount, each, is_exhaustive

if TYPE_CHECKING:
    from playwright.sync_api import Page

XY = ["x*y + sin(x)", "--x", "2", "--y", "3"]


def answer(page: Page, text: str) -> None:
    page.get_by_label("Adjoint of").fill(text)
    press(page, "Check")


def asked(page: Page) -> str:
    """The label of the node whose adjoint is asked for."""
    found = page.evaluate("document.getElementById('answer').labels[0].textContent")
    assert found.startswith("Adjoint of ")
    return str(found.removeprefix("Adjoint of "))


def by_label(document: Any) -> dict[str, float]:
    return {node["label"]: node["adjoint"] for node in document["nodes"]}


def test_the_quiz_hides_all_adjoints_and_shows_all_values(page: Page) -> None:
    wanted = in_document(opened(page, XY))
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    press(page, "Quiz")
    assert numbers(page) == {i: (value, None) for i, (value, _) in wanted.items()}
    assert "2.58385" not in page.locator("body").inner_text()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [
        XY,
        ["where(x > 0, x^2, log(y)) + 3*x", "--x", "2", "--y", "3"],
        ["sum(W @ v)", "--W", "[[1, 2], [3, 4]]", "--v", "[1, -1]"],
        ["x", "--x", "2"],
    ],
    ids=lambda words: words[0],
)
def test_right_answers_lead_through_all_nodes_that_take_gradient(page: Page, words: list[str]) -> None:
    document = opened(page, words)
    wanted = in_document(document)
    labels = by_label(document)
    press(page, "Quiz")
    questions = sum(adjoint is not None for _, adjoint in wanted.values())
    for count in range(questions):
        assert sum(adjoint is not None for _, adjoint in numbers(page).values()) == count
        if (label := asked(page)) in words[0]:
            assert page.locator("#formula mark").inner_text() == label
        answer(page, str(labels[label]))
        assert says(page).startswith("Correct")
    assert f"{questions} of {questions} correct, {questions} on the first try" in says(page)
    assert numbers(page) == wanted
    assert page.get_by_role("button", name="Check", exact=True).count() == 0


def test_a_wrong_answer_gets_a_hint_without_numbers_then_one_with_them(page: Page) -> None:
    document = opened(page, XY)
    labels = by_label(document)
    press(page, "Quiz")
    while asked(page) != "x":
        answer(page, str(labels[asked(page)]))
    answer(page, "3")
    assert says(page) == (
        "Not yet: that is the contribution of x*y alone, and x has 2 uses; add up all of them. "
        "x receives local derivative × adjoint from each user; add them up: "
        "from sin(x): cos(x) × that node's adjoint; from x*y: y × that node's adjoint."
    )
    answer(page, "3")
    assert says(page) == (
        "Not yet: that is the contribution of x*y alone, and x has 2 uses; add up all of them. "
        "x receives local derivative × adjoint from each user; add them up: "
        "from sin(x): -0.416147 × 1, where cos(x) = -0.416147; from x*y: 3 × 1, where y = 3."
    )
    assert numbers(page)[0] == (2, None)
    answer(page, "2.58")
    assert says(page).startswith("Correct")
    assert "5 of 5 correct, 4 on the first try" in says(page)


# fmt: off
ANSWERS = [
    ("2.5838531634528574", True), ("2.58385", True), ("2.58", True), ("2.6", True), ("+2.584", True),
    (".25839e1", True), ("3", False), ("2.59", False), ("2.5", False), ("-2.58", False), ("2.58386", False),
    ("", False), ("x", False), ("2.58 or so", False), ("nan", False), ("2.58, 2.58", False),
]
# fmt: on


@pytest.fixture
def judge(page: Page) -> Page:
    """A page whose scripts judge answers; it is opened once for all cases of a test."""
    opened(page, XY)
    return page


@each(("text", "is_right"), ANSWERS)
def test_an_answer_is_right_to_the_digits_typed(judge: Page, text: str, is_right: bool) -> None:
    verdict = judge.evaluate("text => isRight(text, 2.5838531634528574)", text)
    assert verdict == is_right


# fmt: off
OTHERS = [
    ("0", 0, True), ("0.0", 0, True), ("0.01", 0, False), ("-12", -12, True), ("1e3", 1000, True), ("1", 1, True),
    ("inf", "inf", True), ("-inf", "-inf", True), ("nan", "nan", True), ("inf", "-inf", False), ("1.0", 0.9512, False),
    ("1.0", 0.996, True), ("0.24", 0.2447, True),
    ("[1, 0.5]", [1, 0.5], True), ("1 0.5", [1, 0.5], True), ("[1]", [1, 0.5], False), ("−0.42", -0.416, True),
    ("3", 3.004, True), ("3.0", 3.004, True), ("120", 123.4, True), ("120.", 123.4, False), ("3000", 3046, True),
    ("3000", 3056, False), ("20", 20.9, False), ("100", 123, False), ("-500", -501, True),
]
# fmt: on


@each(("text", "number", "is_right"), OTHERS)
def test_answers_of_other_kinds(judge: Page, text: str, number: Any, is_right: bool) -> None:
    assert judge.evaluate("([text, number]) => isRight(text, read(number))", [text, number]) == is_right


EXPRESSIONS = [
    ("2*0.747559", 1.495118, True),
    ("cos(0.6)", 0.8253356149, True),
    ("0,8253", 0.8253356149, True),
    ("0.8", 0.8253356149, True),
    ("0.83", 0.8253356149, True),
    ("0.9", 0.8253356149, False),
    ("cos(0,6)", 0.8253356149, True),
    ("-(1/3)^2", -1 / 9, True),
    ("1/(1 + exp(-2))", 0.8807970779, True),
    ("3 − 0.416147", 2.58385316, True),
    ("2 × −3", -6, True),
    ("2**3", 8, True),
    ("3*", 3, False),
    ("(3", 3, False),
    ("alert(3)", 3, False),
    ("x*y", 6, False),
    ("0,5 1,5", [0.5, 1.5], True),
    ("[1/2, 3/2]", [0.5, 1.5], True),
    ("sqrt(2); 2", [1.41421356, 2], True),
]


@each(("text", "number", "is_right"), EXPRESSIONS)
def test_answers_can_be_expressions(judge: Page, text: str, number: Any, is_right: bool) -> None:
    assert judge.evaluate("([text, number]) => isRight(text, number)", [text, number]) == is_right


def test_an_expression_means_what_it_means_in_a_formula(judge: Page) -> None:
    chance = Random(2)

    def part(depth: int) -> str:
        if depth == 0:
            return chance.choice(["2", "0.5", "3", "pi", "e", "1e-1"])
        one, other = part(depth - 1), part(depth - chance.choice([1, depth]))
        binary = [f"{one} {sign} {other}" for sign in "+-*/"]
        powers = [f"({one})^{other}", f"({one})^-{other}", f"2^{one}", f"2**-({one})", f"-2^{one}"]
        return chance.choice([*binary, *powers, f"({one})", f"-{one}", f"+{one}", f"tanh({one})"])

    texts = [part(k % 4) for k in range(300)]
    wanted = [float(ad.parse(text).value({})) for text in texts]
    found = judge.evaluate("texts => texts.map((text) => inFull(evaluate(text)))", texts)
    for text, number, value in zip(texts, found, wanted, strict=True):
        assert float(number.replace("Infinity", "inf")) == pytest.approx(value, rel=1e-9, nan_ok=True), text


def test_the_score_counts_questions_and_first_tries(judge: Page) -> None:
    press(judge, "Quiz")
    tries = judge.evaluate(
        """() => {
      const { quiz } = playback;
      const counts = quiz.level.questions.map((_, k) => [1, 0, 3, 2, 0][k % 5]);
      const scores = counts.map((wrong) => {
        const { wanted } = quiz.question;
        for (let k = 0; k < wrong; k++) quiz.check("77e77");
        if (wrong < 3) quiz.check(inFull(wanted));
        return [wrong, quiz.score];
      });
      return scores;
    }"""
    )
    assert len(tries) == 5
    for k in range(5):
        wrong = [count for count, _ in tries[: k + 1]]
        correct, first = sum(count < 3 for count in wrong), wrong.count(0)
        assert tries[k][1] == f"{correct} of 5 correct, {first} on the first try"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("node", "typed", "diagnosis"),
    [
        ("x", "-2.58385", "the size is right, the sign is not"),
        ("x", "-0.416", "that is the contribution of sin(x) alone, and x has 2 uses"),
        ("y", "3", "that is the value of y, and the question is for its derivative"),
        ("z", "0.5403", "that is the local derivative of sin(z)"),
    ],
)
def test_likely_mistakes_are_named(page: Page, node: str, typed: str, diagnosis: str) -> None:
    document = opened(page, ["x*y + sin(x) + 4*sin(z)", "--x", "2", "--y", "3", "--z", "1"])
    press(page, "Quiz")
    while asked(page) != node:
        answer(page, str(by_label(document)[asked(page)]))
    answer(page, typed)
    assert says(page).startswith(f"Not yet: {diagnosis}")


def test_the_answer_is_revealed_after_two_hints(page: Page) -> None:
    opened(page, ["sin(x)", "--x", "1"])
    press(page, "Quiz")
    answer(page, "1")
    verdicts = []
    for text in ("", "cos(x)", "1 2", "about 5"):  # these cannot be read, so that they do not count
        answer(page, text)
        assert says(page).startswith("Not yet: type a number;")
    for _ in range(3):
        answer(page, "77")
        verdicts.append(says(page))
    assert len(set(verdicts)) == 3
    assert verdicts[-1] == (
        "Not yet: the adjoint of x is 0.540302. The quiz is over: 1 of 2 correct, 1 on the first try."
    )
    assert page.get_by_role("button", name="Check", exact=True).count() == 0


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "point"), FORMULAS, ids=range(len(FORMULAS)))
def test_the_quiz_shows_no_number_that_it_asks_for(page: Page, text: str, point: dict[str, Any]) -> None:
    document = opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
    page.emulate_media(reduced_motion="reduce")
    levels = ("adjoint", "value", "local derivative")
    for level in levels if is_exhaustive() else [levels[[*FORMULAS].index((text, point)) % 3]]:
        page.evaluate("go(playback.length)")
        begin(page, level)
        for _ in document["nodes"][: amount(3, 3, 6)]:
            if not page.evaluate("playback.quiz.question !== undefined"):
                break
            node, places, wanted = page.evaluate(PLACES)
            assert node is None or page.locator(f".node:not(.folded)[data-node='{node}']").count() == 1
            assert wanted in ("", "0", "1") or not [place for place in places if wanted in place.split()], title(page)
            page.evaluate(GO_ON)


# Whether the node of the question has a box of its own inside the stage, and whether the explanation points to a node.
ASKED = """() => {
  const stage = graph.stage.getBoundingClientRect();
  const outline = graph.element(playback.quiz.question.node).querySelector(".outline");
  const { left, right, top, bottom } = outline.getBoundingClientRect();
  const isIn = left >= stage.left && right <= stage.right && top >= stage.top && bottom <= stage.bottom;
  return [graph.isInSight(playback.quiz.question.node), isIn, byId("explanation").matches(".callout, .under")];
}"""


@pytest.mark.slow
def test_the_node_of_a_question_stays_in_sight_when_the_window_changes(page: Page) -> None:
    opened(page, [NETWORK, *(f"--{name}={value}" for name, value in FORMULAS[-1][1].items())])
    page.emulate_media(reduced_motion="reduce")
    begin(page, "adjoint")
    for _ in range(4):
        for width in (390, 1000, 1280, 420, 1280):
            resize(page, width, 844)
            settle(page)
            assert page.evaluate(ASKED) == [True, True, False], width
        page.evaluate(GO_ON)


# Answer a question wrongly until the answer is revealed.
GO_ON = """() => {
  const { quiz, quiz: { question } } = playback;
  const wrong = [question.wanted].flat(Infinity).map(() => "77e77").join(" ");
  const [verdict] = [1, 2, 3].map(() => quiz.check(wrong).verdict).reverse();
  draw(question.reveal());
  ask(verdict);
}"""

# The node that is asked for, the texts of all edges beside it and of the descriptions, and the number that is wanted.
PLACES = """() => {
  byId("table").open = true;
  table.refresh();
  const { node, wanted } = playback.quiz.question;
  const isBeside = ({ dataset }) => [dataset.from, dataset.to].includes(String(node));
  const edges = [...document.querySelectorAll(".edge")].filter(isBeside).map((edge) => {
    const [title, ...texts] = [...edge.querySelectorAll("title, text")].map((text) => text.textContent);
    return [title.slice(title.indexOf(": ") + 1 || title.length), ...texts].join(" ");
  });
  const row = byId("table").querySelectorAll("tbody tr")[node];
  const number = Array.isArray(wanted) ? "" : brief(wanted);
  const isValue = playback.quiz.level.hidesValue(node);
  const texts = (isValue ? [2, 4] : [3, 5]).map((k) => row.cells[k].textContent);
  return [node, [...edges, ...texts].map((text) => text.replace(/[:;,←]/g, " ")), number];
}"""


# Of every question of a level: its title, two hints, and which right answers are refused.
HINTS = r"""(level) => {
  byId("level").value = level;
  beginQuiz();
  const seen = [];
  for (const { quiz } = playback; quiz.question;) {
    const { question, question: { wanted, choices, isRight, title } } = quiz;
    const numbers = [wanted].flat(Infinity);
    const write = (text) => numbers.map(text).join(" ");
    const ways = [(x) => x.toPrecision(2), (x) => x.toPrecision(2).replace(".", ","), (x) => `2*(${x / 2})`];
    const refused = choices ? [] : ways.map(write).filter((text) => numbers.every(Number.isFinite) && !isRight(text));
    const wrong = choices ? choices.find((choice) => !isRight(choice)) : write(() => "77e77");
    const [first, second, last] = [1, 2, 3].map(() => quiz.check(wrong));
    const hints = [first, second].map(({ verdict }) => plain(verdict));
    seen.push({ title: plain(title), refused, hints, isDone: last.isDone });
    draw(question.reveal());
    ask(last.verdict);
  }
  return seen;
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["value", "local derivative", "adjoint", "next", "bug"])
@pytest.mark.parametrize("number", [1, 3, 4, 6, 9])
def test_every_question_has_two_hints_and_takes_answers_as_people_write_them(
    page: Page, number: int, level: str
) -> None:
    text, point = FORMULAS[number]
    opened(page, [text, *(f"--{name}={value}" for name, value in point.items())])
    for question in page.evaluate(HINTS, level):
        first, second = question["hints"]
        assert first != second, question
        assert len(second) > len("Not yet: x."), question
        assert " 1 is 1" not in second, question
        assert "The rule is 1." not in first, question
        assert question["refused"] == [], question
        assert question["isDone"], question


HINTED = [
    ["sum((A @ x - b)^2)/3 - 2*s*sum(x)", "--A=[[1, 2], [3, 4]]", "--x=[1, -1]", "--b=[0, 1]", "--s=2"],
    ["max(x, y) - relu(z)*y + where(x > y, x, 4*y) + clip(z, 0, 5)", "--x=2", "--y=3", "--z=-1"],
    ["z = W @ x; p = softmax(z); -log(p[1])", "--W=[[1, 2], [3, 4]]", "--x=[1, -1]"],
]


@pytest.mark.sampled
@pytest.mark.parametrize("words", HINTED, ids=lambda words: words[0])
def test_hints_state_what_is_true_of_operations_and_users(page: Page, words: list[str]) -> None:
    document = opened(page, words)
    nodes = document["nodes"]
    locals_ = {
        f"Local derivative of {nodes[step['node']]['label']} towards {nodes[given['to']]['label']}": given["local"]
        for step in document["backward"]
        for given in step["contributions"]
    }
    for question in page.evaluate(HINTS, "local derivative"):
        stated = re.fullmatch(
            r"Not yet: (?:the rule is (.*), whatever the values are|.* is (.*))\.", question["hints"][1]
        )
        if stated and not re.search("blocks|routes", question["hints"][1]):
            is_right = "([text, number]) => isRight(text, number)"
            assert page.evaluate(is_right, [stated[1] or stated[2], locals_[question["title"]]]), question
        else:
            assert page.evaluate(
                "(hint) => playback.computation.contributions.some((_, i) => record.nodes[i].backward"
                " !== undefined && hint.includes(plain(playback.computation.backwardSentence(i))))",
                question["hints"][1],
            ), question
    for question in page.evaluate(HINTS, "adjoint"):
        node = next(node for node in nodes if question["title"] == f"Adjoint of {node['label']}")
        users = {user["id"] for user in nodes if node["id"] in user["inputs"]}
        for hint in question["hints"]:
            assert ("from its user:" in hint) <= (len(users) == 1), question
            assert ("contribute" in hint.replace("contribution", "")) == (
                "from one user:" in hint or "from these users" in hint
            ), question


def test_a_comparison_is_hinted_at_with_its_numbers(page: Page) -> None:
    opened(page, ["where(x > 0, -x, x)", "--x", "2"])
    hints = {question["title"]: question["hints"][1] for question in page.evaluate(HINTS, "value")}
    assert hints["Value of x > 0"] == "Not yet: x > 0: 2 > 0."
    assert hints["Value of -x"] == "Not yet: x is 2."


ROUNDED = {
    "a sum": ["sin(x*0.1*y - 0.3*x + 0.2*x*y)", "--x=1", "--y=1"],
    "a square of a sum": ["(3*x - 0.3)^2 + y", "--x=0.1", "--y=2"],
    "a function at its zero": ["sin(pi*x)*y + cos(pi/2*x)*y", "--x=1", "--y=2"],
    "an array": ["sum((W @ x - b)^2) + y", "--W=[[0.1, 0.2], [1, 1]]", "--x=[1, 1]", "--b=[0.3, 2]", "--y=0"],
}
EXACT = {
    "kinks": ["relu(x - 2) + abs(x - 2) + max(x, y) + where(x > 2, x, y)*y", "--x=2", "--y=2"],
    "small numbers": ["exp(-x^2)*1e-30 + y*1e-20", "--x=3", "--y=1"],
}
# Each question: its numbers, whether 0 is right for what rounding left, and by how much answers may be off.
CANCELLED = """(level) => {
  byId("level").value = level;
  beginQuiz();
  const change = (x, of) => (Array.isArray(x) ? x.map((one) => change(one, of)) : of(x));
  return playback.quiz.level.questions.map(({ title, wanted, isRight }) => {
    const numbers = [wanted].flat(Infinity);
    const answers = [0.3, 1e-8].map((off) => [off, (x) => x + off * Math.max(1, Math.abs(x))]);
    if (numbers.every((x) => x !== 0)) answers.push([0, () => 0]);
    const wrong = answers.filter(([, of]) => isRight(inFull(change(wanted, of)))).map(([off]) => off);
    return { title, numbers, wrong, isRight: isRight(inFull(change(wanted, (x) => (Math.abs(x) < 1e-12 ? 0 : x)))) };
  });
}"""


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["value", "local derivative", "adjoint"])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounding_leaves_may_be_called_0(page: Page, name: str, level: str) -> None:
    opened(page, ROUNDED[name])
    questions = page.evaluate(CANCELLED, level)
    is_noise = [any(0 < abs(x) < 1e-12 for x in question["numbers"]) for question in questions]
    assert any(is_noise) or (level == "local derivative" and name in ("a sum", "an array"))
    assert all(question["isRight"] for question in questions)
    for question, noise in zip(questions, is_noise, strict=True):
        assert set(question["wrong"]) <= ({0} if noise else set()), question["title"]


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["value", "local derivative", "adjoint"])
@pytest.mark.parametrize("name", EXACT)
def test_what_is_small_or_jumps_is_not_rounding(page: Page, name: str, level: str) -> None:
    opened(page, EXACT[name])
    wrong = {question["title"]: question["wrong"] for question in page.evaluate(CANCELLED, level)}
    assert wrong
    assert not any(wrong.values())


def test_enter_checks_and_the_answer_stays_where_one_types(page: Page) -> None:
    opened(page, XY)
    press(page, "Quiz")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    assert says(page).startswith("Correct")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    assert says(page).startswith("Not yet")


def test_the_quiz_asks_about_the_values_in_the_fields(page: Page) -> None:
    opened(page, ["x^2", "--x", "2"])
    page.get_by_label("x", exact=True).fill("5")
    press(page, "Quiz")
    answer(page, "1")
    answer(page, "10")
    assert says(page).startswith("Correct")


@pytest.mark.sampled
@pytest.mark.parametrize("leave", ["Quiz", "Reset", "Step", "Back", "Forward pass", "Backward pass"])
def test_the_quiz_can_be_left(page: Page, leave: str) -> None:
    wanted = in_document(opened(page, XY))
    page.emulate_media(reduced_motion="reduce")
    press(page, "Quiz")
    answer(page, "1")
    press(page, leave)
    assert page.get_by_label("Adjoint of").count() == 0
    assert page.get_by_role("button", name="Quiz", exact=True).get_attribute("aria-pressed") == "false"
    press(page, "Backward pass")
    assert numbers(page) == wanted


def test_there_is_no_quiz_where_nothing_takes_gradient(page: Page) -> None:
    opened(page, ["2 + 3"])
    assert page.get_by_role("button", name="Quiz", exact=True).is_disabled()


def begin(page: Page, level: str) -> None:
    press(page, "Quiz")
    page.get_by_label("Level").select_option(level)


def title(page: Page) -> str:
    """What is asked, of a number or of a node."""
    return page.locator("#question-title:visible, #choices:visible legend").inner_text()


def choose(page: Page, label: str) -> None:
    page.get_by_role("radio", name=label, exact=True).check()
    press(page, "Check")


NAMED = ["a = x*y; relu(a - 1)*a + tanh(x)", "--x", "2", "--y", "3"]


def test_questions_about_values_go_from_the_inputs_up(page: Page) -> None:
    document = opened(page, NAMED)
    values = {node["label"]: node["value"] for node in document["nodes"]}
    begin(page, "value")
    assert {adjoint for _, adjoint in numbers(page).values()} == {None}
    for count, step in enumerate(document["forward"]):
        label = document["nodes"][step["node"]]["label"]
        assert title(page) == f"Value of {label}"
        assert numbers(page)[step["node"]] == (None, None)
        if count == 0:
            page.get_by_label("Value of").fill("5")
            press(page, "Check")
            assert says(page) == "Not yet: a = x × y: insert the value of x and y."
            press(page, "Check")
            assert says(page) == "Not yet: a = x × y = 2 × 3."
        page.get_by_label("Value of").fill(str(values[label]))
        press(page, "Check")
        assert says(page).startswith("Correct")
    assert "All correct: 6 of 6 correct, 5 on the first try" in says(page)


def test_questions_about_local_derivatives_hint_at_the_rule_first(page: Page) -> None:
    document = opened(page, [f"3*({XY[0]})", *XY[1:]])
    locals_ = {
        (document["nodes"][step["node"]]["label"], document["nodes"][given["to"]]["label"]): given["local"]
        for step in document["backward"]
        for given in step["contributions"]
    }
    begin(page, "local derivative")
    for _ in range(len(locals_)):
        label, towards = title(page).removeprefix("Local derivative of ").split(" towards ")
        if label == "sin(x)":
            assert "cos" not in page.locator("#details").inner_text()
            page.get_by_label("Local derivative of").fill("7")
            press(page, "Check")
            assert says(page).endswith("The rule is cos(x).")
            press(page, "Check")
            assert says(page) == "Not yet: cos(x) is cos(2)."
        page.get_by_label("Local derivative of").fill(str(locals_[label, towards]))
        press(page, "Check")
        assert says(page).startswith("Correct")
    assert "All correct" in says(page)


def test_each_operation_is_asked_for_once_before_any_is_asked_for_again(page: Page) -> None:
    opened(page, ["sin(x) + sin(y) + cos(x) + cos(y)", "--x", "2", "--y", "3"])
    begin(page, "local derivative")
    asked = page.evaluate("playback.quiz.level.questions.map(({ node }) => record.nodes[node].op)")
    assert sorted(asked[:4]) == ["add", "add", "cos", "sin"]  # a sum has two local derivatives
    assert len(asked) == 8


def test_the_node_that_can_go_next_has_all_its_contributions(page: Page) -> None:
    document = opened(page, NAMED)
    labels = [node["label"] for node in document["nodes"]]
    users: dict[int, set[int]] = {}
    for node in document["nodes"]:
        for i in node["inputs"]:
            users.setdefault(i, set()).add(node["id"])
    done: set[int] = set()
    order = [step["node"] for step in document["backward"]]
    begin(page, "next")
    asked = 0
    while page.get_by_role("radio").count():
        assert title(page) == "Which node can go next?"
        offered = [labels.index(text) for text in page.locator("#choices label").all_inner_texts()]
        done |= set(order[: min(order.index(i) for i in offered)])
        ready = [i for i in offered if users.get(i, set()) <= done]
        assert len(ready) == 1
        if asked == 0:
            wrong = next(i for i in offered if i not in ready)
            choose(page, labels[wrong])
            assert says(page).startswith("Not yet: a node waits until all its users")
            choose(page, labels[wrong])
            assert says(page).startswith(f"Not yet: {labels[wrong]} still waits for")
        choose(page, labels[ready[0]])
        assert says(page).startswith("Correct")
        asked += 1
    assert asked >= 2
    assert "All correct" in says(page)


def test_the_bug_is_a_node_that_keeps_the_last_contribution_instead_of_the_sum(page: Page) -> None:
    wanted = in_document(opened(page, XY))
    begin(page, "bug")
    assert title(page) == "Which node has = where += belongs?"
    assert numbers(page) == {**wanted, 0: (2, 3)}  # x receives cos(2) and then 3
    choose(page, "y")
    assert says(page).startswith("Not yet: only a node with several users adds anything up.")
    choose(page, "y")
    assert says(page) == "Not yet: y receives 2 × 1 = 2, and its adjoint is 2: nothing is lost there."
    choose(page, "x")
    assert says(page).startswith(
        "Correct: x receives -0.416147 × 1 = -0.416147 and 3 × 1 = 3, in total 2.58385, but has only the last, 3."
    )
    press(page, "Quiz")
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    assert numbers(page) == wanted


def test_a_bug_is_left_behind_when_values_change(page: Page) -> None:
    opened(page, XY)
    begin(page, "bug")
    page.get_by_role("spinbutton", name="y", exact=True).fill("5")
    page.emulate_media(reduced_motion="reduce")
    press(page, "Backward pass")
    assert numbers(page)[0] == (2, pytest.approx(5 - 0.4161468365))


@pytest.mark.parametrize(
    ("level", "words"),
    [("bug", ["2*x", "--x", "3"]), ("bug", ["3*x + x^2", "--x", "0"]), ("next", ["sin(x)", "--x", "3"])],
)
def test_a_quiz_without_questions_says_so(page: Page, level: str, words: list[str]) -> None:
    opened(page, words)
    begin(page, level)
    assert page.get_by_role("button", name="Check", exact=True).count() == 0
    assert says(page).startswith(("This bug", "At these values the bug changes nothing", "Here the order"))


# What stands beside the field of a question, and in how many lines the buttons of the controls are.
LINES = """() => {
  const place = (element) => element.getBoundingClientRect();
  const [field, title, score, level] = ["answer", "question-title", "score", "level"].map((id) => place(byId(id)));
  const button = place(byId("question").querySelector("button"));
  return {
    isBeside: Math.abs(field.top + field.bottom - button.top - button.bottom) < 4,
    isFull: button.right > byId("question").clientWidth - 4 && field.left === title.left,
    isOneLine: score.top < level.bottom && level.top < score.bottom,
    lines: new Set([...document.querySelectorAll(".controls button")].map((one) => place(one).top)).size,
  };
}"""


@pytest.mark.parametrize(("width", "height"), [(360, 640), (390, 844)])
def test_on_a_phone_the_field_of_the_quiz_has_a_line_with_its_button_after_any_answer(
    page: Page, width: int, height: int
) -> None:
    resize(page, width, height)
    opened(page, XY)
    press(page, "Quiz")
    for text in ("17", "-3", "1", "17"):
        found = measure(page, LINES)
        assert found == {"isBeside": True, "isFull": True, "isOneLine": True, "lines": 1}, text
        answer(page, text)


def test_escape_leaves_the_quiz(page: Page) -> None:
    opened(page, ["x*y + sin(x)", "--x=2", "--y=3"])
    press(page, "Quiz")
    page.keyboard.press("Escape")
    assert page.locator("#question").is_hidden()
    assert page.evaluate("document.activeElement.id") == "quiz"
