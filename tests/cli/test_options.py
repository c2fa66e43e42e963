"""The arguments are told apart as the interface says: options, values of variables, expressions that begin with `-`."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.cli.command_line import (
    COMMANDS,
    Arguments,
    Command,
    Parameter,
    explain_option,
    find_command,
    merge_assignments,
    overview,
    split_arguments,
)
from autodiff_cli.cli.environment import BadInput
from autodiff_cli.ops.functions import LOG_DENSITIES
from autodiff_cli.options import other_tools, unknown_choice
from tests.each import each
from tests.support import run_cli

GRAD = find_command("grad")


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
    (["--json", "-x^2"],               [("--json", "")],            ["-x^2"], {}),
    (["x", "--digits", "3"],           [("--digits", "3")],         ["x"],    {}),
    (["x", "--digits=3"],              [("--digits", "3")],         ["x"],    {}),
    (["x", "--set", "a=1", "--set", "b=1"], [("--set", "a=1"), ("--set", "b=1")], ["x"], {}),
    (["--λ", "2", "λ"],                [],                          ["λ"],    {"λ": "2"}),
    (["--x₁=2", "x₁"],                 [],                          ["x₁"],   {"x₁": "2"}),
    (["--e\u0301", "2", "é"],          [],                          ["é"],    {"é": "2"}),
    (["--µ", "2", "μ"],                [],                          ["μ"],    {"μ": "2"}),
    (["--π", "3", "π"],                [],                          ["π"],    {"pi": "3"}),
    (["--x", "a=b", "x"],              [],                          ["x"],    {"x": "a=b"}),
    (["--x", "1", "--", "--x"],        [],                          ["--x"],  {"x": "1"}),
]
# fmt: on


@each(("words", "options", "positionals", "values"), SPLIT)
def test_split(
    words: list[str], options: list[tuple[str, str]], positionals: list[str], values: dict[str, str]
) -> None:
    assert parts(*words) == Arguments(options, positionals, values)


# fmt: off
WRONG = [
    (["x", "--x", "2", "--x", "3"],         "--x is given twice"),
    (["é", "--é", "2", "--e\u0301", "3"],   "is given twice"),
    (["x", "--json", "--json"],             "--json is given twice"),
    (["x", "--digits", "3", "--digits=4"],  "--digits is given twice"),
    (["x", "--set", "a=1", "--set", "a=2"], "--set a is given twice"),
    (["x", "--start", "x=3", "--start", "y=2"], "twice; there is no option --start; did you mean --set?"),
    (["start", "--start", "3", "--start", "2"], "--start is given twice"),
    (["x", "--json=1"],                     "--json takes no value; to set a variable of this name, use --set json=1"),
    (["x", "--x"],                          "--x needs a value"),
    (["x", "--x", "--y", "2"],              "--x needs a value, such as --x 2, but --y follows"),
    (["x", "--digits"],                     "--digits needs a value, such as --digits 2"),
    (["x", "--set"],                        "--set needs a value, such as --set NAME=VALUE"),
    (["x", "--jsn"],                        "there is no option --jsn; did you mean --json?"),
    (["--jsn", "x"],                        "there is no option --jsn; did you mean --json?"),
    (["x", "*", "y"],                       "unexpected argument `*`"),
    (["--x-y", "--x", "3"],                 "to use it as an expression, put it in brackets: `(--x-y)`"),
    (["x", "--ordr-n", "3"],                "there is no option --ordr-n"),
    (["x", "--x", "--hessian-of"],          "--x needs a value, such as --x 2, but --hessian-of follows"),
    ([],                                    "missing EXPR"),
    (["x", "-o"],                           "did you mean > FILE"),
    (["x", "--wrt", ""],                    "--wrt needs a value, such as --wrt x,y"),
    (["x", "-x", "2"],                      "to set a variable, use `--x 2`"),
    (["x", "--1x", "2"],                     "there is no option --1x"),
    (["x", "--help=1"],                     "there is no option --help=1"),
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
    assert all(flag.startswith("-") for flag, _ in found.options)


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
        ("grad x --x 2 --digits 40", "--digits must be from 1 to 17, not 40"),
        ("grad x --x 2 --mode back", "--mode takes reverse or forward, not `back`"),
        ("train y~x data.csv --lr fast", "--lr takes a number, not `fast`"),
        ("train y~x data.csv --epochs 1.5", "--epochs takes a whole number, not `1.5`"),
        ("grad x --x 2 --att f.csv", "there is no option --att; did you mean --at?"),
        ("grad x --x 2 --wrt ,", "--wrt takes names separated by commas, such as --wrt x,y"),
    ],
)
def test_what_an_option_takes_is_named(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output, output.stderr) == (2, "", f"error: {message}\n")


def test_only_commands_about_formulas_take_values_of_variables() -> None:
    taking = [name for name in COMMANDS if "[--VARIABLE VALUE]" in run_cli(f"{name} --help").splitlines()[0]]
    assert taking == ["grad", "trace", "train", "predict", "compare", "solve", "minimize", "maximize", "check"]


def test_an_unknown_command_gets_a_suggestion() -> None:
    for word, message in [
        ("gard", "did you mean `grad`"),
        ("trian", "did you mean `train`"),
        ("tahn", 'autodiff grad "tanh(x)"'),
        ("x^2 + 1", 'autodiff grad "x^2 + 1"'),
        ("D[x^2, x]", "Did you mean `x^2`"),
        ("fit", "did you mean `train`"),
        ("diff", "did you mean `grad`"),
        ("version", "did you mean `--version`"),
        ("x*y", 'to differentiate an expression: autodiff grad "x*y"'),
        ("qqq", "the commands are grad, trace"),
    ]:
        output = run_cli([word, "x"])
        assert (output.status, output) == (2, "")
        assert message in output.stderr


def test_help_and_version_are_words_too() -> None:
    assert run_cli("help") == run_cli("--help") == run_cli("")
    assert run_cli("help grad") == run_cli("grad --help") == run_cli("grad --jsn 2 -h")
    assert run_cli("-V") == run_cli("--version")


@each("name", COMMANDS)
def test_every_option_of_a_command_is_known_to_the_splitter(name: str) -> None:
    command = find_command(name)
    for flag, option in command.options.items():
        assert split_arguments(command, [*needed(command), flag, *sample(option)]).values == {}


@each("name", COMMANDS)
def test_help_has_examples_and_every_option_explained(name: str) -> None:
    text = run_cli(f"{name} --help")
    assert text.status == 0
    assert f"  autodiff {name} " in text[text.index("Examples:") :]
    for parameter in find_command(name).parameters:
        assert parameter.option.help, parameter.name
        assert all(flag in text for flag in parameter.option.flags)


def test_a_model_without_quotes_is_recognised_by_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/noether")
    refused = run_cli(["train", "y", "/home/noether", "a*x", "data.csv"])
    assert refused.status == 2
    assert "put the model in quotes" in refused.stderr
    assert "no such file" in run_cli(["train", "y ~ a*x", "/home/noether"]).stderr


def examples_of(name: str) -> list[list[str]]:
    """The words of the examples in the help of a command, without the other programs of a pipe."""
    text = run_cli(f"{name} --help")
    examples = [shlex.split(line) for line in text[text.index("Examples:") :].split("\n\n")[0].split("\n")[1:]]
    words = [example[example.index("autodiff") + 1 :] for example in examples]
    return [list(itertools.takewhile(lambda word: word not in ("|", ">"), each)) for each in words]


FORMULA_COMMANDS = ("grad", "trace", "check", "solve", "minimize", "maximize", "export", "ops", "lesson")


@pytest.mark.parametrize(
    "name",
    ["train", "predict", "compare", "data", *(pytest.param(name, marks=pytest.mark.slow) for name in FORMULA_COMMANDS)],
)
def test_examples_of_help_lack_nothing_but_their_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in examples_of(name):
        output = run_cli(words, stdin="x,y\n" if name in ("train", "predict") else "x^2")
        files = ("no such file", "no file matches", "there are no rows", "this needs torch")
        assert output.status == 0 or any(each in output.stderr for each in files), (words, output.stderr)


def commands_shown(text: str) -> list[list[str]]:
    """The words of the commands in a text, read as a shell reads them."""
    lines = re.sub(r" \\\n +", " ", text).split("\n")
    return [shlex.split(line.partition("   ")[0]) for line in map(str.strip, lines) if line.startswith("autodiff ")]


@each("name", [*COMMANDS, "overview"])
def test_help_fits_terminals_of_40_and_80_columns_with_the_same_commands(name: str) -> None:
    wide, narrow = [overview(w) if name == "overview" else find_command(name).help(w) for w in (80, 40)]
    assert [line for line in wide.split("\n") if len(line) > 80] == []
    for line in narrow.split("\n"):  # a formula, or an option with its value, is not broken
        assert len(line) <= 40 or " " not in re.sub(r'"[^"]*"|--\S+ \S+', "", line.strip("\\ ")), line
    assert commands_shown(narrow) == commands_shown(wide) != []


def needed(command: Command) -> list[str]:
    return ["x"] * command.required_count


def sample(option: Parameter) -> list[str]:
    """A value that an option accepts, as words."""
    texts = [*option.choices[:1], "a=0:1", "0.5", "2", "100", "x", "x.csv"]
    return [] if option.is_flag else [next(text for text in texts if option.accepts(text))]


def misspellings(flag: str) -> list[str]:
    middle = 2 + len(flag[2:]) // 2
    return [flag[:middle] + flag[middle + 1 :], flag[:middle] + "q" + flag[middle:], flag[:-2] + flag[-1] + flag[-2]]


@pytest.mark.sampled
@pytest.mark.parametrize("name", COMMANDS)
def test_a_suggestion_works_when_it_is_obeyed(name: str) -> None:
    command = find_command(name)
    foreign = [f"--{word}" for word in (*other_tools()["options"], "svg", "html", "device", "verbose")]
    foreign += [f"--{choice}" for option in command.options.values() for choice in option.choices]
    lines = [[word, *value] for word in foreign for value in ([], ["2"], ["a=1"], ["a=1,b=2"], ["cuda"], ["out.svg"])]
    for flag, option in command.options.items():
        lines += [[word, *sample(option)] for word in misspellings(flag) if len(flag) > 5]
    suggested = 0
    for word, *value in lines:
        try:
            split_arguments(command, [*needed(command), word, *value])
        except BadInput as error:
            meant = re.search(r"did you mean (.*)\?", str(error))
            if meant is None or meant[1].startswith(">"):  # the shell obeys the latter
                continue
            suggested += 1
            given = meant[1].split()
            is_complete = len(given) > 1 or command.options[given[0]].is_flag
            found = split_arguments(command, [*needed(command), *given, *(() if is_complete else value)])
            for flag, text in found.options:
                option = command.options[flag]
                assert option.is_flag or option.convert(text, flag) is not None
                check = option.option.check
                assert (
                    is_complete is False or option.is_flag or check is None or check.holds(option.convert(text, flag))
                )
    assert suggested > 0 or not command.options


LISTS_OF_CHOICES = {
    (flag, option.choices) for name in COMMANDS for flag, option in find_command(name).options.items() if option.choices
} | {("distribution", tuple(LOG_DENSITIES))}


@each("word", other_tools()["choices"])
def test_a_choice_of_other_tools_is_suggested_by_its_meaning_or_not_at_all(word: str) -> None:
    meanings = other_tools()["choices"][word].split()
    suggested = 0
    for flag, choices in LISTS_OF_CHOICES:
        for written in (word, word.upper(), word.replace("_", "-"), f"{word}(1)"):
            message = unknown_choice(flag, written, choices)
            ours = [choice for choice in meanings if choice in choices]
            if ours:
                suggested += 1
                assert message.endswith(f"did you mean {ours[0]}?")
            elif meanings == ["-"]:
                assert "did you mean" not in message
    assert (suggested > 0) == (meanings != ["-"])


@each("name", COMMANDS)
def test_options_without_counterpart_suggest_no_other(name: str) -> None:
    command = find_command(name)
    for word in other_tools()["options_without_counterpart"]:
        if f"--{word}" not in command.options and word not in other_tools()["options"]:
            for value in ("2", "true", None):
                assert "did you mean" not in (explain_option(command, f"--{word}", value) or "")


@each("name", COMMANDS)
def test_a_second_value_of_an_option_for_names_is_given_as_advised(name: str) -> None:
    command = find_command(name)
    for flag, option in command.options.items():
        if option.repeats and re.match("NAME.*=", option.metavar):
            words = [*needed(command), flag, "a=0:1"]
            with pytest.raises(BadInput, match="repeat it for each name") as caught:
                split_arguments(command, [*words, "b=2:3"])
            advised = str(caught.value).partition(": ")[2].split()
            assert split_arguments(command, [*words, *advised]).options[-1] == (flag, "b=2:3")


@each("name", COMMANDS)
def test_several_names_in_one_value_are_given_as_advised(name: str) -> None:
    command = find_command(name)
    for flag, option in command.options.items():
        if option.repeats and re.match("NAME.*=", option.metavar):
            with pytest.raises(BadInput, match="repeat it for each name") as caught:
                split_arguments(command, [*needed(command), flag, "a=0:1,b=2:3"])
            advised = str(caught.value).partition(": ")[2].split()
            found = split_arguments(command, [*needed(command), *advised]).options
            assert found == [(flag, "a=0:1"), (flag, "b=2:3")]


@each("name", COMMANDS)
def test_the_example_of_a_missing_value_is_one_that_the_option_takes(name: str) -> None:
    command = find_command(name)
    for flag, option in command.options.items():
        if option.is_flag or option.has_optional_value:
            continue
        with pytest.raises(BadInput, match=f"{flag} needs a value, such as") as caught:
            split_arguments(command, [*needed(command), flag])
        example = str(caught.value).partition(f"such as {flag} ")[2]
        check = option.option.check
        if option.kind is not str:
            assert check is None or check.holds(option.convert(example, flag)), (flag, example)
        if option.metavar == "LEVEL":
            assert 0.5 < float(example) < 1  # 2 would be 2 %


@each(("line", "advised"), [("export x^2 python", "export x^2 --to python"), ("grad x^2*y x", "grad x^2*y --wrt x")])
def test_a_further_word_is_the_value_that_it_looks_like(line: str, advised: str) -> None:
    refused = run_cli(line)
    assert refused.status == 2
    meant = re.search(r"did you mean (.*)\?", refused.stderr)
    assert meant is not None
    assert advised.endswith(meant[1])
    assert run_cli(advised).status == 0


@pytest.mark.parametrize(
    "line", ["grad x^2 --x 2 --json out.json", "data d.csv --json out.json", "lesson chain --json out.json"]
)
def test_a_file_after_json_is_advised_as_standard_output(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("x,y\n1,2\n")
    assert "--json takes no value, but `out.json` follows; write --json > out.json" in run_cli(line).stderr
    assert run_cli(line.removesuffix(" out.json")).json


def test_a_data_file_is_never_advised_as_an_expression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("d.csv", "model.json", "d.parquet"):
        Path(name).write_text("x,y\n1,2\n")
        for line in (f"grad {name}", f"compare {name} {name}", f"export {name} --to c"):
            refused = run_cli(line)
            assert refused.status == 2
            assert "@" not in refused.stderr
    Path("f.txt").write_text("x^2")
    assert "write `@f.txt`" in run_cli("grad f.txt").stderr


@pytest.mark.parametrize("value", ["True", "false"])
@each("name", COMMANDS)
def test_a_flag_says_that_it_takes_no_value(name: str, value: str) -> None:
    command = find_command(name)
    for flag, option in command.options.items():
        if option.is_flag:
            with pytest.raises(BadInput, match=f"{flag} takes no value"):
                split_arguments(command, [*needed(command), flag, value])
            assert split_arguments(command, [*needed(command), flag]).options[0][0] == flag  # as advised


@each("name", COMMANDS)
def test_a_suggested_number_is_one_that_the_option_takes(name: str) -> None:
    """Also where the option has limits."""
    for flag, option in find_command(name).options.items():
        for text in ("1e9", "1e3", "1,000", "2.0", "0,5", "20%", "150%") if option.kind in (int, float) else ():
            with contextlib.suppress(BadInput):
                option.convert(text, flag)
                continue
            with pytest.raises(BadInput) as caught:
                option.convert(text, flag)
            meant = re.search(r"did you mean (.*)\?", str(caught.value))
            check = option.option.check
            assert meant is None or check is None or check.holds(option.convert(meant[1], flag)), (flag, text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train y~x d.csv --max-iter 10", "did you mean --epochs?"),
        ("train y~x d.csv --batch-sise 8", "did you mean --batch-size?"),
        ("grad x^2 --x 2 --output json", "did you mean --json?"),
        ("grad 2*Pi*x --x 2", "the constant is written `pi`"),
        ("export x*y --lang c", "did you mean --to?"),
        ("trace x*y --x 2 --y 3 --svg", "did you mean -o FILE.svg?"),
        ("trace x*y --x 2 --y 3 --svg out.svg", "did you mean -o out.svg?"),
        ("train 'y ~ a*x' data.csv -v", "there is no option -v; autodiff train --help lists all"),
        ("doctor --verbose", "there is no option --verbose; leave it out"),
        ("ops --list", "there is no option --list; leave it out"),
        ("grad x*y --x 2 --y 3 --verbose", "there is no option --verbose; leave it out"),
        ("grad x*y --x 2 --y", "--y needs a value, such as --y 2"),
        ("train 'y ~ a*exp(-b*x)' d.csv --a 1 --b", "--b needs a value, such as --b 2"),
        ("hessian x^2*y --x 1 --y 2", "did you mean `grad --hessian`?"),
        ("grad x^2 -x 3", "to set a variable, use `--x 3`"),
        ("grad x^2 --output f.json", "did you mean > f.json?"),
        ("minimize x^2 --x=-2..2 --max-iter 5", "did you mean --max-boxes?"),
        ("grad sinx --x 1", "Did you mean `sin(x)`?"),
        ("grad 'α*β' --alpha 1 --beta 2", "Did you mean `--α`?"),
        ("grad lambda*x --λ 1 --x 2", "Did you mean `--lambda`?"),
        ("grad x^2 --var x=3", "did you mean --set?"),
        ("grad x*y --point x=3,y=[1,2]", "did you mean --x 3 --y [1,2]?"),
        ("grad x^2 --x 3 --format json", "did you mean --json?"),
        ("train y~a*x d.csv --lr 0,01", "not `0,01`; did you mean 0.01?"),
        ("train y~a*x d.csv --epochs 1e3", "not `1e3`; did you mean 1000?"),
        ("train y~a*x d.csv --validation 20%", "not `20%`; did you mean 0.2?"),
        ("lm y~x d.csv", "did you mean `train`?"),
        ("grad x^2 --x 3 -order 2", "did you mean --order?"),
        ("grad x^2 –x 3", "options begin with hyphens: --x"),
        ("grad x^2 '--x 3'", "options go without quotes"),
        ("grad x*y '--x=3 --y=2'", "several options in one pair of quotes"),
        ("grad -- x^2 --x 3", "options go before --"),
        ("grad x^2 3", "unexpected argument `3`; to set a variable, use `--NAME 3`"),
        ("grad x^2 x=[1,2]", "unexpected argument `x=[1,2]`; to set a variable, use `--x [1,2]`"),
        ("train y~a*x docs/data/decay.csv --weight x", "there is no option --weight; did you mean --weights?"),
        ("train y~a*x docs/data/decay.csv --test 0.2", "there is no option --test; did you mean --validation?"),
        ("train y~a*x docs/data/decay.csv --samples 100", "there is no option --samples; did you mean --posterior?"),
        ("train y~a*x docs/data/decay.csv --noconst", "there is no option --noconst; autodiff train --help"),
        ("grad norm(v) --v 3,4", "an array is `[3, 4]`"),
        ("trace x*y --x 2 --y 3 --step 3", "unexpected argument `3`; a number is the value of a variable, as in --x 3"),
        ("grad x^2 --x 1 2 3", "unexpected argument `2`; several points are a range, such as --x 0:10:101, or a file"),
        ("grad x^2 --x [1,2,3]", "takes several points as a range, --x START:STOP:COUNT; to make it an array"),
        ("train y~a*t+b docs/data/decay.csv", "`t` is not one of them"),
        ("grad x*y x=3,y=4", "to set a variable, use `--x 3 --y 4`"),
        ("grad x*y --at x=3,y=4", "--at takes a FILE of points; for a single one, write --x 3 --y 4"),
        ("grad x^2 --at x=3", "--at takes a FILE of points; for a single one, write --x 3"),
        ("serve 8080", "unexpected argument `8080`; did you mean --port 8080?"),
        ("ops sin cos", "unexpected argument `cos`; autodiff ops --help has examples"),
        ("grad 'x^2 --x 3'", "`--x` is an option; it goes outside of the quotes"),
        ("grad x^2 --x 2 --verbose 2", "there is no option --verbose; leave it out"),
        ("train --model y~a*x d.csv", "there is no option --model; write only its value, `y~a*x`"),
        ("train y~a*x --data d.csv", "there is no option --data; write only its value, `d.csv`"),
        ("train y~a*x d.csv --dropna", "did you mean --drop-missing?"),
        ("train y~a*x d.csv --a 1 b=2", "to set a variable, use `--b 2`"),
        ("predict m.json x=3", "to set a variable, use `--x 3`"),
        ("predict y~a*x d.csv", "predict takes the file of a fitted model"),
        ("compare y~a*x y~b*x", "missing DATA: all arguments are models"),
        ("export x^2 --to C", "did you mean c?"),
        ("solve x^2 --x=-5...5", "a range has two dots: write -5..5 or -5..0.5, not `-5...5`"),
        ("grad exp^x --x 2", "no value for `exp`; add --exp 2; the function is written `exp(x)`"),
        ("grad E^x --x 2", "the constant is written `e`"),
        ("grad 2*πx --x 2", "Did you mean `π*x`?"),
        ("grad x^2 --x 1..2..3", "the value of `x` cannot be a range here"),
        ("train y~a*x docs/data/decay.csv --a 0:10", "for bounds, use --bounds a=0:10"),
        ("compare docs/data/decay.csv y~a*x y~a --a 0..10", "for bounds, use --bounds a=0:10"),
        ("man grad", "did you mean `--help`?"),
        ("--json", "there is no command `--json`; the commands are"),
        ("2*x", '`2*x` is not a command; to differentiate an expression: autodiff grad "2*x"'),
        ("grad x*y --x 2 --X 3", "--X is not an option, and the expression has no variable `X`, only `x`, `y`"),
    ],
)
def test_an_unknown_option_is_never_a_value(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    assert message in output.stderr


@each("name", COMMANDS)
def test_a_value_is_suggested_only_for_a_name_of_the_expression(name: str) -> None:
    command = find_command(name)
    for word in ("-v", "-q", "--latex", "--open"):
        with pytest.raises(BadInput) as caught:
            split_arguments(command, [*needed(command), word])
        assert "to set a variable" not in str(caught.value)


@each("name", COMMANDS)
def test_a_choice_in_capitals_or_without_its_end_is_suggested(name: str) -> None:
    for flag, option in find_command(name).options.items():
        for choice in option.choices if issubclass(option.kind, Enum) else ():
            for misspelt in {choice.upper(), choice[:-1] if len(choice) > 4 else choice.upper()} - {choice}:
                with pytest.raises(BadInput, match=re.escape(f"did you mean {choice}?")):
                    option.convert(misspelt, flag)


@pytest.mark.parametrize("typed", ["decay", "Decay.csv", "decay.cvs", "deca.csv", "decy"])
def test_a_file_of_a_similar_name_is_suggested(typed: str, tmp_path: Path) -> None:
    (tmp_path / "decay.csv").write_text("x,y\n1,2\n")
    for line in ("data {}", "train y~a*x {}", "grad @{}"):
        refused = run_cli(line.replace("{}", str(tmp_path / typed)))
        assert f"; did you mean {tmp_path / 'decay.csv'}?" in refused.stderr
    assert "did you mean" not in run_cli(f"data {tmp_path / 'measured.csv'}").stderr
    assert "did you mean" not in run_cli(f"data {tmp_path / 'nowhere' / 'decay.csv'}").stderr


@each("name", COMMANDS)
def test_a_word_that_begins_with_a_dash_is_never_a_file(name: str) -> None:
    command = find_command(name)
    arguments = needed(command)
    is_formula = command.arguments[:1] and command.arguments[0].metavar in ("EXPR", "MODEL")
    for place in range(1 if is_formula else 0, len(arguments) + 1):
        for word in ("-foo", "-x.csv", "-1.csv", "-q"):
            with pytest.raises(BadInput, match=f"there is no option {re.escape(word)}"):
                split_arguments(command, [*arguments[:place], word, *arguments[place + 1 :]])
    assert "-x.csv" in split_arguments(command, ["--", *arguments[1:], "-x.csv"]).positionals if arguments else True


def test_a_file_whose_name_begins_with_a_dash_is_read_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-x.csv").write_text("x,y\n0,1\n1,3\n2,5.5\n")
    for words in (["data", "-x.csv"], ["train", "y ~ a*x", "-x.csv"]):
        refused = run_cli(words)
        assert (refused.status, refused) == (2, "")
        assert "write ./-x.csv" in refused.stderr
        assert run_cli([*words[:-1], "./-x.csv"]).status == 0


@pytest.mark.parametrize("name", ["k k", "k=k", "k~k", "k:k", "k < 1", "[k]"])
def test_a_name_in_backticks_may_contain_the_signs_of_options(name: str, tmp_path: Path) -> None:
    data, quoted = tmp_path / "d.csv", f"`{name}`"
    data.write_text("x,y\n0,1\n1,3\n2,5.5\n3,7\n4,9.2\n")
    model = ["train", f"y ~ {quoted}*`{name}x` + c", str(data), "--json", "--column", f"`{name}x`=x"]
    free = run_cli([*model, "--bounds", f"{quoted}=0:9", "--prior", f"{quoted} ~ normal(0, 9)", "--derive", "h=2*c"])
    assert [*free.json["parameters"]] == [name, "c"], free.stderr
    fixed = run_cli([*model, "--fix", f"{quoted}=2", "--derive", f"`{name}h`=2*c"])
    assert (fixed.json["fixed"], [*fixed.json["derived"]]) == ({name: 2.0}, [f"{name}h"])


def test_levels_and_their_columns_may_be_in_backticks(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text('"a,b",x,y\nu,1,2\nu,2,4.1\nv,1,3\nv,2,6.1\n')
    model = ["train", "y ~ `k k`[`a,b`]*x", str(data), "--json"]
    for options in (
        ["--prior", "`k k`[`a,b`] ~ normal(0, 9)"],
        ["--prior", "`k k`[u] ~ normal(0, 9)", "--prior", "`k k`[`v`] ~ normal(0, 9)"],
        ["--bounds", "`k k`[u]=0:9", "--set", "`k k`[`v`]=2"],
    ):
        fit = run_cli([*model, *options])
        assert [*fit.json["parameters"]] == ["k k[u]", "k k[v]"], fit.stderr
    assert [*run_cli([*model, "--fix", "`k k`[u]=2"]).json["fixed"]] == ["k k[u]"]


def test_a_value_with_an_error_is_never_a_sum(tmp_path: Path) -> None:
    """`1+-2` is -1 as an expression; `grad` and `trace` read it as 1 with a standard error of 2."""
    data, model = str(tmp_path / "d.csv"), str(tmp_path / "m.json")
    Path(data).write_text("x,y\n0,1\n1,3\n2,5.5\n")
    assert run_cli(["train", "y ~ a*x + b", data, "--a", "1+(-2)", "--save", model]).status == 0
    for words in (
        ["train", "y ~ a*x + b", data, "--a", "1+-2"],
        ["train", "y ~ a*x + b", data, "--fix", "a=1+-2"],
        ["compare", data, "y ~ a*x", "y ~ a*x^2", "--a", "1±2"],
        ["predict", model, "--x", "1+-2"],
        ["solve", "x^2 - a", "--x", "0..3", "--a", "1+-2"],
        ["check", "x^2", "--x", "1+/-2"],
        ["grad", "x^2", "--x", "1", "--direction", "x=1+-2"],
    ):
        refused = run_cli(words)
        assert (refused.status, refused) == (2, ""), words


def test_names_that_the_formula_defines_take_no_values(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("x,y\n0,1\n1,3\n2,5.5\n")
    for words in (["grad", "p = 2*x; p"], ["grad", "p = x; p"], ["train", "p = a; y ~ p*x", str(data)]):
        refused = run_cli([*words, "--p", "3"])
        assert (refused.status, refused) == (2, "")
        assert "`p` is defined in the expression, so it takes no value" in refused.stderr


def test_models_and_data_stand_in_either_order_and_options_between_them(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("x,y\n0,1\n1,3\n2,5.5\n3,7\n4,9.2\n")
    models = ["y ~ a + b*x", "y ~ a*x"]
    assert run_cli(["train", str(data), models[0]]) == run_cli(["train", models[0], str(data)])
    assert run_cli(["compare", *models, str(data)]) == run_cli(["compare", str(data), *models])
    assert run_cli(["train", "--likelihood", "(y - a)^2", "--plot", str(data)]).status == 0  # no sign of a model
    saved = str(tmp_path / "m.json")
    run_cli(["train", models[0], str(data), "--save", saved])
    predicted = run_cli(["predict", saved, str(data)])
    assert predicted == run_cli(["predict", str(data), saved])
    assert "prediction" in predicted


def test_products_may_be_implicit_where_that_is_asked_for(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("x\n3\n")
    assert "Did you mean `2*x`" in run_cli(["grad", "2x", "--x", "3"]).stderr
    for name in COMMANDS:
        if "--implicit" in find_command(name).options:
            words = ["--x", "0..3" if name in ("solve", "minimize", "maximize") else "3", "--json"]
            implicit = run_cli([name, "2x(x + 1)", *words, "--implicit"])
            assert implicit.status == 0
            assert implicit.replace("2x(x + 1)", "2*x*(x + 1)") == run_cli([name, "2*x*(x + 1)", *words])
    at = run_cli(["grad", "2x", "--at", str(points), "--implicit"])
    assert (at.status, at.splitlines()[1]) == (0, "3,6,2")
    row = run_cli(["trace", "x ~ 2*a", str(points), "--row", "1", "--a", "3", "--implicit"])
    assert (row.status, "--implicit" in row.stderr) == (2, True)
    assert "line 1, column 3" in run_cli(["grad", "2*", "--x", "3", "--implicit"]).stderr


def test_a_suggested_option_takes_the_value_that_it_is_given() -> None:
    for name in COMMANDS:
        for option in find_command(name).options.values():
            assert option.accepts(None) == (option.is_flag or option.has_optional_value)
            if option.is_flag:
                assert not option.accepts("2")
            elif option.choices:
                assert not option.accepts("no such choice")
                assert all(map(option.accepts, option.choices))
            elif option.kind in (int, float):
                assert not option.accepts("words")


def test_without_a_terminal_there_is_nothing_to_step_through() -> None:
    output = run_cli("trace x*y --x 2 --y 3 --step")
    assert "standard output is not a terminal" in output.stderr


# Arguments with which each command does something.
EXAMPLES = {
    "lesson": "slopes",
    "serve": "--no-browser",
    "train": "'y ~ a*x' data.csv",
    "predict": "model.json data.csv",
    "compare": "data.csv 'y ~ a*x' 'y ~ a*x + b'",
    "data": "data.csv",
    "solve": "x^2-2 --x 0..3",
    "minimize": "x^2 --x -1..2",
    "maximize": "x^2 --x -1..2",
    "ops": "",
    "doctor": "",
    "export": "x*y --to c",
    "completion": "bash",
}


@pytest.mark.parametrize("name", [*COMMANDS])
def test_an_option_of_another_command_is_named_with_that_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that take values of variables would otherwise take it for one."""
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("x,y\n1,2\n2,3.9\n3,6.2\n4,8.1\n")
    run_cli("train 'y ~ a*x' data.csv --save model.json")
    words = [name, *shlex.split(EXAMPLES.get(name, "x*y --x 1 --y 2"))]
    commands = [find_command(each) for each in COMMANDS]
    others = {flag: each for command in commands for flag, each in command.options.items()}
    for flag in others.keys() - find_command(name).options.keys():
        values = [others[flag].choices[0] if others[flag].choices else "2"] * (not others[flag].is_flag)
        refused = run_cli([*words, flag, *values])
        assert refused.status == 2, flag
        owners = [f"`autodiff {each.name}`" for each in commands if flag in each.options]
        message = f"{flag} is an option of {', '.join(owners[:-1])}{' and ' * (len(owners) > 1)}{owners[-1]}"
        assert f"{message}, not of `autodiff {name}`" in refused.stderr


def test_a_variable_may_be_named_like_an_option_of_another_command() -> None:
    assert run_cli("grad by*bootstrap --by 2 --bootstrap 3 --json").json["gradient"] == {"by": 3, "bootstrap": 2}
    assert "did you mean --json?" in run_cli("grad x --x 2 --format json").stderr


@each(
    "option, text, meant",
    [
        ("--lr", "5%", "0.05"), ("--lr", "0,5", "0.5"), ("--confidence", "95%", "0.95"), ("--l2", "1,5", "1.5"),
        ("--epochs", "12.0", "12"), ("--epochs", "1,000", "1000"), ("--epochs", "50%", None), ("--seed", "x", None),
    ],
)  # fmt: skip
def test_a_number_of_another_form_is_suggested_with_its_value(option: str, text: str, meant: str | None) -> None:
    said = run_cli(["train", "y ~ a*x", "d.csv", option, text]).stderr.splitlines()[0]
    assert said.startswith(f"error: {option} takes a ")
    assert said.partition("did you mean ")[2] == (f"{meant}?" if meant else "")


def test_words_after_two_dashes_are_never_options() -> None:
    assert "value = -2\n" in run_cli(["grad", "--h", "2", "--", "-h"])
    assert run_cli(["grad", "--", "--help"]).startswith("d/dhelp = 1\n")  # minus minus help
    assert run_cli(["grad", "--h", "2", "-h"]).startswith("Usage: autodiff grad")


FIT = "train 'y ~ KA + KB*K'"
KELVIN = "\u212a"  # the sign of the unit, which is another character for the letter K
NAMED_LINES = [
    f"{FIT} d.csv --weights KN", f"{FIT} d.csv --sigma KS --x-sigma K=KS", f"{FIT} d.csv --fix KA=2 --KB 1",
    f"{FIT} d.csv --bounds KA=2:2.1", f"{FIT} d.csv --prior 'KA ~ normal(0, 1)'", f"{FIT} d.csv --derive KC=KA*2",
    f"{FIT} d.csv --by KG", f"{FIT} d.csv --where 'K > 1'", f"{FIT} d.csv --column KB=KN --KA 1",
    "train 'y ~ KA + KB*K + KU[KG]' d.csv --laplace KU --prior 'KU[KG] ~ normal(0, 0.5)'",
    f"{FIT} d.csv --loss huber --weights KN --save m.json && trace m.json d.csv --row 3",
    f"{FIT} d.csv --loss huber --sigma KS --save m.json && predict m.json --K 4",
    f"{FIT} d.csv --save m.json && predict m.json --inverse K --y 4 && export m.json --to c --wrt K",
    "compare 'y ~ KA + KB*K' 'y ~ KA' d.csv --sigma KS",
    "grad K*KA --K 2 --KA 3 --wrt K", "grad K*KA --K 2+-0.1 --KA 3+-0.1 --correlation K,KA=0.5",
    "grad K*KA --at d.csv --KA 2 --sigma K=KS", "grad K*KA --K 2 --KA 3 --direction K=1,KA=2",
    "grad 'KC=K*KA; KC' --K 2 --KA 3 --jacobian --outputs KC", "grad 'sin(K)' --set K=2",
    "trace K*KA --K 2 --KA 3 --paths K", "trace K*KA --K 2 --KA 3 --format svg --highlight K --only KA",
    "solve K^2-2 --K 0..3", "export K*KA --to c --wrt K", "check K*KA --K 2 --KA 3 --wrt KA",
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("lines", NAMED_LINES)
def test_names_in_options_may_be_in_any_form_of_unicode(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(k / 3, 2 + k / 2 + k * 7 % 5 / 9, 0.1 + k % 3 / 20, "ab"[k % 2], k % 4 + 1) for k in range(16)]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "d.csv").write_text(f"K,y,KS,KG,KN\n{text}")
    first, *others = map(shlex.split, lines.split(" && "))

    def outputs(words: list[str]) -> list[tuple[int, str]]:
        every = [run_cli(line) for line in (words, *others)]
        return [(output.status, output.replace(KELVIN, "K")) for output in every]

    plain = outputs(first)
    assert plain[0][0] == 0
    for k, word in enumerate(first):
        if "K" in word:
            assert outputs([*first[:k], word.replace("K", KELVIN), *first[k + 1 :]]) == plain, word


# Options of each line may come in any order.
ANY_ORDER = [
    "grad x*y^2 --x 2 --y 3 --wrt y --digits 4",
    "grad x*y --x 2+-0.1 --y 3+-0.2 --correlation x,y=0.5 --seed 1 --monte-carlo 100",
    "grad x*y --x 1..2 --y 3..4",
    "grad x*y --x 0:1:2 --y 3",
    "grad x*y --x 2 --y 3 --direction y=1,x=2 --hessian --json",
    "trace x*y+x --x 2 --y 3 --paths y --limit 1",
    "solve [x*y==1,x==y] --x -2..2 --y -3..3 --json",
    "minimize x^2+a*y^2 --y -1..2 --x -1..1 --a 2",
    "minimize x^2+y^2 --x 1 --y 2 --json",
    "check x*y --y 2 --x 3 --json",
    "export x*y --to c --name g --hessian",
]


@pytest.mark.parametrize("line", ANY_ORDER)
def test_options_may_come_in_any_order(line: str) -> None:
    words = line.split()
    starts = [k for k, word in enumerate(words) if word.startswith("--")]
    options = [words[i:j] for i, j in itertools.pairwise([*starts, len(words)])]
    outputs = {
        (result.status, str(result), result.stderr)
        for order in (options, options[::-1], options[1:] + options[:1])
        for result in [run_cli([*words[: starts[0]], *itertools.chain(*order)])]
    }
    assert len(outputs) == 1
    assert next(iter(outputs))[0] == 0


SUFFIXES = {
    "trace x*y --x 2 --y 3 -o": [".html", ".svg", ".dot", ".tex", ".json"],
    "lesson chain -o": [".html", ".json"],
    "train y~a+b*x DATA -o": [".csv", ".tex", ".md"],
    "train y~a+b*x DATA --plot": [".html"],
    "train y~a+b*x DATA --page": [".html"],
}


@pytest.mark.parametrize("line", SUFFIXES)
def test_a_suffix_in_capital_letters_means_the_same_and_htm_is_html_or_refused(line: str, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("x,y\n1,2\n2,3.5\n3,4\n4,6\n")
    for suffix in SUFFIXES[line]:
        others = [suffix.upper(), *[".htm", ".HTM"] * (suffix == ".html")]
        written = []
        for ending in (suffix, *others):
            path = tmp_path / f"page{ending}"
            words = [str(data) if word == "DATA" else word for word in line.split()]
            result = run_cli([*words, str(path)])
            if result.status == 2:
                assert ending.lower() == ".htm"
                assert "end" in result.stderr, ending  # the endings of files that it writes
                continue
            written.append(path.read_bytes())
            path.unlink()
        assert written
        assert {*written} == {written[0]}, suffix
