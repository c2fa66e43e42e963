"""Programs that some tests need and the project does not: a browser, validators of drawings.

A test that needs a missing one is skipped and says what to install; with `REQUIRE_TOOLS` set, as in continuous
integration, it fails instead.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def program(name: str, package: str) -> str:
    """The path of an installed program; without it, the test is skipped (see `missing`)."""
    return shutil.which(name) or missing(f"`{name}` is not installed; Debian's package {package} has it")


def mermaid() -> Path:
    """Mermaid's own parser as one script for a page: `dist/mermaid.min.js` of the npm package `mermaid`."""
    place = os.environ.get("MERMAID")
    return Path(place) if place else missing("MERMAID does not name the dist/mermaid.min.js of npm's package mermaid")


def axe() -> Path:
    """Deque's checker of accessibility as one script for a page: `axe.min.js` of the npm package `axe-core`."""
    place = os.environ.get("AXE")
    return Path(place) if place else missing("AXE does not name the axe.min.js of npm's package axe-core")


def missing(what: str) -> NoReturn:
    """Skip the test, or fail it where all tools are required."""
    if os.environ.get("REQUIRE_TOOLS"):
        pytest.fail(what)
    pytest.skip(what)
