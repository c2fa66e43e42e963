"""Reports of commands are those that are stored, except for last digits.

A change that means to change reports renews them by `python -m tests.reports`.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from autodiff_cli.backends import numpy_backend, reductions, selection
from autodiff_cli.backends.llvm import backend as llvm_backend
from autodiff_cli.data import batches, delimited, files, formats, source
from autodiff_cli.formula import uncertainty
from autodiff_cli.render import rows as render_rows
from autodiff_cli.training import rows
from autodiff_cli.training.objective import kernels, objective
from autodiff_cli.training.result import prediction
from tests.each import amount, evenly_spread_part
from tests.reports.commands import TOPICS, difference, read_topic, report, write_data, write_models
from tests.support import run_cli


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
    commands = [*read_topic(topic)]
    if topic == "operations":  # one command for each operation
        commands = evenly_spread_part(commands)
    changes = [(command, difference(report(command, folder), stored)) for command, stored in commands]
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


def test_descents(folder: Path) -> None:
    check_topic("descents", folder)


def test_models(folder: Path) -> None:
    check_topic("models", folder)


def test_gradients(folder: Path) -> None:
    check_topic("gradients", folder)


def test_lessons(folder: Path) -> None:
    check_topic("lessons", folder)


def test_likelihoods(folder: Path) -> None:
    check_topic("likelihoods", folder)


def test_mistakes(models: Path) -> None:
    check_topic("mistakes", models)


def test_operations(folder: Path) -> None:
    check_topic("operations", folder)


def test_terminals(models: Path) -> None:
    check_topic("terminals", models)


def test_predicting(models: Path) -> None:
    check_topic("predicting", models)


def test_solving(folder: Path) -> None:
    check_topic("solving", folder)


def test_tracing(folder: Path) -> None:
    check_topic("tracing", folder)


# Limits from which on rows, columns and files are processed in parts, or by other methods: small enough to be passed.
SIZES = {
    source: {"_SMALL_FILE_BYTES": 0, "_SAMPLE_BYTES": 64, "_TEXT_BUFFER_BYTES": 64},
    delimited: {"_LINE_BLOCK_BYTES": 64, "_PARSE_BLOCK_BYTES": 64},
    files: {"_TEXT_BLOCK_ROWS": 3},
    formats: {"_TEXT_BATCH_ROWS": 3, "_JSON_BLOCK_BYTES": 64},
    batches: {"_BLOCK_VALUES": 8},
    render_rows: {"_MIN_ARROW_ROWS": 2},
    rows: {"MAX_BLOCK_ROWS": 32, "MAX_COPIED_ROWS": 16, "_GATHER_ROWS": 16},
    reductions: {"_MIN_THREADED_SIZE": 1},
    kernels: {"_MAX_PRODUCT_COLUMNS": 1, "_MAX_JOINT_HESSIAN": 1},
    objective: {"_MIN_PRODUCT_ROWS": 1},
    prediction: {"_PREDICTION_CHUNK_ROWS": 64, "_MAX_GRADIENT_VALUES": 8},
    numpy_backend: {"BLOCK_ROWS": 32},
    llvm_backend: {"_MAX_BATCH_ROWS": 32, "_GATHER_BYTES": 64},
    selection: {"_MIN_WORK": 0},
    uncertainty: {"_BLOCK_NUMBERS": 100},
}
SIZED = """
messy.csv german.csv tabs.tsv rows.jsonl --monte-carlo --x-sigma --weights --huber-delta --family --validation
--batch-size --by a[site] [y, --l1 compare --interval --residuals --laplace --bounds --drop-missing
"""


def test_sizes_of_blocks_change_no_report(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limits in SIZES.items():
        for name, size in limits.items():
            monkeypatch.setattr(module, name, size)
    changed = []
    for topic in ("data", "gradients", "fits", "descents", "models", "likelihoods", "comparing", "predicting"):
        commands = [pair for pair in read_topic(topic) if any(word in pair[0] for word in SIZED.split())]
        for command, stored in commands if topic == "data" else commands[amount(1, 0, 0) :: amount(8, 3, 3)]:
            if change := difference(report(command, models), stored):
                changed.append(f"$ {command}\n{change}")
    assert not changed, "\n".join(changed)


NUMBER = re.compile(r"(?<![\w.<])(?<!e-)[-−]?\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
# Lines of reports with numbers that no document has: derived ones, those of explanations, losses of a first attempt.
NOT_IN_DOCUMENTS = re.compile(
    r"standard deviation of residuals|scales the standard errors|correlations above|parameters?\)$|whose root|use \d of"
    r"|of the values are from|saved for the backward|so the standard error is|^Complete:|^global m|^\d+ +\S+$|^order:"
    r"|^standard errors: |, bias \d+ |uses: |^To evaluate|norm scales"
)


def numbers_of(document: Any) -> Iterator[float]:
    """Yield all numbers of a document, also those in its texts and keys."""
    if isinstance(document, dict | list):
        for part in [*document, *document.values()] if isinstance(document, dict) else document:
            yield from numbers_of(part)
    elif isinstance(document, str):
        yield from (float(found.replace(",", "").replace("−", "-")) for found in NUMBER.findall(document))
    elif document is not None:
        yield float(document)


def is_rounded(text: str, numbers: Sequence[float]) -> bool:
    """Whether a text is a rounding of one of some numbers, or of one in per cent; signs may be those of a formula."""
    digits, _, exponent = text.replace(",", "").lstrip("-−").partition("e")
    unit = float(f"1e{int(exponent or 0) - len(digits.partition('.')[2])}")
    size = float(f"{digits}e{exponent or 0}")
    return any(abs(abs(number) * scale - size) <= 0.501 * unit for number in numbers for scale in (1, 100))


@pytest.mark.parametrize("topic", ["gradients", "tracing", "fits", "likelihoods", "comparing", "models", "solving"])
def test_numbers_of_reports_are_in_their_documents(topic: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    writing = ("COLUMNS", "--json", "--format", " -o ", "--plot", ":", "--save")  # files and drawings, and ranges
    commands = [command for command, _ in read_topic(topic) if not any(word in command for word in writing)]
    for command in evenly_spread_part(commands):
        words = shlex.split(command)[1:]
        text, document = run_cli(words), run_cli([*words, "--json"])
        if text.status == document.status == 0:
            numbers = [*numbers_of([json.loads(line) for line in document.splitlines()]), *numbers_of(command)]
            lines = [line for line in text.splitlines() if not NOT_IN_DOCUMENTS.search(line.strip())]
            missing = [
                (line, found) for line in lines for found in NUMBER.findall(line) if not is_rounded(found, numbers)
            ]
            assert not missing, command


def fits_in(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the documents of fits in a document."""
    if isinstance(document, dict | list):
        if isinstance(document, dict) and {"parameters", "loss", "rows"} <= document.keys():
            yield document
        for part in document.values() if isinstance(document, dict) else document:
            yield from fits_in(part)


def check_figures(fit: dict[str, Any]) -> None:
    """The figures of a fit follow from each other, by one distribution: Student's or the normal one."""
    level, by_normal, by_student = fit.get("confidence", {}).get("level"), {}, {}
    shown: dict[Any, float] = {}
    for name, error in fit.get("stderr", {}).items():
        if not isinstance(error, float) or not error:
            continue
        value, ratio = fit["parameters"][name], fit.get("t_values", {}).get(name)
        if fit.get("covariance"):
            assert fit["covariance"][name][name] == pytest.approx(error**2, rel=1e-6)
        assert ratio is None or ratio == pytest.approx(value / error, rel=1e-6)
        distributions = ((by_normal, stats.norm), *([(by_student, stats.t(fit["dof"]))] if fit.get("dof") else []))
        for ends, distribution in distributions:
            half = distribution.ppf((1 + level) / 2) * error if level else 0.0
            ends |= {
                (name, "p"): 2 * distribution.sf(abs(value / error)),
                (name, 0): value - half,
                (name, 1): value + half,
            }
        shown |= {(name, "p"): fit["p_values"][name]} if fit.get("p_values", {}).get(name) is not None else {}
        shown |= {(name, k): end for k, end in enumerate(fit.get("confidence", {}).get(name) or ())}
    if shown and not fit.get("draws") and "posterior" not in fit:
        close = [{key: ends[key] for key in shown} for ends in (by_normal, by_student) if ends]
        assert any(shown == pytest.approx(ends, rel=1e-5, abs=1e-9) for ends in close)
    figures = {name: fit.get(name) for name in ("rss", "dof", "reduced_chi_squared", "aic", "log_likelihood", "bic")}
    if all(figures[name] is not None for name in ("rss", "reduced_chi_squared")):
        assert fit["reduced_chi_squared"] == pytest.approx(fit["rss"] / fit["dof"], rel=1e-6)
    if all(figures[name] is not None for name in ("aic", "log_likelihood")):
        count = fit["aic"] / 2 + fit["log_likelihood"]
        assert count == pytest.approx(round(count), abs=1e-6)
        if fit["bic"] is not None:
            rows = math.exp((fit["bic"] + 2 * fit["log_likelihood"]) / count)
            assert rows == pytest.approx(round(rows), rel=1e-6)
        if isinstance(fit.get("aicc"), float) and fit["bic"] is not None:
            assert fit["aicc"] == pytest.approx(fit["aic"] + 2 * count * (count + 1) / (rows - count - 1), rel=1e-6)


@pytest.mark.parametrize("topic", ["fits", "likelihoods", "comparing", "models", "descents"])
def test_figures_of_a_fit_follow_from_each_other(topic: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    commands = [command for command, _ in read_topic(topic) if not re.search("COLUMNS| -o |--save|--log", command)]
    for command in evenly_spread_part(commands):
        words = shlex.split(command)[1:]
        output = run_cli([*words, *([] if "--json" in words else ["--json"])])
        for line in output.splitlines() if output.status == 0 else ():
            for fit in fits_in(json.loads(line)):
                check_figures(fit)


def test_a_single_thing_is_in_the_singular() -> None:
    others = re.compile("is|was|has|as|plus|minus|times|gives|uses|less|class|axis|pass|loss")
    for topic in TOPICS:
        for command, text in read_topic(topic):
            found = re.findall(r"(?<![\w.,^*/+−-])(?<![-+*/^=] )1 (?:more )?([a-z]+s)\b", text)
            assert all(map(others.fullmatch, found)), (command, found)


def test_every_topic_is_checked() -> None:
    assert {f"test_{topic}" for topic in TOPICS} <= {*globals()}


def test_reports_differ_by_more_than_last_digits() -> None:
    assert difference("a  0.30000001 b\n", "a 0.3 b\n") is None
    for changed in ("a  0.3 b\n", "a 0.31 b\n", "a 0.3 c\n", "a 0.3\n", "a -0.3 b\n", "a 0.3 b\nc\n"):
        assert difference(changed, "a 0.3 b\n") is not None
