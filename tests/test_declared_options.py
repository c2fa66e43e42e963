"""An option is declared once: the command line, Python and their checks follow its declaration."""

from __future__ import annotations

import inspect
import io
import itertools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.cli import grad, trace, train
from autodiff_cli.cli.command_line import command
from autodiff_cli.cli.environment import Environment, Output
from autodiff_cli.language.errors import InputError
from autodiff_cli.options import (
    OptionError,
    Restriction,
    at_least,
    check_fields,
    check_restrictions,
    exclusive,
    needs,
    option,
    option_fields,
    takes_options,
)
from autodiff_cli.render.report import text_report
from autodiff_cli.training.fitting import comparison, groups
from autodiff_cli.training.options import COMBINATIONS, ComparisonOptions, FitOptions, ObjectiveOptions
from tests.support import run_cli


@dataclass(frozen=True, kw_only=True)
class Sweets(FitOptions):
    """The options of a fit and a further one."""

    sugar: int = option("--sugar SPOONS", "Spoons of sugar.", at_least(0), default=2, group="Taste")


@takes_options(Sweets)
def stir(model: str, data: str, options: Sweets) -> tuple[str, str, int, int]:
    return model, data, options.sugar, options.seed


def test_a_field_alone_makes_a_keyword_with_its_type_default_and_check() -> None:
    assert stir("tea", "cup") == ("tea", "cup", 2, 0)
    assert stir("tea", data="cup", sugar=np.int64(3), seed=1) == ("tea", "cup", 3, 1)
    parameter = inspect.signature(stir).parameters["sugar"]
    assert (parameter.default, parameter.annotation) == (2, "int")
    with pytest.raises(OptionError, match="sugar must be at least 0, not -1"):
        stir("tea", "cup", sugar=-1)
    with pytest.raises(OptionError, match=r"sugar is a whole number, not 1\.5"):
        stir("tea", "cup", sugar=1.5)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"^stir\(\) got an unexpected keyword argument 'shugar'; did you mean 'sugar'\?"
    ):
        stir("tea", "cup", shugar=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^stir\(\) missing a required argument: 'data'"):
        stir("tea", sugar=1)  # type: ignore[call-arg]


def test_a_field_alone_makes_an_option_of_a_command() -> None:
    @command(*exclusive("sugar", ["milk"]), options=Sweets)
    def serve(*, options: Sweets, milk: bool = option("--milk", default=False)) -> Output:
        return Output(text_report(str(options.sugar - milk)))

    sugar = serve.options["--sugar"].option
    assert (sugar.metavar, sugar.help) == ("SPOONS", "Spoons of sugar.")
    assert "Taste:\n  --sugar SPOONS  Spoons of sugar.  [default: 2]" in re.sub("  +", "  ", serve.help(80))
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
    serve.run(environment, ["--sugar", "5"])
    assert environment.stdout.getvalue() == "5"  # type: ignore[attr-defined]
    for words in (["--sugar", "5", "--milk"], ["--sugar", "-5"]):
        with pytest.raises(InputError, match="--sugar"):
            serve.run(environment, words)


def test_every_front_has_the_options_of_the_record() -> None:
    names = {*option_fields(FitOptions)}
    assert {*inspect.signature(ad.fit).parameters} == names | {"model", "data"}
    assert {*inspect.signature(ad.fit_by).parameters} == names | {"model", "data", "by"}
    assert {*inspect.signature(ad.compare).parameters} == names | {"models", "data", "folds"}
    assert {*inspect.signature(ad.Objective).parameters} == {*option_fields(ObjectiveOptions)} | {"model", "data"}
    help_text = run_cli("train --help")
    for name, field in option_fields(FitOptions).items():
        assert all(f" {flag}" in help_text for flag in field.option.flags), name


def test_estimators_have_the_options_of_a_fit() -> None:
    pytest.importorskip("sklearn")
    from autodiff_cli.sklearn import FormulaRegressor

    assert {*FormulaRegressor().get_params()} == {*option_fields(FitOptions)} | {"formula", "random_state"}


def test_help_lists_options_under_headings() -> None:
    lines = run_cli("train --help").splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[:7] == [
        "Arguments:",
        "Model:",
        "Data:",
        "Loss and likelihood:",
        "Method:",
        "Statistics:",
        "Output:",
    ]


@pytest.mark.parametrize(
    ("restrictions", "names"),
    [
        (COMBINATIONS, option_fields(FitOptions)),
        (groups._GROUP_RESTRICTIONS, option_fields(FitOptions)),
        (comparison._COMPARISON_RESTRICTIONS, option_fields(ComparisonOptions)),
        (train._TRAIN_RESTRICTIONS, {each.name for each in train.train.parameters}),
        (
            grad._RESTRICTIONS,
            (*(each.name for each in grad.grad.parameters), "an interval", "an uncertain value", "a range"),
        ),
        (trace._RESTRICTIONS, {*(each.name for each in trace.trace.parameters), "an uncertain value"}),
    ],
)
def test_restrictions_are_about_options_that_exist(restrictions: tuple[Restriction, ...], names: object) -> None:
    assert {one.option for one in restrictions} <= {*names}  # type: ignore[misc]


def test_restrictions_say_what_is_wrong_with_values() -> None:
    rows = (needs("b", "a", "b = {b} needs a"), *exclusive("a", ["a range"]))
    check_restrictions(rows, {"a": 1, "b": 2})
    with pytest.raises(OptionError, match="b = 2 needs a"):
        check_restrictions(rows, {"b": 2})
    with pytest.raises(OptionError, match="--a cannot be combined with --x 0:1:3: leave one of them out"):
        check_restrictions(rows, {"a": 1, "a range": "--x 0:1:3"})


def test_empty_containers_stand_for_the_default() -> None:
    assert check_fields(FitOptions(start={}, bounds={}, x_sigma={}, derive=())) == {}


# Options of a fit, and those that each of them needs or excludes.
NEEDED = {
    "x_sigma": "sigma", "absolute_sigma": "sigma", "patience": "validation", "min_delta": "patience",
    "laplace": "priors", "chains": "posterior", "bootstrap_method": "bootstrap", "checkpoint_every": "checkpoint",
}  # fmt: skip
EXCLUDED = {
    "weights": "sigma", "x_sigma": "family priors posterior", "stream": "cluster laplace", "loss": "family likelihood",
    "family": "likelihood", "l1": "priors", "l2": "priors", "optimizer": "priors", "epochs": "laplace",
    "batch_size": "cluster priors posterior", "tolerance": "laplace", "starts": "checkpoint resume",
    "validation": "laplace posterior", "cluster": "laplace posterior bootstrap", "priors": "profile bootstrap",
    "laplace": "posterior diagnosis checkpoint resume",
}  # fmt: skip


def test_options_of_a_fit_that_need_or_exclude_each_other() -> None:
    values: dict[str, Any] = dict.fromkeys(option_fields(FitOptions), 1) | {"backend": "numpy", "optimizer": "adam"}

    def refusals(*names: str) -> set[str]:
        given = {name: values[name] for name in names}
        return {each.message for each in COMBINATIONS if each.option in given and each.is_refused(given)}

    alone = {name: refusals(name) for name in values}
    assert {name for name in values if alone[name]} == {*NEEDED}
    for name, other in NEEDED.items():
        assert alone[name].isdisjoint(refusals(name, other))
    excluded: dict[str, list[str]] = {}
    for one, other in itertools.combinations(values, 2):
        if refusals(one, other) - alone[one] - alone[other]:
            excluded.setdefault(one, []).append(other)
    assert {name: " ".join(others) for name, others in excluded.items()} == EXCLUDED
