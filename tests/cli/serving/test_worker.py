"""What the server's processes answer: pages, reports, and the messages that a terminal would show."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodiff_cli.cli import worker
from autodiff_cli.cli.worker import answer_question
from tests.support import ROOT, run_cli

DECAY = b"x,y\n0,2\n1,1.2\n2,0.75\n3,0.44\n4,0.27\n"
MODEL = "y ~ a*exp(-b*x)"


def asked(ask: str, data: bytes = b"", **question: Any) -> dict[str, Any]:
    return answer_question({"ask": ask, "values": "", **question}, io.BytesIO(data))


def record_of(page: str) -> Any:
    """Return the data that the script of a page received."""
    found = re.search(r'<script type="application/json" id="record">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_formula_gets_the_page_of_its_trace_with_boxes_above() -> None:
    page = asked("trace", formula="x*y + sin(x)", values="x=2, y=pi")["page"]
    written = run_cli(["trace", "x*y + sin(x)", "--x", "2", "--y", "pi", "--format", "html"])
    ours, theirs = record_of(page), record_of(written)
    assert ours["nodes"] == theirs["nodes"]
    assert '<textarea id="typed-formula"' in page
    assert 'value="x=2, y=pi"' in page


@pytest.mark.parametrize("formula", ["sine(x", "2x", "x +", "a = x; a = y; a", "@/etc/passwd", "-", "x^2^"])
def test_what_cannot_be_read_gets_the_message_of_the_terminal(formula: str) -> None:
    shown = run_cli(["trace", "-"], stdin=formula).stderr
    if formula == "-":
        shown = "error: line 1, column 2: "
    assert asked("trace", formula=formula)["error"].strip().startswith(shown.strip())


def test_missing_values_are_chosen_with_the_right_shape_and_reported() -> None:
    page = asked("trace", formula="sum(W @ x) + s", values="x=[1, 2]")["page"]
    variables = {variable["name"]: variable["value"] for variable in record_of(page)["variables"]}
    assert variables["x"] == [1, 2]
    assert variables["s"] == 2
    assert variables["W"] == [[2, 2], [2, 2]]
    assert "note: example values were used for W = [[2, 2], [2, 2]], s = 2" in page


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("x=2, z=3", "the expression has no variable `z`"),
        ("x", "values have the form x=2, y=3, not `x`"),
        ("x=2, x=3", "`x` has two values"),
        ("x=2+-0.1", "the page shows no uncertainty: leave out the error of `x`"),
        ("x=y", "must be a number or a constant expression"),
        ("x=@/etc/passwd", "the value of `x`"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: str, message: str) -> None:
    assert message in asked("trace", formula="x^2", values=values)["error"]


@pytest.mark.slow
def test_too_large_a_graph_is_refused() -> None:
    assert "at most 3000 nodes" in asked("trace", formula="+".join(["x"] * 4000))["error"]


def test_markup_in_what_is_typed_is_text() -> None:
    formula = "x # </textarea></pre><script>alert(1)</script>"
    page = asked("trace", formula=formula)["page"]
    assert "<script>alert" not in page
    assert "&lt;/textarea&gt;" in page


def test_a_fit_is_that_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "decay.csv"
    file.write_bytes(DECAY)
    found = asked("fit", DECAY, model=MODEL, values="a=1, b=0.5")
    document = run_cli(["train", MODEL, str(file), "--a", "1", "--b", "0.5", "--json"]).json
    assert found["stored"]["parameters"] == pytest.approx(document["parameters"], rel=1e-12)
    assert found["rows"] == 5
    assert "parameters\n" in found["report"]
    assert "data: the file, columns y, x" in found["report"]


def test_a_fit_has_the_loss_the_optimizer_and_the_epochs_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "decay.csv"
    file.write_bytes(DECAY)
    options = {"loss": "logcosh", "optimizer": "adam", "epochs": "7", "learning_rate": "0.1"}
    found = asked("fit", DECAY, model=MODEL, values="", options=options)
    words = [f"--{name.replace('_', '-')}={text}" for name, text in options.items()]
    document = run_cli(["train", MODEL, str(file), *words, "--json"]).json
    assert found["stored"]["parameters"] == pytest.approx(document["parameters"], rel=1e-12)
    course = record_of(asked("learn", DECAY, model=MODEL, values="", options=options)["page"])["addition"]
    assert len(course["epochs"]) == 8
    assert asked("fit", DECAY, model=MODEL, values="", options={"epochs": "many"}).keys() == {"error"}


@pytest.mark.slow
def test_the_course_has_its_pages() -> None:
    assert 'href="slope.html"' in asked("course", file="index.html")["page"]
    assert "Fan-out" in asked("course", file="fan-out.html")["page"]
    assert asked("course", file="../secret").keys() == {"error"}


@pytest.mark.parametrize("model", ["@/etc/passwd", " @/etc/passwd", "-", "", "--save=/tmp/x", "y ~ a*z(x)"])
def test_a_model_is_never_a_file_or_an_option(model: str) -> None:
    assert asked("fit", DECAY, model=model).keys() == {"error"}


def test_values_of_a_fit_are_never_options() -> None:
    assert "no parameter `save`" in asked("fit", DECAY, model=MODEL, values="save=/tmp/x")["error"]


@pytest.mark.parametrize("data", [b"", b"\0\1\2", b"x,y\n1,a\n", b"\xff\xfe"])
def test_a_file_that_is_no_data_is_refused_in_words(data: bytes) -> None:
    assert asked("fit", data, model=MODEL)["error"].startswith("error: ")


@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_a_row_is_traced_at_the_fitted_parameters(loss: str, tmp_path: Path) -> None:
    file = tmp_path / "decay.csv"
    file.write_bytes(DECAY)
    question: dict[str, Any] = {"model": MODEL, "options": {"loss": loss}}
    fit = asked("fit", DECAY, **question)
    question |= fit["stored"]
    records = [record_of(asked("row", DECAY, row=k, **question)["page"]) for k in range(1, 6)]
    variables = {variable["name"]: variable["value"] for variable in records[2]["variables"]}
    assert (variables["x"], variables["y"]) == (2, 0.75)
    assert variables["a"] == fit["stored"]["parameters"]["a"]
    losses = [record["nodes"][int(record["output"])]["value"] for record in records]
    document = run_cli(["train", MODEL, str(file), "--loss", loss, "--json"]).json
    assert np.mean(losses) == pytest.approx(document["loss"], rel=1e-9)
    assert "there is no row 9" in asked("row", DECAY, row=9, **question)["error"]


def test_a_fit_is_watched_learning() -> None:
    page = asked("learn", DECAY, model=MODEL, values="a=1")["page"]
    course = record_of(page)["addition"]
    assert course["names"] == ["a", "b"]
    assert course["epochs"][0]["theta"][0] == 1
    parameters = asked("fit", DECAY, model=MODEL)["stored"]["parameters"]
    assert course["epochs"][-1]["theta"] == pytest.approx([*parameters.values()])


@pytest.mark.slow
def test_the_process_writes_no_file(tmp_path: Path) -> None:
    question = {"ask": "fit", "model": MODEL, "values": "", "seconds": 60}
    before = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "autodiff_cli.cli.worker"],
        input=json.dumps(question).encode() + b"\n" + DECAY,
        capture_output=True,
        env={**os.environ, **before},
        timeout=100,
        check=True,
    )
    assert json.loads(done.stdout)["stored"]["parameters"]["b"] == pytest.approx(0.5, abs=0.01)
    assert [*tmp_path.rglob("*")] == []


def test_the_process_has_limits_of_time_memory_and_files() -> None:
    script = "import resource as r; from autodiff_cli.cli.worker import _limit_process; _limit_process(2); "
    script += "print([r.getrlimit(which) for which in (r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_AS)])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    (cpu, *_), (file_size, *_), (memory, *_) = ast.literal_eval(done.stdout.decode())
    assert 2 <= cpu <= 100
    assert file_size == 0
    assert 2**28 < memory < 2**36


@pytest.mark.parametrize(
    ("model", "values", "options"),
    [
        ("y ~ a", "", {}),
        (MODEL, "c=1", {}),
        (MODEL, "", {"optimizer": "sgd", "learning_rate": "100"}),
        (MODEL, "", {"optimizer": "adam", "epochs": "0.5"}),
        (MODEL, "", {"learning_rate": "-1"}),
        (MODEL, "", {"loss": "bce"}),
        ("y ~ e^(-b*x)", "", {}),
        ("(y - a*x)^2", "", {}),
        pytest.param("y ~ a*sin(b*x + c)", "", {}, marks=pytest.mark.slow),
        ("y ~ mlp(x, [4])", "", {"optimizer": "adam", "epochs": "5"}),
    ],
)
def test_messages_name_the_fields_of_the_page_and_say_where_other_options_are(
    model: str, values: str, options: dict[str, str]
) -> None:
    answer = asked("fit", DECAY, model=model, values=values, options=options)
    for text in filter(None, [answer.get("error"), answer.get("report"), answer.get("notes")]):
        advised = set(re.findall(r"--[a-z][\w-]*", text))
        assert not advised & {*worker._FIELDS}
        assert bool(advised) == ("note: this page has no field for --" in text), text
        assert "there is no option" not in text
        assert text.endswith("\n") or text == answer.get("error")


def test_fields_that_messages_name_are_on_the_page() -> None:
    home = (ROOT / "autodiff_cli" / "render" / "page" / "served" / "home.html").read_text(encoding="utf-8")
    labels = set(re.findall(r"<label>([\w ]+?) <", home))
    assert {*worker._FIELDS.values()} <= labels
