"""`autodiff ops`: the operations of the language, with their derivatives."""

from __future__ import annotations

from typing import Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Json
from autodiff_cli.cli.errors import BadInput


def ops(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An operation by its name or symbol; all without it.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> Answer:
    """The operations of the language.

    For each: how it is written, its derivative towards each input, what backpropagation does there (distribute, swap,
    route, scale or block), where the derivative is one-sided, and where it is defined. All is printed from the rules
    that gradients are computed with. For an operation on whole arrays, it is what the adjoint g of the output
    contributes to the adjoint of each input.

    \b
    Examples:
      autodiff ops
      autodiff ops tanh
      autodiff ops "*"
      autodiff ops atan2 --json
    """
    from autodiff_cli.explain import operations
    from autodiff_cli.language.code import LAYERS
    from autodiff_cli.render.reports.ops import operations_report, these_operations_report

    call = Call.of(context)
    if call.values:
        raise BadInput(f"ops takes no values such as --{next(iter(call.values))}: it is about no point")
    chosen = tuple(operations.operations()) if name is None else operations.named(name)
    if name in LAYERS:
        raise BadInput(f"`{name}` is made of operations: @, + and an activation; `autodiff ops @` explains the first")
    if not chosen:
        close = operations.close_name(name or "")
        hint = f"did you mean `{close}`?" if close else "`autodiff ops` lists them all"
        raise BadInput(f"there is no operation `{name}`; {hint}")
    described = [operations.described(op) for op in chosen]
    return Answer(operations_report(described) if name is None else these_operations_report(described), json)
