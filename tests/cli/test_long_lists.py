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
