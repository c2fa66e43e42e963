"""The documentation site, built by Sphinx: `python -m sphinx -W docs build/site`, then open `build/site/index.html`.

Sphinx with MyST, because it is maintained for the long term, reads the Markdown pages as they are, generates the Python
reference from docstrings, and has a checker of links (`-b linkcheck`). Before a build, `generate` writes the reference
of the commands, and runs the commands of the cookbook and the gallery for their pictures and pages.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

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
html_static_path = ["static"]
html_css_files = ["site.css"]
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


def commands_of(text: str) -> list[str]:
    """Return the commands in the console blocks of a text, without the name of the program."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.S | re.M)
    return [command for block in blocks for command in re.findall(r"^\$ autodiff (.*)$", block, re.M)]


def run_examples(text: str, folder: Path) -> dict[str, str]:
    """Run the commands of a page, in a folder from which the data can be reached, and return what each prints."""
    folder.mkdir(parents=True, exist_ok=True)
    printed = {}
    for command in commands_of(text):
        with contextlib.chdir(folder):
            line = re.sub(r"\b(docs|tests)/", rf"{ROOT}/\1/", command)
            printed[command] = run_cli(line, terminal=WIDTH, colour=True).replace(f"{ROOT}/", "")
    return printed


def recipes_without_picture(text: str) -> dict[str, str]:
    """Return the recipes of the cookbook without a figure or a page, each by the name of a picture for it."""
    recipes = re.findall(r"^\*\*.*?(?=^\*\*|^## |\Z)", text, re.S | re.M)
    bare = (recipe for recipe in recipes if "{figure}" not in recipe and "<iframe" not in recipe)
    return {f"terminal-{number}.svg": recipe for number, recipe in enumerate(bare)}


def add_pictures(app: Any, name: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's signature
    """Add a picture of a terminal with the whole output to each recipe of the cookbook that has no other one.

    The other pictures get a text in place of their path, which screen readers would say.
    """
    alternative = ":alt: The picture that the command above writes\n"
    source[0] = re.sub(r"^(:+\{figure\} \S+\n)(?!:)", rf"\1{alternative}", source[0], flags=re.M)
    for picture, recipe in recipes_without_picture(source[0]).items() if name == "cookbook" else ():
        figure = f":::{{figure}} generated/files/cookbook/{picture}\n:alt: The commands and all they print\n:::\n\n"
        source[0] = source[0].replace(recipe, recipe.rstrip() + "\n\n" + figure)


def draw_terminal(text: str, path: Path) -> None:
    """Write a picture of a terminal that shows a text with ANSI colours."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(text.rstrip()))
    picture = console.export_svg(title="autodiff")
    # The fonts of the reader's system, not those of a server.
    path.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.S).replace("Fira Code", "monospace"), "utf-8")


def generate(app: Any) -> None:  # noqa: ARG001 - Sphinx's signature
    """Write what is generated, before the pages are read."""
    (GENERATED / "commands.md").write_text(commands_page(), encoding="utf-8")
    for name in ("gallery", "cookbook"):
        text, folder = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), GENERATED / "files" / name
        printed = run_examples(text, folder)
        for picture, recipe in recipes_without_picture(text).items() if name == "cookbook" else ():
            lines = [f"$ autodiff {command}\n{printed[command]}" for command in commands_of(recipe)]
            draw_terminal("\n".join(lines), folder / picture)


def setup(app: Any) -> None:
    """Connect the functions above to the build."""
    app.connect("builder-inited", generate)
    app.connect("source-read", add_pictures)
