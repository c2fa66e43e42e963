"""Pieces of a file without the rows that a condition leaves out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Mapping, Sequence

import numpy as np

from autodiff_cli.data.streaming.pieces import Coded, Raw, RawPiece
from autodiff_cli.data.where import RowFilter


def filtered(
    file: str,
    pieces: Generator[Raw],
    wanted: Collection[str],
    where: RowFilter | None,
    say_kept: Callable[[int, int, Mapping[str, Sequence[str | None]]], None],
) -> Generator[RawPiece]:
    """The columns wanted of the rows in which a condition holds; of all without one.

    Args:
        file: its name.
        say_kept: is told at the end how many rows stay, of how many, and which texts there were in columns that the
            condition reads.
    """
    count = stay = 0
    texts = set() if where is None else where.texts
    seen: dict[str, dict[str | None, None]] = {name: {} for name in texts}
    with contextlib.closing(pieces):
        for piece in pieces:
            length = len(next(iter(piece.values())))
            rows = np.arange(count + 1, count + length + 1)
            count += length
            kept = {name: piece[name] for name in wanted}
            if where is not None:
                for name in texts:
                    seen[name] |= dict.fromkeys(piece[name].texts)
                mask = where.mask({**piece, **{name: piece[name].cells() for name in texts}})
                rows = rows[mask]
                kept = {n: each.kept(mask) if isinstance(each, Coded) else each[mask] for n, each in kept.items()}
            stay += len(rows)
            yield RawPiece(file, kept, rows)
    say_kept(stay, count, {name: [*known] for name, known in seen.items()})
