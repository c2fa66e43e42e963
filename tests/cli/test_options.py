"""The arguments are told apart as the interface says: options, values of variables, expressions that begin with `-`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.cli.command_line import (
    COMMANDS,
    Arguments,
    command_group,
    merge_assignments,
    split_arguments,
    split_command_line,
)
from autodiff_cli.cli.environment import BadInput
from tests.each import each
from tests.support import run_cli

GRAD = command_group("grad").commands["grad"]


def parts(*words: str) -> Arguments:
    return split_arguments(GRAD, words)


# fmt: off
SPLIT = [
    (["x*y", "--x", "2"],              [],                          ["x*y"],  {"x": "2"}),
    (["--x", "2", "x*y"],              [],                          ["x*y"],  {"x": "2"}),
    (["--x=-1.5", "x"],                [],                          ["x"],    {"x": "-1.5"}),
    (["x", "--x", "-3"],               [],                          ["x"],    {"x": "-3"}),
    (["x", "--x", "-pi/4"],            [],                          ["x"],    {"x": "-pi/4"}),
    (["-x^2", "--x", "2"],             [],                          ["-x^2"], {"x": "2"}),
    (["--x", "2", "-x^2"],             [],                          ["-x^2"], {"x": "2"}),
    (["-x", "--x", "2"],               [],                          ["-x"],   {"x": "2"}),
    (["-o*2", "--o", "3"],             [],                          ["-o*2"], {"o": "3"}),
    (["--x*2", "--x", "3"],            [],                          ["--x*2"], {"x": "3"}),
    (["--", "--x-y"],                  [],                          ["--x-y"], {}),
    (["-", "--x", "2"],                [],                          ["-"],    {"x": "2"}),
    (["--json", "-x^2"],               ["--json"],                  ["-x^2"], {}),
    (["x", "--digits", "3"],           ["--digits=3"],              ["x"],    {}),
    (["x", "--digits=3"],              ["--digits=3"],              ["x"],    {}),
    (["x", "--set", "a=1", "--set", "b=1"], ["--set=a=1", "--set=b=1"], ["x"], {}),
    (["--λ", "2", "λ"],                [],                          ["λ"],    {"λ": "2"}),
    (["--x₁=2", "x₁"],                 [],                          ["x₁"],   {"x₁": "2"}),
    (["--e\u0301", "2", "é"],          [],                          ["é"],    {"é": "2"}),
    (["--µ", "2", "μ"],                [],                          ["μ"],    {"μ": "2"}),
    (["--π", "3", "π"],                [],                          ["π"],    {"pi": "3"}),
    (["--x", "a=b", "x"],              [],                          ["x"],    {"x": "a=b"}),
    (["--x", "1", "--", "--x"],        [],                          ["--x"],  {"x": "1"}),
    (["--jsn", "2", "-h"],             ["--help"],                  [],       {}),
]
# fmt: on


@each(("words", "options", "positionals", "values"), SPLIT)
def test_split(words: list[str], options: list[str], positionals: list[str], values: dict[str, str]) -> None:
    assert parts(*words) == Arguments(options, positionals, values)


# fmt: off
WRONG = [
    (["x", "--x", "2", "--x", "3"],         "--x is given twice"),
    (["é", "--é", "2", "--e\u0301", "3"],   "is given twice"),
    (["x", "--json", "--json"],             "--json is given twice"),
    (["x", "--digits", "3", "--digits=4"],  "--digits is given twice"),
    (["x", "--set", "a=1", "--set", "a=2"], "--set a is given twice"),
    (["x", "--json=1"],                     "--json takes no value; to set a variable of this name, use --set json=1"),
    (["x", "--x"],                          "--x needs a value"),
    (["x", "--x", "--y", "2"],              "--x needs a value, such as --x 2, but --y follows"),
    (["x", "--digits"],                     "--digits needs a value, such as --digits N"),
    (["x", "--set"],                        "--set needs a value, such as --set NAME=VALUE"),
    (["x", "--jsn"],                        "there is no option --jsn; did you mean --json?"),
    (["--jsn", "x"],                        "there is no option --jsn; did you mean --json?"),
    (["x", "*", "y"],                       "unexpected argument `*`"),
    (["--x-y", "--x", "3"],                 "to use it as an expression, put it in brackets: `(--x-y)`"),
    (["x", "--ordr-n", "3"],                "there is no option --ordr-n"),
    (["x", "--x", "--hessian-of"],          "--x needs a value, such as --x 2, but --hessian-of follows"),
    ([],                                    "missing EXPR"),
    (["x", "-o"],                           "no option -o"),
    (["x", "--wrt", ""],                    "--wrt needs a value, such as --wrt x,y"),
    (["x", "-x", "2"],                      "to set a variable, use `--x 2`"),
    (["x", "x=2"],                          "to set a variable, use `--x 2`"),
]
# fmt: on


@each(("words", "message"), WRONG)
def test_what_is_wrong_is_named(words: list[str], message: str) -> None:
    with pytest.raises(BadInput) as error:
        parts(*words)
    assert message in str(error.value)


@given(
    st.lists(st.sampled_from(["--x", "--json", "-x", "-", "--", "x", "--set", "a=1", "=", "--=", "-h", "--x=", "-o"]))
)
def test_any_words_are_split_or_refused(words: list[str]) -> None:
    try:
        found = parts(*words)
    except BadInput:
        return
    assert all(word.startswith("-") for word in found.options)


def test_set_gives_values_and_refuses_a_second_one() -> None:
    assert merge_assignments({"x": "1"}, ["json=2", " µ =3"]) == {"x": "1", "json": "2", "μ": "3"}
    with pytest.raises(BadInput, match="`x` is given two values"):
        merge_assignments({"x": "1"}, ["x=2"])
    with pytest.raises(BadInput, match="--set takes NAME=VALUE"):
        merge_assignments({}, ["x"])


@each(
    ("line", "message"),
    [
        ("grad x --x 2 --order two", "--order takes a whole number, not `two`"),
        ("grad x --x 2 --digits 40", "--digits takes a whole number, at least 1, at most 17, not `40`"),
        ("grad x --x 2 --mode back", "--mode takes reverse or forward, not `back`"),
        ("train y~x data.csv --lr fast", "--lr takes a number, not `fast`"),
        ("train y~x data.csv --epochs 1.5", "--epochs takes a whole number, not `1.5`"),
        ("grad x --x 2 --wrt ,", "--wrt takes names separated by commas, such as --wrt x,y"),
    ],
)
def test_the_help_of_an_option_names_its_argument(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output, output.stderr) == (2, "", f"error: {message}\n")


def test_only_commands_about_a_point_take_values_of_variables() -> None:
    taking = [name for name in COMMANDS if "[--VARIABLE VALUE]" in run_cli(f"{name} --help").splitlines()[0]]
    assert taking == ["grad", "trace", "train", "compare", "check"]


def test_an_unknown_command_gets_a_suggestion() -> None:
    with pytest.raises(BadInput, match="did you mean `grad`"):
        split_command_line(command_group("gard"), ["gard", "x"])
    with pytest.raises(BadInput, match="the commands are grad, trace"):
        split_command_line(command_group("x*y"), ["x*y"])


@each("name", COMMANDS)
def test_every_option_of_a_command_is_known_to_the_splitter(name: str) -> None:
    command = command_group(name).commands[name]
    for parameter in command.params:
        for option in parameter.opts if parameter.param_type_name == "option" else ():
            words = [option] if parameter.is_flag else [option, "1"]  # type: ignore[attr-defined]
            needed = ["x" for other in command.params if other.param_type_name == "argument"]
            assert split_arguments(command, [*needed, *words]).values == {}


@each("name", COMMANDS)
def test_help_has_examples_and_every_option_explained(name: str) -> None:
    text = run_cli(f"{name} --help")
    assert text.status == 0
    assert f"  autodiff {name} " in text[text.index("Examples:") :]
    for parameter in command_group(name).commands[name].params:
        assert parameter.help, parameter.name  # type: ignore[attr-defined]
        assert all(option in text for option in parameter.opts if option.startswith("-"))
