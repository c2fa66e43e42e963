"""The documentation site, built by Sphinx: `python -m sphinx -W docs build/site`, then open `build/site/index.html`.

Sphinx with MyST, because it is maintained for the long term, reads the Markdown pages as they are, generates the Python
reference from docstrings, and has a checker of links (`-b linkcheck`). Before a build, `generate` writes the reference
of the commands, and runs the commands of the cookbook and the gallery for their pictures and pages.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "generated"
(GENERATED / "files").mkdir(parents=True, exist_ok=True)  # Sphinx looks for it before it builds
sys.path.insert(0, str(ROOT))

from autodiff_cli import __version__  # noqa: E402
from autodiff_cli.cli.command_line import COMMANDS, find_command  # noqa: E402
from tests.support import run_cli  # noqa: E402

WIDTH = 84  # of a line of help, so that it fits a column of the page

project = "autodiff"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["notebook.ipynb", "generated/files"]
html_theme = "furo"
html_title = "autodiff"
html_show_copyright = False
html_extra_path = ["generated/files"]
default_role = "code"
smartquotes = False  # they turn -- into a dash
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True


def commands_page() -> str:
    """Return the reference of the commands as Markdown, from their own help."""
    parts = ["# Command line\n", "Every option of every command, as `autodiff COMMAND --help` prints them.\n"]
    for name in COMMANDS:
        parts += [f"## {name}\n", f"```text\n{find_command(name).help(WIDTH).strip()}\n```\n"]
    return "\n".join(parts)


def run_examples(page: Path, folder: Path) -> None:
    """Run the commands of a page's console blocks, in a folder from which the data can be reached."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
        for command in re.findall(r"^\$ autodiff (.*)$", block, re.M):
            command = re.sub(r"\b(docs|tests)/", rf"{ROOT}/\1/", command)
            with contextlib.chdir(folder):
                run_cli(command)


def generate(app: Any) -> None:  # noqa: ARG001 - Sphinx's signature
    """Write what is generated, before the pages are read."""
    (GENERATED / "commands.md").write_text(commands_page(), encoding="utf-8")
    for name in ("cookbook", "gallery"):
        run_examples(ROOT / "docs" / f"{name}.md", GENERATED / "files" / name)


def setup(app: Any) -> None:
    """Connect `generate` to the build."""
    app.connect("builder-inited", generate)
