"""`autodiff completion`: command lines completed by the shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.errors import BadInput


class Shell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- PLACE WORDS...]",
            help="What the script asks: the number of the word that is being typed, and the words of the line.",
            show_default=False,
        ),
    ] = None,
) -> Answer:
    """A script that lets a shell complete command lines.

    Commands, options and their choices, names of variables as options, functions of the language, and the columns of a
    data file that is named on the line.

    \b
    Examples:
      eval "$(autodiff completion bash)"
      autodiff completion fish > ~/.config/fish/completions/autodiff.fish
    """
    from autodiff_cli.cli.completing.scripts import script
    from autodiff_cli.cli.completing.words import completions
    from autodiff_cli.render.report import Report

    if Call.of(context).values:
        raise BadInput(f"completion takes no values such as --{next(iter(Call.of(context).values))}")
    if not words:
        text = script(shell)
    elif not words[0].isdecimal() or not int(words[0]):
        raise BadInput(f"the number of the word that is being typed comes first, not `{words[0]}`")
    else:
        place = 1 + int(words[0])
        text = "".join(f"{word}\n" for word in completions(words[1:place] or [""], words[place:]))
    return Answer(Report(lambda paper: paper.stream.writelines([text]), list, is_data=True), json=False)
