"""`autodiff train`: the parameters of a model, from data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Assignments, Digits, Json
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, ExitStatus, Failure

if TYPE_CHECKING:
    from autodiff_cli.render.fit import EpochTable
    from autodiff_cli.training.model import Model

_MODEL = "`target ~ prediction`, or an expression that is the loss of a row; - and @FILE as for EXPR."
_DATA = "CSV, TSV, gzip of either, or Parquet; - reads it from standard input."
_OPTIMIZER = "auto, lm, lbfgs, sgd, momentum, nesterov, rmsprop, adagrad, adam or adamw."
_EPOCHS = "The most passes over the data; 100 for sgd to adamw, until convergence for the others."


def train(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL, show_default=False)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=_DATA, show_default=False)],
    assignments: Assignments = None,
    optimizer: Annotated[str, typer.Option("--optimizer", metavar="NAME", help=_OPTIMIZER)] = "auto",
    loss: Annotated[
        str, typer.Option("--loss", metavar="NAME", help="mse, mae, huber or bce; cross_entropy for classes.")
    ] = "mse",
    learning_rate: Annotated[
        float, typer.Option("--lr", metavar="RATE", help="The learning rate of sgd to adamw.")
    ] = 0.01,
    epochs: Annotated[int | None, typer.Option("--epochs", metavar="N", help=_EPOCHS)] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", metavar="ROWS", help="Rows per step, for sgd to adamw; all by default."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of all that is drawn at random.")] = 0,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="COLUMN", help="Weights of the squared residuals.")
    ] = None,
    sigma: Annotated[
        str | None, typer.Option("--sigma", metavar="COLUMN", help="Standard deviations instead: weights of 1/sigma^2.")
    ] = None,
    absolute_sigma: Annotated[
        bool, typer.Option("--absolute-sigma", help="Take sigma as it is: do not scale errors by the residuals.")
    ] = False,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", metavar="NAME[=VALUE]", help="Keep a parameter at its start or a value."),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option("--validation", metavar="FRACTION", help="Hold out this share of the rows, to judge by."),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option("--patience", metavar="N", help="End when the validation loss has not fallen for N epochs."),
    ] = None,
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Look for idle units, and for gradients that vanish or explode.")
    ] = False,
    save: Annotated[
        str | None, typer.Option("--save", metavar="MODEL.json", help="Write the model to a file, for `predict`.")
    ] = None,
    recompute_every: Annotated[
        int | None,
        typer.Option(
            "--recompute-every", metavar="K", help="Keep every K-th layer's values only: slower, in less memory."
        ),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with an empty, nan or infinite cell.")
    ] = False,
    every: Annotated[int | None, typer.Option("--every", min=1, metavar="N", help="Show every N-th epoch.")] = None,
    digits: Digits = None,
    json: Json = False,
) -> ExitStatus:
    """Fit a model's parameters to data.

    A name of the model is a column if DATA has it, else a parameter; an option of its name says where it starts
    (by default numbers at 1, arrays at random). Least squares by Levenberg-Marquardt is the default, with standard
    errors; networks are fitted by adam.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x) + c" decay.csv
      autodiff train "y ~ a*exp(-b*x)" decay.csv --a 2 --b 0.5 --sigma error
      autodiff train "y ~ a*x^n" growth.tsv.gz --fix n=2 --json
      autodiff train "y ~ sigmoid(a*x + b)" clicks.csv --loss bce
      autodiff train "y ~ a*x + b" big.parquet --optimizer adam --lr 0.05 --batch-size 256
      autodiff train "y ~ mlp(x, [32], tanh)" sine.csv --epochs 2000 --validation 0.2 --patience 50 --diagnose
      autodiff train "species ~ softmax(mlp([a, b], [16], relu))" flowers.csv --save flowers.json
      cat decay.csv | autodiff train "log(y) ~ a - b*x" - --drop-missing
    """
    from autodiff_cli.cli import inputs, options
    from autodiff_cli.cli.data import bad_input, data_file, writing
    from autodiff_cli.render import documents
    from autodiff_cli.render.fit import fit_document, write_fit
    from autodiff_cli.training.fit import Interrupted
    from autodiff_cli.training.fit import fit as run
    from autodiff_cli.training.model import Model
    from autodiff_cli.training.writing import check_writable

    call = Call.of(context)
    environment = call.environment
    if model == data == "-":
        raise BadInput("MODEL and DATA cannot both be standard input")
    given = options.assignments(call.values, assignments or ())
    kept = _kept(fix or (), given)
    status = ExitStatus.DONE
    if save is not None:
        with writing(save):
            check_writable(save)
    with bad_input("--drop-missing leaves such rows out"):
        file = data_file(data, environment)
        read = Model.read(inputs.text_of(model, environment), file.names, {*given, *kept})
        _check_names({**given, **kept}, read, context)
        start = inputs.constant_values(given)
        fixed = inputs.constant_values({name: text for name, text in kept.items() if text})
        table = _epoch_table(environment, read, file.name, every, digits, json, epochs)
        try:
            fit = run(
                read,
                file,
                start,
                optimizer=optimizer,
                loss=loss,
                learning_rate=learning_rate,
                epochs=epochs,
                batch_size=batch_size,
                seed=seed,
                weights=weights,
                sigma=sigma,
                absolute_sigma=absolute_sigma,
                fixed=dict.fromkeys(kept) | fixed,
                validation=validation,
                patience=patience,
                diagnosis=diagnose,
                recompute_every=recompute_every,
                drop_missing=drop_missing,
                on_epoch=table.add,
            )
        except Interrupted as interruption:
            fit = interruption.fit
            table.end()
            environment.note("interrupted; these are the best parameters so far")
            status = ExitStatus.INTERRUPTED
        finally:
            table.end()
    if json:
        environment.stdout.write(documents.dumps(fit_document(fit)))
    else:
        write_fit(environment.paper(), fit, digits, saved=save is not None and not fit.failure)
    if fit.failure and status is ExitStatus.DONE:
        raise Failure(fit.failure if save is None else f"{fit.failure}. {save} was not written")
    if save is not None:
        with writing(save):
            fit.save(save)
        environment.note(f"saved to {save}")
    return status


def _kept(words: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The names of `--fix NAME[=VALUE]`, with the text of the value, empty where there is none."""
    from autodiff_cli.cli import options
    from autodiff_cli.language.lexer import canonical

    kept = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = canonical(name.strip())
        if not options.is_name(name) or (equals and not text):
            raise BadInput(f"--fix takes NAME or NAME=VALUE, as --fix a=2, not `{word}`")
        if equals and name in given:
            raise BadInput(f"`{name}` is given two values: `{given[name]}` and, by --fix, `{text}`")
        kept[name] = text
    return kept


def _check_names(given: Iterable[str], model: Model, context: typer.Context) -> None:
    from autodiff_cli.cli import inputs

    for name in given:
        if name not in model.parameters and name not in model.columns:
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
) -> EpochTable:
    """The live table: on standard error if standard output is for a machine."""
    from autodiff_cli.render.fit import Bar, EpochTable, columns_in_words
    from autodiff_cli.render.paper import Paper

    title = model.text, f"data: {source}, {columns_in_words(model.columns)}"
    if json:
        return EpochTable(Paper(environment.stderr), title, every, digits)
    bar = None
    if environment.terminal:
        bar = Bar(environment.stdout, environment.width, environment.colour, epochs, environment.clock)
    return EpochTable(environment.paper(), title, every, digits, bar)
