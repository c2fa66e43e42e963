"""`autodiff trace`: backpropagation through a formula, step by step, path by path, or drawn.

With `--row`, the formula is the loss of a model at one row of data. With `--step`, the steps are shown one by one in a
terminal.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autodiff_cli import options
from autodiff_cli.cli import command_line as cli
from autodiff_cli.cli import inputs
from autodiff_cli.cli.environment import BadInput, Environment, Output, hint_about_missing_cells, open_data_files
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.language.lexer import canonical_name, is_signed_number
from autodiff_cli.render.formatting import LOOKALIKE_ERRORS, number_formats

if TYPE_CHECKING:
    from autodiff_cli.cli.terminal import Terminal
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.render.drawing import Drawing, View
    from autodiff_cli.render.report import Report
    from autodiff_cli.render.step_view import StepView


Losses: TypeAlias = Mapping[str, Any]  # the values of the options that choose a loss
Draw: TypeAlias = "Callable[..., str]"  # takes a trace, the view, the number of digits, and options of the page


def _drawing(write: str) -> Draw:
    """Return the function that writes drawings by a function of `render.drawing`."""

    def draw(trace: Trace, view: View, digits: int | None, seed: str | None = None, **_: Any) -> str:
        from autodiff_cli.render import drawing

        selected = _build_drawing(trace, view._replace(seed=seed))
        text: str = getattr(drawing, write)(selected, number_formats(digits)[1])
        return text

    return draw


def _page(trace: Trace, view: View, digits: int | None, seed: str | None, exercise: bool) -> str:
    """Return the page of a trace, or its exercise sheet; `seed` is the variable of forward mode."""
    from autodiff_cli.render.html_page import to_html
    from autodiff_cli.render.lesson import exercise_sheet

    _build_drawing(trace, view)
    return exercise_sheet(trace, view, digits) if exercise else to_html(trace, view, digits, seed)


def _worked_solution(trace: Trace, view: View, digits: int | None, **_: Any) -> str:  # noqa: ARG001 - it shows all
    from autodiff_cli.render.solution import worked_solution

    return worked_solution(trace, digits)


class Format(NamedTuple):
    """A format of a trace.

    Attributes:
        suffixes: the suffixes of its files.
        views: the options of views that it can show.
        draw: returns a trace in this format; None for reports.
    """

    suffixes: tuple[str, ...]
    views: tuple[str, ...] = ()
    draw: Draw | None = None


_VIEWS = ("paths", "tape", "mode")

FORMATS = {
    "text": Format((".txt",), _VIEWS),
    "json": Format((".json",), _VIEWS),
    "mermaid": Format((".mmd", ".mermaid"), ("mode",), _drawing("to_mermaid")),
    "dot": Format((".dot", ".gv"), ("mode",), _drawing("to_dot")),
    "svg": Format((".svg",), ("mode",), _drawing("to_svg")),
    "html": Format((".html", ".htm"), ("mode",), draw=_page),
    "latex": Format((".tex",), draw=_worked_solution),
}
FormatName = StrEnum("FormatName", [(name.upper(), name) for name in FORMATS])  # type: ignore[misc]

_DRAWINGS = [name for name in FORMATS if name not in ("text", "json", "latex")]
_DEFAULT_LIMIT = 10  # paths listed per variable

# The options that need others, or a format of the output; `format name` stands for the format that was found.
_RESTRICTIONS = (
    options.Restriction(
        "limit",
        lambda explicit: explicit.keys().isdisjoint(("paths", cli.UNCERTAIN)),
        "--limit needs --paths: add --paths",
    ),
    options.Restriction(
        cli.UNCERTAIN,
        lambda explicit: explicit["format name"] not in ("text", "json"),
        "--format {format name} shows no "
        f"{cli.UNCERTAIN.removeprefix('an ')}: leave the errors out, or use text or json",
    ),
    *cli.UNCERTAINTY_RESTRICTIONS,
    *options.all_need(
        ("loss", "family", *options.option_fields(FileOptions)), "row", "a row of data: add DATA and --row N"
    ),
    options.needs(
        "row", "data", "--row {row} needs a data file after the model: autodiff trace MODEL DATA --row {row}"
    ),
    *(
        options.Restriction(
            view,
            lambda explicit, view=view: view not in FORMATS[explicit["format name"]].views,  # type: ignore[misc]
            f"--format {{format name}} cannot show --{view}; use "
            + ", ".join(name for name, form in FORMATS.items() if view in form.views),
        )
        for view in _VIEWS
    ),
    *(
        options.Restriction(
            name,
            lambda explicit: explicit["format name"] not in _DRAWINGS,
            f"{options.command_words(name)} needs a drawing; add --format, one of {', '.join(_DRAWINGS)}",
        )
        for name in ("highlight", "only", "hide_constants", "fold")
    ),
    options.Restriction(
        "exercise",
        lambda explicit: explicit["format name"] != "html" or "mode" in explicit,
        "--exercise writes HTML in reverse mode: use -o sheet.html or --format html",
    ),
    *options.exclusive("row", ("implicit",)),
    *options.exclusive("step", ("paths", "tape", "mode", "format_", "json", "output")),
)


view_option, drawing_option = partial(options.option, group="Views"), partial(options.option, group="Drawings")


@dataclass(frozen=True)
class ViewRequest(options.CheckedOptions):
    """The views of a trace that replace the steps of reverse mode."""

    mode: cli.PassMode = cli.mode_option(group="Views")
    paths: str | None = view_option("--paths [VAR]", "List the paths from VAR (default: every variable) to the output.")
    limit: int = view_option(
        "--limit N", "List at most N paths per variable.", options.at_least(0), default=_DEFAULT_LIMIT
    )
    tape: bool = view_option("--tape", "Show what each operation stores for the backward pass.")


_ROW_HELP = "Trace the loss of model EXPR (or MODEL.json) at row N of DATA, counted after --where."


@cli.command(views=ViewRequest, uncertainty=cli.UncertaintyRequest, reading=FileOptions)
def trace(
    call: cli.Call,
    expression: str = cli.EXPR,
    data: list[str] | None = options.option("[DATA]...", "Data files for --row, as for `train`."),
    row: int | None = view_option("--row N", _ROW_HELP, options.at_least(1)),
    loss: str | None = view_option("--loss NAME", "Loss function for --row, as for `train`."),
    family: str | None = view_option("--family NAME", "Distribution of the target for --row, as for `train`."),
    *,
    views: ViewRequest,
    uncertainty: cli.UncertaintyRequest,
    reading: FileOptions,
    explicit: Mapping[str, Any],
    wrt: str | None = cli.WRT,
    implicit: bool = cli.IMPLICIT,
    step: bool = view_option("--step", "Step through both passes with the keyboard, in a terminal."),
    format_: FormatName | None = options.option(
        "--format", "Output format (default: by the suffix of -o FILE, else text).", group="Output", default=None
    ),
    output: str | None = cli.OUTPUT_FILE,
    highlight: str | None = drawing_option("--highlight VAR", "Highlight the paths of VAR."),
    only: str | None = drawing_option("--only VAR", "Draw only nodes that depend on VAR."),
    hide_constants: bool = drawing_option("--hide-constants", "Do not draw nodes that depend on no variable."),
    fold: bool = drawing_option("--fold", "Draw named intermediates, calls and layers as one node each."),
    exercise: bool = cli.output_option("--exercise", "Write an exercise sheet with blanks and an answer key (HTML)."),
) -> Output:
    """Show backpropagation step by step.

    The forward pass shows each operation with its numbers, from the inputs to the output. The backward pass goes from
    the output back to the inputs. It shows what each node contributes to its inputs: local derivative × adjoint =
    amount, and the running total. Other views show every path, forward mode, the tape, a drawing, or an interactive
    page. For uncertain values such as 2+-0.1, the variance of the result is listed by path.

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
      autodiff trace "x*y + sin(x)" --x 2+-0.1 --y 3.0(2)
      autodiff trace "tanh(a*b)" --a 2 --b 3 --json
      autodiff trace "y ~ a*exp(-b*x)" decay.csv --row 3 --a 2 --b 1
      autodiff trace MODEL.json "2024-*.csv" --row 3 --where "t > 0"
    """
    environment = call.environment
    highlight, only = (name and canonical_name(name) for name in (highlight, only))
    format_name = _select_format(format_, environment.json, output)
    if data and row is None:
        hint = 'put an expression in quotes, such as autodiff trace "x*y"; '
        hint = "a number is the value of a variable, as in --x 3; " if is_signed_number(data[0]) else hint
        rows = "to trace the loss at a row of a data file, add --row N"
        raise BadInput(f"unexpected argument `{data[0]}`; {hint}{rows}")
    value_texts, errors = inputs.split_uncertainties(call.values, uncertainty.sigma or ())
    call = call._replace(values=value_texts)
    uncertain = {cli.UNCERTAIN: cli.UNCERTAIN} if errors else {}
    options.check_restrictions(_RESTRICTIONS, {**explicit, **uncertain, "format name": format_name})
    if row is not None:
        expression, *data = cli.model_first([expression, *(data or [])])
        trace_record = trace_row(call, expression, data, row, {"loss": loss, "family": family}, reading, wrt)
    else:
        formula = inputs.read_formula(call, expression, implicit)
        trace_record = inputs.trace_at(call, formula, inputs.select_variables(formula, wrt))
    from autodiff_cli.render.report import combine_reports, text_report

    warning = ""
    reports: list[Report] = []
    if errors:
        warning, reports = _uncertainty_reports(trace_record, errors, uncertainty, views.limit)
    warned = trace_record.with_warning("nonlinear", warning)
    if step and step_through(environment, warned, is_input_read=expression == "-"):
        return Output(combine_reports(*reports, gap=True) if reports else None)
    draw = FORMATS[format_name].draw
    is_forward = views.mode is cli.PassMode.FORWARD
    if views.paths is not None or (is_forward and format_name != "html"):
        trace_record = inputs.trace_of_elements(trace_record, environment)
    if draw is None:
        report = combine_reports(_report(trace_record.with_warning("nonlinear", warning), views, wrt), *reports)
        return Output(report, path=output, json=format_name == "json")
    for flag, name in (("--highlight", highlight), ("--only", only)):
        if name is not None:
            inputs.check_variable(f"{flag} {name}", name, trace_record.expression.leaves)
    from autodiff_cli.render.drawing import View
    from autodiff_cli.render.layout import GraphTooLargeError

    seed = _seed_variable(trace_record) if is_forward else None
    view = View(highlight, only, hide_constants, fold)
    try:
        text = draw(trace_record, view, environment.digits, seed=seed, exercise=exercise)
    except GraphTooLargeError as error:
        hint = "reduce the drawing with --fold, --only VAR or --hide-constants"
        raise BadInput(f"{error}; {hint}, or use --format dot, which has no limit") from error
    return Output(text_report(text), path=output)


def _select_format(requested: FormatName | None, json: bool, output: str | None) -> str:
    """Return the output format, given by `--format`, by `--json` or by the suffix of the file; text by default."""
    if json and requested not in (None, "json"):
        raise BadInput(f"--json cannot be combined with --format {requested}")
    if json or requested is not None:
        return requested or "json"
    formats = {ending: name for name, form in FORMATS.items() for ending in form.suffixes} | {"": "text"}
    options.suffix(*formats, hint="; --format chooses a format for other names").require("-o", output or "")
    return formats[PurePath(output or "").suffix.lower()]


def _report(trace: Trace, views: ViewRequest, wrt: str | None) -> Report:
    """Return the report: the requested views, else the steps; as JSON both."""
    from autodiff_cli.render.report import combine_reports
    from autodiff_cli.render.trace import forward_mode_report, paths_report, tape_report, trace_report

    steps = trace_report(trace)
    if views == ViewRequest():
        return steps
    from autodiff_cli.explain.tracing import trace as trace_formula
    from autodiff_cli.explain.views import ForwardMode, PathNetwork, TapeRecord

    reports = []
    if views.mode is cli.PassMode.FORWARD:
        _seed_variable(trace)
        # The text has the first variable, or the variables of `--wrt`; the passes compute with all variables.
        full_trace = replace(trace_formula(trace.expression, trace.point), warnings=trace.warnings)
        shown = trace.wrt if wrt is not None else trace.wrt[:1]
        reports.append(forward_mode_report(lambda name: ForwardMode(full_trace, name), trace.wrt, shown))
    if views.paths is not None:
        name = canonical_name(views.paths)
        elements = [leaf for leaf in trace.expression.leaves if leaf.startswith(f"{name}[")]
        if name and not elements:
            inputs.check_variable(f"--paths {name}", name, trace.expression.leaves)
        names = (elements or [name]) if name else trace.wrt
        if not set(names) <= {*trace.wrt}:
            raise BadInput(f"--paths {name}: `{name}` is not in --wrt")
        network = PathNetwork(trace)
        reports.append(paths_report(trace, [network.from_variable(each, views.limit) for each in names]))
    if views.tape:
        reports.append(tape_report(TapeRecord(trace)))
    return combine_reports(steps, *reports)._replace(write=combine_reports(*reports, gap=True).write)


def _uncertainty_reports(
    trace: Trace, errors: Mapping[str, str], request: cli.UncertaintyRequest, limit: int
) -> tuple[str, list[Report]]:
    """Return a warning if the first-order uncertainty is misleading, and the reports of the uncertainty and its
    paths.
    """
    from autodiff_cli.cli.gradients import propagated_uncertainty
    from autodiff_cli.explain.tracing import elementwise_trace
    from autodiff_cli.explain.views import variance_sources
    from autodiff_cli.render.gradient import uncertainty_report
    from autodiff_cli.render.trace import variance_report

    result, record = propagated_uncertainty(trace.expression, trace.point, errors, request)
    reports = [uncertainty_report({"": result})]
    elements = record if record.is_scalar else elementwise_trace(record)
    if elements is not None:
        sources = variance_sources(elements, result, limit)
        reports.append(variance_report(elements, sources, result, elements is record))
    return result.warning, reports


def _seed_variable(trace: Trace) -> str:
    """Return the variable that forward mode differentiates with respect to: the first one.

    Raises:
        BadInput: if there is no variable.
    """
    if not trace.wrt:
        raise BadInput("--mode forward needs a variable, and the expression has none")
    return trace.wrt[0]


def _build_drawing(trace: Trace, view: View) -> Drawing:
    """Return a part of the graph. Raises BadInput if the view selects nothing."""
    from autodiff_cli.render import drawing

    selected = drawing.build_drawing(trace, view)
    if not selected.boxes:
        raise BadInput(f"--only {view.only}: the output does not depend on `{view.only}`, so there is nothing to draw")
    return selected


def trace_row(
    call: cli.Call, model: str, data: list[str], number: int, losses: Losses, reading: FileOptions, wrt: str | None
) -> Trace:
    """Return the trace of the loss at one row of data.

    Args:
        call: the inputs of the command, with the values of parameters.
        model: a model, or the name of a file that `train --save` wrote.
        data: the names of the files.
        number: the number of the row, from 1, among the rows that `--where` selects.
        losses: the options of `train` that choose the loss function, and their values.
        reading: how to parse the files.
        wrt: the list of `--wrt`; None for the free parameters.

    Raises:
        BadInput: for options, files or rows that cannot be used.
        ExpressionError: for a model that cannot be read.
    """
    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.training.fitting.row_loss import trace_fit_row, trace_model_row
    from autodiff_cli.training.options import FitOptions
    from autodiff_cli.training.result.fitted_model import load

    environment = call.environment
    with hint_about_missing_cells("choose a row without missing cells"):
        values = inputs.constant_values(call.values)
        is_fitted = model.endswith(inputs.MODEL_SUFFIX)
        for name, text in losses.items():
            if is_fitted and text is not None:
                raise BadInput(f"--{name} {text}: {model} already has the loss of its fit")
        fit = load(model) if is_fitted else None
        file = open_data_files(data, environment, reading, fit.column_origins if fit else {})
        if fit:
            row = trace_fit_row(fit, file, number, values)
        else:
            row = trace_model_row(inputs.read_text(model, environment), file, number, values, FitOptions(**losses))
    environment.note(*(f"note: {note}" for note in (*row.formula.notes, *file.notes, *row.notes)))
    inputs.check_all_have_values(call, row.formula, row.point)
    names = row.free_parameters if wrt is None else inputs.select_variables(row.formula, wrt)
    return trace(row.formula, row.point, names)


def step_through(environment: Environment, trace: Trace, is_input_read: bool) -> bool:
    """Step through a trace with the keyboard until the user quits.

    Args:
        environment: the streams.
        trace: the trace.
        is_input_read: whether the expression came from standard input, which then cannot provide keys.

    Returns:
        False if there is no suitable terminal; a note explains why.
    """
    with _keyboard(environment, is_input_read) as source:
        if importlib.util.find_spec("termios") is None:
            reason = "this system has no termios"
        elif not environment.terminal:
            reason = "standard output is not a terminal, or is a dumb one"
        elif source is None:
            reason = "standard input is not a terminal"
        else:
            from autodiff_cli.cli.terminal import Terminal
            from autodiff_cli.render.step_view import StepView

            view = StepView(trace, environment.digits, environment.stdout.encoding)
            environment.stdout.flush()
            with Terminal(source, environment.stdout.fileno()) as terminal:
                _run(view, terminal, environment)
            return True
    environment.note(f"note: --step needs a terminal, but {reason}; all steps are printed instead")
    return False


@contextlib.contextmanager
def _keyboard(environment: Environment, is_input_read: bool) -> Iterator[int | None]:
    """Yield the file descriptor to read keys from, or None.

    It is standard input, or the controlling terminal if the expression was read from standard input.
    """
    if environment.stdin.isatty():
        yield environment.stdin.fileno()
        return
    with contextlib.ExitStack() as stack:
        source = None
        with contextlib.suppress(OSError):
            source = stack.enter_context(open("/dev/tty", "rb", buffering=0)).fileno() if is_input_read else None
        yield source


def _run(step_view: StepView, terminal: Terminal, environment: Environment) -> None:
    """Draw the screen and handle keys until the user quits."""
    from autodiff_cli.cli.terminal import Key
    from autodiff_cli.render.character_drawing import ansi_text
    from autodiff_cli.render.character_layout import Extent
    from autodiff_cli.render.step_view import ViewState

    last = len(step_view.steps) - 1
    state = ViewState()
    while True:
        window = Extent(*terminal.size())
        lines = (ansi_text(line, environment.colour) for line in step_view.screen(state, window))
        terminal.draw([line.encode(environment.stdout.encoding, LOOKALIKE_ERRORS) for line in lines])
        for key in terminal.next_keys():
            positions = {Key.NEXT: state.position + 1, Key.PREVIOUS: state.position - 1, Key.FIRST: 0, Key.LAST: last}
            if key in positions:
                state = ViewState(min(max(positions[key], 0), last))
            elif key in (Key.UP, Key.DOWN):
                line = max(state.first_line + (1 if key is Key.DOWN else -1), 0)
                state = state._replace(first_line=min(line, step_view.max_first_line(state, window)))
            elif key is Key.HELP:
                state = ViewState(state.position, is_help=not state.is_help)
            elif key is Key.QUIT:
                return
