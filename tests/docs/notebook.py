"""Runs the notebook of the documentation here; `python -m tests.docs.notebook` stores what its cells give."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support import ROOT

_KERNEL = "ipykernel"
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def cells() -> list[dict[str, Any]]:
    """The cells as they are stored."""
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return found


def outputs(sources: list[str], folder: Path) -> list[list[dict[str, Any]]]:
    """What each cell of code gives, run one after the other in a folder, in the notebook's own form."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance(user_ns={})
    shell.display_formatter.active_types = shell.display_formatter.format_types  # as notebooks have them
    results: list[dict[str, str]] = []  # what cells end with
    hook = shell.displayhook
    hook.write_format_data = lambda data, metadata=None: results.append(data)
    hook.write_output_prompt = hook.finish_displayhook = lambda: None
    found = []
    before = Path.cwd()
    os.chdir(folder)
    is_new = _KERNEL not in sys.modules  # fits ask whether they run in a notebook
    sys.modules.setdefault(_KERNEL, ModuleType(_KERNEL))
    try:
        for count, source in enumerate(sources, 1):
            with capture_output() as captured:
                run = shell.run_cell(source, store_history=False)
            run.raise_error()
            given: list[dict[str, Any]] = []
            if captured.stdout:
                given.append({"output_type": "stream", "name": "stdout", "text": _lines(captured.stdout)})
            given += [{"output_type": "display_data", **_stored(shown.data)} for shown in captured.outputs]
            while results:
                given.append({"output_type": "execute_result", "execution_count": count, **_stored(results.pop())})
            found.append(given)
    finally:
        os.chdir(before)
        if is_new:
            del sys.modules[_KERNEL]
        InteractiveShell.clear_instance()
    return found


def _stored(data: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {}, "data": {mime: _lines(text) for mime, text in sorted(data.items())}}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Store what the cells give now."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    found = outputs(["".join(cell["source"]) for cell in code], NOTEBOOK.parent)
    for count, (cell, given) in enumerate(zip(code, found, strict=True), 1):
        cell |= {"execution_count": count, "outputs": given}
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
