"""What a command has found, for people and for machines. Which of the two it is written for, its caller decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from autodiff_cli.render.paper import Paper


class Report(NamedTuple):
    """How to write what was found on paper, and what its JSON documents are.

    Attributes:
        documents: nearly always one; many points have one each.
        is_data: whether what is written on paper is a file format (CSV, SVG), which is the same on every paper: it
            is written as it is.

    >>> import sys
    >>> found = Report(lambda paper: paper.line("value = 6"), lambda: [{"value": 6.0}])
    >>> found.write(Paper(sys.stdout))
    value = 6
    >>> [*found.documents()]
    [{'value': 6.0}]
    """

    write: Callable[[Paper], None]
    documents: Callable[[], Iterable[Mapping[str, Any]]]
    is_data: bool = False


def joined(*reports: Report, gap: bool = False) -> Report:
    """Several reports of one document each as one: written one after the other, their documents merged.

    Args:
        gap: whether to leave a line between them.
    """

    def write(paper: Paper) -> None:
        for count, report in enumerate(reports):
            if gap and count:
                paper.line()
            report.write(paper)

    def document() -> dict[str, Any]:
        return {name: value for report in reports for part in report.documents() for name, value in part.items()}

    return Report(write, lambda: [document()])
