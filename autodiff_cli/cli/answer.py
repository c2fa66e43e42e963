"""What a command returns, and the one place where it is written: as text or JSON, on standard output or in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import ExitStatus

if TYPE_CHECKING:
    from autodiff_cli.render.paper import Paper
    from autodiff_cli.render.report import Report


class Answer(NamedTuple):
    """A report, and what its reader wants of it.

    Attributes:
        report: None for a command that has shown everything already.
        json: whether it is for a machine.
        status: of the process.
        output: the file to write, replaced as a whole; None for standard output.
        then: what is left to do once the report stands, as nothing that fails there may take it away; done also where
            nobody reads the report to its end.
    """

    report: Report | None
    json: bool
    status: ExitStatus = ExitStatus.DONE
    output: str | None = None
    then: Callable[[], None] | None = None

    def give(self, environment: Environment) -> ExitStatus:
        """Write the report, and do what is left. Raises Failure for a file that cannot be written."""
        if self.then is None:
            self._write(environment)
            return self.status
        from autodiff_cli.render.paper import unheard

        with unheard(environment.stdout):
            self._write(environment)
            environment.stdout.flush()
        self.then()
        return self.status

    def _write(self, environment: Environment) -> None:
        if self.report is not None:
            with _paper(self.report, self.json, self.output, environment) as paper:
                if self.json:
                    from autodiff_cli.render.documents import dumps

                    paper.stream.writelines(map(dumps, self.report.documents()))
                else:
                    self.report.write(paper)


@contextlib.contextmanager
def _paper(report: Report, json: bool, output: str | None, environment: Environment) -> Iterator[Paper]:
    """What to write on: colour and boxes are for reports in a terminal, not for files and file formats."""
    from autodiff_cli.render.paper import Paper

    if output is not None:
        from autodiff_cli.cli.data import writing
        from autodiff_cli.data.writing import replacing

        with writing(output), replacing(output) as stream:
            yield Paper(stream)
    elif json or report.is_data:
        yield Paper(environment.document())
    else:
        yield environment.paper()
