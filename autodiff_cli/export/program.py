"""Exported programs: a formula and its derivatives, first as graphs, then as straight lines of code.

`ExportProgram` has the graphs of the value and its derivatives. `SourceLayout` has them as lines of a language, with
names that the language allows. The signature, the comments and the results
around these lines are different in each language: see `languages`, `python` and `latex`.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from autodiff_cli.algebra.simplify import share, simplify
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph import tape as tapes
from autodiff_cli.graph.codegen import Fragment, straight_line_code
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Shape, constant, variable
from autodiff_cli.language.errors import ExpressionError, InputError, join_words
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.printer import to_text
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.ops.arithmetic import clip, max_, min_, not_, or_, where
from autodiff_cli.ops.structural import largest
from autodiff_cli.targets.translation import GraphWriter
from autodiff_cli.version import __version__

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula

T = TypeVar("T")

# --- Names

# Suffixes for accents, which plain letters cannot express.
_ACCENT_SUFFIXES = {
    "\u0302": "_hat", "\u0303": "_tilde", "\u0304": "_bar", "\u0307": "_dot", "\u0308": "_ddot", "\u20d7": "_vec",
}  # fmt: skip

_MAX_SUFFIX = 8  # characters that make a shortened name different from all others


@dataclass(frozen=True)
class NamingRules:
    """The rules of a language for names.

    Attributes:
        keywords: reserved words, and names of the library that the code uses.
        is_legal: whether a text is a name, apart from keywords.
        is_case_insensitive: whether the language does not distinguish upper and lower case.
        function_keywords: further names that the function cannot have, though its variables can.
        max_length: the number of characters that a name can have.
    """

    keywords: frozenset[str]
    is_legal: Callable[[str], bool]
    is_case_insensitive: bool = False
    function_keywords: frozenset[str] = frozenset()
    max_length: int | None = None

    def legalize(self, names: Iterable[str], reserved: Set[str]) -> dict[str, str]:
        """Return a legal name for each name, all different. A name that is legal already does not change.

        Args:
            names: the names of variables.
            reserved: names that the code uses otherwise.

        >>> rules = NamingRules(frozenset({"for"}), is_plain_name)
        >>> rules.legalize(["x", "for", "λ", "x₁", "x̂", "lambda"], {"x"})
        {'x': 'x_', 'for': 'for_', 'λ': 'lambda', 'x₁': 'x1', 'x̂': 'x_hat', 'lambda': 'lambda_'}
        >>> NamingRules(frozenset(), is_plain_name, max_length=12).legalize(["twelve_chars", "thirteen_char"], set())
        {'twelve_chars': 'twelve_chars', 'thirteen_char': 'thir_'}
        """
        used = {self.fold_case(name) for name in reserved | self.keywords}
        legal_names: dict[str, str] = {}
        for name in names:
            stem = name if self._is_name(name) else transliterate(name)
            short = stem if self.max_length is None else stem[: self.max_length - _MAX_SUFFIX]
            candidates = chain([stem, f"{short}_"], (f"{short}_{k}" for k in count(2)))
            legal_names[name] = legal = next(
                text for text in candidates if self.fold_case(text) not in used and self._fits(text)
            )
            used.add(self.fold_case(legal))
        return legal_names

    def allows(self, name: str) -> bool:
        """Whether a text is a legal name."""
        keywords = self.keywords | self.function_keywords
        return self._is_name(name) and self.fold_case(name) not in map(self.fold_case, keywords)

    def _is_name(self, text: str) -> bool:
        return self.is_legal(text) and self._fits(text)

    def _fits(self, text: str) -> bool:
        return self.max_length is None or len(text) <= self.max_length

    def fresh_names(self, reserved: Set[str]) -> Iterator[str]:
        """Yield names for intermediate results, `t1`, `t2` and so on, without reserved names."""
        used = {self.fold_case(name) for name in reserved | self.keywords}
        return (name for name in (f"t{k}" for k in count(1)) if name not in used)

    def fold_case(self, name: str) -> str:
        """Return a name in lower case if the language does not distinguish the cases."""
        return name.lower() if self.is_case_insensitive else name


def indexed_element(variable: ExportVariable, name: str, k: int) -> str:
    """Return the expression of the k-th element of a variable, in nested lists indexed from 0."""
    return name + variable.element_index(k).replace(", ", "][")


def is_plain_name(name: str) -> bool:
    """Whether a text has only ASCII letters, digits and underscores, and begins with a letter."""
    return name.isascii() and name.isidentifier() and not name.startswith("_")


def transliterate(name: str) -> str:
    """Return a name in ASCII letters.

    >>> [transliterate(name) for name in ("λ", "Δt", "θ_0", "x₁", "x̂", "né", "ł", "ж", "שם", "温", "[°C]")]
    ['lambda', 'Deltat', 'theta_0', 'x1', 'x_hat', 'ne', 'l', 'zhe', 'shinmem', 'u6e29', 'degree_sign_C']
    """
    letters = "".join(map(_transliterate_character, unicodedata.normalize("NFD", name)))
    words = "_".join(filter(None, letters.split("_")))
    return words if words[:1].isalpha() else f"v{words}"


def _transliterate_character(character: str) -> str:
    if character.isascii():
        return character if character.isalnum() else "_"
    if unicodedata.combining(character):
        return _ACCENT_SUFFIXES.get(character, "")
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    described = unicodedata.name(character, f"u{ord(character):x}")
    if not re.search("LETTER|SYLLABLE|IDEOGRAPH|HANGUL", described):
        return f"_{described.lower().replace(' ', '_').replace('-', '_')}_"
    letter = described.partition(" WITH ")[0].rpartition(" ")[2].replace("LAMDA", "LAMBDA")
    letter = letter.lower() if letter.isalnum() else f"u{ord(character):x}"  # an ideograph, for example
    return letter.capitalize() if "CAPITAL LETTER" in described else letter


# --- Graphs

MAX_OPERATIONS = 200_000  # operations of the value and its derivatives; compilers take minutes for more
MAX_HESSIAN_SIZE = 100  # variables of a Hessian, elements of arrays counted; the code grows with the square


class ExportError(InputError):
    """Error for a formula or an option that the language cannot express, or for a program that would be too large."""


@dataclass(frozen=True)
class ExportVariable:
    """A variable of a program.

    Attributes:
        name: its name in the formula.
        shape: its shape; () for a number.
        leaves: its input leaves: one, or one for each element if arrays are unrolled.
    """

    name: str
    shape: Shape
    leaves: tuple[Node, ...]

    @property
    def is_single_leaf(self) -> bool:
        """Whether the variable is one leaf, a number or a whole array."""
        return self.leaves[0].text == self.name

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self.leaves)

    def element_index(self, k: int) -> str:
        """Return the index in the name of the k-th leaf: `[0, 1]`, or nothing for a variable that is one leaf."""
        return self.leaves[k].text.removeprefix(self.name)


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export.

    Attributes:
        name: the name of the function.
        wrt: the variables to differentiate by; None for all.
        gradient: whether to write derivatives.
        hessian: whether to write second derivatives.
        note: a description of the value, for a comment.
    """

    name: str = "f"
    wrt: tuple[str, ...] | None = None
    gradient: bool = True
    hessian: bool = False
    note: str = ""


# Rewrites graphs, given the shapes of leaves that are arrays.
GraphPass = Callable[[Sequence[Node], Mapping[str, Shape]], list[Node]]


def simplify_for_code(roots: Sequence[Node], _: Mapping[str, Shape]) -> list[Node]:
    """Simplify graphs.

    Constant parts that are 0, infinite or undefined, or are computed from such numbers, become constants: compilers
    reject `1/0`, `log(0)` and `atan2(0, 0)`, also within the definition of `acot(0)`.
    """
    return fold_constants(simplify(roots), is_singular)


def is_singular(number: float) -> bool:
    """Whether a number is 0, infinite or nan: operations on it may be refused by compilers."""
    return number == 0 or not math.isfinite(number)


def simplify_for_framework(
    target: Target, folds: Callable[[float], bool], roots: Sequence[Node], shapes: Mapping[str, Shape]
) -> list[Node]:
    """Simplify graphs for a framework that differentiates them; see `guard_branches`.

    Operations that it lacks are expanded first, so that no branch is overlooked.

    Args:
        target: the framework.
        folds: whether constant parts with some value become constants.
    """

    def expand(node: Node, inputs: tuple[Node, ...]) -> Node:
        op = node.op
        if op is None or op.expansion is None or op.name in target.notations or op.name in target.definitions:
            return tapes.with_inputs(node, inputs)
        known = {each: each for each in inputs}
        return tapes.infer(
            op.expansion(*inputs), known, lambda each: expand(each, tuple(known[i] for i in each.inputs))
        )

    simplified = fold_constants(simplify(roots), folds)
    expanded = tapes.rebuild(simplified, expand)
    return guard_branches([expanded[root] for root in simplified], shapes)


# Operations with finite derivatives at all finite numbers.
_SMOOTH_OPS = """
    add sub mul neg square abs sin cos tanh atan erf sigmoid silu softplus logsigmoid gelu relu leaky_relu
    stack index matmul dot outer sum mean transpose concat
"""
_CHOICES = "where max min clip relu relu6 hardtanh largest smallest"
# Numbers that inputs of branches get where these are not taken: the first, plus the second for each further input.
_GUARDS = [
    (start, step) for step in (0.0, 1.0, -1.0) for start in (1.0, 0.5, 2.0, -1.0, 0.0, 3.0, -0.5, 10.0, 0.1, -2.0)
]


def guard_branches(roots: Sequence[Node], shapes: Mapping[str, Shape]) -> list[Node]:
    """Make the derivatives of branches that are not taken finite, for frameworks that multiply them by 0.

    The selection is written twice, as JAX's documentation recommends: around the branch, and around its inputs, which
    get a number in the domain of the branch where it is not taken.

    >>> from autodiff_cli.language.program import read
    >>> to_text(guard_branches([read("where(x > 0, sqrt(x), 5*x)").output], {})[0], share=False)
    'where(x > 0, sqrt(where(x > 0, x, 1)), 5*x)'
    """

    def guard(node: Node, inputs: tuple[Node, ...]) -> Node:
        graph = tapes.with_inputs(node, inputs)
        is_guarded = node.op is not None and node.op.name in _CHOICES.split() and not all(map(_is_smooth, inputs))
        return _guard_choice(graph, shapes) if is_guarded else graph

    guarded = tapes.rebuild(roots, guard)
    return [guarded[root] for root in roots]


def _guard_choice(node: Node, shapes: Mapping[str, Shape]) -> Node:
    """Return a choice whose branches have finite derivatives where they are not taken."""
    match node.operation.name, node.inputs:
        case "where", (condition, first, second):
            return where(condition, _guard(first, condition, shapes), _guard(second, not_(condition), shapes))
        case "relu", (x,):
            return where(x <= 0, 0, _guard(x, not_(x <= 0), shapes))
        case "clip", (x, low, high):
            is_below, is_above = x < low, high < x
            inside = clip(_guard(x, not_(or_(is_below, is_above)), shapes), low, high)
            (least,) = fold_constants([min_(low, high)], lambda _: True)
            return where(is_above, high, where(is_below, least, inside))
        case "max" | "min", (x, y):
            # The conditions under which one branch is not taken.
            first, second = (x < y, y < x) if node.operation is max_ else (y < x, x < y)
            x, y = _guard(x, not_(first), shapes), _guard(y, not_(second), shapes)
            return where(first, y, where(second, x, node.operation(x, y)))
        case "largest" | "smallest", (x,):
            is_taken = not_(x < node if node.operation is largest else node < x)
            none = -constant("inf") if node.operation is largest else constant("inf")
            return node.operation(where(is_taken, _guard(x, is_taken, shapes), none))
        case _, (x,) if node.operation.expansion is not None:
            return _guard_choice(node.operation.expansion(x), shapes)
        case _, (x, y, *rest):
            return _guard_choice(node.operation(_guard_choice(node.operation(x, y), shapes), *rest), shapes)
    return node


def _guard(branch: Node, condition: Node, shapes: Mapping[str, Shape]) -> Node:
    """Return a branch with other numbers as its inputs where a condition is false, if derivatives may be infinite."""
    if _is_smooth(branch):
        return branch
    inference = tapes.ShapeInference(shapes)
    # A condition for each element cannot select elements of arrays that are combined below.
    is_scalar = not inference.infer(condition)
    ends: list[Node] = []
    pending = [branch]
    inside: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in inside or node.is_constant:
            continue
        inside.add(node)
        if node.op is None or (node.op.is_structural and not is_scalar):
            ends.append(node)
        else:
            pending += node.inputs
    leaves = [variable(f"x{k}") for k in range(len(ends))]
    (probe,) = tapes.substitute([branch], dict(zip(ends, leaves, strict=True)))
    sizes = {leaf.text: inference.infer(end) if is_scalar else () for leaf, end in zip(leaves, ends, strict=True)}
    for start, step in _GUARDS:
        numbers = [start + step * k for k in range(len(ends))]
        if _is_regular(probe, leaves, sizes, numbers):
            guards = {end: where(condition, end, constant(x)) for end, x in zip(ends, numbers, strict=True)}
            return tapes.substitute([branch], guards)[0]
    return branch


def _is_smooth(graph: Node) -> bool:
    """Whether all derivatives of a graph are finite at all finite numbers."""
    return all(
        node.op is None
        or node.op.name in _SMOOTH_OPS.split()
        or (node.op.name == "pow" and node.inputs[1].text in ("2", "3", "4") and node.inputs[1].is_constant)
        for node in tapes.topological_order([graph])
    )


def _is_regular(
    graph: Node, leaves: Sequence[Node], sizes: Mapping[str, Shape | None], numbers: Sequence[float]
) -> bool:
    """Whether a graph and its derivatives are finite where each leaf, or all its elements, is a number."""
    shapes = {name: shape for name, shape in sizes.items() if shape}
    tape = tapes.Tape([graph, *gradient_nodes(graph, leaves, shapes)])
    point = {leaf.text: x for leaf, x in zip(leaves, numbers, strict=True)}
    if not shapes:
        values = forward(tape, FLOATS, point)
        return all(math.isfinite(values[i]) for i in tape.outputs)
    import numpy as np

    from autodiff_cli.numbers.arrays import ARRAYS

    with np.errstate(all="ignore"):
        arrays = forward(tape, ARRAYS, {name: np.full((*shapes.get(name, ()), 1), x) for name, x in point.items()})
    return all(np.isfinite(arrays[i]).all() for i in tape.outputs)


def fold_constants(roots: Sequence[Node], predicate: Callable[[float], bool]) -> list[Node]:
    """Replace constant operations by their values, where the value or an input satisfies a predicate.

    Operations that are defined by others are always replaced: Python's numbers, unlike arrays, have complex powers. So
    are powers of negative numbers, which Fortran refuses to compute.

    >>> from autodiff_cli.language.program import read
    >>> to_text(fold_constants([read("x + 1/0 + sqrt(2)").output], math.isinf)[0])
    'x + inf + sqrt(2)'
    """
    values = FLOATS.constant_values(roots)
    folded = {
        node: constant(value)
        for node, value in values.items()
        if node.op is not None
        and (
            node.op.expansion is not None
            or (node.op.name == "pow" and values[node.inputs[0]] < 0)
            or any(predicate(values[each]) for each in (node, *node.inputs))
        )
    }
    return tapes.substitute(roots, folded)


class ExportProgram:
    """A value and its derivatives, as graphs.

    Args:
        formula: the formula.
        options: which derivatives to build.
        has_arrays: whether the language has arrays; else they are unrolled. For second derivatives they always are.
        graph_pass: a pass over all graphs together.

    Attributes:
        options: the options.
        text: the formula, for a comment.
        variables: the variables, in order of first appearance.
        shape: the shape of the value if it is an unrolled array; else ().
        wrt: the variables of the derivatives.
        arrays: the shapes of the variables that are arrays in the program.
        roots: the graphs of all results in one list; see `split_results`.
        intermediates: the names of named intermediates, by node.

    Raises:
        ExpressionError: for a name in `wrt` that is not a variable, an array whose shape is not declared, and an output
            with derivatives that is an array, and for too many operations on the elements of arrays.
        ExportError: for more operations than the limit.
    """

    def __init__(
        self,
        formula: Formula,
        options: ExportOptions,
        has_arrays: bool = False,
        graph_pass: GraphPass = simplify_for_code,
    ) -> None:
        for unknown in sorted(formula.arrays):
            suggestion = formula.with_declarations({unknown: formula.example_shapes().get(unknown, (3,))})
            raise ExpressionError(f"declare the shape of `{unknown}`: the code depends on it", suggestion=suggestion)
        names = _differentiation_names(formula, options)
        if options.gradient:
            formula.check_scalar_output(formula.shapes)
        with formula.locate_errors():
            output, *named = share([formula.output, *formula.names])
            leaves = [formula.leaves[name] for name in names]
            slopes = gradient_nodes(output, leaves, formula.shapes) if leaves else []
        graphs = [output, *slopes, *named]
        variables = {
            name: ExportVariable(name, formula.shapes.get(name, ()), (leaf,)) for name, leaf in formula.leaves.items()
        }
        parts: list[tuple[Node, ...]] = [(graph,) for graph in graphs]
        # Arrays that no graph uses have their places in the arguments, too.
        has_any = bool(formula.shapes) or tapes.has_array_operations(tapes.topological_order(graphs))
        is_unrolled = has_any and (options.hessian or not has_arrays)
        if is_unrolled:
            variables, parts = _unroll_arrays(variables, graphs)
        all_slopes = [*chain(*parts[1 : 1 + len(slopes)])]
        self.options, self.text = options, to_text(formula.output, formula.names, shapes=formula.shapes)
        self.variables = tuple(variables.values())
        self.shape: Shape = (tapes.ShapeInference(formula.shapes).infer(output) or ()) if is_unrolled else ()
        self.wrt = tuple(variables[name] for name in names)
        hessian = _hessian(self.wrt, all_slopes) if options.hessian else []
        roots = [*parts[0], *all_slopes, *chain(*hessian)]
        named_parts = zip(parts[1 + len(slopes) :], formula.names.values(), strict=True)
        intermediates = {part[0]: name for part, name in named_parts if len(part) == 1}
        self.arrays = {each.name: each.shape for each in self.variables if each.shape and each.is_single_leaf}
        graphs = graph_pass([*roots, *intermediates], self.arrays)
        self.roots = graphs[: len(roots)]
        needed = {*tapes.topological_order(self.roots)}
        if len(needed) > MAX_OPERATIONS:
            raise ExportError(f"the code would have more than {MAX_OPERATIONS:,} operations")
        named_graphs = zip(graphs[len(roots) :], intermediates.values(), strict=True)
        self.intermediates = {node: name for node, name in named_graphs if node in needed}

    @property
    def slope_count(self) -> int:
        """The number of first derivatives: one for each leaf of the variables `wrt`."""
        return sum(variable.size for variable in self.wrt)

    def split_results(self, results: Sequence[T]) -> tuple[Sequence[T], Sequence[T], list[Sequence[T]]]:
        """Return the parts of a list of all results: the elements of the value, the derivatives, and the rows of second
        derivatives."""
        start, size = math.prod(self.shape), self.slope_count
        stop = start + size
        rows = [results[k : k + size] for k in range(stop, len(results), max(size, 1))]
        return results[:start], results[start:stop], rows

    @property
    def origin(self) -> str:
        """A sentence on what the function computes, and the program that wrote it."""
        names = [variable.name for variable in self.wrt]
        derivatives = f", and its derivatives with respect to {join_words(names)}" if names else ""
        second = "; also the second derivatives" if self.options.hessian else ""
        description = f"The value{self.options.note and f': {self.options.note}'}{derivatives}{second}."
        return f"{description} Written by autodiff {__version__}."


def _differentiation_names(formula: Formula, options: ExportOptions) -> list[str]:
    """Return the names of the variables to differentiate by."""
    names = [*formula.variables] if options.wrt is None else [*map(canonical_name, options.wrt)]
    formula.check_names(names)
    return list(dict.fromkeys(names)) if options.gradient else []


def _unroll_arrays(
    variables: Mapping[str, ExportVariable], graphs: Sequence[Node]
) -> tuple[dict[str, ExportVariable], list[tuple[Node, ...]]]:
    """Return variables and graphs with one leaf, and one graph, for each element of an array."""
    from autodiff_cli.autodiff.unrolling import element_leaves, unroll

    places = {variable.leaves[0]: element_leaves(variable.name, variable.shape) for variable in variables.values()}
    parts = [tuple(part.reshape(-1)) for part in unroll(graphs, places, MAX_OPERATIONS, is_exact=False)]
    scalars = {
        variable.name: ExportVariable(variable.name, variable.shape, tuple(places[variable.leaves[0]].reshape(-1)))
        for variable in variables.values()
    }
    return scalars, parts


def _hessian(wrt: Sequence[ExportVariable], slopes: Sequence[Node]) -> list[list[Node]]:
    """Return the matrix of second derivatives. It is symmetric, so only its upper triangle is computed."""
    leaves = [leaf for variable in wrt for leaf in variable.leaves]
    if len(leaves) > MAX_HESSIAN_SIZE:
        raise ExportError(
            f"a Hessian of {len(leaves)} numbers has {len(leaves) ** 2:,} entries; code can be exported for at most "
            f"{MAX_HESSIAN_SIZE} numbers: choose some with --wrt"
        )
    if len(leaves) * len(tapes.topological_order(slopes)) > MAX_OPERATIONS:
        raise ExportError(
            f"the Hessian of {len(leaves)} numbers has more than {MAX_OPERATIONS:,} operations: choose fewer with --wrt"
        )
    rows: list[list[Node]] = []
    for k, slope in enumerate(slopes):
        rows.append([*(rows[j][k] for j in range(k)), *gradient_nodes(share([slope])[0], leaves[k:])])
    return rows


# --- Lines of code

VALUE_NAME = "value"  # the name of the value in the code


# Lengths in the exported source, in characters.
_EXPRESSION_WIDTH = 72  # a longer expression becomes several lines with intermediate results
LINE_WIDTH = 100  # a longer statement is wrapped
_COMMENT_WIDTH = 92  # a longer comment is wrapped; with its marks it is as wide as the code
_FORMULA_LENGTH = 600  # a longer formula loses its middle in the comment

# Writes the k-th number of a variable, given its legal name.
ElementNotation = Callable[[ExportVariable, str, int], str]
# Expressions, or dictionaries of expressions, by key.
Entries: TypeAlias = Mapping[str, str] | Mapping[str, Mapping[str, str]]


class SourceLayout:
    """A program written as lines of a language.

    Args:
        program: the program.
        library: the library of the language.
        rules: the names that the language allows.
        write_element: writes an element of a variable.
        reserved: names that the function uses itself.

    Attributes:
        program: the program.
        library: the functions that the lines call.
        names: the legal names of variables, by their names in the formula.
        lines: the lines of the function's body: a name and the expression that it is assigned.
        results: the expressions of all numbers that the function returns; see `ExportProgram.split_results`.

    Raises:
        ExportError: if the code calls another function with the name of the program.
        UnsupportedOperationError: if the language lacks an operation.
    """

    def __init__(
        self,
        program: ExportProgram,
        library: Library,
        rules: NamingRules,
        write_element: ElementNotation,
        reserved: frozenset[str],
    ) -> None:
        writer = GraphWriter(library)
        graphs = fold_constants(writer.lower([*program.roots, *program.intermediates]), is_singular)
        roots, intermediates = graphs[: len(program.roots)], graphs[len(program.roots) :]
        any_name = {leaf: Fragment("x") for variable in program.variables for leaf in variable.leaves}
        draft = straight_line_code(roots, any_name, writer.write, _EXPRESSION_WIDTH)
        name = program.options.name
        reserved_names = reserved | {VALUE_NAME, name} | set(library.texts) | library.used_words
        if {name, rules.fold_case(name)} & library.texts.keys():
            raise ExportError(f"the code needs another function called `{name}`: choose another name with --name")
        legal = rules.legalize([*(variable.name for variable in program.variables)], reserved_names)
        intermediate_names = rules.legalize(program.intermediates.values(), reserved_names | {*legal.values()})
        line_names = {
            node: intermediate_names[name]
            for node, name in zip(intermediates, program.intermediates.values(), strict=True)
            if node.op is not None
        }
        if program.options.gradient and roots[0].op is not None and not draft.results[0].is_condition:
            line_names.setdefault(roots[0], VALUE_NAME)
        leaves = {
            leaf: Fragment(write_element(variable, legal[variable.name], k))
            for variable in program.variables
            for k, leaf in enumerate(variable.leaves)
        }
        fresh = rules.fresh_names(reserved_names | {*legal.values(), *intermediate_names.values()})
        lines = straight_line_code(roots, leaves, writer.write, _EXPRESSION_WIDTH, line_names, fresh)
        self.program, self.library, self.names, self.lines = program, library, legal, lines.lines
        self.results = [library.target.coerce(part).text for part in lines.results]

    @property
    def used_variables(self) -> list[ExportVariable]:
        """The variables that the code reads."""
        texts = (*(part.text for _, part in self.lines), *self.results)
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        return [variable for variable in self.program.variables if self.names[variable.name] in words]

    @property
    def used_slices(self) -> list[tuple[str, ExportVariable, int]]:
        """The variables that the code reads, each after its legal name, and where it begins in an array of all."""
        variables, used = self.program.variables, self.used_variables
        starts = accumulate((variable.size for variable in variables), initial=0)
        return [(self.names[each.name], each, k) for each, k in zip(variables, starts, strict=False) if each in used]

    @property
    def value(self) -> str:
        """The expression of the value; nested lists for an unrolled array."""
        return nested_lists(self.program.split_results(self.results)[0], self.program.shape)

    def derivatives(self, suffix: str = "") -> dict[str, Entries]:
        """Return the expressions of the derivatives, each with a suffix, by the names of the results.

        Those of `gradient` are by variable; nested lists for an unrolled array. Those of `hessian` are by two
        variables; for arrays they are nested lists, of the first variable's shape followed by the second's.
        """
        _, slopes, hessian = self.program.split_results([text + suffix for text in self.results])
        tables: dict[str, Entries] = {}
        if self.program.options.gradient:
            tables["gradient"] = self._by_variable([[slope] for slope in slopes], ())
        if self.program.options.hessian:
            rows = iter(hessian)
            tables["hessian"] = {
                first.name: self._by_variable([*zip(*islice(rows, first.size), strict=True)], first.shape)
                for first in self.program.wrt
            }
        return tables

    def _by_variable(self, columns: Iterable[Sequence[str]], shape: Shape) -> dict[str, str]:
        """Return the columns of a matrix by variable, as lists nested by the shape of a column, then the variable's.

        Args:
            columns: for each leaf of the variables, the expressions of an array.
            shape: the shape of this array.
        """
        remaining, arrays = iter(columns), {}
        for each in self.program.wrt:
            block = zip(*islice(remaining, each.size), strict=True)
            arrays[each.name] = nested_lists([*chain(*block)], (*shape, *(() if each.is_single_leaf else each.shape)))
        return arrays

    def comment(self, origin: str) -> Iterator[str]:
        """Yield a comment on a function of the variables: the formula, its origin, and names that the code changed."""
        parts = [f"{name} is {legal}" for name, legal in self.names.items() if legal != name]
        return self._comment(origin, f"Here {join_words(parts)}." if parts else "")

    def array_comment(self) -> Iterator[str]:
        """Yield a comment on a function of arrays: the formula, its origin, and the contents of each array."""
        program = self.program
        inputs = array_description("x", program.variables, self.names)
        value = f"In value: {tapes.format_shape(program.shape)}, row by row." if len(program.shape) > 1 else ""
        is_partial = program.options.gradient and program.wrt != program.variables
        slopes = array_description("gradient", program.wrt, self.names) if is_partial else ""
        return self._comment(program.origin, inputs, value, slopes)

    def _comment(self, *sentences: str) -> Iterator[str]:
        yield from comment_lines(self.program.text)
        yield ""
        for sentence in sentences:
            yield from comment_lines(sentence)


def nested_lists(texts: Sequence[str], shape: Sequence[int]) -> str:
    """Return the elements of an array, in row-major order, as nested lists.

    >>> nested_lists(["a", "b", "c", "d"], (2, 2)), nested_lists(["a"], ())
    ('[[a, b], [c, d]]', 'a')
    """
    for length in reversed(shape):
        texts = [f"[{', '.join(texts[k : k + length])}]" for k in range(0, len(texts), length)]
    return texts[0]


def indent_lines(lines: Iterable[str], indent: str) -> str:
    """Return indented lines as one text."""
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def wrap_statement(line: str, indent: str, width: int = LINE_WIDTH) -> list[str]:
    """Wrap a statement at blanks; `indent` goes before all lines but the first."""
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def comment_lines(text: str) -> list[str]:
    """Return a text as lines of a comment, without characters that would end the comment or have a meaning in it."""
    shown = re.sub(r"[^\S ]+|\\", " ", text)
    if len(shown) > _FORMULA_LENGTH:
        shown = f"{shown[: _FORMULA_LENGTH // 2]} … {shown[-_FORMULA_LENGTH // 2 :]}"
    return textwrap.wrap(shown.replace("??", "? ?"), _COMMENT_WIDTH, break_on_hyphens=False)


def array_description(array: str, variables: Sequence[ExportVariable], names: Mapping[str, str]) -> str:
    """Return a sentence on the variables in an array of numbers, with their legal names and their shapes."""
    parts = []
    for each in variables:
        legal = names[each.name]
        note = "" if legal == each.name else f" (here {legal})"
        shape = f", {tapes.format_shape(each.shape)}, row by row" if each.shape else ""
        parts.append(f"{each.name}{note}{shape}")
    return f"In {array}, in this order: {'; '.join(parts)}." if parts else f"The array {array} is empty."
