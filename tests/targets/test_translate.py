"""Translation of functions of floats into other languages."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.ops import all_ops
from autodiff_cli.targets.c_family import JAVASCRIPT, C
from autodiff_cli.targets.fortran import FORTRAN

X = Fragment("x")


def test_called_functions_precede_their_callers() -> None:
    library = Library(C)
    assert library.operation("lambertw", [X]).text == "lambertw(x)"
    order = [*library.texts]
    assert order.index("branch_series") < order.index("lambertw_plus_1") < order.index("lambertw")
    assert [*library.forward_declared] == ["lambertw"]  # which lambertw_rise calls back


def test_functions_are_included_once() -> None:
    library = Library(JAVASCRIPT)
    for _ in range(2):
        library.operation("erf", [X])
        library.operation("erfc", [X])
    assert [*library.texts].count("erfc") == 1


def test_calls_pass_default_values() -> None:
    assert Library(C).operation("normal_cdf", [X]).text == "normal_cdf(x, 0.0, 1.0)"


def test_a_ratio_series_is_a_function_with_a_loop() -> None:
    library = Library(FORTRAN)
    library.operation("Ei", [X])
    assert "term = term*(k/x)" in library.texts["exponential_integral_terms"]
    assert "lambda" not in "".join(library.texts.values())


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("target", [C, FORTRAN, JAVASCRIPT], ids=lambda target: target.name)
def test_function_names_differ_not_only_in_case(target: Target) -> None:
    library = Library(target)
    for op in all_ops():
        if op.name not in target.notations and library.has_function(op.name):
            library.operation(op.name, [X] * op.min_inputs)
    names = [text.lower() for text in library.texts]
    assert len(names) > 100
    assert len({*names}) == len(names)
