"""A trace that shows itself: as a page in a notebook, as a drawing, as the report of `trace` in a terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli.explain.record import Trace
from autodiff_cli.render.documents import dumps, trace_document
from autodiff_cli.render.drawing.layout import TooLarge
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.reports.steps import trace_report
from autodiff_cli.render.text import counted, on_one_line, shortened

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

HEIGHT = 760  # of the page in a notebook, in pixels
LONGEST = 80  # characters of a formula in a line that names the trace
_ALLOWED = "allow-scripts allow-forms"  # Enter in a form is for the page's script: its policy lets no form be sent


@dataclass(frozen=True, eq=False, repr=False)
class ShownTrace:
    """A `Trace` with the protocols by which notebooks and terminals display what an expression gives.

    It has all that the trace has (`value`, `gradient`, `labels`, …).
    """

    trace: Trace

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of protocols that it does not have
            raise AttributeError(name)
        return getattr(self.trace, name)

    def to_json(self) -> str:
        """The document that `autodiff trace --json` writes, numbers in full."""
        return dumps(trace_document(self.trace)).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """The document that `autodiff trace --json` writes, as dicts, lists, numbers and texts."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def __str__(self) -> str:
        """Both passes in words, as `autodiff trace` prints them."""
        return self._report(Paper)

    def _brief(self) -> str:
        return self._report(NotebookPaper)

    def _report(self, kind: type[Paper]) -> str:
        buffer = io.StringIO()
        trace_report(self.trace, None).write(kind(buffer))
        return buffer.getvalue().rstrip("\n")

    def __rich__(self) -> TerminalReport:
        return TerminalReport(self.trace)

    def _repr_html_(self) -> str | None:
        """The page in a frame of its own, where its script reaches nothing else; None for too large a graph."""
        from autodiff_cli.render.page.html import to_html

        try:
            page = to_html(self.trace)
        except TooLarge:
            return None
        return (
            f'<iframe srcdoc="{escape(page)}" sandbox="{_ALLOWED}" title="{escape(self._title())}" '
            f'width="100%" height="{HEIGHT}" style="border: 0"></iframe>'
        )

    def _repr_svg_(self) -> str | None:
        """The graph as an image; None for too large a graph."""
        from autodiff_cli.render.drawing.diagrams import drawing
        from autodiff_cli.render.drawing.svg import to_svg

        try:
            return to_svg(drawing(self.trace), shows(None)[1])
        except TooLarge:
            return None

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """The trace in every form that there is of it, by media type.

        Args:
            include: give only these; all by default.
            exclude: of those, leave these out.
        """
        makers = {"text/plain": self._brief, "text/html": self._repr_html_, "image/svg+xml": self._repr_svg_}
        made = {
            kind: make()
            for kind, make in makers.items()
            if (include is None or kind in include) and kind not in (exclude or ())
        }
        return {kind: form for kind, form in made.items() if form is not None}

    def _title(self) -> str:
        show = shows(None)[1]
        place = ", ".join(f"{name} = {show(value)}" for name, value in self.trace.point.items())
        formula = shortened(on_one_line(self.trace.expression.text), LONGEST)
        return on_one_line(f"trace of {formula}{' at ' if place else ''}{shortened(place, LONGEST)}")


class NotebookPaper(Paper):
    """Plain lines, no more than a notebook should store."""

    most = 60
    longest = 300

    def left_out(self, count: int, thing: str) -> None:
        """Say how many things are not shown, and how to see them."""
        if count:
            self.line(f"  … {counted(count, thing)} left out; `print` shows all")


class TerminalReport(NamedTuple):
    """What Rich prints of a trace: the report of `autodiff trace`, as wide as the terminal."""

    trace: Trace

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Text]:
        from rich.text import Text

        from autodiff_cli.render.terminal import TerminalPaper

        buffer = io.StringIO()
        paper = TerminalPaper(buffer, options.max_width, colour=console.color_system is not None)
        trace_report(self.trace, None).write(paper)
        yield Text.from_ansi(buffer.getvalue().rstrip("\n"))
