"""How functions of floats are said in other languages."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.ops import all_ops
from autodiff_cli.targets.c_family import JAVASCRIPT, C
from autodiff_cli.targets.fortran import FORTRAN
from autodiff_cli.targets.target import Target
from autodiff_cli.targets.translation import Library

X = Fragment("x")


def test_a_function_comes_with_what_it_calls_and_that_before_it() -> None:
    library = Library(C)
    assert library.operation("lambertw", [X]).text == "lambertw(x)"
    order = [*library.texts]
    assert order.index("branch_series") < order.index("lambertw_plus_1") < order.index("lambertw")
    assert [*library.forward_declared] == ["lambertw"]  # which lambertw_rise calls back


def test_what_is_needed_twice_stands_once() -> None:
    library = Library(JAVASCRIPT)
    for _ in range(2):
        library.operation("erf", [X])
        library.operation("erfc", [X])
    assert [*library.texts].count("erfc") == 1


def test_what_a_call_leaves_out_is_given() -> None:
    assert Library(C).operation("normal_cdf", [X]).text == "normal_cdf(x, 0.0, 1.0)"


def test_a_sum_of_products_is_a_loop_of_its_own() -> None:
    library = Library(FORTRAN)
    library.operation("Ei", [X])
    assert "term = term*(k/x)" in library.texts["exponential_integral_terms"]
    assert "lambda" not in "".join(library.texts.values())


@pytest.mark.parametrize("target", [C, FORTRAN, JAVASCRIPT], ids=lambda target: target.name)
def test_no_two_functions_have_names_that_differ_only_in_case(target: Target) -> None:
    library = Library(target)
    for op in all_ops():
        if op.name not in target.notations and library.has_function(op.name):
            library.operation(op.name, [X] * op.min_inputs)
    names = [text.lower() for text in library.texts]
    assert len(names) > 100
    assert len({*names}) == len(names)
