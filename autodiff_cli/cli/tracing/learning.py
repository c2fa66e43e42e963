"""The page of a fit that shows it learning: `train --page`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autodiff_cli.cli.errors import BadInput

if TYPE_CHECKING:
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.options import LossOptions
    from autodiff_cli.training.recording import Recorder
    from autodiff_cli.training.result.fit import FittedModel


def learning_page(
    objective: Objective, recorder: Recorder, fit: FittedModel, losses: LossOptions, digits: int | None
) -> str:
    """The page: the course of the fit, and the walk of the first row's loss where the fit ended.

    Raises:
        BadInput: for a graph that is too large to draw.
    """
    import dataclasses

    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.render.drawing.layout import TooLarge
    from autodiff_cli.render.learning.page import Course, page_of_course, shown_rows
    from autodiff_cli.training.row import row_loss

    classes = None if objective.classes is None else len(objective.classes)
    scaled = losses if fit.scale is None else dataclasses.replace(losses, scale=fit.scale)
    formula = row_loss(objective.model, objective.loss, scaled, classes)
    shown = shown_rows(objective.rows)
    table = objective.data.part(shown).table().columns
    columns = {name: table[name] for name in objective.model.of_rows if name in table}
    epochs = recorder.course(objective, fit)
    point: dict[str, Any] = {name: float(values[0]) for name, values in columns.items()}
    point |= {**fit.parameters, **fit.fixed}
    course = Course(
        trace(formula, {name: point[name] for name in formula.variables}, objective.parameters),
        objective.model,
        objective.layout,
        epochs,
        columns,
        shown,
        objective.rows,
        objective.classes,
        fit.fixed,
    )
    try:
        return page_of_course(course, digits)
    except TooLarge as error:
        raise BadInput(f"--page: {error}") from error
