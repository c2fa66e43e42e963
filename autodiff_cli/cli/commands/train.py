"""`autodiff train`: the parameters of a model, from data."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.commands.descent_options import DESCENT, KEEPING
from autodiff_cli.cli.declarations import Assignments, Digits, Json
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, ExitStatus, Failure
from autodiff_cli.cli.files import DATA_HELP, FILE_OPTIONS, STREAM
from autodiff_cli.cli.records import with_records
from autodiff_cli.data.options import FileOptions
from autodiff_cli.training.methods.optimizers import OPTIMIZERS
from autodiff_cli.training.objective.losses import FAMILIES, HUBER_DELTA, LOSSES
from autodiff_cli.training.options import (
    EPOCHS,
    LEARNING_RATE,
    METHODS,
    DataOptions,
    KeepingOptions,
    LossOptions,
    MethodOptions,
    Options,
    ParameterOptions,
    ReportOptions,
    ValidationOptions,
    listed,
)

if TYPE_CHECKING:
    from autodiff_cli.render.fits.epochs import EpochTable
    from autodiff_cli.training.methods.loop import Epoch, Observer
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.recording import Recorder

_MODEL = "`target ~ prediction`, or an expression that is the loss of a row; - and @FILE as for EXPR."
_GRADIENT_METHODS = listed(OPTIMIZERS)

# The options that are fields of records, by these names. `compare` has some of them too.
OPTIONS: dict[str, Any] = {
    "optimizer": Annotated[str, typer.Option("--optimizer", metavar="NAME", help=f"{listed(METHODS)}.")],
    "loss": Annotated[
        str | None,
        typer.Option(
            "--loss", metavar="NAME", help=f"{listed(LOSSES)}; by default mse, and cross_entropy for classes."
        ),
    ],
    "scale": Annotated[
        float | None,
        typer.Option("--scale", metavar="S", help="What robust losses measure residuals by; else they estimate it."),
    ],
    "huber_delta": Annotated[
        float | None,
        typer.Option("--huber-delta", metavar="D", help=f"Where huber bends, in scales; {HUBER_DELTA:g} by default."),
    ],
    "learning_rate": Annotated[
        float | None,
        typer.Option("--lr", metavar="RATE", help=f"The learning rate of {_GRADIENT_METHODS}; {LEARNING_RATE:g}."),
    ],
    "epochs": Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            help=f"The most passes over the data; {EPOCHS} for gradient methods, until convergence for the others.",
        ),
    ],
    "batch_size": Annotated[
        int | None,
        typer.Option("--batch-size", metavar="ROWS", help="Rows per step of gradient methods; all by default."),
    ],
    "starts": Annotated[
        int | None,
        typer.Option("--starts", metavar="N", help="Begin at N points, drawn as the seed decides; keep the best end."),
    ],
    "seed": Annotated[int, typer.Option("--seed", metavar="N", help="Of all that is drawn at random.")],
    "weights": Annotated[
        str | None, typer.Option("--weights", metavar="COLUMN", help="Weights of the squared residuals.")
    ],
    "sigma": Annotated[
        str | None, typer.Option("--sigma", metavar="COLUMN", help="Standard deviations instead: weights of 1/sigma^2.")
    ],
    "absolute_sigma": Annotated[
        bool, typer.Option("--absolute-sigma", help="Take sigma as it is: do not scale errors by the residuals.")
    ],
    "validation": Annotated[
        float | None,
        typer.Option("--validation", metavar="FRACTION", help="Hold out this share of the rows, to judge by."),
    ],
    "patience": Annotated[
        int | None,
        typer.Option("--patience", metavar="N", help="End when the validation loss has not fallen for N epochs."),
    ],
    "family": Annotated[
        str | None,
        typer.Option(
            "--family", metavar="NAME", help=f"The distribution of the target about the prediction: {listed(FAMILIES)}."
        ),
    ],
    "likelihood": Annotated[
        bool, typer.Option("--likelihood", help="The model, without ~, is minus the log-likelihood of a row.")
    ],
    "confidence": Annotated[
        float, typer.Option("--confidence", metavar="LEVEL", help="Of intervals: 0.95, or 95 as per cent.")
    ],
    "profile": Annotated[
        bool, typer.Option("--profile", help="Intervals by profile likelihood too, for models that are not linear.")
    ],
    "bootstrap": Annotated[
        int | None,
        typer.Option("--bootstrap", metavar="N", help="Intervals by fits to N draws of the rows too; 1000 are usual."),
    ],
    "diagnosis": Annotated[
        bool, typer.Option("--diagnose", help="Look for idle units, and for gradients that vanish or explode.")
    ],
    "recompute_every": Annotated[
        int | None,
        typer.Option(
            "--recompute-every", metavar="K", help="Keep every K-th layer's values only: slower, in less memory."
        ),
    ],
    "backend": Annotated[
        str,
        typer.Option("--backend", metavar="auto|numpy|llvm", help="What computes: compiled kernels where they pay."),
    ],
    "threads": Annotated[
        int | None, typer.Option("--threads", metavar="N", help="The most that compiled kernels use; all by default.")
    ],
    "drop_missing": Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with an empty, nan or infinite cell.")
    ],
    "no_columns": Annotated[
        bool, typer.Option("--no-columns", help="That the prediction reads no column of DATA is meant.")
    ],
}


@with_records(
    {**OPTIONS, **DESCENT, **KEEPING, **STREAM, **FILE_OPTIONS},
    rows=DataOptions,
    losses=LossOptions,
    method=MethodOptions,
    held_out=ValidationOptions,
    report=ReportOptions,
    keeping=KeepingOptions,
    reading=FileOptions,
)
def train(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL, show_default=False)],
    data: Annotated[list[str], typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)],
    *,
    rows: DataOptions,
    losses: LossOptions,
    method: MethodOptions,
    held_out: ValidationOptions,
    report: ReportOptions,
    keeping: KeepingOptions,
    reading: FileOptions,
    assignments: Assignments = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", metavar="NAME[=VALUE]", help="Keep a parameter at its start or a value; b=2*a ties it."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", metavar="NAME=LOW:HIGH", help='Keep a parameter between two values; "0 < a < 1" too.'),
    ] = None,
    derive: Annotated[
        list[str] | None,
        typer.Option("--derive", metavar="NAME=EXPR", help="Also a quantity of the parameters, with its error."),
    ] = None,
    x_sigma: Annotated[
        list[str] | None,
        typer.Option(
            "--x-sigma", metavar="NAME=COLUMN", help="Errors of a column that the model reads; needs --sigma."
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="MODEL.json", help="Write the model to a file, for `predict`.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE.html", help="Write a page that shows the fit learning.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="[FILE]", help="Draw data, fit, residuals, losses; to FILE.svg, png, html."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="One fit for each group of rows with the same label.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE.csv", help="With --by: write the table to a file.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS|local[:N]",
            help="Fold the rows on a Dask cluster, or by N processes on this machine: the same bits.",
        ),
    ] = None,
    every: Annotated[int | None, typer.Option("--every", min=1, metavar="N", help="Show every N-th epoch.")] = None,
    digits: Digits = None,
    json: Json = False,
) -> Answer:
    """Fit a model's parameters to data.

    A name of the model is a column if DATA has it, else a parameter; an option of its name says where it starts
    (by default numbers at 1, arrays at random). Least squares by Levenberg-Marquardt is the default, with standard
    errors; networks are fitted by adam.

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
    from autodiff_cli.cli import inputs, options
    from autodiff_cli.cli.data import bad_input, data_files, writing
    from autodiff_cli.cli.grouped import check_goes_with_groups, fitted_by_group
    from autodiff_cli.data.writing import check_writable
    from autodiff_cli.render.fits.report import fit_report
    from autodiff_cli.render.plots.files import check_picture, save_picture
    from autodiff_cli.training.bounds import limits
    from autodiff_cli.training.cluster.connecting import connected
    from autodiff_cli.training.errors import ClusterError
    from autodiff_cli.training.fit import Interrupted, fitted_objective
    from autodiff_cli.training.objective.model import Model, tied
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.recording import Recorder
    from autodiff_cli.training.result.derived import written

    call = Call.of(context)
    environment = call.environment
    if model == "-" and "-" in data:
        raise BadInput("MODEL and DATA cannot both be standard input")
    if cluster is not None and page is not None:
        raise BadInput("--page carries the rows, and --cluster leaves them where they are: leave one of them out")
    if by is not None:
        check_goes_with_groups(save=save, page=page, plot=plot, every=every, cluster=cluster)
    elif output is not None:
        raise BadInput("-o is for --by, which writes a table; --save keeps a model, --json > FILE a report")
    given = options.assignments(call.values, assignments or ())
    kept = _kept(fix or (), given)
    with bad_input():
        limited = limits(bounds or ())
        report = dataclasses.replace(report, derive=written(derive or ()), plot=plot is not None)
        rows = dataclasses.replace(rows, x_sigma=options.assignments({}, x_sigma or (), "--x-sigma"))
        if plot:
            check_picture(plot)
    status = ExitStatus.DONE
    for path in filter(None, (save, page, plot)):
        with writing(path):
            check_writable(path)
    with bad_input("--drop-missing leaves such rows out"), contextlib.ExitStack() as machines:
        file = data_files(data, environment, reading, on_disk=rows.stream)
        ties = _ties(kept)
        report = dataclasses.replace(report, derive={**{name: name for name in ties}, **report.derive})
        named = {**given, **kept, **limited}
        read = Model.read(tied(inputs.text_of(model, environment), ties, file.names), file.names, named)
        _check_names(named, read, context)
        fixed = inputs.constant_values({name: text for name, text in kept.items() if text})
        values = ParameterOptions(inputs.constant_values(given), dict.fromkeys(kept) | fixed, limited)
        choices = Options(values, rows, losses, method, held_out, report, keeping)
        if cluster is not None:
            choices.check_on_cluster()
        if by is not None:
            return fitted_by_group(read, file, by, choices, environment, output, digits, json)
        goes_on = any((save, page, plot, keeping.checkpoint))
        table = _epoch_table(environment, read, file.name, every, digits, json, method.epochs, goes_on)
        file.listen = table.read
        try:
            choices = dataclasses.replace(choices, cluster=machines.enter_context(connected(cluster)))
            objective = Objective.of(read, file, choices)
            recorder = None if page is None else Recorder.of(objective)
            with writing(keeping.checkpoint or ""):
                fit = fitted_objective(objective, choices, _both(table, recorder), table.move)
        except Interrupted as interruption:
            fit = interruption.fit
            table.end()
            environment.note("interrupted; these are the best parameters so far")
            status = ExitStatus.INTERRUPTED
        except ClusterError as error:
            raise Failure(str(error)) from error
        finally:
            table.end()
    for note in file.notes:
        environment.note(note)
    fit = dataclasses.replace(fit, origins={name: origin.isoformat() for name, origin in file.origins.items()})

    def finish() -> None:
        if page is not None and recorder is not None:
            from autodiff_cli.cli.tracing.learning import learning_page
            from autodiff_cli.data.writing import replacing

            text = learning_page(objective, recorder, fit, losses, digits)
            with writing(page), replacing(page) as stream:
                stream.write(text)
            environment.note(f"{page} shows the fit learning")
        if fit.failure and status is ExitStatus.DONE:
            raise Failure(fit.failure if save is None else f"{fit.failure}. {save} was not written")
        if save is not None:
            with writing(save):
                fit.save(save)
            environment.note(f"saved to {save}")
        if plot:
            with writing(plot):
                save_picture(fit, plot)
            environment.note(f"drawn in {plot}")

    return Answer(fit_report(fit, digits, saved=save is not None, drawn=plot == ""), json, status, then=finish)


def _both(table: EpochTable, recorder: Recorder | None) -> Observer:
    """What is told of every epoch."""

    def add(epoch: Epoch) -> None:
        table.add(epoch)
        if recorder is not None:
            recorder.add(epoch)

    return add


def _kept(words: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The names of `--fix NAME[=VALUE]`, with the text of the value, empty where there is none."""
    from autodiff_cli.cli import options
    from autodiff_cli.language.lexer import canonical, is_name, is_name_of_level

    kept = {}
    for word in words:
        name, equals, text = options.partition(word)
        if not (is_name(name) or is_name_of_level(name)) or (equals and not text):
            raise BadInput(f"--fix takes NAME or NAME=VALUE, as --fix a=2, not `{word}`")
        name = canonical(name)
        if equals and name in given:
            raise BadInput(f"`{name}` is given two values: `{given[name]}` and, by --fix, `{text}`")
        kept[name] = text
    return kept


def _ties(kept: dict[str, str]) -> dict[str, str]:
    """Those of `--fix NAME=EXPR` whose value is an expression of other parameters, taken out of the others."""
    from autodiff_cli.front import parse

    def reads_others(text: str) -> bool:
        if "[" in text and not text.lstrip().startswith("["):  # a[north], which `tied` knows how to read
            return True
        return bool(parse(text).variables)

    return {name: kept.pop(name) for name, text in [*kept.items()] if text and reads_others(text)}


def _check_names(given: Iterable[str], model: Model, context: typer.Context) -> None:
    from autodiff_cli.cli import inputs

    for name in given:
        if not model.takes(name) and name not in model.columns:
            bound = model.program.source.names.values()
            raise inputs.unknown(name, model.parameters, bound, "model has no parameter", context)


def _epoch_table(
    environment: Environment,
    model: Model,
    source: str,
    every: int | None,
    digits: int | None,
    json: bool,
    epochs: int | None,
    goes_on: bool,
) -> EpochTable:
    """The live table, on standard error beside `json`. A fit for files `goes_on` where nobody reads it any more."""
    from autodiff_cli.render.fits.epochs import Bar, EpochTable, columns_in_words
    from autodiff_cli.render.paper import LastingPaper, Paper

    title = model.text, f"data: {source}, {columns_in_words(model.columns)}", *model.warnings
    plain = LastingPaper if goes_on else Paper
    if json or not environment.terminal:
        return EpochTable(plain(environment.stderr if json else environment.stdout), title, every, digits)
    bar = Bar(environment.stdout, environment.width, environment.colour, epochs, environment.clock)
    return EpochTable(environment.paper(), title, every, digits, bar)
