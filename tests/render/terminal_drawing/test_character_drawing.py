"""Drawings in characters: every node is there once, no box covers another, every line can be followed."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from autodiff_cli.render import character_layout
from autodiff_cli.render.character_drawing import (
    BoxContent,
    CharacterDrawing,
    DrawingState,
    Run,
    TextStyle,
    ansi_text,
    replace_unencodable,
)
from autodiff_cli.render.character_layout import (
    MAX_ITEMS,
    BoxLayout,
    Cell,
    ChannelLine,
    Extent,
    TooManyItemsError,
    assign_tracks,
)
from autodiff_cli.render.drawing import Role
from autodiff_cli.render.formatting import display_width
from tests.render.terminal_drawing.support import plain_text

NUMBERS = BoxContent("", Role.OPERATION, "0.5", "1.25")


@st.composite
def wirings(draw: st.DrawFn, most: int = 16) -> list[list[int]]:
    """The inputs of each node of a graph: the same one may come twice, some have none."""
    count = draw(st.integers(1, most))
    return [draw(st.lists(st.integers(0, i - 1), max_size=4)) if i else [] for i in range(count)]


@st.composite
def arranged(draw: st.DrawFn) -> tuple[list[Extent], list[list[int]], BoxLayout]:
    inputs = draw(wirings())
    extents = [Extent(draw(st.integers(1, 9)), draw(st.integers(max(1, len(i)), 6))) for i in inputs]
    return extents, inputs, BoxLayout(extents, inputs)


def cells_of(corner: Cell, extent: Extent) -> set[Cell]:
    return {
        Cell(corner.column + x, corner.row + y) for x, y in itertools.product(range(extent.width), range(extent.height))
    }


def line_to(found: BoxLayout, end: int) -> tuple[Cell, ...]:
    """The corners of a line from its first to its last."""
    return tuple(cell for piece in reversed([*found.segments_to(end)]) for cell in piece.points)


def cells_along(line: tuple[Cell, ...]) -> set[tuple[Cell, bool]]:
    """The cells of a line, each with whether it is passed in a row (else in a column)."""
    found = {(cell, True) for cell in line}
    for a, b in itertools.pairwise(line):
        assert a.row == b.row or a.column == b.column
        rows, across = range(min(a.row, b.row), max(a.row, b.row) + 1), range(min(a[0], b[0]), max(a[0], b[0]) + 1)
        found |= {(Cell(column, row), a.row == b.row) for row in rows for column in across if a != b}
    return found


@given(arranged())
def test_boxes_do_not_overlap_and_lie_in_the_drawing(graph: tuple[list[Extent], list[list[int]], BoxLayout]) -> None:
    extents, _, found = graph
    taken = Counter(cell for at in zip(found.origins, extents, strict=True) for cell in cells_of(*at))
    assert set(taken.values()) == {1}
    assert all(0 <= x < found.extent.width and 0 <= y < found.extent.height for x, y in taken)


@given(arranged())
def test_lines_lead_from_box_to_box_each_to_an_entry_of_its_own(
    graph: tuple[list[Extent], list[list[int]], BoxLayout],
) -> None:
    extents, inputs, found = graph
    for i, sources in enumerate(inputs):
        corner, extent = found.origins[i], extents[i]
        lines = [line_to(found, end) for end in found.last_segments[i]]
        entries = [line[-1] for line in lines]
        assert all(x == corner.column - 1 and 0 <= y - corner.row < extent.height for x, y in entries)
        assert [y for _, y in entries] == sorted({y for _, y in entries})
        for j, line in zip(sources, lines, strict=True):
            start, (left, top) = line[0], found.origins[j]
            assert start.column == left + extents[j].width
            assert start.row == top + (extents[j].height - 1) // 2


@given(arranged())
def test_lines_of_different_sources_only_cross(graph: tuple[list[Extent], list[list[int]], BoxLayout]) -> None:
    extents, inputs, found = graph
    covered = {cell for at in zip(found.origins, extents, strict=True) for cell in cells_of(*at)}
    owners: dict[tuple[Cell, bool], int] = {}
    for i, sources in enumerate(inputs):
        for j, end in zip(sources, found.last_segments[i], strict=True):
            for passed in cells_along(line_to(found, end)):
                assert passed[0] not in covered
                assert owners.setdefault(passed, j) == j


def test_lines_that_change_places_in_the_same_rows_have_no_tracks() -> None:
    assert assign_tracks([ChannelLine(1, (4,)), ChannelLine(4, (1,))]) is None
    assert assign_tracks([ChannelLine(1, (4,)), ChannelLine(4, (4,))]) == {ChannelLine(1, (4,)): 0}
    assert assign_tracks([ChannelLine(1, (4,)), ChannelLine(4, (2,))]) == {
        ChannelLine(4, (2,)): 0,
        ChannelLine(1, (4,)): 1,
    }


def test_what_no_one_could_follow_is_refused() -> None:
    half = MAX_ITEMS // 2
    with pytest.raises(TooManyItemsError):
        BoxLayout([Extent(1, 1)] * (MAX_ITEMS + 1), [[]] * (MAX_ITEMS + 1))
    with pytest.raises(TooManyItemsError):  # a chain, and beside it a line that runs along all of it
        BoxLayout([Extent(1, 2)] * (half + 3), [[], *([i, 0] for i in range(half + 2))])


def sketched(inputs: list[list[int]], titles: list[str] | None = None, role: Role = Role.OPERATION) -> CharacterDrawing:
    titles = titles or [f"n{i}." for i in range(len(inputs))]
    return CharacterDrawing({i: NUMBERS._replace(title=t, role=role) for i, t in enumerate(titles)}, inputs.__getitem__)


def whole(sketch: CharacterDrawing, **look: object) -> list[str]:
    seen = DrawingState(**{"has_value": lambda i: True, "adjoint": lambda i: "1.25", **look})  # type: ignore[arg-type]
    return [plain_text(line) for line in sketch.render(Cell(0, 0), sketch.extent, seen)]


@given(wirings())
def test_every_node_appears_once_with_its_numbers(inputs: list[list[int]]) -> None:
    sketch = sketched(inputs)
    text = "\n".join(whole(sketch))
    assert all(extent.height >= 2 + len(inputs[i]) for i, (_, extent) in sketch.boxes.items())  # within the border
    assert Counter(re.findall(r"n\d+\.", text)) == Counter(f"n{i}." for i in range(len(inputs)))
    assert text.count("= 0.5") == text.count("∂ 1.25") == len(inputs)


@given(wirings(), st.data())
def test_a_window_shows_a_part_of_the_whole(inputs: list[list[int]], data: st.DataObject) -> None:
    sketch = sketched(inputs)
    width, height = sketch.extent
    left, top = data.draw(st.integers(-3, width)), data.draw(st.integers(-3, height))
    extent = Extent(data.draw(st.integers(1, width + 5)), data.draw(st.integers(1, height + 5)))
    look = DrawingState(lambda i: True, lambda i: "1.25")
    shown = [plain_text(line) for line in sketch.render(Cell(left, top), extent, look)]
    everything = [" " * 3 + line.ljust(width + extent.width) for line in whole(sketch)]
    blank = " " * (width + extent.width + 3)
    rows = [everything[row] if 0 <= row < height else blank for row in range(top, top + extent.height)]
    assert shown == [row[left + 3 : left + 3 + extent.width].rstrip() for row in rows]


@given(wirings())
def test_with_ascii_the_same_is_drawn(inputs: list[list[int]]) -> None:
    sketch = sketched(inputs)
    in_ascii = [replace_unencodable(line, "ascii") for line in whole(sketch)]
    assert "".join(in_ascii).isascii()
    blanks = [[character == " " for character in line] for line in in_ascii]
    assert blanks == [[character == " " for character in line] for line in whole(sketch)]


def test_a_small_graph() -> None:
    assert whole(sketched([[], [], [0, 1], [0], [2, 3]], ["x", "y", "x*y", "sin(x)", "sum"])) == [
        "┌ x ─────┐       ┌ x*y ───┐",
        "│ = 0.5  ├───┬──▸│ = 0.5  ├─┐   ┌ sum ───┐",
        "│ ∂ 1.25 │ ┌─┼──▸│ ∂ 1.25 │ └──▸│ = 0.5  │",
        "└────────┘ │ │   └────────┘ ┌──▸│ ∂ 1.25 │",
        "┌ y ─────┐ │ │   ┌ sin(x) ┐ │   └────────┘",
        "│ = 0.5  ├─┘ └──▸│ = 0.5  ├─┘",
        "│ ∂ 1.25 │       │ ∂ 1.25 │",
        "└────────┘       └────────┘",
    ]


@pytest.mark.parametrize("title", ["λ", "名前", "x̂*y", "한국어名", "é" * 9])
def test_wide_and_combining_characters_keep_the_border_straight(title: str) -> None:
    lines = whole(sketched([[]], [title]))
    assert len({display_width(line) for line in lines}) == 1
    assert title in lines[0]


def test_a_wide_character_at_the_edge_of_a_window_is_not_cut_in_half() -> None:
    sketch, look = sketched([[]], ["名前名前"]), DrawingState(lambda i: True, lambda i: "1")
    for left, width in itertools.product(range(8), range(1, 8)):
        for line in sketch.render(Cell(left, 0), Extent(width, 4), look):
            assert display_width(plain_text(line)) <= width


def test_what_is_current_stands_out_without_colour() -> None:
    sketch = sketched([[], [0]])
    before, after = whole(sketch), whole(sketch, current=1, highlighted=frozenset({(1, 0)}))
    assert "┏ n1." in after[0]
    assert "━▸┃" in after[1]
    assert "┏" not in before[0]
    assert "━◂┃" in whole(sketch, current=1, highlighted=frozenset({(1, 0)}), is_backward=True)[1]
    assert "#" in replace_unencodable("".join(whole(sketch, current=1)), "ascii")


def test_numbers_that_are_not_known_leave_their_room_empty() -> None:
    sketch = sketched([[], [0]])
    assert "= 0.5" not in "".join(whole(sketch, has_value=lambda i: False))
    assert [len(line) for line in whole(sketch, has_value=lambda i: False, adjoint=lambda i: "")] == [
        len(line) for line in whole(sketch)
    ]


def test_roles_look_different() -> None:
    roles = (Role.INPUT, Role.CONSTANT, Role.OPERATION, Role.OUTPUT)
    drawn = {role: tuple(whole(sketched([[]], ["x"], role))) for role in roles}
    assert len(set(drawn.values())) == len(roles)
    assert drawn[Role.CONSTANT] == ("x",)


def test_without_colour_ink_is_bold_faint_or_reversed() -> None:
    line = tuple(Run(ink.name, ink) for ink in TextStyle)
    assert "\x1b[36mVALUE\x1b[0m" in ansi_text(line, colour=True)
    codes = re.findall(r"\x1b\[([\d;]*)m", ansi_text(line, colour=False))
    assert set(codes) == {"0", "1", "2", "1;7"}
    assert re.sub(r"\x1b\[[\d;]*m", "", ansi_text(line, colour=False)) == plain_text(line)


def test_text_is_written_with_what_the_encoding_has() -> None:
    assert replace_unencodable("2 × 3 … ∂", "ascii") == "2 * 3 ... d"
    assert replace_unencodable("λ", "ascii") == "\\u03bb"
    assert replace_unencodable("λ × é", "utf-8") == "λ × é"


def test_boxes_of_a_layer_are_as_near_to_their_ideal_rows_as_they_can_be() -> None:
    chance = random.Random(7)
    for _ in range(50):
        layer = [
            character_layout._Item(chance.choice([0, 5]), chance.randint(1, 6)) for _ in range(chance.randint(1, 9))
        ]
        ideal = [chance.uniform(0, 20) for _ in layer]
        character_layout._fit_rows(layer, ideal)
        above = [sum(item.height for item in layer[:k]) for k in range(len(layer))]
        weights = [1 if item.width else character_layout._STRAIGHTNESS for item in layer]
        exact = isotonic_regression([x - y for x, y in zip(ideal, above, strict=True)], weights=weights).x
        for item, row, offset in zip(layer, exact, above, strict=True):
            assert abs(item.row - (row + offset)) <= 0.5 + 1e-9


def random_graph(chance: random.Random, most: int = 12) -> tuple[list[Extent], list[list[int]]]:
    """Sizes and inputs of boxes."""
    inputs = [
        [chance.randrange(i) for _ in range(chance.randint(0, min(i, 3)))] for i in range(chance.randint(1, most))
    ]
    return [Extent(chance.randint(1, 9), max(1, len(of) + chance.randint(0, 4))) for of in inputs], inputs


def test_layers_are_as_late_and_as_near_as_they_can_be() -> None:
    chance = random.Random(2)
    for _ in range(60):
        extents, inputs = random_graph(chance)
        found = BoxLayout(extents, inputs)

        def steps_below(i: int, inputs: list[list[int]] = inputs) -> int:
            """The length of the longest path to the last layer."""
            return max((1 + steps_below(k) for k in range(i, len(inputs)) if i in inputs[k]), default=0)

        columns = sorted({corner.column for corner in found.origins})
        assert [corner.column for corner in found.origins] == [columns[-1 - steps_below(i)] for i in range(len(inputs))]
        ends = [
            column
            + max(extent.width for corner, extent in zip(found.origins, extents, strict=True) if corner[0] == column)
            for column in columns
        ]
        turns = {piece.points[1].column for piece in found.segments if len(piece.points) == 4}
        for end, after in itertools.pairwise([*itertools.chain(*zip(columns, ends, strict=True))][1:]):
            if end in ends:  # a blank, the lines that turn with a blank after each, and two columns for the arrow
                tracks = sorted(turn for turn in turns if end <= turn < after)
                assert tracks == [*range(end + 1, after - 2, 2)]
        for piece in found.segments:  # the pieces of a line adjoin
            if piece.previous is not None:
                before = found.segments[piece.previous].points[-1]
                assert piece.points[0] == Cell(before.column + 1, before.row)
        rows = [row for piece in found.segments for _, row in piece.points]
        rows += [
            row
            for corner, extent in zip(found.origins, extents, strict=True)
            for row in range(corner.row, corner.row + extent.height)
        ]
        assert (min(rows), max(rows) + 1, ends[-1]) == (0, found.extent.height, found.extent.width)
        for i, sources in enumerate(inputs):
            entries = [found.segments[end].points[-1].row - found.origins[i].row for end in found.last_segments[i]]
            above, below = (entries or [0])[0], extents[i].height - 1 - (entries or [extents[i].height - 1])[-1]
            assert entries == [*range(above, above + len(sources))]
            assert not entries or 0 <= below - above <= 1


def test_lines_of_a_channel_turn_as_soon_as_they_can() -> None:
    chance = random.Random(5)
    for _ in range(150):
        rows, count = [*range(9)], chance.randint(1, 5)
        entries, exits = chance.sample(rows, count), chance.sample(rows, len(rows))
        leaving = (
            [exits[2 * k : 2 * k + chance.randint(1, 2)] for k in range(count)]
            if count < 5
            else [[x] for x in exits[:5]]
        )
        lines = [ChannelLine(entry, tuple(each)) for entry, each in zip(entries, leaving, strict=True)]
        bent = [line for line in lines if {*line.exit_rows} != {line.entry_row}]
        pairs = [(a, b) for a, b in itertools.permutations(bent, 2) if a.entry_row in b.exit_rows]  # a turns first
        tracks = assign_tracks(lines)
        orders = ({line: k for k, line in enumerate(order)} for order in itertools.permutations(bent))
        assert (tracks is not None) == any(all(order[a] < order[b] for a, b in pairs) for order in orders)
        if tracks is None:
            continue
        assert {*tracks} == {*bent}
        assert all(tracks[a] < tracks[b] for a, b in pairs)
        spans = {
            line: range(min(line.entry_row, *line.exit_rows), max(line.entry_row, *line.exit_rows) + 1) for line in bent
        }
        meeting = [(a, b) for a, b in itertools.permutations(bent, 2) if {*spans[a]} & {*spans[b]}]
        assert all(tracks[a] != tracks[b] for a, b in meeting)
        for line, track in tracks.items():
            earliest = max((tracks[a] + 1 for a, b in pairs if b == line), default=0)
            taken = {tracks[a] for a, b in meeting if b == line}
            assert {*range(earliest, track)} <= taken


def crossings(found: BoxLayout) -> int:
    """The number of pairs of lines between two layers that end in another order than they begin."""
    ends = [(piece.points[0], piece.points[-1]) for piece in found.segments]
    return sum(
        start.column == other_start.column and start.row < other_start.row and end.row > other_end.row
        for (start, end), (other_start, other_end) in itertools.permutations(ends, 2)
    )


def test_a_tree_has_no_crossings_and_other_graphs_have_fewer_than_in_the_order_of_their_boxes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance, counts = random.Random(3), []
    for _ in range(40):
        inputs: list[list[int]] = [[] for _ in range(chance.randint(2, 14))]
        unused = [0]
        for i in range(1, len(inputs)):
            chance.shuffle(unused)
            inputs[i] = [unused.pop() for _ in range(chance.randint(0, min(3, len(unused))))]
            unused.append(i)
        found = BoxLayout([Extent(3, 3 + len(of)) for of in inputs], inputs)
        assert crossings(found) == 0
    graphs = [[*([[]] * 4), *(chance.sample(range(4), chance.randint(1, 2)) for _ in range(4))] for _ in range(20)]
    for sweeps in (character_layout._SWEEP_COUNT, 0):
        monkeypatch.setattr(character_layout, "_SWEEP_COUNT", sweeps)
        counts.append([crossings(BoxLayout([Extent(3, 4)] * 8, inputs)) for inputs in graphs])
    assert all(count <= unsorted for count, unsorted in zip(*counts, strict=True))
    assert sum(counts[0]) < 0.4 * sum(counts[1])


def test_where_lines_change_places_the_next_layers_move_as_little_as_they_can() -> None:
    chance, moves = random.Random(1), set[int]()
    for _ in range(60):
        rows = [sorted(chance.sample(range(5), 4)) for _ in range(3)]
        layers = [[character_layout._Item(3, 1, row=row) for row in each] for each in rows]
        wirings = [chance.sample(range(4), 4) for _ in range(2)]
        for layer, after, wiring in zip(layers, layers[1:], wirings, strict=False):
            for item, k in zip(layer, wiring, strict=True):
                character_layout._link(item, after[k], 0)
        character_layout._route_lines(layers)
        assert [item.row - layers[0][0].row for item in layers[0]] == [row - rows[0][0] for row in rows[0]]
        for before, after, wiring in zip(layers, layers[1:], wirings, strict=False):
            known, old = rows[layers.index(before)], rows[layers.index(after)]
            moved = {(b.row - y) - (a.row - x) for a, x, b, y in zip(before, known, after, old, strict=True)}
            (move,) = moved
            possible = {
                by
                for by in range(-abs(move), abs(move) + 1)
                if assign_tracks([ChannelLine(x, (old[k] + by,)) for x, k in zip(known, wiring, strict=True)])
                is not None
            }
            assert move in possible <= {move, -move}
            moves.add(move)
    assert min(moves) < 0 < max(moves)
