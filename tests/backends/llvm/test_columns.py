"""Columns are read where they lie, whatever their type, and never a byte beyond: the pages around are fenced off."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.language.program import read
from tests.backends.llvm.compiled import by_row, every_width, summed
from tests.each import each

PAGE = mmap.PAGESIZE
OUTPUT = read("a*exp(-x^2) + y").output
TYPES = ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


class Fenced:
    """Numbers that end, and numbers that begin, where a page begins or ends that must not be touched."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def array(self, values: NDArray[Any], *, at_end: bool) -> NDArray[Any]:
        size = -(-values.nbytes // PAGE) * PAGE
        memory = mmap.mmap(-1, size + 2 * PAGE)
        self._maps.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for fence in (start, start + PAGE + size):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(PAGE), 0) == 0
        offset = PAGE + (size - values.nbytes if at_end else 0)
        found = np.frombuffer(memory, values.dtype, values.size, offset).reshape(values.shape)
        found[...] = values
        return found


@pytest.fixture
def fenced() -> Fenced:
    return Fenced()


@every_width
@each("at_end", [True, False])
@each("rows", [1, 2, 3, 5, 8, 9, 63, 511, 513, 1027])
def test_no_byte_beyond_a_column_is_touched(fenced: Fenced, rows: int, at_end: bool, width: int) -> None:
    generator = np.random.default_rng(rows)
    plain = {"x": generator.normal(size=rows), "y": generator.normal(size=rows).astype("f4")}
    columns = {name: fenced.array(values, at_end=at_end) for name, values in plain.items()}
    kernel = LlvmBackend(1, width).row_kernel(RowGraphs([OUTPUT, read("y").output], {"x", "y"}))
    out = fenced.array(np.empty((2, rows)), at_end=at_end)
    kernel.write(kernel.prepare({"a": 2.0}), columns, out)
    np.testing.assert_allclose(out[0], 2 * np.exp(-(plain["x"] ** 2)) + plain["y"], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(out[1], plain["y"])
    (total,) = summed(LlvmBackend(1, width), [OUTPUT], columns, {"a": 2.0})
    assert total == pytest.approx(out[0].sum(), rel=1e-13)


@each("at_end", [True, False])
@each("rows", [1, 7, 64, 131])
def test_no_byte_beyond_a_column_of_vectors_is_touched(fenced: Fenced, rows: int, at_end: bool) -> None:
    sizes = {"v": (3,), "W": (4, 3)}
    generator = np.random.default_rng(rows)
    v, w = generator.normal(size=(3, rows)), generator.normal(size=(4, 3))
    program = read("W: 4x3; v: 3; sum(tanh(W @ v)) + v[1]")
    outputs = [program.output, *gradient_nodes(program.output, [program.leaves["W"]], sizes)]
    columns = {"v": fenced.array(v, at_end=at_end)}
    found = summed(LlvmBackend(1), outputs, columns, {"W": w}, sizes)
    slopes = (1 / np.cosh(w @ v) ** 2) @ v.T
    np.testing.assert_allclose(found, [np.tanh(w @ v).sum() + v[1].sum(), *slopes.ravel()], rtol=1e-12, atol=1e-13)


def numbers_of(letters: str, rows: int) -> NDArray[Any]:
    dtype, generator = np.dtype(letters), np.random.default_rng(0)
    if dtype.kind not in "iu":
        return (100 * generator.normal(size=rows)).astype(dtype)
    limits = np.iinfo(dtype)
    x = generator.integers(limits.min, limits.max, rows, dtype, endpoint=True)
    x[0] = limits.min
    x[-1] = limits.max
    return x


@every_width
@each("rows", [1, 6, 1029])
def test_numbers_of_every_type_are_read_as_they_are(rows: int, width: int) -> None:
    columns = {f"x{k}": numbers_of(letters, rows) for k, letters in enumerate(TYPES)}
    outputs = [read(f"{name} + 0.5*a").output for name in columns]
    found = by_row(LlvmBackend(1, width), outputs, columns, {"a": 0.0})
    for letters, values, column in zip(TYPES, found, columns.values(), strict=True):
        np.testing.assert_array_equal(values, column.astype(np.float64), err_msg=letters)


def test_arrays_that_lie_unusually_are_read_all_the_same() -> None:
    x = np.linspace(-1, 1, 77)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64)
    frozen = x.copy()
    frozen.flags.writeable = False
    ways = {
        "every second": np.repeat(x, 2)[::2],
        "backwards": x[::-1].copy()[::-1],
        "of another order of bytes": x.astype(">f8"),
        "not aligned": unaligned,
        "read only": frozen,
        "stretched from one": np.broadcast_to(np.float64(0.3), 77),
        "half a float": x.astype("f2"),
    }
    for way, column in ways.items():
        found = by_row(LlvmBackend(1), [read("2*x").output], {"x": column})
        np.testing.assert_array_equal(found[0], 2 * column.astype(np.float64), way)


def test_columns_of_vectors_that_lie_unusually() -> None:
    v = np.arange(60.0).reshape(3, 20)
    ways = [v, v[:, ::2], v[::-1], v.T.copy().T, np.asfortranarray(v)[:, 3:9], v.astype("f4"), np.vstack((v, v))[::2]]
    output = read("v: 3; v[0] + 10*v[1] + 100*v[2]").output
    for column in ways:
        found = by_row(LlvmBackend(1), [output], {"v": column}, {}, {"v": (3,)})
        np.testing.assert_array_equal(found[0], np.array([1, 10, 100]) @ column)


def test_columns_of_matrices_that_lie_unusually() -> None:
    w = np.arange(120.0).reshape(2, 3, 20)
    ways = [w, w[:, :, ::2], w[:, ::-1], w[::-1], w.transpose(2, 1, 0).copy().T, w.swapaxes(0, 1).copy().swapaxes(0, 1)]
    output = read("W: 2x3; W[0, 0] + 10*W[0, 2] + 100*W[1, 1]").output
    for column in ways:
        found = by_row(LlvmBackend(1), [output], {"W": column}, {}, {"W": (2, 3)})
        np.testing.assert_array_equal(found[0], column[0, 0] + 10 * column[0, 2] + 100 * column[1, 1])


@each(
    ("columns", "rows", "words"),
    [
        ({"x": np.ones(4)}, 5, "column `x` has 4 numbers; 5 are needed"),
        ({"x": np.ones(6)}, 5, "column `x` has 6 numbers; 5 are needed"),
        ({"x": np.ones((2, 5))}, 5, "column `x` has 2x5 numbers; 5 are needed"),
        ({"x": np.float64(1)}, 5, "column `x` has none numbers; 5 are needed"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, Any], rows: int, words: str) -> None:
    kernel = LlvmBackend(1).sum_kernel(RowGraphs([read("x").output], {"x"}))
    with pytest.raises(ValueError, match=words):
        kernel.sums({}, columns, rows)


def test_values_are_written_to_what_has_room_for_them() -> None:
    kernel = LlvmBackend(1).row_kernel(RowGraphs([read("x").output], {"x"}))
    for out in (np.empty((2, 5)), np.empty((1, 5), "f4"), np.empty((5, 1)).T[:, ::2], np.empty((1, 9))[:, ::2]):
        rows = 5 if out.shape[-1] == 5 else out.shape[-1]
        with pytest.raises(ValueError, match="`out` must be an array of 1x"):
            kernel.write(kernel.prepare({}), {"x": np.ones(rows)}, out)


def test_the_same_column_changed_in_place_is_read_anew() -> None:
    kernel = LlvmBackend(1).sum_kernel(RowGraphs([read("x").output], {"x"}))
    x = np.ones(10)
    assert kernel.sums({}, {"x": x}, 10) == [10]
    x[0] = 5
    assert kernel.sums({}, {"x": x}, 10) == [14]


def test_a_copied_column_changed_in_place_is_read_anew() -> None:
    kernel = LlvmBackend(1).sum_kernel(RowGraphs([read("x").output], {"x"}))
    x = np.ones(20)[::2]
    assert kernel.sums({}, {"x": x}, 10) == [10]
    x[0] = 5
    assert kernel.sums({}, {"x": x}, 10) == [14]
