"""Write the scripts of all kinds of pages to a folder, for ESLint."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import autodiff_cli.render as render

_FOLDER = Path(render.__file__).parent
_DAGRE = (_FOLDER / "page" / "drawing" / "dagre.min.js").read_text(encoding="utf-8")
# Evaluators are translated from Python: their functions declare all variables first.
_GENERATED = re.compile(r'const \w+ = \(\(\) => \{\n"use strict";.*?\n\}\)\(\);', re.S)
_PAGES = {
    "trace": ["trace", "softmax(W @ x)[0]*y", "--W=[[1, 2], [3, 4]]", "--x=[1, 2]", "--y=2"],
    "lesson": ["lesson", "chain"],
}


def write_scripts(folder: Path) -> None:
    """Write a file of JavaScript for each page."""
    with tempfile.TemporaryDirectory() as home:
        data, page = Path(home, "data.csv"), Path(home, "page.html")
        data.write_text("x,y\n0,1\n1,2\n2,4\n", encoding="utf-8")
        pages = {name: [*words, "-o", str(page)] for name, words in _PAGES.items()}
        pages["training"] = ["train", "y ~ mlp(x, [2], tanh)", str(data), "--epochs", "2", "--page", str(page)]
        for name, words in pages.items():
            subprocess.run([sys.executable, "-m", "autodiff_cli", *words], check=True, stdout=subprocess.DEVNULL)
            script = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.S)[-1]
            script = _GENERATED.sub(
                r"/* eslint-disable prefer-const */\n\g<0>\n/* eslint-enable prefer-const */", script
            )
            (folder / f"{name}.js").write_text(script.replace(_DAGRE, "const dagre = {};\n"), encoding="utf-8")
    for file in [*(_FOLDER / "page" / "served").glob("*.js"), _FOLDER / "lessons" / "course.js"]:
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    write_scripts(Path(sys.argv[1]))
