"""Machine code has full-width vectors, fused operations and no unnecessary calls."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.backends.llvm import machine_code
from autodiff_cli.backends.llvm.codegen import kernel_module
from autodiff_cli.backends.llvm.layout import MemoryLayout
from autodiff_cli.backends.llvm.machine_code import Processor, host_processor
from autodiff_cli.backends.llvm.plan import plan_kernel
from autodiff_cli.backends.llvm.runtime import sharing_module
from autodiff_cli.backends.protocol import CompilationError, RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.program import read
from autodiff_cli.numbers.machine_code import parse_assembly
from tests.backends.llvm.compiled import WIDTHS

X86 = pytest.mark.skipif(not host_processor().triple.startswith("x86_64"), reason="needs an x86 processor")


def text_of(expression: str, processor: Processor) -> str:
    program = read(expression)
    leaves = [leaf for name, leaf in program.leaves.items() if name not in "xy"]
    graphs = RowGraphs(simplify([program.output, *gradient_nodes(program.output, leaves)]), {"x", "y"})
    plan = plan_kernel(graphs, is_summed=True)
    types = ("f8",) * len(plan.column_inputs)
    return kernel_module(processor, MemoryLayout(plan, processor.width), types, 8192)


def assembly(text: str, processor: Processor) -> str:
    """The assembly code of a module."""
    listing: str = processor.target_machine().emit_assembly(parse_assembly(text))
    return listing


def inner_loop(expression: str, processor: Processor) -> str:
    """The instructions of the loop over rows."""
    listing = assembly(text_of(expression, processor), processor)
    strip = re.search(r"^strip:(.*?)^\.Lfunc_end", listing, re.S | re.M)
    assert strip
    loop = re.search(r"^\.LBB\d+_\d+:(?:(?!^\.LBB).)*?\n\tjb\t", strip[1], re.S | re.M)
    assert loop, strip[1]
    return loop[0]


@X86
@pytest.mark.parametrize("width", WIDTHS)
def test_the_loop_over_rows_works_on_whole_vectors(width: int) -> None:
    register = {2: "xmm", 4: "ymm", 8: "zmm"}[width]
    loop = inner_loop("(y - a - b*x)^2", host_processor(width))
    arithmetic = re.findall(r"\tv?(?:fn?m(?:add|sub)\d+|add|sub|mul)(p|s)d\t[^\n]*%(.)mm", loop)
    assert arithmetic
    assert set(arithmetic) == {("p", register[0])}


@X86
@pytest.mark.skipif(host_processor().width < 4, reason="needs AVX2")
def test_products_and_sums_are_fused() -> None:
    loop = inner_loop("(y - a - b*x)^2", host_processor(4))
    assert len(re.findall(r"vfn?m(?:add|sub)", loop)) >= 3
    assert "call" not in loop


@X86
@pytest.mark.skipif(not machine_code._has_vector_library(), reason="needs glibc's library of vectors")
def test_what_several_formulas_have_in_common_is_called_once() -> None:
    """For four vectors side by side, and for those that are left."""

    def called(expression: str) -> Counter[str]:
        return Counter(
            re.findall(r"call .*@_ZGV\w+_(\w+)", text_of(expression, replace(host_processor(), features="")))
        )

    assert called("(y - a*exp(-b*x) - c*sin(d*x))^2") == {"cos": 5, "exp": 5, "sin": 5}
    # a tanh and its slope, a softplus of both signs and its slopes: one exponential each
    assert called("(y - a*tanh(b*x))^2") == {"exp": 5}
    assert called("y*softplus(-a*x) + (1 - y)*softplus(a*x)") == {"exp": 5, "log1p": 5}


@X86
@pytest.mark.skipif(not host_processor().has_fma, reason="needs fused multiply-adds")
@pytest.mark.parametrize("width", WIDTHS)
def test_usual_functions_are_written_out_where_nothing_else_is_called(width: int) -> None:
    assert "call" not in inner_loop("(y - a*exp(-b*x) - c*sin(d*x) - log(x))^2", host_processor(width))
    assert "call" in inner_loop("(y - a*exp(-b*x) - c*erf(d*x))^2", host_processor(width))


@X86
def test_one_division_by_each_divisor() -> None:
    """Others stand apart, in a loop for divisors near the ends of the range."""
    loop = inner_loop("(y - (a + b*x + c*x^2)/(1 + d*x + f*x^2))^2", host_processor())
    assert len(re.findall(r"\tv?divpd", loop)) == 1
    loop = inner_loop("y*softplus(-a*x) + (1 - y)*softplus(a*x)", replace(host_processor(), features=""))
    assert len(re.findall(r"\tv?divpd", loop)) == 4  # of four vectors


def test_no_flag_assumes_that_nothing_is_nan_or_infinite() -> None:
    text = text_of("(y - a*exp(-b*x)/x - max(a, x))^2", host_processor())
    assert not re.search(r"\b(nnan|ninf|nsz|arcp|afn|fast)\b", text)


def test_other_processors_get_code_too() -> None:
    """ARM's vectors hold two doubles; functions that are not written out are those of C."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    processor = Processor("aarch64-unknown-linux-gnu", "neoverse-n1", "", 2)
    listing = assembly(text_of("(y - a*exp(-b*x) - erf(c*x))^2", processor), processor)
    assert re.search(r"\tfmla\tv\d+\.2d", listing)
    assert re.search(r"\tbl\terf", listing)
    assert "\tbl\t" not in assembly(text_of("(y - a*exp(-b*x))^2", processor), processor).split("block:")[0]


@pytest.mark.parametrize(
    ("name", "pause"), [("x86_64", "x86.sse2.pause"), ("aarch64", "aarch64.hint"), ("riscv64", "")]
)
def test_threads_that_poll_pause_where_the_processor_can(name: str, pause: str) -> None:
    texts = [sharing_module(Processor(f"{name}-linux", "", "", 2), has_usleep=has_it) for has_it in (False, True)]
    assert [text.count(f"call void @llvm.{pause}" if pause else "@llvm.") for text in texts] == (
        [2, 1] if pause else [0, 0]
    )
    for text in texts:
        parse_assembly(text)


def test_what_is_known_of_processors() -> None:
    """Bytes of a vector, registers, and instructions for products with sums, and with powers of two."""
    known = [
        ("x86_64-linux", "+sse2", 2, (16, 16, False, False)),
        ("x86_64-linux", "+avx2,+fma", 4, (32, 16, True, False)),
        ("x86_64-linux", "+fma,+avx512f", 8, (64, 32, True, True)),
        ("x86_64-linux", "+fma4,+avx", 4, (32, 16, False, False)),
        ("aarch64-linux", "", 2, (16, 32, True, False)),
    ]
    for triple, features, width, facts in known:
        one = Processor(triple, "", features, width)
        assert (one.vector_bytes, one.register_count, one.has_fma, one.has_scalef) == facts


def test_a_width_that_the_processor_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        host_processor(16)


@pytest.fixture
def choose_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Processor]]:
    """A function that returns the processor with `AUTODIFF_CPU` set."""

    def choose(name: str) -> Processor:
        monkeypatch.setenv("AUTODIFF_CPU", name)
        host_processor.cache_clear()
        return host_processor()

    yield choose
    host_processor.cache_clear()


@X86
def test_the_environment_chooses_the_instruction_set(choose_processor: Callable[[str], Processor]) -> None:
    oldest, native = choose_processor("x86-64"), choose_processor("native")
    assert (oldest.width, oldest.has_fma) == (2, False)
    if native.width >= 4:
        newer = choose_processor("x86-64-v3")
        assert (newer.width, newer.has_fma) == (4, True)
    with pytest.raises(CompilationError, match="AUTODIFF_CPU=sparc"):
        choose_processor("sparc")


def test_functions_of_vectors_are_those_of_the_system_where_it_has_them() -> None:
    processor, has_library = host_processor(), True
    try:
        ctypes.CDLL("libmvec.so.1")
    except OSError:
        has_library = False
    is_expected = has_library and processor.triple.startswith("x86_64")
    assert (processor.vector_function("pow", 2) is not None) is is_expected
