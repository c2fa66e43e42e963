"""`autodiff doctor` says which path is in use, and why."""

from __future__ import annotations

import pytest

from autodiff_cli.backends import selection
from tests.support import run_cli


def test_it_reports_the_backend() -> None:
    found = run_cli("doctor --json").json
    assert found["backend"] == "llvm"
    assert "doubles" in found["processor"]
    assert found["threads"] >= 1
    output = run_cli("doctor")
    assert "compiled kernels (llvm)" in output
    assert found["processor"] in output


def test_it_reports_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "has_compiler", lambda: False)
    assert "numpy: llvmlite is not installed" in run_cli("doctor")


def test_it_reports_a_disabled_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    document = run_cli("doctor --json").json
    assert document["cache"] == ""
    assert document["cache_problem"] == "AUTODIFF_CACHE is off"
    assert "cache      off: AUTODIFF_CACHE is off" in run_cli("doctor")


def test_values_are_refused() -> None:
    refused = run_cli("doctor --x 3")
    assert refused.status == 2
    assert "there is no option --x" in refused.stderr
