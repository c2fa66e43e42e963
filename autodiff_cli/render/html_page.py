"""HTML pages: the interactive page of a trace, the pages of `autodiff serve`, and the page of a fit.

Every page is one self-contained file. The page of a trace plays the forward and backward pass step by step. It shows
the numbers of the trace until the reader changes a value; from then on its own evaluator computes them (see
`javascript`). Other pages add something above it (`PageAddition`): a form for a formula, a lesson, or a fit epoch by
epoch.

The Content-Security-Policy allows only the page's own script and style. Text of the user is escaped, or is data that
the script inserts as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.explain import sentences
from autodiff_cli.explain.accuracy import INACCURATE
from autodiff_cli.explain.operations import adjoint_formula, has_jacobian, is_at_kink, jacobian, readable_local_value
from autodiff_cli.explain.record import ROUNDING_ERROR, BackwardStep, Trace, array_shape
from autodiff_cli.explain.tracing import elementwise_trace
from autodiff_cli.explain.views import forward_operations, reverse_operations
from autodiff_cli.explain.warnings import FLOAT_DIGITS, LARGE_FLOAT, MAX_MAGNIFICATION, OPPOSITE_INFINITIES
from autodiff_cli.export.latex import latex_symbol, latex_symbols
from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.graph.node import Gate, Node
from autodiff_cli.graph.tape import LazyTable, expand_helpers
from autodiff_cli.language.errors import escape_controls
from autodiff_cli.language.printer import to_text
from autodiff_cli.render import formatting
from autodiff_cli.render.drawing import SVG_STYLE, WHOLE_GRAPH, Drawing, View, build_drawing, graph_shapes, safe_label
from autodiff_cli.render.javascript import evaluator, evaluators, optimizer_equations, optimizer_functions, page_file
from autodiff_cli.render.layout import MAX_NODES
from autodiff_cli.render.progress import step_noun
from autodiff_cli.render.solution import latex_formula
from autodiff_cli.system import read_tables
from autodiff_cli.targets.latex import LATEX, LatexWriter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.optimizers import Epoch
    from autodiff_cli.training.result.fitted_model import FittedModel

# --- The page of a trace ---

_MAX_TITLE_LENGTH = 100  # characters
_MAX_FORMULA_PARTS = 25  # longer formulas of local derivatives are not shown
_RESERVED_CHARACTERS = 9  # characters of space for each number, since numbers on a page change
_GRAPH_MARGIN = 16  # pixels around the graph
_MAX_STATIC_NODES = 1000  # a larger static drawing would be most of the page
_TITLE_LENGTHS = {"caption": 24, "short": 18}  # characters of a node's label in the drawing, by the room that there is


class PageAddition(NamedTuple):
    """Content above the step-by-step view of a page, or among the panels beside it.

    Attributes:
        title: the title of the page; the formula if empty.
        markup: the HTML of the content.
        style: its CSS.
        script: its JavaScript, which runs last in a scope of its own.
        data: what the script finds in `record.addition`.
        is_panel: whether the content stands among the panels beside the drawing.
    """

    title: str
    markup: str
    style: str
    script: str
    data: Mapping[str, Any]
    is_panel: bool = False


def to_html(
    trace: Trace,
    view: View = WHOLE_GRAPH,
    digits: int | None = None,
    seed: str | None = None,
    addition: PageAddition | None = None,
) -> str:
    """Return the page of a trace.

    Args:
        view: the part of the graph to draw; the steps are always complete.
        digits: the number of significant digits.
        seed: the variable whose tangent is 1 if the page opens in forward mode; None for reverse mode.
        addition: content above or beside the step-by-step view.

    Raises:
        GraphTooLargeError: if the graph has too many nodes to draw.
    """
    show, shown = formatting.number_formats(digits)[1], digits or formatting.TABLE_DIGITS
    drawing = build_drawing(trace, view._replace(fold=False))
    above = addition or PageAddition("", "", "", "", {})
    style = SVG_STYLE + page_file("page/page.css") + page_file("page/panels/panels.css") + above.style
    scalars = elementwise_trace(trace) if view == WHOLE_GRAPH and seed is None else None
    scripts = read_tables(__file__, "page/scripts.toml")
    first, last = ([page_file(f"page/{file}") for file in scripts[k].split()] for k in ("before", "after"))
    parts = [*first, _evaluators(trace, scalars), optimizer_functions(), *last, f"(() => {{\n{above.script}\n}})();"]
    # Indentation would take 15 kB. A space at the start distinguishes declarations from those of the page.
    script = re.sub(r"^ +(?!(?:const|let|class|function|async)\b|\*)", "", "\n".join(parts), flags=re.MULTILINE)
    opening = {"drawn": _drawing_document(drawing), "isFolded": view.fold, "digits": shown, "seed": seed}
    if scalars is not None:
        drawn = {"drawn": _drawing_document(build_drawing(scalars))}
        opening["scalars"] = opening | _trace_document(scalars) | panels_document(scalars) | drawn
    title = above.title or formatting.shorten_middle(safe_label(trace.expression.text), _MAX_TITLE_LENGTH)
    return page_file("page/page.html").format(
        policy=content_security_policy(script, style),
        title=escape(title),
        addition="" if above.is_panel else above.markup,
        panel=above.markup if above.is_panel else "",
        style=style,
        graph=_static_svg(drawing, show),
        panels=page_file("page/panels/panels.html"),
        data=_inline_json(_trace_document(trace) | panels_document(trace) | opening | {"addition": above.data}),
        script=script,
    )


def _evaluators(trace: Trace, scalars: Trace | None) -> str:
    """Return the evaluator of the formula and, if there are arrays, the evaluator of their elements."""
    if scalars is None:
        return evaluator(trace)
    both = [evaluator(trace, name="arrays"), evaluator(scalars, name="scalars")]
    return "\n".join([*both, "const evaluator = isInScalars ? scalars : arrays;"])


def content_security_policy(script: str, style: str, *more: str) -> str:
    """Return the Content-Security-Policy of a page that runs only its own script and style.

    Args:
        more: further directives.
    """
    hashes = {kind: hashlib.sha256(text.encode()) for kind, text in (("script", script), ("style", style)) if text}
    sources = [f"{kind}-src 'sha256-{b64encode(each.digest()).decode()}'" for kind, each in hashes.items()]
    return "; ".join(["default-src 'none'", *sources, *more, "base-uri 'none'", "form-action 'none'"])


def plain_page(title: str, style: str, body: str, script: str = "", *directives: str, kind: str = "") -> str:
    """Return a self-contained page of any content.

    Args:
        directives: further directives of its Content-Security-Policy.
        kind: the class of its body, for the style sheet.
    """
    policy = content_security_policy(script, style, *directives)
    body += f"\n<script>{script}</script>" if script else ""
    return page_file("page/plain.html").format(policy=policy, title=escape(title), style=style, body=body, kind=kind)


def _static_svg(drawn: Drawing, show: formatting.NumberFormat) -> str:
    """Return the drawing for browsers without scripts; a note instead of a large drawing."""
    if _MAX_STATIC_NODES < len(drawn.boxes) <= MAX_NODES:
        return "<noscript><p>A graph of this size is drawn by a script. Please allow scripts.</p></noscript>"
    size, shapes, _ = graph_shapes(drawn, show, _RESERVED_CHARACTERS)
    width, height = round(size.width) + 2 * _GRAPH_MARGIN, round(size.height) + 2 * _GRAPH_MARGIN
    opening = (
        f'<svg class="autodiff" role="group" aria-label="Graph of the formula" width="{width}" height="{height}" '
        f'viewBox="{-_GRAPH_MARGIN} {-_GRAPH_MARGIN} {width} {height}">'
    )
    return "\n".join([opening, *shapes, "</svg>"])


def _drawing_document(drawing: Drawing) -> dict[str, Any]:
    """Return the boxes, arrows and frames that the script lays out."""
    arrows = [
        {"from": arrow.source, "to": arrow.target, "position": arrow.position}
        | ({"isHighlighted": True} if arrow.is_highlighted else {})
        for arrow in drawing.arrows
    ]
    naming = drawing.trace.naming
    boxes = [
        {
            **pick(box, "id", "title"),
            **{name: safe_label(naming.label_in_call(box.id, length)) for name, length in _TITLE_LENGTHS.items()},
            "role": box.role.value,
        }
        | ({"isHighlighted": True} if box.is_highlighted else {})
        for box in drawing.boxes
    ]
    frames = [{"label": frame.label, "outer": frame.outer, "members": frame.members} for frame in drawing.frames]
    return {"boxes": boxes, "arrows": arrows, "frames": frames}


def _inline_json(document: dict[str, Any]) -> str:
    """Return a document as JSON for a script element, which no text in it can end."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _trace_document(trace: Trace) -> dict[str, Any]:
    steps = {step.node: step for step in trace.backward}
    phrases = LazyTable(lambda _: len(phrases))  # each phrase once, with its number
    formula = _FormulaText(trace)
    nodes = [_node_document(trace, i, steps.get(i), phrases) | formula.span(i) for i in range(len(trace.tape))]
    index, leaves = trace.tape.index, trace.expression.leaves
    operations = [(node.op, len(node.inputs)) for node in trace.tape.nodes if node.op is not None]
    warnings = {
        f"{op.name} {count}": {name: phrases[phrase] for name, phrase in by_name.items()}
        for op, count in dict.fromkeys(operations)
        for by_name in [sentences.warning_phrases(op, count)]
    }
    document = {
        "text": formula.text,
        "variables": [
            {"name": safe_label(name), "key": name, "node": index.get(leaves[name]), "value": to_json(value)}
            for name, value in trace.point.items()
        ],
        "output": trace.tape.outputs[0],
        "opposite": phrases[sentences.Slot("node"), f": {OPPOSITE_INFINITIES}"],
        "inaccurate": phrases[sentences.Slot("node"), f": {INACCURATE}"],
        "nodes": nodes,
        "forward": [step.node for step in trace.forward],
        "backward": [*steps],
        "beginning": phrases[sentences.FIRST_ADJOINT],
        "closing": [phrases[phrase] for phrase in sentences.closing_phrases(trace)],
        "warnings": [safe_label(warning.message) for warning in trace.warnings],
        "warningPhrases": warnings,
        "largest": formatting.MAX_TABLE_ELEMENTS,
        "near": sentences.SATURATION_DISTANCE,
        "roundingError": ROUNDING_ERROR,
        "negligible": sentences.NEGLIGIBLE,
        "cancellation": {"magnification": MAX_MAGNIFICATION, "largest": LARGE_FLOAT, "digits": FLOAT_DIGITS},
    }
    return document | {"phrases": [sentences.phrase_json(phrase) for phrase in phrases]}


def _node_document(trace: Trace, i: int, step: BackwardStep | None, phrases: LazyTable) -> dict[str, Any]:
    """Return the data of a node except its position in the text."""
    node, adjoint = trace.tape.nodes[i], trace.adjoints[i]
    document: dict[str, Any] = {
        "label": safe_label(trace.labels[i]),
        "inputs": trace.tape.inputs[i],
        "value": to_json(trace.values[i]),
        "adjoint": to_json(adjoint),
        "contributions": [] if step is None else [*_contribution_documents(trace, step, phrases)],
    }
    if node.op is None:
        return document | {"op": "variable" if node.is_input else "constant"}
    document |= {
        "op": node.op.name,
        "name": safe_label(sentences.label_with_definition(trace, i)),
        "forward": phrases[sentences.forward_phrase(trace, i)],
    }
    if sentences.saturation_values(node.op):
        document["ends"] = sentences.saturation_values(node.op)
    if node.op.summary:
        document["summary"] = node.op.summary.replace("`", "")
    return document if step is None else document | {"backward": phrases[sentences.backward_phrase(trace, i)]}


def _contribution_documents(trace: Trace, step: BackwardStep, phrases: LazyTable) -> Iterator[dict[str, Any]]:
    """Yield the contributions of a node to its inputs; `nothing` marks structural zeros."""
    inputs = trace.tape.inputs[step.node]
    are_scalars = all(isinstance(trace.values[j], float) for j in (step.node, *inputs))
    has_formulas = step.op.gate is not Gate.ROUTE and not step.op.is_structural
    for contribution in step.contributions:
        document = pick(contribution, "position", "to", "local", "amount") | {
            "nothing": contribution.is_structural_zero,
            "phrase": phrases[sentences.contribution_phrase(trace, step.node, contribution.position)],
        }
        if has_formulas and are_scalars and (read := readable_local_value(trace, step.node, contribution)) is not None:
            document["read"] = to_json(read)
        if is_at_kink(trace, step.node):
            document["kink"] = 1
        if step.op.is_structural:
            document["rule"] = adjoint_formula(trace, step.node, contribution.position) or "0"
        if has_jacobian(trace, step.node):
            document["jacobian"] = to_json(jacobian(trace, step.node))
        if has_formulas:
            formula = sentences.slope_formula(step.op, len(inputs), contribution.position)
            if len(formula) <= _MAX_FORMULA_PARTS:
                document["formula"] = phrases[formula]
        yield document


class _FormulaText:
    """The formula as the page shows it, and the spans of its nodes in UTF-16 units, in which scripts count."""

    def __init__(self, trace: Trace) -> None:
        self._nodes = trace.tape.nodes
        self._source = trace.expression.source
        text = trace.expression.text if self._source is None else self._source.text
        pieces = [escape_controls(character) for character in text]
        self.text = "".join(pieces)
        self._offsets = [*accumulate((len(piece.encode("utf-16-le")) // 2 for piece in pieces), initial=0)]

    def span(self, i: int) -> dict[str, Any]:
        """Return the span of a node in the text; empty if the node is not in the text."""
        span = None if self._source is None else self._source.span(self._nodes[i])
        return {} if span is None else {"span": [self._offsets[position] for position in span]}


# --- Panels beside the graph ---

_MAX_LATEX_LENGTH = 120  # characters of a node in LaTeX; a longer one is abbreviated as `n_i`
_MAX_FORMULA_LENGTH = 2400  # characters in LaTeX of the formula above the drawing; a longer one is shown as typed
_MAX_LATEX_NODES = 400  # larger formulas have no LaTeX on the page


def panels_document(trace: Trace) -> dict[str, Any]:
    """Return the data of the panels: operation counts of both modes, equations of gradient methods, names, LaTeX."""
    document: dict[str, Any] = {"methods": optimizer_equations(), "wrt": [*trace.wrt]}
    names = [*trace.expression.leaves, *trace.expression.names.values()]
    symbols = latex_symbols(names, trace.tape.nodes, has_all_letters=True)
    if alike := [name for name, text in symbols.items() if text != latex_symbol(name, has_all_letters=True)]:
        document["alike"] = alike
    if trace.is_scalar:
        document["work"] = {
            "forward": {name: forward_operations(trace, [name]) for name in trace.wrt},
            "all": forward_operations(trace, trace.wrt),
            "reverse": reverse_operations(trace),
        }
    if len(trace.tape) <= _MAX_LATEX_NODES:
        document["latex"] = _latex_document(trace, symbols)
    return document


def _latex_document(trace: Trace, symbols: Mapping[str, str]) -> dict[str, Any]:
    """Return the formula, all nodes and local derivatives in LaTeX; null for derivatives of whole-array operations.

    Args:
        symbols: the LaTeX symbols of names; see `latex_symbols`.
    """
    writer = LatexWriter({name: array_shape(value) for name, value in trace.point.items()})
    formula = r", \quad ".join(_typeset_nodes(writer, trace, symbols, _MAX_FORMULA_LENGTH)[1])
    parts, _ = _typeset_nodes(writer, trace, symbols, _MAX_LATEX_LENGTH)
    slopes = [[*_local_formulas(trace, i, parts)] for i in range(len(trace.tape))]
    nodes = [LATEX.coerce(parts[node]).text for node in trace.tape.nodes]
    return {"formula": "" if "n_{" in formula else formula, "nodes": nodes, "slopes": slopes}


def _typeset_nodes(
    writer: LatexWriter, trace: Trace, symbols: Mapping[str, str], limit: int
) -> tuple[dict[Node, Fragment], list[str]]:
    """Return all nodes in LaTeX, and equations: the output, then a definition of each name.

    Args:
        symbols: the LaTeX symbols of names.
        limit: the most characters of a node; a longer one is abbreviated as `n_i`.
    """
    output, names = trace.tape.nodes[trace.tape.outputs[0]], trace.expression.names
    parts: dict[Node, Fragment] = {}
    equations: list[str] = []
    for i, node in enumerate(trace.tape.nodes):
        symbol = symbols.get(node.text if node.is_input else names.get(node, ""), "")
        latex = Fragment(symbol) if node.is_input else writer.write(node, [parts[child] for child in node.inputs])
        parts[node] = latex if len(latex.text) <= limit else Fragment(rf"n_{{{i}}}")
        text = LATEX.coerce(parts[node]).text
        if node is output:
            equations.insert(0, text)
        if node in names and not node.is_input:
            equations += [f"{symbol} = {text}"] if node is not output else []
            parts[node] = Fragment(symbol)
    return parts, equations


def _local_formulas(trace: Trace, i: int, parts: dict[Node, Fragment]) -> Iterator[str | None]:
    """Yield the local derivatives of a node, one for each input."""
    node = trace.tape.nodes[i]
    if node.op is None or node.op.is_structural:
        yield from [None] * len(node.inputs)
        return
    rule = node.op.derivative_rule(len(node.inputs))
    places = rule.bind(parts[node], [parts[of] for of in node.inputs])
    numbers = rule.bind(trace.values[i], [trace.values[j] for j in trace.tape.inputs[i]])
    writer = LatexWriter({leaf.text: array_shape(number) for leaf, number in numbers.items()})
    for partial in rule.partials:
        local = expand_helpers([partial.local])[partial.local]
        text, _ = latex_formula(local, places, lambda _: "", max_width=2 * _MAX_LATEX_LENGTH, writer=writer)
        yield text if len(text) <= 2 * _MAX_LATEX_LENGTH else None


# --- Pages of `autodiff serve` ---


def served_addition(formula: str, values: str, message: str) -> PageAddition:
    """Return the form for a formula and its values, to be put above the page of the formula.

    Args:
        formula: the formula as it was typed.
        values: the values as they were typed.
        message: lines of text below the form, such as an error.
    """
    style, script = page_file("page/served/served.css"), page_file("page/served/box.js")
    return PageAddition("", _formula_form(formula, values, message), style, script, {})


def home_page(formula: str, values: str, message: str) -> str:
    """Return the start page, with forms for a formula and for fitting a model to a file."""
    body = page_file("page/served/home.html").format(box=_formula_form(formula, values, message))
    style = page_file("page/page.css") + page_file("page/served/served.css")
    script = page_file("page/served/box.js") + page_file("page/served/fit.js")
    return plain_page("autodiff", style, body, script, "connect-src 'self'", kind="home")


def _formula_form(formula: str, values: str, message: str) -> str:
    text = escape(escape_controls(message))
    alert = f'<pre class="message" role="alert" tabindex="0">{text}</pre>' if message else ""
    return page_file("page/served/box.html").format(formula=escape(formula), values=escape(values), message=alert)


# --- Pages of fits ---

MAX_PAGE_ROWS = 500  # more rows make the page large and slow
_MAX_PAGE_DRAWS = 250  # draws of a chain on a page
_MAX_PAGE_DRAW_NUMBERS = 100_000
_MAX_MODEL_LENGTH = 80  # characters of the model in the title


class FitRecording(NamedTuple):
    """The parameters and losses of a fit at every epoch, with the rows that its page shows.

    Attributes:
        trace: the trace of the loss of the first row, at the final parameters.
        objective: the objective.
        fit: the fitted model.
        epochs: the recorded epochs.
        columns: the values of the model's columns in the rows shown; a class is its index.
        row_numbers: the numbers of these rows in the data, from 0.
        networks: traces of the loss with other hidden layers and activations, and their models, by both, as in
            `2 tanh`: the page lets these learn too.
        draws: draws of the parameter vector from the posterior, of shape (chains, draws, numbers).
        verdict: how the fit ended, with its warnings.
    """

    trace: Trace
    objective: Objective
    fit: FittedModel
    epochs: Sequence[Epoch]
    columns: Mapping[str, NDArray[np.float64]]
    row_numbers: NDArray[np.int64]
    networks: Mapping[str, tuple[Trace, Model]]
    draws: NDArray[np.float64] | None
    verdict: str


def fit_page(recording: FitRecording, digits: int | None = None) -> str:
    """Return the page of a fit: losses, predictions and parameters epoch by epoch, above the trace of a row's loss.

    Curves and regions are not stored: the evaluator of the row's loss computes them at the parameters of an epoch.

    Raises:
        GraphTooLargeError: if the graph of the loss has too many nodes to draw.
    """
    script = evaluators({key: trace for key, (trace, _) in recording.networks.items()}, "networks")
    script += "\n".join(page_file(f"learning/{file}.js") for file in ("pictures", "network", "learning", "again"))
    verdict = escape(recording.verdict).replace("\n", "</span><span>")  # each line has its indentation
    markup = page_file("learning/learning.html").format(verdict=verdict)
    title = f"learning {formatting.shorten_middle(safe_label(recording.objective.model.text), _MAX_MODEL_LENGTH)}"
    addition = PageAddition(title, markup, page_file("learning/learning.css"), script, _recording_document(recording))
    return to_html(recording.trace, WHOLE_GRAPH, digits, addition=addition)


def _chains_document(draws: NDArray[np.float64] | None) -> dict[str, Any]:
    """Return the draws of each chain that the page shows, and how many draws apart they are."""
    if draws is None:
        return {"chains": None}
    stride = max(-(-draws.shape[1] // _MAX_PAGE_DRAWS), -(-draws.size // _MAX_PAGE_DRAW_NUMBERS))
    return {"chains": draws[:, ::stride].tolist(), "stride": stride}


def sample_rows(rows: int) -> NDArray[np.int64]:
    """Return the numbers of at most `MAX_PAGE_ROWS` evenly spaced rows of `rows` rows."""
    import numpy as np

    return np.unique(np.linspace(0, rows - 1, min(rows, MAX_PAGE_ROWS)).round().astype(np.int64))


def _recording_document(recording: FitRecording) -> dict[str, Any]:
    objective, fit, index = recording.objective, recording.fit, recording.trace.tape.index
    model, classes = objective.model, objective.classes
    prediction, link = _prediction_node(model, recording.trace)
    target = model.program.target
    layers = model.program.layer_parameters
    hidden = [name for name in layers if name.startswith("mlp.") and name.endswith(".weight")][:-1]
    document = {
        "names": [*objective.layout.shapes],
        "shapes": [*objective.layout.shapes.values()],
        "fixed": to_json(fit.fixed),
        "step": step_noun(fit.optimizer),
        "epochs": [
            pick(epoch, "number", "loss", "theta") | {"validation": to_json(epoch.validation_loss)}
            for epoch in recording.epochs
        ],
        "units": dict(fit.units),
        **_chains_document(recording.draws),
        "rows": (recording.row_numbers + 1).tolist(),
        "count": int(recording.row_numbers[-1]) + 1,
        "columns": {name: values.tolist() for name, values in recording.columns.items()},
        "predictors": [name for name in model.predictors if name in model.numeric],
        "prediction": prediction,
        "link": link,
        "target": None if target is None else index.get(target),
        "targetName": "" if target is None else safe_label(to_text(target, share=False)),
        "takesAnyTarget": objective.kind.name != "LIKELIHOOD",  # but counts, or 0 and 1
        "classes": None if classes is None else [str(label) for label in classes],
        "layers": [name for name, kind in layers.items() if kind.kind == "weight"],
    }
    if recording.networks:
        networks = {key: _prediction_node(network, trace)[0] for key, (trace, network) in recording.networks.items()}
        document |= {
            "hidden": [objective.layout.shapes[name][0] for name in hidden],
            "activation": layers[hidden[0]].activation,
            "networks": {key: {"prediction": node} for key, node in networks.items()},
        }
    return document


def _prediction_node(model: Model, trace: Trace) -> tuple[int | None, str]:
    """Return the node of the prediction and the operation to apply to it.

    The loss of some models is computed from the input of the last operation of the prediction; then that input is
    returned with the name of the operation. Otherwise the name is empty.
    """
    output, index = model.program.output, trace.tape.index
    if model.program.target is None:
        return None, ""
    if output in index:
        return index[output], ""
    if output.op is not None and len(output.inputs) == 1 and output.inputs[0] in index:
        return index[output.inputs[0]], output.op.name
    return None, ""
