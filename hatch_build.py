"""Wheels get the manual page, `share/man/man1/autodiff.1`, made of the commands' own help."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface[Any]):
    """Writes the page before a wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's words
        """Add the page to what the wheel brings along."""
        sys.path.insert(0, self.root)
        from docs.manual_page import manual

        page = Path(tempfile.mkdtemp()) / "autodiff.1"
        page.write_text(manual(), encoding="ascii")
        build_data["shared_data"][str(page)] = "share/man/man1/autodiff.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Clear away what was written."""
        for page in map(Path, build_data["shared_data"]):
            page.unlink()
            page.parent.rmdir()
