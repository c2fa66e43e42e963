"""What docs/architecture.md promises of the house: no circle of imports, short files, small folders, pinned builds."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support import ROOT

PACKAGE = ROOT / "autodiff_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [file for kind in ("*.py", "*.js", "*.css", "*.html") for file in sorted(PACKAGE.rglob(kind))]
MOST_LINES = 400
MOST_FILES = 16  # in a folder


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(file): file for file in FILES}


def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, also within functions, but not for types alone."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))
    # Of `from a.b import c`, c may be a module, or something in the module a.b.
    found = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return found & {*MODULES} - {module_of(file)}


def test_no_circle_of_imports_whether_at_the_top_or_in_functions() -> None:
    try:
        TopologicalSorter({name: imported(file) for name, file in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_reads_in_one_sitting(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_a_folder_is_taken_in_at_a_glance() -> None:
    for folder in {file.parent for file in SOURCES}:
        files = [file for file in folder.iterdir() if file.is_file() and file.suffix != ".pyc"]
        assert len(files) <= MOST_FILES, f"{folder}: {len(files)} files"


def test_floors_have_no_exceptions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        assert not {"ignore_imports", "allow_indirect_imports"} & {*contract}


def requirements() -> Iterator[Requirement]:
    """What the project needs, with all extras, and to be built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    for texts in lists:
        for requirement in map(Requirement, texts):
            if requirement.name != project["project"]["name"]:
                yield requirement


def test_continuous_integration_installs_versions_that_are_written_down_and_allowed() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines if not line.startswith("#"))  # type: ignore[union-attr]
    for requirement in requirements():
        assert requirement.name in pinned, f"run .ci/pin to have {requirement.name} in .ci/constraints.txt"
        assert Version(pinned[requirement.name]) in requirement.specifier, requirement


def test_a_name_of_a_class_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for file in FILES:
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places.setdefault(statement.name, []).append(module_of(file))
    assert {name: several for name, several in places.items() if len(several) > 1} == {}
