"""`autodiff trace`: backpropagation through a formula, step by step, path by path, or drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Assignments, Digits, Expr, Json, Mode, PassMode, Wrt
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.files import FILE_OPTIONS
from autodiff_cli.cli.records import with_records
from autodiff_cli.data.options import FileOptions
from autodiff_cli.language.errors import UnknownNameError, suggest
from autodiff_cli.language.lexer import canonical

if TYPE_CHECKING:
    from autodiff_cli.cli.tracing.rows import RowAsked
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.render.drawing.diagrams import View
    from autodiff_cli.render.paper import Paper
    from autodiff_cli.render.report import Report


class Format(StrEnum):
    """What a trace is written as."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    HTML = "html"
    LATEX = "latex"


_LIMIT = 10  # paths of a variable
_DRAWINGS = (Format.MERMAID, Format.DOT, Format.SVG, Format.HTML)
_ENDINGS = {
    ".json": Format.JSON,
    ".mmd": Format.MERMAID,
    ".mermaid": Format.MERMAID,
    ".dot": Format.DOT,
    ".gv": Format.DOT,
    ".svg": Format.SVG,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".tex": Format.LATEX,
}
_FOREIGN = (".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp", ".eps", ".ps")  # of files that are not text


class Instead(NamedTuple):
    """What to show instead of the steps of reverse mode.

    Attributes:
        paths: the variable whose paths are listed; empty for all, None for none.
        limit: how many paths of each variable.
        wrt: the variables that `--wrt` names; None if it was not given.
    """

    paths: str | None
    limit: int
    tape: bool
    forward: bool
    wrt: str | None

    @property
    def anything(self) -> bool:
        """Whether anything is."""
        return self.paths is not None or self.tape or self.forward


@with_records(FILE_OPTIONS, reading=FileOptions)
def trace(
    context: typer.Context,
    expression: Expr,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA]...", help="With --row: data files, as for `train`.", show_default=False),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(
            "--row",
            min=1,
            metavar="N",
            help="Of the model EXPR, or MODEL.json: the loss of row N of DATA, of those --where keeps.",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option("--loss", metavar="NAME", help="With --row: what a row costs, as for `train`.")
    ] = None,
    *,
    reading: FileOptions,
    assignments: Assignments = None,
    wrt: Wrt = None,
    mode: Mode = PassMode.REVERSE,
    paths: Annotated[
        str | None,
        typer.Option("--paths", metavar="[VAR]", help="Every path from VAR (or each variable) to the output."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="With --paths: how many to list, the largest first.")
    ] = _LIMIT,
    tape: Annotated[
        bool, typer.Option("--tape", help="What each operation keeps for the backward pass, and its memory.")
    ] = False,
    step: Annotated[bool, typer.Option("--step", help="Walk through the steps key by key, in a terminal.")] = False,
    format_: Annotated[
        Format | None,
        typer.Option("--format", show_default=False, help="By default text, or what the ending of -o FILE says."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to a file, replaced as a whole; - is standard output."
        ),
    ] = None,
    highlight: Annotated[
        str | None, typer.Option("--highlight", metavar="VAR", help="In a drawing: make the paths of VAR stand out.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="VAR", help="In a drawing: only what depends on VAR.")
    ] = None,
    hide_constants: Annotated[
        bool, typer.Option("--hide-constants", help="In a drawing: leave out what no variable reaches.")
    ] = False,
    fold: Annotated[
        bool, typer.Option("--fold", help="In a drawing: named intermediates, calls and layers as one node each.")
    ] = False,
    find: Annotated[
        str | None,
        typer.Option("--find", metavar="TEXT", help="In a drawing: only what has TEXT in it, and its neighbours."),
    ] = None,
    exercise: Annotated[
        bool,
        typer.Option("--exercise", help="With --format html: a sheet with blanks and a key, a step to a printed page."),
    ] = False,
    digits: Digits = None,
    json: Json = False,
) -> Answer:
    """Both passes of backpropagation, step by step.

    First each operation with its numbers filled in, from the inputs to the output; then, from the output back, what
    each node hands to each of its inputs: local derivative × adjoint = amount, and the running total. Other views of
    the same: every path, forward mode, the tape, a drawing, a page to play both passes in.

    \b
    Examples:
      autodiff trace "x*y + sin(x)" --x 2 --y 3
      autodiff trace "h = relu(w*x + b); (h - t)^2" --w 3 --x 2 --b 1 --t 5
      autodiff trace "x*y + sin(x)" --x 2 --y 3 --step
      autodiff trace "x*y + sin(x)" --x 2 --y 3 --paths x
      autodiff trace "x*y + sin(x)" --x 2 --y 3 --mode forward --wrt x
      autodiff trace "x*y + sin(x)" --x 2 --y 3 --tape
      autodiff trace "x*y + sin(x)" --x 2 --y 3 -o graph.svg --highlight x
      autodiff trace "f(t) = t*sin(t); f(x)*f(y)" --x 2 --y 3 -o graph.svg --fold
      autodiff trace "x*y + sin(x)" --x 2 --y 3 -o page.html
      autodiff trace "x*y + sin(x)" --x 2 --y 3 -o solution.tex
      autodiff trace "x*y + sin(x)" --x 2 --y 3 --mode forward -o page.html
      autodiff trace "x*y + sin(x)" --x 2 --y 3 -o sheet.html --exercise
      autodiff trace "tanh(a*b)" --a 2 --b 3 --json
      autodiff trace "y ~ a*exp(-b*x)" decay.csv --row 3 --a 2 --b 1
      autodiff trace MODEL.json "2024-*.csv" --row 3 --where "t > 0"
    """
    from autodiff_cli.cli import inputs, options
    from autodiff_cli.cli.tracing import rows

    environment = Call.of(context).environment
    output = None if output == "-" else output
    highlight, only = (name and canonical(name) for name in (highlight, only))
    if paths is None and limit != _LIMIT:
        raise BadInput("--limit says how many of the --paths to list: add --paths")
    asked = Instead(paths, limit, tape, mode is PassMode.FORWARD, wrt)
    form = _form(format_, json, output)
    if form in _DRAWINGS and asked._replace(forward=asked.forward and form is not Format.HTML).anything:
        forward = "and --mode forward go with text, json and html" if asked.forward else "go with text and json"
        raise BadInput(f"--format {form} draws the graph; --paths, --tape {forward}")
    if form is Format.LATEX and asked.anything:
        raise BadInput("--format latex is of reverse mode; --paths, --tape and --mode forward go with text and json")
    if form not in _DRAWINGS and ((highlight, only, find) != (None, None, None) or hide_constants or fold):
        options_ = "--highlight, --only, --hide-constants, --fold and --find"
        raise BadInput(f"{options_} are for drawings; add --format, one of {', '.join(_DRAWINGS)}")
    if exercise and (form is not Format.HTML or asked.forward):
        raise BadInput("--exercise is a sheet on reverse mode, in HTML: -o sheet.html, or --format html")
    if step and (asked.anything or json or format_ is not None or output is not None):
        raise BadInput("--step cannot be combined with --paths, --tape, --mode forward, --format, --json or -o")
    given = options.assignments(Call.of(context).values, assignments or ())
    inputs.refuse_many(given, "trace")
    asked_row = rows.RowAsked(data or [], row, loss, reading)
    traced = _traced(context, expression, asked_row, given, wrt)
    if step and _walked(environment, traced, digits, expression):
        return Answer(None, json)
    if form is Format.LATEX:
        return Answer(_worked(traced, digits), json, output=output)
    if form not in _DRAWINGS:
        return Answer(_report(traced, asked, digits), form is Format.JSON, output=output)
    for option, name in (("--highlight", highlight), ("--only", only)):
        _known(option, name, traced.expression.leaves)
    from autodiff_cli.render.drawing.diagrams import View

    seed = _seed(traced) if asked.forward else None
    drawn = _drawn(form, traced, View(highlight, only, hide_constants, fold, find), digits, seed, exercise)
    return Answer(drawn, json, output=output)


def _traced(context: typer.Context, expression: str, of: RowAsked, given: dict[str, str], wrt: str | None) -> Trace:
    """The trace of an expression, or of the loss of a row of data."""
    from autodiff_cli.cli import inputs
    from autodiff_cli.cli.tracing import rows

    if of.is_one:
        return rows.traced_row(context, expression, of, given, wrt)
    formula = inputs.formula(context, inputs.text_of(expression, Call.of(context).environment), given)
    return inputs.traced(context, formula, given, inputs.chosen(formula, wrt))


def _walked(environment: Environment, traced: Trace, digits: int | None, expression: str) -> bool:
    """Walk through the trace; False where there is no terminal for it."""
    from autodiff_cli.cli.tracing import step

    return step.walked(environment, traced, digits, is_input_read=expression == "-")


def _form(named: Format | None, json: bool, output: str | None) -> Format:
    """What to write: what `--format` or `--json` says, else the ending of the file, else text."""
    if json and named not in (None, Format.JSON):
        raise BadInput(f"--json and --format {named} exclude each other")
    if json or named is not None:
        return named or Format.JSON
    ending = PurePath(output or "").suffix.lower()
    if ending in _FOREIGN:
        raise BadInput(f"-o {output}: trace does not write {ending}; it knows {', '.join(_ENDINGS)}")
    return _ENDINGS.get(ending, Format.TEXT)


def _known(option: str, name: str | None, names: Collection[str]) -> None:
    """Raise UnknownNameError for a variable that an option names and the expression lacks."""
    if name is not None and name not in names:
        raise UnknownNameError(
            f"{option} {name}: the expression has no variable `{name}`", suggestion=suggest(name, names)
        )


def _report(traced: Trace, asked: Instead, digits: int | None) -> Report:
    """The steps, or what was asked for instead; as JSON both."""
    from autodiff_cli.render.report import joined
    from autodiff_cli.render.reports.steps import trace_report

    steps, parts = trace_report(traced, digits), [*_parts(traced, asked, digits)]
    return joined(steps, *parts)._replace(write=joined(*parts, gap=True).write) if parts else steps


def _parts(traced: Trace, asked: Instead, digits: int | None) -> Iterator[Report]:
    """What was asked for instead of the steps, in the order in which it is shown."""
    if asked.forward:
        yield _forward_mode(traced, asked, digits)
    if asked.paths is not None:
        yield _paths(traced, asked, digits)
    if asked.tape:
        from autodiff_cli.explain.views.tape_record import tape_record
        from autodiff_cli.render.reports.tape import tape_report

        yield tape_report(tape_record(traced), digits)


def _paths(traced: Trace, asked: Instead, digits: int | None) -> Report:
    from autodiff_cli.explain.views.paths import Network
    from autodiff_cli.render.reports.paths import paths_report

    name = canonical(asked.paths or "")
    if name:
        _known("--paths", name, traced.expression.leaves)
        if name not in traced.wrt:
            raise BadInput(f"--paths {name}: --wrt leaves `{name}` out")
    network = Network(traced)
    found = [network.from_variable(name, asked.limit) for name in ([name] if name else traced.wrt)]
    return paths_report(traced, found, digits)


def _seed(traced: Trace) -> str:
    """The variable that moves in forward mode: the first. Raises BadInput where there is none."""
    if not traced.wrt:
        raise BadInput("--mode forward needs a variable, and the expression has none")
    return traced.wrt[0]


def _forward_mode(traced: Trace, asked: Instead, digits: int | None) -> Report:
    """One variable as text, unless `--wrt` names several; all in JSON. The work is compared for all variables."""
    from autodiff_cli.explain.tracing import trace as trace_towards
    from autodiff_cli.explain.views.forward_mode import forward_mode
    from autodiff_cli.render.reports.forward_mode import forward_mode_report

    _seed(traced)
    everything = trace_towards(traced.expression, traced.point)
    shown = traced.wrt if asked.wrt is not None else traced.wrt[:1]
    return forward_mode_report(lambda name: forward_mode(everything, name), traced.wrt, shown, digits)


def _worked(traced: Trace, digits: int | None) -> Report:
    """The worked solution, as LaTeX."""
    from autodiff_cli.render.documents import trace_document
    from autodiff_cli.render.report import Report
    from autodiff_cli.render.solution.worked import worked_solution

    text = worked_solution(traced, digits)
    return Report(lambda paper: _write(paper, text), lambda: [trace_document(traced)], is_data=True)


def _write(paper: Paper, text: str) -> None:
    paper.stream.write(text)


def _drawn(form: Format, traced: Trace, view: View, digits: int | None, seed: str | None, exercise: bool) -> Report:
    """The drawing as a file format, a page in forward mode if there is a variable `seed`, or an exercise. Raises
    BadInput where there is nothing to draw, or too much."""
    from autodiff_cli.render.documents import trace_document
    from autodiff_cli.render.drawing import diagrams, layout, svg
    from autodiff_cli.render.lessons.exercise import exercise_sheet
    from autodiff_cli.render.numbers import shows
    from autodiff_cli.render.page import html
    from autodiff_cli.render.report import Report

    drawn, show = diagrams.drawing(traced, view), shows(digits)[1]
    if not drawn.boxes:
        raise _nothing_to_draw(traced, view)
    writers = {
        Format.MERMAID: lambda: diagrams.to_mermaid(drawn, show),
        Format.DOT: lambda: diagrams.to_dot(drawn, show),
        Format.SVG: lambda: svg.to_svg(drawn, show),
        Format.HTML: lambda: (
            exercise_sheet(traced, view, digits) if exercise else html.to_html(traced, view, digits, seed)
        ),
    }
    try:
        text = writers[form]()
    except layout.TooLarge as error:
        less = "--fold, --only VAR, --find TEXT and --hide-constants draw less"
        raise BadInput(f"{error}; {less}, --format dot draws any size") from error
    return Report(lambda paper: _write(paper, text), lambda: [trace_document(traced)], is_data=True)


def _nothing_to_draw(traced: Trace, view: View) -> BadInput:
    """Why a drawing is empty."""
    from autodiff_cli.render.drawing import diagrams

    searched = diagrams.drawing(traced, view._replace(find=None))
    if not searched.boxes:
        return BadInput(f"--only {view.only}: the output does not depend on `{view.only}`, so there is nothing to draw")
    text = view.find or ""
    close = suggest(text, diagrams.searchable(searched))
    hint = f"; did you mean `{close}`?" if close else ""
    return BadInput(f"--find {text}: no operation and no part of the formula has `{text}` in it{hint}")
