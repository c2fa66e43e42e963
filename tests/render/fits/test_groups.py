"""Tables of groups: text and CSV say what the document says."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import autodiff_cli as ad
from autodiff_cli.render.fit import fit_report
from autodiff_cli.render.fit_tables import _model_document, comparison_report, estimates_text, groups_csv, groups_report
from autodiff_cli.render.report import Paper, TerminalPaper
from autodiff_cli.training.fitting.comparison import ComparedModel
from autodiff_cli.training.fitting.posterior import LeaveOneOut
from tests.each import each
from tests.support import run_cli


def test_text_and_csv_of_groups_say_what_the_document_says(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    lines = [
        f"{k % 10},{2 * math.exp(-0.1 * (k % 10)) + random.normal(0, 0.05):.6f},{'uv'[k // 10]}" for k in range(20)
    ]
    path, table = tmp_path / "data.csv", tmp_path / "table.csv"
    path.write_text("\n".join(["x,y,site", *lines]))
    line = ["train", "y ~ a*exp(-b*x) + c", str(path), "--by", "site", "--derive", "half=ln(2)/b", "--fix", "c=0.01"]
    line += ["--a", "2", "--b", "0.1"]
    line += ["--profile", "--bootstrap", "9"]
    run_cli([*line, "-o", str(table)])
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    document = run_cli([*line, "--json"]).json["groups"]
    text = str(run_cli(line))
    for row, found in zip(rows, document, strict=True):
        kinds = {"": found["confidence"], **{f"_{kind}": each for kind, each in found["intervals"].items()}}
        numbers = {**found["parameters"], **found["fixed"], "half": found["derived"]["half"]["value"]}
        numbers |= {f"{name}_stderr": error for name, error in found["stderr"].items()}
        numbers |= {"half_stderr": found["derived"]["half"]["stderr"], "c_stderr": None}
        for (mark, intervals), name in itertools.product(kinds.items(), ("a", "b", "c", "half")):
            ends = intervals.get(name) or (None, None)
            numbers |= {f"{name}{mark}_low": ends[0], f"{name}{mark}_high": ends[1]}
            assert ends[0] is None or any(f"{ends[0]:.{k}f} to {ends[1]:.{k}f}" in text for k in (2, 3, 4))
        numbers |= {name: found.get(name) for name in ("loss", "rss", "dof", "r_squared", "aicc", "bic")}
        shown = {name: float(cell) if cell else None for name, cell in row.items() if name in numbers}
        assert shown == numbers


@pytest.mark.parametrize("name", ["rows", "loss", "converged", "a_low"])
def test_labels_and_parameters_of_groups_keep_their_columns(name: str) -> None:
    """Whatever they are called: a figure of the same name has no column."""
    x = np.tile(np.arange(5.0), 2)
    data = {"x": x, "y": 2 + 3 * x + np.cos(9 * x), name: np.repeat(["u", "v"], 5), "g": np.repeat([1, 2], 5)}
    by_label = ad.fit_by("y ~ a + b*x", data, by=name)
    by_number = ad.fit_by(f"y ~ a + {name}*x", {each: data[each] for each in "xyg"}, by="g")
    values = [str(group.fit.parameters[name]) for group in by_number if group.fit]
    for groups, expected in ((by_label, ["u", "v"]), (by_number, values)):
        stream = io.StringIO()
        groups_csv(groups).write(Paper(stream))
        names, *rows = csv.reader(io.StringIO(stream.getvalue()))
        assert len({*names}) == len(names)
        assert [row[names.index(name)] for row in rows] == expected


def test_a_table_of_estimates_says_what_the_document_says(tmp_path: Path) -> None:
    path, label = tmp_path / "d.csv", r"a\b_c^d&%$#{}~|e"
    rows = [f"{k},{3 + 2 * k + (-1) ** k / 9 + k % 2},{[label, 'v'][k % 2]}" for k in range(12)]
    path.write_text("\n".join(["x,y,g", *rows, ""]))
    line = ["train", "y ~ a[g] + b*x + 0*c", str(path), "--fix", "c=2", "--derive", "half=b/2"]
    document = run_cli([*line, "--json"]).json
    run_cli([*line, "-o", str(tmp_path / "t.csv")])
    with (tmp_path / "t.csv").open(newline="") as stream:
        cells = {row["name"]: row for row in csv.DictReader(stream)}
    assert {*cells} == {f"a[{label}]", "a[v]", "b", "c", "half"}
    assert float(cells["half"]["stderr"]) == pytest.approx(document["stderr"]["b"] / 2)
    assert float(cells["b"]["stderr"]) == document["stderr"]["b"]
    assert (cells["c"]["value"], cells["c"]["stderr"]) == ("2", "")
    run_cli([*line, "-o", str(tmp_path / "t.tex")])
    escaped = r"a\textbackslash{}b\_c\^{}d\&\%\$\#\{\}\~{}|e"
    written = (tmp_path / "t.tex").read_text()
    assert f"a[{escaped}] &" in written
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", written)
    assert {len(re.split(r"(?<!\\)&", row)) for row in written.splitlines() if row.endswith(r"\\")} == {len(columns)}
    run_cli([*line, "-o", str(tmp_path / "t.md")])
    rows = (tmp_path / "t.md").read_text().splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert {row.split(" | ")[0][2:].replace(r"\|", "|") for row in rows[2:]} == {*cells} - {"c"}


@each("count", [59, 60, 61, 75])
def test_of_many_groups_a_terminal_shows_both_ends_and_says_what_is_left_out(count: int) -> None:
    x, groups, stream = np.tile([0.0, 1.0], count), np.repeat(np.arange(count), 2), io.StringIO()
    groups_report(ad.fit_by("y ~ a*x", {"x": x, "y": x, "g": groups}, by="g")).write(
        TerminalPaper(stream, 90, colour=False)
    )
    lines = [line.split() for line in stream.getvalue().splitlines()]
    start = next(k for k, cells in enumerate(lines) if cells[:1] == ["0"])
    half = TerminalPaper.max_rows // 2
    left_out = [*map(str, range(half)), "…", *map(str, range(count - half, count)), "…"]
    expected = left_out if count > 2 * half else [*map(str, range(count))]
    assert [cells[0] for cells in lines[start : start + len(expected)]] == expected
    assert (f"… {count - 2 * half} group" in stream.getvalue()) == (count > 2 * half)


@pytest.mark.parametrize("powers", [1, 2, 3])
def test_a_table_of_estimates_has_a_row_for_each_element_of_an_array(powers: int) -> None:
    x = np.arange(9.0)
    columns = ", ".join(f"x^{k}" for k in range(powers))
    fit = ad.fit(f"y ~ w@[{columns}] + 0*c", {"x": x, "y": np.cos(x)}, fixed={"c": 2.0})
    rows = [*csv.DictReader(io.StringIO(estimates_text(fit, "table.csv", None)))]
    assert [row["name"] for row in rows] == [*(f"w[{k}]" for k in range(powers)), "c"]
    low, high = fit.confidence()["w"]
    for k, row in enumerate(rows[:-1]):
        numbers = (
            fit.parameters["w"][k],
            fit.stderr["w"][k],
            fit.t_values["w"][k],
            fit.p_values["w"][k],
            low[k],
            high[k],
        )
        assert [*row.values()][1:] == [*map(repr, map(float, numbers))]


def test_the_table_and_the_csv_of_groups_say_how_each_ended_and_fitted(tmp_path: Path) -> None:
    """One group fits well, one is not defined, one does not vary."""
    path, table = tmp_path / "d.csv", tmp_path / "t.csv"
    path.write_text("g,x,y\na,1,2\na,2,4.1\na,3,5.9\nb,-1,3\nb,-2,3.5\nb,-3,3\nc,1,3\nc,2,3\nc,3,3\n")
    line = ["train", "y ~ a*log(x) + k", str(path), "--by", "g"]
    groups = run_cli([*line, "--json"]).json["groups"]
    assert [group["r_squared"] is None for group in groups] == [False, True, True]
    text = str(run_cli(line))
    warnings = [f"{group['by']}: {warning}" for group in groups for warning in group["warnings"]]
    assert warnings
    assert all(warning in text for warning in warnings)
    lines = {cells[0]: cells[1:] for cells in map(str.split, text.splitlines()) if cells}
    run_cli([*line, "-o", str(table)])
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for group, row in zip(groups, rows, strict=True):
        name, r_squared = group["by"], group["r_squared"]
        assert lines[name][0] == row["rows"] == "3"
        assert lines[name][-1] == ("-" if r_squared is None else f"{r_squared:.6g}")
        assert (lines[name][1] == "-") == (group["loss"] == "nan")
        assert row["converged"] == str(group["converged"]).lower()
        assert "nan" not in row.values()
    assert [group["loss"] == "nan" for group in groups] == [False, True, False]
    assert lines["converged:"] == ["2", "of", "3"]


def test_a_terminal_that_is_too_narrow_leaves_out_weights_and_errors_first() -> None:
    x = np.arange(6.0)
    data = {"x": np.tile(x, 2), "y": np.tile(x + np.cos(x), 2), "g": np.repeat(["u", "v"], 6)}
    compared = comparison_report(ad.compare(["y ~ a + b*x", "y ~ c"], data, folds=0))
    grouped = groups_report(ad.fit_by("y ~ a + b*x", data, by="g"))
    for report, last, optional in ((compared, "BIC", ["weight"]), (grouped, "R²", ["±", "95 % interval"])):
        titles: list[list[str]] = []
        while len(titles) < 2 or titles[-1] == titles[0]:
            stream = io.StringIO()
            report.write(TerminalPaper(stream, 110 - len(titles), colour=False))
            lines = stream.getvalue().splitlines()
            at = next(k for k, line in enumerate(lines) if line.split()[-1:] == [last])
            found, cells = ([*re.finditer(r"\S+(?: \S+)*", lines[k])] for k in (at, at + 2))
            numbers = [title.end() for title in found if title[0] not in ("g", *optional)]
            assert {*numbers} <= {cell.end() for cell in cells}
            titles.append([title[0] for title in found])
        assert {*optional} < {*titles[0]}
        assert titles[-1] == [title for title in titles[0] if title != optional[0]]


@pytest.mark.parametrize("good", [1, 2])
def test_a_group_without_a_fit_has_its_reason_and_no_numbers(good: int) -> None:
    names = ["none", "one", "two"][: good + 1]
    x, y = np.arange(4.0), np.array([1.0, 3, 2, 5])
    data = {"x": np.tile(x, good + 1), "y": np.tile(y, good + 1), "g": np.repeat(names, 4), "w": np.ones(4 * good + 4)}
    data["w"][:4], data["x"][-1] = 0, np.nan
    found = ad.fit_by("y ~ a*x", data, by="g", weights="w", drop_missing=True)
    reason = "weights: all weights are 0"
    assert [group.error for group in found] == [reason] + [""] * good
    shown, table = io.StringIO(), io.StringIO()
    groups_report(found).write(Paper(shown))
    groups_csv(found).write(Paper(table))
    text = shown.getvalue()
    assert text.startswith(f"y ~ a*x, by `g`: {good + 1} groups, {4 * good - 1} rows\n")
    assert "  rows of all groups left out because a cell is missing: 1\n" in text
    assert "  rows of all groups left out because their weight is 0: 4\n" in text
    assert f"  none: {reason}\n" in text
    cells = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:] if line}
    assert cells["g"][-1] == "R²"
    assert {*cells["none"]} == {"-"}
    rows = {row["g"]: row for row in csv.DictReader(io.StringIO(table.getvalue()))}
    assert [*rows] == names
    assert {name: cell for name, cell in rows["none"].items() if cell} == {
        "g": "none",
        "converged": "false",
        "warnings": reason,
    }
    for group in found.groups[1:]:
        row, fit = rows[str(group.by)], group.fit
        assert fit is not None
        numbers = (fit.parameters["a"], fit.loss, fit.rss, fit.r_squared)
        assert tuple(float(row[name]) for name in ("a", "loss", "rss", "r_squared")) == numbers
        for suffix, mark in (("csv", ","), ("tex", "&")):
            lines = estimates_text(fit, f"fit.{suffix}", None).splitlines()
            titles, numbers_of_a = ([x.strip(" \\") for x in line.split(mark)] for line in lines if mark in line)
            assert (titles[0], numbers_of_a[0]) == ("name", "a")
            assert float(numbers_of_a[1]) == pytest.approx(fit.parameters["a"], rel=1e-2)


def test_elements_of_an_array_have_the_cells_of_numbers() -> None:
    """On a bound, where no error is known, too."""
    x = np.arange(12.0)
    data = {"x": x, "y": 2 + x / 2 + 0.1 * np.sin(7 * x), "g": np.arange(12) % 2}
    tables: list[list[list[str]]] = []
    for names in (("w[0]", "w[1]", "w[2]"), ("w0", "w1", "w2")):
        start = dict.fromkeys(names, 1.0) if "w0" in names else {"w": [1.0] * 3}
        bounds = dict.fromkeys(start, (0.0, None))
        model = "y ~ {} + {}*x - {}*x^2".format(*names)
        settings = {"start": start, "bounds": bounds, "profile": True}
        one, groups = ad.fit(model, data, **settings), ad.fit_by(model, data, "g", **settings)
        texts = [estimates_text(one, f"fit.{suffix}", None) for suffix in ("csv", "md", "tex")]
        for report in (fit_report(one), groups_report(groups), groups_csv(groups)):
            stream = io.StringIO()
            report.write(Paper(stream))
            texts.append(stream.getvalue())
        assert "on its bound" in texts[3]
        title = texts[0].splitlines()[0]
        assert title == "name,value,stderr,t,p,low,high,profile_low,profile_high"
        lines = [line for text in texts for line in text.replace(",", " ").splitlines() if "w" in line]
        lines = [re.sub(r"(\d\.\d{6})\d+", r"\1", line) for line in lines]  # the last digits of profiles differ
        tables.append([re.sub("|".join(map(re.escape, names)), "name", line).split() for line in lines])
    assert tables[0] == tables[1]


@each("sigma, title", [(None, "t"), (1.0, "z")])
def test_a_table_of_estimates_names_the_statistic(sigma: float | None, title: str) -> None:
    """Errors that are known in absolute units leave nothing to estimate, so that the statistic is normal."""
    data = {"x": np.arange(5.0), "y": np.array([1.0, 3, 2, 5, 4])}
    fit = ad.fit("y ~ a*x + b", data, sigma=sigma, absolute_sigma=sigma is not None)
    rows = [*csv.DictReader(io.StringIO(estimates_text(fit, "fit.csv", None)))]
    assert [*rows[0]] == ["name", "value", "stderr", title, "p", "low", "high"]
    distribution = stats.norm() if title == "z" else stats.t(fit.dof)
    for row in rows:
        statistic = float(row["value"]) / float(row["stderr"])
        assert float(row[title]) == pytest.approx(statistic)
        assert float(row["p"]) == pytest.approx(2 * distribution.sf(abs(statistic)), rel=1e-6)


@each("largest, is_doubtful", [(0.69, False), (0.71, True)])
def test_a_leave_one_out_estimate_that_depends_on_single_rows_is_doubtful(largest: float, is_doubtful: bool) -> None:
    fit = ad.fit("y ~ a*x", {"x": [1.0, 2, 3, 4], "y": [1.0, 3, 2, 5]})
    found = _model_document(ComparedModel(fit, 2, None, None, None, LeaveOneOut(-3.0, 1.0, 2.0, largest)))["warnings"]
    assert any("Pareto k is above 0.7" in text for text in found) is is_doubtful
