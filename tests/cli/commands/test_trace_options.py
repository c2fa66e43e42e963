"""`autodiff trace`: paths, forward mode, the tape, and drawings in files."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.each import each
from tests.support import expect_refusal, run_cli

LINE = ["trace", "x*y + sin(x)", "--x", "2", "--y", "3"]


def test_paths_in_words() -> None:
    output = run_cli([*LINE, "--paths", "x"])
    assert output == (
        "x*y + sin(x)\n"
        "at x = 2, y = 3\n"
        "\n"
        "paths from x to the output: 2, largest contribution first\n"
        "  1. x → x*y → x*y + sin(x)\n"
        "       3 × 1 = 3\n"
        "  2. x → sin(x) → x*y + sin(x)\n"
        "       -0.416147 × 1 = -0.416147\n"
        "  total: 3 + (-0.416147) = 2.58385 = d/dx\n"
        "\n"
        "value = 6.909297426825682\n"
        "\n"
        "gradient\n"
        "  d/dx = 2.5838531634528574\n"
    )


def test_what_is_left_out_of_long_paths_and_sums() -> None:
    for count in (12, 13, 16):  # nodes
        text = "".join(f"a{i + 1} = sin({f'a{i}' if i else 'x'});" for i in range(count - 1)) + f"a{count - 1}"
        (path,) = [line for line in run_cli(["trace", text, "--x", "1", "--paths"]).splitlines() if "1. x" in line]
        names = ["x", *(f"a{i + 1}" for i in range(count - 1))]
        shown = names if count == 12 else [*names[:6], f"… {count - 12} more …", *names[-6:]]
        assert path.strip() == f"1. {' → '.join(shown)}"
    for count in (1, 2, 6, 7):
        names = [f"x{k}" for k in range(count)]
        values = [word for name in names for word in (f"--{name}", "1+-0.1")]
        output = run_cli(["trace", "+".join(names), *values])
        assert (f"variance = {' + '.join(['0.1^2'] * count)} = {count / 100}" in output) == (count <= 6)
        output = run_cli(["trace", " + ".join(f"{k + 1}*x" for k in range(count)), "--x", "1", "--paths"])
        total = " + ".join(f"{k}" for k in range(count, 0, -1)) + f" = {count * (count + 1) // 2}"
        assert (f"total: {total} = d/dx" in output) == (1 < count <= 6)


def test_paths_as_json() -> None:
    document = run_cli([*LINE, "--paths", "--json"]).json
    assert [path["nodes"] for path in document["paths"]["x"]] == [[0, 2, 4], [0, 3, 4]]
    assert [path["product"] for path in document["paths"]["x"]] == [3.0, math.cos(2)]
    assert document["paths_count"] == {"x": 2, "y": 1}
    assert document["paths_rest"] == {"x": 0.0, "y": 0.0}
    assert document["gradient"] == run_cli([*LINE, "--json"]).json["gradient"]


def test_a_limit_omits_paths_and_reports_their_sum() -> None:
    document = run_cli([*LINE, "--paths", "--limit", "1", "--json"]).json
    assert document["paths_rest"] == {"x": math.cos(2), "y": 0.0}
    assert "… and 1 more, whose product is -0.416147" in run_cli([*LINE, "--paths", "--limit", "1"])


# fmt: off
PATHS = [
    (["--paths", "x*y", "--x", "2", "--y", "3"],         {"x", "y"}),
    (["--paths", "--x", "2", "--y", "3", "x*y"],         {"x", "y"}),
    (["--paths", "x", "--x", "2"],                       {"x"}),
    (["--paths", "x", "x*y", "--x", "2", "--y", "3"],    {"x"}),
    (["x*y", "--paths", "y", "--x", "2", "--y", "3"],    {"y"}),
    (["x*y", "--paths=y", "--x", "2", "--y", "3"],       {"y"}),
    (["x*y", "--x", "2", "--y", "3", "--paths"],         {"x", "y"}),
    (["--paths", "-x^2", "--x", "2"],                    {"x"}),
]
# fmt: on


@each(("words", "names"), PATHS)
def test_the_variable_of_paths_may_be_left_out(words: list[str], names: set[str]) -> None:
    assert set(run_cli(["trace", *words, "--json"]).json["paths"]) == names


def test_2_to_the_300_paths() -> None:
    text = "a0 = x;" + "".join(f"a{i + 1} = sin(a{i}) + a{i};" for i in range(300)) + "a300"
    output = run_cli(["trace", text, "--x", "0.1", "--paths"])
    assert f"{2**300:,}" in output
    assert f"… and {2**300 - 10:,} more, which sum to" in output
    assert run_cli(["trace", text, "--x", "0.1", "--paths", "--json"]).json["paths_count"] == {"x": 2**300}


@pytest.mark.slow
def test_counts_of_paths_too_long_for_a_json_number_are_text() -> None:
    text = "a0 = x;" + "".join(f"a{i + 1} = a{i}*a{i};" for i in range(15_000)) + "a15000"
    count = run_cli(["trace", text, "--x", "1", "--paths", "--limit", "1", "--json"]).json["paths_count"]["x"]
    assert len(count) == 4516


def test_forward_mode_has_the_tangents_and_the_work() -> None:
    document = run_cli([*LINE, "--mode", "forward", "--json"]).json
    assert document["tangents"]["x"] == [1.0, 0.0, 3.0, math.cos(2), 3 + math.cos(2)]
    assert document["tangents"]["y"] == [0.0, 1.0, 2.0, 0.0, 2.0]
    assert document["work"]["reverse"] == {"multiplications": 5, "additions": 1}


def test_forward_mode_in_words_follows_one_variable() -> None:
    output = run_cli([*LINE, "--mode", "forward", "--wrt", "y"])
    assert "  2. sin(x) = sin(2) = 0.909297; it does not depend on y, so its tangent is 0\n" in output
    assert "  3. x*y + sin(x) = 6 + 0.909297 = 6.9093; tangent 2\n       from x*y: 1 × 2 = 2\n" in output
    assert "forward mode, all 2 variables                6          1\n" in output
    assert "d/dy = 2" in output
    assert "d/dx" not in output
    heads = re.findall("forward mode: how fast every node changes with (.)", run_cli([*LINE, "--mode", "forward"]))
    assert heads == ["x"]
    several = run_cli([*LINE, "--mode", "forward", "--wrt", "y,x"])
    assert {*re.findall("forward mode: how fast every node changes with (.)", several)} == {"x", "y"}
    array = ["trace", "x*sum(v^2)", "--x", "2", "--v", "[1, 3]", "--mode", "forward"]
    for wrt, expected in ("v", ["v[0]", "v[1]"]), ("v,x", ["v[0]", "v[1]", "x"]), ("x", ["x"]):
        heads = re.findall("forward mode: how fast every node changes with (.*)", run_cli([*array, "--wrt", wrt]))
        assert heads == expected


def test_the_tape_lists_stored_values() -> None:
    output = run_cli([*LINE, "--tape"])
    assert "   2  mul        x, y         x*y           x, y         16 B\n" in output
    assert "saved for the backward pass: 16 B; all results together: 24 B" in output
    document = run_cli([*LINE, "--tape", "--json"]).json
    assert document["tape"][0] == {"node": 2, "op": "mul", "inputs": [0, 1], "output": 2, "saved": [0, 1], "bytes": 16}


def test_several_views_stand_one_after_the_other() -> None:
    output = run_cli([*LINE, "--paths", "--tape", "--mode", "forward"])
    positions = [output.index(part) for part in ("forward mode: how fast", "paths from x", "tape: the values")]
    assert positions == sorted(positions)


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", "<svg"), ("dot", "digraph"), ("mmd", "flowchart"), ("json", "{")]
)
def test_the_file_suffix_selects_the_format(tmp_path: Path, ending: str, start: str) -> None:
    path = tmp_path / f"graph.{ending}"
    output = run_cli([*LINE, "-o", str(path)])
    assert (output.status, output, output.stderr) == (0, "", "")
    assert path.read_text(encoding="utf-8").startswith(start)
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_of_text_has_the_plain_report(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    run_cli([*LINE, "-o", str(path)], terminal=60)
    assert path.read_text(encoding="utf-8") == run_cli(LINE)


@pytest.mark.parametrize("format_", ["mermaid", "dot", "svg"])
def test_drawings_go_to_standard_output(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    run_cli([*LINE, "--format", format_, "-o", str(path)])
    assert run_cli([*LINE, "--format", format_]) == path.read_text(encoding="utf-8")


def test_format_json_is_the_same_as_json() -> None:
    assert run_cli([*LINE, "--format", "json"]) == run_cli([*LINE, "--json"])


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    output = run_cli([*LINE, "-o", str(tmp_path / "none" / "graph.svg")])
    assert (output.status, output) == (1, "")
    assert "cannot write" in output.stderr


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.svg"
    path.write_text("old")
    assert run_cli([*LINE, "-o", str(path), "--only", "z"]).status == 2
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["graph.svg"]


# fmt: off
WRONG = [
    (["--paths", "z"],                         "--paths z: the expression has no variable `z`"),
    (["--paths", "y", "--wrt", "x"],           "--paths y"),
    (["--format", "svg", "--highlight", "z"],  "--highlight z: the expression has no variable `z`"),
    (["--format", "svg", "--paths"],           "--format svg cannot show --paths; use text, json"),
    (["--highlight", "x"],                     "needs a drawing"),
    (["--hide-constants", "--json"],           "needs a drawing"),
    (["--json", "--format", "dot"],            "cannot be combined with --format"),
    (["--format", "png"],                      "png"),
    (["--paths", "x", "--paths", "y"],         "--paths is given twice"),
    (["--paths=x", "--paths"],                 "--paths is given twice"),
    (["--limit", "-1", "--paths"],             "--limit"),
]
# fmt: on


@each(("words", "message"), WRONG)
def test_options_that_cannot_be_used_are_bad_input(words: list[str], message: str) -> None:
    output = run_cli([*LINE, *words])
    assert (output.status, output) == (2, "")
    assert message in output.stderr


@pytest.mark.slow
def test_a_graph_too_large_to_draw_is_refused_with_a_way_out() -> None:
    output = run_cli(["trace", "sin(" * 4000 + "x" + ")" * 4000, "--x", "1", "--format", "svg"])
    assert (output.status, output) == (2, "")
    assert "--only" in output.stderr


def test_the_cone_of_a_variable_that_does_not_matter_is_nothing_to_draw() -> None:
    output = run_cli("trace 'a = x^2; y' --x 1 --y 2 --only x --format svg")
    assert (output.status, output) == (2, "")
    assert "does not depend on `x`" in output.stderr


def test_formulas_with_arrays_are_drawn_and_taped() -> None:
    line = ["trace", "sum(W @ x)", "--W", "[[1, 2], [3, 4]]", "--x", "[5, 6]"]
    ElementTree.fromstring(run_cli([*line, "--format", "svg"]))
    assert json.loads(run_cli([*line, "--tape", "--json"]))["tape"][0]["bytes"] == 48


def test_folding_is_for_drawings_and_draws_calls_as_one_node() -> None:
    line = ["trace", "f(t) = sin(t)^2; f(x)*f(y)", "--x", "2", "--y", "3", "--fold"]
    assert 'label="f(x)\\n3 nodes inside' in run_cli([*line, "--format", "dot"])
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    assert "--fold needs a drawing" in output.stderr


def test_a_limit_is_for_paths() -> None:
    output = run_cli([*LINE, "--limit", "3"])
    assert output.status == 2
    assert "add --paths" in output.stderr


def test_a_variable_that_wrt_leaves_out_has_no_paths() -> None:
    expect_refusal(run_cli("trace x*y --x 2 --y 3 --wrt x --paths y"), "--paths y: `y` is not in --wrt")


def test_forward_mode_of_a_constant_has_no_variable() -> None:
    expect_refusal(run_cli("trace 2+3 --mode forward"), "--mode forward needs a variable, and the expression has none")


def test_a_dash_is_standard_output() -> None:
    assert run_cli("trace x*y --x 2 --y 3 --format svg -o -") == run_cli("trace x*y --x 2 --y 3 --format svg")


# A first try that fails, a part of the message, and what is suggested in its place.
FIRST_TRIES = [
    ("trace xy --x 3 --y 2", "`xy` is one name", "x*y"),
    ("trace xxy --x 1 --xx 3 --y 2", "`xxy` is one name", "xx*y"),
    ("trace sin2x --x 3", "`sin2x` is one name", "sin(2*x)"),
    ("trace log2x+1 --x 3", "`log2x` is one name", "log2(x)"),
    ("trace atan2x --x 3", "`atan2x` is one name", "atan(2*x)"),
    ("trace speed*time --speed 3 --tim 2", "no variable `tim`", "--time"),
    ("trace 'sum(Wᵀ @ x)' --W [[1,2],[3,4]] --x [1,2]", "`Wᵀ` is one name", "transpose(W)"),
    ("trace 'mlp(x, [2])' --x [1,2]", "`x` is a number here", "x: 2; mlp(x, [2])"),
    ("trace x*y --x 1,2,3 --y 1", "goes in square brackets", "[1, 2, 3]"),
    ("trace x*y --x 1 --z 2", "no variable `z`, only `x`, `y`", None),
    ("trace x*y 2 3", "to set a variable, use `--NAME 2`", None),
    ("trace [x,y] --x 1 --y 2", "take the `sum(…)` of the array or one of its elements", None),
]


@each(("line", "message", "suggestion"), FIRST_TRIES)
def test_a_failed_first_command_gets_a_hint(line: str, message: str, suggestion: str | None) -> None:
    output = run_cli(line)
    expect_refusal(output, message)
    assert (f"Did you mean `{suggestion}`?" in output.stderr) == (suggestion is not None)


@each("text", ["mlp(x, [4])", "x: 2; mlp(x, [4], relu)", "sum(W @ x + b)", "softmax(z)[1]*k"])
def test_the_values_that_are_suggested_work(text: str) -> None:
    suggested = run_cli(["trace", text]).stderr.partition("; add ")[2]
    assert run_cli(["trace", text, *shlex.split(suggested)]).status == 0


ARRAYS = ["trace", "sum(tanh(W @ x))", "--W", "[[1, 2], [3, 4]]", "--x", "[1, -1]"]


def test_paths_and_tangents_of_arrays_are_those_of_their_elements() -> None:
    gradient = run_cli([*ARRAYS, "--json"]).json["gradient"]
    elements = {f"W[{i}, {k}]": x for i, row in enumerate(gradient["W"]) for k, x in enumerate(row)}
    elements |= {f"x[{k}]": x for k, x in enumerate(gradient["x"])}
    document = run_cli([*ARRAYS, "--paths", "--json"]).json
    assert document["paths_count"] == {name: 2 if name[0] == "x" else 1 for name in elements}
    sums = {name: sum(path["product"] for path in paths) for name, paths in document["paths"].items()}
    assert sums == pytest.approx(elements)
    tangents = run_cli([*ARRAYS, "--mode", "forward", "--json"]).json["tangents"]
    assert {name: rates[-1] for name, rates in tangents.items()} == pytest.approx(elements)
    assert [*run_cli([*ARRAYS, "--paths", "W", "--json"]).json["paths"]] == [
        name for name in elements if name[0] == "W"
    ]
    assert run_cli([*ARRAYS, "--paths", "W[0, 1]"]).count("paths from") == 1
    expect_refusal(run_cli([*ARRAYS, "--paths", "V"]), "no variable `V`")
    large = ["trace", "sum(W @ W)", f"--W={[[1] * 60] * 60}", "--paths"]
    expect_refusal(run_cli(large), "show each element of an array as a node; this formula has too many")


@pytest.mark.parametrize("view", ["--mode forward", "--paths v", "--mode forward --json"])
@pytest.mark.parametrize(
    ("text", "has_note"), [("-log(softmax(v)[0])", True), ("logsumexp(v)", True), ("sum(v^2)", False)]
)
def test_elements_read_as_elements_and_stable_forms_have_a_note(view: str, text: str, has_note: bool) -> None:
    result = run_cli(f'trace "{text}" --v "[1, 2]" {view}')
    assert "v[0]" in result
    assert "`" not in result
    assert ("note: softmax and logsumexp are in a stable form" in result.stderr) == has_note
