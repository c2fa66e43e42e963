"""The table of mutations follows the program: each of them breaks something, and its tests are there."""

from __future__ import annotations

import pytest

from tests.mutations.table import MUTATIONS, Mutation
from tests.support import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda found: f"{found.file}: {found.old.strip()}"[:100])
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    assert mutation.new != mutation.old


def test_the_tests_are_there() -> None:
    named = {name for found in MUTATIONS for name in found.tests if name.endswith(".py")}
    assert {name for name in named if not (ROOT / name).exists()} == set()
