"""Random texts with functions and named intermediates, for property tests."""

from __future__ import annotations

import string
from collections.abc import Sequence

from hypothesis import strategies as st

# Any character, halves of surrogate pairs too. Hypothesis would sort all of Unicode first, for two seconds.
CHARACTERS = st.sampled_from(string.printable) | st.integers(0, 0x10FFFF).map(chr)

ATOMS = ["x", "y", "x", "y", "z", "0", "1", "2", "0.5", "pi"]


@st.composite
def formulas(draw: st.DrawFn, forms: Sequence[str], atoms: Sequence[str] = ATOMS, most: int = 5) -> str:
    """A formula of a few operations, such as `{} + {}`, each on the one before and on others."""
    text = draw(st.sampled_from(atoms))
    for _ in range(draw(st.integers(1, most))):
        form = draw(st.sampled_from(forms))
        operands = [draw(st.sampled_from([*atoms, text])) for _ in range(form.count("{}"))]
        operands[draw(st.integers(0, len(operands) - 1))] = text
        text = f"({form.format(*operands)})"
    return text


@st.composite
def expressions(draw: st.DrawFn, names: list[str], functions: dict[str, int]) -> str:
    """A short expression of some names and calls of some functions, by their number of parameters."""
    text = draw(st.sampled_from(names))
    for _ in range(draw(st.integers(1, 3))):
        other = draw(st.sampled_from([*names, "2", "pi"]))
        forms = [f"({text} + {other})", f"{text}*{other}", f"sin({text})", f"where({text} > 1, {other}, {text})"]
        for function, count in functions.items():
            others = [draw(st.sampled_from(names)) for _ in range(count - 1)]
            forms.append(f"{function}({', '.join([text, *others])})")
        text = draw(st.sampled_from(forms))
    return text


@st.composite
def grouped_texts(draw: st.DrawFn) -> str:
    """A text of the variables x and y whose named parts nest: functions that call others, and intermediates."""
    statements: list[str] = []
    names, functions = ["x", "y"], dict[str, int]()
    for k in range(draw(st.integers(1, 3))):
        parameters = ["t", "u"][: draw(st.integers(1, 2))]
        statements.append(f"f{k}({', '.join(parameters)}) = {draw(expressions(parameters, functions))}")
        functions[f"f{k}"] = len(parameters)
    for k in range(draw(st.integers(0, 3))):
        statements.append(f"a{k} = {draw(expressions(names, functions))}")
        names.append(f"a{k}")
    return "; ".join([*statements, draw(expressions(names, functions))])
