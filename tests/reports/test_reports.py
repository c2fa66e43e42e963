"""Reports of commands are those that are stored, except for last digits.

A change that means to change reports renews them by `python -m tests.reports`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.commands import TOPICS, difference, read_topic, report, write_data, write_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    write_data(folder)
    return folder


@pytest.fixture(scope="module")
def models(folder: Path) -> Path:
    write_models(folder)
    return folder


def check_topic(topic: str, folder: Path) -> None:
    changes = [(command, difference(report(command, folder), stored)) for command, stored in read_topic(topic)]
    changed = [f"$ {command}\n{change}" for command, change in changes if change]
    assert not changed, "\n".join([*changed, "if this is meant: python -m tests.reports"])


# One test a topic, not cases of one test: tests.mutations runs the tests that call what it breaks.


def test_checking(folder: Path) -> None:
    check_topic("checking", folder)


def test_comparing(folder: Path) -> None:
    check_topic("comparing", folder)


def test_data(folder: Path) -> None:
    check_topic("data", folder)


def test_drawings(folder: Path) -> None:
    check_topic("drawings", folder)


def test_exports(models: Path) -> None:
    check_topic("exports", models)


def test_fits(folder: Path) -> None:
    check_topic("fits", folder)


def test_gradients(folder: Path) -> None:
    check_topic("gradients", folder)


def test_lessons(folder: Path) -> None:
    check_topic("lessons", folder)


def test_likelihoods(folder: Path) -> None:
    check_topic("likelihoods", folder)


def test_mistakes(folder: Path) -> None:
    check_topic("mistakes", folder)


def test_operations(folder: Path) -> None:
    check_topic("operations", folder)


def test_pages(models: Path) -> None:
    check_topic("pages", models)


def test_terminals(models: Path) -> None:
    check_topic("terminals", models)


def test_predicting(models: Path) -> None:
    check_topic("predicting", models)


def test_solving(folder: Path) -> None:
    check_topic("solving", folder)


def test_tracing(folder: Path) -> None:
    check_topic("tracing", folder)


def test_every_topic_is_checked() -> None:
    assert {f"test_{topic}" for topic in TOPICS} <= {*globals()}


def test_reports_differ_by_more_than_last_digits() -> None:
    assert difference("a  0.30000001 b\n", "a 0.3 b\n") is None
    for changed in ("a  0.3 b\n", "a 0.31 b\n", "a 0.3 c\n", "a 0.3\n", "a -0.3 b\n", "a 0.3 b\nc\n"):
        assert difference(changed, "a 0.3 b\n") is not None
