"""JavaScript, with its `Math`."""

from __future__ import annotations

from autodiff_cli.graph.straight import PRODUCT, SIGN, SUM, Notation, call
from autodiff_cli.targets import braces
from autodiff_cli.targets.braces import CHOICE, EQUALITY, Braces, Phrasing, comparison, infix
from autodiff_cli.targets.definitions import whole_powers
from autodiff_cli.targets.target import Target, shortest

_LIBRARY = (
    "sqrt", "cbrt", "exp", "expm1", "log", "log2", "log10", "log1p", "abs", "floor", "ceil",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip


def _asked(name: str) -> Notation:
    """A question about one number."""
    return Notation((f"{name}(", ")"), (0,), is_condition=True)


NOTATIONS = {
    **braces.NOTATIONS,
    **{name: call(f"Math.{name}", 1) for name in _LIBRARY},
    **{name: call(f"Math.{name}", 2) for name in ("atan2", "hypot", "max", "min")},
    **{name: call(name, 2) for name in ("copysign", "pow")},
    "round": call("round", 1),
    "exp2": Notation(("2**", ""), (SIGN + 1,), SIGN),
    "eq": comparison("===", EQUALITY),
    "ne": comparison("!==", EQUALITY),
    "fmod": infix(" % ", PRODUCT),
    "isnan": _asked("Number.isNaN"),
    "isfinite": _asked("Number.isFinite"),
    "isinf": Notation(("Math.abs(", ") === Infinity"), (0,), EQUALITY, True),
    "within": Notation(("Number.isNaN(", ") ? NaN : ", ""), (0, CHOICE), CHOICE),
}
NATIVES = {
    "copysign": """\
// The size of one number with the sign of another.
function copysign(size, sign) {
  return sign < 0 || Object.is(sign, -0) ? -Math.abs(size) : Math.abs(size);
}
""",
    "round": """\
// Math.round takes halves up; here they go to the even whole number.
function round(x) {
  const whole = Math.round(x);
  return whole - x === 0.5 && Math.abs(whole % 2) === 1 ? whole - 1 : whole;
}
""",
    "pow": """\
// As elsewhere, 1 to any power is 1, also to nan, and so is -1 to an infinite one.
function pow(x, y) {
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x**y;
}
""",
}
JAVASCRIPT = Target(
    name="js",
    notations=NOTATIONS,
    numbers={"pi": "Math.PI", "tau": "(2*Math.PI)", "e": "Math.E", "inf": "Infinity", "nan": "NaN"},
    literal=shortest,
    definitions={"pow": whole_powers},
    as_number=Notation(("", " ? 1 : 0"), (braces.OR,), CHOICE, conditions=(0,)),
    as_condition=Notation(("", " !== 0"), (SUM,), EQUALITY, True),
    natives=NATIVES,
    statements=Braces(
        Phrasing(
            function="function {name}({parameters}) ",
            indent="  ",
            parameter="{name}",
            variable="let {name}",
            constant="const {name}",
            counter="let {name}",
            table="const {name} = [|];",
            number="const {name} = {number};",
            kinds={"number": "number", "condition": "boolean"},
        )
    ),
)
