"""`autodiff train` and `autodiff compare`: fit the parameters of one model, or of several models, to data.

The options are fields of records, which are listed in tables; `compare` shares some of them with `train`. With `--by`,
`train` fits each group of rows separately; with `--page`, it writes a page that shows the progress of the fit.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli.cli import command_line as cli
from autodiff_cli.cli import environment as environments
from autodiff_cli.cli import inputs
from autodiff_cli.cli.command_line import DATA_HELP, Call, command, merge_assignments, output_option
from autodiff_cli.cli.environment import BadInput, Environment, ExitStatus, Output, errors_as_failure, open_data_files
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.language.errors import format_names
from autodiff_cli.options import Restriction, argument, at_least, exclusive, needs, option, option_fields, suffix
from autodiff_cli.system import check_writable, write_text
from autodiff_cli.training.options import ClusterError, ComparisonOptions, FigureOptions, FitOption, FitOptions

if TYPE_CHECKING:
    from autodiff_cli.data.files import DataSource
    from autodiff_cli.render.report import OutputGuard, Paper
    from autodiff_cli.training.fitting.progress import Recorder
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.optimizers import Epoch
    from autodiff_cli.training.result.fitted_model import FittedModel


_MODEL_HELP = "Model `target ~ prediction`, or the loss of a row; - reads it from standard input, @FILE from a file."

_DRAWS = suffix(".csv", ".parquet", ".nc")
_PAGE = suffix(".html", ".htm", "")
_GROUPS = suffix(".csv", "", hint="; --by writes a row for each group")
_ESTIMATES = suffix(".csv", ".tex", ".md", hint="; --save saves the model")

# The options that need a single fit on this machine, or a table of several fits.
_TRAIN_RESTRICTIONS = (
    *exclusive("by", ("save", "page", "every", "draws"), "it fits every group, and the other needs a single fit"),
    *exclusive("page", ["laplace"], "it shows single curves"),
    *exclusive("page", ["cluster"], "it needs rows on this machine"),
    needs("draws", "posterior", "--draws needs --posterior N, the number of draws"),
    *(Restriction(k, lambda x: not x.get("plot"), f"--{k} needs --plot FILE") for k in option_fields(FigureOptions)),
)


@command(*_TRAIN_RESTRICTIONS, options=FitOptions, reading=FileOptions, figure=FigureOptions)
def train(
    call: Call,
    model: str = argument("MODEL", _MODEL_HELP),
    data: list[str] = argument("DATA", DATA_HELP),
    *,
    options: FitOptions,
    reading: FileOptions,
    figure: FigureOptions,
    fixed: list[str] | None = None,
    bounds: list[str] | None = None,
    derive: list[str] | None = None,
    x_sigma: list[str] | None = None,
    save: str | None = output_option("--save MODEL.json", "Save the fitted model for `predict`.", suffix(".json", "")),
    draws: str | None = output_option("--draws FILE", "Write the draws of --posterior (.csv, .parquet, .nc).", _DRAWS),
    page: str | None = output_option("--page FILE.html", "Write a page that shows the fit learning.", _PAGE),
    plot: str | None = output_option("--plot [FILE]", "Plot in the terminal, or to FILE (.svg, .pdf, .png, .html)."),
    by: str | None = option("--by COLUMN", "Fit each group of rows separately, by labels in COLUMN.", group="Model"),
    output: str | None = output_option("-o, --output FILE", "Write the table of parameters to FILE (.csv, .tex, .md)."),
    every: int | None = output_option("--every N", "Print every N-th epoch.", at_least(1)),
) -> Output:
    """Fit the parameters of a model to data.

    A name in the model is a column if DATA has a column of that name, else a parameter. To give a parameter a starting
    value, use an option of its name (default: 1 for numbers, random for arrays). The default method is least squares by
    Levenberg-Marquardt, with standard errors. Neural networks are trained by adam.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x) + c" decay.csv
      autodiff train "y ~ a*exp(-b*x)" decay.csv --a 2 --b 0.5 --sigma error
      autodiff train "y ~ a*exp(-b*x)" decay.csv --optimizer adam --page fit.html
      autodiff train "y ~ a*x^n" growth.tsv.gz --fix n=2 --json
      autodiff train "y ~ a*exp(-b*x)" sites.csv --by site -o parameters.csv
      autodiff train "y ~ a[site]*exp(-b*x)" sites.csv
      autodiff train "y ~ sigmoid(a*x + b)" clicks.csv --loss bce
      autodiff train "y ~ f*exp(-x/s) + (1-f)" mix.csv --bounds "0 < f < 1"
      autodiff train "y ~ a*x + b" big.parquet --optimizer adam --batch-size 256
      autodiff train "y ~ mlp(x, [32])" sine.csv --validation 0.2 --patience 50
      autodiff train "label ~ softmax(mlp(x, [8]))" labels.csv --save labels.json
      cat decay.csv | autodiff train "log(y) ~ a - b*x" - --drop-missing
    """
    from autodiff_cli.render.fit import fit_report
    from autodiff_cli.render.report import combine_reports
    from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
    from autodiff_cli.training.objective.parameters import parse_bounds
    from autodiff_cli.training.objective.preparation import hyperparameters

    environment = call.environment
    model, *data = cli.model_first([model, *data])
    options = dataclasses.replace(
        options,
        fixed=_fixed_parameters(fixed or (), call.values),
        bounds=parse_bounds(bounds or ()),
        derive=derive,
        x_sigma=merge_assignments({}, x_sigma or (), "--x-sigma"),
        plot=None if plot is None else True,
    )
    files = _FitFiles(save, page, plot, draws, output, figure)
    if figure.panels == "posterior" and (options.posterior is None or by is not None):
        raise BadInput("--panels posterior needs --posterior N, the number of draws, and a single fit")
    files.check(has_groups=by is not None)
    with environments.hint_about_missing_cells("use --drop-missing to leave such rows out"):
        written = [*files.paths, options.checkpoint]
        source = open_data_files(data, environment, reading, on_disk=options.stream, outputs=written)
        text, options = tie_fixed_parameters(inputs.read_text(model, environment), source.names, options)
        named_parameters = (*call.values, *options.parameters.names)
        parsed_model = Model.parse(text, source.names, named_parameters)
        parsed_model = parsed_model.with_parameters(hyperparameters(options.parsed_priors))
        _check_names(named_parameters, [parsed_model], call, source.names)
        options = dataclasses.replace(options, start=inputs.constant_values(call.values))
        if by is not None:
            return _fit_by_group(parsed_model, source, by, options, environment, files)
        run = _run_fit(parsed_model, source, options, environment, files, every)
    environment.note(*source.notes)
    # Remarks about the model are below its title, and the failure is on standard error.
    known_remarks = (*parsed_model.notes, *parsed_model.warnings, run.fit.failure)
    fit_text = fit_report(run.fit, save is not None, known_remarks)
    if plot == "":
        from autodiff_cli.render.plots import plot_report

        fit_text = combine_reports(fit_text, plot_report(run.fit))
    return Output(fit_text, run.status, after_write=lambda: files.write(run, environment), guard=run.guard)


class _FitRun(NamedTuple):
    """A fit that has ended.

    Attributes:
        fit: the fit.
        status: the exit status; it does not tell whether the fit failed.
        page: returns the page that shows the fit learning; None if its epochs are not recorded.
        guard: lets the fit continue if standard output is closed, and its files be written.
    """

    fit: FittedModel
    status: ExitStatus
    page: Callable[[], str] | None
    guard: OutputGuard | None


@dataclass(frozen=True, slots=True)
class _FitFiles:
    """The files that `train` is asked to write; None for others. An empty `plot` is a plot in the terminal."""

    save: str | None
    page: str | None
    plot: str | None
    draws: str | None
    output: str | None
    figure: FigureOptions

    @property
    def paths(self) -> list[str]:
        """The paths of the files, without standard output."""
        return [path for path in (self.save, self.page, self.plot, self.draws, self.output) if path and path != "-"]

    def check(self, *, has_groups: bool) -> None:
        """Raise an error if a file cannot be written, before the fit begins."""
        if has_groups and self.plot == "":
            raise BadInput("--by draws every group, so --plot needs a file, such as --plot groups.pdf")
        if self.plot:
            from autodiff_cli.render.plots import PLOT_FILE

            PLOT_FILE.require("--plot", self.plot)
        if (self.draws or "").lower().endswith(".nc") and not all(map(find_spec, ("arviz", "h5netcdf", "h5py"))):
            words = "--draws FILE.nc needs ArviZ: pip install arviz h5netcdf h5py"
            raise BadInput(f"{words}; FILE.csv and FILE.parquet do not")
        if self.output is not None:
            (_GROUPS if has_groups else _ESTIMATES).require("-o", self.output)
        for path in self.paths:
            with errors_as_failure(path):
                check_writable(path)

    def write(self, run: _FitRun, environment: Environment) -> None:
        """Write the files of a fit; of one that failed, only the page. Raises Failure for such a fit."""
        from autodiff_cli.render.fit_tables import estimates_text

        fit, draws = run.fit, run.fit.draws
        if self.page is not None and run.page is not None:
            text = run.page()
            _write_file(environment, self.page, "page of the fit written to", lambda path: write_text(path, text))
        if fit.failure and run.status is ExitStatus.DONE:
            missing = [f"{path} was not written" for path in self.paths if path != self.page]
            raise environments.Failure(". ".join([fit.failure, *missing]))
        if self.save is not None:
            _write_file(environment, self.save, "model saved to", fit.save)
        if self.draws is not None and draws:
            from autodiff_cli.training.fitting.posterior import save_draws

            _write_file(environment, self.draws, "draws written to", lambda path: save_draws(draws, path))
        if self.output is not None:
            rows = estimates_text(fit, self.output, environment.digits)
            _write_file(environment, self.output, "table of parameters written to", lambda path: write_text(path, rows))
        if self.plot and (self.figure.panels != "posterior" or draws):
            from autodiff_cli.render.plots import save_plot

            _write_file(environment, self.plot, "plot written to", lambda path: save_plot({"": fit}, path, self.figure))


def _run_fit(
    model: Model, source: DataSource, options: FitOptions, environment: Environment, files: _FitFiles, every: int | None
) -> _FitRun:
    """Fit a model while the table of its epochs is printed, or every N-th of them."""
    from autodiff_cli.render.progress import EpochTable, step_noun
    from autodiff_cli.render.report import OutputGuard
    from autodiff_cli.training.fitting.fit import Interrupted, fit_objective
    from autodiff_cli.training.fitting.minimization import choose_method
    from autodiff_cli.training.fitting.progress import Recorder
    from autodiff_cli.training.objective.cluster_connection import connected
    from autodiff_cli.training.objective.objective import Objective

    title = model.text, f"data: {source.name}, columns {format_names(model.columns)}", *model.notes, *model.warnings
    guard = OutputGuard(environment.stdout) if files.paths or options.checkpoint else None
    bar = environment.progress_bar(options.epochs)
    table = EpochTable(_progress_paper(environment, guard), title, every, bar)
    source.on_progress, status = bar.update_reading, ExitStatus.DONE
    with contextlib.ExitStack() as cluster_stack:  # it ends after the table, and after an interrupt is noted
        try:
            options = cluster_stack.enter_context(connected(options))
            objective = Objective.of(model, source, options)
            recorder = Recorder.for_objective(objective) if files.page is not None else None

            def observe(epoch: Epoch) -> None:
                table.add(epoch)
                if recorder is not None:
                    recorder.add(epoch)

            options = dataclasses.replace(options, on_epoch=observe)
            with errors_as_failure(str(options.checkpoint)) if options.checkpoint else contextlib.nullcontext():
                table.step_noun = step_noun(choose_method(options, objective))
                fit = fit_objective(objective, options, table.update, bar.update_draws)
        except Interrupted as interruption:
            fit, status = interruption.fit, ExitStatus.INTERRUPTED
            table.end()
            environment.note("interrupted; the report has the best parameters so far")
        except ClusterError as error:
            raise environments.Failure(str(error)) from error
        finally:
            table.end()
    fit = dataclasses.replace(fit, units=source.files[0].units)
    page = None if recorder is None else partial(learning_page, objective, recorder, fit, options, environment.digits)
    return _FitRun(fit, status, page, guard)


def _write_file(environment: Environment, path: str, words: str, write: Callable[[str], None]) -> None:
    """Write a file, and note that it is written."""
    with errors_as_failure(path):
        write(path)
    environment.note(f"{words} {path}")


def _fixed_parameters(assignments: Iterable[str], user_names: Mapping[str, str]) -> dict[str, str | None]:
    """Parse `--fix NAME[=VALUE]` into the text of the value by name; None if there is no value.

    Raises:
        BadInput: for another form, and for a name that has a starting value too.
    """
    from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, split_assignment

    fixed: dict[str, str | None] = {}
    for assignment in assignments:
        name, equals, text = split_assignment(assignment)
        if not (is_name(name) or is_level_name(name)) or (equals and not text) or "+-" in text or "±" in text:
            raise BadInput(f"--fix takes NAME or NAME=VALUE, such as --fix a=2, not `{assignment}`")
        name = canonical_name(name)
        if equals and name in user_names:
            raise BadInput(f"`{name}` is given two values: `{user_names[name]}` and, by --fix, `{text}`")
        fixed[name] = text or None
    return fixed


def _check_names(user_names: Iterable[str], models: Sequence[Model], call: Call, columns: Collection[str]) -> None:
    """Raise UnknownNameError for an option about a name that is neither a parameter nor a column of any model.

    Raises BadInput for a starting value that is a column of the data, or a range.

    Args:
        user_names: the names.
        models: the models.
        call: the inputs of the command.
        columns: the columns of the data.
    """
    for name in user_names:
        text = call.values.get(name, "")
        if text in columns and name not in columns and not cli.explain_option(call.command, f"--{name}", text):
            raise BadInput(
                f"`{text}` is a column of the data; for another name in the model, use --column {name}={text}"
            )
        if not any(model.accepts(name) or name in model.columns for model in models):
            names = [*dict.fromkeys(name for model in models for name in model.parameters)]
            bound = [name for model in models for name in model.program.bound]
            missing = "model has no parameter" if len(models) == 1 else "models have no parameter"
            raise inputs.unknown_name_error(name, names, bound, missing, call)
        if {*":=<>"} & {*text} or ".." in text:
            value = "LOW:HIGH" if {*"=<>"} & {*text} else text.replace("..", ":")
            raise BadInput(f"`{name}` starts at a number, not at `{text}`; for bounds, use --bounds {name}={value}")


def _progress_paper(environment: Environment, guard: OutputGuard | None) -> Paper:
    """Return the paper for the table of epochs; with `--json` it is standard error.

    With a guard, the fit continues if standard output is closed early or is full.
    """
    from autodiff_cli.render.report import OutputGuard, Paper

    if environment.json:  # the fit continues even if standard error is closed
        return Paper(environment.stderr, environment.digits, OutputGuard(environment.stderr))
    return environment.paper() if environment.terminal else Paper(environment.stdout, environment.digits, guard)


def _fit_by_group(
    model: Model, source: DataSource, by: str, options: FitOptions, environment: Environment, files: _FitFiles
) -> Output:
    """Fit every group of rows, and return the fits as a table, as CSV for a file, or as a document.

    Args:
        by: the column of the labels.
        files: the files for the table, by default standard output, and for a plot of all groups.
    """
    from autodiff_cli.render.fit_tables import groups_csv, groups_report
    from autodiff_cli.render.plots import save_plot
    from autodiff_cli.training.fitting.groups import fit_groups

    groups = fit_groups(model, source, by, options)
    environment.note(*source.notes)
    failed = [group for group in groups if group.failure]
    if failed:
        first = f"{failed[0].by}: {failed[0].failure}"
        environment.note(f"{len(failed)} of {len(groups)} groups failed; the first is {first}")
    environment.note(*model.notes, *model.warnings)
    report = groups_report(groups) if files.output is None else groups_csv(groups)
    status = ExitStatus.FAILED if len(failed) == len(groups) else ExitStatus.DONE

    def finish() -> None:
        fits = {f"{group.by}": group.fit for group in groups if group.fit is not None and group.fit.plot is not None}
        plots = {name: dataclasses.replace(fit, units=source.files[0].units) for name, fit in fits.items()}
        if files.plot and plots:
            _write_file(environment, files.plot, "plot written to", lambda path: save_plot(plots, path, files.figure))

    return Output(report, status, path=files.output, after_write=finish)


def learning_page(
    objective: Objective, recorder: Recorder, fit: FittedModel, options: FitOptions, digits: int | None
) -> str:
    """Return the page of `train --page`: the progress of the fit, and the trace of the first row's loss at its end.

    Raises:
        BadInput: for a graph that is too large to draw.
    """
    import numpy as np

    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.render.fit import verdict_text
    from autodiff_cli.render.html_page import FitRecording, fit_page, sample_rows
    from autodiff_cli.render.layout import GraphTooLargeError
    from autodiff_cli.training.fitting.posterior import parameter_draws
    from autodiff_cli.training.fitting.row_loss import row_loss_formula, row_weighting
    from autodiff_cli.training.objective.model import other_networks
    from autodiff_cli.training.rows import WEIGHT

    classes = None if objective.classes is None else len(objective.classes)
    scaled = options if fit.scale is None else dataclasses.replace(options, scale=fit.scale)
    formula = row_loss_formula(objective.model, objective.loss, scaled, classes)
    row_indices = sample_rows(objective.rows)
    table = objective.data.select_rows(row_indices).to_table().columns
    columns = {name: table[name] for name in objective.model.row_leaves if name in table}
    weighting = row_weighting(objective.loss, options)
    if weighting is not None:
        columns[weighting] = table[WEIGHT] if options.sigma is None else 1 / np.sqrt(table[WEIGHT])
    epochs = recorder.trajectory(objective, fit)
    point: dict[str, Any] = {name: float(values[0]) for name, values in columns.items()}
    point |= {**fit.parameters, **fit.fixed}
    values = {name: value for name, value in {**fit.parameters, **fit.fixed}.items() if not name.startswith("mlp.")}
    is_free = not any(name.startswith("mlp.") for name in fit.fixed)
    networks = {}
    for key, model in (other_networks(objective.model, values, classes) if is_free else {}).items():
        start = point | {name: np.full(shape, 0.1) for name, shape in model.shapes.items() if name.startswith("mlp.")}
        loss = row_loss_formula(model, objective.loss, scaled, classes)
        networks[key] = trace(loss, {name: start[name] for name in loss.variables}, model.parameters), model
    loss_trace = trace(formula, {name: point[name] for name in formula.variables}, objective.parameters)
    draws = parameter_draws(objective, fit.draws) if fit.draws else None
    verdict = verdict_text(fit, digits)
    numbers = objective.numbers_in_data(row_indices)
    numbers = row_indices if numbers is None else numbers
    recording = FitRecording(loss_trace, objective, fit, epochs, columns, numbers, networks, draws, verdict)
    try:
        return fit_page(recording, digits)
    except GraphTooLargeError as error:
        raise BadInput(f"--page: {error}") from error


@command(
    is_included=lambda option: not isinstance(option, FitOption) or option.compared,
    options=ComparisonOptions,
    reading=FileOptions,
)
def compare(
    call: Call,
    data: str = argument("DATA", DATA_HELP),
    models: list[str] = argument("MODEL...", "Two or more models of the same target, as for `train`."),
    *,
    bounds: list[str] | None = None,
    options: ComparisonOptions,
    reading: FileOptions,
) -> Output:
    """Compare models of the same data.

    Each model is fitted to the same rows. The table lists the models by AICc, best first, with the cross-validated mean
    loss. If one model is a special case of another, an F-test or a likelihood-ratio test compares the two. An option
    named after a parameter sets its starting value in every model that has it.

    \b
    Examples:
      autodiff compare decay.csv "y ~ a*exp(-b*x)" "y ~ a/(1 + b*x)"
      autodiff compare counts.csv "n ~ a" "n ~ exp(a + b*t)" --family poisson
      autodiff compare big.parquet "y ~ a + b*x" "y ~ a + b*x + c*x^2" --folds 0
    """
    from autodiff_cli.render.fit_tables import comparison_report
    from autodiff_cli.training.fitting.comparison import compare_models
    from autodiff_cli.training.objective.parameters import parse_bounds
    from autodiff_cli.training.objective.preparation import parse_model

    environment = call.environment
    texts, files = cli.split_models([data, *models])
    if len(files) == 1:
        [data], models = files, texts
    with environments.hint_about_missing_cells("use --drop-missing to leave such rows out"):
        texts = [inputs.read_text(model, environment) for model in models]
        source = open_data_files([data], environment, reading)
        names = tuple(source.names), frozenset(call.values)
        _check_names(call.values, [parse_model(text, *names) for text in texts], call, source.names)
        start = inputs.constant_values(call.values)
        options = dataclasses.replace(options, start=start, bounds=parse_bounds(bounds or ()))
        comparison = compare_models(texts, source, options)
    environment.note(*source.notes)
    failed = all(model_fit.fit.failure for model_fit in comparison.models)
    return Output(comparison_report(comparison), ExitStatus.FAILED if failed else ExitStatus.DONE)
