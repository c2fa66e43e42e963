"""An instance of a template equals the template with its placeholders replaced."""

from __future__ import annotations

from autodiff_cli.graph.node import constant, variable
from autodiff_cli.graph.tape import Template, substitute
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.functions import sin


def test_placeholders_are_replaced_and_sharing_is_preserved() -> None:
    a, b, x = variable("a"), variable("b"), variable("x")
    product = a * b
    roots = [product + sin(product), a, constant("2") * b]
    built = Template([a, b], roots).build([x, sin(x)])
    assert [to_text(node) for node in built] == [to_text(node) for node in substitute(roots, {a: x, b: sin(x)})]
    assert built[0].inputs[0] is built[0].inputs[1].inputs[0]
    assert built[1] is x


def test_nodes_without_placeholders_are_shared_by_all_instances() -> None:
    a, x = variable("a"), variable("x")
    fixed = sin(constant("2"))
    template = Template([a], [fixed * a, fixed])
    (first, alone), (second, _) = template.build([x]), template.build([x])
    assert first.inputs[0] is second.inputs[0] is alone is fixed
