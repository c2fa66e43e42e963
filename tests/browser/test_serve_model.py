"""What the pages of `autodiff serve` show after any actions is what commands print for what was typed or uploaded."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import wait_until
from tests.browser.test_page_model import CONDITIONS, FORMULAS, Computed, Model, Reader, walk
from tests.each import amount
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

LONG = " + ".join(f"sin({k}*x)^2" for k in range(1, 60))
TYPED = [
    *((text, ", ".join(f"{name}={x}" for name, x in point.items())) for text, point, _ in FORMULAS.values()),
    ("c = x + 1\nc*y", "x=2 y=0.5"),
    (LONG, "x=1"),
    ("<b>&amp;</b>", ""),
    ("sine(x)", "x=1"),
    ("x^", ""),
    ("2x", "x=1"),
    ("x*y", "x=1, q=2"),
    ("x", "x"),
    ("   ", "x=1"),
]
FILES = {
    "decay.csv": "x,y\n0,2\n1,1.2\n2,0.75\n3,0.44\n4,0.27\n",
    "line.csv": "x;y\n1,5;2,1\n2,5;3,9\n3,5;6,2\n",
    "bad.csv": "x,z\n1,2\n2,3\n3,5\n",
}
SHOWN = Path(__file__).with_name("serve_state.js").read_text(encoding="utf-8")
# What a reader drops, or sends twice, with a file of any name.
DROP = """([name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name));
  for (const what of ["dragover", "drop"]) {
    const event = new DragEvent(what, { dataTransfer, bubbles: true, cancelable: true });
    document.getElementById("drop").dispatchEvent(event);
  }
}"""


def expected(formula: str, values: str) -> tuple[bool, str | None]:
    """Whether a formula has a page, and the message above it or in its place: that of the command."""
    if not formula.strip():
        return False, None
    parts = [part for part in re.split(r"[, ]+", values) if part]
    wrong = [part for part in parts if "=" not in part]
    if wrong:
        return False, f"error: values have the form x=2, y=3, not `{wrong[0]}`"
    written = run_cli(["trace", *(f"--set={part}" for part in parts), "--", formula])
    return written.status == 0, written.stderr.strip() or None


class ServeReader(Reader):
    """Takes actions in the pages of a server: formulas that are typed, their steps, and fits of files."""

    def __init__(self, page: Page, address: str, folder: Path, chance: random.Random) -> None:
        self.address, self.folder = address, folder
        super().__init__(page, Model(*FORMULAS["sum"]), chance)
        self.history: list[tuple[str, str]] = [("", "")]
        self.typed: list[str] = []
        self.report: str | None = None
        self.row: list[str] | None = None
        self.now = 0
        self.shared: Model | None = None  # the state in the address of the first page
        self._arrive()

    @property
    def place(self) -> str:
        return f"{self.history[self.now]}, {super().place if self.has_steps else self.report!r}"

    @property
    def has_steps(self) -> bool:
        return self.has_page and self.history[self.now][0] in {text for text, *_ in FORMULAS.values()}

    def check(self) -> None:
        formula, _ = self.history[self.now]
        shown = self.page.evaluate(SHOWN)
        assert shown["typed"] == self.typed
        assert shown["formula"] == (formula if self.has_page else None)
        alert = (shown["alert"] or "").strip()
        if "is not an option" in (self.alert or ""):  # of a terminal
            assert alert.removeprefix("error: ") in str(self.alert)
        else:
            assert alert == (self.alert or "")
        assert shown["examples"] == (0 if self.has_page else 3)
        if self.has_page:
            assert shown["fields"] == [None] * 6
        else:
            assert shown["fields"] == self.fields
            assert shown["over"] == "typed"
            assert shown["report"] == self.report
            assert shown["row"] == self.row
        if self.has_steps:
            super().check()
        else:
            assert self.page.evaluate(CONDITIONS) == []

    def actions(self, count: int) -> list[str]:
        own = [name for name in vars(ServeReader) if name.startswith("do_")]
        steps = [name for name in dir(Reader) if name.startswith("do_")]
        every = self.chance.sample([*own, *own, *self.chance.sample(steps, 4)], 2 * len(own) + 4)
        return [*["do_fit"] * 3, *every][:count] + self.chance.choices([*own, *steps], k=max(0, count - len(every) - 3))

    def take(self, name: str) -> None:
        """Take an action, or another one where the page has no such control."""
        is_of_steps = name not in vars(ServeReader) or name == "do_link"
        if is_of_steps and not self.has_steps:
            name = "do_type"
        if self.has_page and name in ("do_fit", "do_example"):
            name = "do_leave"
        super().take(name)

    def _arrive(self) -> None:
        formula, values = self.history[self.now]
        wait_until(self.page, "document.readyState === 'complete' && typeof hadFocus === 'undefined'")
        self.page.evaluate("window.hadFocus = false")
        self.has_page, self.alert = expected(formula, values)
        self.typed = [formula.replace("\r", ""), values]
        if not formula.strip():
            self.typed[0] = ""
        self.fields, self.report, self.row = ["", "", "", "", "", ""], None, None
        self.file: str | None = None
        if self.has_steps:
            was = self.shared if self.now == 0 else None
            self.model = Model(*next(each for each in FORMULAS.values() if each[0] == formula))
            self.model.is_narrow, self.model.has_room = self.page.evaluate("narrow.matches"), False
            if was:
                self.model.change(was.point)
                self.model.seed = was.seed
                self.model.go(was.position)

    def _open(self, formula: str, values: str) -> None:
        """A formula was sent: its page is next in the history."""
        has_state = self.shared is not None and self.now == 0
        is_same = self.history[self.now] == (formula, values) and not has_state  # browsers replace an address by itself
        self.now += not is_same
        self.history[self.now :] = [(formula, values)]
        self._arrive()

    def do_type(self) -> None:
        """Type a formula and send it, in one of the ways in which people do."""
        formula, values = self.chance.choice(TYPED)
        self.fill("#typed-formula", formula)
        self.fill("#typed-values", values)
        self._send(self.chance.choice(["button", "Enter", "Enter in values", "twice"]), formula, values)

    def _send(self, way: str, formula: str, values: str) -> None:
        if way == "Enter":
            self.page.locator("#typed-formula").press("Enter")
        elif way == "Enter in values":
            self.page.locator("#typed-values").press("Enter")
        else:
            clicks = "button.click();" * (2 if way == "twice" else 1)
            self.page.evaluate(f"() => {{ const button = document.querySelector('#box button'); {clicks} }}")
        self._open(formula, values)

    def do_lines(self) -> None:
        """Type two lines: Shift and Enter begin the second, and nothing is sent."""
        self.fill("#typed-formula", "c = v + 1")
        field = self.page.locator("#typed-formula")
        field.press("End")
        field.press("Shift+Enter")
        self.page.keyboard.type("x*c")
        self.typed = ["c = v + 1\nx*c", self.typed[1]]
        self.check()
        self.fill("#typed-values", "v=1, x=2")
        self._send("Enter", self.typed[0], "v=1, x=2")

    def do_example(self) -> None:
        button = self.page.locator("[data-formula]").nth(self.chance.randrange(2))
        formula, values = button.inner_text(), button.get_attribute("data-values") or ""
        button.click()
        self._open(formula, values)

    def do_leave(self) -> None:
        """Go to the start page."""
        if self.has_page:
            self.page.evaluate("document.querySelector('#box a').click()")
            self._open("", "")

    def do_history(self) -> None:
        """Go back or forward, or load the page again."""
        ways = ["reload"] + ["back"] * (self.now > 0) + ["forward"] * (self.now + 1 < len(self.history))
        way = self.chance.choice(ways)
        {"reload": self.page.reload, "back": self.page.go_back, "forward": self.page.go_forward}[way]()
        self.now += {"reload": 0, "back": -1, "forward": 1}[way]
        self._arrive()

    def do_link(self) -> None:
        was = self.model
        super().do_link()
        self.history, self.now, self.shared = [self.history[self.now]], 0, was
        self.has_page, self.alert = expected(*self.history[0])
        self.typed, self.model.has_room = [*self.history[0]], False

    def do_fit(self) -> None:
        """Fit a file that was chosen or dropped, with some settings; perhaps press Fit for another model before."""
        chance = self.chance
        is_wrong = self.row is not None and chance.random() < 0.6
        models = ["y ~ sine(x)", ""] if is_wrong else ["y ~ a*exp(-b*x)", "y ~ a*x", "y ~ a + b*x"]
        start = chance.choice(["", "", "a=1.5", "q" if is_wrong else "a=2"])
        settings = [["", "mae", "huber"], ["", "", "adam"], ["", "0.2"], ["", "9"]]
        self.fields = [chance.choice(models), start, *map(chance.choice, settings)]
        names = ["model", "start", "loss", "optimizer", "learning_rate", "epochs"]
        ways = [("choose",), ("drop",), ("drop", "choose"), ("choose", "drop"), ()]
        for way in chance.choice(ways):
            name = chance.choice([*FILES][: 2 if not is_wrong else 3])
            if way == "drop":
                self.page.evaluate(DROP, [name, FILES[name]])
                assert self.page.evaluate(SHOWN)["report"] == f"{name}: press Fit."
            else:
                (self.folder / name).write_text(FILES[name])
                self.page.locator("#file").set_input_files(self.folder / name)
            self.file = name
        for field, text in zip(names, self.fields, strict=True):
            self.fill(f"#{field}", text, "change")
        send = "document.querySelector('#fit [type=submit]').click();"
        other = chance.choice(["", "document.getElementById('model').value = 'y ~ q*x';"])
        back = f"document.getElementById('model').value = {self.fields[0]!r};"
        twice = f"{other} {send} {back}" if other else ""
        shown = self.page.evaluate(f"() => {{ {twice} {send} return ({SHOWN})(); }}")
        if self.file is not None:
            assert (shown["report"], shown["row"]) == (f"Fitting {self.file} …", None)
        wait_until(self.page, "!document.getElementById('report').textContent.startsWith('Fitting')")
        self._fitted()

    def _fitted(self) -> None:
        if self.file is None:
            self.report, self.row = "Choose a file, or drop one here.", None
            return
        model, start, *settings = self.fields
        report: str = self.page.evaluate(SHOWN)["report"]
        self.report, self.row = report, None
        if not model or start == "q":
            assert report.startswith("error: values have" if start == "q" else "error: type a model")
            return
        options = zip(("loss", "optimizer", "learning-rate", "epochs"), settings, strict=True)
        words = [f"--{name}={text}" for name, text in options if text] + ([f"--set={start}"] if start else [])
        document = ["train", *words, "--json", "--", model, "-"]
        written = run_cli(document, stdin=FILES[self.file])
        if written.status == 2:
            assert report.startswith(written.stderr.splitlines()[0][:20])
            return
        rows = FILES[self.file].count("\n") - 1
        assert report.count(f"{rows} rows") == 1
        text = run_cli(["train", *words, "--", model, "-"], stdin=FILES[self.file])
        assert [line for line in text.replace("standard input", "the file").splitlines() if line not in report] == []
        notes = [line for line in text.stderr.splitlines() if "--" not in line]
        assert [line for line in notes if line not in report] == []
        self.row = ["1", str(rows)]
        self.chance.choice([self._trace_row, self._watch, lambda *_: None])(rows, written.json)

    def _trace_row(self, rows: int, fit: dict[str, Any]) -> None:
        """Open the steps of the loss of a row, and come back."""
        parameters: dict[str, float] = fit["parameters"]
        k = self.chance.randrange(1, rows)
        self.fill("#row", str(k + 1))
        self.page.evaluate("document.querySelector('#row-form [type=submit]').click()")
        wait_until(self.page, "typeof record !== 'undefined' && document.readyState === 'complete'")
        text = FILES[self.file or ""]
        text = text.replace(",", ".").replace(";", ",") if ";" in text else text
        names, *lines = [line.split(",") for line in text.split()]
        point = self.page.evaluate("playback.point")
        wanted = dict(zip(names, map(float, lines[k]), strict=True)) | parameters
        assert point == pytest.approx({name: wanted[name] for name in point})
        assert self.page.evaluate(SHOWN)["alert"].startswith(f"note: the loss of row {k + 1} at the fitted parameters")
        file = self.folder / "row.csv"
        file.write_text(f"{','.join(names)}\n{','.join(lines[k])}\n")
        options = [f"--loss={self.fields[2]}"] if self.fields[2] else []
        words = (self.fields[0], str(file), "--row=1", *options, *(f"--{name}={x!r}" for name, x in parameters.items()))
        values = self.page.evaluate("playback.computation.values")
        if "scale" not in fit:  # `trace` takes no scale
            assert values == pytest.approx(Computed(*words).values)
        self._return()

    def _watch(self, rows: int, fit: dict[str, Any]) -> None:
        """Open the page of the fit, and come back."""
        self.page.evaluate("document.getElementById('learn').click()")
        wait_until(self.page, "document.getElementById('epoch') !== null && document.readyState === 'complete'")
        end = """() => {
          const epoch = document.getElementById("epoch");
          epoch.value = epoch.max;
          epoch.dispatchEvent(new Event("input"));
          const cells = [...document.querySelectorAll("#parameters [data-parameter]")];
          return Object.fromEntries(cells.map(({ dataset }) => [dataset.parameter, Number(dataset.value)]));
        }"""
        assert self.page.evaluate(end) == pytest.approx(fit["parameters"])
        assert self.page.evaluate("Number(document.getElementById('row').max)") == rows
        assert self.page.evaluate(CONDITIONS) == []
        self._return()

    def _return(self) -> None:
        self.page.go_back()
        self.history[self.now + 1 :] = []
        self._arrive()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_everything_that_the_server_shows_after_any_actions_is_what_the_commands_print(
    served: Page, address: str, tmp_path: Path, seed: int
) -> None:
    served.emulate_media(reduced_motion="reduce")
    walk(ServeReader(served, address, tmp_path, random.Random(seed)), amount(10, 40, 200))
