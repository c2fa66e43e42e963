"""Machine code for functions of floats: translation of Python functions to LLVM assembly, and loading of object code.

The translation goes statement by statement. Every variable is a memory slot, which LLVM turns into a register, and
every number is a double, loop counters included. Functions that Python takes from the platform's library are called
there, so results are equal to the last bit.

Imported only where LLVM is needed, because it imports llvmlite.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, cast

import llvmlite.binding as llvm

from autodiff_cli.numbers.sources import (
    find_definition,
    names_in,
    range_bounds,
    returns_condition,
    specialize,
    table_name,
)

# Functions of the platform's library by name, with their numbers of arguments.
_PLATFORM_FUNCTIONS = {
    **dict.fromkeys((
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc",
    ), 1),
    **dict.fromkeys(("pow", "atan2"), 2),
}  # fmt: skip
_INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "copysign": "copysign"}  # LLVM's
_PLATFORM_NAMES = {
    "_far_sinh": "sinh",
    "power": "pow",
}  # functions of this package that only catch exceptions of the platform's
_ARITHMETIC: dict[type[ast.AST], str] = {
    ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv", ast.Mod: "frem",
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "oeq", ast.NotEq: "une", ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge",
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": math.inf, "nan": math.nan}


class _Value(NamedTuple):
    """An LLVM value: a double, or an `i1` if it is a condition."""

    text: str
    is_condition: bool = False


def llvm_program(function: Callable[..., float]) -> str:
    """Return LLVM assembly for `rows(result, count, arguments…)`, which applies a function of floats to each element.

    >>> print(llvm_program(math.erf).partition("define")[0])
    declare double @erf(double)
    <BLANKLINE>
    <BLANKLINE>
    """
    writer = _ModuleWriter()
    name, count = (writer.require if isinstance(function, FunctionType) else writer.require_platform)(function.__name__)
    positions = range(count)
    in_parameters = "".join(f", ptr %in{k}" for k in positions)
    loads = "".join(
        f"  %p{k} = getelementptr double, ptr %in{k}, i64 %row\n  %x{k} = load double, ptr %p{k}\n" for k in positions
    )
    arguments = ", ".join(f"double %x{k}" for k in positions)
    rows = (
        f"define void @rows(ptr %out, i64 %count{in_parameters}) {{\n"
        "start:\n  %none = icmp eq i64 %count, 0\n  br i1 %none, label %end, label %body\n"
        "body:\n  %row = phi i64 [0, %start], [%next, %body]\n"
        f"{loads}  %y = call double @{name}({arguments})\n"
        "  %place = getelementptr double, ptr %out, i64 %row\n  store double %y, ptr %place\n"
        "  %next = add i64 %row, 1\n  %more = icmp ult i64 %next, %count\n"
        "  br i1 %more, label %body, label %end\n"
        "end:\n  ret void\n}\n"
    )
    return "\n".join([*writer.parts.values(), rows])


class _ModuleWriter:
    """Collects the functions, tables and declarations of an LLVM module.

    Attributes:
        parts: the assembly of each function, table and declaration, by name.
    """

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def require(self, name: str) -> tuple[str, int]:
        """Add the function with a Python name to the module, and return its symbol and its number of parameters."""
        if name in _PLATFORM_NAMES:
            return self.require_platform(_PLATFORM_NAMES[name])
        if name in _INTRINSICS:
            return self._declare(f"llvm.{_INTRINSICS[name]}.f64", 2 if name == "copysign" else 1)
        definition = find_definition(name, prefer_portable=True)
        if definition is not None and definition.is_function:
            return self.define(cast(ast.FunctionDef, definition.node))
        return self._declare(name, _PLATFORM_FUNCTIONS[name])

    def require_platform(self, name: str) -> tuple[str, int]:
        """Add a function of the platform's library, and return its symbol and its number of parameters.

        A function of this package may have the same name.
        """
        return self.require(name) if name in _INTRINSICS else self._declare(name, _PLATFORM_FUNCTIONS[name])

    def define(self, node: ast.FunctionDef) -> tuple[str, int]:
        """Add the translation of a function definition, and return its symbol and its number of parameters."""
        name = f"our_{node.name}"
        if name not in self.parts:
            self.parts[name] = ""  # it may call itself
            self.parts[name] = _FunctionWriter(self, node).text(name)
        return name, len(node.args.args)

    def define_table(self, name: str) -> str:
        """Add a table of numbers to the module, and return its symbol."""
        definition = find_definition(name, prefer_portable=True)
        assert definition is not None
        assert definition.table is not None, name
        numbers = ", ".join(f"double {_literal(number)}" for number in definition.table)
        self.parts.setdefault(
            f"table_{name}", f"@table_{name} = internal constant [{len(definition.table)} x double] [{numbers}]\n"
        )
        return f"@table_{name}"

    def _declare(self, name: str, count: int) -> tuple[str, int]:
        self.parts.setdefault(name, f"declare double @{name}({', '.join(['double'] * count)})\n")
        return name, count


class _FunctionWriter:
    """Translates one function to LLVM assembly."""

    def __init__(self, texts: _ModuleWriter, node: ast.FunctionDef) -> None:
        self._module = texts
        self._node = node
        self._places: dict[str, str] = {}
        self._lines: list[str] = []
        self._elements: dict[str, str] = {}
        self._count = 0

    def text(self, name: str) -> str:
        """Return the assembly of the function, with `name` as its symbol."""
        parameters = [argument.arg for argument in self._node.args.args]
        for parameter in parameters:
            self._store(parameter, _Value(f"%{parameter}"))
        self._block(self._node.body)
        kind = "i1" if returns_condition(self._node) else "double"
        head = ", ".join(f"double %{parameter}" for parameter in parameters)
        places = [f"  {place} = alloca double" for place in self._places.values()]
        body = "\n".join([*places, *self._lines])
        return f"define internal {kind} @{name}({head}) {{\n{body}\n  unreachable\n}}\n"

    # --- statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()):
                pass  # the docstring
            case ast.Return(value=ast.expr() as value):
                is_question = returns_condition(self._node)
                result = self._condition(value) if is_question else self._number(value)
                self._lines.append(f"  ret {'i1' if is_question else 'double'} {result}")
                self._start_block(self._label())
            case ast.Assign(targets=targets, value=value):
                number_value = _Value(self._number(value))
                for target in targets:
                    self._store(cast(ast.Name, target).id, number_value)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                changed = self._emit(f"{_ARITHMETIC[type(operator)]} double {self._load(name)}, {self._number(value)}")
                self._store(name, _Value(changed))
            case ast.If(test=test, body=body, orelse=otherwise):
                self._write_branch(test, lambda: self._block(body), lambda: self._block(otherwise))
            case ast.While(test=test, body=body):
                self._write_while(lambda: self._condition(test), lambda: self._block(body))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                self._write_for(name, *range_bounds(bounds), body)
            case ast.For(target=ast.Name(id=name), iter=table, body=body):
                found_table = find_definition(table_name(table), prefer_portable=True)
                assert found_table is not None
                assert found_table.table is not None
                self._elements[name] = table_name(table)
                self._write_for(f"{name} index", 0, len(found_table.table), 1, body)
            case _:
                raise NotImplementedError(ast.unparse(statement))

    def _write_for(self, name: str, start: int, stop: int, step: int, body: Sequence[ast.stmt]) -> None:
        self._store(name, _Value(_literal(start)))

        def is_before() -> str:
            return self._emit(f"fcmp {'olt' if step > 0 else 'ogt'} double {self._load(name)}, {_literal(stop)}")

        def go() -> None:
            self._block(body)
            self._store(name, _Value(self._emit(f"fadd double {self._load(name)}, {_literal(step)}")))

        self._write_while(is_before, go)

    def _write_while(self, test: Callable[[], str], body: Callable[[], None]) -> None:
        head, inside, end = self._label(), self._label(), self._label()
        self._start_block(head)
        self._lines.append(f"  br i1 {test()}, label %{inside}, label %{end}")
        self._start_block(inside, is_reached=False)
        body()
        self._lines.append(f"  br label %{head}")
        self._start_block(end, is_reached=False)

    def _write_branch(self, test: ast.expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        first, second, end = self._label(), self._label(), self._label()
        self._lines.append(f"  br i1 {self._condition(test)}, label %{first}, label %{second}")
        for label, branch in ((first, then), (second, otherwise)):
            self._start_block(label, is_reached=False)
            branch()
            self._lines.append(f"  br label %{end}")
        self._start_block(end, is_reached=False)

    # --- expressions

    def _number(self, node: ast.expr) -> str:
        value = self._expression(node)
        return self._emit(f"uitofp i1 {value.text} to double") if value.is_condition else value.text

    def _condition(self, node: ast.expr) -> str:
        value = self._expression(node)
        return value.text if value.is_condition else self._emit(f"fcmp une double {value.text}, 0.0")

    def _expression(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool(value)):
                return _Value("true" if value else "false", is_condition=True)
            case ast.Constant(value=int(value) | float(value)):
                return _Value(_literal(value))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr=name):
                return _Value(_literal(_CONSTANTS[name]))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return _Value(_literal(float(ast.literal_eval(left) ** ast.literal_eval(right))))
            case ast.BinOp(left=left, op=operator, right=right):
                first, second = self._number(left), self._number(right)
                return _Value(self._emit(f"{_ARITHMETIC[type(operator)]} double {first}, {second}"))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _Value(self._emit(f"fneg double {self._number(operand)}"))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _Value(self._emit(f"xor i1 {self._condition(operand)}, true"), is_condition=True)
            case ast.BoolOp(op=operator, values=parts):
                return self._join_conditions(
                    "and" if isinstance(operator, ast.And) else "or", [*map(self._condition, parts)]
                )
            case ast.Compare(left=left, ops=operators, comparators=rights):
                sides = [*map(self._number, [left, *rights])]
                links = [
                    self._emit(f"fcmp {_COMPARISONS[type(operator)]} double {a}, {b}")
                    for a, operator, b in zip(sides, operators, sides[1:], strict=False)
                ]
                return self._join_conditions("and", links)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                place = f"choice {self._count}"
                self._write_branch(
                    test,
                    lambda: self._store(place, _Value(self._number(body))),
                    lambda: self._store(place, _Value(self._number(otherwise))),
                )
                return _Value(self._load(place))
            case ast.Subscript(value=table, slice=index):
                return _Value(self._element(table_name(table), self._number(index)))
            case ast.Call(func=ast.Name(id=name), args=[ast.Lambda() as formula]):
                return self._call_specialized(name, formula)
            case ast.Call(func=function, args=arguments):
                return self._call_expression(function, [*map(self._number, arguments)])
        raise NotImplementedError(ast.unparse(node))

    def _name(self, name: str) -> _Value:
        if name in self._elements:
            return _Value(self._element(self._elements[name], self._load(f"{name} index")))
        if name in self._places:
            return _Value(self._load(name))
        if name in _CONSTANTS:
            return _Value(_literal(_CONSTANTS[name]))
        definition = find_definition(name, prefer_portable=True)
        assert definition is not None, name
        assert definition.number is not None, name
        return _Value(_literal(definition.number))

    def _call_expression(self, function: ast.expr, arguments: list[str]) -> _Value:
        name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
        match name, arguments:
            case "float", [x]:
                return _Value(x)
            case (("max" | "min"), [a, b]):
                is_other = self._emit(f"fcmp {'ogt' if name == 'max' else 'olt'} double {b}, {a}")
                return _Value(self._emit(f"select i1 {is_other}, double {b}, double {a}"))
            case "divide", [a, b]:
                return _Value(self._emit(f"fdiv double {a}, {b}"))
            case (("isinf" | "isfinite"), [x]):
                size = self._emit_call(*self._module.require("abs"), [x])
                sign = "oeq" if name == "isinf" else "olt"
                return _Value(self._emit(f"fcmp {sign} double {size}, {_literal(math.inf)}"), is_condition=True)
        if isinstance(function, ast.Attribute):
            return _Value(self._emit_call(*self._module.require_platform(name), arguments))
        definition = find_definition(name, prefer_portable=True)
        is_condition = definition is not None and returns_condition(definition.node)
        return _Value(self._emit_call(*self._module.require(name), arguments, is_condition), is_condition)

    def _call_specialized(self, name: str, formula: ast.Lambda) -> _Value:
        """Return a call with a lambda as its argument: a call of a copy of the function with the formula inlined."""
        argument = formula.args.args[0].arg
        free_names = [
            name for name in dict.fromkeys(names_in(formula.body)) if name != argument and name in self._places
        ]
        node = specialize(name, formula, f"{self._node.name}_terms_{formula.lineno}", free_names)
        return _Value(self._emit_call(*self._module.define(node), [*map(self._load, free_names)]))

    def _emit_call(self, name: str, count: int, arguments: Sequence[str], is_condition: bool = False) -> str:
        assert len(arguments) == count, name
        argument_list = ", ".join(f"double {argument}" for argument in arguments)
        return self._emit(f"call {'i1' if is_condition else 'double'} @{name}({argument_list})")

    def _element(self, table: str, index: str) -> str:
        whole = self._emit(f"fptosi double {index} to i64")
        place = self._emit(f"getelementptr double, ptr {self._module.define_table(table)}, i64 {whole}")
        return self._emit(f"load double, ptr {place}")

    def _join_conditions(self, operation: str, conditions: Sequence[str]) -> _Value:
        joined = conditions[0]
        for condition in conditions[1:]:
            joined = self._emit(f"{operation} i1 {joined}, {condition}")
        return _Value(joined, is_condition=True)

    # --- lines

    def _load(self, name: str) -> str:
        return self._emit(f"load double, ptr {self._places[name]}")

    def _store(self, name: str, value: _Value) -> None:
        place = self._places.setdefault(name, f"%place{len(self._places)}")
        self._lines.append(f"  store double {value.text}, ptr {place}")

    def _emit(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def _label(self) -> str:
        self._count += 1
        return f"at{self._count}"

    def _start_block(self, label: str, is_reached: bool = True) -> None:
        """Start a basic block. If `is_reached`, the preceding block jumps to it, unless it ended with a return."""
        if is_reached and not self._lines[-1].startswith("  ret "):
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")


def _literal(number: float) -> str:
    return f"0x{struct.pack('>d', number).hex().upper()}"


LLVM_LOCK = threading.Lock()  # LLVM's global state is shared by all threads
LLVM_VERSIONS = (
    llvm.__name__,
    ".".join(map(str, llvm.llvm_version_info)),
)  # besides the assembly, object code depends on these


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
    """Object code, linked as a library of its own by JITLink.

    JITLink places code and constants side by side. LLVM's older linker allocates memory for each of them. In a process
    with many libraries these can be more than 2 GB apart, and the linker then aborts the process.
    """

    def __init__(self, code: bytes) -> None:
        self._jit = _jit()
        self._name = f"autodiff-{next(_library_numbers)}"
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
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
