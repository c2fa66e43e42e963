"""A fit as a page: its parameters, its loss and what it predicts at every epoch, above the walk of a row's loss.

The page carries the rows, the parameters of every epoch, and the evaluator of the row's loss; curves and regions are
what that evaluator computes at the parameters of the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.explain.record import Trace
from autodiff_cli.graph.node import Node
from autodiff_cli.language.printer import to_text
from autodiff_cli.render.documents import number
from autodiff_cli.render.drawing.diagrams import EVERYTHING, drawable
from autodiff_cli.render.page.html import Addition, to_html
from autodiff_cli.render.text import shortened
from autodiff_cli.training.methods.loop import Epoch
from autodiff_cli.training.objective.labels import Classes
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout

_FOLDER = Path(__file__).parent
MOST_ROWS = 500  # that a page carries
_LONGEST = 80  # characters of the title


class Course(NamedTuple):
    """The course of a fit.

    Attributes:
        trace: the walk of the first row's loss, at the end.
        model: resolved.
        layout: of the parameters of an epoch.
        columns: the numbers of the model's columns, of the rows that are shown; of a class its place among `classes`.
        shown: the numbers of these rows, from 0 on: see `shown_rows`.
        rows: how many there are.
        fixed: the parameters that stay what they are.
    """

    trace: Trace
    model: Model
    layout: ParameterLayout
    epochs: Sequence[Epoch]
    columns: Mapping[str, NDArray[np.float64]]
    shown: NDArray[np.int64]
    rows: int
    classes: Classes | None
    fixed: Mapping[str, Any]


def page_of_course(course: Course, digits: int | None = None) -> str:
    """The page, in one file that needs nothing else. Raises TooLarge for a graph of too many nodes."""
    style = (_FOLDER / "learning.css").read_text(encoding="utf-8")
    script = "\n".join(
        (_FOLDER / file).read_text(encoding="utf-8") for file in ("pictures.js", "network.js", "learning.js")
    )
    markup = (_FOLDER / "learning.html").read_text(encoding="utf-8")
    title = f"learning {escape(shortened(drawable(course.model.text), _LONGEST))}"
    addition = Addition(title, markup, style, script, _document(course))
    return to_html(course.trace, EVERYTHING, digits, addition=addition)


def shown_rows(rows: int) -> NDArray[np.int64]:
    """The numbers of the rows that a page has, of so many."""
    return np.unique(np.linspace(0, rows - 1, min(rows, MOST_ROWS)).round().astype(np.int64))


def _document(course: Course) -> dict[str, Any]:
    model, index = course.model, course.trace.tape.index
    prediction, link = _prediction(course)
    target = model.program.target
    return {
        "names": [*course.layout.shapes],
        "shapes": [*course.layout.shapes.values()],
        "fixed": {name: number(value) for name, value in course.fixed.items()},
        "epochs": [
            {
                "number": epoch.number,
                "loss": number(epoch.loss),
                "validation": None if epoch.validation_loss is None else number(epoch.validation_loss),
                "theta": epoch.theta.tolist(),
            }
            for epoch in course.epochs
        ],
        "rows": (course.shown + 1).tolist(),
        "count": course.rows,
        "columns": {name: values.tolist() for name, values in course.columns.items()},
        "predictors": [name for name in model.predictors() if name in model.numeric],
        "prediction": prediction,
        "link": link,
        "target": None if target is None else index.get(target),
        "targetName": "" if target is None else drawable(to_text(target, share=False)),
        "classes": None if course.classes is None else [str(label) for label in course.classes],
        "layers": [name for name, kind in model.program.initial.items() if kind.kind == "weight"],
    }


def _prediction(course: Course) -> tuple[int | None, str]:
    """The node whose value is the prediction; or what goes into its last operation, where the loss is computed from
    that, and the operation's name."""
    output, index = course.model.program.output, course.trace.tape.index
    if course.model.program.target is None:
        return None, ""
    if output in index:
        return index[output], ""
    score: Node | None = output.inputs[0] if output.op is not None and len(output.inputs) == 1 else None
    if score is None or output.op is None or score not in index:
        return None, ""
    return index[score], output.op.name
