"""Files are read in two ways: small ones cell by cell, large ones by pyarrow."""

from __future__ import annotations

import pytest

from autodiff_cli.data import source


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files are read as small ones are, and as large ones."""
    if request.param == "large":
        monkeypatch.setattr(source, "_SMALL_FILE_BYTES", 0)
    return str(request.param)
