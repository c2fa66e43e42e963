"""Drawings in images, pages and exercise sheets: nothing is cut off or covered, and arrows touch their boxes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.render import drawing
from autodiff_cli.render.drawing import Role, View, build_drawing, to_svg
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.layout import TITLE_HEIGHT, Point, Rectangle, Size
from autodiff_cli.render.lesson import exercise_sheet

CALLS = "f(t, u) = tanh(t*u + 1); h = f(a, x); g(p) = p*h + f(p, a); k = g(x) + g(a); f(a, h) + f(k, x)*2"
CUT = "sin(x/(a*x*1.2345e-9 + a*x*1.2345e-9) + max(a, a))"  # a long number stands left of all boxes
TEXTS = [
    "x",
    CUT,
    "x + x",
    "x*a + sin(x)",
    "max(x, a)/sqrt(x^2 + a^2) + x",
    CALLS,
    f"{CALLS} + exp(k) + sin(f(k, a))*f(h, a)",
]
ROUNDING = 0.11  # pixels: coordinates have one decimal
BEND = 6 + ROUNDING
MARGIN = 7.4
PADDING = 2  # between the side of a frame and its title, at least


def traced(text: str) -> Trace:
    formula, point = parse(text), {"a": 12.345678, "x": 0.7}
    return trace(formula, {name: point[name] for name in formula.variables})


def image_in(text: str) -> ElementTree.Element:
    """Return the first drawing in a text, without its name space."""
    (svg,) = re.findall(r'<svg [^>]*class="autodiff".*?</svg>', text, re.DOTALL)[:1]
    return ElementTree.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def images(trace: Trace) -> dict[str, ElementTree.Element]:
    """Return the drawing of a trace in every kind of file that has one."""
    files = {"svg": to_svg(build_drawing(trace), number_formats(None)[1]), "exercise": exercise_sheet(trace, View())}
    return {kind: image_in(text) for kind, text in files.items()}


def rectangles(image: ElementTree.Element, kind: str) -> Iterator[Rectangle]:
    for shape in image.iter("rect"):
        if shape.get("class") == kind:
            x, y, width, height = (float(shape.get(key, "nan")) for key in ("x", "y", "width", "height"))
            yield Rectangle(Point(x + width / 2, y + height / 2), Size(width, height))


def points_of(path: str) -> list[Point]:
    return [Point(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]


def is_on_border(place: Rectangle, point: Point) -> bool:
    beyond = [abs(point[k] - place.centre[k]) - place.size[k] / 2 for k in (0, 1)]
    return max(beyond) == pytest.approx(0, abs=2 * ROUNDING)


def are_apart(one: Rectangle, other: Rectangle) -> bool:
    return any(abs(one.centre[k] - other.centre[k]) >= (one.size[k] + other.size[k]) / 2 - 2 * ROUNDING for k in (0, 1))


def space_around(image: ElementTree.Element, shapes: list[Rectangle]) -> tuple[float, ...]:
    """Return how far the shapes stay from the left, right, upper and lower side of the image."""
    left, top, width, height = map(float, image.get("viewBox", "").split())
    moved = image.find("g[@transform]")
    across, down = points_of((moved.get("transform") or "").replace(",", " "))[0] if moved is not None else Point(0, 0)
    return (
        min(shape.centre.x - shape.size.width / 2 for shape in shapes) + across - left,
        left + width - across - max(shape.centre.x + shape.size.width / 2 for shape in shapes),
        min(shape.centre.y - shape.size.height / 2 for shape in shapes) + down - top,
        top + height - down - max(shape.centre.y + shape.size.height / 2 for shape in shapes),
    )


def titles(image: ElementTree.Element) -> Iterator[tuple[Rectangle, Point]]:
    """Yield each frame, and where its title begins."""
    for group in image.iter("g"):
        if group.get("class") == "group" and (text := group.find("text")) is not None:
            yield next(rectangles(group, "enclosure")), Point(*(float(text.get(key, "nan")) for key in "xy"))


def edges(image: ElementTree.Element) -> Iterator[tuple[str, str, list[ElementTree.Element]]]:
    """Yield the ends of each edge, and the paths of its line and its head."""
    for group in image.iter("g"):
        if "data-from" in group.attrib:
            yield group.get("data-from", ""), group.get("data-to", ""), group.findall("path")


def boxes_of(image: ElementTree.Element) -> dict[str, list[Rectangle]]:
    """Return the boxes of each node: the first is its own, others are those of duplicates."""
    boxes: dict[str, list[Rectangle]] = {}
    for key in ("data-node", "data-copy"):
        for group in image.iter("g"):
            if key in group.attrib:
                boxes.setdefault(group.get(key, ""), []).append(next(rectangles(group, "outline")))
    return boxes


@pytest.mark.parametrize("text", TEXTS)
def test_every_arrow_leads_from_box_to_box_and_nothing_is_covered_or_cut_off(text: str) -> None:
    found = traced(text)
    for kind, image in images(found).items():
        boxes = boxes_of(image)
        every = [box for several in boxes.values() for box in several]
        numbers = [*rectangles(image, "room")]
        assert len(boxes) == len(found.tape.nodes)
        for one, other in itertools.combinations(every, 2):
            assert are_apart(one, other), kind
        places = [*every, *numbers, *rectangles(image, "enclosure")]
        for source, target, (line, head) in edges(image):
            points, corners = points_of(line.get("d", "")), points_of(head.get("d", ""))
            assert any(is_on_border(box, points[0]) for box in boxes[source]), kind
            assert is_on_border(boxes[target][0], points[-1]), kind
            assert corners[0] == points[-1]
            check_line(line.get("d", ""))
            check_head(corners, points[-2])
            places += [Rectangle(point, Size(0, 0)) for point in points]
        for frame, title in titles(image):
            assert frame.centre.x - frame.size.width / 2 < title.x - PADDING, kind
            assert abs(title.y - (frame.centre.y - frame.size.height / 2 + TITLE_HEIGHT / 2)) < TITLE_HEIGHT / 2, kind
        assert min(space_around(image, places)) > MARGIN, kind


def check_line(path: str) -> None:
    """A line goes up, down and sideways only, and each bend is rounded within its two stretches."""
    words = re.findall(r"([MLQ])([^MLQ]*)", path)
    here, ahead = points_of(words[0][1])[0], None
    for word, text in words[1:]:
        *control, end = points_of(text)
        if word == "Q":
            (corner,) = control
            assert is_straight(here, corner)
            assert is_straight(corner, end)
            for k in (0, 1):
                assert abs(here[k] - corner[k]) <= BEND
                assert abs(end[k] - corner[k]) <= BEND
        else:
            assert is_straight(here, end)
        here, ahead = end, end
    assert ahead is not None


def is_straight(start: Point, end: Point) -> bool:
    return min(abs(start.x - end.x), abs(start.y - end.y)) < 1


def check_head(corners: list[Point], before: Point) -> None:
    """The tip of a head points the way in which its line ends; the head is as wide as it is long."""
    tip, first, second = corners
    base = Point((first.x + second.x) / 2, (first.y + second.y) / 2)
    way, line = (Point(tip.x - start.x, tip.y - start.y) for start in (base, before))
    assert math.dist(tip, base) == pytest.approx(math.dist(first, second), abs=3 * ROUNDING)
    assert way.x * line.x + way.y * line.y == pytest.approx(math.hypot(*way) * math.hypot(*line), rel=0.01)


@pytest.mark.parametrize("role", Role)
def test_a_text_has_room_in_the_innermost_border_of_its_box(role: Role) -> None:
    texts = ["x*sin(y)", "12.5"]
    gap = drawing._BORDER_GAP * (role in (Role.OUTPUT, Role.FOLDED))
    size, text_width = drawing._box_size(role, texts), 8 * drawing._CHARACTER_WIDTH
    assert size.width >= text_width + 2 * (gap + drawing._PADDING)
    assert size.height >= len(texts) * drawing._LINE_HEIGHT + 2 * gap * (role is Role.OUTPUT)
