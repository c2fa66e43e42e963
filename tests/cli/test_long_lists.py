"""A message names a few of many columns or variables, never all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_cli

NAMES = [f"column_number_{k}" for k in range(2000)]


@pytest.mark.parametrize(
    "line",
    [
        "train 'y ~ a*column_number_1' {}",
        "train 'column_number_1 ~ a' {}",
        "train 'column_number_1 ~ a*column_number_2' {} --weights w",
        "grad x*y --at {}",
        f"grad '{' + '.join(NAMES)}' --column_number_1 2",
    ],
)
def test_many_names_are_named_in_brief(line: str, tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(NAMES) + "\n" + ",".join("1" for _ in NAMES) + "\n")
    output = run_cli(line.format(wide))
    assert output.status == 2
    assert "… " in output.stderr
    assert " in all)" in output.stderr
    assert len(output.stderr) < 800


@pytest.mark.slow
def test_a_model_may_be_longer_than_the_name_of_a_file(tmp_path: Path) -> None:
    """A word is a model or a file, and the longest name of a file has 255 characters, the longest path 4,096."""
    data = tmp_path / "line.csv"
    data.write_text("x,y\n0,1\n1,3\n2,5\n")
    for terms in (100, 700):
        model = "y ~ a*x + b" + " + 0*x" * terms
        output = run_cli(["train", model, str(data), "--json"])
        assert output.json["parameters"]["a"] == pytest.approx(2), output.stderr
    assert run_cli(["compare", model, "y ~ b", str(data)]).status == 0
