"""The paths from variables to the output, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from autodiff_cli.explain.formulas import applied_to_numbers
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.views.paths import Path, Paths
from autodiff_cli.graph.registry import registered
from autodiff_cli.render.documents import number
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Paper, Style
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import write_result, write_title, write_warnings

LONGEST_PATH = 12  # a longer one is shown without its middle
LONGEST_SUM = 6
EXACT = 10**100  # larger counts of paths are rounded; JSON has all their digits
MOST_BITS = 14_000  # of a number that Python reads and writes: 4,300 digits


def paths_report(trace: Trace, found: Sequence[Paths], digits: int | None) -> Report:
    """For each variable its paths: the nodes, the local derivatives, their product, and what all of them sum to."""
    return Report(lambda paper: _write(paper, trace, found, digits), lambda: [_fields(found)])


def _write(paper: Paper, trace: Trace, found: Sequence[Paths], digits: int | None) -> None:
    in_full, brief = shows(digits)
    write_title(paper, trace, in_full)
    for paths in found:
        order = ", largest contribution first" if paths.total > 1 else ""
        paper.heading(f"paths from {paths.name} to the output: {_in_words(paths.total)}{order}")
        for count, path in enumerate(paths.listed, 1):
            paper.line(f"  {count}. {_chain(' → ', [trace.labels[i] for i in path.nodes])}")
            paper.line(f"       {_product(path, brief)}")
        if paths.left:
            sums = f"which sum to {brief(paths.rest)}" if paths.left > 1 else f"whose product is {brief(paths.rest)}"
            paper.line(f"  … and {_in_words(paths.left)} more, {sums}; --limit N lists N", Style.FAINT)
        paper.line(f"  {_sum(paths, trace.gradient[paths.name], brief)}", Style.STRONG)
    write_result(paper, trace, in_full, {paths.name: trace.gradient[paths.name] for paths in found})
    write_warnings(paper, trace.warnings)


def _fields(found: Sequence[Paths]) -> dict[str, Any]:
    """What `--paths` adds to the document of a trace."""
    return {
        "paths": {
            paths.name: [
                {"nodes": path.nodes, "locals": [*map(number, path.rates)], "product": number(path.product)}
                for path in paths.listed
            ]
            for paths in found
        },
        "paths_count": {paths.name: _counted(paths.total) for paths in found},
        "paths_rest": {paths.name: number(paths.rest) for paths in found},
    }


def _counted(total: int) -> int | str:
    """A count; as text if it has so many digits that JSON readers refuse the number."""
    return total if total.bit_length() < MOST_BITS else str(Decimal(total))


def _in_words(total: int) -> str:
    return f"{total:,}" if total < EXACT else f"{Decimal(total):.3e}".replace("e+", " × 10^")


def _product(path: Path, show: Show) -> str:
    if not path.rates:
        return "it is the output itself, so 1"
    factors = [show(rate) for rate in path.rates]
    multiplied = _chain(" × ", [factors[0], *(_bracketed(factor) for factor in factors[1:])])
    return multiplied if len(factors) == 1 else f"{multiplied} = {show(path.product)}"


def _sum(paths: Paths, gradient: float, show: Show) -> str:
    result = f"d/d{paths.name} = {show(gradient)}"
    terms = [show(path.product) for path in paths.listed] + ([show(paths.rest)] if paths.left else [])
    if not 1 < len(terms) <= LONGEST_SUM:
        return f"in all: {result}"
    added = terms[0]
    for term in terms[1:]:
        added = applied_to_numbers(registered("add"), [added, term])
    return f"in all: {added} = {show(gradient)} = d/d{paths.name}"


def _bracketed(factor: str) -> str:
    return f"({factor})" if factor.startswith("-") else factor


def _chain(link: str, parts: Sequence[str]) -> str:
    """Parts joined, those in the middle of a long chain only counted."""
    if len(parts) > LONGEST_PATH:
        half = LONGEST_PATH // 2
        parts = [*parts[:half], f"… {len(parts) - 2 * half} more …", *parts[-half:]]
    return link.join(parts)
