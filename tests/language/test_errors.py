"""Error messages for incorrect expressions."""

from __future__ import annotations

import contextlib
import itertools
import math
import pickle
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import date
from types import BuiltinFunctionType, FunctionType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

import autodiff_cli as ad
from autodiff_cli.language import parser
from autodiff_cli.language import program as building
from autodiff_cli.language.errors import ExpressionError, MissingValueError, UnknownNameError, escape_controls, suggest
from autodiff_cli.language.program import read
from autodiff_cli.ops import function_names
from tests.each import each, evenly_spread_part
from tests.texts import CHARACTERS

OPERAND = "expected a number, a name, `(` or `[`"

# text, line, column, a part of the message, suggestion
BAD = [
    ("", 1, 1, "the text is empty", None),
    (" \n ", 1, 1, "the text is empty", None),
    ("# only\n# comments", 1, 1, "no statements", None),
    (";", 1, 1, "no statements", None),
    # numbers longer than any precision needs
    ("x + " + 4001 * "1", 1, 5, "a number has at most 4,000 characters", None),
    ("x + 1e" + 19 * "9", 1, 5, "18 of them in its exponent", None),
    ("x" + 4001 * "²", 1, 2, "a number has at most 4,000 characters", None),
    (1001 * "x" + " + y", 1, 1, "a name has at most 1,000 characters", None),
    (1001 * "x" + " + " + 4001 * "1", 1, 1, "a name has at most 1,000 characters", None),
    (f"1 + `{1001 * ' '}`", 1, 5, "a name has at most 1,000 characters", None),
    (f"sine(x) + {4001 * '1'}", 1, 1, "there is no function `sine`", "sin"),
    ("x*1e-" + 19 * "9", 1, 3, "18 of them in its exponent", None),
    # a date would be a difference
    ("x > 2024-01-31", 1, 5, "this is a date, but a number is needed", None),
    ("x +\n1999-12-01*y", 2, 1, "this is a date, but a number is needed", None),
    # functions of Mathematica
    ("y ~ Beta[g] x", 1, 13, "multiplication is written `*`", "Beta[g]*x"),
    ("v[0] Sin[x]", 1, 6, "multiplication is written `*`", "v[0]*Sin"),
    # implicit multiplication
    ("2x", 1, 2, "expected an operator before `x`", "2*x"),
    ("2 x", 1, 3, "expected an operator before `x`", "2*x"),
    ("x y", 1, 3, "expected an operator before `y`", "x*y"),
    ("x 2", 1, 3, "expected an operator before `2`", "x*2"),
    ("2e", 1, 2, "multiplication is written `*`", "2*e"),
    ("2(x + 1)", 1, 2, "multiplication is written `*`", "2*(x + 1)"),
    ("2*sin(x)cos(x)", 1, 9, "multiplication is written `*`", "sin(x)*cos(x)"),
    ("1 + (x - 1)(x + 1)", 1, 12, "multiplication is written `*`", "(x - 1)*(x + 1)"),
    ("v[0]v[1]", 1, 5, "multiplication is written `*`", "v[0]*v"),
    ("2sin(x)", 1, 2, "multiplication is written `*`", "2*sin(x)"),
    ("(a)(b)", 1, 4, "multiplication is written `*`", "(a)*(b)"),
    ("(a)b", 1, 4, "multiplication is written `*`", "(a)*b"),
    ("x²y", 1, 3, "multiplication is written `*`", "x²*y"),
    ("x(3)", 1, 1, "`x` is not a function", "x*(3)"),
    ("1 2", 1, 3, "expected an operator between `1` and `2`", "[1, 2]"),
    ("1 2*x", 1, 3, "expected an operator between `1` and `2`", None),
    ("1.2.3", 1, 4, "one decimal point", None),
    ("1_000*x", 1, 2, "cannot have separators", "1000"),
    # formulas of R
    ("y ~ a*x + (1 | g)", 1, 14, "a random effect of each `g` is written `u[g]`", None),
    ("y ~ a*(x > 1 | x < 0)", 1, 14, "the logical operator is a word", "or"),
    ("y ~ a*|x|", 1, 7, "use the function `abs`", "abs(x)"),
    ("y ~ .", 1, 5, "write the columns with their parameters", None),
    ("y ~ factor(g)", 1, 5, "a parameter for each level of a column is written", "b_g[g]"),
    ("y ~ a + as.factor(g)", 1, 9, "a parameter for each level of a column is written", "b_g[g]"),
    ("y ~ bs(x)", 1, 5, "a smooth curve is written with its knots", None),
    # functions
    ("sine(x)", 1, 1, "there is no function `sine`", "sin"),
    ("Sin(x)", 1, 1, "there is no function `Sin`", "sin"),
    ("x + sqr(y)", 1, 5, "a square root in others", None),
    ("double(t) = 2*t; duoble(x)", 1, 18, "there is no function `duoble`", "double"),
    ("sin x", 1, 5, "`sin` is a function", "sin(x)"),
    ("log x + 1", 1, 5, "its arguments go in brackets", "log(x)"),
    ("sin²(x)", 1, 5, "`sin` is a function", "sin(x)²"),
    ("1 + sin^2(x + 1)", 1, 10, "the power of its value goes after it", "sin(x + 1)^2"),
    ("cos^2 x", 1, 7, "the power of its value goes after it", "cos(x)^2"),
    ("cos**3(x)", 1, 7, "the power of its value goes after it", "cos(x)**3"),
    ("sin^-1(x)", 1, 7, "its inverse has a name of its own", "asin(x)"),
    ("tanh⁻¹(x)", 1, 7, "its inverse has a name of its own", "atanh(x)"),
    ("exp^-1(x)", 1, 7, "the power of its value goes after it", "exp(x)^-1"),
    ("σ(x)", 1, 1, "there is no function `σ`", "sigmoid(x)"),
    ("2*np.sin(x)", 1, 3, "there is no function `np.sin`", "sin(x)"),
    ("if(x > 0, 1, 2)", 1, 1, "there is no function `if`", "where(x > 0, 1, 2)"),
    ("σ = 2; σ(x)", 1, 8, "`σ` is not a function", "σ*(x)"),
    ("f'(x)", 1, 2, "`grad` gives the derivatives", None),
    ("f'(x) + g'(x)", 1, 2, "`grad` gives the derivatives", None),
    ("d/dx x^2", 1, 6, "`grad` differentiates the whole expression", "x^2"),
    ("x^2, x=3", 1, 4, "by the option `--x 2`", None),
    ("x if x > 0 else 0", 1, 3, "use the function `where`", "where(x > 0, x, 0)"),
    ("sin()", 1, 1, "`sin` takes 1 argument, not 0", None),
    ("sin(x, y)", 1, 1, "`sin` takes 1 argument, not 2", None),
    ("2*atan2(x)", 1, 3, "`atan2` takes 2 arguments, not 1", None),
    ("log(1, 2, 3)", 1, 1, "`log` takes 1 or 2 arguments, not 3", None),
    ("normal_pdf(1, 2, 3, 4)", 1, 1, "`normal_pdf` takes 1 or 2 or 3 arguments, not 4", None),
    ("max()", 1, 1, "`max` takes at least 1 argument, not 0", None),
    ("f(t) = t; f(x, y)", 1, 11, "`f` takes 1 argument, not 2", None),
    ("f(t) = t; g(u) = f(u, u); 1", 1, 18, "`f` takes 1 argument, not 2", None),
    ("f(t) = t; f + 1", 1, 11, "`f` is a function (line 1, column 1)", "f(x)"),
    ("f(t) = t; f x", 1, 13, "`f` is a function", "f(x)"),
    ("g(h) = h(2); g(x)", 1, 8, "`h` is not a function", "h*(2)"),
    ("sin(t) = t; 2", 1, 1, "`sin` is a built-in function", None),
    ("f(a, a) = a; 2", 1, 6, "two parameters named `a`", None),
    ("f(2) = 3; 2", 1, 3, "parameters of a function must be names", None),
    ("f(x + 1) = 3; 2", 1, 7, "parameters of a function must be names", None),
    ("f() = 2; 2", 1, 1, "a function needs parameters", "f ="),
    ("f(t) = t", 1, 1, "only defines a function; add a last line such as `f(t)`", "f(t) = t; f(t)"),
    ("v: 3", 1, 1, "only declares a shape", None),
    ("f(t) = sine(t)\n2", 1, 8, "there is no function `sine`", "sin"),
    ("f(t) = f(t - 1); f(2)", 1, 8, "cannot call itself, directly or through others: f → f", None),
    (
        "; ".join(f"f{k}(t) = f{(k + 1) % 8}(t)" for k in range(8)) + "; f0(x)",
        1,
        9,
        "through others: f1 → f2 → f3 → … → f0 → f1",
        None,
    ),
    ("f(t) = g(t); g(t) = f(t); f(x)", 1, 8, "through others: g → f → g", None),
    (
        "p(t) = q(t); q(t) = r(t); r(t) = s(t); s(t) = u(t); u(t) = p(t); p(x)",
        1,
        8,
        "through others: q → r → s → u → p → q",
        None,
    ),
    ("f(t) = g(t); g(t) = t; f(x)", 1, 8, "called before its definition in line 1, column 14", None),
    # bindings
    ("a = 1; a = 2; a", 1, 8, "`a` is bound twice; first in line 1, column 1", None),
    ("a(t) = 1; a = 2; a", 1, 11, "`a` is bound twice", None),
    ("b = a; a = 2; b", 1, 5, "`a` is used before its binding in line 1, column 8", None),
    ("f(t) = t*a\na = 2\nf(x)", 1, 10, "`a` is used before its binding in line 2, column 1", None),
    ("a = a + 1", 1, 5, "`a` is used in its own binding", None),
    ("x\ny", 1, 1, "in brackets", None),
    ("a = 1\n(x)\n+ y", 2, 1, "in brackets", None),
    ("x = y = 2", 1, 7, "use `==` to compare", "=="),
    ("2 = x", 1, 3, "use `==` to compare", "=="),
    ("y = 2; x + y = 3", 1, 14, "use `==` to compare", "=="),
    ("x + y = 3; x >= 1", 1, 7, "use `==` to compare", "=="),
    ("y = 2*x; y = x + 1; y", 1, 10, "`y` is bound twice; first in line 1, column 1; equations are one list", None),
    ("where(x = 1, 2, 3)", 1, 9, "use `==` to compare", "=="),
    ("x :=  2", 1, 3, "`:=` is not in the language", "="),
    # models
    ("y ~ x; z", 1, 1, "a model `target ~ prediction` must be the last statement", None),
    ("a ~ b ~ c", 1, 7, "a model has exactly one `~`", None),
    ("(y ~ x)", 1, 4, "a model has exactly one `~`", None),
    ("y ~", 1, 4, f"something must follow `~`; {OPERAND}", None),
    # something is missing
    ("x^", 1, 3, f"something must follow `^`; {OPERAND}", None),
    ("x*", 1, 3, f"something must follow `*`; {OPERAND}", None),
    ("x*  # and?\n\n", 1, 3, "something must follow `*`", None),
    ("x +\n  y *", 2, 6, "something must follow `*`", None),
    ("x^; 2", 1, 3, "something must follow `^`", None),
    ("x = ; y", 1, 5, f"something must follow `=`; {OPERAND}", None),
    ("(x", 1, 3, "the `(` at line 1, column 1 is never closed; expected `)`", None),
    ("max(x, (y + 1)", 1, 15, "the `(` at line 1, column 4 is never closed; expected `,` or `)`", None),
    ("(x + 1\ny = 2", 2, 1, "the `(` at line 1, column 1 is not closed", None),
    ("(x; y)", 1, 3, "the `(` at line 1, column 1 is not closed", None),
    ("x)", 1, 2, "this `)` has no opening bracket; expected an operator or the end of the statement", None),
    ("()", 1, 2, f"unexpected `)`; {OPERAND}", None),
    (")(", 1, 1, "this `)` has no opening bracket", None),
    ("f(x,)", 1, 5, f"something must follow `,`; {OPERAND}", None),
    ("(x + )", 1, 6, "something must follow `+`", None),
    ("x + * y", 1, 5, f"unexpected `*`; {OPERAND}", None),
    ("x, y", 1, 2, "several formulas are one list", "[x, y]"),
    ("x, y; z", 1, 2, "several formulas are one list", None),
    ("a = 2, a*x", 1, 6, "a semicolon ends the binding of a name", ";"),
    ("1 + sqrt[3](x)", 1, 12, "an n-th root is written `root(x, n)`", "root(x, 3)"),
    ("y ~ a*x, y ~ b*x^2", 1, 8, "a text has one model; to compare several, put each in its own quotes", None),
    ("[1, 2], [3, 4]", 1, 7, "several formulas are one list", "[[1, 2], [3, 4]]"),
    ("f(x) := x^2", 1, 6, "`:=` is not in the language", "="),
    ("1,5*x", 1, 2, "numbers have a decimal point", "1.5"),
    # reserved words
    ("or", 1, 1, "`or` is a reserved word", None),
    ("and = 3", 1, 1, "`and` is a reserved word", None),
    ("x or or", 1, 6, "`or` is a reserved word", None),
    ("x + not y", 1, 5, "`not` binds more loosely", "(not x)"),
    # other languages
    ("x && y", 1, 3, "`&&` is not in the language", "and"),
    ("x || y", 1, 3, "the logical operator is a word", "or"),
    ("!x", 1, 1, "`!` is not in the language", "not"),
    ("x!", 1, 2, "a factorial is a gamma function", "gamma(x + 1)"),
    ("(n - k)!*2", 1, 8, "a factorial is a gamma function", "gamma((n - k) + 1)"),
    ("|x|", 1, 1, "use the function `abs`", "abs(x)"),
    ("2 + |x + 1|", 1, 5, "use the function `abs`", "abs(x + 1)"),
    ("ln|x|", 1, 3, "use the function `abs`", "ln(abs(x))"),
    ("\\frac{x}{2}", 1, 1, "not in LaTeX", "((x)/(2))"),
    ("√x", 1, 1, "`√` is not in the language", "sqrt(x)"),
    ("∞", 1, 1, "`∞` is not in the language", "inf"),
    ("x > 0 ? x : 0", 1, 7, "use the function `where`", "where(x > 0, x, 0)"),
    ("tan-1(x)", 1, 6, "its inverse has a name of its own", "atan(x)"),
    ("x-1(y)", 1, 4, "multiplication is written `*`", "1*(y)"),
    ("x^{2}", 1, 3, "go in round brackets", "(2)"),
    ("1 + ∛x", 1, 5, "`∛` is not in the language", "cbrt(x)"),
    ("∫x dx", 1, 1, "integrals are not in the language", None),
    ("∂(x^2)/∂x", 1, 1, "derivatives are not written in the expression", None),
    ("sin(30°)", 1, 7, "angles are in radians", "(30*pi/180)"),
    ("x ? y : z", 1, 3, "use the function `where`", "where(x, y, z)"),
    ("x === 2", 1, 5, "`===` is not an operator", "=="),
    ("x => 2", 1, 4, "`=>` is not an operator", ">="),
    ("x <> 2", 1, 4, "`<>` is not an operator", "!="),
    ("x // 2", 1, 4, "`//` is not an operator", "floor(x/2)"),
    ("2*f(x) div (y + 1)", 1, 8, "`div` is not an operator", "floor(x/y)"),
    ("f(x) div (y + 1)", 1, 6, "`div` is not an operator", "floor(f(x)/(y + 1))"),
    ("x mod 2", 1, 3, "`mod` is not an operator", "x % 2"),
    ("x xor y", 1, 3, "`xor` is not an operator", "(x) != (y)"),
    # backticks and quotation marks
    ("`x", 1, 1, "this ` is never closed; a pair of them encloses a name", None),
    ("x + ``*2", 1, 5, "there is no name between these backticks", None),
    ("`a b` c", 1, 7, "multiplication is written `*`", "`a b`*c"),
    ("`a b`(2)", 1, 1, "`a b` is not a function", "`a b`*(2)"),
    ("2 'A'", 1, 3, "`'` encloses text", None),
    ("'A", 1, 1, "this ' is never closed; a pair of them encloses text", None),
    ('x == "A"', 1, 6, "can only be compared with a column of text, by `==` or `!=`", None),
    # characters
    ("½*x", 1, 1, "`½` is not in the language", "(1/2)"),
    ("x＋y", 1, 2, "`＋` is not in the language", "+"),
    ("٣ + x", 1, 1, "only the digits 0 to 9", "3"),
    ("x½", 1, 2, "`½` is not in the language", "(1/2)"),
    ("xⁿ", 1, 2, "only integers can be written as superscripts", "^n"),
    ("²", 1, 1, "unexpected `²`", None),
    ("x + \x00", 1, 5, "U+0000", None),
    ("x\u202ey", 1, 2, "U+202E", None),
    ("\ud800", 1, 1, "U+D800", None),
    ("x $ y", 1, 3, "`$` is not in the language; expected an operator", None),
    # arrays
    ("[]", 1, 2, "these brackets are empty", None),
    ("v[]", 1, 3, "these brackets are empty", None),
    ("[1,]", 1, 4, f"something must follow `,`; {OPERAND}", None),
    ("[1, 2", 1, 6, "the `[` at line 1, column 1 is never closed; expected `,` or `]`", None),
    ("[1, 2)", 1, 6, "the `[` at line 1, column 1 is not closed; expected `,` or `]`", None),
    ("(x]", 1, 3, "the `(` at line 1, column 1 is not closed; expected `)`", None),
    ("[x; y]", 1, 3, "commas separate the elements of an array", ","),
    ("[x\ny]", 2, 1, "the `[` at line 1, column 1 is not closed; expected `]` or an operator", None),
    ("x]", 1, 2, "this `]` has no opening bracket", None),
    ("[a b]", 1, 4, "expected `,` or an operator before `b`", "a, b"),
    ("mlp(x, [8], expit)", 1, 13, "is not an activation", "sigmoid"),
    ("mlp(x, [8], dawsn)", 1, 13, "is not an activation", None),
    ("[1 2]", 1, 4, "expected `,` or an operator before `2`", "[1, 2]"),
    ("[1, [2, 3]]", 1, 1, "the parts of an array must have the same shape, not scalar and 2", None),
    ("[[1, 2], [3]]", 1, 1, "the parts of an array must have the same shape, not 2 and 1", None),
    ("2*[[[1]]]", 1, 3, "at most two dimensions", None),
    ("v[x]", 1, 3, "an index must be an integer", None),
    ("v[-1]", 1, 3, "an index must be an integer from 0", None),
    ("v[1.0]", 1, 3, "an index must be an integer", None),
    ("v[1:2]", 1, 4, "an index is one integer", None),
    ("f(v, i) = v[i]; f(v, 0.5)", 1, 22, "an index must be an integer", None),
    ("sin[x]", 1, 1, "`sin` is a function; its arguments go in round brackets", "sin(x)"),
    ("M[0, 1, 2]", 1, 2, "an array takes one or two indices", None),
    ("[1, 2][2]", 1, 7, "index 2 is out of range: this axis has 2", None),
    ("W: 2x3; W[0, 3]", 1, 10, "index 3 is out of range: this axis has 3", None),
    ("v: 3; v[0, 1]", 1, 8, "a vector of 3 takes one index, not 2", None),
    ("a = 2; a[0]", 1, 9, "a number has no elements", None),
    ("f(v) = v[1] + v[2]; f([1, 2])", 1, 16, "index 2 is out of range", None),
    ("2 @ 3", 1, 3, "it got scalar and scalar", None),
    ("A: 2x3\nB: 2x3\nA @ B", 3, 3, "2x3 @ 2x3", None),
    ("A: 2x3; B: 4; 1 + A*B", 1, 20, "shapes 2x3 and 4 do not fit together", None),
    ("[x, y] @ [1, 2, 3]", 1, 8, "2 @ 3", None),
    ("u = [1, 2] + [1, 2, 3]; x", 1, 12, "shapes 2 and 3 do not fit together", None),
    ("y ~ sum([a, b] @ [[x], [x], [x]])", 1, 16, "2 @ 3x1", None),
    ("dot([1, 2], [1, 2, 3])", 1, 1, "2 and 3", None),
    ("concat([1, 2], 3)", 1, 1, "2 and scalar", None),
    ("mean(A, B)", 1, 1, "`mean` takes 1 argument, not 2", "mean([A, B])"),
    ("A.T @ x", 1, 1, "`.T` is not in the language", "transpose(A)"),
    # declarations
    ("W: 2y3; W", 1, 4, "one or two integers, as in `W: 3` and `W: 2x3`", None),
    ("W: 2x3x4; W", 1, 4, "one or two integers", None),
    ("W: -2; W", 1, 4, "one or two integers", None),
    ("W:; W", 1, 3, "one or two integers", None),
    (f"W: {'1' * 5000}; W", 1, 4, "one or two integers", None),
    (f"v[{'1' * 3999}]", 1, 3, "an index must be an integer", None),
    (f"dense(x, {'1' * 5000})", 1, 10, "the size of a layer must be an integer", None),
    (f"part([1, 2], 0, {'1' * 3999})", 1, 1, "an index must be an integer", None),
    ("W: 0x3; W", 1, 4, "a dimension of length 0", None),
    ("W: 2x3", 1, 1, "only declares a shape", None),
    ("W: 2; W: 2; W", 1, 7, "`W` is declared twice; first in line 1, column 1", None),
    ("W: 2; W: 3; W", 1, 7, "`W` is declared twice", None),
    ("b = W\nW: 3\nb", 2, 1, "`W` is used before its declaration", None),
    ("a = 1; a: 3; a", 1, 8, "`a` is bound in this text", None),
    ("a: 3; a = 1; a", 1, 1, "`a` is bound in this text", None),
    ("f(t) = t; f: 3; 2", 1, 11, "`f` is bound in this text", None),
    ("pi: 3; pi", 1, 1, "`pi` is a constant", None),
    (": 3", 1, 1, "`:` declares the shape of one name", None),
    ("y ~ a*x:z", 1, 8, "an interaction is a product with a parameter: `b*x*z`", None),
    ("y ~ a*x + C(g)", 1, 11, "a parameter for each level is written `a[g]`, and a product `C*g`", None),
    (
        "y ~ s(x)",
        1,
        5,
        "a smooth curve is written with its knots, `spline(x, [0, 1, 2], h)`, and a product `s*x`",
        None,
    ),
    ("y ~ s(x + 1)", 1, 5, "multiplication is written `*`", "s*(x + 1)"),
    ("y ~ a*df['my col']", 1, 10, "a column is written by its name alone", "`my col`"),
    ("y ~ a*df$x", 1, 9, "a column or a variable is written by its name alone", "x"),
    ("$A$1 + 2", 1, 1, "a cell is a name here", "A1"),
    ("Sin[2 x]", 1, 7, "multiplication is written `*`", "2*x"),
    ("ArcTan[x, y]", 1, 1, "its arguments go in round brackets", None),
    ("(x) => x*x", 1, 5, "a function without a name is not in the language", "x*x"),
    ("[x^2; x*y]", 1, 5, "commas separate the elements of an array", ","),
    ("y ~ C(x + 1)", 1, 5, "multiplication is written `*`", "C*(x + 1)"),
    ("a*C(g)", 1, 3, "multiplication is written `*`", "C*(g)"),
    (
        "y ~ a*Q('my col')",
        1,
        9,
        "a column is written by its name alone, in backticks if it is not one word",
        "`my col`",
    ),
    ("x + (W: 3)", 1, 7, "`:` declares the shape of one name", None),
    # layers
    ("dense(x)", 1, 1, "`dense` takes 2 or 3 arguments, not 1", "dense(x, 10, relu)"),
    ("mlp(x, [2], tanh, 3)", 1, 1, "`mlp` takes 2 or 3 arguments, not 4, as in `mlp(x, [10, 10], tanh)`", None),
    ("mlp x", 1, 5, "`mlp` is a function", "mlp(x)"),
    ("desne(x, 3)", 1, 1, "there is no function `desne`", "dense"),
    ("dense(x, 10, rellu)", 1, 14, "`rellu` is not an activation", "relu"),
    ("dense(x, 10, atan2)", 1, 14, "`atan2` is not an activation", "atan"),
    ("dense(x, 10, norm)", 1, 14, "`norm` is not an activation", None),
    ("dense(x, 10, tanh(x))", 1, 1, "the activation must be the name of a function", None),
    ("f(t) = dense(t, 10, rellu); 2", 1, 21, "`rellu` is not an activation", "relu"),
    ("dense(x, 0)", 1, 10, "the size of a layer must be an integer from 1", None),
    ("dense(x, 2.5)", 1, 10, "the size of a layer must be an integer from 1", None),
    ("dense(x, n)", 1, 10, "the size of a layer must be an integer from 1", None),
    ("mlp(x, [10, 0])", 1, 13, "the size of a layer must be an integer from 1", None),
    ("mlp(x, 10)", 1, 8, "the sizes of the hidden layers go in square brackets", "[10]"),
    ("1 + dense([[1, 2], [3, 4]], 3)", 1, 5, "must be a vector; here its shape is 2x2", None),
    ("dense(M @ x, 3)", 1, 1, "declare the shape of `M` and `x` before", "M: 3"),
    ("dense(v, 3) + sum(v)", 1, 1, "declare the shape of `v` before", "v: 3"),
    ("dense(2*a + v, 3)[0] + v[1]", 1, 1, "declare the shape of `v` before", "v: 3"),
    ("dense([1, 2] + [1, 2, 3], 3)", 1, 14, "shapes 2 and 3 do not fit together", None),
    ("f(t) = sum(dense(t, 3)); f(x) + f([x, y])", 1, 12, "different lengths, 1 and 2", None),
    ("mlp(x, [3]) + mlp.9.weight", 1, 15, "`mlp` has no parameter `mlp.9.weight`", "mlp.0.weight"),
    ("mlp.0.bias: 3; mlp(x, [3])", 1, 16, "`mlp.0.bias` is a parameter of this `mlp`", None),
    ("mlp.0.bias = 3; mlp(x, [3])", 1, 17, "`mlp.0.bias` is a parameter of this `mlp`", None),
    ("mlp(t) = t; 2", 1, 1, "`mlp` is a built-in function", None),
    # what other notations write
    ("√(x+1)", 1, 1, "`√` is not in the language", "sqrt(x+1)"),
    ("1 + √x", 1, 5, "`√` is not in the language", "sqrt(x)"),
    ("d/dx (x^2)", 1, 3, "`grad` differentiates", "x^2"),
    ("∂/∂x x^2", 1, 1, "`grad` differentiates", "x^2"),
    ("diff(x^2, x)", 1, 1, "`grad` differentiates", "x^2"),
    ("grad(x*y)", 1, 1, "`grad` differentiates", "x*y"),
    ("diff = 2; diff(x)", 1, 11, "`diff` is not a function", "diff*(x)"),
    ("max{x, y}", 1, 4, "go in round brackets", "max(x, y)"),
    ("if x > 0 then x else 0", 1, 4, "use the function `where`", "where(x > 0, x, 0)"),
    ("lambda x: x^2", 1, 8, "or give it a name", "x^2"),
    ("lambda*x y", 1, 10, "expected an operator", "x*y"),
    ("factorial(n)", 1, 1, "there is no function `factorial`", "gamma(n + 1)"),
    ("Σ(v)", 1, 1, "there is no function `Σ`", "sum(v)"),
    ("x.sin()", 1, 1, "there is no function `x.sin`", "sin(x)"),
    ("g(x, y)", 1, 1, "define your own before you call it", None),
    ("x^^2", 1, 3, "`^^` is not an operator", "^"),
    ("x•y", 1, 2, "`•` is not in the language", "*"),
    ("sum(v, axis=0)", 1, 12, "arguments cannot be given by name", None),
    ("normal_pdf(mean=0, x=1)", 1, 16, "arguments cannot be given by name", None),
    ("where(x = 0, 1, 2)", 1, 9, "use `==` to compare two values", "=="),
    ("1,2,3", 1, 2, "goes in square brackets", "[1, 2, 3]"),
    ("1,2", 1, 2, "numbers have a decimal point", "1.2"),
    ("(1, 2)", 1, 3, "goes in square brackets", "[1, 2]"),
    ("(1, x)", 1, 3, "one list, in square brackets", "[1, x]"),
    ("(1, 2", 1, 3, "unexpected `,`", None),
    ("(1,,2)", 1, 3, "unexpected `,`", None),
    ("max(x, 1) + (1, 2)", 1, 15, "goes in square brackets", "[1, 2]"),
    ("1 2", 1, 3, "expected an operator between `1` and `2`", "[1, 2]"),
    ("[1; -2.5]", 1, 3, "commas separate", "[1, -2.5]"),
    ("max(1; 2)", 1, 6, "commas separate the arguments", ","),
    ("a = max(1; b = 2; a*b", 1, 10, "is not closed", None),
    # what newcomers type
    ("linear(x)", 1, 1, "a linear model is written with its parameters", "a + b*x"),
    ("y ~ linear(x - 1)", 1, 5, "a linear model is written with its parameters", "a + b*(x - 1)"),
    ("poly(x, 2)", 1, 1, "a polynomial is written term by term", "a + b*x + c*x^2"),
    ("hessian(x^2)", 1, 1, "`grad --hessian` differentiates", "x^2"),
    ("jacobian([x, y])", 1, 1, "`grad --jacobian` differentiates", "[x, y]"),
    ("re(x)", 1, 1, "complex numbers are not in the language", None),
    ("3 + 4i", 1, 6, "all numbers are real; a product with a variable is written `4*i`", None),
    ("x*1j", 1, 4, "complex numbers are not in the language", None),
    ("integrate(x^2, x)", 1, 1, "integrals are not in the language", None),
    ("tahn(x)", 1, 1, "there is no function `tahn`", "tanh"),
    ("arctan2(y, x)", 1, 1, "there is no function `arctan2`", "atan2"),
    ("hypto(x)", 1, 1, "there is no function `hypto`; `hypot` takes 2 arguments", None),
    ("krigg(x)", 1, 1, "`krigg` is not a function; define your own", None),
    ("dropout(x)", 1, 1, "`dropout` is not a function", None),
    ("Sin[x + 1]", 1, 1, "`sin` is a function; its arguments go in round brackets", "sin(x + 1)"),
    ("D[x^2, x]", 1, 1, "derivatives are not written in the expression", "x^2"),
    ("Integrate[x^2, x]", 1, 1, "integrals are not in the language", None),
    ("Derivative(x^2, x)", 1, 1, "derivatives are not written in the expression", "x^2"),
    ("y ~ a + b*I(x^2)", 1, 11, "without `I`", "(x^2)"),
    ("y ~ N(a + b*x, s)", 1, 5, "a model with normal errors by its mean", None),
    ("N(d)", 1, 1, "there is no function `N`", "normal_cdf(d)"),
    ("=SIN(A1)", 1, 1, "a formula does not begin with `=`", "SIN(A1)"),
    ("x .* y", 1, 3, "operators have no dot", "*"),
    ("x.^2", 1, 2, "operators have no dot", "^"),
    ("function(x) x^2", 1, 13, "or give it a name", None),
    ("x -> x^2", 1, 4, "or give it a name", "x^2"),
    ("50%", 1, 4, "a percentage is a quotient", "(50/100)"),
    ("1 000", 1, 3, "digits cannot have separators", "1000"),
    ("2*x°", 1, 4, "angles are in radians", "(x*pi/180)"),
    ("sin((x + 1)°)", 1, 12, "angles are in radians", "((x + 1)*pi/180)"),
    ("c(1, 2)", 1, 1, "there is no function `c`", "[1, 2]"),
    ("c(x + 1)", 1, 1, "`c` is not a function", "c*(x + 1)"),
    ("IF(x > 0, 1, 2)", 1, 1, "there is no function `IF`", "where(x > 0, 1, 2)"),
    ("PI()*x", 1, 1, "the constant `pi` is written without brackets", "pi"),
    ("∇(x^2)", 1, 1, "`grad` differentiates", None),
    ("“x^2”", 1, 1, "leave out the quotation marks", "x^2"),
    ("'x^2'", 1, 1, "leave out the quotation marks", "x^2"),
    ("x^2 // 3", 1, 6, "`//` is not an operator", "floor(x/y)"),
    ("$x^2$", 1, 1, "leave out the dollar signs", "x^2"),
    ("Piecewise((x, x > 0), (0, True))", 1, 13, "use the function `where`", "where(condition, a, b)"),
    ("mlp(x + 1)", 1, 1, "`mlp` takes 2 or 3 arguments, not 1", "mlp(x + 1, [10, 10], tanh)"),
    ("sum()", 1, 1, "`sum` takes 1 argument, not 0", None),
    ("a <- 2; a*x", 1, 1, "`<-` is a comparison with a negative number", "a ="),
    ("(x - 1)^2, x", 1, 10, "several formulas are one list", None),  # the variable, in other tools
    ("x^2,", 1, 4, "nothing follows this comma", "x^2"),
    ("50%*x", 1, 4, "a percentage is a quotient", "(50/100)"),
    ("50%", 1, 4, "a percentage is a quotient", "(50/100)"),
    ("1.2.3", 1, 4, "only one decimal point", None),
    ("3 times x", 1, 3, "`times` is not an operator", "3*x"),
    ("x plus y", 1, 3, "`plus` is not an operator", "x + y"),
    ("5 nCr 2", 1, 3, "`nCr` is not an operator", "gamma(5 + 1)/(gamma(2 + 1)*gamma(5 - 2 + 1))"),
    ("sin(x) squared", 1, 8, "`squared` is not in the language", "sin(x)^2"),
    ("derivative of x^2", 1, 12, "written in symbols", None),
    ("x^2 subject to x > 1", 1, 5, "constraints are not in the language", None),
    ("f = @(x) x^2; f(3)", 1, 5, "a function is defined by its name", "f(x) = x^2"),
    ("@(x, y) x*y", 1, 1, "a function without a name", "x*y"),
    ("sin(x).diff(x)", 1, 7, "an expression has no methods", None),
    ("jax.grad(f)(x)", 1, 12, "`grad` differentiates the whole expression", None),
    ("SUM(A1:A3)", 1, 7, "a range of cells", None),
    ("x^2{x > 0}", 1, 4, "a condition in `where`", "where(x > 0, x^2, nan)"),
    ("A\\b", 1, 2, "`autodiff solve` solves equations", None),
    ("x\\cdot y", 1, 2, "not in LaTeX", "*"),
    ("x^2 /. x -> 3", 1, 6, "give one by the option `--x 2`", None),
    ("Solve[x^2 == 4, x]", 1, 1, "autodiff solve", None),
    ("xsin(x)", 1, 1, "`xsin` is one name", "x*sin"),
    ("ssin(x)", 1, 1, "there is no function `ssin`", "sin"),
    ("fmax(x, y)", 1, 1, "there is no function `fmax`", "max(x, y)"),
    ("max x y", 1, 5, "its arguments go in brackets", None),  # not max(x*y)
    ("x → x^2", 1, 3, "a function without a name", "x^2"),
    ("Σ x", 1, 3, "use the function `sum`", "sum(x)"),
    ("x %% 2", 1, 4, "`%%` is not an operator", "%"),
    ("{x^2, x>0; 0, x<=0}", 1, 1, "use the function `where`", "where(condition, a, b)"),
    ("log 2 (x + 1)", 1, 5, "its arguments go in brackets", "log2((x + 1))"),
    # the first of several mistakes
    ("sine(x) + )", 1, 1, "there is no function `sine`", "sin"),
    ("a = cosine(x)\nb = 2x", 1, 5, "there is no function `cosine`", "cos(x)"),
    ("x\n)", 1, 1, "in brackets", None),
    ("2x + sine(x)", 1, 2, "expected an operator", "2*x"),
]


@each(("text", "line", "column", "message", "suggestion"), BAD)
def test_a_bad_text(text: str, line: int, column: int, message: str, suggestion: str | None) -> None:
    with pytest.raises(ExpressionError) as caught:
        read(text)
    error = caught.value
    assert message in error.message
    assert "→" not in message or error.message.endswith(message)  # a circle of calls
    assert (error.line, error.column, error.suggestion) == (line, column, suggestion)


def test_an_error_shows_message_source_caret_and_suggestion() -> None:
    with pytest.raises(ExpressionError) as caught:
        read("a = 2\nb = sine(x)")
    assert str(caught.value).splitlines() == [
        "line 2, column 5: there is no function `sine`",
        "  b = sine(x)",
        "      ^",
        "Did you mean `sin`?",
    ]


@each(
    ("text", "before"),
    [("x*y)", "x*y"), ("\tx\t*y)", "\tx\t*y"), ("日本*本)", "日本*本"), ("x̂*ŷ)", "x̂*ŷ"), ("é*e\u0301)", "é*e\u0301")],
)
def test_the_caret_stands_under_the_spot(text: str, before: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        read(text)
    _, source, caret = str(caught.value).splitlines()
    assert source == f"  {escape_controls(text)}"
    assert columns(caret.removesuffix("^")) == columns(f"  {escape_controls(before)}")


def columns(text: str) -> int:
    """The width of a text in a terminal, by the Unicode standard."""
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in text)


def test_an_empty_text_is_not_shown() -> None:
    with pytest.raises(ExpressionError) as error:
        read(" \n ")
    assert str(error.value) == "line 1, column 1: the text is empty; expected an expression"


def test_a_long_line_is_shown_around_the_spot() -> None:
    text = "x + " * 1000 + "sine(x)" + " + x" * 1000
    with pytest.raises(ExpressionError) as caught:
        read(text)
    error = caught.value
    _, source, caret, _ = str(error).splitlines()
    assert error.column == 4001
    assert len(source) < 80
    assert source[caret.index("^") :].startswith("sine(x)")


def test_invisible_characters_do_not_reach_the_terminal() -> None:
    for text in (
        "x # \u202e\x1b[2J\n + \ud800|\ud800|",
        "`a\x1b[31m`(2)",
        "`a\x1b` = `b\x1b` = 2",
        "x == 'A\x1b\u202e'",
    ):
        with pytest.raises(ExpressionError) as caught:
            read(text)
        assert all(line.isprintable() for line in str(caught.value).splitlines())


def test_an_error_survives_pickling() -> None:
    with pytest.raises(ExpressionError) as caught:
        read("x + 2y")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.line, copy.column) == (str(caught.value), 1, 6)


def test_errors_about_values_need_no_place() -> None:
    error = UnknownNameError("there is no variable `z`", suggestion="x")
    assert (error.line, error.column) == (None, None)
    assert str(error) == "there is no variable `z`\nDid you mean `x`?"
    assert issubclass(MissingValueError, ExpressionError)
    assert issubclass(ExpressionError, ValueError)


def test_the_beginning_of_a_name_is_completed_to_the_shortest() -> None:
    assert suggest("opt", ["json", "optimizer", "optimizer-of-many"]) == "optimizer"
    assert suggest("o", ["optimizer"]) is None


@pytest.mark.slow
@each("count", [1, 2, 3])
def test_a_suggested_function_accepts_the_arguments(count: int) -> None:
    arguments = f"({', '.join('xyz'[:count])})"
    for function in evenly_spread_part(function_names()):
        for misspelt in (function[:-1], function + function[-1], function[:-2] + function[-1] + function[-2:-1]):
            error = refusal(misspelt + arguments) if len(misspelt) > 2 else None
            if error is not None and error.suggestion is not None:
                corrected = error.suggestion if "(" in error.suggestion else error.suggestion + arguments
                assert refusal(corrected) is None or "shape" in str(refusal(corrected)), (misspelt, corrected)


@each(("text", "is_noted"), [("e^(i*x)", True), ("exp(-2*j*x)", True), ("i*x", False), ("exp(k*x)", False)])
def test_an_imaginary_unit_is_noted(text: str, is_noted: bool) -> None:
    assert any("complex numbers" in note for note in read(text).notes) is is_noted
    assert not read(text, ["i", "j"]).notes


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.sampled_from(["{}", "x - {}", "max({}, 1) # {}"]))
def test_a_date_is_no_difference_unless_it_is_written_as_one(day: date, text: str) -> None:
    with pytest.raises(ExpressionError, match="this is a date"):
        read(text.format(day, day))
    for apart in ("{} - {} - {}", "{}-{}-{}.0", "{}-{:03}-{}"):
        difference = ad.parse(f"{apart.format(day.year, day.month, day.day)} # not {day}")
        assert difference() == day.year - day.month - day.day


def test_no_suggestion_where_nothing_is_close() -> None:
    assert suggest("velocity", function_names()) is None
    assert suggest("s" * 10_000, function_names()) is None


def test_a_text_beyond_the_limit_is_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_TEXT_LENGTH", 10)
    assert read("x" * 10).leaves
    with pytest.raises(ExpressionError, match=r"limit of 10 characters.*MAX_TEXT_LENGTH"):
        read("x" * 11)


def test_functions_that_expand_without_end_are_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_STEPS", 5_000)
    doubling = "".join(f"f{i}(t) = f{i - 1}(f{i - 1}(t))\n" for i in range(1, 60))
    with pytest.raises(ExpressionError, match="limit of 5,000 operations"):
        read(f"f0(t) = t\n{doubling}f59(x)")


PIECES = [
    *function_names(),
    *"xyeπ₁²⁻√|&!=<>~;:,.+-*/%^()[]{}#\n\r\t\0\u202e\ud800½٣本",
    *("and", "or", "not", "1e", "2.5", "==", "**", "f(t) =", "a =", "x̂", "\r\n"),
    *("`a b`", "`", "'A'", '"A"', "'", "== 'A'", "`\x1b`"),
    *("@", "x.0", "W: 2x3;", "v: 3\n", "[x, y]", "[0]", "[1, 2]", "dense(x, 2)", "mlp(x, [3], relu)"),
]


@given(
    st.one_of(
        st.text(CHARACTERS),
        st.lists(st.sampled_from(PIECES)).map("".join),
        st.lists(st.sampled_from(PIECES)).map(" ".join),
    )
)
@example("(" * 50)
@example("f(f)=f(f")
@example("f(t)(u)=t")
@example("x=y~z")
def test_any_text_reads_or_is_refused_with_a_reason(text: str) -> None:
    error = refusal(text)
    if error is None:
        return
    str(error).encode()  # halves of surrogate pairs would not
    assert error.line is not None
    assert error.column is not None
    assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
    assert 1 <= error.column <= len(text) + 1
    for internal in (
        "LPAR",
        "RPAR",
        "NAME",
        "NUMBER",
        "SEPARATOR",
        "OTHER",
        "$END",
        "SIGN",
        "TIMES",
        "LSQB",
        "RSQB",
        "SHAPE",
        "TEXT",
    ):
        assert internal not in error.message


def refusal(text: str) -> ExpressionError | None:
    """Why a text is not in the language; None if it is."""
    try:
        read(text)
    except ExpressionError as error:
        return error
    return None


# A text with one habit from elsewhere, and what its author means at x = 3, y = 5, x_1 = 7, n = 2.
HABITS = {
    "2½*x": 7.5, "½*x": 1.5, "(x)½": 1.5, "2 ½": 1.0, "x*0x1F": None, "x_{1} + 1": 8.0, "x^{2}": 9.0, "xⁿ": 9.0,
    "1,5*x": 4.5, "|x - y|": 2.0, "2x": 6.0, "x!": 6.0, "sin²(x)": math.sin(3) ** 2, "√x": math.sqrt(3), "x•y": 15.0,
    "x ⁄ y": 0.6, "x – y": -2.0, "x && y": 1.0, "x <> y": 1.0, "180° - x": math.pi - 3, "x mod n": 1.0,
    "x if x > y else n": 2.0, "x.pow(n)": 9.0, "x.clip(0, 1)": 1.0, "math.log(x, n)": math.log2(3),
    "Math.max(x, y)": 5.0,
    "x.round(2)": None, "np.round(x, 2)": None, "np.max([x, y], 0)": None, "[x, y].max(0)": None, "x.max(0)": None,
    "return sin(x)": math.sin(3), "y = n; return sin(y)": math.sin(2), "let z = x; z": 3.0, "print(x + 1)": 4.0,
    "int(-x/n)": -1.0,
    "2*||[x, y]||": 2*math.sqrt(34), "x += 1": None, "x^2 at x = 3": None, "sum(x for x in y)": None, "det(x)": None,
    "x^2 --x 3": None, "import math": None, "def f(x): return x^2": 9.0, "lim x": None,
    "sin x^2": math.sin(9), "sin 2x": math.sin(6), "cos 2πx": 1.0, "sqrt 2x": math.sqrt(6), "ln x²": math.log(9),
    "sin²2x": math.sin(6)**2, "log 10 x": math.log10(3), "log 2 x": math.log2(3), "e^2x": math.exp(6), "2^3x": 512.0,
    "x^2y": 45.0, "1/2x": None, "2πx": 6*math.pi, "1,000,000*x": 3e6, "1 000 000*x": 3e6, "1.000,5*x": 3001.5,
    "1,000.5*x": 3001.5, "[1,2.5] + 1,5": None, "10%*x": 0.3, "5%": 0.05, "max(x; y)": 5.0,
    "lambda x: x^2": 9.0, "∑x": 3.0, "∏x": 3.0, "‖[x, y]‖": math.sqrt(34), "x // n": 1.0, "x is y": 0.0,
    "x div n": 1.0, "x > 4 OR y > 4": 1.0, "x > 4 AND y > 4": 0.0, "NOT(x > 4)": 1.0, "sigma(x)": 1/(1 + math.exp(-3)),
    "log 2x": math.log(6), ",5*x": None, "[1; 2]": None,
    "1 000*x": 3000.0, "1_000*x": 3000.0, "x ** ** y": None, "x…": None, "1,000*x": None,
    "12,500": None, "x between 1 and y": 1.0, "NOT x > 4": 1.0, "y > 4 ∧ x > 4": 0.0, "y > 4 ∨ x > 4": 1.0,
    "x ‑ y": -2.0,
    "x in [1, 3]": None, "x NOT IN [1, 3]": None, "x is not null": None, "int(x, y)": None,
    "sind(x)": math.sin(math.pi/60),
    "log₂(x)": math.log2(3), "sqr(x)": None, "let z = x in z^2": 9.0, "⌊x/n⌋": 1.0, "arc tan(x)": math.atan(3),
    "SUM(x, y)": 8.0, "SUM([x, y])": 8.0, "AVERAGE(x, y, n)": 10/3, "PRODUCT(x, y)": 15.0, "sum({x, y})": 8.0,
    "cases(x > 4, n, y)": 5.0,
    r"\sin x": math.sin(3), r"\sin x^2": None, r"\alpha x": None, "10°": math.pi/18,
    "np.power(x, n)": 9.0, "np.maximum(x, y)": 5.0, "torch.clamp(x, 0, 1)": 1.0, "scipy.stats.norm.cdf(x - x)": 0.5,
    "sin(radians(x))": math.sin(math.pi/60), "np.deg2rad(x)": math.pi/60, "sin(x deg)": math.sin(math.pi/60),
    "degrees(x)": 540/math.pi, "var([x, y])": 1.0, "np.std([x, y])": 1.0, "isnan(x)": 0.0,
    r"\sqrt[3]{x}": math.cbrt(3), r"x \cdot y": 15.0, "$x^2$": 9.0, "1_000_000*x": 3e6,
    "median([x, y])": None, "cumsum(x)": None, "sort(x)": None, "linspace(0, 1, 5)": None, "mse(x, y)": None,
    "lim_{x->0} x": None, "sum_{i=1}^n x": None, "dy/dx = x^2": None, "x*y -x 1": None, "x' + 1": None, "3i + x": None,
    "x^2 where x=3": None, "sum([1 2; 3 4])*x": 30.0, "y = x^2, y": 9.0,
}  # fmt: skip


def obeyed(text: str, error: ExpressionError) -> str | None:
    """Put the suggestion in the place of a part around the error, so that the text can be read.

    It is the part that has the most words in common with the suggestion, and the shortest of several.
    """
    if error.start is None or error.suggestion is None:
        return None
    parts = [(i, j) for i in range(error.start + 1) for j in range(error.start, len(text) + 1)]
    words = Counter(re.findall(r"\w", error.suggestion))

    def distance(part: tuple[int, int]) -> tuple[int, int]:
        own = Counter(re.findall(r"\w", text[slice(*part)]))
        return ((words - own) + (own - words)).total(), part[1] - part[0]

    for i, j in sorted(parts, key=distance):
        pieces = [text[:i], error.suggestion, text[j:]]
        is_joined = any(re.search(r"\w$", a) and re.match(r"\w", b) for a, b in itertools.pairwise(pieces))
        if not is_joined and refusal("".join(pieces)) is None:
            return "".join(pieces)
    return None


@each("text", HABITS)
def test_a_suggestion_that_is_obeyed_means_what_its_author_meant(text: str) -> None:
    error = refusal(text)
    assert error is not None
    corrected = obeyed(text, error)
    if HABITS[text] is None:
        assert corrected is None or not read(corrected).leaves
        return
    assert corrected is not None, error.suggestion
    f = ad.parse(corrected)
    values = {"x": 3, "y": 5, "x_1": 7, "n": 2}
    assert f({name: values[name] for name in f.variables}) == pytest.approx(HABITS[text])


_POINTS = {1: [(0.3,), (1.7,)], 2: [(0.3, 0.6), (2.0, 3.0)], 3: [(0.3, 0.6, 0.2), (1.5, 2.5, 0.4)]}


def other_libraries_functions() -> Iterator[tuple[str, int, list[tuple[tuple[float, ...], float]]]]:
    """Yield functions of the math module, NumPy and SciPy: name, number of arguments, and values at points."""
    functions = {
        name: each for library in (special, np, math) for name, each in vars(library).items() if name[0] != "_"
    }
    for name, function in functions.items():
        is_function = isinstance(function, np.ufunc | BuiltinFunctionType | FunctionType)
        for count, points in _POINTS.items() if is_function and name not in ("sinc", "printoptions") else ():
            values = []
            for point in points:
                with contextlib.suppress(Exception):
                    values.append((point, float(function(*point))))
            if values:
                yield name, count, values


@pytest.mark.filterwarnings("ignore")
def test_a_function_of_another_library_is_never_taken_for_another_function() -> None:
    refused = 0
    for name, count, values in other_libraries_functions():
        names = "xyz"[:count]
        text = f"{name}({', '.join(names)})"
        error = refusal(text)
        if error is None or error.suggestion is None:
            continue
        refused += 1
        is_name = error.suggestion in function_names()
        suggestion = text.replace(name, error.suggestion) if is_name else error.suggestion
        f = ad.parse(suggestion)
        for point, value in values:
            x = {variable: number for variable, number in zip(names, point, strict=True) if variable in f.variables}
            assert f(x) == pytest.approx(value, rel=1e-6, nan_ok=True), (text, suggestion)
    assert refused > 20


# A part of a formula with one habit from elsewhere, and its value there.
PARTS = {
    "int(-x/n)": -1.0, "trunc(y/n)": 2.0, "NOT(x > 4)": 1.0, "factorial(n)": 2.0, "len([x, y])": 2.0, "|x - y|": 2.0,
    "√(x + y)": math.sqrt(8), "180°": math.pi, "∛x": math.cbrt(3), "2½": 2.5, "np.sin(x)": math.sin(3), "I(x + y)": 8.0,
    "average([x, y])": 4.0, r"\frac{x}{n}": 1.5, r"\frac{x + 1}{n + 1}": 4 / 3, r"\sqrt{x}": math.sqrt(3),
    r"\sin{2*x}": math.sin(6), r"\exp(n)": math.exp(2), "180deg": math.pi, "180 degrees": math.pi, "3 x 10^2": 300.0,
    "20 °C": 20.0,
}  # fmt: skip
PLACES = [
    "y*{}", "y/{}", "{}^2", "-{}", "y - {}", "n^{}", "{}*y", "{} + y", "2*({})", "max({}, y)", "x % {}", "y/{}/n",
    "-{}^2", "w = {}; w + y", "{}/n > y - 3",
]  # fmt: skip


@each(("part", "place"), [*itertools.product(PARTS, PLACES)])
def test_a_suggestion_for_a_part_of_a_formula_leaves_the_rest_as_it_is(part: str, place: str) -> None:
    error = refusal(part)
    assert error is not None
    assert error.suggestion is not None
    correction, values = obeyed(part, error), {"x": 3, "y": 5, "n": 2}
    assert correction is not None
    try:
        f = ad.parse(place.format(correction))
    except ad.ExpressionError:
        return  # which is said too
    meant = ad.parse(place.format(f"({PARTS[part]})"))
    assert f({name: values[name] for name in f.variables}) == pytest.approx(
        meant({name: values[name] for name in meant.variables})
    )


@each(
    ("text", "suggestion"),
    [
        ("x + 1 if x > 2 else y", "where(x > 2, x + 1, y)"),
        ("z = x if x > 2 else y; z*x", "where(x > 2, x, y)"),
        ("z = x == 2 ? x : y; z*x", "where(x == 2, x, y)"),
        ("y ~ a*x if x >= c else b", "where(x >= c, a*x, b)"),
        ("y*(x if x > 2 else y)", "where(condition, a, b)"),
        ("y*(x > 2 ? x : y)", "where(condition, a, b)"),
        ("-x // n", "floor(x/y)"),
        ("x // n^2", "floor(x/y)"),
        ("y + x // n*2 ", "floor(x/y)"),
        ("x // n*2 ", "floor(x/n)"),
        ("x > 1 xor y > 2", "(x) != (y)"),
        ("y % 2x", None),
    ],
)
def test_a_suggestion_has_whole_operands_or_other_names(text: str, suggestion: str | None) -> None:
    error = refusal(text)
    assert error is not None
    assert error.suggestion == suggestion
