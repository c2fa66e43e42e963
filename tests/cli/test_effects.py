"""An option that is accepted has an effect, in every form of a command; otherwise it is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import autodiff_cli as ad
from autodiff_cli.cli.command_line import find_command
from tests.each import each, evenly_spread_part
from tests.support import run_cli

Values: TypeAlias = Mapping[str, str | None]  # a value for each option that changes results; None for flags

_ROWS = [(k / 3, 2 + k / 2 + k * 7 % 5 / 9, 0.1 + k % 3 / 20, "ab"[k % 2], k % 4 + 1) for k in range(16)]
_READING: Values = {
    "--delimiter": ";", "--decimal": ",", "--comment": "0", "--no-header": None, "--skip": "1", "--units-row": None,
    "--encoding": "utf-16", "--column": "z=x", "--where": "x > 2", "--sheet": "2",
}  # fmt: skip
_UNCERTAIN: Values = {"--sigma": "x=0.3", "--correlation": "x,y=0.5", "--monte-carlo": "100", "--seed": "7"}
_RANGES: Values = {"--digits": "3", "--json": None, "--plot": None, "--precision": "30", "--set": "q=2"}
_VALUES: dict[str, Values] = {
    "grad": {
        "--wrt": "y", "--mode": "forward", "--symbolic": None, "--order": "2", "--hessian": None, "--jacobian": None,
        "--outputs": "a", "--direction": "x=1,y=2", "--at": "d.csv", "--precision": "30", "--digits": "3",
        "--json": None, "--set": "q=2", **_UNCERTAIN,
    },
    "trace": {
        "--wrt": "y", "--mode": "forward", "--tape": None, "--paths": "y", "--limit": "0", "--digits": "3",
        "--json": None, "--format": "dot", "--output": "o.tex", "--highlight": "x", "--only": "x", "--fold": None,
        "--hide-constants": None, "--exercise": None, "--row": "4", "--loss": "mae", "--family": "poisson",
        "--step": None, "--set": "q=2", **_UNCERTAIN,
    },
    "predict": {
        "--interval": "0.5", "--posterior": None, "--probabilities": None, "--residuals": None, "--inverse": "x",
        "--json": None, "--output": "o.csv", "--set": "x=2",
    },
    "train": {
        "--absolute-sigma": None, "--bootstrap-method": "bca", "--bounds": "b=2:", "--confidence": "0.5",
        "--derive": "c=a/b", "--digits": "2", "--fix": "a=2", "--json": None, "--log": "x", "--loss": "mae",
        "--panels": "data", "--scale": "2", "--sigma": "s", "--weights": "n", "--x-sigma": "x=s", "--l2": "0.1",
        "--validation": "0.25", "--huber-delta": "0.5", "--family": "gaussian", "--lr": "0.05", "--output": "o.csv",
    },
    "solve": _RANGES, "minimize": _RANGES,
    "compare": {
        "--sigma": "s", "--weights": "n", "--loss": "huber", "--huber-delta": "0.5", "--scale": "2", "--folds": "3",
        "--seed": "7", "--family": "poisson", "--absolute-sigma": None, "--prior": "a ~ normal(0, 1)", "--digits": "3",
        "--json": None,
    },
    "lesson": {"--output": "o.html", "--json": None, "--digits": "3", "--course": None},
    "data": {"--json": None},
    "check": {"--json": None, "--wrt": "y", "--set": "q=2"},
    "export": {"--hessian": None, "--json": None, "--name": "g", "--to": "js", "--value-only": None, "--wrt": "x"},
}  # fmt: skip
# More options, which are tried alone: with others, most are refused or change the same digits.
_ALONE: dict[str, Values] = {
    "train 'y ~ a + b*x' d.csv": {
        "--l1": "0.2", "--optimizer": "adam", "--epochs": "1", "--batch-size": "5", "--clip-norm": "0.01",
        "--lr-schedule": "cosine", "--tolerance": "0.9", "--starts": "3", "--patience": "1", "--min-delta": "0.1",
        "--prior": "b ~ normal(0, 0.1)", "--profile": None, "--bootstrap": "20", "--every": "2", "--set": "a=3",
        "--likelihood": None, "--plot": "o.svg", "--save": "o.json", "--checkpoint": "o.ckpt", "--resume": "o.ckpt",
    },
    "train 'y ~ a + b*x' d.csv --optimizer adam --epochs 30": {
        "--lr": "0.05", "--l1": "0.2", "--batch-size": "5", "--clip-norm": "0.01", "--lr-schedule": "cosine",
        "--tolerance": "0.9", "--starts": "3", "--prior": "b ~ normal(0, 0.1)", "--every": "2", "--set": "a=3",
    },
    "solve sin(9*x) --x 0.1..3": {"--max-boxes": "1"},
    "minimize (x^2-2)^2 --x 0..3": {"--max-boxes": "1"},
}  # fmt: skip
# Forms of commands, with the options that have no effect there although they are accepted.
_FORMS = {
    "grad x*sin(y) --x 2.5 --y 3.5": "",
    "grad x*sin(y)": "--symbolic --digits",
    "grad x*sin(y) --at d.csv": "",
    "grad x*sin(y) --x 0:1.5:3 --y 3.5": "",
    "grad x*sin(y) --x 1..2.5 --y 3.5": "",
    "grad x*sin(y) --x 2.5+-0.1 --y 3.5+-0.1": "",
    "trace x*sin(y) --x 2.5 --y 3.5": "",
    "trace x*sin(y) --x 2.5 --y 3.5 --paths": "",
    "trace x*sin(y)*2 --x 2.5 --y 3.5 --format svg": "--fold",
    "trace x*sin(y) --x 2.5 --y 3.5 --format latex": "",
    "trace 'y ~ a + b*x' d.csv --row 3 --a 2.7 --b 0.3": "",
    "trace m.json d.csv --row 3": "",
    "compare 'y ~ a + b*x' 'y ~ a + b*x + c*n' d.csv": "",
    "lesson chain": "",
    "data d.csv": "",
    "predict m.json d.csv": "",
    "predict m.json --x 2 --n 2": "",
    "predict m.json --inverse x --y 5 --n 2": "",
    "train 'y ~ a + b*x' d.csv": "",
    "train 'y ~ a + b*x' d.csv --by g": "",
    "train 'y ~ a + b*x' d.csv --optimizer adam --epochs 30": "--family --confidence --absolute-sigma",
    "train 'y ~ a + b*x' d.csv --output o.md": "--json --family",
    "solve x^2-2 --x 0..3": "",
    "solve sin(9*x) --x 0.1..3": "",
    "minimize (x^2-2)^2 --x 0..3": "",
    "check x*sin(y) --x 2.5 --y 3.5": "",
    "export x*y --to c": "",
    "export m.json --to c": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows of numbers and labels, and a model of these."""
    folder = tmp_path_factory.mktemp("effects")
    lines = [f"{x!r},{y!r},{s},{g},{n}\n" for x, y, s, g, n in _ROWS]
    (folder / "d.csv").write_text("x,y,s,g,n\n" + "".join(lines))
    line = ["train", "y ~ a + b*x + c*n", str(folder / "d.csv"), "--save", str(folder / "m.json")]
    assert run_cli(line).status == 0
    return folder


def _options(form: str, more: Mapping[str, Values]) -> dict[str, list[str]]:
    """The options of a form that have an effect there, each with its words."""
    name, *rest = shlex.split(form)
    typed = {**_VALUES[name], **_READING, **more.get(form, {})}
    flags = [flag for each in find_command(name).options.values() for flag in each.option.flags if flag in typed]
    values = {flag: typed[flag] for flag in flags if flag not in [*rest, *_FORMS[form].split()]}
    return {flag: [flag, *([] if value is None else [value])] for flag, value in values.items()}


def _outcome(words: list[str], folder: Path, form: str = "") -> tuple[Any, ...]:
    """What a command says and writes; only what it writes if its form is to write a file."""
    output = run_cli(words)
    written = [path.read_bytes() for path in sorted(folder.glob("o.*"))]
    for path in folder.glob("o.*"):
        path.unlink()
    return (output.status, written) if "--output" in form else (output.status, str(output), output.stderr, written)


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.slow] if form.startswith("compare") else []) for form in _FORMS]
)
def test_an_option_has_an_effect_or_is_refused(form: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    line = shlex.split(form)
    base = _outcome(line, folder, form)
    assert base[0] == 0, base
    for flag, words in _options(form, _ALONE).items():
        assert _outcome([*line, *words], folder, form) != base, flag


_FEW_PAIRS = 25  # all of which are tried in every run
_SLOW = ("train", "compare", "predict m.json --inverse")

# Options without an effect beside another one, and the reason.
_WITHOUT_EFFECT = {
    ("--digits", "--json"): "JSON has all digits",
    ("--digits", "--output"): "files have all digits",
    ("--digits", "--precision"): "all digits of the precision are shown",
    ("--digits", "--tape"): "the tape lists sizes, no values",
    ("--precision", "--digits"): "more digits than are shown are proven",
    ("--confidence", "--loss"): "absolute errors have no standard errors",
    ("--family", "--l2"): "the normal family is the default",
    ("--family", "--json"): "the normal family is the default",
    ("--family", "--output"): "the normal family is the default",
    ("--weights", "--loss"): "the line of the smallest absolute errors may go through the same two rows",
    ("--wrt", "--paths"): "the gradient is shown for the variable whose paths are shown",
    ("--hide-constants", "--only"): "a variable's ancestors are no constants",
}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, marks=[pytest.mark.slow] if form.startswith(_SLOW) else [])
        for form in _FORMS
        if "--output" not in form  # the one of which shows estimates only, which may be equal
    ],
)
def test_two_options_have_both_effects_or_are_refused(form: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    line = shlex.split(form)
    options = {flag: words for flag, words in _options(form, {}).items() if flag not in _READING}
    alone = {flag: _outcome([*line, *words], folder) for flag, words in options.items()}
    accepted = [flag for flag in options if alone[flag][0] == 0]
    pairs = [*combinations(accepted, 2)]
    for pair in pairs if len(pairs) <= _FEW_PAIRS else evenly_spread_part(pairs):
        both = _outcome([*line, *options[pair[0]], *options[pair[1]]], folder)
        for one, other in (pair, pair[::-1]):
            assert both != alone[other] or (one, other) in _WITHOUT_EFFECT, f"{one} beside {other}"
        if both[0] == 2:  # the refusal names options as one types them
            named = re.findall(r"(?<!\S)--[a-z][\w-]*", str(both[2]))
            assert {*named} <= {*find_command(line[0]).options} | {"--x", "--y"}, both[2]
        if both[0] == 0 and "--json" in pair:
            _, printed, _, written = both
            assert any(
                text[:1] == "{" and json.loads(text.splitlines()[0]) for text in (printed, *map(bytes.decode, written))
            ), pair


SEMICOLONS = "# measured\nx;y;g\n" + "".join(f"{k},5;{2 * k + k % 3};{'ab'[k % 2]}\n" for k in range(8))


@each("line", [
    "train y~a*x -", "train y~a*x - --by g", "compare - y~a*x y~a --folds 0", "predict {model} -", "grad x --at -",
    "trace y~a*x - --row 1 --a 1", "trace {model} - --row 1", "data -",
])  # fmt: skip
def test_every_command_says_how_it_has_parsed_its_data(line: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = tmp_path_factory.mktemp("saved") / "model.json"
    ad.fit("y ~ a*x", {"x": [1.0, 2, 3], "y": [2.0, 3, 7]}).save(model)
    output = run_cli([word.format(model=model) for word in line.split()], stdin=SEMICOLONS)
    assert output.status == 0
    for note in ("1 comment line was skipped", "the columns are separated by semicolons", "have decimal commas"):
        assert note in output.stderr + str(output)
