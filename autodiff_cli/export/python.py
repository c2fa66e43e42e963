"""Export of formulas to Python: with `math` alone, with NumPy, and for JAX and PyTorch.

The functions for `math` and NumPy return `(value, {"x": …})`. Those for JAX and PyTorch return the value only, since
these frameworks differentiate by themselves.
"""

from __future__ import annotations

import builtins
import keyword
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from autodiff_cli.export import program as programs
from autodiff_cli.graph.tape import has_array_operations, topological_order
from autodiff_cli.ops.structural import stack
from autodiff_cli.targets.python import IMPORTED, LIBRARIES, NumpyLibrary, PythonLibrary
from autodiff_cli.version import __version__

# --- Dictionaries of results, in Python and in JavaScript


class DictSyntax(NamedTuple):
    """The syntax of dictionaries in a language.

    Attributes:
        entry: writes a key with its expression; with an empty expression, the beginning of the entry.
        brackets: the texts around the entries of a dictionary on one line.
        indent: the indentation of the entries.
    """

    entry: Callable[[str, str], str]
    brackets: tuple[str, str]
    indent: str

    def literal(self, entries: programs.Entries) -> str:
        """Return a dictionary on one line."""
        texts = [
            self.entry(name, each if isinstance(each, str) else self.literal(each)) for name, each in entries.items()
        ]
        return ", ".join(texts).join(self.brackets) if texts else "{}"

    def statement(self, start: str, entries: programs.Entries, end: str = "") -> list[str]:
        """Return a statement with a dictionary, on one line if it fits, else with one line for each entry.

        Args:
            start: the text before the dictionary.
            entries: the expressions, or dictionaries of expressions, by key.
            end: the text after the dictionary.
        """
        flat = f"{start}{self.literal(entries)}{end}"
        if len(flat) <= programs.LINE_WIDTH:
            return [flat]
        lines = [f"{start}{{"]
        for name, text in entries.items():
            key = self.entry(name, "")
            if isinstance(text, str):
                line = self.entry(name, text)
                part = [line] if len(line) <= programs.LINE_WIDTH else wrap_expression(key, text, self.indent)
            else:
                part = self.statement(key, text)
            lines += [f"{self.indent}{line}" for line in part]
            lines[-1] += ","
        return [*lines, f"}}{end}"]


def wrap_expression(start: str, text: str, indent: str) -> list[str]:
    """Return a statement that ends in an expression, wrapped in brackets if it needs several lines."""
    if len(start + text) <= programs.LINE_WIDTH:
        return [start + text]
    return [
        f"{start}(",
        *(f"{indent}{part}" for part in programs.wrap_statement(text, "", programs.LINE_WIDTH - 8)),
        ")",
    ]


# --- Python with `math` alone

INDENT = "    "


def is_python_name(text: str) -> bool:
    """Whether a text is a public name in Python, and the same name after Python's normalization (NFKC)."""
    return text.isidentifier() and unicodedata.normalize("NFKC", text) == text and not text.startswith("_")


PYTHON_NAMES = programs.NamingRules(
    frozenset({*keyword.kwlist, "math", "abs", "float", "max", "min", "any", "round"}),
    is_python_name,
    function_keywords=frozenset({*dir(builtins), *IMPORTED}),  # the functions that a module contains use them
)


def python_source(program: programs.ExportProgram) -> str:
    """Return a Python module with the function, and with all functions that it calls beyond `math`."""
    layout = programs.SourceLayout(
        program, LIBRARIES["python"](), PYTHON_NAMES, programs.indexed_element, frozenset({"gradient", "hessian"})
    )
    assert isinstance(layout.library, PythonLibrary)
    body = [*docstring(layout, program.origin), *statements(layout), *results(layout, layout.value)]
    return module(layout, _import_math([*body, *layout.library.texts.values()]) + layout.library.imports, body)


def _import_math(texts: Iterable[str]) -> str:
    return "import math\n" if any("math." in text for text in texts) else ""


def module(layout: programs.SourceLayout, imports: str, body: Sequence[str]) -> str:
    """Return a module: imports, the functions that the exported function calls, and that function with its body."""
    functions = layout.library.texts.values()
    parameters = ", ".join(layout.names[variable.name] for variable in layout.program.variables)
    head = f"def {layout.program.options.name}({parameters}):\n"
    return "\n\n".join(filter(None, [imports, *functions, head + programs.indent_lines(body, INDENT)]))


def docstring(layout: programs.SourceLayout, origin: str) -> Iterator[str]:
    """Yield the docstring of the function, without triple quotes that would end it."""
    first, *rest = (line.replace('"""', "'''") for line in layout.comment(origin))
    yield f'"""{first}'
    yield from rest
    yield '"""'


def statements(layout: programs.SourceLayout) -> Iterator[str]:
    """Yield the lines of the function before its results."""
    for name, part in layout.lines:
        yield from wrap_expression(f"{name} = ", part.text, INDENT)


def results(layout: programs.SourceLayout, value: str, suffix: str = "") -> Iterator[str]:
    """Yield the lines that compute the derivatives, each with a suffix, and return the value and these."""
    derivatives = layout.derivatives(suffix)
    for name, entries in derivatives.items():
        yield from _DICT.statement(f"{name} = ", entries)
    yield from wrap_expression("return ", ", ".join([value, *derivatives]), INDENT)


def _entry(name: str, text: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}": {text}'


_DICT = DictSyntax(_entry, ("{", "}"), INDENT)

# --- NumPy

NUMPY_NAMES = replace(PYTHON_NAMES, keywords=PYTHON_NAMES.keywords | {"np"})
_NUMPY_RESERVED = frozenset({"gradient", "hessian", "zeros"})


def numpy_source(program: programs.ExportProgram) -> str:
    """Return a module with a function of NumPy arrays, and with all functions that it calls beyond NumPy."""
    layout = programs.SourceLayout(program, LIBRARIES["numpy"](), NUMPY_NAMES, numpy_element, _NUMPY_RESERVED)
    assert isinstance(layout.library, NumpyLibrary)
    body = [
        *docstring(layout, program.origin),
        *_converted_inputs(layout, "np.asarray({}, dtype=float)"),
        'with np.errstate(all="ignore"):',
        *(INDENT + line for line in [*statements(layout), *_numpy_results(layout)]),
    ]
    standard = _import_math(layout.library.texts.values()) + layout.library.imports
    imports = (f"{standard}\n" if standard else "") + "import numpy as np\n"
    return module(layout, imports, body)


def _single_numbers(layout: programs.SourceLayout) -> list[str]:
    """Return the inputs that cannot be arrays of points: all numbers, if there are operations on arrays."""
    roots = layout.program.roots
    has_arrays = has_array_operations({*topological_order(roots)}.difference(x for x in roots if x.op is stack))
    return [layout.names[each.name] for each in layout.used_variables if has_arrays and not each.shape]


def _converted_inputs(layout: programs.SourceLayout, conversion: str) -> Iterator[str]:
    """Yield the lines that convert the inputs. Arrays are refused in place of single numbers."""
    single = _single_numbers(layout)
    for each in layout.used_variables:
        name = layout.names[each.name]
        yield f"{name} = {conversion.format(name)}{'.reshape(())' * (name in single)}"


def numpy_element(variable: programs.ExportVariable, name: str, k: int) -> str:
    """Return the expression of a variable, or of its k-th element if arrays are unrolled."""
    return name + variable.element_index(k)


def _numpy_results(layout: programs.SourceLayout) -> Iterator[str]:
    """Yield the lines that compute the derivatives, broadcast to the shape of the value, and return the results."""
    if not layout.program.options.gradient or any(variable.shape for variable in layout.program.variables):
        yield from results(layout, layout.value)
        return
    if layout.value != programs.VALUE_NAME:
        yield f"{programs.VALUE_NAME} = {layout.value}"
    yield f"zeros = np.zeros_like({programs.VALUE_NAME})"
    yield from results(layout, programs.VALUE_NAME, " + zeros")


# --- JAX and PyTorch

JAX_NAMES = programs.NamingRules(PYTHON_NAMES.keywords | {"jax", "jnp"}, PYTHON_NAMES.is_legal)
TORCH_NAMES = programs.NamingRules(PYTHON_NAMES.keywords | {"torch"}, PYTHON_NAMES.is_legal)


def jax_source(program: programs.ExportProgram) -> str:
    """Return a module with a function for `jax.grad`, `jax.hessian` and `jax.jit`."""
    layout = programs.SourceLayout(program, LIBRARIES["jax"](), JAX_NAMES, numpy_element, frozenset())
    # JAX does not differentiate integers.
    value = f"{layout.value}.0" if layout.value.lstrip("-").isdigit() else layout.value
    inputs = [f"{name} = jnp.reshape({name}, ())" for name in _single_numbers(layout)]
    body = [*inputs, *statements(layout), *results(layout, value)]
    uses = "jax." in "\n".join(body)
    use = 'Unless `jax.config.update("jax_enable_x64", True)` is called first, JAX computes in single precision.'
    imports = ("import jax\n" if uses else "") + "import jax.numpy as jnp\n"
    return module(layout, imports, [*_framework_docstring(layout, use), *body])


def torch_source(program: programs.ExportProgram) -> str:
    """Return a module with a function of PyTorch tensors that require gradients."""
    layout = programs.SourceLayout(program, LIBRARIES["torch"](), TORCH_NAMES, numpy_element, frozenset())
    inputs = _converted_inputs(layout, "torch.as_tensor({}, dtype=torch.float64)")
    use = "For tensors that require gradients, call `.backward()` on the result."
    body = [*_framework_docstring(layout, use), *inputs, *statements(layout), *results(layout, layout.value)]
    return module(layout, "import torch\n", body)


def _framework_docstring(layout: programs.SourceLayout, use: str) -> Iterator[str]:
    note = layout.program.options.note
    return docstring(layout, f"{note and f'The value: {note}. '}Written by autodiff {__version__}. {use}")
