"""The product of a matrix that is the same for all rows and a vector per row, for all rows of a strip.

A tile of the result, so many elements by so many vectors of rows, stays in registers while the loop goes along the
inner axis: each number that is loaded serves a whole row or column of the tile.
"""

from __future__ import annotations

from autodiff_cli.backends.llvm.functions.vectors import Lane, VectorCode
from autodiff_cli.backends.llvm.plans.items import MatrixProduct, Plan
from autodiff_cli.backends.llvm.writing.cells import Memory
from autodiff_cli.backends.llvm.writing.emit import Index, cell_at, tiles

_SPARE = 8  # registers for what is loaded
_WIDE, _NARROW = 4, 2  # vectors of rows in a tile: more where the result has few elements


def emit_product(memory: Memory, plan: Plan, number: int) -> None:
    """Write a product down."""
    item = plan.items[number]
    assert isinstance(item, MatrixProduct)
    text, floats = memory.text, memory.module.floats
    sums = memory.target.registers - _SPARE if memory.target.registers > 16 else 12
    columns = _WIDE if item.size <= sums // _WIDE else _NARROW
    rows = min(item.size, sums // columns)
    with memory.rows("0", "%span", columns) as (_, starts):
        for (tile,) in tiles(memory, (item.size,), (rows,)):
            with text.loop("0", str(item.inner)) as inner:
                names = [[inner.carry(text.name(), floats, "zeroinitializer") for _ in starts] for _ in tile]
                along = Index(inner.index, 0)
                factors = _vectors(memory, item, along, starts)
                for index, under_way in zip(tile, names, strict=True):
                    weight = _weight(memory, item, (index, along))
                    for factor, before in zip(factors, under_way, strict=True):
                        product = text.put(f"fmul contract {floats} {weight}, {factor}")
                        inner.hand_on(text.put(f"fadd contract {floats} {before}, {product}"))
            found = iter(inner.reached)
            for index in tile:
                cell = cell_at(number, 0, (1,), (index,))
                memory.forget()
                memory.locate(cell)
                for start in starts:
                    memory.store(cell, next(found), row=start)


def _vectors(memory: Memory, item: MatrixProduct, along: Index, starts: list[str]) -> list[str]:
    """The vector's element at the inner index, for each vector of rows."""
    given = item.inputs[1]
    cell = cell_at(given.source, given.offset, given.strides, (along,))
    memory.forget()
    memory.locate(cell)
    vector = VectorCode().make("load", Lane.FLOAT, detail=cell, varies=True)
    return [memory.load(vector, row=start) for start in starts]


def _weight(memory: Memory, item: MatrixProduct, at: tuple[Index, Index]) -> str:
    """An element of the matrix, in all lanes."""
    given = item.inputs[0]
    cell = cell_at(given.source, given.offset, given.strides, at)
    memory.locate(cell)
    return memory.load(VectorCode().make("load", Lane.FLOAT, detail=cell))
