"""Names: which of them need backticks, and that a name is the same with and without them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.explain.labels import Labels
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.diagnostics import (
    FOREIGN_CONSTANTS,
    FOREIGN_FUNCTIONS,
    UNAVAILABLE_FUNCTIONS,
    translate_call,
)
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical_name, is_name, quote_name
from autodiff_cli.language.names import CONSTANTS, ColumnNames
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.ops import function_names
from tests.each import each
from tests.language.compare import identical
from tests.support import run_cli
from tests.texts import CHARACTERS

ANY = st.text(CHARACTERS.filter(lambda c: c != "`" and not "\ud800" <= c <= "\udfff"), min_size=1, max_size=8)


@each("name", ["Temp [°C]", "my-col", "2theta", "a b", " ", "or", "x²", "xⁿ", "#", "a;b", "A.T"])
def test_a_name_of_any_characters_stands_in_backticks(name: str) -> None:
    program = read(f"a + b*`{name}`^2")
    assert list(program.leaves) == ["a", "b", name]
    assert identical(read(to_text(program.output)).output, program.output)


@given(ANY)
@example("π")
@example("µ")
@example("e\u0301")
@example("ⁿ")
@example("x.0")
@example("x.")
@example("٣")
def test_any_name_is_printed_so_that_it_reads_back(name: str) -> None:
    name = canonical_name(name)
    written = quote_name(name)
    assert list(read(f"{written} + 1", variables=[name]).leaves) == [name]
    assert to_text(variable(name)) == written
    assert is_name(written)


@given(st.one_of(ANY, st.text("xA_1.²ⁿπ٣é\u0302·", min_size=1, max_size=6)))
def test_what_needs_no_backticks_is_what_reads_without_them(name: str) -> None:
    name = canonical_name(name)
    try:
        plain = list(read(name, variables=CONSTANTS.keys() & {name}).leaves) == [name] and name == name.strip()
    except ExpressionError:
        plain = False
    assert (quote_name(name) == name) == plain


def test_a_name_is_one_with_and_without_backticks() -> None:
    assert list(read("`x`*x + `µ`*μ + `π`").leaves) == ["x", "μ"]
    assert list(read("`cafe\u0301` + `café`").leaves) == [unicodedata.normalize("NFC", "café")]


def test_a_name_is_on_one_line() -> None:
    assert list(read("`first\nsecond` + `first second`").leaves) == ["first second"]


def test_backticks_can_be_bound_declared_and_called() -> None:
    program = read("`v w`: 2; `a b` = `v w`[0]; `f g`(`t 1`) = `t 1`^2; `f g`(`a b`)")
    assert list(program.leaves) == ["v w"]
    assert program.shapes == {"v w": (2,)}
    assert to_text(program.output, program.source.names) == "`a b` = `v w`[0]; `a b`^2"


def test_a_label_is_the_bare_name_and_a_formula_has_its_backticks() -> None:
    tape = Tape((read("`a b` + 1").output,))
    assert Labels(tape, {}, None).texts == ["a b", "1", "`a b` + 1"]


@each("name", FOREIGN_FUNCTIONS)
def test_a_function_that_is_called_otherwise_elsewhere_is_none_here_and_its_name_here_is_one(name: str) -> None:
    assert name not in function_names()
    called = re.findall(r"\w+(?=\()", FOREIGN_FUNCTIONS[name])
    assert called or "{}" in FOREIGN_FUNCTIONS[name] or FOREIGN_FUNCTIONS[name] in function_names()
    assert {*called} <= {*function_names()}


@each("name", [*FOREIGN_FUNCTIONS, *UNAVAILABLE_FUNCTIONS])
def test_the_prefix_of_a_library_changes_no_translation(name: str) -> None:
    assert translate_call(f"jax.numpy.{name}", "(x)", 1) == translate_call(name, "(x)", 1)


@each("name", [f"math.{name}" if name in CONSTANTS else name for name in FOREIGN_CONSTANTS])
def test_a_constant_of_another_language_is_named_as_it_is_here(name: str) -> None:
    ours = FOREIGN_CONSTANTS[name.removeprefix("math.")].strip("`")
    assert not read(ours).leaves
    assert f"the constant is written `{ours}`" in run_cli(["grad", f"{name}*x", "--x", "2"]).stderr
    assert name.isupper() or f"written `{ours}`" in run_cli(["grad", "x", "--x", name]).stderr


@pytest.mark.parametrize("text", ["log(2, x)", "1 + root(3, x)", "sin(log( 10 , x1 ))"])
def test_a_number_before_the_argument_of_a_logarithm_or_a_root_is_noted(text: str) -> None:
    (note,) = read(text).notes
    assert not read(re.findall("`([^`]*)`", note)[-1]).notes
    assert not read("log(x, 2) + root(y, 3) + log(2, 3)").notes
    assert not read("x + `log(2, x)`  # not log(2, x)").notes


@each("name", UNAVAILABLE_FUNCTIONS)
def test_what_is_written_for_a_function_elsewhere_can_be_read(name: str) -> None:
    message, suggestion = UNAVAILABLE_FUNCTIONS[name]
    quoted = re.findall("`([^`]+)`", message.partition(" is written ")[2])
    suggested = [suggestion.replace("{}", "x")] if suggestion else []
    assert name not in function_names()
    for text in (*(text for text in quoted if "(" in text), *suggested):
        assert read(text, columns=ColumnNames(levels={"x"})) is not None


def test_a_backtick_ends_a_name() -> None:
    assert [is_name(text) for text in ("`a`", "`a b`", "``", "`a`b`", "`a` `b`", "`", "a`")] == [True, True] + [
        False
    ] * 5


def test_zeros_before_an_exponent_do_not_count_among_its_digits() -> None:
    assert read("1e-" + "0" * 40 + "2*x").text


@each(
    "call",
    [
        lambda twice: ad.parse("2*μ")(twice),
        lambda twice: ad.parse("2*μ").grad(twice),
        lambda twice: ad.parse("2*μ").jvp(twice, μ=1.0),
        lambda twice: ad.fit("y ~ a*μ", {**twice, "y": [1.0, 2.0]}),
        lambda twice: ad.fit("y ~ μ*x", {"x": [1.0, 2.0], "y": [1.0, 2.0]}, start=twice),
        lambda twice: ad.Objective("y ~ a*μ", {**twice, "y": [1.0, 2.0]}),
        lambda twice: ad.fit("y ~ a*μ", {"μ": [1.0, 2.0], "y": [1.0, 2.0]}).predict(twice),
        lambda twice: ad.fit("y ~ a*x", pa.table([[1.0, 2.0]] * 3, names=["x", "x", "y"])),
    ],
)
def test_a_name_is_given_once_in_python(call: Callable[[Mapping[str, float]], object]) -> None:
    """Also in two spellings: with the micro sign and with the letter mu."""
    with pytest.raises(ValueError, match="is given twice"):
        call({"µ": 1.0, "μ": 2.0})
