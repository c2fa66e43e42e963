"""Mutations of the program, generated from its syntax trees and drawn by a seed.

Each mutation changes one place: a comparison, a sign, a constant, a condition, a term or a statement. The change has
to be large enough to mean something:

- A comparison of integers, and one with 0 or 1, has its edge moved (`<` becomes `<=`), since such numbers do meet their
  limits. Other numbers and budgets practically never do, so a comparison of those is negated (`<` becomes `>=`), and
  a length that is compared with a budget does not change by 1, which would move the same edge.
- A whole number grows by 1. A round one (10, 200) becomes a tenth: it is an amount of effort, of which 201 is as good.
- A float is doubled. A power of ten below 0.01 or from 1000 is multiplied by 1000: it is a tolerance or a limit, and
  only its magnitude matters. A measured error bound in ulps becomes 0.

Mutations that cannot change a result are left out: `SKIPPED_KEYWORDS` and `is_budget` are rules, and so is that an
`assert` changes no result, and that any negative number is as good as -1 in `reshape`.
`equivalent.toml` lists single places, each with its reason.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

PACKAGE = "autodiff_cli"

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
EDGES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
BUDGETS = ("Settings", "Limits")  # how the names of classes end whose fields are budgets
OPERATORS = ("comparison", "sign", "constant", "off by one", "condition", "dropped term", "dropped statement")

# Keywords whose value decides how something is done, and not what comes out.
SKIPPED_KEYWORDS = {
    "strict": "zip checks lengths that are equal in a correct program",
    "slots": "attributes are stored elsewhere",
    "frozen": "no code assigns to the fields",
    "maxsize": "a size of a cache",
    "flush": "when text is written",
    "daemon": "how a process ends",
    "digest_size": "how long a hash is",
    "stacklevel": "the line that a Python warning names",
    "copy": "whether an array is copied that nobody changes",
    "kw_only": "how records are created",
    "init": "how records are created",
    "timeout": "how long to wait for what comes or does not",
}
ERROR_BOUNDS = {"ulp_bound", "argument_ulps"}  # keywords whose values were measured and rounded up
INTEGER_ATTRIBUTES = {"size", "ndim", "itemsize", "nbytes", "num_rows", "lineno", "column"}
INTEGER_CALLS = {"len", "int", "ord", "index", "find", "count", "bit_length"}


# Mutations after which every result is the same: the changed lines of each file, with the reason.
EQUIVALENT: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("equivalent.toml").read_text(encoding="utf-8")
)


class Mutation(NamedTuple):
    """A change of one place in the program.

    Attributes:
        file: the path of the file from the root of the checkout.
        line: the line in which the place begins.
        function: the qualified name of the function or class around it; empty at the top of a module.
        operator: one of `OPERATORS`.
        start, stop: where the place begins and ends, in bytes.
        old, new: its text, and the replacement.
    """

    file: str
    line: int
    function: str
    operator: str
    start: int
    stop: int
    old: str
    new: str

    def __str__(self) -> str:
        change = " ".join(f"{self.old} -> {self.new}".split())
        return f"{self.file}:{self.line} {self.function}: {self.operator}: {change}"

    def apply(self, source: bytes) -> bytes:
        """Return the source of the file with the change."""
        return source[: self.start] + self.new.encode() + source[self.stop :]


def draw(root: Path, count: int, seed: int, prefix: str = PACKAGE) -> list[Mutation]:
    """Draw mutations of the files below a path, from each operator in turn, without those that change no result.

    They are sorted by hashes of what they change, so that the same ones are drawn after other code has changed.
    """
    by_operator: dict[str, list[tuple[bytes, Mutation]]] = {operator: [] for operator in OPERATORS}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        file, seen = path.relative_to(root).as_posix(), Counter[tuple[str, ...]]()
        if not file.startswith(prefix):
            continue
        for mutation in mutations_of(path.read_bytes(), file):
            change = (file, mutation.function, mutation.operator, mutation.old, mutation.new)
            seen[change] += 1
            rank = hashlib.sha256(repr((seed, seen[change], change)).encode()).digest()
            by_operator[mutation.operator].append((rank, mutation))
    ranked = (sorted(several) for several in by_operator.values())
    drawn = [ranked_mutation[1] for turn in zip_longest(*ranked) for ranked_mutation in turn if ranked_mutation]
    return drawn[:count]


def mutations_of(source: bytes, file: str) -> list[Mutation]:
    """Return all mutations of a file, without those of `EQUIVALENT`."""
    found = Finder(source, file)
    found.visit(ast.parse(source))
    return [mutation for mutation in found.mutations if changed_line(source, mutation) not in EQUIVALENT.get(file, {})]


def changed_line(source: bytes, mutation: Mutation) -> str:
    """Return the line or lines of a mutation after the change, as words with a blank between them."""
    start, stop = source.rfind(b"\n", 0, mutation.start) + 1, source.find(b"\n", mutation.stop)
    text = source[start : mutation.start] + mutation.new.encode() + source[mutation.stop : stop]
    return " ".join(text.decode().split())


def is_budget(node: ast.stmt, functions: Sequence[str]) -> bool:
    """Whether a statement names a single number at the top of a module, or in a record of settings or limits.

    These are sizes of blocks and caches, limits of time and effort, and tolerances. Their exact value decides the cost
    of a result, not the result.
    """
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    numeric = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    is_name = isinstance(target, ast.Name) and (functions[0].endswith(BUDGETS) if functions else target.id.isupper())
    return is_name and value is not None and all(isinstance(part, numeric) for part in ast.walk(value))


def is_budget_name(node: ast.expr) -> bool:
    """Whether an expression is a constant at the top of a module, or a field of settings there (`SETTINGS.rivals`)."""
    return re.fullmatch(r"[A-Z_][A-Z_0-9]+|[A-Z_]+\.\w+", ast.unparse(node)) is not None


def integer_names(node: ast.AST) -> Iterator[str]:
    """Yield names in a file that are annotated as integers, are counted by loops, or have an integer's value."""
    match node:
        case ast.arg(arg=name, annotation=ast.Name(id="int")) | ast.FunctionDef(name=name, returns=ast.Name(id="int")):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="int")):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_integer(value, set()) and name.islower():
            yield name
        case (
            ast.For(target=target, iter=ast.Call(func=ast.Name(id=loop)))
            | ast.comprehension(target=target, iter=ast.Call(func=ast.Name(id=loop)))
        ) if loop in ("range", "enumerate"):
            counter = target.elts[0] if isinstance(target, ast.Tuple) else target
            if isinstance(counter, ast.Name):
                yield counter.id


def is_integer(node: ast.expr, names: AbstractSet[str]) -> bool:
    """Whether an expression is an integer, as far as its form says, and the names that are known to be integers."""
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in names | INTEGER_ATTRIBUTES
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in names | INTEGER_CALLS
        case ast.UnaryOp(operand=operand):
            return is_integer(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Div | ast.MatMult):
            return is_integer(left, names) and is_integer(right, names)
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def scaled(number: float) -> float:
    """Return a float that differs from another so much that it means something else."""
    if not number:
        return 1.0
    is_limit = not 0.01 <= number < 1000 and len(f"{number:e}".partition("e")[0].rstrip("0.")) == 1
    return float(f"{1000 * number:.6g}") if is_limit else 2 * number


class Finder(ast.NodeVisitor):
    """Finds the mutations of a file. Annotations, decorators and imports for type checkers are left out."""

    def __init__(self, source: bytes, file: str) -> None:
        self.source, self.file = source, file
        self.integers = {name for node in ast.walk(ast.parse(source)) for name in integer_names(node)}
        lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.functions: list[str] = []
        self.limited: set[int] = set()  # what is compared with a budget
        self.mutations: list[Mutation] = []

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, stop = self._span(node)
        return f"({self.source[start:stop].decode()})"

    def _add(self, operator: str, start: int, stop: int, new: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        old = self.source[start:stop].decode()
        self.mutations.append(Mutation(self.file, line, ".".join(self.functions), operator, start, stop, old, new))

    def _replace(self, operator: str, node: ast.expr | ast.stmt, new: str) -> None:
        self._add(operator, *self._span(node), new)

    def _swap_between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the symbol between two operands, which may stand in brackets and on different lines."""
        start, stop = self._span(left)[1], self._span(right)[0]
        between = self.source[start:stop].decode()
        pattern = re.escape(old).replace(r"\ ", r"\s+")
        if "#" not in between and (match := re.search(pattern, between)):
            before = len(between[: match.start()].encode())
            self._add(operator, start + before, start + before + len(match[0].encode()), new)

    # --- what is left out

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [default for default in [*node.args.defaults, *node.args.kw_defaults] if default is not None]
        self._enter(node.name, [*defaults, *node.body])

    def _enter(self, name: str, parts: Sequence[ast.AST]) -> None:
        self.functions.append(name)
        for part in parts:
            self.visit(part)
        self.functions.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not is_budget(node, self.functions):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not is_budget(node, self.functions):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts in braces have no positions of their own in Python 3.11."""

    def visit_Raise(self, node: ast.Raise) -> None:
        # A bare NotImplementedError marks a method that nothing calls.
        is_abstract = isinstance(node.exc, ast.Name) and node.exc.id == "NotImplementedError"
        if self.functions and not is_abstract:
            self._replace("dropped statement", node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """What holds in a correct program may as well not be checked."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg in ERROR_BOUNDS:
            self._replace("constant", node.value, "0")
        elif node.arg not in SKIPPED_KEYWORDS:
            self.generic_visit(node)

    # --- operators

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right, op in zip(operands, operands[1:], node.ops, strict=False):
            old, new = COMPARISONS[type(op)]
            if isinstance(op, EDGES) and not self._meets_edge(left, right):
                new = NEGATED[old]
            self._swap_between("comparison", left, right, old, new)
            if is_budget_name(left) or is_budget_name(right):
                self.limited |= {id(part) for side in (left, right) for part in ast.walk(side)}
        self.generic_visit(node)

    def _meets_edge(self, *sides: ast.expr) -> bool:
        """Whether one side of a comparison is 0, 1 or -1, or an integer that is no literal, and none is a budget."""
        if any(is_budget_name(side) for side in sides):
            return False
        literals = [isinstance(side, ast.Constant | ast.UnaryOp) for side in sides]
        return any(
            ast.unparse(side).lstrip("-") in ("0", "1", "0.0", "1.0") if literal else is_integer(side, self.integers)
            for side, literal in zip(sides, literals, strict=True)
        )

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(isinstance(x, ast.JoinedStr | ast.List | ast.Tuple | ast.Set) for x in (node.left, node.right))
        is_text |= any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in (node.left, node.right))
        if type(node.op) in SIGNS and not is_text:
            self._swap_between("sign", node.left, node.right, *SIGNS[type(node.op)])
            self._replace("dropped term", node, self._text(node.left))
            if not isinstance(node.op, ast.Div | ast.Sub):
                self._replace("dropped term", node, self._text(node.right))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self._replace("sign", node, self._text(node.operand))
        elif isinstance(node.op, ast.Not):
            self._replace("condition", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " and " if isinstance(node.op, ast.And) else " or "
        for k in range(len(node.values)):
            rest = [self._text(value) for i, value in enumerate(node.values) if i != k]
            self._replace("condition", node, f"({word.join(rest)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            is_round = node.value and node.value % 10 == 0
            self._replace("constant", node, str(node.value // 10 if is_round else node.value + 1))
        elif isinstance(node.value, float):
            self._replace("constant", node, repr(scaled(node.value)))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "range" and not node.keywords and len(node.args) < 3:
            stop = node.args[-1]
            is_effort = is_budget_name(stop) or (isinstance(stop, ast.Constant) and stop.value % 10 == 0)
            if not isinstance(stop, ast.Starred) and not is_effort:
                self._replace("off by one", stop, f"{self._text(stop)} - 1")
        if isinstance(node.func, ast.Name) and node.func.id == "len" and id(node) not in self.limited:
            self._replace("off by one", node, f"{self._text(node)} - 1")
            self._replace("off by one", node, f"{self._text(node)} + 1")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            node.args = [argument for argument in node.args if ast.unparse(argument) != "-1"]
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for end in (node.lower, node.upper):
            if end is not None and not is_budget_name(end):
                self._replace("off by one", end, f"{self._text(end)} + 1")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._replace("condition", node.test, f"(not {self._text(node.test)})")
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replace("condition", node, self._text(node.body))
        self._replace("condition", node, self._text(node.orelse))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._replace("condition", condition, "True")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self.functions:
            self._replace("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("dropped statement", node, "break")


def stale_entries(root: Path) -> Iterator[str]:
    """Yield the entries of `EQUIVALENT` that are no mutation of the program any more."""
    for file, lines in EQUIVALENT.items():
        found = Finder((root / file).read_bytes(), file)
        found.visit(ast.parse(found.source))
        changed = {changed_line(found.source, mutation) for mutation in found.mutations}
        yield from (f"{file}: {line}" for line in lines if line not in changed)
