"""Functions of floats as LLVM's text: what `autodiff_cli.numbers.floats` says in Python, statement by statement.

Every variable is a place in memory, which LLVM turns into registers, and every number a double, counters too. What
Python takes from the platform's library is called there, so that results are the same to the last bit.
"""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import NamedTuple, cast

from autodiff_cli.numbers.sources import counted, definition, mentioned, returns_condition, specialised, table_name

# What the platform's library has under these names, with so many arguments; `power` and the like are its too.
_LIBRARY = {
    **dict.fromkeys((
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc",
    ), 1),
    **dict.fromkeys(("pow", "atan2"), 2),
}  # fmt: skip
_OWN = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "copysign": "copysign"}  # LLVM's
_CALLED = {"_far_sinh": "sinh", "power": "pow"}  # ours that catch the library's exceptions
_ARITHMETIC: dict[type[ast.AST], str] = {
    ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv", ast.Mod: "frem",
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "oeq", ast.NotEq: "une", ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge",
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": math.inf, "nan": math.nan}


class _Value(NamedTuple):
    """A number, or a condition."""

    text: str
    is_condition: bool = False


def program(function: Callable[..., float]) -> str:
    """The text of a function `rows(result, count, arguments…)` that applies a function of floats to arrays.

    >>> print(program(math.erf).partition("define")[0])
    declare double @erf(double)
    <BLANKLINE>
    <BLANKLINE>
    """
    texts = _Texts()
    name, count = (texts.named if isinstance(function, FunctionType) else texts.platform)(function.__name__)
    places = range(count)
    given = "".join(f", ptr %in{k}" for k in places)
    loads = "".join(
        f"  %p{k} = getelementptr double, ptr %in{k}, i64 %row\n  %x{k} = load double, ptr %p{k}\n" for k in places
    )
    arguments = ", ".join(f"double %x{k}" for k in places)
    rows = (
        f"define void @rows(ptr %out, i64 %count{given}) {{\n"
        "start:\n  %none = icmp eq i64 %count, 0\n  br i1 %none, label %end, label %body\n"
        "body:\n  %row = phi i64 [0, %start], [%next, %body]\n"
        f"{loads}  %y = call double @{name}({arguments})\n"
        "  %place = getelementptr double, ptr %out, i64 %row\n  store double %y, ptr %place\n"
        "  %next = add i64 %row, 1\n  %more = icmp ult i64 %next, %count\n"
        "  br i1 %more, label %body, label %end\n"
        "end:\n  ret void\n}\n"
    )
    return "\n".join([*texts.parts.values(), rows])


class _Texts:
    """Functions, tables and declarations by their names."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def named(self, name: str) -> tuple[str, int]:
        """See to it that the function of a name is there; gives what it is called by, and how many numbers it takes."""
        if name in _CALLED:
            return self.platform(_CALLED[name])
        if name in _OWN:
            return self._declared(f"llvm.{_OWN[name]}.f64", 2 if name == "copysign" else 1)
        found = definition(name, in_arithmetic=True)
        if found is not None and found.is_function:
            return self.function(cast(ast.FunctionDef, found.node))
        return self._declared(name, _LIBRARY[name])

    def platform(self, name: str) -> tuple[str, int]:
        """A function of the platform's library, which may have one of ours with its name."""
        return self.named(name) if name in _OWN else self._declared(name, _LIBRARY[name])

    def function(self, node: ast.FunctionDef) -> tuple[str, int]:
        """The function that is defined so, written when it is first asked for."""
        name = f"our_{node.name}"
        if name not in self.parts:
            self.parts[name] = ""  # it may call itself
            self.parts[name] = _Function(self, node).text(name)
        return name, len(node.args.args)

    def table(self, name: str) -> str:
        """A table of numbers."""
        found = definition(name, in_arithmetic=True)
        assert found is not None
        assert found.table is not None, name
        numbers = ", ".join(f"double {_literal(number)}" for number in found.table)
        self.parts.setdefault(
            f"table_{name}", f"@table_{name} = internal constant [{len(found.table)} x double] [{numbers}]\n"
        )
        return f"@table_{name}"

    def _declared(self, name: str, count: int) -> tuple[str, int]:
        self.parts.setdefault(name, f"declare double @{name}({', '.join(['double'] * count)})\n")
        return name, count


class _Function:
    """One function on its way."""

    def __init__(self, texts: _Texts, node: ast.FunctionDef) -> None:
        self._texts = texts
        self._node = node
        self._places: dict[str, str] = {}
        self._lines: list[str] = []
        self._elements: dict[str, str] = {}
        self._count = 0

    def text(self, name: str) -> str:
        """The function's text."""
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
                pass  # its documentation
            case ast.Return(value=ast.expr() as value):
                is_question = returns_condition(self._node)
                result = self._condition(value) if is_question else self._number(value)
                self._lines.append(f"  ret {'i1' if is_question else 'double'} {result}")
                self._begin(self._label())
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, number in zip(targets, [*map(self._number, values)], strict=True):
                    self._store(cast(ast.Name, target).id, _Value(number))
            case ast.Assign(targets=targets, value=value):
                found = _Value(self._number(value))
                for target in targets:
                    self._store(cast(ast.Name, target).id, found)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                changed = self._new(f"{_ARITHMETIC[type(operator)]} double {self._load(name)}, {self._number(value)}")
                self._store(name, _Value(changed))
            case ast.If(test=test, body=body, orelse=otherwise):
                self._choose(test, lambda: self._block(body), lambda: self._block(otherwise))
            case ast.While(test=test, body=body):
                self._repeat(lambda: self._condition(test), lambda: self._block(body))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                self._loop(name, *counted(bounds), body)
            case ast.For(target=ast.Name(id=name), iter=table, body=body):
                found_table = definition(table_name(table), in_arithmetic=True)
                assert found_table is not None
                assert found_table.table is not None
                self._elements[name] = table_name(table)
                self._loop(f"{name} index", 0, len(found_table.table), 1, body)
            case _:
                raise NotImplementedError(ast.unparse(statement))

    def _loop(self, name: str, start: int, stop: int, step: int, body: Sequence[ast.stmt]) -> None:
        self._store(name, _Value(_literal(start)))

        def is_before() -> str:
            return self._new(f"fcmp {'olt' if step > 0 else 'ogt'} double {self._load(name)}, {_literal(stop)}")

        def go() -> None:
            self._block(body)
            self._store(name, _Value(self._new(f"fadd double {self._load(name)}, {_literal(step)}")))

        self._repeat(is_before, go)

    def _repeat(self, test: Callable[[], str], body: Callable[[], None]) -> None:
        head, inside, end = self._label(), self._label(), self._label()
        self._begin(head)
        self._lines.append(f"  br i1 {test()}, label %{inside}, label %{end}")
        self._begin(inside, is_reached=False)
        body()
        self._lines.append(f"  br label %{head}")
        self._begin(end, is_reached=False)

    def _choose(self, test: ast.expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        first, second, end = self._label(), self._label(), self._label()
        self._lines.append(f"  br i1 {self._condition(test)}, label %{first}, label %{second}")
        for label, branch in ((first, then), (second, otherwise)):
            self._begin(label, is_reached=False)
            branch()
            self._lines.append(f"  br label %{end}")
        self._begin(end, is_reached=False)

    # --- expressions

    def _number(self, node: ast.expr) -> str:
        value = self._written(node)
        return self._new(f"uitofp i1 {value.text} to double") if value.is_condition else value.text

    def _condition(self, node: ast.expr) -> str:
        value = self._written(node)
        return value.text if value.is_condition else self._new(f"fcmp une double {value.text}, 0.0")

    def _written(self, node: ast.expr) -> _Value:
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
                return _Value(self._new(f"{_ARITHMETIC[type(operator)]} double {first}, {second}"))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _Value(self._new(f"fneg double {self._number(operand)}"))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _Value(self._new(f"xor i1 {self._condition(operand)}, true"), is_condition=True)
            case ast.BoolOp(op=operator, values=parts):
                return self._joined("and" if isinstance(operator, ast.And) else "or", [*map(self._condition, parts)])
            case ast.Compare(left=left, ops=operators, comparators=rights):
                sides = [*map(self._number, [left, *rights])]
                links = [
                    self._new(f"fcmp {_COMPARISONS[type(operator)]} double {a}, {b}")
                    for a, operator, b in zip(sides, operators, sides[1:], strict=False)
                ]
                return self._joined("and", links)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                place = f"choice {self._count}"
                self._choose(
                    test,
                    lambda: self._store(place, _Value(self._number(body))),
                    lambda: self._store(place, _Value(self._number(otherwise))),
                )
                return _Value(self._load(place))
            case ast.Subscript(value=table, slice=index):
                return _Value(self._element(table_name(table), self._number(index)))
            case ast.Call(func=ast.Name(id=name), args=[ast.Lambda() as formula]):
                return self._specialised(name, formula)
            case ast.Call(func=function, args=arguments):
                return self._called(function, [*map(self._number, arguments)])
        raise NotImplementedError(ast.unparse(node))

    def _name(self, name: str) -> _Value:
        if name in self._elements:
            return _Value(self._element(self._elements[name], self._load(f"{name} index")))
        if name in self._places:
            return _Value(self._load(name))
        if name in _CONSTANTS:
            return _Value(_literal(_CONSTANTS[name]))
        found = definition(name, in_arithmetic=True)
        assert found is not None, name
        assert found.number is not None, name
        return _Value(_literal(found.number))

    def _called(self, function: ast.expr, arguments: list[str]) -> _Value:
        name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
        match name, arguments:
            case "float", [x]:
                return _Value(x)
            case (("max" | "min"), [a, b]):
                is_other = self._new(f"fcmp {'ogt' if name == 'max' else 'olt'} double {b}, {a}")
                return _Value(self._new(f"select i1 {is_other}, double {b}, double {a}"))
            case "divide", [a, b]:
                return _Value(self._new(f"fdiv double {a}, {b}"))
            case (("isinf" | "isfinite"), [x]):
                size = self._call(*self._texts.named("abs"), [x])
                sign = "oeq" if name == "isinf" else "olt"
                return _Value(self._new(f"fcmp {sign} double {size}, {_literal(math.inf)}"), is_condition=True)
        if isinstance(function, ast.Attribute):
            return _Value(self._call(*self._texts.platform(name), arguments))
        found = definition(name, in_arithmetic=True)
        is_question = found is not None and returns_condition(found.node)
        return _Value(self._call(*self._texts.named(name), arguments, is_question), is_question)

    def _specialised(self, name: str, formula: ast.Lambda) -> _Value:
        """A call with a function of one number: of a copy that has the function's formula in it."""
        own = formula.args.args[0].arg
        free = [name for name in dict.fromkeys(mentioned(formula.body)) if name != own and name in self._places]
        node = specialised(name, formula, f"{self._node.name}_terms_{formula.lineno}", free)
        return _Value(self._call(*self._texts.function(node), [*map(self._load, free)]))

    def _call(self, name: str, count: int, arguments: Sequence[str], is_question: bool = False) -> str:
        assert len(arguments) == count, name
        given = ", ".join(f"double {argument}" for argument in arguments)
        return self._new(f"call {'i1' if is_question else 'double'} @{name}({given})")

    def _element(self, table: str, index: str) -> str:
        whole = self._new(f"fptosi double {index} to i64")
        place = self._new(f"getelementptr double, ptr {self._texts.table(table)}, i64 {whole}")
        return self._new(f"load double, ptr {place}")

    def _joined(self, operation: str, conditions: Sequence[str]) -> _Value:
        found = conditions[0]
        for condition in conditions[1:]:
            found = self._new(f"{operation} i1 {found}, {condition}")
        return _Value(found, is_condition=True)

    # --- lines

    def _load(self, name: str) -> str:
        return self._new(f"load double, ptr {self._places[name]}")

    def _store(self, name: str, value: _Value) -> None:
        place = self._places.setdefault(name, f"%place{len(self._places)}")
        self._lines.append(f"  store double {value.text}, ptr {place}")

    def _new(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def _label(self) -> str:
        self._count += 1
        return f"at{self._count}"

    def _begin(self, label: str, is_reached: bool = True) -> None:
        """What follows stands at a label, which is reached from above unless that ended with a jump."""
        if is_reached and not self._lines[-1].startswith("  ret "):
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")


def _literal(number: float) -> str:
    return f"0x{struct.pack('>d', number).hex().upper()}"
