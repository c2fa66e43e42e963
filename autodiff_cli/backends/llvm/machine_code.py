"""From instructions to machine code: the target processor, LLVM modules as text, and their compilation.

`ModuleBuilder` collects LLVM's text. `InstructionWriter` writes the instructions of `vectors` in an
order that follows the results, one after the other, so that few values are alive at a time. Only calls of the
mathematical library come first, with everything they need, because a call spills every register, including partial
sums.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from autodiff_cli.backends.llvm.vectors import BIT_OPERATIONS, INTRINSICS, ROUNDED, ColdPath, Vector
from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.graph.tape import LazyTable, topological_order
from autodiff_cli.numbers.machine_code import FunctionBuilder, compile_assembly, initialize
from autodiff_cli.system import read_tables

_VECTOR_LIBRARY = "libmvec.so.1"  # glibc's vector functions
# Functions that are inexact there also where the result is a short number: log10(1000), hypot(0.1, 0).
_INEXACT_FUNCTIONS = ("log10", "hypot")
# The letter in its symbols for each vector width in doubles: SSE2, AVX2, AVX-512.
_WIDTH_LETTERS = {2: "b", 4: "d", 8: "e"}
# Instruction sets that AUTODIFF_CPU may name, with their vector width in doubles and the extensions that we ask about.
_INSTRUCTION_SETS = {"x86-64": (2, "+sse2"), "x86-64-v3": (4, "+avx2,+fma")}


@dataclass(frozen=True)
class Processor:
    """A processor, as LLVM describes it.

    Attributes:
        triple: the architecture and operating system, as LLVM names them.
        cpu: the model.
        features: the instruction set extensions, as LLVM lists them.
        width: the number of doubles in a vector.
    """

    triple: str
    cpu: str
    features: str
    width: int

    @property
    def vector_bytes(self) -> int:
        """The size of a vector in bytes."""
        return 8 * self.width

    @property
    def register_count(self) -> int:
        """The number of vector registers."""
        return 32 if self.width == 8 or self.triple.startswith("aarch64") else 16

    @property
    def has_fma(self) -> bool:
        """Whether a product and a sum, rounded once, are one instruction."""
        return self.triple.startswith("aarch64") or "+fma," in f"{self.features},"

    @property
    def has_scalef(self) -> bool:
        """Whether multiplying by a power of two is one instruction."""
        return self.width == 8  # AVX-512

    def vector_function(self, name: str, count: int) -> str | None:
        """Return the symbol of the vector library's function of `count` vectors; None if there is none."""
        if not self.triple.startswith("x86_64") or name in _INEXACT_FUNCTIONS or not _has_vector_library():
            return None
        mangled = f"_ZGV{_WIDTH_LETTERS[self.width]}N{self.width}{'v' * count}_{name}"
        return mangled if llvm.address_of_symbol(mangled) else None

    def target_machine(self, *, is_fast: bool = False) -> Any:
        """Return LLVM's target machine.

        Args:
            is_fast: whether to compile in a third of the time, to code that takes half as long again.
        """
        initialize()
        # Higher levels take half as long again, and their code is not faster.
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=0 if is_fast else 1, reloc="pic", codemodel="default", jit=True
        )


@functools.cache
def host_processor(width: int | None = None) -> Processor:
    """Return the processor to compile for: this machine's, or the instruction set that `AUTODIFF_CPU` names.

    Args:
        width: the number of doubles in a vector, at most what the processor supports; by default the maximum.

    Raises:
        CompilationError: if `AUTODIFF_CPU` names no instruction set of this machine.
    """
    triple, cpu = llvm.get_process_triple(), os.environ.get("AUTODIFF_CPU", "native")
    host_features = llvm.get_host_cpu_features()
    has_avx512 = host_features.get("avx512f") and host_features.get("avx512dq")
    has_avx2 = host_features.get("avx2") and host_features.get("fma")
    widest, features = 8 if has_avx512 else 4 if has_avx2 else 2, host_features.flatten()
    if cpu == "native":
        cpu = llvm.get_host_cpu_name()
    elif triple.startswith("x86_64") and cpu in _INSTRUCTION_SETS and _INSTRUCTION_SETS[cpu][0] <= widest:
        widest, features = _INSTRUCTION_SETS[cpu]
    else:
        raise CompilationError(f"AUTODIFF_CPU={cpu}: this machine has native, {', '.join(_INSTRUCTION_SETS)}")
    if width is not None and width > widest:
        raise ValueError(f"this processor has vectors of at most {widest} doubles")
    return Processor(triple, cpu, features, width or widest)


@functools.cache
def _has_vector_library() -> bool:
    try:
        llvm.load_library_permanently(_VECTOR_LIBRARY)
    except RuntimeError:
        return False
    return True


# LLVM may fuse a product and a sum. No other fast-math flag is set, in particular none that assumes there is no nan.
_CONTRACT = "contract "


VECTOR_ATTRIBUTES = "#0"  # the attribute group of functions with vectors


class ModuleBuilder:
    """Builds the text of a module: its functions and the declarations of the functions that they call.

    Args:
        target: the processor.

    Attributes:
        float_vector: the type of a vector of doubles.
        bool_vector: the type of a vector of truth values.
        integer_vector: the type of a vector of integers.
    """

    def __init__(self, target: Processor) -> None:
        self.target = target
        self._functions: list[str] = []
        self._declarations: dict[str, None] = {}
        self._cold_paths: dict[ColdPath, str] = {}
        self.float_vector, self.bool_vector, self.integer_vector = (
            f"<{target.width} x {lane}>" for lane in ("double", "i1", "i64")
        )

    def add(self, ir: FunctionBuilder) -> None:
        """Add a function, which is finished here."""
        self._functions.append(ir.finish())

    def declare(self, signature: str, is_pure: bool = True) -> None:
        """Declare an external function, such as `double @exp(double)`; a pure one reads and writes no memory."""
        self._declarations[f"declare {signature}{' #1' if is_pure else ''}"] = None

    def sum_lanes(self, ir: FunctionBuilder, vector: str) -> str:
        """Add an instruction that sums the lanes of a vector."""
        name = f"@llvm.vector.reduce.fadd.v{self.target.width}f64"
        self.declare(f"double {name}(double, {self.float_vector})")
        return ir.assign(f"call reassoc double {name}(double -0.0, {self.float_vector} {vector})")

    def cold_path(self, path: ColdPath) -> str:
        """Return the name of the function with rarely executed code, adding it if necessary."""
        if path not in self._cold_paths:
            name = self._cold_paths[path] = f"@cold{len(self._cold_paths)}"
            parameters = ", ".join(f"{self.float_vector} %a{k}" for k in range(path.arity))
            ir = FunctionBuilder(
                f"define internal {self.float_vector} {name}({parameters}) noinline {VECTOR_ATTRIBUTES} {{"
            )
            writer = InstructionWriter(self, ir, lambda vector: f"%a{vector.detail}")
            writer.write_all(topological_order([path.result]))
            ir.emit(f"ret {self.float_vector} {writer.operand(path.result)}")
            self._functions.append("\n".join([*ir.lines, "}\n"]))
        return self._cold_paths[path]

    def text(self) -> str:
        """Return the text of the module."""
        bits = 64 * self.target.width
        # Without alignment, spilled registers may straddle cache lines.
        of_vectors = (
            f'alignstack={self.target.vector_bytes} "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"'
        )
        attributes = (
            f"attributes #0 = {{ nounwind {of_vectors} }}\nattributes #1 = {{ nounwind willreturn memory(none) }}\n"
        )
        head = f'target triple = "{self.target.triple}"\n'
        return "\n".join([head, *self._declarations, "", *self._functions, attributes])


# The code of operations: lines that refer to the operands and then to the results of the lines before by their numbers.
_INSTRUCTIONS: Mapping[str, Sequence[str]] = read_tables(__file__, "instructions.toml")


def _adds_products(vector: Vector) -> bool:
    """Return whether an instruction adds or subtracts two products or quotients.

    If only one of them were rounded, x*y - x*y would not be 0.
    """
    terms = (each.inputs[0] if each.op == "fneg" else each for each in vector.inputs)
    return vector.op in ("fadd", "fsub") and all(each.op in ("fmul", "fdiv") for each in terms)


class InstructionWriter:
    """Writes instructions to a function.

    Args:
        module: the module of the function.
        ir: the function.
        load: writes the code for a `load` or `argument` instruction, and returns the name of the result.
    """

    def __init__(self, module: ModuleBuilder, ir: FunctionBuilder, load: Callable[[Vector], str]) -> None:
        self._module = module
        self._ir = ir
        self._load = load
        self._types = {"floats": module.float_vector, "masks": module.bool_vector, "integers": module.integer_vector}
        self._names: dict[Vector, str] = {}

    def copy(self) -> InstructionWriter:
        """Return a writer that knows all instructions written so far and continues on its own."""
        writer = InstructionWriter(self._module, self._ir, self._load)
        writer._names |= self._names
        return writer

    def operand(self, vector: Vector) -> str:
        """Return the name of a written result, or the text of a constant."""
        return f"splat (double {vector.detail})" if vector.op == "constant" else self._names[vector]

    def write_all(self, vectors: Iterable[Vector]) -> None:
        """Write instructions that are not written yet, given in an order in which inputs come first."""
        for vector in vectors:
            if vector not in self._names and vector.op != "constant":
                self._names[vector] = self._write(vector)

    def _write(self, vector: Vector) -> str:
        assign, floats = self._ir.assign, self._module.float_vector
        names = [self.operand(each) for each in vector.inputs]
        match vector.op:
            case "load" | "argument":
                return self._load(vector)
            case "fabs":
                return self._write_call("fabs", names)
            case "scaled":  # multiplies by a power of two
                name = "@llvm.x86.avx512.mask.scalef.pd.512"
                self._module.declare(f"{floats} {name}({floats}, {floats}, {floats}, i8, i32)")
                operands = ", ".join(f"{floats} {each}" for each in (*names, names[0]))
                return assign(f"call {floats} {name}({operands}, i8 -1, i32 4)")
            case "call":
                return self._write_call(vector.detail, names, is_varying=vector.is_varying)
            case "cold_path":
                return self._write_cold_path(vector.detail, *names)
        detail = vector.detail
        if vector.op in ("fadd", "fsub", "fmul"):
            detail = "" if vector.detail == ROUNDED or _adds_products(vector) else _CONTRACT
        for line in _INSTRUCTIONS[vector.op]:
            names.append(assign(line.format(*names, detail=detail, **self._types)))
        return names[-1]

    def _write_call(self, name: str, arguments: Sequence[str], *, is_varying: bool = True) -> str:
        module, count = self._module, len(arguments)
        floats = module.float_vector
        symbol = (
            f"llvm.{name}.v{module.target.width}f64"
            if name in INTRINSICS
            else module.target.vector_function(name, count)
        )
        if symbol is None:
            return self._write_scalar_calls(name, arguments, is_varying=is_varying)
        module.declare(f"{floats} @{symbol}({', '.join([floats] * count)})")
        return self._ir.assign(f"call {floats} @{symbol}({', '.join(f'{floats} {each}' for each in arguments)})")

    def _write_scalar_calls(self, name: str, arguments: Sequence[str], *, is_varying: bool) -> str:
        """Write calls of a function of numbers: one per lane, or one for all lanes."""
        assign, floats, width = self._ir.assign, self._module.float_vector, self._module.target.width
        self._module.declare(f"double @{name}({', '.join(['double'] * len(arguments))})")
        result = "poison"
        for lane in range(width if is_varying else 1):
            lanes = [assign(f"extractelement {floats} {each}, i64 {lane}") for each in arguments]
            value = assign(f"call double @{name}({', '.join(f'double {each}' for each in lanes)})")
            result = assign(f"insertelement {floats} {result}, double {value}, i64 {lane}")
        return result if is_varying else self._ir.splat("double", value, width)

    def _write_cold_path(self, path: ColdPath, needed: str, usual: str, *arguments: str) -> str:
        """Write a branch to careful code, which is executed only if a lane of the mask requires it."""
        ir, floats, masks = self._ir, self._module.float_vector, self._module.bool_vector
        width = self._module.target.width
        any_lane = ir.assign(f"icmp ne i{width} {ir.assign(f'bitcast {masks} {needed} to i{width}')}, 0")
        operands = ", ".join(f"{floats} {each}" for each in arguments)
        before = ir.block
        with ir.branch(any_lane):
            slow = ir.block
            careful = ir.assign(f"call {floats} {self._module.cold_path(path)}({operands})")
            chosen = ir.assign(f"select {masks} {needed}, {floats} {careful}, {floats} {usual}")
        return ir.assign(f"phi {floats} [ {usual}, %{before} ], [ {chosen}, %{slow} ]")


class InstructionOrder:
    """An order of instructions.

    Args:
        roots: the required results, in the order of their use.

    Attributes:
        invariant: the instructions that are the same in every iteration of the loop over rows.
        hoisted: varying calls of the library, and everything else they need.
        loads: all loads.
        size: the number of instructions.
        has_functions: whether there are functions, called or inlined.
    """

    def __init__(self, roots: Sequence[Vector]) -> None:
        order = topological_order(roots)
        calls: set[Vector] = set()
        for vector in reversed(order):
            if vector in calls or (vector.op == "call" and vector.detail not in INTRINSICS):
                calls.add(vector)
                calls.update(vector.inputs)
        self.invariant = [vector for vector in order if not vector.is_varying]
        self.hoisted = [vector for vector in order if vector in calls]
        self.loads = [vector for vector in order if vector.op == "load"]
        self.size = len(order)
        self.has_functions = bool(self.hoisted) or any(vector.op in BIT_OPERATIONS for vector in order)
        self._taken = {*self.invariant, *self.hoisted}

    def take(self, root: Vector) -> list[Vector]:
        """Return the instructions of a root, and those before it, that no earlier call returned."""
        return topological_order([root], self._taken)


_LONG_TEXT = 500_000  # characters: longer modules take seconds to optimise
_RunFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class CompiledModule:
    """Machine code in memory, and the functions that it exports."""

    def __init__(self, text: str, target: Processor) -> None:
        machine = target.target_machine(is_fast=len(text) > _LONG_TEXT)
        engine = compile_assembly("kernel", text, machine, target.cpu, target.features)
        self._addresses = LazyTable(engine.get_function_address)

    def address(self, name: str) -> int:
        """Return the address of a function. Raises CompilationError if a function that it calls cannot be found."""
        with _as_compilation_error():
            address: int = self._addresses[name]
        return address

    def function(self, name: str, kind: Any = _RunFunction) -> Any:
        """Return a function as a ctypes function; by default one that takes two addresses."""
        return kind(self.address(name))


def compile_module(write: Callable[[], str], target: Processor) -> CompiledModule:
    """Return the machine code of the module that `write` returns as text.

    Errors in `write`, or in its text, are bugs and are raised unchanged.

    Raises:
        CompilationError: if LLVM cannot compile the module on this machine.
    """
    with _as_compilation_error((MemoryError,)):
        text = write()
    with _as_compilation_error():
        return CompiledModule(text, target)


@contextlib.contextmanager
def _as_compilation_error(kinds: tuple[type[Exception], ...] = (RuntimeError, OSError, MemoryError)) -> Iterator[None]:
    """Raise errors of these types, by default the errors of LLVM and its linker, as CompilationError."""
    try:
        yield
    except kinds as error:
        raise CompilationError(str(error) or type(error).__name__) from error
