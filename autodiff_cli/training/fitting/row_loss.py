"""The loss of one row of data as a formula of its columns and the parameters, for traces of training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autodiff_cli.algebra.simplify import SIMPLIFICATION_RULES, NodeTable, Row, a, rewrite_by
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.batches import labels_of, numbers_of
from autodiff_cli.data.dialect import parse_number, quoted_cell
from autodiff_cli.data.files import DataSource
from autodiff_cli.data.table import DataError
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.tape import leaf_names, substitute, topological_order
from autodiff_cli.language.errors import format_names
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.arithmetic import abs_, equal, where
from autodiff_cli.ops.functions import hypot, sqrt
from autodiff_cli.ops.structural import stack
from autodiff_cli.options import OptionError
from autodiff_cli.training.losses import LOSSES, RESIDUAL_SCALE, textbook_form
from autodiff_cli.training.objective import loading
from autodiff_cli.training.objective.kernels import choose_loss, row_loss_graph
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import FitOptions, ParameterValues
from autodiff_cli.training.result.fitted_model import FittedModel

_AS_IN_TEXTBOOKS = rewrite_by([Row(hypot(a, 0), abs_(a))], then=SIMPLIFICATION_RULES)  # rewrites losses with a scale
_TOLERANCE = 1e-9  # relative difference up to which two forms of a loss count as equal


@dataclass(frozen=True, slots=True)
class TracedRow:
    """The loss of one row as a formula, and where to evaluate it.

    Attributes:
        formula: the loss as a function of the columns and the parameters, without the row's weight.
        point: the values of the row in the columns, and the parameters that are known.
        free_parameters: the parameters that a fit varies.
        notes: what the numbers stand for, as sentences.
    """

    formula: Formula
    point: Mapping[str, Any]
    free_parameters: tuple[str, ...]
    notes: tuple[str, ...] = ()


def row_loss_formula(model: Model, loss: str, options: FitOptions, classes: int | None) -> Formula:
    """Return the loss of a row as a formula; its text is the model's.

    Args:
        model: the model, with resolved shapes.
        loss: the name of the loss; see `choose_loss`.
        options: further settings of the loss.
        classes: the number of classes, for a classification.
    """
    program = model.program
    output = row_loss_graph(model, loss, options, classes, program.target, program.output)
    scale = constant(1.0 if options.scale is None else options.scale)
    leaves, weighting = dict(program.leaves), row_weighting(loss, options)
    if weighting is not None:
        leaf = leaves.setdefault(weighting, variable(weighting))
        # The residual of a row of weight 0, which is no part of a fit, is divided by the scale alone.
        scale = scale / where(leaf > 0, sqrt(leaf), 1) if options.sigma is None else scale * leaf
    scales = {leaf: scale for leaf in topological_order([output]) if leaf.is_input and leaf.text == RESIDUAL_SCALE}
    [output] = substitute([output], scales)
    if program.target is not None and LOSSES[loss].has_scale:
        typed = {program.target: variable("target"), program.output: variable("prediction")}  # stay as they are
        [output] = NodeTable(_AS_IN_TEXTBOOKS).rebuild(substitute([output], typed))
        [output] = substitute([output], {leaf: node for node, leaf in typed.items()})
    return _formula_of_row(model, output, leaves)


def _formula_of_row(model: Model, output: Node, leaves: Mapping[str, Node]) -> Formula:
    """Return a graph of a row as a formula, in which random effects have canonical names."""
    program, effects = model.program, {leaves[name]: variable(canonical_name(name)) for name in model.effects}
    [output] = substitute([output], effects)
    leaves = {effects.get(leaf, leaf).text: effects.get(leaf, leaf) for leaf in leaves.values()}
    return Formula(output, leaves, text=model.text, source=program.source, notes=program.notes, shapes=model.shapes)


def row_weighting(loss: str, options: FitOptions) -> str | None:
    """Return the name for the weight or standard deviation that scales the residual of a row: its column or expression.

    Returns:
        None if the loss is not robust, or if no text determines them.
    """
    words, source = ("weight", options.weights) if options.sigma is None else ("sigma", options.sigma)
    if loss == "" or LOSSES[loss].of_ratio is None or not isinstance(source, str):
        return None
    return canonical_name(source) if parse_number(source) is None else f"{words} of rows"


def _explained_loss(
    model: Model, loss: str, options: FitOptions, classes: loading.Classes | None, point: Mapping[str, Any]
) -> tuple[Formula, tuple[str, ...]]:
    """Return the loss of a row as textbooks write it if that keeps its digits, else as fits compute it; and notes."""
    formula = row_loss_formula(model, loss, options, None if classes is None else len(classes))
    notes = _class_notes(model, classes)
    target = model.program.target
    if target is not None and classes is not None:
        target = equal(target, stack(*(constant(str(k)) for k in range(len(classes)))))
    plain = None if target is None else textbook_form(loss, target, model.program.output)
    if plain is None or not {*formula.variables} <= {*point}:
        return formula, notes
    textbook = _formula_of_row(model, plain, model.program.leaves)
    here = {name: point[name] for name in formula.variables}
    (value, gradient), (stable_value, stable_gradient) = (form.value_and_grad(here) for form in (textbook, formula))
    pairs = [(value, stable_value), *((gradient[name], stable_gradient[name]) for name in model.parameters)]
    if not all(np.allclose(*pair, rtol=_TOLERANCE, atol=0) for pair in pairs):
        return formula, notes
    computed = to_text(formula.output, share=False)
    return textbook, (*notes, f"fits compute this loss as {computed}, which keeps digits of very small probabilities")


def trace_model_row(
    text: str, file: DataSource, number: int, values: Mapping[str, Any], options: FitOptions
) -> TracedRow:
    """Return the loss of a row of a model, at the parameters that are given.

    Args:
        text: the text of the model.
        number: the number of the row; 1 is the first.
        values: values of parameters, by canonical names.

    Raises:
        ExpressionError, OptionError: as in a fit.
        DataError: for a row that does not exist, or with a missing or invalid cell.
    """
    model = Model.parse(text, file.names, values)
    if model.program.convolutions:
        raise OptionError("`convolve` reads all rows, so a row alone has no loss; save the fit, and trace that")
    loading.check_parameter_names(values, model)
    loss = choose_loss(model, options)
    if model.level_columns:
        labels = file.load((), drop_missing=True, labels=model.level_columns).labels
        model = model.with_levels({name: loading.distinct_levels(each.levels(name)) for name, each in labels.items()})
        values = model.expand_values(ParameterValues(values, {}, {})).start
    point, classes = _read_row(file, number, model, None)
    model = model.resolve(values, None if classes is None else len(classes))
    point |= values
    formula, notes = _explained_loss(model, loss, options, classes, point)
    scale = ("the residual scale (theta of counts) is 1; fits estimate it",) if loss and LOSSES[loss].has_scale else ()
    return TracedRow(formula, point, model.parameters, (*notes, *scale))


def trace_fit_row(fit: FittedModel, file: DataSource, number: int, values: Mapping[str, Any]) -> TracedRow:
    """Return the loss of a row at the parameters of a fit.

    Args:
        number: the number of the row; 1 is the first.
        values: values of parameters that replace the fitted ones.

    Raises the exceptions of `trace_model_row`.
    """
    model = fit.parsed_model
    loading.check_parameter_names(values, model)
    options = FitOptions(loss=fit.loss_name or None, scale=fit.scale, huber_delta=fit.huber_delta)
    options = replace(options, weights=fit.settings.weights, sigma=fit.settings.sigma)
    loss = choose_loss(model, options)
    weighting = row_weighting(loss, options)
    spreads = {}
    if weighting is not None and fit.settings.weighting is not None:
        spreads[weighting] = loading.weighting_graph(fit.settings.weighting, "weights or sigma", file.names)
    further = leaf_names([*spreads.values()])
    modes = {name: effect.modes for name, effect in fit.random_effects.items()}
    point, classes = _read_row(file, number, model, fit.classes, further, modes)
    free = tuple(name for name in model.parameters if name not in fit.fixed)
    values = model.expand_values(ParameterValues(values, {}, {})).start
    point |= {**fit.parameters, **fit.fixed, **values}
    values = {name: float(evaluate([graph], point)[0]) for name, graph in spreads.items()}
    point = {name: value for name, value in point.items() if name in model.columns or name not in further} | values
    formula, notes = _explained_loss(model, loss, options, classes, point)
    errors = fit.settings.spread_graphs(file.names) or {}
    if fit.settings.x_sigma or (errors and errors[""].op is stack):
        notes = (*notes, "the fit divides residuals by errors of x, or of each target, which this loss leaves out")
    return TracedRow(formula, point, free, notes)


def _read_row(
    file: DataSource,
    number: int,
    model: Model,
    classes: loading.Classes | None,
    further: Collection[str] = (),
    modes: Mapping[str, Mapping[str, float]] = {},
) -> tuple[dict[str, Any], loading.Classes | None]:
    """Return the values of a row in the columns of a model and in further columns of numbers, and the classes.

    The value of a class column is its position among the classes. If the classes are not known, all rows are read.

    Args:
        modes: the value of each random effect for each level.
    """
    class_columns = [] if model.class_column is None else [model.class_column]
    used = [name for name in model.columns if name in model.numeric and name not in class_columns]
    numbers = dict.fromkeys([*used, *further])
    row = file.row(number, numbers, [*model.label_columns, *class_columns])
    point: dict[str, Any] = {name: float(numbers_of(row, name)[0]) for name in numbers}
    labels = {}
    if model.class_column is not None and classes is None:
        name = model.class_column
        table = file.load((), drop_missing=True, labels=[name])
        classes = loading.check_classes(np.unique(table.labels[name].levels(name)), table.rows, name)
    for name in [*model.label_columns, *class_columns]:
        levels = classes if classes and name in class_columns else model.levels.get(name, ())
        label = labels_of(row, name).parsed(levels).values[0]
        if levels and label not in levels:
            place, listed = f"{file.name}: row {number}, column `{name}`", format_names([*map(str, levels)])
            raise DataError(f"{place}: {quoted_cell(str(label))} is not among {listed}")
        labels[name] = loading.check_labels([label], name, None)
        own = {leaf: modes[effect.parameter] for leaf, effect in model.effects.items() if effect.column == name}
        point |= {canonical_name(leaf): by_level[str(label)] for leaf, by_level in own.items()}
        if name in class_columns:
            point[name] = float(levels.index(label))
    indicators = loading.indicator_columns(model.matches, labels)
    return point | {name: float(indicator[0]) for name, indicator in indicators.items()}, classes


def _class_notes(model: Model, classes: loading.Classes | None) -> tuple[str, ...]:
    if classes is None or model.class_column is None:
        return ()
    listed = ", ".join(f"{label} = {k}" for k, label in enumerate(classes))
    return (f"`{model.class_column}` counts its classes: {listed}",)
