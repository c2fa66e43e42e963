"""Reports of `trace`: the forward and backward pass step by step, and other views of a computation.

The other views are forward mode, the paths from each variable to the output, and the tape as a framework stores it.
`TraceDisplay` is the object that `Expression.trace` returns: notebooks and terminals display it by themselves.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.explain.labels import format_operation_on_numbers
from autodiff_cli.explain.operations import has_jacobian, jacobian
from autodiff_cli.explain.record import BackwardStep, ForwardStep, Trace, array_shape
from autodiff_cli.explain.sentences import BACKWARD_PASS_SENTENCE, StepSentences
from autodiff_cli.graph.node import get_op
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render import formatting
from autodiff_cli.render.formatting import NumberFormat
from autodiff_cli.render.gradient import gradient_document, write_result, write_title, write_warnings
from autodiff_cli.render.layout import GraphTooLargeError
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, T, TextTable, dumps, number_columns

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

    from autodiff_cli.explain.views import ForwardMode, Path, Paths, TangentStep, TapeRecord, VarianceSource
    from autodiff_cli.formula.uncertainty import Uncertainty


# --- Arrays as aligned rows ---

GRID_WIDTH = 72  # terminal columns of a row of an array, which is indented in a report of 80 columns
SHADES = " ░▒▓█"  # shades for magnitudes from 0 to the largest
_MAX_NUMBER_ROWS = 12  # larger arrays are shown as shades
_MAX_SHADED_ROWS = 10  # larger arrays are sampled
_COLUMN_GAP = "  "


def is_large_array(x: Any) -> bool:
    """Whether x is an array that does not fit into a sentence."""
    return bool(array_shape(x)) and x.size > formatting.MAX_TABLE_ELEMENTS


def array_lines(x: Any, show: NumberFormat, label: str = "") -> Iterator[str]:
    """Yield the rows of an array as lines, with a label before the first.

    A vector is one row; an array with more axes has one row for each index of the other axes. Where the numbers do not
    fit, each is shown as a shade of its magnitude, and a still larger array is sampled.
    """
    rows = x.reshape(-1, x.shape[-1]).tolist()
    texts = [[show(number) for number in row] for row in rows[:_MAX_NUMBER_ROWS]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [_COLUMN_GAP.join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in texts]
    before = f"{label}{_COLUMN_GAP}" if label else ""
    if len(rows) > _MAX_NUMBER_ROWS or len(before + lines[0]) > GRID_WIDTH:
        lines = [*_shaded_lines(rows, GRID_WIDTH - len(before))]
        lines.append(f"darker is larger in magnitude, up to {show(_largest_magnitude(rows))}")
    for count, line in enumerate(lines):
        yield f"{before if count == 0 else ' ' * len(before)}{line}"


def _shaded_lines(rows: Sequence[Sequence[float]], width: int) -> list[str]:
    sampled = (rows[k] for k in _sample_positions(len(rows), _MAX_SHADED_ROWS))
    sample = [[row[k] for k in _sample_positions(len(row), width - 2)] for row in sampled]
    largest, steps = _largest_magnitude(rows), len(SHADES) - 1

    def shade(x: float) -> str:
        if x != x or abs(x) == float("inf"):
            return "!"
        return SHADES[0 if x == 0 or not largest else max(1, round(abs(x) / largest * steps))]

    return [f"|{''.join(map(shade, row))}|" for row in sample]


def _largest_magnitude(rows: Sequence[Sequence[float]]) -> float:
    """Largest magnitude among the finite numbers; 0 if there are none."""
    return max((abs(x) for row in rows for x in row if abs(x) < float("inf")), default=0.0)


def _sample_positions(count: int, maximum: int) -> list[int]:
    """Return at most `maximum` of the positions 0 … `count` - 1, evenly spaced.

    >>> [_sample_positions(count, 4) for count in (3, 4, 5, 10, 11)]
    [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 5, 7], [0, 2, 5, 8]]
    """
    return [*range(count)] if count <= maximum else [k * count // maximum for k in range(maximum)]


def forward_lines(trace: Trace, step: ForwardStep, show: NumberFormat, shown: set[str]) -> Iterator[str]:
    """Yield the lines below a forward step: its large variables and constants, then its value if that is large.

    Args:
        shown: the labels of arrays that are left out; the labels of the step are added to it.
    """
    leaves = (i for i in dict.fromkeys(step.inputs) if trace.tape.nodes[i].op is None)
    for i in (*leaves, step.node):
        if is_large_array(trace.values[i]) and trace.labels[i] not in shown:
            shown.add(trace.labels[i])
            yield from array_lines(trace.values[i], show, trace.labels[i])


def backward_lines(trace: Trace, step: BackwardStep, show: NumberFormat) -> Iterator[str]:
    """Yield the lines below a backward step: its Jacobian if that is large, then its contributions."""
    if trace.adjoints_or_none[step.node] is None:  # a structural zero, which contributes nothing
        return
    sentences = StepSentences(trace, show)
    if has_jacobian(trace, step.node) and is_large_array(slopes := jacobian(trace, step.node)):
        yield from array_lines(slopes, show, "Jacobian" if array_shape(step.adjoint) else "slope")
    for contribution in step.contributions:
        yield sentences.contribution(step, contribution)
        if is_large_array(contribution.amount):
            yield from array_lines(contribution.amount, show)


# --- Both passes, step by step ---


def trace_report(trace: Trace) -> Report:
    """Report the forward steps with their numbers, the backward steps with their contributions, and the result."""
    return Report(lambda paper: _write_trace(paper, trace), lambda: [trace_document(trace)])


def _write_trace(paper: Paper, trace: Trace) -> None:
    brief, sentences, shown = paper.brief, StepSentences(trace, paper.brief), set[str]()

    def forward(step: ForwardStep) -> None:
        paper.line(f"  {step.step}. {sentences.forward(step)}")
        for line in forward_lines(trace, step, brief, shown):
            paper.line(f"       {line}")

    def backward(step: BackwardStep) -> None:
        label = trace.labels[step.node]
        paper.line(f"  {step.step}. {label}, adjoint {brief(step.adjoint)}: {sentences.backward(step)}")
        for line in backward_lines(trace, step, brief):
            paper.line(f"       {line}")

    write_title(paper, trace.expression, trace.point)
    paper.heading("forward pass: from the inputs to the output")
    write_steps(paper, trace.forward, forward)
    paper.heading("backward pass: from the output to the inputs")
    paper.line(f"  {BACKWARD_PASS_SENTENCE}", Style.FAINT)
    write_steps(paper, trace.backward, backward)
    write_result(paper, trace)
    write_warnings(paper, trace.warnings)


def trace_document(trace: Trace) -> dict[str, Any]:
    """Return the document that `trace --json` writes: the document of `grad`, and the steps of both passes."""
    forward = [
        {**pick(step, "step", "node"), "op": step.op.name, **pick(step, "inputs", "value")} for step in trace.forward
    ]
    backward = [
        {**pick(step, "step", "node"), "op": step.op.name, **pick(step, "adjoint")}
        | {"contributions": [pick(term, "to", "local", "amount", "total") for term in step.contributions]}
        for step in trace.backward
    ]
    return {**gradient_document(trace), "forward": forward, "backward": backward}


def write_steps(paper: Paper, steps: Iterable[T], write: Callable[[T], None]) -> None:
    """Write all steps, or on a short paper the first and the last ones."""
    all_steps = [*steps]
    if not all_steps:
        paper.line("  There is nothing to do.", Style.FAINT)
    paper.write_items(all_steps, write, "step")


# --- Forward mode ---


def forward_mode_report(run: Callable[[str], ForwardMode], names: Sequence[str], shown: Sequence[str]) -> Report:
    """Report the tangents of all nodes for each variable, and the number of operations in both modes.

    Args:
        run: runs forward mode for a variable.
        names: the variables in the JSON document.
        shown: the variables in the text.
    """
    return Report(
        lambda paper: _write_forward_mode(paper, [*map(run, shown)]), lambda: [_forward_mode_fields([*map(run, names)])]
    )


def _write_forward_mode(paper: Paper, modes: Sequence[ForwardMode]) -> None:
    brief, trace = paper.brief, modes[0].trace
    sentences = StepSentences(trace, brief)
    write_title(paper, trace.expression, trace.point)
    for mode in modes:

        def write(step: TangentStep, name: str = mode.name) -> None:
            sentence = f"  {step.forward.step}. {sentences.forward(step.forward)}"
            if not step.contributions:
                paper.line(f"{sentence}; it does not depend on {name}, so its tangent is 0")
                return
            paper.line(f"{sentence}; tangent {brief(step.tangent)}")
            for term in step.contributions:
                factors = format_operation_on_numbers(get_op("mul"), [brief(term.local), brief(term.tangent)])
                paper.line(f"       from {trace.labels[term.input]}: {factors} = {brief(term.amount)}")

        paper.heading(f"forward mode: how fast every node changes with {mode.name}")
        paper.line(f"  {mode.name} has tangent 1. The tangent of a node is the sum over its inputs of", Style.FAINT)
        paper.line("  local derivative × tangent of the input.", Style.FAINT)
        write_steps(paper, mode.steps, write)
    write_result(paper, trace, {mode.name: mode.tangents[trace.tape.outputs[0]] for mode in modes})
    _write_operation_counts(paper, modes)
    write_warnings(paper, trace.warnings)


def _forward_mode_fields(modes: Sequence[ForwardMode]) -> dict[str, Any]:
    """Return the fields that `--mode forward` adds to the document of a trace."""
    work = {
        "forward": {mode.name: mode.work._asdict() for mode in modes},
        "forward_all": modes[0].all_variables._asdict(),
        "reverse": modes[0].reverse._asdict(),
    }
    return {"tangents": {mode.name: to_json(mode.tangents) for mode in modes}, "work": work}


def _write_operation_counts(paper: Paper, modes: Sequence[ForwardMode]) -> None:
    count = len(modes[0].trace.wrt)
    passes = {f"forward mode, {mode.name}": mode.work for mode in modes}
    if count > 1:
        passes[f"forward mode, all {count} variables"] = modes[0].all_variables
    passes[f"reverse mode, {f'all {count} variables' if count > 1 else modes[0].name}"] = modes[0].reverse
    rows = [(name, str(work.multiplications), str(work.additions)) for name, work in passes.items()]
    table = TextTable((Column("pass"), *number_columns("multiplications", "additions")), rows)
    paper.titled_table("operations, not counting values and local derivatives", table)


# --- Paths ---

MAX_PATH_NODES = 12  # longer paths are shown without their middle
MAX_SUM_TERMS = 6  # longer sums of path products are not written out
MAX_EXACT_COUNT = 10**100  # larger numbers of paths are rounded in text; JSON has all their digits
MAX_COUNT_BITS = 14_000  # Python refuses to convert integers of more than 4,300 digits, about 14,280 bits


def paths_report(trace: Trace, path_sets: Sequence[Paths]) -> Report:
    """Report the paths from each variable to the output: nodes, local derivatives, products, and their sum."""
    return Report(lambda paper: _write_paths(paper, trace, path_sets), lambda: [_paths_fields(path_sets)])


def _write_paths(paper: Paper, trace: Trace, path_sets: Sequence[Paths]) -> None:
    brief = paper.brief
    write_title(paper, trace.expression, trace.point)
    for paths in path_sets:
        order = ", largest contribution first" if paths.total > 1 else ""
        paper.heading(f"paths from {paths.name} to the output: {_count_text(paths.total)}{order}")
        for count, path in enumerate(paths.listed, 1):
            paper.line(f"  {count}. {_join_abbreviated(' → ', [trace.labels[i] for i in path.nodes])}")
            paper.line(f"       {_product_text(path, brief)}")
        if paths.unlisted:
            sums = (
                f"which sum to {brief(paths.rest)}" if paths.unlisted > 1 else f"whose product is {brief(paths.rest)}"
            )
            paper.line(f"  … and {_count_text(paths.unlisted)} more, {sums}; --limit N lists N", Style.FAINT)
        paper.line(f"  {_sum_text(paths, trace.gradient[paths.name], brief)}", Style.STRONG)
    write_result(paper, trace, {paths.name: trace.gradient[paths.name] for paths in path_sets})
    write_warnings(paper, trace.warnings)


def _paths_fields(path_sets: Sequence[Paths]) -> dict[str, Any]:
    """Return the fields that `--paths` adds to the document of a trace."""
    return {
        "paths": {
            paths.name: [
                {"nodes": path.nodes, "locals": to_json(path.local_derivatives), "product": to_json(path.product)}
                for path in paths.listed
            ]
            for paths in path_sets
        },
        "paths_count": {paths.name: _json_count(paths.total) for paths in path_sets},
        "paths_rest": {paths.name: to_json(paths.rest) for paths in path_sets},
    }


def variance_report(trace: Trace, sources: Sequence[VarianceSource], uncertainty: Uncertainty, has_ids: bool) -> Report:
    """Report along which paths the errors of uncertain inputs reach the value, and how their squares add up.

    Args:
        trace: the trace of numbers that the paths belong to.
        sources: the uncertain inputs with their paths.
        uncertainty: the uncertainty of the value.
        has_ids: whether the trace has the same nodes as the document that the report joins.
    """
    fields = {each.source.name: _variance_fields(trace, each, has_ids) for each in sources}
    return Report(
        lambda paper: _write_variance(paper, trace, sources, uncertainty), lambda: [{"variance_paths": fields}]
    )


def _write_variance(paper: Paper, trace: Trace, sources: Sequence[VarianceSource], uncertainty: Uncertainty) -> None:
    brief = paper.brief

    def amount(change: float, share: float) -> str:
        return f"{brief(change)}, {100 * share:.1f} % of the variance"

    def signed(x: float) -> str:
        return f"({brief(x)})" if x < 0 else brief(x)

    def write_source(each: VarianceSource) -> None:
        source, paths, error = each.source, each.paths, brief(each.source.deviation)
        paper.line(f"  {source.name}, with an error of {error}: {100 * source.share:.1f} % of the variance")
        for count, path in enumerate(paths.listed, 1):
            paper.line(f"    {count}. {_join_abbreviated(' → ', [trace.labels[i] for i in path.nodes])}")
            total = amount(each.change(path.product), each.share(path.product))
            paper.line(f"         {error} × {signed(path.product)} = {total}")
        if paths.unlisted:
            total = amount(each.change(paths.rest), each.share(paths.rest))
            paper.line(f"    … and {_count_text(paths.unlisted)} more, together {total}", Style.FAINT)
        if paths.total > 1:
            paper.line(f"    all paths together: {brief(source.change)}")

    paper.heading("where the variance comes from")
    paper.line("  An error reaches the value along each path: error × product of the local derivatives.", Style.FAINT)
    write_steps(paper, sources, write_source)
    changes = {each.source.name: each.source.change for each in sources}
    terms = [f"{signed(change)}^2" for change in changes.values()]
    for names, correlation in uncertainty.pairs.items():
        factors = (correlation, *(changes.get(name, 0.0) for name in names))
        terms.append(f"2 × {' × '.join(map(signed, factors))}")
    if len(terms) <= MAX_SUM_TERMS:
        stderr = uncertainty.stderr
        square = f"{Decimal(stderr) ** 2:e}" if 0 < stderr < math.inf else stderr  # maybe no float
        paper.line(f"  variance = {' + '.join(terms)} = {brief(square)}, so the standard error is {brief(stderr)}")


def _variance_fields(trace: Trace, each: VarianceSource, has_ids: bool) -> dict[str, Any]:
    """Return the paths of an uncertain input for JSON."""
    paths = [
        {
            **({"nodes": path.nodes} if has_ids else {}),
            "labels": [trace.labels[i] for i in path.nodes],
            "product": path.product,
            "change": each.change(path.product),
            "share": each.share(path.product),
        }
        for path in each.paths.listed
    ]
    rest = {"count": _json_count(each.paths.unlisted), "share": each.share(each.paths.rest)}
    return {**pick(each.source, "deviation", "change", "share"), "paths": to_json(paths), "rest": to_json(rest)}


def _json_count(total: int) -> int | str:
    """Return a number of paths for JSON: as text if it has too many digits for JSON readers."""
    return total if total.bit_length() < MAX_COUNT_BITS else str(Decimal(total))


def _count_text(total: int) -> str:

    return f"{total:,}" if total < MAX_EXACT_COUNT else f"{Decimal(total):.3e}".replace("e+", " × 10^")


def _product_text(path: Path, show: NumberFormat) -> str:
    if not path.local_derivatives:
        return "the variable is the output, so 1"
    first, *others = (show(local) for local in path.local_derivatives)
    product = _join_abbreviated(" × ", [first, *(f"({text})" if text.startswith("-") else text for text in others)])
    return product if not others else f"{product} = {show(path.product)}"


def _sum_text(paths: Paths, gradient: float, show: NumberFormat) -> str:
    result = f"d/d{paths.name} = {show(gradient)}"
    terms = [show(path.product) for path in paths.listed] + ([show(paths.rest)] if paths.unlisted else [])
    if not 1 < len(terms) <= MAX_SUM_TERMS:
        return f"total: {result}"
    total = reduce(lambda total, term: format_operation_on_numbers(get_op("add"), [total, term]), terms)
    return f"total: {total} = {show(gradient)} = d/d{paths.name}"


def _join_abbreviated(link: str, parts: Sequence[str]) -> str:
    """Join parts; the middle of a long list is replaced by the number of its parts."""
    if len(parts) > MAX_PATH_NODES:
        half = MAX_PATH_NODES // 2
        parts = [*parts[:half], f"… {len(parts) - 2 * half} more …", *parts[-half:]]
    return link.join(parts)


# --- The tape ---


def tape_report(record: TapeRecord) -> Report:
    """Report which values each operation saves for the backward pass, the memory, and the effect of checkpoints."""
    return Report(lambda paper: _write_tape(paper, record), lambda: [_tape_fields(record)])


def _write_tape(paper: Paper, record: TapeRecord) -> None:
    trace = record.trace
    write_title(paper, trace.expression, trace.point)
    rows = [
        (
            str(entry.node),
            entry.op.name,
            ", ".join(trace.labels[j] for j in entry.inputs),
            trace.labels[entry.node],
            ", ".join(trace.labels[j] for j in entry.saved) or NO_VALUE,
            _byte_count(entry.bytes) if entry.bytes else NO_VALUE,
        )
        for entry in record.entries
    ]
    titles = (Column("id", True), Column("operation"), Column("inputs", is_optional=True), Column("output"))
    table = TextTable((*titles, Column("saves"), Column("new memory", True)), rows)
    paper.titled_table("tape: the values that each operation saves for the backward pass", table)
    paper.line("  A value that several operations save is stored once. Constants are part of the program.", Style.FAINT)
    paper.line()
    memory, total = _byte_count(record.bytes), _byte_count(record.computed)
    paper.line(f"saved for the backward pass: {memory}; all results together: {total}")
    if record.checkpoints:
        _write_checkpoints(paper, record)


def _tape_fields(record: TapeRecord) -> dict[str, Any]:
    """Return the fields that `--tape` adds to the document of a trace; memory is in bytes."""
    entries = []
    for each in record.entries:
        names = {"node": each.node, "op": each.op.name, "inputs": to_json(each.inputs), "output": each.node}
        entries.append(names | pick(each, "saved", "bytes"))
    without = record.peak_without_checkpoints
    checkpoints = [{**each._asdict(), "saved": without - each.peak} for each in record.checkpoints]
    return {"tape": entries, "tape_bytes": record.bytes, "checkpoints": checkpoints}


def _write_checkpoints(paper: Paper, record: TapeRecord) -> None:
    count = len(record.entries)
    paper.heading("checkpoints: save only the values that a later segment of k operations needs")
    paper.line("  The backward pass recomputes each segment before it uses it, except the last.", Style.FAINT)
    rows = [
        (
            str(checkpoint.every),
            str(checkpoint.stretches),
            _byte_count(checkpoint.kept),
            _byte_count(checkpoint.peak),
            _byte_count(record.peak_without_checkpoints - checkpoint.peak),
            f"{checkpoint.recomputed} of {count}",
        )
        for checkpoint in record.checkpoints
    ]
    titles = number_columns("k", "segments", "saved", "peak memory", "reduction", "recomputed")
    paper.table(TextTable(titles, rows))
    peak = _byte_count(record.peak_without_checkpoints)
    paper.line(f"  Without checkpoints: {peak} for {pluralize(count, 'operation')}, not counting inputs.")


def _byte_count(count: int) -> str:
    return f"{count:,} B"


# --- Display in notebooks and terminals ---

FRAME_HEIGHT = 760  # pixels of the page in a notebook
MAX_NAME_LENGTH = 80  # characters of the formula in a one-line description of a trace or a fit
_SANDBOX = "allow-scripts allow-forms"  # the page's script handles Enter in a form; its policy forbids sending forms


@dataclass(frozen=True, eq=False, repr=False)
class TraceDisplay:
    """A `Trace` that notebooks and terminals can display.

    It has all attributes of the trace (`value`, `gradient`, `labels`, …).
    """

    trace: Trace

    def __reduce__(self) -> tuple[Any, ...]:
        expression: Any = self.trace.expression
        return partial(expression.trace, wrt=self.trace.wrt), (self.trace.point,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # display protocols that this class does not implement
            raise AttributeError(name)
        return getattr(self.trace, name)

    def to_json(self) -> str:
        """Return the document that `autodiff trace --json` writes."""
        return dumps(trace_document(self.trace)).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `autodiff trace --json` writes, as dicts, lists, numbers and texts."""
        import json

        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def __str__(self) -> str:
        """Return the report that `autodiff trace` prints."""
        return self._report_text(Paper)

    def _report_text(self, paper: Callable[[TextIO], Paper]) -> str:
        buffer = io.StringIO()
        trace_report(self.trace).write(paper(buffer))
        return buffer.getvalue().rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Text]:
        """Return the report as wide as the terminal, for Rich."""
        from rich.text import Text

        from autodiff_cli.render.report import TerminalPaper

        has_colour = console.color_system is not None
        yield Text.from_ansi(self._report_text(lambda stream: TerminalPaper(stream, options.max_width, has_colour)))

    def _repr_html_(self) -> str | None:
        """Return the page of the trace in a sandboxed frame; None if the graph is too large to draw."""
        from autodiff_cli.render.html_page import to_html

        try:
            page = to_html(self.trace)
        except GraphTooLargeError:
            return None
        return (
            f'<iframe srcdoc="{escape(page)}" sandbox="{_SANDBOX}" title="{escape(self._title())}" '
            f'width="100%" height="{FRAME_HEIGHT}" style="border: 0"></iframe>'
        )

    def _repr_svg_(self) -> str | None:
        """Return the graph as an SVG image; None if it is too large to draw."""
        from autodiff_cli.render.drawing import build_drawing, to_svg

        try:
            return to_svg(build_drawing(self.trace), formatting.number_formats(None)[1])
        except GraphTooLargeError:
            return None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - a trace never contains itself
        """Write the report, shortened if it is long, where a notebook shows text."""
        printer.text(self._report_text(NotebookPaper))

    def _title(self) -> str:
        show = formatting.number_formats(None)[1]
        place = ", ".join(f"{name} = {show(value)}" for name, value in self.trace.point.items())
        formula = formatting.shorten_middle(formatting.single_line(self.trace.expression.text), MAX_NAME_LENGTH)
        return formatting.single_line(
            f"trace of {formula}{' at ' if place else ''}{formatting.shorten_middle(place, MAX_NAME_LENGTH)}"
        )


class NotebookPaper(Paper):
    """Writes plain lines, at most as many as a notebook should store."""

    max_rows = 60
    max_formula_length = 300
    way_to_all = "`print`"
