"""The notebook of the documentation has stored what its cells give."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.docs.notebook import NOTEBOOK, cells, outputs

pytest.importorskip("IPython", reason="`pip install --group dev` (pip 25.1) brings it")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def flat(output: dict[str, Any]) -> str:
    return json.dumps(output, ensure_ascii=False, sort_keys=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:IPython", "ignore::ResourceWarning")
def test_every_cell_gives_what_is_stored() -> None:
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    found = outputs(["".join(cell["source"]) for cell in code], NOTEBOOK.parent)
    for cell, given in zip(code, found, strict=True):
        stored, new = flat(cell["outputs"]), flat(given)
        assert NUMBER.sub("#", stored) == NUMBER.sub("#", new), cell["source"]
        numbers = ([float(number) for number in NUMBER.findall(text)] for text in (new, stored))
        assert next(numbers) == pytest.approx(next(numbers), rel=1e-6, abs=1e-9), cell["source"]


def test_formulas_fits_and_graphs_show_themselves() -> None:
    kinds = {kind for cell in cells() for output in cell.get("outputs", ()) for kind in output.get("data", ())}
    assert kinds >= {"text/latex", "text/html", "image/svg+xml", "text/plain"}
    assert NOTEBOOK.stat().st_size < 80_000
