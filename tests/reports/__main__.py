"""Write the stored reports anew: `python -m tests.reports` runs all commands, or those of the topics that it names.

What a change does to reports is then the difference that `git diff` shows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.reports.commands import FOLDER, TOPICS, read_topic, report, write_data, write_models


def main() -> None:
    """Run the commands of topics, and store what they write."""
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        write_models(Path(folder))
        for topic in sys.argv[1:] or TOPICS:
            reports = [f"$ {command}\n{report(command, Path(folder))}" for command, _ in read_topic(topic)]
            (FOLDER / f"{topic}.txt").write_text("".join(reports), encoding="utf-8")


if __name__ == "__main__":
    main()
