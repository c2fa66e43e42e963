"""Translation of functions of floats into other languages."""

from __future__ import annotations

import ast
import importlib
import inspect
from types import FunctionType

import mpmath
import numpy as np
import pytest

from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.graph.node import variable
from autodiff_cli.numbers import sources
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.ops import all_ops
from autodiff_cli.targets.languages import FORTRAN, JAVASCRIPT, C
from autodiff_cli.targets.python import JAX

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


def test_each_function_of_a_module_is_parsed_by_itself_as_in_the_whole_module() -> None:
    names = ("float_functions", "special_functions", "gamma_functions", "portable_functions", "floats")
    for module in (importlib.import_module(f"autodiff_cli.numbers.{name}") for name in names):
        tree = ast.parse(inspect.getsource(module))
        parsed = {node.name: ast.dump(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
        for name, text in parsed.items():
            function = getattr(module, name)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                assert ast.dump(sources.parse_function(function)) == text, name


def test_the_beta_function_of_jax_is_right_for_small_large_and_negative_arguments() -> None:
    points = {"a": np.array([0.3, 2.5, -0.7, 60, 150, -2.5]), "b": np.array([0.8, 3.0, 2.2, 55, 0.25, 180])}
    (found,) = evaluate([JAX.definitions["beta"](*map(variable, points))], points)
    wanted = [float(mpmath.beta(*pair)) for pair in zip(*points.values(), strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
