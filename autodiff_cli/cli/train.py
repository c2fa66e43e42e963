"""`autodiff train` and `autodiff compare`: fit the parameters of one model, or of several models, to data.

The options that are fields of records stand in tables; `compare` shares some of them with `train`. With `--by`, `train`
fits each group of rows separately; with `--page`, it writes a page that shows the progress of the fit.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodiff_cli.cli.environment import (
    BadInput,
    Call,
    Environment,
    ExitStatus,
    Failure,
    Output,
    errors_as_bad_input,
    errors_as_failure,
    open_data_files,
)
from autodiff_cli.cli.shared_options import (
    DATA_HELP,
    FILE_OPTIONS,
    STREAM_OPTION,
    Assignments,
    Digits,
    Json,
    with_option_records,
)
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.training.losses import FAMILIES, HUBER_DELTA, LOSSES
from autodiff_cli.training.options import (
    DEFAULT_EPOCHS,
    DEFAULT_LEARNING_RATE,
    METHODS,
    OPTIMIZERS,
    SCHEDULES,
    CheckpointOptions,
    DataOptions,
    LossOptions,
    MethodOptions,
    Options,
    ParameterOptions,
    ReportOptions,
    ValidationOptions,
    join_words,
)

if TYPE_CHECKING:
    from autodiff_cli.data.files import DataSource
    from autodiff_cli.render.progress import EpochTable
    from autodiff_cli.training.fitting.progress import Recorder
    from autodiff_cli.training.methods.gradient_descent import Epoch, EpochCallback
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.result.fitted_model import FittedModel


# The options of gradient methods that are fields of records, by the name of the field.
DESCENT_OPTIONS: dict[str, Any] = {
    "lr_schedule": Annotated[
        str,
        typer.Option(
            "--lr-schedule",
            metavar="NAME",
            help=f"Learning rate schedule: {join_words([form for form, _ in SCHEDULES.values()])}.",
        ),
    ],
    "clip_norm": Annotated[
        float | None,
        typer.Option(
            "--clip-norm", metavar="LENGTH", help="Maximum norm of the gradient; longer gradients are scaled down."
        ),
    ],
    "tolerance": Annotated[
        float | None,
        typer.Option(
            "--tolerance", metavar="SHARE", help="Stop when the relative decrease of the loss is at most this."
        ),
    ],
    "l1": Annotated[
        float, typer.Option("--l1", metavar="FACTOR", help="L1 penalty: FACTOR times the sum of |parameter|.")
    ],
    "l2": Annotated[
        float, typer.Option("--l2", metavar="FACTOR", help="L2 penalty: FACTOR times the sum of parameter^2.")
    ],
    "min_delta": Annotated[
        float,
        typer.Option(
            "--min-delta", metavar="D", help="Minimum decrease of the loss that --patience counts as progress."
        ),
    ],
}

CHECKPOINT_OPTIONS: dict[str, Any] = {
    "checkpoint": Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="Write the state of the fit to a file, once a second."),
    ],
    "checkpoint_every": Annotated[
        int | None,
        typer.Option("--checkpoint-every", metavar="N", help="Write the checkpoint after every N epochs instead."),
    ],
    "resume": Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Continue from a checkpoint; --epochs is the total.")
    ],
}


_MODEL_HELP = "Model `target ~ prediction`, or the loss of a row; - reads it from standard input, @FILE from a file."
_GRADIENT_METHODS = join_words(OPTIMIZERS)

# The options that are fields of records, by the name of the field. `compare` has some of them too.
FIT_OPTIONS: dict[str, Any] = {
    "optimizer": Annotated[
        str, typer.Option("--optimizer", metavar="NAME", help=f"Optimization method: {join_words(METHODS)}.")
    ],
    "loss": Annotated[
        str | None,
        typer.Option(
            "--loss",
            metavar="NAME",
            help=f"Loss function: {join_words(LOSSES)} (default: mse; cross_entropy for classes).",
        ),
    ],
    "scale": Annotated[
        float | None,
        typer.Option("--scale", metavar="S", help="Residual scale for robust losses (default: estimated)."),
    ],
    "huber_delta": Annotated[
        float | None,
        typer.Option(
            "--huber-delta",
            metavar="D",
            help=f"Threshold of the Huber loss, in units of the scale (default: {HUBER_DELTA:g}).",
        ),
    ],
    "learning_rate": Annotated[
        float | None,
        typer.Option(
            "--lr", metavar="RATE", help=f"Learning rate of {_GRADIENT_METHODS} (default: {DEFAULT_LEARNING_RATE:g})."
        ),
    ],
    "epochs": Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            help=f"Maximum number of epochs (default: {DEFAULT_EPOCHS} for gradient methods, else until convergence).",
        ),
    ],
    "batch_size": Annotated[
        int | None,
        typer.Option("--batch-size", metavar="ROWS", help="Rows per step of gradient methods (default: all)."),
    ],
    "starts": Annotated[
        int | None,
        typer.Option("--starts", metavar="N", help="Fit from N random starting points and keep the best result."),
    ],
    "seed": Annotated[int, typer.Option("--seed", metavar="N", help="Seed for the random number generator.")],
    "weights": Annotated[
        str | None, typer.Option("--weights", metavar="COLUMN", help="Column with weights of the squared residuals.")
    ],
    "sigma": Annotated[
        str | None,
        typer.Option(
            "--sigma", metavar="COLUMN", help="Column with standard deviations of the target (weights 1/sigma^2)."
        ),
    ],
    "absolute_sigma": Annotated[
        bool, typer.Option("--absolute-sigma", help="Do not rescale standard errors by the residuals.")
    ],
    "validation": Annotated[
        float | None,
        typer.Option("--validation", metavar="FRACTION", help="Fraction of the rows to hold out for validation."),
    ],
    "patience": Annotated[
        int | None,
        typer.Option("--patience", metavar="N", help="Stop when the validation loss has not fallen for N epochs."),
    ],
    "family": Annotated[
        str | None,
        typer.Option(
            "--family", metavar="NAME", help=f"Distribution of the target given the prediction: {join_words(FAMILIES)}."
        ),
    ],
    "likelihood": Annotated[
        bool, typer.Option("--likelihood", help="Treat MODEL as each row's negative log-likelihood.")
    ],
    "confidence": Annotated[
        float,
        typer.Option("--confidence", metavar="LEVEL", help="Confidence level of intervals: 0.95, or 95 for percent."),
    ],
    "profile": Annotated[bool, typer.Option("--profile", help="Also compute profile-likelihood intervals.")],
    "bootstrap": Annotated[
        int | None,
        typer.Option("--bootstrap", metavar="N", help="Also compute intervals from N bootstrap samples, such as 1000."),
    ],
    "diagnosis": Annotated[
        bool, typer.Option("--diagnose", help="Check for inactive units and for vanishing or exploding gradients.")
    ],
    "recompute_every": Annotated[
        int | None,
        typer.Option(
            "--recompute-every", metavar="K", help="Store only every K-th layer's values: less memory, more time."
        ),
    ],
    "backend": Annotated[
        str,
        typer.Option(
            "--backend", metavar="auto|numpy|llvm", help="Backend (default: compiled kernels where they are faster)."
        ),
    ],
    "threads": Annotated[
        int | None, typer.Option("--threads", metavar="N", help="Maximum number of threads (default: all cores).")
    ],
    "drop_missing": Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with empty, nan or infinite cells.")
    ],
    "no_columns": Annotated[bool, typer.Option("--no-columns", help="Allow a model that uses no column of DATA.")],
}


@with_option_records(
    {**FIT_OPTIONS, **DESCENT_OPTIONS, **CHECKPOINT_OPTIONS, **STREAM_OPTION, **FILE_OPTIONS},
    rows=DataOptions,
    losses=LossOptions,
    method=MethodOptions,
    validation_options=ValidationOptions,
    report=ReportOptions,
    checkpoint_options=CheckpointOptions,
    reading=FileOptions,
)
def train(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False)],
    data: Annotated[list[str], typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)],
    *,
    rows: DataOptions,
    losses: LossOptions,
    method: MethodOptions,
    validation_options: ValidationOptions,
    report: ReportOptions,
    checkpoint_options: CheckpointOptions,
    reading: FileOptions,
    assignments: Assignments = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix", metavar="NAME[=VALUE]", help="Fix a parameter at its start or at VALUE; b=2*a ties it to another."
        ),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", metavar="NAME=LOW:HIGH", help='Bounds of a parameter; also written as "0 < a < 1".'),
    ] = None,
    derive: Annotated[
        list[str] | None,
        typer.Option(
            "--derive", metavar="NAME=EXPR", help="Also compute a function of the parameters with its standard error."
        ),
    ] = None,
    x_sigma: Annotated[
        list[str] | None,
        typer.Option("--x-sigma", metavar="NAME=COLUMN", help="Standard deviations of a predictor; needs --sigma."),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="MODEL.json", help="Save the fitted model to a file for `predict`.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE.html", help="Write a page that shows the fit learning.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="[FILE]", help="Plot the fit in the terminal, or to FILE (.svg, .png, .html)."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Fit each group of rows with equal labels separately.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE.csv", help="Write the table of --by to a file.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS|local[:N]",
            help="Compute on a Dask cluster, or in N processes on this machine.",
        ),
    ] = None,
    every: Annotated[int | None, typer.Option("--every", min=1, metavar="N", help="Print every N-th epoch.")] = None,
    digits: Digits = None,
    json: Json = False,
) -> Output:
    """Fit the parameters of a model to data.

    A name in the model is a column if DATA has a column of that name, else a parameter. Give a parameter a starting
    value with an option of its name (default: 1 for numbers, random for arrays). The default method is least squares by
    Levenberg-Marquardt, with standard errors; neural networks use adam.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x) + c" decay.csv
      autodiff train "y ~ a*exp(-b*x)" decay.csv --a 2 --b 0.5 --sigma error
      autodiff train "y ~ a*exp(-b*x)" decay.csv --optimizer adam --epochs 500 --lr 0.05 --page learning.html
      autodiff train "y ~ a*x^n" growth.tsv.gz --fix n=2 --json
      autodiff train "y ~ a*exp(-b*x)" sites.csv --by site -o parameters.csv
      autodiff train "y ~ a[site]*exp(-b*x)" sites.csv
      autodiff train "y ~ sigmoid(a*x + b)" clicks.csv --loss bce
      autodiff train "y ~ f*exp(-x/s) + (1-f)" mix.csv --bounds "0 < f < 1" --bounds s=0:
      autodiff train "y ~ a*x + b" big.parquet --optimizer adam --lr 0.05 --batch-size 256
      autodiff train "y ~ mlp(x, [32], tanh)" sine.csv --epochs 2000 --validation 0.2 --patience 50 --diagnose
      autodiff train "species ~ softmax(mlp([a, b], [16], relu))" flowers.csv --save flowers.json
      cat decay.csv | autodiff train "log(y) ~ a - b*x" - --drop-missing
    """
    from autodiff_cli.cli import inputs
    from autodiff_cli.cli.command_line import merge_assignments
    from autodiff_cli.data.writing import check_writable
    from autodiff_cli.render.fit import fit_report
    from autodiff_cli.render.plots import check_plot_path, plot_report, save_plot
    from autodiff_cli.render.progress import step_noun
    from autodiff_cli.render.report import combine_reports
    from autodiff_cli.training.fitting.fit import Interrupted, fit_objective
    from autodiff_cli.training.fitting.inference import parse_quantities
    from autodiff_cli.training.fitting.optimization import choose_method
    from autodiff_cli.training.fitting.progress import Recorder
    from autodiff_cli.training.objective.cluster_connection import connect_cluster
    from autodiff_cli.training.objective.model import Model, tie_parameters
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.objective.parameters import parse_bounds
    from autodiff_cli.training.options import ClusterError

    call = Call.of(context)
    environment = call.environment
    if model == "-" and "-" in data:
        raise BadInput("MODEL and DATA cannot both be standard input")
    if cluster is not None and page is not None:
        raise BadInput(
            "--page needs the rows on this machine and cannot be combined with --cluster: leave one of them out"
        )
    if by is not None:
        check_group_options(save=save, page=page, plot=plot, every=every, cluster=cluster)
    elif output is not None:
        raise BadInput(
            "-o needs --by, which writes a table; to save the model, use --save; to save the report, use --json > FILE"
        )
    start_texts = merge_assignments(call.values, assignments or ())
    fixed_texts = _fixed_parameters(fix or (), start_texts)
    with errors_as_bad_input():
        parsed_bounds = parse_bounds(bounds or ())
        report = dataclasses.replace(report, derive=parse_quantities(derive or ()), plot=plot is not None)
        rows = dataclasses.replace(rows, x_sigma=merge_assignments({}, x_sigma or (), "--x-sigma"))
        if plot:
            check_plot_path(plot)
    status = ExitStatus.DONE
    for path in filter(None, (save, page, plot)):
        with errors_as_failure(path):
            check_writable(path)
    with errors_as_bad_input("use --drop-missing to leave such rows out"), contextlib.ExitStack() as cluster_stack:
        source = open_data_files(data, environment, reading, on_disk=rows.stream)
        ties = _pop_ties(fixed_texts)
        report = dataclasses.replace(report, derive={**{name: name for name in ties}, **report.derive})
        named_parameters = {**start_texts, **fixed_texts, **parsed_bounds}
        parsed_model = Model.parse(
            tie_parameters(inputs.read_text(model, environment), ties, source.names), source.names, named_parameters
        )
        _check_names(named_parameters, parsed_model, context)
        fixed = inputs.constant_values({name: text for name, text in fixed_texts.items() if text})
        values = ParameterOptions(
            inputs.constant_values(start_texts), dict.fromkeys(fixed_texts) | fixed, parsed_bounds
        )
        options = Options(values, rows, losses, method, validation_options, report, checkpoint_options)
        if cluster is not None:
            options.check_cluster()
        if by is not None:
            return fit_by_group(parsed_model, source, by, options, environment, output, digits, json)
        writes_files = any((save, page, plot, checkpoint_options.checkpoint))
        table = _epoch_table(environment, parsed_model, source.name, every, digits, json, method.epochs, writes_files)
        source.on_progress = table.update_reading
        try:
            options = dataclasses.replace(options, cluster=cluster_stack.enter_context(connect_cluster(cluster)))
            objective = Objective.of(parsed_model, source, options)
            recorder = None if page is None else Recorder.for_objective(objective)
            with errors_as_failure(checkpoint_options.checkpoint or ""):
                table.step_noun = step_noun(choose_method(options.method, objective))
                fit = fit_objective(objective, options, _observe_both(table, recorder), table.update)
        except Interrupted as interruption:
            fit = interruption.fit
            table.end()
            environment.note("interrupted; the report has the best parameters so far")
            status = ExitStatus.INTERRUPTED
        except ClusterError as error:
            raise Failure(str(error)) from error
        finally:
            table.end()
    for note in source.notes:
        environment.note(note)
    fit = dataclasses.replace(fit, origins=source.origins)

    def finish() -> None:
        if page is not None and recorder is not None:
            from autodiff_cli.data.writing import open_atomic_text

            text = learning_page(objective, recorder, fit, losses, digits)
            with errors_as_failure(page), open_atomic_text(page) as stream:
                stream.write(text)
            environment.note(f"page of the fit written to {page}")
        if fit.failure and status is ExitStatus.DONE:
            raise Failure(fit.failure if save is None else f"{fit.failure}. {save} was not written")
        if save is not None:
            with errors_as_failure(save):
                fit.save(save)
            environment.note(f"model saved to {save}")
        if plot:
            with errors_as_failure(plot):
                save_plot(fit, plot)
            environment.note(f"plot written to {plot}")

    fit_text = fit_report(fit, digits, is_saved=save is not None)
    full_report = combine_reports(fit_text, plot_report(fit)) if plot == "" else fit_text
    return Output(full_report, json, status, after_write=finish)


def _observe_both(table: EpochTable, recorder: Recorder | None) -> EpochCallback:
    """Return an observer that passes every epoch to the table and to the recorder."""

    def add(epoch: Epoch) -> None:
        table.add(epoch)
        if recorder is not None:
            recorder.add(epoch)

    return add


def _fixed_parameters(assignments: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """Parse `--fix NAME[=VALUE]` into the text of the value by name; empty if there is no value.

    Raises:
        BadInput: for another form, and for a name that has a starting value too.
    """
    from autodiff_cli.cli.command_line import split_assignment
    from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name

    fixed_texts = {}
    for assignment in assignments:
        name, equals, text = split_assignment(assignment)
        if not (is_name(name) or is_level_name(name)) or (equals and not text):
            raise BadInput(f"--fix takes NAME or NAME=VALUE, such as --fix a=2, not `{assignment}`")
        name = canonical_name(name)
        if equals and name in given:
            raise BadInput(f"`{name}` is given two values: `{given[name]}` and, by --fix, `{text}`")
        fixed_texts[name] = text
    return fixed_texts


def _pop_ties(fixed_texts: dict[str, str]) -> dict[str, str]:
    """Remove and return those of `--fix NAME=EXPR` whose value is an expression of other parameters."""
    from autodiff_cli.expression import parse
    from autodiff_cli.training.objective.parameters import PARAMETERS_LIKE_CONSTANTS

    def reads_others(text: str) -> bool:
        if "[" in text and not text.lstrip().startswith("["):  # a[north], which `tie_parameters` can read
            return True
        return bool(parse(text, variables=PARAMETERS_LIKE_CONSTANTS).variables)

    return {name: fixed_texts.pop(name) for name, text in [*fixed_texts.items()] if text and reads_others(text)}


def _check_names(given: Iterable[str], model: Model, context: typer.Context) -> None:
    """Raise UnknownNameError for an option about a name that is neither a parameter nor a column of the model."""
    from autodiff_cli.cli import inputs

    for name in given:
        if not model.accepts(name) and name not in model.columns:
            bound = model.program.source.names.values()
            raise inputs.unknown_name_error(name, model.parameters, bound, "model has no parameter", context)


def _epoch_table(
    environment: Environment,
    model: Model,
    source: str,
    every: int | None,
    digits: int | None,
    json: bool,
    epochs: int | None,
    writes_files: bool,
) -> EpochTable:
    """Return the live table of epochs; with `json` it is written to standard error.

    A fit that writes files (`writes_files`) continues if standard output is closed early.
    """
    from autodiff_cli.render.progress import EpochTable, ProgressBar, columns_text
    from autodiff_cli.render.report import BrokenPipeTolerantPaper, Paper

    title = model.text, f"data: {source}, {columns_text(model.columns)}", *model.warnings
    plain = BrokenPipeTolerantPaper if writes_files else Paper
    if json or not environment.terminal:
        return EpochTable(plain(environment.stderr if json else environment.stdout), title, every, digits)
    bar = ProgressBar(environment.stdout, environment.width, environment.colour, epochs, environment.clock)
    return EpochTable(environment.paper(), title, every, digits, bar)


def check_group_options(**given: str | int | None) -> None:
    """Raise BadInput for an option that needs a single fit and was given together with --by."""
    for name, value in given.items():
        if value is not None:
            raise BadInput(f"--{name} needs a single fit, but --by fits every group: leave one of them out")


def fit_by_group(
    model: Model,
    source: DataSource,
    by: str,
    options: Options,
    environment: Environment,
    output: str | None,
    digits: int | None,
    json: bool,
) -> Output:
    """Fit every group of rows, and return the fits as a table, as CSV for a file, or as a document.

    Args:
        model: the model.
        source: the data.
        by: the column of the labels.
        options: the options of the fits.
        environment: the streams.
        output: the file to write; None for standard output.
        digits: the number of digits to show.
        json: whether to write JSON.
    """
    from autodiff_cli.render.fit_tables import groups_csv, groups_report
    from autodiff_cli.training.fitting.groups import fit_groups

    groups = fit_groups(model, source, by, options)
    for note in source.notes:
        environment.note(note)
    failed = [group for group in groups if group.failure]
    if failed:
        first = f"{failed[0].by}: {failed[0].failure}"
        environment.note(f"{len(failed)} of {len(groups)} groups failed; the first is {first}")
    for warning in model.warnings:
        environment.note(warning)
    report = groups_report(groups, digits) if output is None else groups_csv(groups)
    status = ExitStatus.FAILED if len(failed) == len(groups) else ExitStatus.DONE
    return Output(report, json, status, path=output)


def learning_page(
    objective: Objective, recorder: Recorder, fit: FittedModel, losses: LossOptions, digits: int | None
) -> str:
    """Return the page of `train --page`: the progress of the fit, and the trace of the first row's loss at its end.

    Raises:
        BadInput: for a graph that is too large to draw.
    """
    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.render.html_page import FitRecording, fit_page, sample_rows
    from autodiff_cli.render.layout import GraphTooLargeError
    from autodiff_cli.training.fitting.row_loss import row_loss_formula

    classes = None if objective.classes is None else len(objective.classes)
    scaled_losses = losses if fit.scale is None else dataclasses.replace(losses, scale=fit.scale)
    formula = row_loss_formula(objective.model, objective.loss, scaled_losses, classes)
    row_indices = sample_rows(objective.rows)
    table = objective.data.select_rows(row_indices).to_table().columns
    columns = {name: table[name] for name in objective.model.row_leaves if name in table}
    epochs = recorder.trajectory(objective, fit)
    point: dict[str, Any] = {name: float(values[0]) for name, values in columns.items()}
    point |= {**fit.parameters, **fit.fixed}
    recording = FitRecording(
        trace(formula, {name: point[name] for name in formula.variables}, objective.parameters),
        objective.model,
        objective.layout,
        epochs,
        columns,
        row_indices,
        objective.rows,
        objective.classes,
        fit.fixed,
    )
    try:
        return fit_page(recording, digits)
    except GraphTooLargeError as error:
        raise BadInput(f"--page: {error}") from error


_MODELS_HELP = "Two or more models of the same target, as for `train`."

# The options of `train` that apply to every model alike.
_SHARED_OPTIONS = (
    *("loss", "family", "likelihood", "scale", "huber_delta", "weights", "sigma", "absolute_sigma", "drop_missing"),
    *("optimizer", "epochs", "seed", "backend", "threads"),
)


@with_option_records(
    {**{name: FIT_OPTIONS[name] for name in _SHARED_OPTIONS}, **FILE_OPTIONS},
    rows=DataOptions,
    losses=LossOptions,
    method=MethodOptions,
    reading=FileOptions,
)
def compare(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)],
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=_MODELS_HELP, show_default=False)],
    *,
    rows: DataOptions,
    losses: LossOptions,
    method: MethodOptions,
    reading: FileOptions,
    assignments: Assignments = None,
    folds: Annotated[
        int, typer.Option("--folds", metavar="N", help="Number of random folds of cross-validation; 0 for none.")
    ] = 5,
    digits: Digits = None,
    json: Json = False,
) -> Output:
    """Compare models of the same data.

    Each model is fitted to the same rows. The table is sorted by AICc, best first, and has the cross-validated mean
    loss. If one model is a special case of another, an F-test or a likelihood-ratio test compares the two. An option
    named after a parameter gives its starting value in every model that has it.

    \b
    Examples:
      autodiff compare decay.csv "y ~ a*exp(-b*x)" "y ~ a*exp(-b*x) + c" "y ~ a/(1 + b*x)"
      autodiff compare counts.csv "n ~ exp(a)" "n ~ exp(a + b*t)" --family poisson --json
      autodiff compare big.parquet "y ~ a + b*x" "y ~ a + b*x + c*x^2" --folds 0
    """
    from autodiff_cli.cli import inputs
    from autodiff_cli.cli.command_line import merge_assignments
    from autodiff_cli.render.fit_tables import comparison_report
    from autodiff_cli.training.fitting.comparison import compare_models

    call = Call.of(context)
    environment = call.environment
    if [data, *models].count("-") > 1:
        raise BadInput("only one of DATA and the models can be standard input")
    start_texts = merge_assignments(call.values, assignments or ())
    with errors_as_bad_input("use --drop-missing to leave such rows out"):
        texts = [inputs.read_text(model, environment) for model in models]
        source = open_data_files([data], environment, reading)
        start = ParameterOptions(inputs.constant_values(start_texts))
        options = Options(start, dataclasses.replace(rows, no_columns=True), losses, method)
        comparison = compare_models(texts, source, options, folds)
    for note in source.notes:
        environment.note(note)
    failed = all(model_fit.fit.failure for model_fit in comparison.models)
    return Output(comparison_report(comparison, digits), json, ExitStatus.FAILED if failed else ExitStatus.DONE)
