"""Dates and times are counted from the same time in a fit and in its predictions, or refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import autodiff_cli as ad
from tests.support import run_cli

DAYS = "day,y\n2024-01-01,1\n2024-01-02,3\n2024-01-03,5\n2024-01-04,7\n"
AT_DAY_3 = pytest.approx(5, rel=1e-9)


def prediction(*arguments: str) -> float:
    """Return the prediction of the first row of `autodiff predict`."""
    return float(run_cli(["predict", *arguments]).splitlines()[1].rpartition(",")[2])


@pytest.mark.parametrize("is_saved_in_python", [True, False])
def test_predictions_count_dates_as_the_fit_does(is_saved_in_python: bool, tmp_path: Path) -> None:
    data, model, new = (str(tmp_path / name) for name in ("days.csv", "days.json", "new.csv"))
    Path(data).write_text(DAYS)
    Path(new).write_text("day\n2024-01-03\n")
    if is_saved_in_python:
        ad.fit("y ~ a + b*day", data).save(model)
    else:
        run_cli(["train", "y ~ a + b*day", data, "--save", model])
    assert prediction(model, new) == AT_DAY_3
    assert prediction(model, "--day", "2024-01-03") == AT_DAY_3


def test_fits_of_groups_and_comparisons_know_the_origin_too(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text(DAYS)
    fits = [group.fit for group in ad.fit_by("y ~ a*day", str(path), "y")]
    fits += [one.fit for one in ad.compare(["y ~ a + b*day", "y ~ a*day"], str(path), folds=0).models]
    assert [fit.origins["day"] for fit in fits if fit is not None] == [datetime(2024, 1, 1)] * len(fits)


@pytest.mark.parametrize("first", ["2024-01-01", "12:30", "2024-01-01T00:00Z"])
@pytest.mark.parametrize("other", ["2024-01-02", "13:30:10", "2024-01-02 10:00+01:00"])
def test_dates_times_of_day_and_times_with_a_zone_are_not_mixed(first: str, other: str, tmp_path: Path) -> None:
    def kind(cell: str) -> tuple[bool, bool]:
        return "-" in cell, "Z" in cell or "+" in cell

    path = tmp_path / "times.csv"
    path.write_text(f"t,y\n{first},1\n{other},2\n{first},3\n")
    if kind(first) == kind(other):
        assert ad.fit("y ~ a + b*t", str(path)).rows == 3
    else:
        with pytest.raises(ad.DataError, match="is not a date or a time like the first one"):
            ad.fit("y ~ a + b*t", str(path))


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")])
def test_columns_of_another_type_of_time_are_refused_by_predictions(kind: pa.DataType, tmp_path: Path) -> None:
    data, model, new = (str(tmp_path / name) for name in ("days.csv", "days.json", "new.parquet"))
    Path(data).write_text(DAYS)
    ad.fit("y ~ a + b*day", data).save(model)
    microseconds = 0 if pa.types.is_time(kind) else 1_704_240_000_000_000  # 2024-01-03
    pyarrow.parquet.write_table(pa.table({"day": pa.array([microseconds], kind)}), new)
    if kind == pa.timestamp("us"):
        assert prediction(model, new) == AT_DAY_3
    else:
        result = run_cli(["predict", model, new])
        assert result.status == 2
        assert "cannot be counted from 2024-01-01 00:00:00" in result.stderr


def test_plots_of_times_of_day_name_no_date(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("t,y\n12:30,1\n12:40,2\n12:55,3.1\n13:20,4\n14:00,7\n")
    shown = run_cli(["train", "y ~ a + b*t", str(path), "--plot"])
    assert "y over t, o: 5 rows" in shown
    assert ", from " not in shown
