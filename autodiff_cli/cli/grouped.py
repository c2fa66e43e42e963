"""`autodiff train --by COLUMN`: one fit for each group of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, ExitStatus

if TYPE_CHECKING:
    from autodiff_cli.data.several import DataFiles
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.options import Options


def check_goes_with_groups(**given: str | int | None) -> None:
    """Raise BadInput for an option that is about one fit."""
    for name, value in given.items():
        if value is not None:
            raise BadInput(f"--{name} is about one fit, and --by makes one for each group: leave one of them out")


def fitted_by_group(
    model: Model,
    file: DataFiles,
    by: str,
    choices: Options,
    environment: Environment,
    output: str | None,
    digits: int | None,
    json: bool,
) -> Answer:
    """The fits as a table, as CSV in a file, or as a document."""
    from autodiff_cli.render.fits.groups import groups_report, groups_table
    from autodiff_cli.training.groups.by_group import fit_groups

    groups = fit_groups(model, file, by, choices)
    for note in file.notes:
        environment.note(note)
    failed = [group for group in groups if group.failure]
    if failed:
        first = f"{failed[0].by}: {failed[0].failure}"
        environment.note(f"{len(failed)} of {len(groups)} groups failed; the first is {first}")
    for warning in model.warnings:
        environment.note(warning)
    report = groups_report(groups, digits) if output is None else groups_table(groups)
    status = ExitStatus.FAILED if len(failed) == len(groups) else ExitStatus.DONE
    return Answer(report, json, status, output=output)
