"""What the documentation shows is what the program does: every block is run and compared."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

import autodiff_cli as ad
from autodiff_cli.cli.command_line import COMMANDS, find_command
from autodiff_cli.ops import function_names
from tests.each import each
from tests.support import ROOT, run_cli

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")


def console_blocks(page: Path) -> list[list[tuple[str, str]]]:
    """Each ```console block of a page: its commands, with the output shown under each."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M)
    commands = (re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M) for block in blocks)
    return [[(command, shown.rstrip()) for command, shown in block] for block in commands]


BLOCKS = [(page, block) for page in PAGES for block in console_blocks(page)]


# Pages whose examples need an extra, and the module that it brings.
EXTRAS = {"bayes.md": ("bayes", "nutpie"), "python.md": ("sklearn", "sklearn")}


def _skip_without_extra(page: Path) -> None:
    extra, module = EXTRAS.get(page.name, ("", "doctest"))
    if find_spec(module) is None:
        pytest.skip(f"the extra {extra} is not installed")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page.name in ("networks.md", "fitting-reference.md") else [])
        for page in PAGES
    ],
    ids=lambda page: page.name,
)
def test_python_blocks_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _skip_without_extra(page)
    monkeypatch.chdir(ROOT)
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert results.failed == 0


def is_slow(page: Path, block: list[tuple[str, str]]) -> bool:
    """Whether the commands of a block train a network, draw from a posterior, or draw a figure."""
    costly = ("mlp(", "--posterior", "--plot")
    return page.name == "networks.md" or any(word in command for command, _ in block for word in costly)


@pytest.mark.parametrize(
    ("page", "block"),
    [pytest.param(*each, marks=[pytest.mark.slow] if is_slow(*each) else []) for each in BLOCKS],
    ids=[f"{page.name}: {block[0][0]}" for page, block in BLOCKS],
)
def test_commands_print_what_is_shown(
    page: Path, block: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a block run one after the other, in a folder of their own from which the data can be reached."""
    if any("--posterior" in command for command, _ in block):
        _skip_without_extra(page)
    for folder in ("docs", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    for command, shown in block:
        words = shlex.split(command)
        assert words[0] == "autodiff", f"{page.name} shows a command that is not ours"
        result = run_cli(words[1:])
        printed = "\n".join(line.rstrip() for line in (str(result) + result.stderr).rstrip().split("\n"))
        pattern = re.escape(shown).replace(re.escape("[...]"), ".*?")
        assert re.fullmatch(pattern, printed, re.S), printed


def heading_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert os.path.exists(linked), target
        assert not anchor or anchor in heading_anchors(linked), f"{target}#{anchor}"


def test_the_picture_of_a_graph_has_the_numbers_that_are_computed() -> None:
    picture = (ROOT / "docs" / "graph.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'data-node="(\d+)".*?data-value="([^"]*)" data-adjoint="([^"]*)"', picture)
    nodes = run_cli(["grad", "x*y + sin(x)", "--x", "2", "--y", "3", "--json"]).json["nodes"]
    assert [(int(i), float(value), float(adjoint)) for i, value, adjoint in drawn] == [
        (node["id"], node["value"], node["adjoint"]) for node in nodes
    ]


def test_every_function_is_in_the_language_page() -> None:
    text = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`([^`(]+)\(", text)) | set(re.findall(r"`([^` ]+)`", text))
    assert set(function_names()) <= listed


def test_every_public_name_is_on_the_page_of_python() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto\w+:: (\w+)$", page, re.M)
    assert sorted([*documented, "__version__"]) == sorted(ad.__all__)


# Options of other programs, and examples of values.
OTHER_OPTIONS = {"--group", "--quiet", "--no-compile", "--cases", "--peers", "--set-up", "--slow", "--exhaustive"}
OTHER_OPTIONS |= {"--exp", "--mlp", "--operations"}


def test_every_option_that_is_named_exists() -> None:
    """In messages, help and documentation."""
    options = {
        flag for each in COMMANDS for option in find_command(each).options.values() for flag in option.option.flags
    }
    texts = [path for path in (ROOT / "autodiff_cli").rglob("*") if path.suffix in (".py", ".toml", ".txt")]
    for path in [*texts, *PAGES]:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]{2,}", path.read_text(encoding="utf-8")))
        assert named <= options | OTHER_OPTIONS | {"--help", "--version"}, path


@each(
    ("command", "has_notes", "kinds"),
    [
        ("grad 'e*log(x)' --x=-1 --e 2 --json", False, {"domain"}),
        ("trace 'e*abs(x)' --x 0 --e 2 --json", False, {"kink"}),
        ("grad 'e*[x, log(x)]' --x 0 --e 2 --json --jacobian", False, {"singular"}),
        ("grad 'e*x' --x 1..2 --e 2 --json", False, set()),
        ("train 'y ~ a*exp^(-b*x)' DATA --json", True, {str}),
        ("data DATA --json", True, set()),
    ],
)
def test_warnings_and_notes_in_json_are_as_the_page_of_messages_says(
    command: str, has_notes: bool, kinds: set[object]
) -> None:
    output = run_cli([word.replace("DATA", str(ROOT / "docs/data/decay.csv")) for word in shlex.split(command)])
    document = json.loads(output)
    warnings = document.get("warnings", [])
    assert {warning["kind"] if isinstance(warning, dict) else type(warning) for warning in warnings} == kinds
    assert ("notes" in document, "note: `e` is a variable" in output.stderr) == (has_notes, not has_notes)
