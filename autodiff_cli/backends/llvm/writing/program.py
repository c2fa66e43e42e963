"""The module of a kernel: what is done once, for a strip of rows, after all rows of a block; and the blocks."""

from __future__ import annotations

import math

from autodiff_cli.backends.llvm.plans.items import Arranged, Called, Each, MatrixProduct, Plan, Stage
from autodiff_cli.backends.llvm.plans.layout import PlanLayout
from autodiff_cli.backends.llvm.plans.nests import Nest
from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.llvm.writing.cells import CONVERSIONS, Memory
from autodiff_cli.backends.llvm.writing.emit import emit, emit_arranged, emit_called
from autodiff_cli.backends.llvm.writing.listing import ATTRIBUTES, ModuleText
from autodiff_cli.backends.llvm.writing.products import emit_product
from autodiff_cli.backends.llvm.writing.text import Text

# The fields of a job, each of 8 bytes: addresses of the point, of the columns' table and of what is handed out; how
# many rows; the next block that nobody has begun, and the last of this job, plus one; rows of `out` apart, in bytes.
JOB = ("point", "columns", "out", "rows", "next", "end", "stride")

PROLOGUE = "ptr %memory, ptr %point"
STRIP = "ptr %memory, ptr %point, ptr %columns, i64 %row, i64 %span, ptr %sums, i64 %live, ptr %out, i64 %stride"
_BLOCK = "ptr %memory, ptr %point, ptr %columns, i64 %first, i64 %rows, ptr %out, i64 %stride"


def written(
    target: Processor,
    plan: Plan,
    nests: list[Nest],
    layout: PlanLayout,
    types: tuple[str, ...],
    block: int,
    *,
    summed: bool,
) -> str:
    """The text of the module. It exports `run(job, memory)`, which does blocks until none is left, and for sums
    `fold(out, blocks)`, which adds those of blocks up, into the first.

    Args:
        types: of the columns, by NumPy's letters.
        block: how many rows one has.
        summed: whether blocks hand out sums, one set after the other, or values by row.
    """
    module = ModuleText(target)
    writer = PlanWriter(module, plan, nests, layout, types)
    writer.whole_block(summed=summed)
    writer.run(block, summed=summed)
    if summed:
        module.add(_fold(target, plan.numbers))
    return module.finished()


def _fold(target: Processor, numbers: int) -> Text:
    """The tree of `backends.fold`, level by level."""
    text = Text(f"define void @fold(ptr %out, i64 %blocks) {ATTRIBUTES} {{")
    head, body, after = text.label(), text.label(), text.label()
    before = text.block
    text.do(f"br label %{head}")
    text.begin(head)
    step, twice = text.name(), text.name()
    place = len(text.lines)
    text.do(f"br i1 {text.put(f'icmp ult i64 {step}, %blocks')}, label %{body}, label %{after}")
    text.begin(body)
    with text.loop("0", text.put(f"sub i64 %blocks, {step}"), twice) as block:
        second = text.put(f"add i64 {block.index}, {step}")
        into, other = (
            text.put(f"getelementptr i8, ptr %out, i64 {text.put(f'mul i64 {each}, {8 * numbers}')}")
            for each in (block.index, second)
        )
        whole = numbers // target.width * target.width
        for start, stop, kind in ((0, whole, f"<{target.width} x double>"), (whole, numbers, "double")):
            if start < stop:
                with text.loop(str(start), str(stop), target.width if kind != "double" else 1) as number:
                    total, more = (
                        text.put(f"getelementptr double, ptr {each}, i64 {number.index}") for each in (into, other)
                    )
                    a, b = (text.put(f"load {kind}, ptr {each}, align 8") for each in (total, more))
                    text.do(f"store {kind} {text.put(f'fadd {kind} {a}, {b}')}, ptr {total}, align 8")
    latch = text.block
    text.do(f"br label %{head}")
    text.lines[place:place] = [
        f"  {step} = phi i64 [ 1, %{before} ], [ {twice}, %{latch} ]",
        f"  {twice} = shl i64 {step}, 1",
    ]
    text.begin(after)
    return text


class PlanWriter:
    """Writes the functions of a plan.

    Args:
        types: of the columns, by NumPy's letters.
    """

    def __init__(
        self, module: ModuleText, plan: Plan, nests: list[Nest], layout: PlanLayout, types: tuple[str, ...]
    ) -> None:
        self._module = module
        self._plan = plan
        self._nests = nests
        self._layout = layout
        self._types = types

    def whole_block(self, *, summed: bool) -> None:
        """All that a block of rows takes: `prologue`, once for a point, and `block`."""
        self.function("prologue", PROLOGUE, Stage.UNIFORM)
        self.function("strip", STRIP, Stage.ROW)
        if summed:
            self.function("epilogue", "ptr %memory, ptr %point, ptr %out", Stage.TOTAL)
        self.tails()
        self.block(summed=summed)

    def function(self, name: str, parameters: str, level: Stage) -> None:
        """All nests of a level."""
        text = Text(f"define internal void @{name}({parameters}) {ATTRIBUTES} {{")
        memory = Memory(self._module, text, self._plan, self._layout, self._types)
        width = self._module.target.width
        if level is Stage.ROW:
            lanes = ", ".join(f"i64 {lane}" for lane in range(width))
            live = text.put(f"insertelement <{width} x i64> poison, i64 %live, i64 0")
            every = text.put(
                f"shufflevector <{width} x i64> {live}, <{width} x i64> poison, <{width} x i32> zeroinitializer"
            )
            text.do(f"%mask = icmp ult <{width} x i64> <{lanes}>, {every}")
        for nest in self._nests:
            if nest.level is level:
                self._nest(memory, nest)
        self._module.add(text)

    def _nest(self, memory: Memory, nest: Nest) -> None:
        match self._plan.items[nest.numbers[0]]:
            case Each():
                emit(memory, self._plan, nest)
            case Arranged():
                emit_arranged(memory, self._plan, nest.numbers[0])
            case Called():
                emit_called(memory, self._plan, nest.numbers[0])
            case MatrixProduct():
                emit_product(memory, self._plan, nest.numbers[0])

    def tails(self) -> None:
        """Functions that copy the last rows of a column and repeat the very last, so that they fill a vector."""
        for kind in sorted({CONVERSIONS[letters][0] for letters in self._types}):
            text = Text(
                f"define internal void @tail_{kind}(ptr %from, ptr %to, i64 %rest, i64 %count, i64 %distance) {{"
            )
            width = self._module.target.width
            last = text.put("sub i64 %rest, 1")
            with text.loop("0", "%count") as element, text.loop("0", str(width)) as lane:
                begin = text.put(f"getelementptr i8, ptr %from, i64 {text.put(f'mul i64 {element.index}, %distance')}")
                is_live = text.put(f"icmp ult i64 {lane.index}, {last}")
                row = text.put(f"select i1 {is_live}, i64 {lane.index}, i64 {last}")
                found = text.put(f"load {kind}, ptr {text.put(f'getelementptr {kind}, ptr {begin}, i64 {row}')}")
                place = text.put(f"add i64 {text.put(f'mul i64 {element.index}, {width}')}, {lane.index}")
                text.do(f"store {kind} {found}, ptr {text.put(f'getelementptr {kind}, ptr %to, i64 {place}')}")
            self._module.add(text)

    def block(self, *, summed: bool) -> None:
        """All rows of a block, strip by strip."""
        text = Text(f"define internal void @block({_BLOCK}) {ATTRIBUTES} {{")
        layout, width = self._layout, self._module.target.width
        sums = text.put(f"getelementptr i8, ptr %memory, i64 {layout.summed}")
        if summed:
            self._clear(text, layout.summed, layout.summed_size)
            self._clear(text, layout.sums[0], layout.sums[1] - layout.sums[0])
            count = text.put("uitofp i64 %rows to double")
            text.do(f"store double {count}, ptr {text.put(f'getelementptr i8, ptr %memory, i64 {layout.sums[0]}')}")
        whole = text.put(f"and i64 %rows, {-width}")
        with text.when(text.put(f"icmp ne i64 {whole}, 0")), text.loop("0", whole, layout.strip) as strip:
            left = text.put(f"sub i64 {whole}, {strip.index}")
            is_last = text.put(f"icmp ult i64 {left}, {layout.strip}")
            span = text.put(f"select i1 {is_last}, i64 {left}, i64 {layout.strip}")
            row = text.put(f"add i64 %first, {strip.index}")
            text.do(
                f"call void @strip(ptr %memory, ptr %point, ptr %columns, i64 {row}, i64 {span}, ptr {sums}, "
                f"i64 {width}, ptr %out, i64 %stride)"
            )
        rest = text.put(f"sub i64 %rows, {whole}")
        with text.when(text.put(f"icmp ne i64 {rest}, 0")):
            self._last_rows(text, rest, text.put(f"add i64 %first, {whole}"), sums, summed=summed)
        if summed:
            self._add_up(text)
            text.do("call void @epilogue(ptr %memory, ptr %point, ptr %out)")
        self._module.add(text)

    def _clear(self, text: Text, start: int, size: int) -> None:
        self._module.declare_memset()
        place = text.put(f"getelementptr i8, ptr %memory, i64 {start}")
        text.do(f"call void @llvm.memset.p0.i64(ptr align 64 {place}, i8 0, i64 {size}, i1 false)")

    def _last_rows(self, text: Text, rest: str, first: str, sums: str, *, summed: bool) -> None:
        """Those that fill no vector: a strip of one vector, over copies."""
        layout, width = self._layout, self._module.target.width
        table = text.put(f"getelementptr i8, ptr %memory, i64 {layout.tail_table}")
        for leaf, start, letters in zip(self._plan.columns, layout.tails, self._types, strict=True):
            kind, count = CONVERSIONS[letters][0], math.prod(leaf.shape)
            entry = text.put(f"getelementptr i64, ptr %columns, i64 {2 * leaf.place}")
            distance = text.put(f"load i64, ptr {text.put(f'getelementptr i64, ptr {entry}, i64 1')}")
            begin = text.put(f"getelementptr {kind}, ptr {text.put(f'load ptr, ptr {entry}')}, i64 {first}")
            copy = text.put(f"getelementptr i8, ptr %memory, i64 {start}")
            text.do(f"call void @tail_{kind}(ptr {begin}, ptr {copy}, i64 {rest}, i64 {count}, i64 {distance})")
            own = text.put(f"getelementptr i64, ptr {table}, i64 {2 * leaf.place}")
            text.do(f"store ptr {copy}, ptr {own}")
            text.do(f"store i64 {width * int(letters[1:])}, ptr {text.put(f'getelementptr i64, ptr {own}, i64 1')}")
        tail_sums = text.put(f"getelementptr i8, ptr %memory, i64 {layout.tail_summed}")
        out = text.put(f"getelementptr i8, ptr %memory, i64 {layout.tail_out}")
        if summed:
            self._clear(text, layout.tail_summed, layout.summed_size)
        text.do(
            f"call void @strip(ptr %memory, ptr %point, ptr {table}, i64 0, i64 {width}, ptr {tail_sums}, i64 {rest}, "
            f"ptr {out}, i64 {8 * width})"
        )
        if summed:
            self._add_last(text, rest, sums, tail_sums)
        else:
            self._copy_last(text, rest, first, out)

    def _add_last(self, text: Text, rest: str, sums: str, tail_sums: str) -> None:
        """The totals of the last rows, lane by lane as far as there are rows."""
        width = self._module.target.width
        if not self._layout.summed_size:
            return
        with text.loop("0", str(self._layout.summed_size // 8), width) as each, text.loop("0", rest) as lane:
            place = text.put(f"add i64 {each.index}, {lane.index}")
            total = text.put(f"getelementptr double, ptr {sums}, i64 {place}")
            more = text.put(f"load double, ptr {text.put(f'getelementptr double, ptr {tail_sums}, i64 {place}')}")
            before = text.put(f"load double, ptr {total}")
            text.do(f"store double {text.put(f'fadd double {before}, {more}')}, ptr {total}")

    def _copy_last(self, text: Text, rest: str, first: str, out: str) -> None:
        width = self._module.target.width
        with text.loop("0", str(self._plan.numbers)) as number, text.loop("0", rest) as lane:
            place = text.put(f"add i64 {text.put(f'mul i64 {number.index}, {width}')}, {lane.index}")
            value = text.put(f"load double, ptr {text.put(f'getelementptr double, ptr {out}, i64 {place}')}")
            begin = text.put(f"getelementptr i8, ptr %out, i64 {text.put(f'mul i64 {number.index}, %stride')}")
            row = text.put(f"add i64 {first}, {lane.index}")
            text.do(f"store double {value}, ptr {text.put(f'getelementptr double, ptr {begin}, i64 {row}')}")

    def _add_up(self, text: Text) -> None:
        """Totals from the lanes of their vectors."""
        layout, floats, width = self._layout, self._module.floats, self._module.target.width
        if not layout.summed_size:
            return
        lanes = text.put(f"getelementptr i8, ptr %memory, i64 {layout.summed}")
        totals = text.put(f"getelementptr i8, ptr %memory, i64 {layout.totals}")
        with text.loop("0", str(layout.summed_size // (8 * width))) as element:
            vector = text.put(f"getelementptr {floats}, ptr {lanes}, i64 {element.index}")
            total = self._module.across(text, text.put(f"load {floats}, ptr {vector}, align {8 * width}"))
            text.do(f"store double {total}, ptr {text.put(f'getelementptr double, ptr {totals}, i64 {element.index}')}")

    def run(self, block: int, *, summed: bool) -> None:
        """Blocks, one after the other, until none is left; several threads may share a job."""
        text = Text(f"define void @run(ptr %job, ptr %memory) {ATTRIBUTES} {{")
        fields = {name: text.put(f"getelementptr i64, ptr %job, i64 {k}") for k, name in enumerate(JOB)}
        found = {
            name: text.put(f"load {'ptr' if name in ('point', 'columns', 'out') else 'i64'}, ptr {place}")
            for name, place in fields.items()
            if name != "next"
        }
        text.do(f"call void @prologue(ptr %memory, ptr {found['point']})")
        head, body, after = text.label(), text.label(), text.label()
        text.do(f"br label %{head}")
        text.begin(head)
        number = text.put(f"atomicrmw add ptr {fields['next']}, i64 1 monotonic")
        more = text.put(f"icmp ult i64 {number}, {found['end']}")
        text.do(f"br i1 {more}, label %{body}, label %{after}")
        text.begin(body)
        first = text.put(f"mul i64 {number}, {block}")
        left = text.put(f"sub i64 {found['rows']}, {first}")
        rows = text.put(f"select i1 {text.put(f'icmp ult i64 {left}, {block}')}, i64 {left}, i64 {block}")
        out = found["out"]
        if summed:
            out = text.put(
                f"getelementptr i8, ptr {out}, i64 {text.put(f'mul i64 {number}, {8 * self._plan.numbers}')}"
            )
        text.do(
            f"call void @block(ptr %memory, ptr {found['point']}, ptr {found['columns']}, i64 {first}, i64 {rows}, "
            f"ptr {out}, i64 {found['stride']})"
        )
        text.do(f"br label %{head}")
        text.begin(after)
        self._module.add(text)
