"""A function of the value for JAX or PyTorch, which differentiate it by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from autodiff_cli.export.layout import SourceLayout, comment, indented, layout, renamed
from autodiff_cli.export.names import LegalNames
from autodiff_cli.export.numpy import place
from autodiff_cli.export.program import ExportProgram
from autodiff_cli.export.python import INDENT, NAMES, broken, head, joined, quoted_lines, statements
from autodiff_cli.targets.frameworks import JAX, TORCH, JaxLibrary, TorchLibrary
from autodiff_cli.version import __version__

JAX_NAMES = LegalNames(NAMES.keywords | {"jax", "jnp"}, NAMES.is_legal)
TORCH_NAMES = LegalNames(NAMES.keywords | {"torch"}, NAMES.is_legal)


def jax_source(program: ExportProgram) -> str:
    """A module with the function, for `jax.grad`, `jax.hessian` and `jax.jit`."""
    made = layout(program, JaxLibrary(JAX), JAX_NAMES, place, frozenset())
    body = [*statements(made), *_result(made)]
    uses = "jax." in "\n".join(body)
    use = 'Unless `jax.config.update("jax_enable_x64", True)` is called first, JAX computes in single precision.'
    imports = ("import jax\n" if uses else "") + "import jax.numpy as jnp\n"
    return _module(program, made, imports, [*_docstring(program, made, use), *body])


def torch_source(program: ExportProgram) -> str:
    """A module with the function, for tensors that require gradients."""
    made = layout(program, TorchLibrary(TORCH), TORCH_NAMES, place, frozenset())
    inputs = [f"{made.names[v.name]} = torch.as_tensor({made.names[v.name]}, dtype=torch.float64)" for v in made.used]
    use = "Call `.backward()` on what it gives, for tensors that require gradients."
    return _module(
        program, made, "import torch\n", [*_docstring(program, made, use), *inputs, *statements(made), *_result(made)]
    )


def _module(program: ExportProgram, made: SourceLayout, imports: str, body: list[str]) -> str:
    return joined([imports, head(program, made) + indented(body, INDENT)])


def _docstring(program: ExportProgram, made: SourceLayout, use: str) -> Iterator[str]:
    first, *rest = comment(program.text)
    what = f"The value: {program.note}. " if program.note else ""
    lines = [first, *rest, "", *comment(f"{what}Written by autodiff {__version__}. {use}"), *renamed(made.names)]
    yield from quoted_lines(lines)


def _result(made: SourceLayout) -> list[str]:
    return broken("return ", made.value)
