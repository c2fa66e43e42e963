"""The module of a gradient method: batch after batch, each gathered, its gradient taken, the parameters moved."""

from __future__ import annotations

import math
from typing import NamedTuple

from autodiff_cli.backends.llvm.plans.items import Plan, Stage
from autodiff_cli.backends.llvm.plans.layout import PlanLayout
from autodiff_cli.backends.llvm.plans.nests import Nest
from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.llvm.writing.cells import CONVERSIONS
from autodiff_cli.backends.llvm.writing.listing import ATTRIBUTES, ModuleText
from autodiff_cli.backends.llvm.writing.program import PROLOGUE, STRIP, PlanWriter
from autodiff_cli.backends.llvm.writing.text import Text

# The fields of a job, each of 8 bytes. Rows: `order` has their numbers, each of 4 bytes; those from `begin` up to `end`
# of it are gone through, in batches of `batch`; as many as `window`, which is some batches, are gathered at a time from
# `columns` to `drawn`, two tables of columns. The sums of a batch go to `sums`, and its mean loss to `losses`, of which
# `count` says how many there are. `point` begins with the parameters, `memory` has what is remembered of them; a step
# reads the table `step_columns`, writes to `next`, and counts in `step_point`. `longest` is the length that a longer
# gradient is shortened to.
JOB = (
    "order", "begin", "end", "batch", "window", "columns", "drawn", "sums", "losses", "count",
    "point", "memory", "step_columns", "step_point", "step_memory", "next", "longest",
)  # fmt: skip
_ADDRESSES = frozenset(JOB) - {"begin", "end", "batch", "window", "count", "longest"}

_UNROLLED = 4  # rows gathered in one pass


class Placed(NamedTuple):
    """A plan, and where everything lies."""

    plan: Plan
    nests: list[Nest]
    layout: PlanLayout


class EpochPlan(NamedTuple):
    """What a step over a batch is.

    Attributes:
        loss: sums of the loss, and of its slopes, over the rows of a batch.
        step: the update, over the parameters.
        weight: the place of the sum of the weights among the sums; None if each row counts 1.
        counted, divisor: the places, in the step's point, of its number and of what the sums are divided by.
        shrink: likewise of the factor that shortens the gradient; None where none is too long.
        parameters: how many numbers these have.
        width: of a row of the state: the parameters, and what fills the last vector.
        memory: how many numbers are remembered of each parameter.
    """

    loss: Placed
    step: Placed
    weight: int | None
    counted: int | None
    divisor: int | None
    shrink: int | None
    parameters: int
    width: int
    memory: int


def epoch_written(target: Processor, plan: EpochPlan, types: tuple[str, ...]) -> str:
    """The text of the module. It exports `epoch(job, memory)`.

    Args:
        types: of the columns, by NumPy's letters.
    """
    module = ModuleText(target)
    PlanWriter(module, *plan.loss, types).whole_block(summed=True)
    step = PlanWriter(module, *plan.step, ("f8",) * len(plan.step.plan.columns))
    step.function("step_prologue", PROLOGUE, Stage.UNIFORM)
    step.function("step_strip", STRIP, Stage.ROW)
    for kind in sorted({CONVERSIONS[letters][0] for letters in types}):
        module.add(_gather(kind))
    module.add(_Epoch(module, plan, types).text())
    return module.finished()


def _gather(kind: str) -> Text:
    """A function that copies rows in an order."""
    text = Text(f"define internal void @gather_{kind}(ptr %from, ptr %order, ptr %to, i64 %count) {{")
    many = text.put(f"and i64 %count, {-_UNROLLED}")
    with text.when(text.put(f"icmp ne i64 {many}, 0")), text.loop("0", many, _UNROLLED) as loop:
        for k in range(_UNROLLED):
            _copy_row(text, kind, text.put(f"add nuw nsw i64 {loop.index}, {k}"))
    with text.when(text.put(f"icmp ne i64 {many}, %count")), text.loop(many, "%count") as loop:
        _copy_row(text, kind, loop.index)
    return text


def _copy_row(text: Text, kind: str, place: str) -> None:
    number = text.put(f"load i32, ptr {text.put(f'getelementptr inbounds i32, ptr %order, i64 {place}')}, align 4")
    row = text.put(f"zext i32 {number} to i64")
    found = text.put(f"load {kind}, ptr {text.put(f'getelementptr inbounds {kind}, ptr %from, i64 {row}')}")
    text.do(f"store {kind} {found}, ptr {text.put(f'getelementptr inbounds {kind}, ptr %to, i64 {place}')}")


class _Epoch:
    """The function `epoch`."""

    def __init__(self, module: ModuleText, plan: EpochPlan, types: tuple[str, ...]) -> None:
        self._module = module
        self._plan = plan
        self._types = types
        self._width = module.target.width
        self._text = Text(f"define void @epoch(ptr %job, ptr %memory) {ATTRIBUTES} {{")
        self._job: dict[str, str] = {}

    def text(self) -> Text:
        text = self._text
        for k, name in enumerate(JOB):
            place = text.put(f"getelementptr i64, ptr %job, i64 {k}")
            kind = "ptr" if name in _ADDRESSES else "double" if name == "longest" else "i64"
            self._job[name] = place if name == "count" else text.put(f"load {kind}, ptr {place}")
        job = self._job
        with text.loop(job["begin"], job["end"], job["window"]) as window:
            count = self._least(text.put(f"sub i64 {job['end']}, {window.index}"), job["window"])
            self._drawn(window.index, count)
            with text.loop("0", count, job["batch"]) as batch:
                rows = self._least(text.put(f"sub i64 {count}, {batch.index}"), job["batch"])
                self._batch(batch.index, rows)
        return text

    def _least(self, a: str, b: str) -> str:
        return self._text.put(f"select i1 {self._text.put(f'icmp ult i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def _place(self, field: str, index: int | str, kind: str = "double") -> str:
        return self._text.put(f"getelementptr inbounds {kind}, ptr {self._job[field]}, i64 {index}")

    def _drawn(self, begin: str, count: str) -> None:
        """Gather the rows of a window."""
        put = self._text.put
        order = put(f"getelementptr inbounds i32, ptr {self._job['order']}, i64 {begin}")
        for leaf, letters in zip(self._plan.loss.plan.columns, self._types, strict=True):
            (source, far), (goal, near) = (self._entry(field, leaf.place) for field in ("columns", "drawn"))
            with self._text.loop("0", str(math.prod(leaf.shape))) as element:
                from_ = put(f"getelementptr i8, ptr {source}, i64 {put(f'mul i64 {element.index}, {far}')}")
                to = put(f"getelementptr i8, ptr {goal}, i64 {put(f'mul i64 {element.index}, {near}')}")
                self._text.do(
                    f"call void @gather_{CONVERSIONS[letters][0]}(ptr {from_}, ptr {order}, ptr {to}, i64 {count})"
                )

    def _entry(self, field: str, place: int) -> tuple[str, str]:
        """A column of a table: its address, and how far its elements are apart."""
        begin = self._text.put(f"load ptr, ptr {self._place(field, 2 * place, 'i64')}")
        return begin, self._text.put(f"load i64, ptr {self._place(field, 2 * place + 1, 'i64')}")

    def _batch(self, first: str, rows: str) -> None:
        """The sums over the rows of a batch, and the step."""
        text, job = self._text, self._job
        text.do(f"call void @prologue(ptr %memory, ptr {job['point']})")
        text.do(
            f"call void @block(ptr %memory, ptr {job['point']}, ptr {job['drawn']}, i64 {first}, i64 {rows}, "
            f"ptr {job['sums']}, i64 0)"
        )
        if self._plan.weight is None:
            self._step(text.put(f"uitofp i64 {rows} to double"))
            return
        weight = text.put(f"load double, ptr {self._place('sums', self._plan.weight)}")
        with text.when(text.put(f"fcmp une double {weight}, 0.0")):
            self._step(weight)

    def _step(self, weight: str) -> None:
        text, job = self._text, self._job
        total = text.put(f"load double, ptr {job['sums']}")
        number = text.put(f"load i64, ptr {job['count']}")
        text.do(f"store double {text.put(f'fdiv double {total}, {weight}')}, ptr {self._place('losses', number)}")
        text.do(f"store i64 {text.put(f'add i64 {number}, 1')}, ptr {job['count']}")
        if self._plan.divisor is not None:
            text.do(f"store double {weight}, ptr {self._place('step_point', self._plan.divisor)}")
        if self._plan.shrink is not None:
            text.do(f"store double {self._shrink(weight)}, ptr {self._place('step_point', self._plan.shrink)}")
        if self._plan.counted is not None:
            counter = self._place("step_point", self._plan.counted)
            steps = text.put(f"load double, ptr {counter}")
            text.do(f"store double {text.put(f'fadd double {steps}, 1.0')}, ptr {counter}")
        text.do(f"call void @step_prologue(ptr {job['step_memory']}, ptr {job['step_point']})")
        width, strip = self._plan.width, self._plan.step.layout.strip
        with text.loop("0", str(width), strip) as part:
            span = self._least(text.put(f"sub i64 {width}, {part.index}"), str(strip))
            text.do(
                f"call void @step_strip(ptr {job['step_memory']}, ptr {job['step_point']}, ptr {job['step_columns']}, "
                f"i64 {part.index}, i64 {span}, ptr null, i64 {self._width}, ptr {job['next']}, i64 {8 * width})"
            )
        self._take("point", 0, width)
        if self._plan.memory:
            self._take("memory", width, self._plan.memory * width)

    def _shrink(self, weight: str) -> str:
        """What makes a gradient as long as it may be; 1 for one that is not longer, or that is no vector of numbers.

        Squares are taken of slopes in units of the largest, since they may overflow.
        """
        text, end = self._text, str(self._plan.parameters + 1)
        with text.loop("1", end) as loop:
            before = loop.carry(text.name(), "double", "0.0")
            slope = text.put(f"load double, ptr {self._place('sums', loop.index)}")
            negative = text.put(f"fneg double {slope}")
            size = text.put(f"select i1 {text.put(f'fcmp olt double {slope}, 0.0')}, double {negative}, double {slope}")
            is_larger = text.put(f"fcmp ogt double {size}, {before}")
            loop.hand_on(text.put(f"select i1 {is_larger}, double {size}, double {before}"))
        (largest,) = loop.reached
        with text.loop("1", end) as loop:
            before = loop.carry(text.name(), "double", "0.0")
            slope = text.put(f"load double, ptr {self._place('sums', loop.index)}")
            part = text.put(f"fdiv double {slope}, {largest}")
            loop.hand_on(text.put(f"fadd double {before}, {text.put(f'fmul double {part}, {part}')}"))
        (squares,) = loop.reached
        self._module.declare("double @llvm.sqrt.f64(double)")
        root = text.put(f"call double @llvm.sqrt.f64(double {squares})")
        norm = text.put(f"fmul double {root}, {text.put(f'fdiv double {largest}, {weight}')}")
        limit = self._job["longest"]
        factor = text.put(f"fdiv double {limit}, {norm}")
        return text.put(f"select i1 {text.put(f'fcmp ogt double {norm}, {limit}')}, double {factor}, double 1.0")

    def _take(self, field: str, begin: int, count: int) -> None:
        """Copy what a step has written to where it is read."""
        text, floats = self._text, f"<{self._width} x double>"
        with text.loop("0", str(count), self._width) as part:
            place = self._place("next", text.put(f"add nuw nsw i64 {part.index}, {begin}"))
            value = text.put(f"load {floats}, ptr {place}, align 64")
            text.do(f"store {floats} {value}, ptr {self._place(field, part.index)}, align 64")
