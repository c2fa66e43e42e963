"""The manual page has what the help has, in what man reads."""

from __future__ import annotations

import subprocess

import pytest

from autodiff_cli.cli.command_line import COMMANDS, find_command
from docs.manual_page import manual
from tests.tools import program


@pytest.fixture(scope="module")
def page() -> str:
    """The page as a reader sees it, in one line."""
    done = subprocess.run(
        [program("groff", "groff-base"), "-man", "-ww", "-Tascii", "-P-cbou", "-rHY=0"],
        input=manual(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_all_its_options_is_in_it(name: str, page: str) -> None:
    rest = page[page.index(f" autodiff {name} Usage: ") :]
    for parameter in find_command(name).parameters:
        assert parameter.option.help
        assert " ".join(parameter.option.help.split())[:20] in rest
        assert all(f" {flag}" in rest for flag in parameter.option.flags[:1])


def test_examples_stand_as_they_are_typed(page: str) -> None:
    assert 'autodiff train "y ~ a*exp(-b*x) + c" decay.csv' in page
    assert "autodiff grad -x^2 --x 2 --digits 10" in page
