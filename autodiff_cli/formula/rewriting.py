"""Rewriting of formulas into numerically stable forms, which lose fewer digits to rounding or do not overflow.

A rule of the table `rewritings.toml` is a pattern and a replacement, which are equal where the pattern has a value,
except at isolated points. Both are formulas over wildcards, which stand for any nodes. A rule with a `difference`
applies only if that difference simplifies to one term, as `(x + 1) - x` does; in the replacement it is `d`. Rules are
tried in their order, and in a formula from the outside to the inside.

Sums and products are matched as people read them, in any order and through brackets: the pattern `1 - cos(x)` is found
in `y - cos(a*b) + 1`, where `y` remains.

Sources: Hamming, *Numerical Methods for Scientists and Engineers* (1987), chapter 3; Kahan, "How futile are mindless
assessments of roundoff" (2006); Abramowitz and Stegun (1964), 4.3.31-4.3.38 and 4.6; Panchekha et al., "Automatically
improving accuracy for floating point expressions" (PLDI 2015), for the examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.algebra.exact import exact_number
from autodiff_cli.algebra.readable import readable
from autodiff_cli.algebra.simplify import TEXT_RULES, NodeTable, Row, Sign, rewrite_by, sign_of
from autodiff_cli.graph.node import ONE, Node, Op, constant, is_literal, variable
from autodiff_cli.graph.tape import has_array_operations, substitute, topological_order
from autodiff_cli.language.program import read
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub, where
from autodiff_cli.ops.functions import exp, sqrt
from autodiff_cli.system import read_tables

# --- Rules

# The leaves of rules: wildcards, and `d`, which is the simplified difference of a rule.
_LEAVES = {name: variable(name) for name in "abcdknpqrxy"}
a, b, c, d = (_LEAVES[name] for name in "abcd")
_WILDCARDS = frozenset(_LEAVES.values()) - {d}
_OPTIONAL_FACTORS = frozenset(_LEAVES[name] for name in "kpqr")  # such a factor is 1 if it is absent


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A rule that replaces a formula by a more accurate one.

    Attributes:
        pattern: the formula that loses digits, or overflows.
        replacement: an equal formula of the same wildcards, and of `d` if there is a difference.
        domain: an interval of values of the wildcards where both formulas have a value; tests compare them there.
        difference: a formula that must simplify to one term; None if the rule always applies.
        for_derivatives: whether the derivative is more accurate, and the value may be less accurate.
        one_sign_only: whether the rule does not apply to the negated pattern, for which there is another rule.
    """

    pattern: Node
    replacement: Node
    domain: Sequence[float] = (-3.0, 3.0)
    difference: Node | None = None
    for_derivatives: bool = False
    one_sign_only: bool = False


def _read_formula(text: str) -> Node:
    """Return a formula over the wildcards, given its text."""
    program = read(text)
    return substitute([program.output], {leaf: _LEAVES[name] for name, leaf in program.leaves.items()})[0]


def _read_rule(row: Mapping[str, Any]) -> RewriteRule:
    """Return the rule of a row of the table."""
    fields: dict[str, Any] = {name: _read_formula(x) if isinstance(x, str) else x for name, x in row.items()}
    return RewriteRule(**fields)


REWRITE_RULES = tuple(_read_rule(row) for rows in read_tables(__file__, "rewritings.toml").values() for row in rows)


# --- Pattern matching


# Limits of the search for a stable form, so that it takes milliseconds.
_MAX_NODES = 500  # larger formulas are not searched
_MAX_ROUNDS = 30  # rewrites of one formula
_MAX_OPERANDS = 12  # sums and products with more operands are not matched; the search is exponential in them

Bindings: TypeAlias = Mapping[Node, Node]  # the node that each wildcard stands for


class Operand(NamedTuple):
    """A term of a sum or a factor of a product.

    Attributes:
        node: the term or factor.
        is_inverse: whether the term is subtracted, or the factor divides.
    """

    node: Node
    is_inverse: bool


class PatternMatch(NamedTuple):
    """An occurrence of a pattern.

    Attributes:
        bindings: the node that each wildcard stands for.
        remainder: the terms or factors of the sum or product that are not part of the pattern.
        is_negated: whether the terms are the negated pattern, as `cos(x) - 1` is for `1 - cos(x)`.
    """

    bindings: Bindings
    remainder: Sequence[Operand]
    is_negated: bool


class Matcher:
    """Finds the occurrences of a pattern at a node.

    Args:
        pattern: a formula of wildcards, simplified in the same way as the graphs that are searched.
        table: the table of the graphs that are searched.

    >>> u, v = variable("u"), variable("v")
    >>> [(bindings, remainder, _)] = Matcher(1 - exp(a), NodeTable()).matches(u - exp(v) + 1)
    >>> bindings[a], remainder
    (<input v>, [Operand(node=<input u>, is_inverse=False)])
    """

    def __init__(self, pattern: Node, table: NodeTable) -> None:
        self._pattern = pattern
        self._table = table
        uses = Counter(child for node in topological_order([pattern]) for child in node.inputs)
        self._single_use = {wildcard for wildcard in _WILDCARDS if uses[wildcard] == 1}

    def matches(self, node: Node) -> Iterator[PatternMatch]:
        """Yield all ways in which a node, or some of its terms or factors, match the pattern."""
        split = _splitter_of(self._pattern)
        if split is None:
            yield from (PatternMatch(bindings, (), False) for bindings in self._match(self._pattern, node, {}))
            return
        patterns, parts = _wildcards_last(split(self._pattern)), split(node)
        if len(parts) > _MAX_OPERANDS:
            return
        for is_negated in (False, True) if split is terms_of else (False,):
            for bindings, remainder in self._match_operands(patterns, _inverted(parts, is_negated), {}, split):
                yield PatternMatch(bindings, _inverted(remainder, is_negated), is_negated)

    def _match(self, pattern: Node, node: Node, bindings: Bindings) -> Iterator[Bindings]:
        """Yield all ways in which a whole node matches a pattern, given the bindings of some wildcards."""
        split = _splitter_of(pattern)
        if pattern in _WILDCARDS:
            if pattern not in bindings:
                yield {**bindings, pattern: node}
            elif _is_equal(bindings[pattern], node):
                yield bindings
        elif pattern.op is None:
            if _is_equal(pattern, node):
                yield bindings
        elif split is not None:
            patterns, parts = _wildcards_last(split(pattern)), split(node)
            if len(parts) <= _MAX_OPERANDS:
                ways = self._match_operands(patterns, parts, bindings, split)
                yield from (bindings for bindings, remainder in ways if not remainder)
        elif pattern.op is node.op and len(pattern.inputs) == len(node.inputs):
            yield from self._match_all(pattern.inputs, node.inputs, bindings)

    def _match_all(self, patterns: Sequence[Node], nodes: Sequence[Node], bindings: Bindings) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for first in self._match(patterns[0], nodes[0], bindings):
            yield from self._match_all(patterns[1:], nodes[1:], first)

    def _match_operands(
        self, patterns: Sequence[Operand], parts: Sequence[Operand], bindings: Bindings, split: _Splitter
    ) -> Iterator[tuple[Bindings, Sequence[Operand]]]:
        """Yield all ways in which some of the operands match the patterns, with the operands that remain."""
        if not patterns:
            yield bindings, parts
            return
        (pattern, is_inverse), rest = patterns[0], patterns[1:]
        bound = split(bindings[pattern]) if pattern in bindings else ()
        if len(bound) > 1:  # the operands of a bound wildcard may be anywhere
            yield from self._match_operands([*_inverted(bound, is_inverse), *rest], parts, bindings, split)
            return
        for i, part in enumerate(parts):
            if part.is_inverse == is_inverse:
                others = [*parts[:i], *parts[i + 1 :]]
                for first in self._match(pattern, part.node, bindings):
                    yield from self._match_operands(rest, others, first, split)
        if pattern in _WILDCARDS:
            yield from self._match_rest(patterns, parts, bindings, split)

    def _match_rest(
        self, patterns: Sequence[Operand], parts: Sequence[Operand], bindings: Bindings, split: _Splitter
    ) -> Iterator[tuple[Bindings, Sequence[Operand]]]:
        """Yield all ways in which a wildcard stands for all remaining operands, or for an absent optional factor."""
        (wildcard, is_inverse), rest = patterns[0], patterns[1:]
        if not rest and parts and self._can_absorb(wildcard, is_inverse, parts, split):
            combined = (sum_of if split is terms_of else product_of)(self._table, _inverted(parts, is_inverse))
            yield from ((first, ()) for first in self._match(wildcard, combined, bindings))
        if wildcard in _OPTIONAL_FACTORS and split is factors_of:
            for first in self._match(wildcard, self._table.leaf(ONE), bindings):
                yield from self._match_operands(rest, parts, first, split)

    def _can_absorb(self, wildcard: Node, is_inverse: bool, parts: Sequence[Operand], split: _Splitter) -> bool:
        """Whether a wildcard may stand for these operands together.

        A wildcard in a denominator may not stand for 1/x. A wildcard may stand for a single term of the other sign only
        if the pattern uses it once; otherwise every pattern would also match with all signs reversed.
        """
        if split is factors_of:
            return not is_inverse or all(part.is_inverse for part in parts)
        return len(parts) > 1 or parts[0].is_inverse == is_inverse or wildcard in self._single_use


def _wildcards_last(patterns: Sequence[Operand]) -> list[Operand]:
    """Return operands with wildcards last: by then they may be bound, or can stand for the remainder."""
    return sorted(patterns, key=lambda part: part.node in _WILDCARDS)


def terms_of(node: Node) -> list[Operand]:
    """Return the terms of a sum; a node that is not a sum is its only term."""
    return _flatten(node, add, sub)


def factors_of(node: Node) -> list[Operand]:
    """Return the factors of a product; a minus sign is the factor -1."""
    return _flatten(node, mul, div)


_Splitter: TypeAlias = Callable[[Node], list[Operand]]
_MINUS_ONE = Operand(-ONE, False)


def _flatten(node: Node, join: Op, inverse: Op) -> list[Operand]:
    parts: list[Operand] = []
    stack = [Operand(node, False)]
    while stack and len(parts) <= _MAX_OPERANDS:
        node, is_inverse = stack.pop()
        if node.op is join or node.op is inverse:
            a, b = node.inputs
            stack += [Operand(b, is_inverse != (node.op is inverse)), Operand(a, is_inverse)]
        elif node.op is neg and join is add:
            stack.append(Operand(node.inputs[0], not is_inverse))
        elif node.op is neg and _splitter_of(node.inputs[0]) is factors_of:
            stack += [Operand(node.inputs[0], is_inverse), _MINUS_ONE]
        elif join is add or not is_literal(node, 1):
            parts.append(Operand(node, is_inverse))
    return parts


def _splitter_of(node: Node) -> _Splitter | None:
    """Return the function that splits a node into operands; None if it is neither a sum nor a product."""
    if node.op is add or node.op is sub:
        return terms_of
    return factors_of if node.op is mul or node.op is div else None


def _inverted(operands: Sequence[Operand], is_inverted: bool) -> Sequence[Operand]:
    """Return the inverses of operands, or the operands themselves."""
    return [Operand(node, not is_inverse) for node, is_inverse in operands] if is_inverted else operands


def sum_of(table: NodeTable, terms: Sequence[Operand]) -> Node:
    """Return the sum of terms, in their order.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.algebra.simplify import NodeTable, Rewrite
    >>> x, y = variable("x"), variable("y")
    >>> sum_of(NodeTable(), [Operand(x, False), Operand(y, True)])
    <sub of 2>
    """
    total, is_inverse = terms[0]
    total = table.apply(neg, total) if is_inverse else total
    for term, is_inverse in terms[1:]:
        total = table.apply(sub if is_inverse else add, total, term)
    return total


def product_of(table: NodeTable, factors: Sequence[Operand]) -> Node:
    """Return the product of factors as one quotient, in their order.

    >>> from autodiff_cli.graph.node import variable
    >>> x, y = variable("x"), variable("y")
    >>> product_of(NodeTable(TEXT_RULES), [Operand(x, False), Operand(y, True)])
    <div of 2>
    """
    above, below, is_negative = table.leaf(ONE), table.leaf(ONE), False
    for part in factors:
        if part == _MINUS_ONE:
            is_negative = not is_negative
        elif part.is_inverse:
            below = table.apply(mul, below, part.node)
        else:
            above = table.apply(mul, above, part.node)
    quotient = table.apply(div, above, below)
    return table.apply(neg, quotient) if is_negative else quotient


def _is_equal(a: Node, b: Node) -> bool:
    """Whether two nodes are equal, regardless of the order of factors and the spelling of numbers."""
    if a is b:
        return True
    if a.is_constant and b.is_constant:
        left, right = exact_number(a.text), exact_number(b.text)
        return left is not None and right is not None and left.value == right.value
    return _splitter_of(a) is factors_of and Counter(factors_of(a)) == Counter(factors_of(b))


# --- Rewriting


def stable_form(graph: Node, for_derivative: bool = False) -> Node | None:
    """Rewrite a formula so that it loses fewer digits to rounding, or does not overflow.

    The result equals the original where that has a value, except at isolated points. Whether it is more accurate at
    some point must be tested there: no form is the best at all points.

    Args:
        graph: the formula.
        for_derivative: whether the digits of the derivative matter. Then rules that may lose digits of the value also
            apply.

    Returns:
        The rewritten formula; None if no rule applies.

    >>> from autodiff_cli.language.program import read
    >>> from autodiff_cli.language.printer import to_text
    >>> for text in ("(1 - cos(x))/x^2", "sqrt(x + 1) - sqrt(x)", "log((1 - x)/(1 + x))", "x + y"):
    ...     stable = stable_form(read(text).output)
    ...     print(None if stable is None else to_text(stable))
    2*sin(x/2)^2/x^2
    1/(sqrt(x + 1) + sqrt(x))
    -2*atanh(x)
    None
    """
    nodes = topological_order([graph])
    if len(nodes) > _MAX_NODES:
        return None
    search = _Rewriter(not has_array_operations(nodes), for_derivative)
    (root,) = search.table.rebuild([graph])
    is_changed = False
    for _ in range(_MAX_ROUNDS):
        step = next(search.rewrites(root), None)
        if step is None:
            break
        (root,) = search.table.rebuild(substitute([root], dict([step])))
        is_changed = True
    return readable([root], collect=False)[0] if is_changed else None


class _Rewriter:
    """Rewrites one formula.

    Args:
        scalar: whether all nodes are numbers.
        for_derivative: whether the digits of the derivative matter.

    Attributes:
        table: the table of the formula's nodes.
    """

    def __init__(self, scalar: bool, for_derivative: bool) -> None:
        self.table = NodeTable(_NORMALIZING_RULES)
        self._scalar = scalar
        self._for_derivative = for_derivative
        self._final_nodes: set[Node] = set()  # matched and created nodes, which are not rewritten again

    def rewrites(self, root: Node) -> Iterator[tuple[Node, Node]]:
        """Yield pairs of a node and its replacement, from the outside of the formula to the inside."""
        for node in reversed(topological_order([root])):
            if node.op is not None and node not in self._final_nodes:
                yield from ((node, replacement) for replacement in self._rewrites_of(node))

    def _rewrites_of(self, node: Node) -> Iterator[Node]:
        for rule, pattern in _rules_for(_base_op(node.op)):
            if rule.for_derivatives and not self._for_derivative:
                continue
            for match in Matcher(pattern, self.table).matches(node):
                replacement = None if match.is_negated and rule.one_sign_only else self._apply_rule(rule, match)
                if replacement is not None and replacement is not node:
                    yield replacement

    def _apply_rule(self, rule: RewriteRule, match: PatternMatch) -> Node | None:
        """Return the replacement of a match, with the remaining operands; None if the rule does not apply."""
        known = topological_order(match.bindings.values())
        if not any(node.is_input for node in known):  # a constant is computed once, so it stays
            return None
        bindings = dict(match.bindings)
        if rule.difference is not None:
            (bindings[d],) = readable(substitute([rule.difference], bindings), collect=self._scalar)
            if any(_base_op(part.node.op) is add for part in factors_of(bindings[d])):
                return None
        instance, new = self.table.rebuild(substitute([rule.pattern, rule.replacement], bindings))
        if new is instance:
            return None
        self._final_nodes |= {instance, *topological_order([new])} - {*known}
        if _base_op(rule.pattern.op) is add:
            return sum_of(self.table, [*match.remainder, Operand(new, match.is_negated)])
        return product_of(self.table, [*match.remainder, Operand(new, False)]) if match.remainder else new


@cache
def _rules_for(op: Op | None) -> list[tuple[RewriteRule, Node]]:
    """Return the rules for sums (`add`), products (`mul`) or another operation, each with its simplified pattern."""
    rules = [rule for rule in REWRITE_RULES if _base_op(rule.pattern.op) is op]
    return [(rule, NodeTable(_NORMALIZING_RULES).rebuild([rule.pattern])[0]) for rule in rules]


def _base_op(op: Op | None) -> Op | None:
    """Return `add` for sums and differences, `mul` for products and quotients, and other operations unchanged."""
    return add if op is sub else mul if op is div else op


# One form for each root and exponential, so that patterns match, and no choice that is certain.
_NORMAL_FORMS = (
    Row(a**0.5, sqrt(a)), Row(a ** (1 / constant(2)), sqrt(a)), Row(constant("e") ** a, exp(a)),
    Row(a / exp(b), a * exp(-b)), Row(-a > 0, a < 0),
    Row(where(a > 0, b, c), b, lambda a: sign_of(a) is Sign.POSITIVE, (a,)),
    Row(where(a < 0, b, c), c, lambda a: sign_of(a) >= Sign.NONNEGATIVE, (a,)),
)  # fmt: skip
# Simplification, with normal forms.
_NORMALIZING_RULES = rewrite_by(_NORMAL_FORMS, then=TEXT_RULES)
