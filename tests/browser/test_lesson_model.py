"""What the pages of a course show after any actions is what the commands print: steps, verdicts, hints and progress."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import wait_until
from tests.browser.test_page_model import CONDITIONS, Model, Reader, walk
from tests.each import amount
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

OPENING = "Read the lesson. Before you press Step, predict what the step gives."
BEFORE = "You answered this correctly before."
SHOWN = Path(__file__).with_name("lesson_state.js").read_text(encoding="utf-8")
NUMBER_FORMS = ["{0!r}", "{0:.6g}", " {0:.4g} ", "2*({1!r})", "{0!r}/1", "+{0!r}"]
WRONG = ["", "abc", "2 +", "1e9", "-7.5", "sin(1)*100"]


@functools.cache
def lesson(name: str) -> Any:
    return run_cli(f"lesson {name} --json").json


@functools.cache
def lessons() -> list[Any]:
    return list(run_cli("lesson --json").json["lessons"])


class LessonModel(Model):
    """A lesson: its steps, and what was answered and asked."""

    first_tab = ("Lesson", "Step")

    def __init__(self, name: str, answered: set[int]) -> None:
        self.name, self.document = name, lesson(name)
        count = len(self.document["questions"])
        self.answers: list[Any] = [None if "choices" in question else "" for question in self.document["questions"]]
        self.hints = [0] * count
        self.verdicts = [(BEFORE, True) if k in answered else ("", False) for k in range(count)]
        point = self.document["variables"]
        self.has_steps = not any(isinstance(node["value"], list) for node in self.document["nodes"])
        if self.has_steps:
            others = [*self.document["asked_at"].values(), 0.5, -1.25, 3]
            super().__init__(self.document["expression"], point, others)
            self.go(0)
        self.said = OPENING

    def check_questions(self, shown: dict[str, Any]) -> None:
        """Compare the questions with what was answered and asked."""
        assert shown["title"].removesuffix(" · backpropagation") == self.document["title"]
        for k, (question, found) in enumerate(zip(self.document["questions"], shown["questions"], strict=True)):
            words, is_right = self.verdicts[k]
            assert found["question"] == question["question"]
            assert found["verdict"] == [words, "verdict right" if is_right else "verdict", "polite"]
            assert found["name"] == f"Answer {k + 1}"
            assert found["check"] == ["Check answer", False]
            hints = len(question["hints"])
            assert found["hint"] == ["Hint" if self.hints[k] < hints else "Show the answer", self.hints[k] > hints]
            choices = question.get("choices")
            assert found["choices"] == (choices or [None])
            assert found["answer"] == (
                [at == self.answers[k] for at in range(len(choices))] if choices else [self.answers[k]]
            )


class LessonReader(Reader):
    """Takes actions in a course: steps, answers, hints, and ways between its pages."""

    model: LessonModel

    def __init__(self, page: Page, folder: Path, name: str, chance: random.Random) -> None:
        self.folder, self.answered = folder, dict[str, set[int]]()
        self.is_narrow = False
        super().__init__(page, LessonModel(name, set()), chance)
        self.at_index = False
        self.history, self.now = [name], 0  # of this window; the index is ""
        self.linked: LessonModel | None = None  # the state in the address of the first page
        page.goto((folder / f"{name}.html").as_uri())

    @property
    def place(self) -> str:
        steps = f", {super().place}" if self.model.has_steps else ""
        return f"{self.model.name}, {self.model.verdicts}, {self.model.hints}{steps}"

    def check(self) -> None:
        shown = self.page.evaluate(SHOWN)
        if self.at_index:
            assert shown["progress"] == [list(each) for each in self._progress().items()]
            assert shown["links"] == [[each["title"], f"{each['name']}.html"] for each in lessons()]
        elif self.model.has_steps:
            super().check()
        if not self.at_index:
            self.model.check_questions(shown)
            assert shown["links"] == self._links()
        assert self.page.evaluate(CONDITIONS) == []

    def _progress(self) -> dict[str, str]:
        """What the index says of each lesson."""
        progress = {}
        for name in (each["name"] for each in lessons()):
            count, all_ = len(self.answered.get(name, ())), len(lesson(name)["questions"])
            some = f"{count} of {all_} questions answered" if count else ""
            progress[name] = "all questions answered" if count == all_ else some
        return progress

    def _links(self) -> list[list[str]]:
        names = [each["name"] for each in lessons()]
        at = names.index(self.model.name)
        ways = [("Previous", at - 1)] * (at > 0) + [("Next", at + 1)] * (at + 1 < len(names))
        return [
            *([f"{way}: {lessons()[k]['title']}", f"{names[k]}.html"] for way, k in ways),
            ["All lessons", "index.html"],
        ]

    def actions(self, count: int) -> list[str]:
        often = ["do_answer"] * 4 + ["do_hint"] * 3 + ["do_go"]
        return [*super().actions(count - len(often)), *often][:: self.chance.choice([1, -1])]

    def take(self, name: str) -> None:
        """Take an action, or another one in its place on a page that has no steps, or none that the model knows."""
        if name not in vars(LessonReader) and (self.at_index or not self.model.has_steps):
            name = "do_answer"
        if self.at_index and name in ("do_answer", "do_hint", "do_link", "do_finish", "do_doubt"):
            name = "do_go"
        elif name == "do_link" and not self.model.has_steps:
            name = "do_hint"
        super().take(name)

    def _question(self, at: int | None = None) -> tuple[int, Any]:
        k = self.chance.randrange(len(self.model.verdicts)) if at is None else at
        return k, self.model.document["questions"][k]

    def do_answer(self) -> None:
        for _ in range(3):
            self._answer()
            self.model.check_questions(self.page.evaluate(SHOWN))

    def do_finish(self) -> None:
        """Answer every question of this lesson, and look at the index."""
        for k, question in enumerate(self.model.document["questions"]):
            if "choices" in question or isinstance(question["answer"], int | float):
                self._answer(k, True)
        self._follow("index.html")

    def _answer(self, at: int | None = None, is_right: bool | None = None) -> None:
        model, (k, question) = self.model, self._question(at)
        item = self.page.locator("#lesson-questions > li").nth(k)
        is_certain, is_right = is_right is True, self.chance.random() < 0.5 if is_right is None else is_right
        if "choices" in question:
            if is_certain or self.chance.random() < 0.8:
                places = range(1, len(question["choices"]) + 1)
                place = self.chance.choice([at for at in places if (at in question["right"]) == is_right] or [*places])
                item.locator("input").nth(place - 1).evaluate("(radio) => { radio.focus(); radio.click(); }")
                model.answers[k] = place - 1
            is_read = model.answers[k] is not None
            is_right = is_read and model.answers[k] + 1 in question["right"]
        else:
            answer = question["answer"]
            is_number = isinstance(answer, int | float)
            is_right &= is_number
            model.answers[k] = (
                self.chance.choice(NUMBER_FORMS).format(answer, answer / 2) if is_right else self.chance.choice(WRONG)
            )
            item.locator("input").evaluate("(field, text) => { field.focus(); field.value = text; }", model.answers[k])
            is_read = is_right or model.answers[k] not in ("", "abc", "2 +")
        if self.chance.random() < 0.5 and "choices" not in question:
            item.locator("input").first.press("Enter")
        else:
            item.locator("[type=submit]").evaluate("(button) => { button.focus(); button.click(); button.click(); }")
        advice = (
            "A hint or the steps may help."
            if is_read
            else f"{'Choose an answer' if 'choices' in question else 'Type a number'}."
        )
        model.verdicts[k] = ("Correct.", True) if is_right else (f"Not yet. {advice}", False)
        if is_right:
            self.answered.setdefault(model.name, set()).add(k)

    def do_hint(self) -> None:
        for _ in range(3):
            self._hint()
            self.model.check_questions(self.page.evaluate(SHOWN))

    def do_doubt(self) -> None:
        """Answer correctly, and ask for a hint all the same."""
        k, question = self._question()
        if "choices" in question or isinstance(question["answer"], int | float):
            self._answer(k, True)
            self._hint(k)

    def _hint(self, at: int | None = None) -> None:
        model, (k, question) = self.model, self._question(at)
        button = self.page.locator("#lesson-questions > li").nth(k).locator("button").nth(1)
        button.evaluate("(button) => { button.focus(); button.click(); }")
        right = " or ".join(question["choices"][at - 1] for at in question["right"]) if "choices" in question else None
        last = right or f"{question['answer']:.6g}"
        help_ = [*question["hints"], f"The answer is {last}."]
        if model.hints[k] < len(help_):
            model.verdicts[k] = (help_[model.hints[k]], False)
            model.hints[k] += 1

    def do_go(self) -> None:
        """Follow a link, or go back or forward."""
        ways = [
            way for way, is_open in (("back", self.now > 0), ("forward", self.now + 1 < len(self.history))) if is_open
        ]
        way = self.chance.choice([*ways, "link", "link"])
        if way == "link":
            links = self.page.locator("nav.course a, li > a")
            self._follow(links.nth(self.chance.randrange(links.count())).get_attribute("href") or "")
        else:
            (self.page.go_back if way == "back" else self.page.go_forward)()
            self.now += 1 if way == "forward" else -1
            self._arrive()

    def _follow(self, address: str) -> None:
        """Follow the link to an address."""
        self.page.evaluate("(address) => document.querySelector(`a[href='${address}']`).click()", address)
        self.now += 1
        self.history[self.now :] = [address.removesuffix(".html").removesuffix("index")]
        self._arrive()

    def _arrive(self) -> None:
        name = self.history[self.now]
        wait_until(
            self.page, f"location.pathname.endsWith('/{name or 'index'}.html') && document.readyState === 'complete'"
        )
        self.at_index = name == ""
        if not self.at_index:
            self.model = LessonModel(name, self.answered.get(name, set()))
            if self.linked and self.now == 0:
                self.model = self.reopened()
                self.model.change(self.linked.point)
                self.model.seed = self.linked.seed
                self.model.go(self.linked.position)
            self.model.is_narrow = self.page.viewport_size["width"] < 900  # type: ignore[index]
        # Another process of the browser may tell this page late what is remembered.
        remembered = [*self._progress().values()] if self.at_index else [words for words, _ in self.model.verdicts]
        texts = "[...document.querySelectorAll('[data-lesson], .verdict')].map((place) => place.textContent)"
        wait_until(self.page, f"{texts}.join('|') === {'|'.join(remembered)!r}")

    def do_reload(self) -> None:
        self.page.reload()
        self._arrive()

    def do_link(self) -> None:
        was = self.model
        super().do_link()
        self.history, self.now, self.linked = [was.name], 0, was

    def reopened(self) -> LessonModel:
        opened = LessonModel(self.model.name, self.answered.get(self.model.name, set()))
        opened.is_untouched, opened.said, opened.position = True, None, len(opened.forward)
        return opened


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    assert run_cli(["lesson", "--course", "-o", str(folder)]).status == 0
    return folder


@pytest.mark.parametrize(
    "name", ["diamond", pytest.param("gates", marks=pytest.mark.slow), pytest.param("slope", marks=pytest.mark.slow)]
)
def test_everything_in_a_course_of_lessons_after_any_actions_is_what_the_commands_print(
    page_of_its_own: Page, course: Path, name: str
) -> None:
    page = page_of_its_own
    page.emulate_media(reduced_motion="reduce")
    walk(LessonReader(page, course, name, random.Random(name)), amount(36, 90, 300))
