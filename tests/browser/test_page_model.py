"""What the page shows after any actions is what the command prints for the same formula, values and step.

A small model of the page takes the same actions; after each, every number, sentence and mark is compared.
"""

from __future__ import annotations

import functools
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.support import opened, resize, settle
from tests.browser.test_page_values import is_about_an_operation, of_operation
from tests.each import amount
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

STATE, CONDITIONS = (
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("state.js", "conditions.js")
)
# Formulas with values, and other values that their variables take.
FORMULAS: dict[str, tuple[str, dict[str, float], list[float]]] = {
    "sum": ("c = v + 1; x*y + sin(x)", {"v": 1, "x": 2, "y": 3}, [-1.25, 0.5, 3, 2]),
    "shared": (
        "a = x*x; b = tanh(a - y); b*a + (1 + 2)*b + z",
        {"x": 0.5, "y": -0.25, "z": 4},
        [0.75, -2, 1e-6, 1234567],
    ),
    "choice": ("where(x > 0, x^2, log(y)) + relu(y) + max(x, y)*w", {"x": 2, "y": -3, "w": 0.5}, [-1, 0, 1.5, 4]),
    "cancelling": ("d = sin(x*y); 0.1*d + 0.2*d - 0.3*d", {"x": 2, "y": 3}, [0.5, 1e-3, 4]),
    "neuron": (
        "h = sigmoid(w*x + b); (h - t)^2 + 0*u",
        {"w": 2, "x": -1, "b": 0.5, "t": 1, "u": 3},
        [0.25, -3, 45, -40],
    ),
}


def g(x: Any, digits: int = 6) -> str:
    """A number as the command writes it."""
    return f"{float(x) + 0:.{digits}g}"


def full(text: str) -> float:
    """The number at the end of a text, with all its digits."""
    return float(re.split(r"[ =]", text)[-1])


def approx(x: Any) -> Any:
    return pytest.approx(float(x), rel=1e-12, abs=1e-300, nan_ok=True)


class Computed:
    """What the command prints for a formula at a point: the JSON document, and the sentences of both passes."""

    def __init__(self, *words: str) -> None:
        self.words = ["trace", *words]
        self.document = run_cli([*self.words, "--mode", "forward", "--json"]).json
        report = run_cli(self.words)
        self.forward, self.backward = (_steps(report, heading) for heading in ("forward pass", "backward pass"))
        nodes = self.document["nodes"]
        self.values = [float(node["value"]) for node in nodes]
        self.adjoints = [None if node["adjoint"] is None else float(node["adjoint"]) for node in nodes]

    def tangents(self, name: str) -> list[list[str]]:
        """The sentences of forward mode for a variable."""
        return _steps(_report(*self.words, "--mode", "forward", "--wrt", name), "forward mode")


@functools.cache
def _report(*words: str) -> str:
    return run_cli([*words])


def _steps(report: str, heading: str) -> list[list[str]]:
    """The numbered sentences below a heading of a report, each with those below it, without the tables of arrays."""
    part = report.partition(heading)[2].partition("\n\n")[0]
    steps = re.split(r"\n  +\d+\. ", part)[1:]
    return [[line.strip() for k, line in enumerate(step.splitlines()) if k == 0 or ": " in line] for step in steps]


@functools.cache
def computed(text: str, *point: tuple[str, float]) -> Computed:
    return Computed(text, *(f"--{name}={value!r}" for name, value in point))


class Model:
    """The state of the page that a reader's actions lead to, and what it shows.

    Subclasses are pages that have more than a trace.
    """

    first_tab = ("Values", "Step")  # in a wide window, and in a narrow one
    has_room = True  # for numbers beside edges, in a wide window

    def __init__(self, text: str, point: dict[str, float], choices: list[float]) -> None:
        self.text, self.point, self.choices = text, {**point}, choices
        self.nodes = self.now.document["nodes"]
        self.forward = {step["node"]: k for k, step in enumerate(self.now.document["forward"])}
        self.backward = {step["node"]: k for k, step in enumerate(self.now.document["backward"])}
        self.users = [[n["id"] for n in self.nodes for j in n["inputs"] if j == i] for i in range(len(self.nodes))]
        self.order = [*self.forward, *self.backward]
        self.output = len(self.nodes) - 1
        self.position, self.selected, self.is_untouched = len(self.forward), self.output, True
        self.seed: str | None = None  # of forward mode
        self.slid: tuple[str, dict[str, float]] | None = None  # the variable that a slider moves, and from where
        self.is_noted = self.is_open = self.is_narrow = False
        self.trail = [self.point]
        self.found: tuple[str, int] = ("", 0)
        self.said: str | None = None  # in place of the sentence of the step

    @property
    def now(self) -> Computed:
        return self.computed(self.point)

    @property
    def seeds(self) -> list[str]:
        """The variables by which forward mode differentiates."""
        return [*self.point]

    def computed(self, point: dict[str, float]) -> Computed:
        """What the command prints at a point."""
        return computed(self.text, *point.items())

    @property
    def length(self) -> int:
        return len(self.forward) + (0 if self.seed else len(self.backward))

    @property
    def steps_back(self) -> int:
        return self.position - len(self.forward)

    @property
    def current(self) -> int | None:
        return self.order[self.position - 1] if self.position else None

    @property
    def matches(self) -> list[int]:
        text = self.found[0]
        return [n["id"] for n in self.nodes if text and text in f"{n['label']} {n['op']}".replace("input", "variable")]

    # --- actions

    def go(self, position: int) -> None:
        self.position = max(0, min(position, self.length))
        self.is_untouched = self.is_noted = False
        self.said = None
        if self.current is not None:
            self.selected = self.current

    def change(self, point: dict[str, float], is_descent: bool = False) -> None:
        self.point = point
        self.slid, self.is_noted, self.said = None, False, None
        self.trail = [*self.trail, point] if is_descent else [point]

    def slide(self, name: str, to: float) -> None:
        start = self.slid[1] if self.slid and self.slid[0] == name else self.point
        self.change(self.point | {name: to})
        self.slid, self.is_noted = (name, start), True

    def use_mode(self, seed: str | None) -> None:
        self.position = 0 if seed else min(self.position, len(self.forward))
        self.seed, self.said, self.is_noted = seed, None, False

    # --- what it shows

    def is_computed(self, i: int) -> bool:
        return self.forward.get(i, -1) < self.position

    def has_contributed(self, i: int) -> bool:
        return self.backward.get(i, self.steps_back) < self.steps_back

    def is_known(self, i: int) -> bool:
        if self.now.adjoints[i] is None or self.seed:
            return False
        return (
            self.has_contributed(i)
            if i in self.forward
            else self.steps_back >= 0 and all(map(self.has_contributed, self.users[i]))
        )

    def contributions(self, i: int) -> dict[int, dict[str, Any]]:
        """The contributions of a node, by the positions of its inputs."""
        inputs = self.nodes[i]["inputs"]
        positions = [k for k, j in enumerate(inputs) if self.now.adjoints[j] is not None]
        given = self.now.document["backward"][self.backward[i]]["contributions"] if i in self.backward else []
        return dict(zip(positions, given, strict=True)) if given else {}

    def so_far(self, i: int) -> tuple[float, bool] | None:
        """The sum of contributions to a node whose adjoint is not known, and whether it is complete."""
        made = [j for j in self.users[i] if self.has_contributed(j)]
        if self.seed or self.steps_back <= 0 or self.now.adjoints[i] is None or self.is_known(i) or not made:
            return None
        steps = self.now.document["backward"][: self.steps_back]
        totals = [given["total"] for step in steps for given in step["contributions"] if given["to"] == i]
        return float(totals[-1]), len(made) == len(self.users[i])

    def has_arrived(self, i: int) -> bool:
        return "its adjoint is 0, so it contributes 0" not in str(self.now.backward[self.backward[i]][:1])

    def check(self, shown: dict[str, Any]) -> None:
        """Compare everything that the page shows with what the model says."""
        wheres = [f"{len(self.forward)} forward" + f", {len(self.backward)} backward" * (self.seed is None)]
        wheres += [f"forward {k + 1} of {len(self.forward)}" for k in range(len(self.forward))]
        wheres += [f"backward {k + 1} of {len(self.backward)}" for k in range(len(self.backward))]
        where, is_back = wheres[self.position], self.steps_back > 0
        share = 100 * len(self.forward) / self.length
        assert shown["where"] == where
        assert shown["slider"][:3] == [str(self.position), str(self.length), where]
        assert float(shown["slider"][3].rstrip("%")) == pytest.approx(share)
        assert shown["way"] == [is_back, is_back]
        assert shown["buttons"]["backward-pass"][1:] == [self.seed is not None, "false"]
        assert shown["buttons"]["forward-pass"][1:] == [False, "false"]
        assert shown["buttons"]["quiz"][1:] == [self.seed is not None, "false"]
        assert not shown["isQuiz"]
        assert shown["buttons"]["forward-mode"][2] == str(self.seed is not None).lower()
        assert shown["buttons"]["restart"][1] == (len(self.trail) == 1)
        assert shown["isAmongPanels"] == self.is_narrow
        assert shown["first"] == self.first_tab[self.is_narrow]
        assert shown["tabs"] == 1
        self._check_sentences(shown)
        self._check_values(shown)
        self._check_nodes(shown)
        self._check_edges(shown)
        self._check_node(shown)
        self._check_table(shown["table"])
        self._check_panels(shown)

    def _check_sentences(self, shown: dict[str, Any]) -> None:
        steps = self.now.tangents(self.seed) if self.seed else [*self.now.forward, *self.now.backward]
        words = steps[self.position - 1] if self.position else []
        if self.seed and self.current == self.output and "tangent is 0" not in words[0]:
            words = [f"{words[0]}, which is d/d{self.seed}", *words[1:]]
        if self.said is not None:
            assert shown["status"] == [self.said]
        elif words:
            assert [*shown["status"], *shown["list"]] == words
        else:
            beginning = f"Forward mode: {self.seed} has tangent 1." if self.seed else "A forward step computes a value."
            assert shown["status"][0].startswith(beginning)
        remarks = ["Why does the backward pass"] * (self.steps_back == 1)
        if self.is_untouched:
            few = ", ".join(f"{name} = {g(value, 4)}" for name, value in self.point.items())
            remarks = [
                f"{f'At {few}: ' if len(self.point) <= 3 else ''}f = {g(self.now.values[-1], 4)}. Backward shows"
            ]
        if self.seed:
            assert not shown["remark"]
        elif self.steps_back == len(self.backward):
            assert shown["remark"]
        else:
            assert [text[: len(start)] for text, start in zip(shown["remark"], remarks, strict=True)] == remarks
        assert shown["formula"] == self.text
        tangent = ["tangent (forward mode)", "beside an edge: the local derivative"]
        usual = ["adjoint", "beside an edge: local derivative, contribution"]
        assert shown["legend"] == (tangent if self.seed else usual)
        assert ("This pass gives" in shown["passes"]) == (self.seed is not None)
        if self.seed:
            slope = self.now.document["tangents"][self.seed][-1]
            assert full(shown["passes"].partition("gives ")[2].partition(" and no")[0]) == approx(slope)

    def _check_values(self, shown: dict[str, Any]) -> None:
        assert [float(text) for text in shown["fields"]] == [*self.point.values()]
        is_end, is_done = self.position == self.length, self.is_computed(self.output)
        assert (full(shown["result"]) if is_done else shown["result"]) == (
            approx(self.now.values[-1]) if is_done else ""
        )
        ids = {node["label"]: node["id"] for node in self.nodes if node["op"] == "input"}
        for name, (text, title) in zip(self.point, shown["slopes"], strict=True):
            known = self.is_known(ids[name]) if name in ids else is_end
            assert [text.partition(" =")[0], title.partition(" =")[0]] == [f"d/d{name}" if known else ""] * 2
            if known:
                assert [full(text), full(title)] == [approx(self.now.document["gradient"].get(name, 0))] * 2
        warnings = [of_operation(warning["message"]) for warning in self.now.document["warnings"]]
        found = [of_operation(warning) for warning in shown["warnings"]]
        assert sorted(filter(is_about_an_operation, found)) == sorted(filter(is_about_an_operation, warnings))
        if self.slid is None:
            for x, (low, high, at) in zip(self.point.values(), shown["sliders"], strict=True):
                assert [low, high, at] == pytest.approx([x - max(1, abs(x)), x + max(1, abs(x)), x])

    def _check_nodes(self, shown: dict[str, Any]) -> None:
        rates = self.now.document["tangents"][self.seed] if self.seed else []
        every = {str(node["id"]) for node in self.nodes}
        is_folded = shown["buttons"]["fold"][2] == "true"
        assert shown["nodes"].keys() <= every if is_folded or self.is_narrow else shown["nodes"].keys() == every
        current = self.current
        assert current is None or str(current) in shown["nodes"]
        for name, found in shown["nodes"].items():
            node, i = self.nodes[int(name)], int(name)
            is_computed, is_known = self.is_computed(i), self.is_known(i)
            value, adjoint = self.now.values[i], self.now.adjoints[i]
            assert ("value" in found["data"], "adjoint" in found["data"]) == (is_computed, is_known)
            words = [node["label"]]
            if is_computed:
                assert float(found["data"]["value"]) == approx(value)
                words += [f"value {g(value)}"] * (node["op"] != "constant")
            text, total = "", self.so_far(i)
            if is_known:
                assert float(found["data"]["adjoint"]) == approx(adjoint)
                words.append(f"adjoint {g(adjoint)}")
                text = g(adjoint, 4)
            elif total:
                words.append(f"adjoint so far {g(total[0])}")
                text = f"{g(total[0], 4)}{'' if total[1] else ' …'}"
            elif self.seed and is_computed:
                words.append(f"tangent {g(rates[i])}")
                text = g(rates[i], 4)
            drawn = found["texts"]
            if drawn["value"] is not None:
                assert drawn["value"] == (g(value, 4) if is_computed else "")
            if not self.is_noted:
                if drawn["adjoint"] is not None:
                    assert drawn["adjoint"] == text, node["label"]
                assert found["name"].split(", ")[:-1] == ", ".join(words).split(", ")
            states = {"computed": is_computed, "known": is_known, "current": i == current}
            states["match"] = i in self.matches[self.found[1] :][:1]
            assert {state: state in found["classes"] for state in states} == states, node["label"]
            if i == current:
                (left, top, right, bottom), stage = found["place"], shown["stage"]
                assert min(left - stage[0], top - stage[1], stage[2] - right, stage[3] - bottom) > -2

    def _check_edges(self, shown: dict[str, Any]) -> None:
        assert not self.has_room or self.is_narrow or any(edge["texts"] for edge in shown["edges"])
        for edge in shown["edges"]:
            (j, i), contribution = edge["ends"], self.contributions(edge["ends"][1]).get(edge["position"])
            if "folded" in shown["nodes"][str(i)]["classes"]:
                continue
            is_made = self.has_contributed(i) and contribution is not None
            states = {"carried": self.is_computed(i)}
            assert {state: state in edge["classes"] for state in states} == states
            way, _, numbers = edge["title"].partition(": ")
            if ": " not in self.nodes[j]["label"] + self.nodes[i]["label"]:
                assert way == f"{self.nodes[j]['label']} → {self.nodes[i]['label']}"
            local, _, amount = numbers.partition(", ")
            if not self.seed:
                assert bool(local) == bool(amount) == is_made
                assert ("passed" in edge["classes"] or "blocked" in edge["classes"]) == is_made
            assert not amount or not self.seed
            given = contribution or {}
            assert not local or full(local) == approx(given["local"])
            assert not amount or full(amount) == approx(given["amount"])
            wanted = [g(given["local"], 4) if local else "", g(given["amount"], 4) if amount else ""]
            assert edge["texts"] in ([], wanted)
            assert ("flowing" in edge["classes"]) <= (i == self.current and self.steps_back <= 0)
            assert ("returning" in edge["classes"]) <= (i == self.current and self.steps_back > 0)

    def _check_node(self, shown: dict[str, Any]) -> None:
        """Check the panels of the selected node: its facts, its slopes, and the reasons for its adjoint."""
        i = self.selected
        facts, (items, sentences) = dict(shown["panel"][0]), shown["panel"][1:]
        assert ("value" in facts) == self.is_computed(i)
        assert ("value" not in facts) or float(facts["value"]) == approx(self.now.values[i])
        assert ("adjoint" in facts) == (self.is_known(i) or self.now.adjoints[i] is None)
        assert not self.is_known(i) or float(facts["adjoint"]) == approx(self.now.adjoints[i])
        if i in self.backward:
            for text, contribution in zip(items, self.contributions(i).values(), strict=True):
                assert text.startswith(f"towards {self.nodes[contribution['to']]['label']}")
                if self.is_computed(i) and self.has_arrived(i):
                    assert re.split(r" = |: ", text)[-1] == g(contribution["local"])
            sentence = self.now.backward[self.backward[i]][0].partition(f", adjoint {g(self.now.adjoints[i])}: ")[2]
            assert sentences == [f"Backward pass: {sentence}"] * self.has_contributed(i)
        adjoint = self.now.adjoints[i]
        equations, notes = shown["why"]
        if adjoint is None:
            assert notes[0].endswith("has no adjoint: it depends on no variable.")
            return
        assert equations[-1].endswith(f"= {g(adjoint)}")
        if i != self.output:
            terms = [
                (j, c) for j in dict.fromkeys(self.users[i]) for c in self.contributions(j).values() if c["to"] == i
            ]
            assert all(notes[k].endswith(("structural zero.", "adjoint is 0.")) for k in range(len(notes)))
            if len(equations) > 2:
                products = [f"{_factor(c['local'])} × {_factor(self.now.adjoints[j])}" for j, c in terms]
                shown_terms = equations[1].removeprefix("= ").split(" + ")
                assert len(shown_terms) + len(notes) == len(products)
                assert set(shown_terms) <= set(products)
            for note in notes:
                is_zero = any(note.startswith(self.nodes[j]["label"]) and not self.has_arrived(j) for j, _ in terms)
                assert note.endswith("its adjoint is 0.") == is_zero

    def _check_table(self, table: list[list[str]] | None) -> None:
        assert (table is not None) == self.is_open
        for node, (label, op, value, adjoint, first, second) in zip(self.nodes, table or [], strict=self.is_open):
            i = node["id"]
            assert (label, op) == (node["label"], node["op"].replace("input", "variable"))
            assert value == (g(self.now.values[i]) if self.is_computed(i) else "")
            missing = "none" if self.now.adjoints[i] is None else ""
            assert adjoint == (g(self.now.adjoints[i]) if self.is_known(i) else missing)
            is_done = i in self.forward and self.is_computed(i)
            assert first == (self.now.forward[self.forward[i]][0] if is_done else "")
            words = self.now.backward[self.backward[i]] if i in self.backward and self.has_contributed(i) else [""]
            assert second == "; ".join(words).removeprefix(f"{node['label']}, adjoint {g(self.now.adjoints[i] or 0)}: ")

    def _check_panels(self, shown: dict[str, Any]) -> None:
        current = self.current
        varying = (
            {} if current is None else {j for j in self.nodes[current]["inputs"] if self.now.adjoints[j] is not None}
        )
        if current is not None and len(varying) == 1 and not (self.is_narrow and shown["remark"]):
            slope = sum(float(c["local"]) for c in self.contributions(current).values())
            x = self.now.values[next(iter(varying))]
            texts = [f"slope {g(slope, 4)} at {g(x, 4)}"]
            assert shown["slope"] in (texts if abs(slope) < 1e300 and abs(self.now.values[current]) < 1e300 else [None])
        else:
            assert shown["slope"] is None
        text, k = self.found
        many = len(self.matches)
        assert shown["matches"] == ("" if not text else f"{k + 1} of {many}" if many else "no match")
        if self.slid is None:
            assert shown["changes"] is None
        else:
            self._check_changes(shown["changes"])
        values = [g(self.computed(point).values[-1]) for point in self.trail]
        assert shown["trail"] == (f"output: {' → '.join(values)}" if len(values) > 1 else "")
        assert shown["now"] == [*[False] * (len(shown["now"]) - 1), True][: len(shown["now"])]
        assert len(shown["now"]) in (0, len(values))

    def _check_changes(self, changes: Any) -> None:
        """Check the table of changes: against the command at both points, and its tangents at the first."""
        assert self.slid is not None
        name, start = self.slid
        before, epsilon = self.computed(start), self.point[name] - start[name]
        assert changes[0] == f"{name}: ε = {g(epsilon)}"
        for label, change, predicted, _ in changes[1]:
            (i,) = (node["id"] for node in self.nodes if node["label"] == label)
            scale = 1e-13 * (abs(self.now.values[i]) + 1)
            actual = 0 if repr(self.now.values[i]) == repr(before.values[i]) else self.now.values[i] - before.values[i]
            assert float(change) == pytest.approx(actual, rel=1e-5, abs=scale, nan_ok=True)
            if name not in before.document["tangents"]:  # a column of the data
                continue
            rate = float(before.document["tangents"][name][i])
            assert predicted.startswith(f"{g(rate)} × {_factor(epsilon)} = ")
            assert full(predicted) == pytest.approx(rate * epsilon, rel=1e-5, abs=1e-300, nan_ok=True)


def _factor(x: Any) -> str:
    return f"({g(x)})" if g(x).startswith("-") else g(x)


_ANSWER = """() => {
  const { question } = playback.quiz;
  if (question?.wanted === undefined) return;
  byId("answer").value = inFull(question.wanted);
  byId("question").requestSubmit();
}"""
# What the page shows in a quiz although it may not: numbers of hidden nodes, also a part of a sum, and what tells them.
_REVEALED = """() => {
  const nodes = [...document.querySelectorAll("#stage .node")].flatMap((node) => ["value", "adjoint"].map((kind) =>
    [node.querySelector(`text.${kind}`)?.textContent ?? null, node.dataset[kind] ?? null]));
  const edges = playback.quiz.level.hidesAdjoint ? [...document.querySelectorAll("#stage .edge")] : [];
  const isHidden = ({ dataset }) => playback.hidesAdjoint(Number(dataset.from));
  return [
    ...edges.filter((edge) => isHidden(edge) && edge.textContent.includes("contributes")).map(() => "contribution"),
    ...nodes.filter(([text, number]) => text !== null && !text !== (number === null)).map(() => "node"),
    ...(byId("slope").hidden && !byId("remark").hasChildNodes() ? [] : ["slope or remark"]),
  ];
}"""


class Reader:
    """Takes actions at random, in the page and in the model."""

    def __init__(self, page: Page, model: Model, chance: random.Random) -> None:
        self.page, self.model, self.chance = page, model, chance

    @property
    def place(self) -> str:
        """Where the walk is, for messages."""
        return f"{self.model.point}, step {self.model.position}"

    def check(self) -> None:
        """Compare everything that the page shows."""
        self.model.check(self.page.evaluate(STATE))
        assert self.page.evaluate(CONDITIONS) == []

    def click(self, *names: str) -> None:
        for name in names:
            self.page.evaluate("(id) => { byId(id).focus(); byId(id).click(); }", name)

    def fill(self, selector: str, text: str, event: str = "input") -> None:
        script = """([selector, text, event]) => { const field = document.querySelector(selector);
            field.focus(); field.value = text; field.dispatchEvent(new Event(event, { bubbles: true })); }"""
        self.page.evaluate(script, [selector, text, event])

    def actions(self, count: int) -> list[str]:
        """So many actions at random, each kind at least once."""
        kinds = [name for name in dir(self) if name.startswith("do_")]
        often = [*kinds, "do_step", "do_step", "do_arrow", "do_edit", "do_edit", "do_position"]
        every = [*kinds, *self.chance.choices(often, k=count - len(kinds))]
        return self.chance.sample(every, len(every))

    def take(self, name: str) -> None:
        """Take an action."""
        getattr(self, name)()

    def do_step(self) -> None:
        way = self.chance.choice([1, 1, -1])
        self.click("step" if way > 0 else "back")
        if 0 <= self.model.position + way <= self.model.length:
            self.model.go(self.model.position + way)

    def do_arrow(self) -> None:
        key, way = self.chance.choice([("ArrowRight", 1), ("ArrowLeft", -1)])
        modifier = self.chance.choice(["", "", "Control+", "Alt+", "Shift+"])
        self.page.evaluate("byId('step').focus()")
        script = """([key, held]) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown",
            { key, [`${held}Key`]: true, bubbles: true, cancelable: true }))"""
        self.page.evaluate(script, [key, {"": "none", "Control+": "ctrl", "Alt+": "alt", "Shift+": "shift"}[modifier]])
        if not modifier and 0 <= self.model.position + way <= self.model.length:
            self.model.go(self.model.position + way)

    def do_position(self) -> None:
        position = self.chance.randrange(self.model.length + 1)
        self.fill("#position", str(position))
        self.model.go(position)

    def do_play(self) -> None:
        name = self.chance.choice(["reset", "forward-pass", "backward-pass"])
        if name == "backward-pass" and self.model.seed:
            return
        self.click(name)
        self.model.go({"reset": 0, "forward-pass": len(self.model.forward)}.get(name, self.model.length))

    def do_begin_backward(self) -> None:
        """The state in which the backward pass begins, before its first step: only the output has an adjoint."""
        if self.model.seed:
            return
        self.model.go(len(self.model.forward))
        self.fill("#position", str(self.model.position))
        self.page.evaluate("seed()")
        shown, output = self.page.evaluate(STATE), self.model.output
        assert shown["status"] == ["The backward pass begins at the output."]
        assert shown["remark"][0].startswith("Why does the backward pass")
        part = self.page.evaluate("record.text.slice(...(record.nodes[record.output].span ?? [0, 0]))")
        assert shown["mark"] == ([part] if part else [])
        states = [name for name, node in shown["nodes"].items() if {"known", "current"} & {*node["classes"]}]
        assert states == [str(output)]
        assert {"known", "current"} <= {*shown["nodes"][str(output)]["classes"]}
        self.click("step")
        self.model.go(self.model.position + 1)

    def do_edit(self) -> None:
        name, value = self.chance.choice([*self.model.point]), self.chance.choice(self.model.choices)
        self.fill(f"#variable-{[*self.model.point].index(name)}", str(value))
        self.model.change(self.model.point | {name: value})

    def do_slide(self) -> None:
        name = self.chance.choice([*self.model.point])
        share = self.chance.choice([0.25, 0.75, 0.5625])
        script = """([at, share]) => { const slider = document.querySelectorAll("#variables input[type=range]")[at];
            slider.value = Number(slider.min) + share * (slider.max - slider.min);
            slider.dispatchEvent(new Event("input", { bubbles: true })); }"""
        self.page.evaluate(script, [[*self.model.point].index(name), share])
        value = self.page.evaluate("(key) => playback.point[key]", name)
        assert value == float(self.page.locator(f"#variable-{[*self.model.point].index(name)}").input_value())
        self.model.slide(name, value)

    def do_select(self) -> None:
        i = self.chance.choice(self.page.evaluate("graph.ids.filter((i) => graph.isInSight(i))"))
        self.page.evaluate("(i) => graph.element(i).dispatchEvent(new MouseEvent('click', { bubbles: true }))", i)
        self.model.selected = i

    def do_roam(self) -> None:
        """Enter the drawing as the Tab key does, and go from node to node with the arrow keys."""
        script = """([count, key, way]) => {
          const stop = graph.svg.querySelector("[data-node][tabindex='0']");
          stop.focus();
          const from = graph.ids.indexOf(Number(stop.dataset.node));
          for (let k = 0; k < count; k++) {
            const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
            document.activeElement.dispatchEvent(event);
          }
          const to = Math.max(0, Math.min(from + way * count, graph.ids.length - 1));
          return [document.activeElement.dataset.node, String(graph.ids[to])];
        }"""
        key, way = self.chance.choice([("ArrowDown", 1), ("ArrowUp", -1)])
        at, wanted = self.page.evaluate(script, [self.chance.randrange(4), key, way])
        assert at == wanted
        self.model.selected = int(at)

    def do_tap(self) -> None:
        """Tap a node: the line below the drawing has its numbers, as far as they are known."""
        i = self.chance.choice(self.page.evaluate("graph.ids.filter((i) => graph.isInSight(i))"))
        script = """(i) => {
          const node = graph.element(i);
          node.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, pointerType: "touch" }));
          return [byId("element").textContent, node.dataset.value, node.dataset.adjoint];
        }"""
        line, value, adjoint = self.page.evaluate(script, i)
        numbers = [f"value {value}"] * (value is not None) + [f"adjoint {adjoint}"] * (adjoint is not None)
        assert line == ": ".join(filter(None, [self.model.nodes[i]["label"], ", ".join(numbers)]))
        self.model.selected = i

    def do_find(self) -> None:
        text = self.chance.choice(["x", "a", "mul", "tanh", "zzz", "", "("])
        self.fill("#find", text)
        self.model.found = (text, 0)
        for _ in range(self.chance.randrange(4)):
            self.page.evaluate(
                "byId('find').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))"
            )
            self.model.found = (text, (self.model.found[1] + 1) % max(len(self.model.matches), 1))
        if self.model.matches:
            self.model.selected = self.model.matches[self.model.found[1]]

    def do_mode(self) -> None:
        """Begin forward mode with a variable, and perhaps leave it."""
        seed = self.chance.choice(self.model.seeds)
        self.fill("#seed", str(self.model.seeds.index(seed)), "change")
        self.model.use_mode(seed)
        if self.chance.random() < 0.5:
            self.do_step()
            self.model.check(self.page.evaluate(STATE))
            self.click("forward-mode")
            self.model.use_mode(None)

    def do_quiz(self) -> None:
        """Begin a quiz and leave it: by its button, by a step, or by another value."""
        if self.model.seed:
            return
        self.click("quiz")
        for level in self.chance.sample(["adjoint", "value", "local derivative", "next", "bug"], 3):
            self.fill("#level", level, "change")
            for _ in range(self.chance.randrange(4)):
                self.page.evaluate(_ANSWER)
                assert self.page.evaluate(_REVEALED) == [], level
        assert self.page.evaluate("!byId('question').hidden && byId('quiz').ariaPressed === 'true'")
        self.model.go(self.page.evaluate("playback.position"))
        self.model.selected = self.page.evaluate("playback.quiz.question?.node ?? -1")
        if self.chance.random() < 0.5:
            self.click("quiz")
            self.model.go(self.model.position)
            if self.model.selected < 0:
                self.do_select()
        else:
            if self.model.selected < 0:
                self.do_select()
            self.do_edit()

    def do_table(self) -> None:
        self.page.evaluate("document.querySelector('#table summary').click()")
        self.model.is_open = not self.model.is_open
        self.page.evaluate("new Promise((done) => setTimeout(done, 0))")  # until it is filled in

    def do_print(self) -> None:
        """Print: with all numbers, the table and no controls; then everything is as it was."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert self.page.evaluate("[playback.position === playback.length, byId('table').open]") == [True, True]
        self.page.evaluate("dispatchEvent(new Event('afterprint'))")
        self.model.go(self.model.position)
        if not self.model.position:
            self.model.selected = self.model.order[self.model.length - 1]
        self.page.evaluate("new Promise((done) => setTimeout(done, 0))")

    def do_resize(self) -> None:
        self.model.is_narrow = not self.model.is_narrow
        resize(self.page, *((390, 844) if self.model.is_narrow else (1280, 800)))
        settle(self.page)

    def do_link(self) -> None:
        """Open the link to this state in a page that was just opened."""
        address = self.page.evaluate("location.href.split('#')[0] + fragment()")
        self.page.goto("about:blank")
        self.page.goto(address)
        was = self.model
        self.model = self.reopened()
        self.model.change(was.point)
        self.model.seed, self.model.is_narrow = was.seed, was.is_narrow
        self.model.go(was.position)

    def reopened(self) -> Model:
        """The model of the same page when it is opened again."""
        return type(self.model)(self.model.text, self.model.point, self.model.choices)

    def do_descend(self) -> None:
        """Descend a step, and go back to the start."""
        name, rate = self.chance.choice([*self.model.point]), self.chance.choice([0.125, -0.25])
        model = self.model
        slope = float(model.now.document["gradient"].get(name, "nan"))
        box = f"[aria-label='learn {name}']"
        if not abs(slope) < 1e6 or self.page.locator(box).count() == 0 or model.seed:
            return
        self.page.evaluate("document.querySelectorAll('#learned input').forEach((box) => { box.checked = false; })")
        self.page.evaluate("(box) => document.querySelector(box).click()", box)
        self.fill("#rate", str(rate))
        before = model.now.values[-1]
        point = model.point | {name: model.point[name] - rate * slope}
        self.click("descend")
        model.trail = [model.point]
        model.change(point, is_descent=True)
        model.go(model.length)
        after = model.now.values[-1]
        how = "falls" if after < before else "rises" if after > before else "goes"
        how = f"stays at {g(after)}" if g(before) == g(after) else f"{how} from {g(before)} to {g(after)}"
        (first, *_), _ = self.page.evaluate("[[byId('status').firstChild.textContent], 0]")
        assert first.startswith(f"Step 1 of sgd: the output {how}.")
        last = model.now.backward[-1]
        model.check({**self.page.evaluate(STATE), "status": last[:1], "list": last[1:]})
        self.click("restart")
        model.change(model.trail[0])
        model.said = f"Back at the start: the output is {g(model.now.values[-1])}."


def walk(reader: Reader, count: int) -> None:
    """Take so many actions; after each, compare everything shown, and check what holds of every page."""
    reader.check()
    done: list[str] = []
    for name in reader.actions(count):
        done.append(name)
        try:
            reader.take(name)
            reader.check()
        except AssertionError as error:
            raise AssertionError(f"after {done[-6:]} at {reader.place}") from error


ARRAYS = [
    ["p = softmax(W @ x + b); -log(p[0]) + sum(x^2)", "--W", "[[1, -1], [0, 2]]", "--x", "[1, 0.5]", "--b", "[0, 1]"],
    ["norm(A @ v) + sum(A)*max(v)", "--A", "[[0.5, -3, 2], [4, 1, 0], [7, 7.5, -1]]", "--v", "[1, 2, 1.5]"],
]


@pytest.mark.parametrize("words", ARRAYS, ids=lambda words: words[0])
def test_sentences_about_arrays_are_those_of_the_command(page: Page, words: list[str]) -> None:
    page.emulate_media(reduced_motion="reduce")
    opened(page, words)
    report = _report("trace", *words)
    for wanted in [*_steps(report, "forward pass"), *_steps(report, "backward pass")]:
        page.keyboard.press("ArrowRight")
        shown = page.evaluate(STATE)
        assert [*shown["status"], *shown["list"]] == wanted


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in ("shared", "sum") else each for each in FORMULAS]
)
def test_everything_shown_after_any_actions_is_what_the_command_prints(page: Page, name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    text, point, choices = FORMULAS[name]
    opened(page, [text, *(f"--{key}={value}" for key, value in point.items())])
    page.reload()
    walk(Reader(page, Model(text, point, choices), random.Random(name)), amount(25, 60, 300))
