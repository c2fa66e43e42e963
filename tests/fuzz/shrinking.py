"""Shrinks a failing case: removes parts of its text and simplifies its values while the same property fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from autodiff_cli import ExpressionError, parse
from tests.fuzz.grammar import Case
from tests.fuzz.properties import broken

SIMPLE = (1.0, 2.0, 0.5, 0.0)
MOST_TRIES = 400
_DIGITS = re.compile(r"\d")


def shrink(name: str, case: Case) -> Case:
    """A case that breaks a property in the same way, as small as a few hundred tries make it."""
    kind = _kind(broken(name, case))
    tries = 0
    found = case
    while True:
        for candidate in _candidates(found):
            tries += 1
            if tries > MOST_TRIES:
                return found
            if _kind(broken(name, candidate)) == kind:
                found = candidate
                break
        else:
            return found


def _kind(why: str | None) -> str | None:
    """What is wrong, without the numbers in it."""
    return None if why is None else _DIGITS.sub("", why)[:12]


def _candidates(case: Case) -> Iterator[Case]:
    for text in _shorter(case.text):
        try:
            variables = parse(text).variables
        except ExpressionError:
            continue
        if {*variables} <= {*case.point}:
            yield replace(case, text=text, point={name: case.point[name] for name in variables})
    for name, value in case.point.items():
        for simple in SIMPLE:
            if not np.array_equal(value, simple * np.ones(np.shape(value))):
                chosen: Any = simple * np.ones(np.shape(value)) if np.ndim(value) else simple
                yield replace(case, point={**case.point, name: chosen})
            else:
                break


def _shorter(text: str) -> Iterator[str]:
    """The text without a statement, or with a bracket, or a call, replaced by one of its parts or by a leaf."""
    statements = re.split(r"[;\n]", text)
    for k in range(len(statements) - 1):
        yield ";".join(statements[:k] + statements[k + 1 :])
    for start, begin, end in _brackets(text):
        inner = text[begin + 1 : end]
        for part in (*_parts(inner), "x", "1"):
            if len(part) < end + 1 - start:
                yield (
                    f"{text[:start]}({part}){text[end + 1 :]}"
                    if len(part) > 1
                    else text[:start] + part + text[end + 1 :]
                )


def _brackets(text: str) -> Iterator[tuple[int, int, int]]:
    """Each bracket: where the name before it begins, where it begins and where it ends; large ones first."""
    found, waiting = [], []
    for i, character in enumerate(text):
        if character == "(":
            waiting.append(i)
        elif character == ")" and waiting:
            begin = waiting.pop()
            start = begin
            while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
                start -= 1
            found.append((start, begin, i))
    return iter(sorted(found, key=lambda place: place[0] - place[2]))


def _parts(inner: str) -> list[str]:
    """What stands between the commas and the operators of a bracket, not within further brackets."""
    parts, depth, begin = [], 0, 0
    for i, character in enumerate(inner):
        depth += character in "([{"
        depth -= character in ")]}"
        if depth == 0 and character in ",+-*/%<>=!^·×÷−≤≥":
            parts.append(inner[begin:i].strip())
            begin = i + 1
    parts.append(inner[begin:].strip())
    return [part for part in parts if part]
