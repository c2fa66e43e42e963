"""Text is read in blocks of lines that share one buffer."""

from __future__ import annotations

import functools
import io

import numpy as np
import pytest

from autodiff_cli.data import delimited, source
from autodiff_cli.data.batches import GrowingArray
from autodiff_cli.data.delimited import LineReader
from tests.each import each


class Slow(io.BytesIO):
    """A stream that returns a few bytes at a time, as pipes may."""

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return super().readinto(memoryview(buffer)[:3])


@pytest.mark.parametrize("size", [1, 2, 5, 8, 13, 64, 1000])
@pytest.mark.parametrize("stream", [io.BytesIO, Slow])
@pytest.mark.parametrize(
    "text",
    [
        b"1,2\n3,4\n5,6\n",
        b"1,2\n3,4\n5,6",
        b"1,2\r\n3,4\r\n",
        b"\n\n1,2\n\n\n",
        b"a line that is longer than most blocks,2\n3,4\nand another at the end",
        b"no end",
    ],
)
def test_blocks_end_with_lines_and_together_have_all_lines(
    size: int, stream: type[io.BytesIO], text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_LINE_BLOCK_BYTES", size)
    found = [bytes(lines) for lines in LineReader(stream(text))]
    assert [line for slab in found for line in slab.split(b"\n") if line.strip()] == [
        line for line in text.split(b"\n") if line.strip()
    ]
    assert all(slab.endswith(b"\n") for slab in found[:-1])
    assert all(slab.strip() for slab in found)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_quote_is_recognised_anywhere(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_LINE_BLOCK_BYTES", size)
    for text in (b'"1",2\n', b'1,2\n3,"4"\n', b'1,2\n3,4\n5"'):
        reader = LineReader(io.BytesIO(text))
        before = b"".join(bytes(lines) for lines in reader)
        assert b'"' not in before
        assert reader.rest is not None
        assert before + reader.rest.read() == text


@each("about", [0, 1, 4, 100])
def test_columns_grow_whatever_was_expected(about: int) -> None:
    column = GrowingArray(about)
    parts = [np.arange(3.0), np.arange(2.0), np.arange(7.0)]
    for part in parts:
        column.add(part)
    assert column.finish().tolist() == np.concatenate(parts).tolist()


LINES = b"\n".join(b"1" * length for length in (3, 20, 20, 0, 1, 19, 20))


@each("block", range(1, 45))
@each("tail", [1, 4, 20])
def test_lines_up_to_the_limit_are_read_in_blocks_of_any_size_and_longer_ones_are_refused(
    block: int, tail: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "MAX_LINE_BYTES", 20)
        patch.setattr(source, "_TAIL_BYTES", tail)

        def read(text: bytes) -> bytes:
            stream = source.BoundedLineStream(io.BytesIO(text))
            return b"".join(iter(functools.partial(stream.read, block), b""))

        assert read(LINES) == LINES
        for longer in (b"\n" + b"1" * (20 + 2 * block), b"1" * (2 * block) + LINES):
            with pytest.raises(OSError, match="a line is longer than"):
                read(LINES + longer)
