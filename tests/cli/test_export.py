"""`autodiff export` at the command line; what it writes is compiled and run in `tests/export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodiff_cli.cli.export import LANGUAGES, Language
from autodiff_cli.export.languages import EXPORTERS
from tests.support import run_cli


def test_it_writes_to_standard_output_or_a_file_with_the_suffix_of_the_language(tmp_path: Path) -> None:
    printed = run_cli(["export", "x*y", "--to", "js"])
    assert printed.status == 0
    file = tmp_path / "f.js"
    assert run_cli(["export", "x*y", "-o", str(file)]).status == 0
    assert file.read_text(encoding="utf-8") == str(printed)
    assert str(run_cli(["export", "x*y", "-o", "-", "--to", "js"])) == str(printed)


def test_every_suffix_of_a_language_stands_for_it_in_capital_letters_too(tmp_path: Path) -> None:
    for language, suffixes in LANGUAGES.items():
        for suffix in suffixes if language != "onnx" else ():
            for name in (f"f{suffix}", f"F{suffix.upper()}"):
                assert run_cli(["export", "x*y", "-o", str(tmp_path / name)]).status == 0
                written = (tmp_path / name).read_text(encoding="utf-8")
                assert written == str(run_cli(["export", "x*y", "--to", language])), name


def test_a_document_has_the_source() -> None:
    document = run_cli(["export", "y*x", "--to", "python", "--name", "area", "--json"]).json
    assert {name: document[name] for name in ("expression", "language", "name", "variables")} == {
        "expression": "y*x", "language": "python", "name": "area", "variables": ["y", "x"],
    }  # fmt: skip
    assert document["source"].startswith("def area(y, x):")


def test_a_number_beyond_floats_is_noted() -> None:
    words = "1e-400 is not representable as a float; 0 is used instead"
    for language in EXPORTERS:  # LaTeX has numbers of any size
        note = run_cli(["export", "1e-400*x + 2", "--to", language]).stderr
        assert (words in note) is (language != "latex"), language
    assert run_cli(["export", "inf*x + 1e300 + nan", "--to", "c"]).stderr == ""


def test_every_language_is_a_choice() -> None:
    assert [language.value for language in Language] == [*EXPORTERS, "onnx"]
    for language in EXPORTERS:
        assert run_cli(["export", "x*y + sin(x)", "--to", language]).status == 0


def test_expressions_come_from_files_and_begin_with_a_minus(tmp_path: Path) -> None:
    file = tmp_path / "formula.txt"
    file.write_text("-x^2\n", encoding="utf-8")
    assert str(run_cli(["export", f"@{file}", "--to", "c"])) == str(run_cli(["export", "-x^2", "--to", "c"]))


SUM_OF_300 = " + ".join(f"x{k}^2" for k in range(300))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "choose a language: --to c|fortran|python|numpy|jax|torch|js|latex|onnx"),
        (["x", "--to", "pascal"], "--to takes c, fortran, python, numpy, jax, torch, js, latex or onnx, not `pascal`"),
        (["x", "-o", "f.txt"], "-o f.txt: its suffix belongs to no language"),
        (["x", "--to", "c", "--name", "2f"], "`2f` is not a legal name in C"),
        (["x*y", "--to", "c", "--wrt", "z"], "the expression has no variable `z`"),
        (["x*y", "--to", "c", "--x", "3"], "there is no option --x"),
        (["x*y", "--to", "c", "--value-only", "--hessian"], "--value-only cannot be combined with --hessian"),
        (["x*y", "--to", "torch", "--hessian"], "PyTorch differentiates by itself"),
        (["Si(x)", "--to", "jax"], "JAX has no `Si`; c, fortran, python, numpy, js and latex have it"),
        (["sum(v)", "--to", "c"], "declare the shape of `v`: the code depends on it"),
        (["[x, y]", "--to", "c"], "the output is an array of shape 2"),
        (
            [SUM_OF_300, "--to", "c", "--hessian"],
            "code can be exported for at most 100 numbers: choose some with --wrt",
        ),
        (["2x", "--to", "c"], "2*x"),
    ],
)
def test_bad_input_is_named(words: list[str], said: str) -> None:
    result = run_cli(["export", *words])
    assert result.status == 2
    assert str(result) == ""
    assert said in result.stderr


def test_a_file_that_cannot_be_written_is_a_failure() -> None:
    result = run_cli(["export", "x", "-o", "/nowhere/f.c"])
    assert result.status == 1
    assert "cannot write /nowhere/f.c" in result.stderr


def test_an_operation_with_more_operands_than_its_sign_has() -> None:
    assert r"\Phi\left(x, y, z\right)" in run_cli(["export", "normal_cdf(x, y, z)", "--to", "latex"])
