"""Command lines completed: the words that fit, in each shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autodiff_cli.cli.command_line import COMMANDS, find_command
from autodiff_cli.cli.completion import completions
from autodiff_cli.ops import function_names
from tests.support import expect_refusal, run_cli
from tests.tools import program


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "decay.csv"
    path.write_text("time,signal,error\n0,1,0.1\n")
    return str(path)


def test_commands() -> None:
    assert completions([""]) == [*COMMANDS]
    assert completions(["pre"]) == ["predict"]
    assert completions(["nothing", ""]) == []
    assert completions(["train", f"{'x' * 5000}.csv", "--wei"]) == ["--weights"]


def test_options_and_what_they_take(data: str) -> None:
    assert completions(["trace", "x", "--form"]) == ["--format"]
    assert completions(["train", "y ~ a*x", "--json", "--wei"]) == ["--weights"]  # a flag takes no value
    assert completions(["trace", "x", "--format", "h"]) == ["html"]
    assert completions(["trace", "x", "--format=h"]) == ["--format=html"]
    assert completions(["train", "y ~ a*x", "--optimizer", "ada"]) == ["adagrad", "adam", "adamw"]
    assert completions(["train", "signal ~ a*time", data, "--weights", "e"]) == ["error"]
    assert completions(["grad", "x*y", "--wrt", "x,"]) == ["x,y"]
    assert completions(["grad", "x", "--json", "--js"]) == []
    assert completions(["train", "y ~ a*x", "--family", "g"]) == ["gaussian", "gamma"]
    assert completions(["train", "signal ~ a*exp(-b*time)", data, "--bounds", ""]) == ["a", "b"]
    assert completions(["train", "signal ~ a*time", data, "--x-sigma", "e"]) == ["error"]


def test_names_of_variables_are_options(data: str) -> None:
    assert completions(["grad", "alpha*sin(beta)", "--al"]) == ["--alpha"]
    assert {"--a", "--b"} <= {*completions(["train", "signal ~ a*exp(-b*time)", data, "--"])}
    assert "--time" not in completions(["train", "signal ~ a*exp(-b*time)", data, "--"])


def test_functions_and_columns_in_expressions(data: str) -> None:
    assert completions(["grad", "x*y + logadd"]) == ["x*y + logaddexp("]
    for name in function_names():
        if name != "sinc_derivative":
            assert any(found == f"{name}(" for found in completions(["grad", name])) or name.startswith("_"), name
    assert completions(["train", "signal ~ a*ti"], [data]) == ["signal ~ a*time"]
    assert completions(["compare", data, "signal ~ ti"]) == ["signal ~ time"]
    assert completions(["predict", "mod"]) == []  # the shell completes names of files


@pytest.mark.parametrize("name", COMMANDS)
def test_expressions_are_completed_where_a_command_takes_one(name: str, data: str) -> None:
    takes_expression = {argument.metavar.strip(".") for argument in find_command(name).arguments} & {"EXPR", "MODEL"}
    before = [data] * (name == "compare")
    assert completions([name, *before, "x + logadd"]) == ["x + logaddexp("] * bool(takes_expression)
    if name in ("trace", "train"):
        assert completions([name, "x*y", "logadd"]) == []  # the shell completes names of files
    if name == "compare":
        assert completions([name, data, "signal ~ a*time", "signal ~ b*ti"]) == ["signal ~ b*time"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    text = run_cli(["completion", shell])
    assert text.status == 0
    assert "To use it: " in text
    assert f"autodiff completion {shell} -- " in text
    assert run_cli(["completion", shell, "--", "1", "tra"]) == "trace\ntrain\n"


# bash 3.2, the newest on macOS, has no `compopt`, and its `complete` no `nosort`.
OLD_BASH = 'compopt() { return 127; }; complete() { case "$*" in *nosort*) return 2;; esac; builtin complete "$@"; }; '


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", OLD_BASH], ids=["newest", "3.2"])
def test_bash_runs_it(prelude: str, data: str) -> None:
    bash = program("bash", "bash")
    folder = Path(sys.executable).parent
    script = (
        f'{prelude}export PATH="{folder}:$PATH"; eval "$(autodiff completion bash)"; complete -p autodiff; '
        f'COMP_WORDS=(autodiff train "signal ~ a*ti" {data}); COMP_CWORD=2; COMP_LINE=x; COMP_POINT=1; '
        '_autodiff 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=False)
    registered, *found = done.stdout.splitlines()
    assert registered.endswith("-F _autodiff autodiff")
    assert found == ["signal ~ a*time"]


def test_what_cannot_be_completed() -> None:
    expect_refusal(run_cli("completion bash -- x"), "the first argument is the number of the word at the cursor")


def test_what_is_no_shell() -> None:
    output = run_cli("completion powershell")
    assert (output.status, output) == (2, "")
    assert "powershell" in output.stderr
