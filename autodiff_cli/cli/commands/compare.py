"""`autodiff compare`: which of several models serves the data best."""

from __future__ import annotations

from typing import Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.commands.train import OPTIONS
from autodiff_cli.cli.declarations import Assignments, Digits, Json
from autodiff_cli.cli.errors import BadInput, ExitStatus
from autodiff_cli.cli.files import DATA_HELP, FILE_OPTIONS
from autodiff_cli.cli.records import with_records
from autodiff_cli.data.options import FileOptions
from autodiff_cli.training.options import DataOptions, LossOptions, MethodOptions, Options, ParameterOptions

_MODELS = "Two models of the same target or more, as for `train`."

# Those of `train` that mean the same for every model.
_TAKEN = (
    *("loss", "family", "likelihood", "scale", "huber_delta", "weights", "sigma", "absolute_sigma", "drop_missing"),
    *("optimizer", "epochs", "seed", "backend", "threads"),
)


@with_records(
    {**{name: OPTIONS[name] for name in _TAKEN}, **FILE_OPTIONS},
    rows=DataOptions,
    losses=LossOptions,
    method=MethodOptions,
    reading=FileOptions,
)
def compare(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)],
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=_MODELS, show_default=False)],
    *,
    rows: DataOptions,
    losses: LossOptions,
    method: MethodOptions,
    reading: FileOptions,
    assignments: Assignments = None,
    folds: Annotated[
        int, typer.Option("--folds", metavar="N", help="The parts of cross-validation, drawn by the seed; 0 for none.")
    ] = 5,
    digits: Digits = None,
    json: Json = False,
) -> Answer:
    """Compare models of the same data.

    Each is fitted to the same rows, and they are listed by AICc, best first, with the mean loss of rows that are held
    out in turn. Where one model is a special case of another, an F-test or a likelihood-ratio test says whether the
    larger one is needed; where that is not certain, it says why there is no test. An option of a parameter's name is
    its start in every model that has it.

    \b
    Examples:
      autodiff compare decay.csv "y ~ a*exp(-b*x)" "y ~ a*exp(-b*x) + c" "y ~ a/(1 + b*x)"
      autodiff compare counts.csv "n ~ exp(a)" "n ~ exp(a + b*t)" --family poisson --json
      autodiff compare big.parquet "y ~ a + b*x" "y ~ a + b*x + c*x^2" --folds 0
    """
    import dataclasses

    from autodiff_cli.cli import inputs
    from autodiff_cli.cli.data import bad_input, data_files
    from autodiff_cli.cli.options import assignments as merged
    from autodiff_cli.render.fits.comparison import comparison_report
    from autodiff_cli.training.comparison.compare import compared

    call = Call.of(context)
    environment = call.environment
    if [data, *models].count("-") > 1:
        raise BadInput("only one of DATA and the models can be standard input")
    given = merged(call.values, assignments or ())
    with bad_input("--drop-missing leaves such rows out"):
        texts = [inputs.text_of(model, environment) for model in models]
        file = data_files([data], environment, reading)
        start = ParameterOptions(inputs.constant_values(given))
        options = Options(start, dataclasses.replace(rows, no_columns=True), losses, method)
        found = compared(texts, file, options, folds)
    for note in file.notes:
        environment.note(note)
    failed = all(one.fit.failure for one in found.models)
    return Answer(comparison_report(found, digits), json, ExitStatus.FAILED if failed else ExitStatus.DONE)
