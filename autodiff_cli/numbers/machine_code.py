"""Machine code for functions of floats: LLVM assembly as a target of their translation, and loading of object code.

Functions that Python takes from the platform's library are called there, so results are equal to the last bit.

Imported only where LLVM is needed, because it imports llvmlite.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm

from autodiff_cli.graph.codegen import Fragment, Notation, read_notations
from autodiff_cli.numbers.floats import CONSTANTS
from autodiff_cli.numbers.sources import find_definition
from autodiff_cli.numbers.translation import Block, Library, Statements, Target, TargetFunction, Test
from autodiff_cli.system import entry_name, load, read_tables, store
from autodiff_cli.version import __version__

_TABLES = read_tables(__file__, "llvm.toml")
_NOTATIONS = read_notations(_TABLES, {})
# Functions of the platform's library, with their numbers of arguments, by the names of operations.
PLATFORM_FUNCTIONS: dict[str, int] = {name: text.count("⟨") for name, (text,) in _TABLES["platform"].items()}


def llvm_program(function: Callable[..., float]) -> str:
    """Return LLVM assembly for `rows(result, count, arguments…)`, which applies a function of floats to each element.

    >>> import math
    >>> print(llvm_program(math.erf).partition("define")[0])
    declare double @erf(double)
    <BLANKLINE>
    <BLANKLINE>
    """
    library = LlvmLibrary()
    name = function.__name__
    if isinstance(function, FunctionType):
        symbol, count = f"our_{library.require(name)}", function.__code__.co_argcount
    else:
        count = PLATFORM_FUNCTIONS[name]
        symbol = library.declare(name, count)
    parameters = ", ".join(f"double %x{k}" for k in range(count))
    one = FunctionBuilder(f"define double @one({parameters}) {{")
    one.emit(f"ret double {one.assign(f'call double @{symbol}({parameters})')}")
    rows = FunctionBuilder(
        f"define void @rows(ptr %out, i64 %count{''.join(f', ptr %in{k}' for k in range(count))}) {{"
    )
    with rows.branch(rows.assign("icmp ne i64 %count, 0")), rows.loop("0", "%count") as row:
        numbers = [rows.load("double", rows.element("double", f"%in{k}", row.index)) for k in range(count)]
        value = rows.assign(f"call double @{symbol}({', '.join(f'double {number}' for number in numbers)})")
        rows.store("double", value, rows.element("double", "%out", row.index))
    return "\n".join([*library.declarations, *library.texts.values(), *one.lines, "}", rows.finish()])


class Loop:
    """A counted loop under construction.

    Attributes:
        index: the name of its counter.
        final_values: the values that an iteration passes to the next, which after the loop are the final ones.
    """

    def __init__(self, index: str) -> None:
        self.index = index
        self._carried: list[tuple[str, str, str]] = []  # name, type, start
        self.final_values: list[str] = []

    def carry(self, name: str, kind: str, start: str) -> str:
        """Add a value that each iteration passes to the next."""
        self._carried.append((name, kind, start))
        return name

    def set_next(self, value: str) -> None:
        """Set the next iteration's value of the next carried value, in the order of `carry`."""
        self.final_values.append(value)

    def phis(self, before: str, latch: str) -> Iterator[str]:
        """Yield the instructions that receive the carried values."""
        for (name, kind, start), following in zip(self._carried, self.final_values, strict=True):
            yield f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{latch} ]"


class FunctionBuilder:
    """Builds the text of a function.

    Args:
        head: the line before the body: `define … {`.

    Attributes:
        block: the label of the current block.
    """

    def __init__(self, head: str) -> None:
        self.lines = [head, "entry:"]
        self._name_count = 0
        self.block = "entry"

    def new_name(self) -> str:
        """Return an unused name."""
        self._name_count += 1
        return f"%t{self._name_count}"

    def assign(self, instruction: str) -> str:
        """Add an instruction with a result, and return the result's name."""
        name = self.new_name()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def emit(self, instruction: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def element(self, kind: str, pointer: str, index: str | int) -> str:
        """Return the address of an element of an array, counted from an address in elements of this type."""
        return self.assign(f"getelementptr {kind}, ptr {pointer}, i64 {index}")

    def load(self, kind: str, pointer: str) -> str:
        """Return the value at an address."""
        return self.assign(f"load {kind}, ptr {pointer}")

    def store(self, kind: str, value: str | int, pointer: str) -> None:
        """Add a store of a value at an address."""
        self.emit(f"store {kind} {value}, ptr {pointer}")

    def minimum(self, a: str, b: str | int) -> str:
        """Return the smaller of two counts."""
        return self.assign(f"select i1 {self.assign(f'icmp ult i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def splat(self, kind: str, value: str, width: int) -> str:
        """Return a vector with a value in all lanes."""
        vector = f"<{width} x {kind}>"
        lane = self.assign(f"insertelement {vector} poison, {kind} {value}, i64 0")
        return self.assign(f"shufflevector {vector} {lane}, {vector} poison, <{width} x i32> zeroinitializer")

    def new_label(self) -> str:
        """Return an unused name for a block."""
        self._name_count += 1
        return f"b{self._name_count}"

    def begin_block(self, label: str) -> None:
        """Begin a block, to which the following instructions belong."""
        self.lines.append(f"{label}:")
        self.block = label

    def finish(self) -> str:
        """Return the text of the whole function, which returns at this point."""
        return "\n".join([*self.lines, "  ret void", "}\n"])

    @contextmanager
    def loop(self, start: str, stop: str, step: int | str = 1) -> Iterator[Loop]:
        """Add a loop around the instructions of this context.

        The counter begins at `start` and increases by `step` as long as it is below `stop`. The body is executed at
        least once.
        """
        before, head = self.block, self.new_label()
        self.emit(f"br label %{head}")
        self.begin_block(head)
        line = len(self.lines)
        loop = Loop(self.new_name())
        yield loop
        following = self.assign(f"add nuw nsw i64 {loop.index}, {step}")
        is_below = self.assign(f"icmp ult i64 {following}, {stop}")
        latch, after = self.block, self.new_label()
        self.emit(f"br i1 {is_below}, label %{head}, label %{after}")
        counter = f"  {loop.index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"
        self.lines[line:line] = [counter, *loop.phis(before, latch)]
        self.begin_block(after)

    @contextmanager
    def branch(self, condition: str, target: str | None = None) -> Iterator[None]:
        """Execute the instructions of this context only if a condition holds.

        Args:
            condition: the condition.
            target: the label of the block to jump to at the end of the context; by default the block after it.
        """
        then, after = self.new_label(), self.new_label()
        self.emit(f"br i1 {condition}, label %{then}, label %{after}")
        self.begin_block(then)
        yield
        self.emit(f"br label %{target or after}")
        self.begin_block(after)


@dataclass(frozen=True, kw_only=True)
class _LlvmTarget(Target):
    """LLVM assembly. Conditions are of the type `i1`, and all numbers are doubles."""

    code: FunctionBuilder

    def coerce(self, fragment: Fragment, is_condition: bool = False) -> Fragment:
        """Return a value converted to a number, or to a condition."""
        if fragment.is_condition == is_condition:
            return fragment
        text = f"fcmp une double {fragment.text}, 0.0" if is_condition else f"uitofp i1 {fragment.text} to double"
        return Fragment(self.code.assign(text), is_condition=is_condition)


class LlvmLibrary(Library):
    """The functions, tables and declarations of an LLVM module.

    An expression becomes instructions when it is translated. Every variable is a memory slot, which LLVM turns into a
    register.

    Attributes:
        declarations: the declarations of functions of the platform.
    """

    def __init__(self) -> None:
        self._code = FunctionBuilder("")
        unused = Notation(("", ""), (0,))  # expressions have no text
        target = _LlvmTarget(
            name="llvm",
            notations=_NOTATIONS,
            numbers={name: float_literal(number) for name, number in CONSTANTS.items()},
            literal=lambda text: float_literal(float(text)),
            as_number=unused,
            as_condition=unused,
            has_conditional_expression=False,
            statements=_LlvmStatements(self._code),
            code=self._code,
        )
        super().__init__(target)
        self.declarations: dict[str, None] = {}

    def declare(self, name: str, count: int) -> str:
        """Declare a function of the platform, and return its name."""
        self.declarations[f"declare double @{name}({', '.join(['double'] * count)})\n"] = None
        return name

    def require(self, name: str) -> str:
        """Include the function or table with this name, and return its name, or return the code of a constant."""
        definition = find_definition(name)
        number = None if definition is None or definition.is_function else definition.number
        return super().require(name) if number is None else self.literal(number)

    def translate(self, node: ast.FunctionDef) -> None:
        """Include the translation of a function, which another function may call that is being translated."""
        outer, self._code.lines = self._code.lines, []
        super().translate(node)
        self._code.lines = outer

    def variable(self, name: str) -> Fragment:
        """Return the value of a variable of a function."""
        return self._assign(f"load double, ptr %{name}.slot")

    def call(self, name: str, arguments: Sequence[Fragment], is_condition: bool = False) -> Fragment:
        """Return a call of a function of this library."""
        texts = ", ".join(f"double {argument.text}" for argument in arguments)
        return self._assign(f"call {'i1' if is_condition else 'double'} @our_{name}({texts})", is_condition)

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the value of an operation on operands, or of a call of the function that computes it."""
        if op in ("and", "or") and len(operands) > 2:
            return reduce(lambda a, b: self.operation(op, [a, b]), operands)
        if op == "element":
            table, index = (operand.text for operand in operands)
            count = self._assign(f"fptosi double {index} to i64").text
            place = self._assign(f"getelementptr double, ptr @table_{table}, i64 {count}").text
            return self._assign(f"load double, ptr {place}")
        if op in ("isinf", "isfinite"):
            return self.operation(
                "eq" if op == "isinf" else "lt", [self.operation("abs", operands), self.constant("inf")]
            )
        return super().operation(op, operands)

    def apply_notation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the value of an instruction."""
        instruction = super().apply_notation(op, operands)
        for symbol in re.findall(r"@([\w.]+)\(", instruction.text):
            self.declare(symbol, len(operands))
        return self._assign(instruction.text, instruction.is_condition)

    def _assign(self, instruction: str, is_condition: bool = False) -> Fragment:
        return Fragment(self._code.assign(instruction), is_condition=is_condition)


class _LlvmStatements(Statements):
    """Statements of LLVM assembly, which join the instructions of their expressions in a builder."""

    def __init__(self, code: FunctionBuilder) -> None:
        self._code = code

    def function_definition(self, function: TargetFunction) -> str:
        """Return the code of a function, with a slot for each variable."""
        head = ", ".join(f"double %{name}" for name in function.parameters)
        kind = "i1" if function.is_condition else "double"
        lines = [
            *(f"  %{name}.slot = alloca double" for name in (*function.parameters, *function.variables)),
            *(f"  store double %{name}, ptr %{name}.slot" for name in function.parameters),
            *(line.replace("  return ", f"  ret {kind} ") for line in self._code.lines),
        ]
        body = "\n".join(lines)
        return f"define internal {kind} @our_{function.name}({head}) {{\n{body}\n  unreachable\n}}\n"

    def assignment(self, name: str, value: str) -> list[str]:
        """Write an assignment."""
        self._code.store("double", value, f"%{name}.slot")
        return []

    def if_statement(self, cases: Sequence[tuple[Test, Block]], otherwise: Block) -> list[str]:
        """Write a branch to the block of the first condition that is true."""
        code, end = self._code, self._code.new_label()
        for condition, block in cases:
            with code.branch(condition(), end):
                block()
        otherwise()
        code.emit(f"br label %{end}")
        code.begin_block(end)
        return []

    def while_loop(self, condition: Test, block: Block) -> list[str]:
        """Write a loop that runs while a condition is true."""
        code, head = self._code, self._code.new_label()
        code.emit(f"br label %{head}")
        code.begin_block(head)
        with code.branch(condition(), head):
            block()
        return []

    def return_statement(self, value: str) -> list[str]:
        """Write the statement that returns a value, and begin the block that follows."""
        self._code.emit(f"return {value}")
        self._code.begin_block(self._code.new_label())
        return []

    def table_definition(self, name: str, numbers: Sequence[str]) -> str:
        """Return the definition of a table of numbers, indexed from 0."""
        elements = ", ".join(f"double {number}" for number in numbers)
        return f"@table_{name} = internal constant [{len(numbers)} x double] [{elements}]\n"


def float_literal(number: float) -> str:
    """Return a float as LLVM writes it, exact to the last bit.

    >>> float_literal(1.0), float_literal(-0.0)
    ('0x3FF0000000000000', '0x8000000000000000')
    """
    return f"0x{struct.pack('>d', number).hex().upper()}"


LLVM_LOCK = threading.Lock()  # LLVM's global state is shared by all threads
# Besides the assembly, object code depends on these.
LLVM_VERSIONS = (llvm.__name__, ".".join(map(str, llvm.llvm_version_info)))


@functools.cache
def initialize() -> None:
    """Prepare LLVM to compile for this machine's processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def compile_assembly(
    kind: str, text: str, machine: Any, *properties: str, optimize: Callable[[Any, Any], object] = lambda *_: None
) -> Any:
    """Return an engine with the functions of an assembly text, which are compiled unless the cache has them.

    Args:
        kind: the kind of code, for the name in the cache.
        machine: the target machine.
        properties: properties of the machine that the code depends on, besides its triple.
        optimize: improves a module for a machine before it is compiled.
    """
    with LLVM_LOCK:
        name = entry_name(kind, text, machine.triple, *properties, __version__, *LLVM_VERSIONS)
        code = load(name)
        if code is None:
            module = parse_assembly(text)
            optimize(module, machine)
            code = machine.emit_object(module)
            store(name, code)
        return load_object_code(code, machine)


def parse_assembly(text: str) -> Any:
    """Return the LLVM module of an assembly text.

    Raises:
        AssertionError: if the text is invalid, which is a bug in the code generator.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise AssertionError(f"invalid LLVM assembly: {error}") from error
    return module


_symbols: dict[str, int] = {}  # the addresses of compiled functions that other compiled code may call


def add_symbol(name: str, address: int) -> None:
    """Let compiled code that is loaded from now on call a function by this name."""
    llvm.add_symbol(name, address)
    _symbols[name] = address


def load_object_code(code: bytes, machine: Any) -> Any:
    """Load object code into memory and return an engine that looks up the addresses of its functions."""
    if sys.platform == "linux":
        return _LinkedLibrary(code)
    empty = llvm.parse_assembly(f'target triple = "{machine.triple}"')
    compiler = llvm.create_mcjit_compiler(empty, machine)
    compiler.add_object_file(llvm.ObjectFileRef.from_data(code))
    compiler.finalize_object()
    return compiler


class _LinkedLibrary:
    """Object code, linked as a separate library by JITLink.

    JITLink places code and constants side by side. LLVM's older linker allocates memory for each of them. In a process
    with many libraries these can be more than 2 GB apart, and the linker then aborts the process.
    """

    def __init__(self, code: bytes) -> None:
        self._jit = _jit()
        self._name = f"autodiff-{next(_library_numbers)}"
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol, address in _symbols.items():
            library.import_symbol(symbol, address)
        self._resources = [library.link(self._jit, self._name)]

    def get_function_address(self, name: str) -> int:
        """Return the address of an exported function."""
        symbols = self._jit.lookup(self._name, name)
        self._resources.append(symbols)
        address: int = symbols[name]
        return address


@functools.cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(use_jit_link=True)


_library_numbers = itertools.count()
