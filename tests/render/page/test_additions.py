"""What stands above a walk, lessons and fits, uses names that the page has: a browser is not needed to see that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import autodiff_cli.render as render
from tests.support import SETS, run_cli

_FOLDER = Path(render.__file__).parent
_COMMON = ("made", "byId", "record", "brief", "inFull", "toDigits", "nested", "chunks", "shape", "isRight", "places")
_COMMON += ("elementAt", "setValues", "evaluator", "walk", "chart", "line", "around", "SAMPLES", "drawnElement")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "learning.html"
    assert run_cli(f'train "y ~ mlp(x, [2], tanh)" {SETS / "sine.csv"} --epochs 2 --page {file}').status == 0
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", _COMMON)
def test_the_page_declares_what_additions_use(page: str, name: str) -> None:
    own = "\n".join(
        file.read_text(encoding="utf-8") for kind in ("learning", "lessons") for file in (_FOLDER / kind).glob("*.js")
    )
    assert re.search(rf"\b{name}\b", own), f"{name} is used no more: take it from this list"
    walk = page.partition("(() => {\n// What a fit predicts")[0]
    assert re.search(rf"^(?:function|const|let|class) {name}\b", walk, re.M)
