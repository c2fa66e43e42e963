"""`autodiff train` as it is typed: what it prints, its JSON, its statuses."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

import autodiff_cli as ad
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from autodiff_cli.training.fitting.progress import Progress
from tests.each import each
from tests.support import SETS, expect_refusal, run_cli

DATA = SETS / "nist"
KEYS = {
    "model", "rows", "parameters", "fixed", "stderr", "confidence", "covariance", "correlation", "loss", "rss", "dof",
    "r_squared", "adjusted_r_squared", "rmse", "reduced_chi_squared", "log_likelihood", "aic", "aicc", "bic",
    "durbin_watson", "residual_quantiles", "optimizer", "epochs", "converged", "formula", "history", "warnings",
    "notes", "t_values", "p_values", "null_test",
}  # fmt: skip
ROWS = "x,y,s\n0,1,1\n1,3,1\n2,4,2\n3,8,2\n"


@pytest.fixture
def csv(tmp_path: Path) -> str:
    path = tmp_path / "line.csv"
    path.write_text(ROWS)
    return str(path)


def write(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "data.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# --- answers


def test_json_has_the_promised_keys_and_the_numbers_of_python(csv: str) -> None:
    output = run_cli(["train", "y ~ a + b*x", csv, "--json"])
    found = ad.fit("y ~ a + b*x", {"x": [0, 1, 2, 3], "y": [1, 3, 4, 8]})
    assert output.status == 0
    assert set(output.json) == KEYS
    assert output.json["parameters"] == found.parameters
    assert output.json["stderr"] == found.stderr
    assert output.json["history"] == found.history
    assert output.json["covariance"]["a"]["b"] == found.covariance[0, 1]
    assert (output.json["rows"], output.json["dof"], output.json["converged"]) == (4, 2, True)
    assert (output.json["optimizer"], output.json["warnings"]) == ("lm", [])


def test_the_report_has_parameters_errors_losses_and_a_formula_to_paste(csv: str) -> None:
    output = run_cli(["train", "y ~ a + b*x", csv])
    report = run_cli(["train", "y ~ a + b*x", csv, "--json"]).json
    assert output.status == 0
    digits = run_cli(["train", "y ~ a + b*x", csv, "--digits", "17"])
    lines = [line.split() for line in output.splitlines()]
    for name, value in report["parameters"].items():
        error, ends = report["stderr"][name], report["confidence"][name]
        rounded = [f"{number:.2f}" for number in (value, error, *ends)]  # the errors are 0.79 and 0.42
        t, p = f"{report['t_values'][name]:.2f}", f"{report['p_values'][name]:.2g}"
        assert [name, *rounded[:2], t, p, rounded[2], "to", rounded[3]] in lines
        in_full = f"{value:.17g} {error:.17g}".split()
        assert any([name, *in_full] == line[:3] for line in map(str.split, digits.splitlines()))
    assert f"{report['history'][0]['loss']:.6g} before, {report['loss']:.6g} after" in output
    assert "inv(J'J)*rss/dof" in output
    assert "dof = 2" in output
    formula = output.splitlines()[output.splitlines().index("fitted formula, ready for `autodiff grad`") + 1].strip()
    grad = run_cli(["grad", formula, "--x", "3", "--json"])
    assert grad.json["value"] == pytest.approx(report["parameters"]["a"] + 3 * report["parameters"]["b"], rel=1e-14)


def test_the_table_of_epochs(csv: str) -> None:
    def shown(*options: str) -> list[int]:
        output = run_cli(["train", "y ~ a + b*x", csv, "--optimizer", "adam", *options])
        table = output.split("loss\n", 1)[1].split("\n\n")[0]
        return [int(line.split()[0]) for line in table.splitlines()]

    assert shown("--epochs", "25") == [*range(11), 20, 25]
    assert shown("--epochs", "25", "--every", "10") == [0, 10, 20, 25]
    assert shown("--epochs", "3", "--every", "1") == [0, 1, 2, 3]


def test_with_json_progress_is_on_standard_error(csv: str) -> None:
    output = run_cli(["train", "y ~ a + b*x", csv, "--json"])
    assert json.loads(output)
    assert "iteration" in output.stderr
    assert "loss" in output.stderr


@each("content", [ROWS, ROWS.replace(",", "\t"), ROWS.replace("\n", "\r\n")])
def test_standard_input(content: str) -> None:
    assert run_cli("train 'y ~ a + b*x' - --json", stdin=content).json["rows"] == 4


def test_the_model_from_a_file_and_gzip_data(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("line = a + b*x\ny ~ line\n")
    path = write(tmp_path, gzip.compress(ROWS.encode()))
    assert run_cli(["train", f"@{tmp_path}/model.txt", path, "--json"]).json["parameters"]["b"] == pytest.approx(2.2)


def test_starts_fixed_values_weights_and_sigma(csv: str) -> None:
    def report(options: str) -> dict[str, object]:
        output = run_cli(["train", "y ~ a + b*x", csv, "--json", *options.split()])
        assert output.status == 0, output.stderr
        return dict(output.json)

    first = report("--a 3/2 --set b=2 --optimizer sgd --epochs 0")
    assert first["parameters"] == {"a": 1.5, "b": 2.0}
    assert report("--fix a=pi/2")["fixed"] == {"a": 1.5707963267948966}
    assert report("--fix a --a 2")["fixed"] == {"a": 2.0}
    assert report("--fix a")["fixed"] == {"a": 1.0}
    weighted, sigma = report("--weights s"), report("--sigma s")
    assert weighted["parameters"] != sigma["parameters"]
    assert report("--sigma s --absolute-sigma")["stderr"] != sigma["stderr"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_document(csv: str) -> None:
    line = ["train", "y ~ a + b*x", csv, "--optimizer", "adam", "--batch-size", "2", "--json"]
    assert run_cli([*line, "--seed", "5"]) == run_cli([*line, "--seed", "5"])
    assert run_cli([*line, "--seed", "5"]).json["parameters"] != run_cli([*line, "--seed", "6"]).json["parameters"]


def test_a_column_replaces_a_constant_with_a_warning() -> None:
    output = run_cli("train 'y ~ a*e' - --json", stdin="e,y\n1,2\n2,4\n")
    assert output.json["parameters"] == pytest.approx({"a": 2})
    assert "not the constant" in output.json["warnings"][0]


def test_in_a_terminal_nothing_is_wider_than_it() -> None:
    path = str(DATA / "Misra1a.csv")
    for width in (40, 80):
        output = run_cli(["train", "y ~ b1*(1 - exp(-b2*x))", path, "--b1", "250", "--b2", "5e-4"], terminal=width)
        assert output.status == 0
        copied = next(line for line in output.splitlines() if "238.942" in line and "exp" in line)
        assert all(len(line) <= width for line in output.splitlines() if line != copied)
        assert "\x1b[" not in output


def test_a_long_run_in_a_terminal_has_a_bar(csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autodiff_cli.render.progress.BAR_DELAY", -1.0)
    monkeypatch.setattr("autodiff_cli.render.progress.BAR_INTERVAL", -1.0)
    line = ["train", "y ~ a + b*x", csv, "--optimizer", "adam", "--epochs", "12"]
    assert "epoch 11 " in run_cli(line, terminal=80)
    assert "epoch 11 " not in run_cli(line)


# --- failures


def test_divergence_is_status_1_with_what_is_known(csv: str) -> None:
    line = ["train", "y ~ a + b*x", csv, "--optimizer", "sgd", "--lr", "1e9"]
    output = run_cli([*line, "--json"])
    assert output.status == 1
    assert output.json["converged"] is False
    assert output.json["epochs"] == len(output.json["history"]) - 1
    assert "smaller learning rate (--lr" in output.json["warnings"][-1]
    plain = run_cli(line)
    assert plain.status == 1
    assert "diverged: the loss is inf in epoch" in plain.stderr
    assert "fitted formula" in plain


def test_ctrl_c_prints_and_saves_the_best_parameters(csv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Progress.record

    def interrupted(self: Progress, epoch: object) -> None:
        real(self, epoch)  # type: ignore[arg-type]
        if len(self.history) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "record", interrupted)
    line = ["train", "y ~ a + b*x", csv, "--optimizer", "adam"]
    output = run_cli([*line, "--json"])
    assert output.status == 130
    assert output.json["converged"] is False
    assert output.json["loss"] == pytest.approx(output.json["history"][-1]["loss"])
    assert "best parameters" in output.stderr
    assert "fitted formula" in run_cli([*line, "--save", str(tmp_path / "model.json")])
    assert ad.load(tmp_path / "model.json").failure == "interrupted"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("x,y\n", "there are no rows"),
        ("x,y\n1,2\n1\n", "line 3: 1 cell, but the header has 2"),
        ("x,y\n1,2\n1,two\n", 'line 3, column `y`: "two" is not a number'),
        (b"x,\xe9\n1,2\n", "not a column of the data (x, é)"),
        ("x,y\n1,2\n3,\n", "line 3, column `y`: empty\nuse --drop-missing"),
        ("x,y\n1,2\n3,nan\n", "line 3, column `y`: nan\nuse --drop-missing"),
        ("x,why\n1,2\n", "`y`, left of `~`, is not a column of the data (x, why)"),
        ("x y;z\n1 2;3\n", "not a column of the data (`x y`, `z`)\n"),
    ],
)
def test_bad_data_is_status_2_and_nothing_on_standard_output(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    for more in ([], ["--json"]):
        output = run_cli(["train", "y ~ a*x + b", write(tmp_path, content), *more])
        assert (output.status, output) == (2, "")
        assert message in output.stderr
        assert ("use --drop-missing" in output.stderr) is ("use --drop-missing" in message)  # where it helps
        assert "Traceback" not in output.stderr


def test_missing_cells_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "x,y\n1,2\n3,\n5,6\nnan,1\n7,9\n")
    assert run_cli(["train", "y ~ a*x", path, "--drop-missing", "--json"]).json["rows"] == 3


@each(
    ("words", "message"),
    [
        ("'y ~ a*' DATA", "column 7"),
        ("'y ~ a*x' /nowhere.csv", "/nowhere.csv: no such file or directory"),
        ("'y ~ a*x'", "missing DATA"),
        ("- -", "only one argument can be `-`, standard input"),
        ("'y ~ a*x' DATA --x 2", "`x` is a column of the data"),
        ("'y ~ a*x' DATA --aa 2", "no parameter `aa`"),
        ("'y ~ a*x' DATA --delimiter ';'", "; the delimiter may be another one"),
        ("'y ~ a*t' DATA --t x", "`x` is a column of the data; for another name in the model, use --column t=x"),
        ("'y ~ a*x' DATA --a 0..5", "`a` starts at a number, not at `0..5`; for bounds, use --bounds a=0:5"),
        ("'y ~ a*x' DATA --a 0:", "for bounds, use --bounds a=0:"),
        ("'y ~ a*x' DATA --a '>0'", "for bounds, use --bounds a=LOW:HIGH"),
        ("'y ~ a*x' DATA --a '1, min=0'", "for bounds, use --bounds a=LOW:HIGH"),
        (
            "'y ~ a*x' DATA --derive 'half: ln(2)/a'",
            "--derive takes NAME=EXPR, such as half=ln(2)/b, not `half: ln(2)/a`",
        ),
        ("'y ~ a*x' DATA --optimizer 'least squares'", "did you mean lm?"),
        ("'y ~ a*x' DATA --loss 'sum of squares'", "did you mean mse?"),
        ("'y ~ a*x' DATA --optimiser lm", "--optimizer"),
        ("'y ~ a*x' DATA --optimizer lmm", "there is no optimizer lmm; did you mean lm?"),
        ("'y ~ a*x' DATA --loss l3", "there is no loss l3; there are mse"),
        ("'y ~ a*x' DATA --lr 0", "--lr must be positive"),
        ("'y ~ a*x' DATA --lr fast", "--lr"),
        ("'y ~ a*x' DATA --epochs 1.5", "--epochs"),
        ("'y ~ a*x' DATA --batch-size 2 --optimizer lm", "lm uses all rows at every step"),
        ("'y ~ a*x' DATA --weights w", "no column `w`"),
        ("'y ~ a*x' DATA --weights s --sigma s", "so give only one"),
        ("'y ~ a*x' DATA --absolute-sigma", "--absolute-sigma needs --sigma"),
        ("'y ~ a*x' DATA --fix a", "every parameter is fixed"),
        ("'y ~ a*x' DATA --fix a=1 --fix a=2", "--fix a is given twice"),
        ("'y ~ a*x' DATA --fix a=1 --a 2", "`a` is given two values"),
        ("'y ~ a*x' DATA --fix =2", "--fix takes NAME"),
        ("'y ~ a*x' DATA --fix a=", "--fix takes NAME"),
        ("'y ~ a*x' DATA --a one", "the value of `a`"),
        ("'y ~ a*x' DATA --a 1 --a 2", "--a is given twice"),
        ("'y ~ 2*x' DATA", "nothing to fit"),
        ("'y ~ a*x + 1e-400' DATA", "column 11: this is computed with floats, and no float represents 1e-400"),
        (
            "'y ~ a*x' DATA --derive 'd = a*1e400'",
            "column 3: this is computed with floats, and no float represents 1e400",
        ),
        ("'y ~ a*x + b' DATA --fix b=1e-400", "no float represents 1e-400"),
        ("'y ~ a*x' DATA --where 'x < 1e400'", "--where: line 1, column 5: this is computed with floats"),
        ("'y ~ a*x' DATA --weights 'x*1e-400'", "column 3: this is computed with floats"),
        ("'y ~ a*x' DATA --sigma 'x + 1e-400'", "column 5: this is computed with floats"),
        ("'y ~ a*x' DATA --prior 'a ~ normal(1e-400, 1)'", "no float represents 1e-400"),
        ("'y ~ a*x' DATA --prior 'a ~ normal(0, 1e400)'", "no float represents 1e400"),
        ("'y ~ a*x' DATA --a 1e-400", "the value of `a` must be representable as a float"),
        ("'y ~ a*x' DATA --bounds a=1e-400:3", "a bound must be representable as a float"),
        ("'y ~ a*x' DATA --bounds 'a < 1e400'", "a bound must be representable as a float"),
        ("'a*x' DATA --loss mae", "requires a model `target ~ prediction`"),
    ],
)
def test_bad_input_is_status_2(words: str, message: str, csv: str) -> None:
    output = run_cli(f"train {words.replace('DATA', csv)}")
    assert (output.status, output) == (2, "")
    assert message in output.stderr
    assert "Traceback" not in output.stderr


# --- levels of a column


def test_levels_have_parameters_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("x,y,site\n0,2,u\n1,1.5,u\n2,1.1,u\n0,4,v v\n1,3.1,v v\n2,2.2,v v\n")
    line = ["train", "y ~ a[site] + b*x", str(tmp_path / "sites.csv"), "--set", "a[v v]=3", "--json"]
    saved = str(tmp_path / "m.json")
    document = run_cli([*line, "--fix", "a[u]=2", "--bounds", "b=:0", "--save", saved]).json
    assert ([*document["parameters"]], document["fixed"]) == (["a[v v]", "b"], {"a[u]": 2.0})
    predicted = run_cli(["predict", saved, "-"], stdin="site,x\nv v,0\nu,0\n")
    assert predicted.splitlines() == ["site,x,prediction", f"v v,0,{document['parameters']['a[v v]']!r}", "u,0,2"]
    expect_refusal(
        run_cli(["predict", saved, "-"], stdin="site,x\nw,0\n"), "the model was not fitted with the level `w`"
    )
    assert "line: u, line: v v" in run_cli([*line[:-1], "--plot"])
    expect_refusal(run_cli([*line, "--set", "a[w]=3"]), "there is no `a[w]`")
    expect_refusal(run_cli([*line, "--set", "z[u]=3"]), "no parameter `z[u]`")


# --- one fit per group


def test_groups_are_a_table_csv_and_documents(tmp_path: Path) -> None:
    rows = "".join(f"{x},{a + b * x},{name}\n" for name, a, b in (("u", 2, 1), ("v", 3, -1)) for x in range(4))
    (tmp_path / "sites.csv").write_text(f"x,y,site\n{rows}7,1,w\n")
    line = ["train", "y ~ a + b*x", str(tmp_path / "sites.csv"), "--by", "site"]
    output = run_cli(line)
    assert output.status == 0
    assert "by `site`: 3 groups, 9 rows" in output
    first, second, third = run_cli([*line, "--json"]).json["groups"]
    assert (first["by"], second["by"], third["by"]) == ("u", "v", "w")
    assert second["parameters"] == pytest.approx({"a": 3, "b": -1})
    assert {"stderr", "loss", "rss", "dof", "converged", "history", "warnings"} <= {*first}
    path = tmp_path / "table.csv"
    assert run_cli([*line, "-o", str(path)]) == ""
    header, _, second_line, _ = (text.split(",") for text in path.read_text().splitlines())
    assert header[:10] == ["site", "rows", "a", "a_stderr", "b", "b_stderr", "a_low", "a_high", "b_low", "b_high"]
    assert float(second_line[4]) == pytest.approx(-1)
    assert "group" in run_cli([*line, "--save", "m.json"]).stderr
    expect_refusal(run_cli([*line[:-1], "sit"]), "did you mean `site`")


def test_the_table_of_parameters_is_a_file_for_spreadsheets_and_papers(tmp_path: Path) -> None:
    (tmp_path / "line.csv").write_text("x,y\n0,1\n1,3.1\n2,4.9\n3,7\n")
    line = ["train", "y ~ a_0 + b*x + c", str(tmp_path / "line.csv"), "--fix", "c=0", "--derive", "r=b/2"]
    tables = {}
    for suffix in ("csv", "tex", "md"):
        path = tmp_path / f"fit.{suffix}"
        assert "figures" in run_cli([*line, "-o", str(path)])
        tables[suffix] = path.read_text()
    header, *lines = (text.split(",") for text in tables["csv"].splitlines())
    rows = [dict(zip(header, cells, strict=True)) for cells in lines]
    document = run_cli([*line, "--json"]).json
    assert [row["name"] for row in rows] == ["a_0", "b", "c", "r"]
    assert float(rows[1]["value"]) == document["parameters"]["b"]
    assert float(rows[1]["t"]) == document["t_values"]["b"]
    assert [float(rows[1]["low"]), float(rows[1]["high"])] == document["confidence"]["b"]
    assert (rows[2]["value"], rows[2]["stderr"]) == ("0", "")
    assert r"a\_0 & 1.03" in tables["tex"]
    assert "| b | 1.98" in tables["md"]
    expect_refusal(run_cli([*line, "-o", "fit.json"]), "-o takes a FILE that ends in .csv, .tex or .md")
    expect_refusal(run_cli([*line, "--panels", "loss"]), "--panels needs --plot FILE")
    expect_refusal(run_cli([*line, "--plot", "--log", "x"]), "--log needs --plot FILE")


def test_failed_groups_are_reported_and_the_others_fitted(tmp_path: Path) -> None:
    rows = "".join(
        f"{x},{y},{name}\n" for name, s in (("u", 1), ("v", -9)) for x, y in ((s, 1), (s + 1, 2), (s + 2, 4))
    )
    (tmp_path / "sites.csv").write_text(f"x,y,site\n{rows}")
    output = run_cli(["train", "y ~ a*log(x) + b", str(tmp_path / "sites.csv"), "--by", "site", "--json"])
    assert output.status == 0
    assert "1 of 2 groups failed; the first is v" in output.stderr
    assert [group["converged"] for group in output.json["groups"]] == [True, False]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_model_is_saved_even_if_the_report_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x,y\n1,2\n2,4.1\n3,6\n")
    model, messages = tmp_path / "model.json", io.StringIO()
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:  # which cannot be closed properly either
        environment = Environment(io.StringIO(), full, messages)
        assert run(["train", "y ~ a*x", str(tmp_path / "data.csv"), "--save", str(model)], environment) == 1
    assert "cannot write the report: no space left on device" in messages.getvalue()
    assert ad.load(model).parameters.keys() == {"a"}


@pytest.mark.parametrize("by", [[], ["--by", "g"]], ids=["alone", "groups"])
def test_figures_and_remarks_do_not_depend_on_groups(
    by: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("autodiff_cli.render.plots.save_plot", lambda *arguments: drawn.append(arguments))
    (tmp_path / "d.csv").write_text("x,y,g\ns,mV,\n1,2,a\n2,4.1,a\n3,5.9,a\n1,3,b\n2,5,b\n3,8,b\n")
    line = ["train", "k = 2; y ~ a*x", str(tmp_path / "d.csv"), "--units-row", *by]
    output = run_cli([*line, "--plot", str(tmp_path / "o.svg"), "--panels", "data", "--log", "y"])
    assert "`k` is bound but never used" in f"{output}{output.stderr}"
    ((fits, path, figure),) = drawn
    assert [*fits] == (["a", "b"] if by else [""])
    assert (path, figure.panels, figure.log) == (str(tmp_path / "o.svg"), "data", "y")
    assert all(fit.units == {"x": "s", "y": "mV"} for fit in fits.values())
