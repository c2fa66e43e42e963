"""Interval Newton steps: no zero is lost, boxes without one are excluded, and small boxes shrink quadratically."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.array_types import Array
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import Number, float_bounds
from autodiff_cli.numbers.intervals import Intervals
from autodiff_cli.solving.proof import Domain, Prover
from autodiff_cli.solving.search import Boxes, NewtonStep, Search, System, centre_and_radius, kinds_of_points

# Systems with their zeros in [-4, 4].
SYSTEMS = {
    "x^3 - 3*x + 1": [(2 * np.cos(2 * np.pi * k / 9),) for k in (1, 2, 4)],
    "[x^2 + y^2 - 5, x*y - 2]": [(1, 2), (2, 1), (-1, -2), (-2, -1)],
    "[x + y - 3, x^2 - y - 3]": [((-1 + s * 5) / 2, 3 - (-1 + s * 5) / 2) for s in (1, -1)],
    "[x*y*z - 6, x + y + z - 6, x*y + y*z + z*x - 11]": [
        (1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)
    ],
}  # fmt: skip
READ = {text: read(text) for text in SYSTEMS}


def system_of(text: str) -> System:
    program = READ[text]
    equations = program.output.inputs if text.startswith("[") else (program.output,)
    return System(program.leaves, equations)


BY_TEXT = {text: system_of(text) for text in SYSTEMS}


def boxes_around(centres: Array, widths: Array) -> Boxes:
    return Boxes(centres - widths, centres + widths, np.zeros_like(centres))


@pytest.mark.parametrize("text", SYSTEMS)
@given(st.integers(0, 10**9))
def test_steps_keep_all_zeros(text: str, seed: int) -> None:
    system, zeros, chance = BY_TEXT[text], np.array(SYSTEMS[text], dtype=float).T, np.random.default_rng(seed)
    size = len(zeros)
    widths = 10 ** chance.uniform(-9, 0.5, (1, 300)) * chance.uniform(0.2, 1, (size, 300))
    at = zeros[:, chance.integers(0, zeros.shape[1], 300)]
    boxes = boxes_around(at + widths * chance.uniform(-1.2, 1.2, (size, 300)), widths)
    step = NewtonStep(system, boxes)
    narrowed = system.contract(boxes)
    for zero in zeros.T[..., None]:
        slack = 1e-14 * np.abs(zero) + 1e-15  # the zeros themselves are rounded
        inside = ((boxes.lower < zero - slack) & (zero + slack < boxes.upper)).all(axis=0)
        for low, high in ((step.lower, step.upper), (narrowed.lower, narrowed.upper)):
            kept = ((low <= zero + slack) & (zero - slack <= high)).all(axis=0)
            assert kept[inside].all()
        count = sum(
            ((boxes.lower <= other) & (other <= boxes.upper)).all(axis=0).astype(int) for other in zeros.T[..., None]
        )
        assert (count[step.is_inside(boxes)] == 1).all()


@given(st.integers(0, 10**9))
def test_steps_along_a_face_keep_the_zeros_for_all_places_of_its_edge(seed: int) -> None:
    """An edge that is no float is an interval; the equation of a fixed coordinate is left out."""
    system, chance = BY_TEXT["[x^2 + y^2 - 5, x*y - 2]"], np.random.default_rng(seed)
    for fixed, zero in ((1, lambda y: np.sqrt(5 - y * y)), (0, lambda x: 2 / x)):
        edge, width = chance.uniform(0.5, 2, 300), 10 ** chance.uniform(-15, -1, 300)
        widths = 10 ** chance.uniform(-6, 0, 300)
        middle = zero(edge) + widths * chance.uniform(-1, 1, 300)
        ends = [np.empty((2, 300)), np.empty((2, 300))]
        for end, sign in zip(ends, (-1, 1), strict=True):
            end[fixed], end[1 - fixed] = edge + sign * width, middle + sign * widths
        side = np.zeros((2, 300))
        side[fixed] = 1
        boxes = Boxes(*ends, side)
        step = NewtonStep(system, boxes)
        free, found = 1 - fixed, step.is_inside(boxes)
        for place in (-1, -0.5, 0, 1):
            at = zero(edge + place * width)
            inside = (boxes.lower[free] < at - 1e-14) & (at + 1e-14 < boxes.upper[free])
            assert ((step.lower[free] <= at + 1e-14) & (at - 1e-14 <= step.upper[free]))[inside].all()
            assert inside[found].all()
        assert (step.lower[fixed] == ends[0][fixed]).all()


@pytest.mark.parametrize("k", [10, 20, 30, 40])
def test_steps_keep_the_zero_of_a_system_that_is_nearly_singular(k: int) -> None:
    """Neighbouring Fibonacci numbers have the determinant 1, and rounding errors are as large as the equations."""
    numbers = [1, 1]
    while len(numbers) <= k:
        numbers.append(numbers[-1] + numbers[-2])
    (c, b, a), chance = numbers[-3:], np.random.default_rng(k)
    for x, y in ((1, 1), (3, -7), (0, 5)):
        program = read(f"[{a}*x + {b}*y - ({a * x + b * y}), {b}*x + {c}*y - ({b * x + c * y})]")
        zero = np.array([[x], [y]], float)
        widths = 10 ** chance.uniform(-14, 0.5, (1, 1000)) * chance.uniform(0.2, 1, (2, 1000))
        places = np.where(
            chance.random((2, 1000)) < 0.3, chance.choice([-1, 1], (2, 1000)), chance.uniform(-1, 1, (2, 1000))
        )
        lower = np.minimum(zero + widths * (places - 1), zero)  # with the zero on many an edge
        upper = np.maximum(zero + widths * (places + 1), zero)
        step = NewtonStep(System(program.leaves, program.output.inputs), Boxes(lower, upper, np.zeros_like(lower)))
        assert ((step.lower <= zero) & (zero <= step.upper)).all()


@pytest.mark.parametrize("text", SYSTEMS)
def test_small_boxes_around_a_zero_are_proven_and_shrink_quadratically(text: str) -> None:
    system, zeros = BY_TEXT[text], np.array(SYSTEMS[text], dtype=float).T
    for width in (1e-2, 1e-4, 1e-6):
        widths = np.full_like(zeros, width)
        boxes = boxes_around(zeros + width / 7, widths)
        step = NewtonStep(system, boxes)
        assert step.is_valid.all()
        assert step.is_regular.all()
        assert not step.is_hidden.any()
        assert width > 1e-3 or step.is_inside(boxes).all()
        assert (step.upper - step.lower < 300 * width**2 + 1e-13).all()
        assert np.abs(step.lower / 2 + step.upper / 2 - zeros).max() < 200 * width**2 + 1e-14
        slopes = np.array([[*row] for row in system.enclose_jacobian(zeros, zeros).lower]).reshape(
            len(zeros), -1, zeros.shape[1]
        )
        assert step.smear == pytest.approx(np.abs(slopes).max(axis=0) * width, rel=0.5)


@pytest.mark.parametrize("text", SYSTEMS)
def test_small_boxes_beside_a_zero_are_excluded(text: str) -> None:
    system, zeros = BY_TEXT[text], np.array(SYSTEMS[text], dtype=float).T
    for width in (1e-3, 1e-6):
        for side in (-1, 1):
            boxes = boxes_around(
                zeros + side * 40 * width * np.arange(1, len(zeros) + 1)[:, None], np.full_like(zeros, width)
            )
            step = NewtonStep(system, boxes)
            assert ((step.lower > boxes.upper) | (step.upper < boxes.lower)).any(axis=0).all()
            assert not step.is_inside(boxes).any()


@given(st.integers(0, 10**9), st.integers(1, 3))
def test_kinds_are_the_signs_of_the_eigenvalues(seed: int, size: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = np.round(chance.normal(size=(size, size)), 3)
    hessian = matrix + matrix.T
    values = np.linalg.eigvalsh(hessian)
    terms = [f"({hessian[i, j]})*{'xyz'[i]}*{'xyz'[j]}/2" for i in range(size) for j in range(size)]
    program = read(" + ".join(terms))
    system = System.of_objective({name: program.leaves[name] for name in "xyz"[:size]}, program.output)
    ends = np.zeros((size, 1))
    (kind,) = kinds_of_points(system, ends - 1e-9, ends + 1e-9, ends)
    if np.abs(values).min() > 1e-6:
        assert kind == ("minimum" if values[0] > 0 else "maximum" if values[-1] < 0 else "saddle")
    assert kinds_of_points(system, ends, ends, ends + 1) == ["minimum"]


@given(st.integers(0, 10**9), st.integers(2, 4))
def test_no_kind_is_claimed_where_an_eigenvalue_is_zero(seed: int, size: int) -> None:
    """A sum of fewer squares than unknowns; rounding errors move its zero eigenvalue to either side of 0."""
    roots = np.random.default_rng(seed).integers(-9, 10, (size - 1, size))
    squares = ["(" + " + ".join(f"({k})*{name}" for k, name in zip(row, "wxyz", strict=False)) + ")^2" for row in roots]
    program = read(" + ".join(squares))
    system = System.of_objective({name: program.leaves[name] for name in "wxyz"[:size]}, program.output)
    ends = np.zeros((size, 1))
    assert kinds_of_points(system, ends, ends, ends) == ["degenerate"]


@given(st.floats(-2, 2), st.floats(0.01, 2), st.floats(1e-6, 3))
def test_a_kind_is_that_of_every_point_of_a_box(c: float, beyond: float, radius: float) -> None:
    """The Hessian of x³/6 + c·x·y + y²/2 is regular but for x = c², where its determinant x - c² is 0."""
    program = read(f"x^3/6 + ({c!r})*x*y + y^2/2")
    system = System.of_objective(program.leaves, program.output)
    for side, kind in ((1, "minimum"), (-1, "saddle")):
        middle = np.array([[c * c + side * beyond], [0.3]])
        widths = np.array([[radius], [0.0]])
        (found,) = kinds_of_points(system, middle - widths, middle + widths, np.zeros((2, 1)))
        assert found in ((kind, "degenerate") if radius < beyond else ("degenerate",))
        assert found == kind or radius > beyond / (20 * (1 + c * c))


def test_a_centre_and_a_radius_cover_an_interval() -> None:
    chance = np.random.default_rng(1)
    lower = chance.normal(size=400) * 10.0 ** chance.integers(-9, 9, 400)
    upper = lower + np.abs(lower) * 10.0 ** chance.uniform(-15, 3, 400)
    centre, radius = centre_and_radius(Intervals.between(lower, upper))
    assert (centre - radius <= lower).all()
    assert (centre + radius >= upper).all()


def test_functions_on_faces_are_enclosed_beside_them_towards_the_inside() -> None:
    """Three boxes: the lower face of a coordinate, a box between its ends, and the upper face."""
    boxes = Boxes(np.array([[0.0, 0.2, 1.0]]), np.array([[0.0, 0.4, 1.0]]), np.array([[-1.0, 0.0, 1.0]]))
    search = Search(BY_TEXT["x^3 - 3*x + 1"], *np.array([[[0.0]], [[1.0]], [[0.0]], [[1.0]]]), 0)
    ends: list[Array] = []
    search._enclose_beside(lambda lower, upper: ends.extend((lower, upper)), boxes)  # type: ignore[arg-type, return-value]
    (_, *inner_lower), (*inner_upper, _) = ends[0][0], ends[1][0]
    assert (ends[0][0, 0], ends[1][0, 2], inner_lower[0], inner_upper[1]) == (0.0, 1.0, 0.2, 0.4)
    assert 0 < inner_upper[0] < 1e-3
    assert 1 - 1e-3 < inner_lower[1] < 1


def prove(system: System, boxes: Boxes) -> list[list[Number] | None]:
    """Return an enclosure of the zero in each box; None where there is no proof."""
    return Prover(system, Domain([], []), 256).prove(boxes)


def test_zeros_are_proven_where_there_are_some_and_nowhere_else() -> None:
    for text, zeros in SYSTEMS.items():
        near = np.array(zeros).T
        for found, zero in zip(prove(BY_TEXT[text], Boxes(near - 0.01, near + 0.02, 0 * near)), zeros, strict=True):
            assert found is not None
            np.testing.assert_allclose([float_bounds(x) for x in found], np.transpose([zero, zero]), rtol=1e-14)
    ends = np.array([[-1.0, 0.5, 40.0]])
    for text in ("exp(x)", "1/x", "x^2 + 1", "sqrt(x^2 + 1)", "3 + sin(x)"):
        program = read(text)
        assert prove(System(program.leaves, [program.output]), Boxes(ends, ends + 1, 0 * ends)) == [None] * 3
    for size, is_known in (("1e20", True), ("1e60", False)):  # where most of the 256 bits cancel, digits would be wrong
        program, pi = read(f"({size} + x) - ({size} + pi)"), np.array([[3.14]])
        (found,) = prove(System(program.leaves, [program.output]), Boxes(pi - 0.1, pi + 0.1, 0 * pi))
        assert (found is not None) is is_known
