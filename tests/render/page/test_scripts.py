"""What stands above a walk, lessons and fits, uses names that the page has, and no name means two things: one does not
need a browser to see that."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import autodiff_cli.render as render
from autodiff_cli.render.javascript import optimizer_equations
from tests.support import SETS, run_cli

_FOLDER = Path(render.__file__).parent
_COMMON = (
    "htmlElement",
    "byId",
    "record",
    "brief",
    "inFull",
    "toDigits",
    "nested",
    "chunks",
    "shape",
    "isRight",
    "places",
)
_COMMON += ("elementAt", "setValues", "evaluator", "chart", "line", "around", "SAMPLES", "svgElement")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "learning.html"
    assert run_cli(f'train "y ~ mlp(x, [2], tanh)" {SETS / "sine.csv"} --epochs 2 --page {file}').status == 0
    return file.read_text(encoding="utf-8")


@pytest.mark.sampled
@pytest.mark.parametrize("name", _COMMON)
def test_the_page_declares_what_additions_use(page: str, name: str) -> None:
    own = "\n".join(
        file.read_text(encoding="utf-8") for kind in ("learning", "lessons") for file in (_FOLDER / kind).glob("*.js")
    )
    assert re.search(rf"\b{name}\b", own), f"{name} is used no more: take it from this list"
    walk = page.partition("(() => {\n// What a fit predicts")[0]
    assert re.search(rf"^(?:function|const|let|class) {name}\b", walk, re.M)


def _declared(script: str) -> list[str]:
    """The names that a script declares outside of all functions, each as often as it does."""
    script = re.sub(r"^const \w+ = \(\(\) => \{\n.*?^\}\)\(\);$", "", script, flags=re.M | re.S)
    single = re.findall(r"^(?:async )?(?:function\*?|class|const|let|var) (\w+)", script, re.M)
    several = re.findall(r"^(?:const|let|var) ?[\[{](.*?)[\]}] ?=", script, re.M)
    return [*single, *(name for names in several for name in re.findall(r"\w+", re.sub(r"\w+: ?", "", names)))]


@pytest.mark.parametrize("words", ["x*y --x 2 --y 3", '"softmax(W @ x)[0]" --W [[1,2],[3,4]] --x [1,2]'])
def test_scripts_share_one_scope_and_no_name_means_two_things(words: str) -> None:
    """A function that is declared twice silently replaces the first; other names would break the page."""
    written = str(run_cli(f"trace {words} --format html"))
    library = (_FOLDER / "page" / "drawing" / "dagre.min.js").read_text(encoding="utf-8")
    assert library in written
    declared = _declared(written.rpartition("<script>")[2].replace(library, ""))
    assert {"Playback", "Graph", "Cursor", "drawnNode"} <= {*declared}
    assert [name for name, count in Counter(declared).items() if count > 1] == []


def test_the_scripts_of_pages_keep_every_text(page: str) -> None:
    """Spaces are left out between signs, never within texts or regular expressions."""
    texts = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`\n]*`|/(?![*/ ])(?:[^/\\\n]|\\.)+/[gmu]')
    for file in [*_FOLDER.glob("page/*.js"), *_FOLDER.glob("page/panels/*.js"), *_FOLDER.glob("page/quiz/*.js")]:
        code = re.sub(r"^ *(?://|/\*\*| \*).*\n| // .*$", "", file.read_text(encoding="utf-8"), flags=re.M)
        assert [text for text in texts.findall(code) if text not in page] == [], file.name


def test_negative_numbers_in_equations_of_methods_have_brackets_except_at_the_start() -> None:
    for equations in optimizer_equations().values():
        for name, phrase in equations:
            slots = {place: part[2] for place, part in enumerate(phrase) if not isinstance(part, str)}
            assert slots == {place: int(place > 0) for place in slots}, name
