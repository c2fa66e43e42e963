"""How much work commands do: evaluations of a model over its rows, boxes of a proof, code of a kernel.

Time depends on the machine; this work hardly does. `costs.toml` has it, and a change that means to change it renews
the file with `python -m tests.test_costs`. Its numbers are:

- `passes`: evaluations of a model, its gradient or its residuals; fits that are evaluated together count once.
- `rows`: the rows of all these evaluations, for each fit.
- `boxes`: the boxes that a search examines.
- `enclosures`: evaluations of a formula in intervals or balls.
- `points`, `unresolved`: the zeros or optima that a search finds, and the boxes that it leaves.
- `lines`, `bytes`: the length of a kernel's code for vectors of two doubles, and the memory that its thread needs.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.autodiff.sweeps import ForwardPass
from autodiff_cli.backends.llvm.codegen import kernel_module
from autodiff_cli.backends.llvm.layout import MemoryLayout
from autodiff_cli.backends.llvm.machine_code import Processor
from autodiff_cli.backends.llvm.plan import plan_kernel
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.program import read
from autodiff_cli.solving.search import Search
from autodiff_cli.training.objective.batch import GroupBatch
from autodiff_cli.training.rows import FoldTask, MemoryRows, SumTask, ValueTask
from tests.reports.commands import write_data
from tests.support import run_cli

STORED = Path(__file__).with_name("costs.toml")
COSTS: dict[str, dict[str, dict[str, int]]] = tomllib.loads(STORED.read_text(encoding="utf-8"))
SHARE, PASSES = 0.05, 2  # how far costs may be from those that are stored: processors round differently
PROCESSOR = Processor("aarch64-linux", "", "", 2)
WORK: dict[str, list[tuple[type, str, Callable[..., dict[str, int]]]]] = {
    "train": [
        *(
            (task, "__call__", lambda _, __, rows: {"passes": 1, "rows": rows})
            for task in (SumTask, ValueTask, FoldTask)
        ),
        (GroupBatch, "evaluate", lambda batch, _, __, fits: {"passes": 1, "rows": int(batch.sizes[fits].sum())}),
        (MemoryRows, "run_epoch", lambda rows, *_: {"passes": 1, "rows": rows.rows}),
    ],
    "solve": [
        (Search, "_examine", lambda _, boxes: {"boxes": len(boxes)}),
        (ForwardPass, "__call__", lambda *_: {"enclosures": 1}),
    ],
}
WORK["compare"], WORK["minimize"], WORK["maximize"] = WORK["train"], WORK["solve"], WORK["solve"]


def cost_of_command(command: str) -> dict[str, int]:
    """Run a command, and count its work."""
    cost = Counter[str]()

    def counted(function: Callable[..., Any], work: Callable[..., dict[str, int]]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            cost.update(work(*arguments))
            return function(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, work in WORK[command.split()[0]]:
            patch.setattr(owner, name, counted(getattr(owner, name), work))
        output = run_cli(f"{command} --json")
    assert output.status == 0, f"{command}\n{output.stderr}"
    if "boxes" in cost:
        found = output.json
        cost["points"], cost["unresolved"] = len(found.get("roots", found.get("points"))), len(found["unresolved"])
    return dict(cost)


def cost_of_kernel(formula: str) -> dict[str, int]:
    """Return the length of the code that sums a formula and its gradient over rows of x and y, and its memory."""
    program = read(formula)
    parameters = [leaf for name, leaf in program.leaves.items() if name not in ("x", "y")]
    graphs = RowGraphs(
        simplify([program.output, *gradient_nodes(program.output, parameters, program.shapes)]),
        {"x", "y"},
        program.shapes,
    )
    layout = MemoryLayout(plan_kernel(graphs, is_summed=True), PROCESSOR.width)
    text = kernel_module(PROCESSOR, layout, ("f8",) * len(layout.plan.column_inputs), 8192)
    return {"lines": text.count("\n"), "bytes": layout.size}


def cost(topic: str, line: str) -> dict[str, int]:
    """Return the cost of a line of the table, in the folder with the data."""
    return (cost_of_kernel if topic == "kernels" else cost_of_command)(line)


def is_near(found: Mapping[str, int], stored: Mapping[str, int]) -> bool:
    """Whether a cost is near the one that is stored."""
    share = SHARE + PASSES / stored.get("passes", float("inf"))
    return found.keys() == stored.keys() and all(
        abs(found[name] - number) <= share * number for name, number in stored.items()
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("costs")
    write_data(folder)
    return folder


def check_topic(topic: str, folder: Path) -> None:
    with contextlib.chdir(folder):
        changed = [
            f"{line}\n    {found}, which was {stored}"
            for line, stored in COSTS[topic].items()
            if not is_near(found := cost(topic, line), stored)
        ]
    assert not changed, "\n".join([*changed, "if this is meant: python -m tests.test_costs"])


# One test a topic, not cases of one test: tests.mutations runs the tests that call what it breaks.


def test_least_squares(folder: Path) -> None:
    check_topic("least_squares", folder)


def test_starts(folder: Path) -> None:
    check_topic("starts", folder)


def test_groups(folder: Path) -> None:
    check_topic("groups", folder)


def test_intervals(folder: Path) -> None:
    check_topic("intervals", folder)


def test_robust(folder: Path) -> None:
    check_topic("robust", folder)


def test_likelihoods(folder: Path) -> None:
    check_topic("likelihoods", folder)


def test_smooth(folder: Path) -> None:
    check_topic("smooth", folder)


def test_descents(folder: Path) -> None:
    check_topic("descents", folder)


def test_comparing(folder: Path) -> None:
    check_topic("comparing", folder)


def test_zeros(folder: Path) -> None:
    check_topic("zeros", folder)


def test_optima(folder: Path) -> None:
    check_topic("optima", folder)


def test_kernels(folder: Path) -> None:
    check_topic("kernels", folder)


def main() -> None:
    """Store all costs anew."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_data(Path(folder))
        tables = [f"# {__doc__.splitlines()[0]}\n"]
        for topic, lines in COSTS.items():
            tables.append(f"\n[{topic}]\n")
            for line in lines:
                numbers = ", ".join(f"{name} = {number}" for name, number in cost(topic, line).items())
                tables.append(f"'{line}' = {{{numbers}}}\n")
    STORED.write_text("".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main()
