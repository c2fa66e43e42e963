"""The structure that docs/architecture.md describes: files are topics, imports have no circles, words are plain."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support import ROOT

PACKAGE = ROOT / "autodiff_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [file for kind in ("*.py", "*.js", "*.css", "*.html") for file in sorted(PACKAGE.rglob(kind))]
MAX_LINES = 800  # of a file: one topic, read in one sitting
MAX_FILES = 200  # Python files of the package
MAX_CODE_LINES = 44_709
MAX_TRAINING_FLOORS = 6  # longest chain of folders and modules of `training` that import one another

# Words that meant something only to the authors, with the standard terms that replaced them in names.
PRIVATE_WORDS = {
    "spoilt": "inaccurate",
    "unheld": "unrepresentable",
    "handed": "contribution",
    "keeper": "checkpoint writer",
    "crew": "thread pool",
    "deed": "cell store",
    "fronted": "api",
    "unheard": "output guard",
    "told": "warnings",
}


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(file): file for file in FILES}


@cache
def tree_of(file: Path) -> ast.Module:
    gc.disable()  # nothing of a tree is garbage, and looking for it would take most of the time
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    return [*ast.walk(tree_of(file))]


@cache
def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, also inside functions, but not those for type checking alone."""
    names: set[str] = set()
    for_types: set[ast.AST] = set()
    for node in nodes_of(file):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types.update(node.body)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in for_types:
            assert node.level == 0, f"{file}: imports are absolute"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    # In `from a.b import c`, c may be a module, or a name in the module a.b.
    modules = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return modules & {*MODULES} - {module_of(file)}


def code_lines(file: Path) -> int:
    """The number of lines with code: not blank, not a comment, not part of a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = {
        number
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    docstrings: set[int] = set()
    for node in nodes_of(file):
        if isinstance(node, ast.JoinedStr | ast.Constant) and node.end_lineno != node.lineno:
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))  # texts have blank lines and hashes of theirs
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines - docstrings)


@pytest.mark.slow
def test_no_circle_of_imports_whether_at_the_top_or_in_functions() -> None:
    try:
        TopologicalSorter({name: imported(file) for name, file in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_a_file_is_read_in_one_sitting() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in SOURCES}
    assert {file: length for file, length in lengths.items() if length > MAX_LINES} == {}


@pytest.mark.slow
def test_the_package_stays_within_its_budget_of_files_and_code() -> None:
    assert len(FILES) <= MAX_FILES
    assert sum(map(code_lines, FILES)) <= MAX_CODE_LINES


@pytest.mark.slow
def test_training_has_few_floors_and_its_folders_import_in_one_direction() -> None:
    """A room is a folder or a module directly in `training`; imports between rooms form no circle and a short stack."""
    prefix = "autodiff_cli.training."
    above: dict[str, set[str]] = {}
    for name, file in MODULES.items():
        if name.startswith(prefix):
            room = name.removeprefix(prefix).split(".")[0]
            rooms = {other.removeprefix(prefix).split(".")[0] for other in imported(file) if other.startswith(prefix)}
            above.setdefault(room, set()).update(rooms - {room})
    floors: dict[str, int] = {}
    for room in TopologicalSorter(above).static_order():
        floors[room] = 1 + max((floors[below] for below in above.get(room, ())), default=0)
    assert max(floors.values()) <= MAX_TRAINING_FLOORS, floors


def test_floors_have_no_exceptions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        assert not {"ignore_imports", "allow_indirect_imports"} & {*contract}


@pytest.mark.slow
def test_names_are_the_terms_of_the_field() -> None:
    """No function, class, parameter or attribute is named by a word that only its authors understand."""
    names: set[tuple[Path, str]] = set()
    for file in FILES:
        for node in nodes_of(file):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                    pass
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    pass
                case _:
                    continue
            names.add((file.relative_to(ROOT), name))
    words = [(file, name, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) for file, name in names]
    private = {
        f"{file}: {name} (say {PRIVATE_WORDS[word]!r})"
        for file, name, own in words
        for word in own
        if word in PRIVATE_WORDS
    }
    assert private == set()


@pytest.mark.slow
def test_random_data_depend_on_no_other_test() -> None:
    """A generator of a module is used while the module is loaded only: in tests, its numbers depend on those before."""
    generators = re.compile(r"^(\w+) = (?:np\.random\.default_rng|random\.Random)\(\d*\)$", re.MULTILINE)
    shared = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in generators.findall(file.read_text(encoding="utf-8")):
            tests = (part for part in tree_of(file).body if isinstance(part, ast.FunctionDef | ast.ClassDef))
            names = (node for test in tests for node in ast.walk(test) if isinstance(node, ast.Name))
            shared += [f"{file.name}, line {node.lineno}: {name}" for node in names if node.id == name]
    assert shared == []


@pytest.mark.slow
def test_docstrings_stand_alone() -> None:
    """A docstring says what a thing is or returns: it is no noun clause, and needs no neighbour in the file."""
    dependent_beginnings = re.compile(r"(The same|As above|What|How|Which|Where|That|Of)\b")
    dependent = []
    for file in FILES:
        for node in nodes_of(file):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if dependent_beginnings.match(text):
                    dependent.append(f"{file.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert dependent == []


@pytest.mark.slow
def test_arguments_in_docstrings_exist() -> None:
    for file in FILES:
        for node in nodes_of(file):
            if not isinstance(node, ast.FunctionDef):
                continue
            _, _, listed = (ast.get_docstring(node) or "").partition("\nArgs:\n")
            lines = re.findall(r"^    (\w[\w, ]*):", listed.partition("\n\n")[0], re.MULTILINE)
            documented = {name for line in lines for name in line.split(", ")}
            parameters = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            assert documented <= parameters, f"{file.name}: {node.name} has no {documented - parameters}"


@pytest.mark.slow
def test_names_in_docstrings_and_in_the_architecture_exist() -> None:
    known = {"signal_mv"} | {part for module in MODULES for part in module.split(".")}  # the first is an example
    for node in (node for file in FILES for node in nodes_of(file)):
        known |= {str(getattr(node, field)) for field in ("name", "id", "attr", "arg") if hasattr(node, field)}
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            known.add(node.value)
    texts = {ROOT / "docs" / "architecture.md": (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    for file in FILES:
        docstrings = (ast.get_docstring(node) for node in nodes_of(file) if isinstance(node, documented))
        texts[file] = "\n".join(filter(None, docstrings))
    for file, text in texts.items():
        named = re.findall(r"`(_?[a-z]{2,}(?:_[a-z]{2,})+|[A-Z][a-z]+[A-Z]\w+)`", text)
        assert {*named} <= known, f"{file.name} names { ({*named} - known) }"


def requirements() -> Iterator[Requirement]:
    """Every requirement of the project on this system, with all extras, and of its build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    lists += [project["dependency-groups"][group] for group in ("browser", "dev")]
    for texts in lists:
        for requirement in map(Requirement, filter(lambda text: isinstance(text, str), texts)):
            applies = requirement.marker is None or requirement.marker.evaluate()
            if applies and requirement.name != project["project"]["name"]:
                yield requirement


def test_continuous_integration_installs_versions_that_are_written_down_and_allowed() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines if not line.startswith("#"))  # type: ignore[union-attr]
    for requirement in requirements():
        assert requirement.name in pinned, f"run .ci/pin to have {requirement.name} in .ci/constraints.txt"
        assert Version(pinned[requirement.name]) in requirement.specifier, requirement


@pytest.mark.slow
def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for file in FILES:
        for statement in tree_of(file).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places.setdefault(statement.name, []).append(module_of(file))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


@pytest.mark.slow
def test_common_types_are_declared_once() -> None:
    aliases = re.compile(r"^(\w+) = NDArray\[", re.MULTILINE)
    places: dict[str, list[str]] = {}
    for file in FILES:
        for name in aliases.findall(file.read_text(encoding="utf-8")):
            places.setdefault(name, []).append(module_of(file))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
