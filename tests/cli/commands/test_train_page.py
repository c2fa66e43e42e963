"""`train --page FILE`, apart from what the page does, which tests/browser has."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from tests.support import SETS, expect_refusal, run_cli

SINE = SETS / "sine.csv"


def test_the_page_is_one_file_and_the_report_stays_what_it_is(tmp_path: Path) -> None:
    page = tmp_path / "learning.html"
    plain = run_cli(f'train "y ~ a*sin(b*x)" {SINE} --json')
    output = run_cli(f'train "y ~ a*sin(b*x)" {SINE} --json --page {page}')
    assert output == plain
    assert f"page of the fit written to {page}" in output.stderr
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert len(text) < 3_000_000
    assert 'id="epoch"' in text


def test_the_axes_of_the_page_have_the_units_of_the_columns(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,y,z\ns,mV,\n1,2,1\n2,4.1,1\n3,5.9,2\n")
    page = tmp_path / "p.html"
    assert run_cli(["train", "y ~ a*x", str(tmp_path / "d.csv"), "--units-row", "--page", str(page)]).status == 0
    assert '"units":{"x":"s","y":"mV"}' in page.read_text(encoding="utf-8").replace(": ", ":").replace(", ", ",")


def test_the_text_of_a_model_is_data(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("</script><b>,y\n1,2\n2,4.1\n3,5.9\n")
    page = tmp_path / "learning.html"
    assert run_cli(["train", "y ~ a*`</script><b>`", str(tmp_path / "d.csv"), "--page", str(page)]).status == 0
    assert "</script><b>" not in page.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_diverges_shows_how_far_it_came(tmp_path: Path) -> None:
    page = tmp_path / "learning.html"
    output = run_cli(f'train "y ~ a*x" {SINE} --optimizer sgd --lr 1e3 --epochs 200 --page {page}')
    assert output.status == 1
    assert "error: diverged" in output.stderr
    assert output.stderr.strip().splitlines()[-1] in html.unescape(page.read_text(encoding="utf-8"))


def test_a_page_that_cannot_be_written_is_reported_before_the_fit() -> None:
    output = run_cli(f'train "y ~ a*x" {SINE} --page /nowhere/learning.html')
    assert (output.status, output) == (1, "")
    assert "cannot write /nowhere/learning.html" in output.stderr


def test_a_model_of_too_many_parameters_is_refused() -> None:
    output = run_cli(f'train "y ~ mlp(x, [300, 300], tanh)" {SINE} --page page.html')
    expect_refusal(output, "the limit is 20000")
