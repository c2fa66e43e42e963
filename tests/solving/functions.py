"""Published systems of equations, and functions with their global minima."""

from __future__ import annotations

_UNIT = (-1.0, 1.2)

# Equations, the box, and the number of solutions in it.
SYSTEMS: list[tuple[str, dict[str, tuple[float, float]], int]] = [
    ("[x^2 + y^2 == 1, y == x]", {"x": (-2, 2), "y": (-2, 2)}, 2),
    # Broyden's tridiagonal function (Moré, Garbow and Hillstrom 1981)
    (
        "[(3 - 2*a)*a - 2*b + 1, (3 - 2*b)*b - a - 2*c + 1, (3 - 2*c)*c - b - 2*d + 1, (3 - 2*d)*d - c + 1]",
        dict.fromkeys("abcd", _UNIT),
        1,
    ),
    # combustion chemistry at 3000 °C (Morgan 1987), with positive concentrations
    (
        "[b + 2*f + i + 2*j == 1e-5, c + h == 3e-5, a + c + 2*m + 2*h + i + j == 5e-5, d + 2*g == 1e-5, "
        "0.5140437e-7*m == a^2, 0.1006932e-6*f == 2*b^2, 0.7816278e-15*g == d^2, 0.1496236e-6*h == a*c, "
        "0.6194411e-7*i == a*b, 0.2089296e-14*j == a*b^2]",
        dict.fromkeys("abcdmfghij", (0.0, 1e-4)),
        1,
    ),
    # an interval-arithmetic benchmark of Moore and Jones 1977, with ten unknowns
    (
        "[a - 0.25428722 - 0.18324757*d*c*i, b - 0.37842197 - 0.16275449*a*j*f, c - 0.27162577 - 0.16955071*a*b*j, "
        "d - 0.19807914 - 0.15585316*g*a*f, m - 0.44166728 - 0.19950920*g*f*c, f - 0.14654113 - 0.18922793*h*m*j, "
        "g - 0.42937161 - 0.21180486*b*m*h, h - 0.07056438 - 0.17081208*a*g*f, i - 0.34504906 - 0.19612740*j*f*h, "
        "j - 0.42651102 - 0.21466544*d*h*a]",
        dict.fromkeys("abcdmfghij", (-2.0, 2.1)),
        1,
    ),
    # Broyden's banded function (Moré, Garbow and Hillstrom 1981) with five unknowns
    (
        "[a*(2+5*a^2)+1-b*(1+b), b*(2+5*b^2)+1-a*(1+a)-c*(1+c), c*(2+5*c^2)+1-a*(1+a)-b*(1+b)-d*(1+d), "
        "d*(2+5*d^2)+1-a*(1+a)-b*(1+b)-c*(1+c)-f*(1+f), f*(2+5*f^2)+1-a*(1+a)-b*(1+b)-c*(1+c)-d*(1+d)]",
        dict.fromkeys("abcdf", _UNIT),
        1,
    ),
    # Freudenstein and Roth 1963
    ("[-13 + x + ((5 - y)*y - 2)*y, -29 + x + ((y + 1)*y - 14)*y]", {"x": (-20, 20), "y": (-20, 20)}, 1),
    # Powell's badly scaled function, with moderate scales
    ("[10*x*y - 1, exp(-x) + exp(-y) - 1.01]", {"x": (0.01, 12), "y": (0.01, 12)}, 2),
    # the economics problem of Morgan 1987 with four and, as in Verschelde's collection, five unknowns
    (
        "[(a + a*b + b*c)*d - 1, (b + a*c)*d - 2, c*d - 3, a + b + c + 1]",
        {"a": (-10, 10), "b": (-10, 10), "c": (-10, 10), "d": (-10, 10)},
        2,
    ),
    (
        "[(a + a*b + b*c + c*d)*f - 1, (b + a*c + b*d)*f - 2, (c + a*d)*f - 3, d*f - 4, a + b + c + d + 1]",
        dict.fromkeys("abcdf", (-100.0, 101.0)),
        4,
    ),
]

# A name, the function, the box, and the global minimum over it.
# fmt: off
MINIMA: list[tuple[str, str, dict[str, tuple[float, float]], float]] = [
    ("Rosenbrock", "(1 - x)^2 + 100*(y - x^2)^2", {"x": (-5, 5), "y": (-5, 5)}, 0.0),
    ("Himmelblau", "(x^2 + y - 11)^2 + (x + y^2 - 7)^2", {"x": (-5, 5), "y": (-5, 5)}, 0.0),
    ("Beale", "(1.5 - x + x*y)^2 + (2.25 - x + x*y^2)^2 + (2.625 - x + x*y^3)^2", {"x": (-4.5, 4.5), "y": (-4.5, 4.5)}, 0.0),
    ("Booth", "(x + 2*y - 7)^2 + (2*x + y - 5)^2", {"x": (-10, 10), "y": (-10, 10)}, 0.0),
    ("Matyas", "0.26*(x^2 + y^2) - 0.48*x*y", {"x": (-10, 9), "y": (-10, 9)}, 0.0),
    ("Three-hump camel", "2*x^2 - 1.05*x^4 + x^6/6 + x*y + y^2", {"x": (-5, 5), "y": (-5, 5)}, 0.0),
    ("Six-hump camel", "(4 - 2.1*x^2 + x^4/3)*x^2 + x*y + (-4 + 4*y^2)*y^2", {"x": (-3, 3), "y": (-2, 2)}, -1.0316284534898774),
    ("McCormick", "sin(x + y) + (x - y)^2 - 1.5*x + 2.5*y + 1", {"x": (-1.5, 4), "y": (-3, 4)}, -1.9132229549810367),
    ("Branin", "(y - 5.1/(4*pi^2)*x^2 + 5/pi*x - 6)^2 + 10*(1 - 1/(8*pi))*cos(x) + 10", {"x": (-5, 10), "y": (0, 15)}, 0.39788735772973816),
    ("Rastrigin", "20 + x^2 - 10*cos(2*pi*x) + y^2 - 10*cos(2*pi*y)", {"x": (-5, 6), "y": (-5, 6)}, 0.0),
    ("Styblinski-Tang", "(x^4 - 16*x^2 + 5*x + y^4 - 16*y^2 + 5*y)/2", {"x": (-5, 5), "y": (-5, 5)}, -78.33233140754282),
    ("Dixon-Price", "(x - 1)^2 + 2*(2*y^2 - x)^2", {"x": (-10, 10), "y": (-10, 10)}, 0.0),
    ("Sphere", "x^2 + y^2 + z^2", {"x": (-5, 6), "y": (-5, 6), "z": (-5, 6)}, 0.0),
    ("Zakharov", "x^2 + y^2 + (0.5*x + y)^2 + (0.5*x + y)^4", {"x": (-5, 10), "y": (-5, 10)}, 0.0),
    ("Brown", "(x^2)^(y^2 + 1) + (y^2)^(x^2 + 1)", {"x": (0.5, 4), "y": (0.5, 4)}, 0.5**2.5 * 2),
    ("Hartmann 3", "-(1.0*exp(-3*(x-0.3689)^2-10*(y-0.117)^2-30*(z-0.2673)^2) + 1.2*exp(-0.1*(x-0.4699)^2-10*(y-0.4387)^2-35*(z-0.747)^2)"
     " + 3*exp(-3*(x-0.1091)^2-10*(y-0.8732)^2-30*(z-0.5547)^2) + 3.2*exp(-0.1*(x-0.03815)^2-10*(y-0.5743)^2-35*(z-0.8828)^2))",
     {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, -3.86278214782076),
    ("Trid 4", "(a-1)^2 + (b-1)^2 + (c-1)^2 + (d-1)^2 - a*b - b*c - c*d", dict.fromkeys("abcd", (-16.0, 16.0)), -16.0),
    ("Wood", "100*(b - a^2)^2 + (1 - a)^2 + 90*(d - c^2)^2 + (1 - c)^2 + 10.1*((b-1)^2 + (d-1)^2) + 19.8*(b-1)*(d-1)",
     dict.fromkeys("abcd", (-3.0, 3.0)), 0.0),
    ("Goldstein-Price", "(1+(x+y+1)^2*(19-14*x+3*x^2-14*y+6*x*y+3*y^2))*(30+(2*x-3*y)^2*(18-32*x+12*x^2+48*y-36*x*y+27*y^2))",
     {"x": (-2, 2), "y": (-2, 2)}, 3.0),
    ("Styblinski-Tang 5", " + ".join(f"({v}^4 - 16*{v}^2 + 5*{v})/2" for v in "abcdf"), dict.fromkeys("abcdf", (-5.0, 5.0)), -195.8308285188571),
    ("Rosenbrock 5", " + ".join(f"100*({v} - {u}^2)^2 + (1 - {u})^2" for u, v in ("ab", "bc", "cd", "df")),
     dict.fromkeys("abcdf", (-2.0, 2.2)), 0.0),
    ("Helical valley", "100*((z - 10*atan2(y, x)/(2*pi))^2 + (sqrt(x^2 + y^2) - 1)^2) + z^2",
     {"x": (0.1, 3), "y": (-3, 3.1), "z": (-3, 3.1)}, 0.0),
    ("Sum of different powers", "x^2 + y^2 + z^2 + (x + y + z)^4", {"x": (-1, 1.5), "y": (-1, 1.5), "z": (-1, 1.5)}, 0.0),
    ("Zakharov 5", "a^2 + b^2 + c^2 + d^2 + f^2 + (0.5*a + b + 1.5*c + 2*d + 2.5*f)^2 + "
     "(0.5*a + b + 1.5*c + 2*d + 2.5*f)^4", dict.fromkeys("abcdf", (-5, 10)), 0.0),
    ("Powell", "(x + 10*y)^2 + 5*(z - w)^2 + (y - 2*z)^4 + 10*(x - w)^4", dict.fromkeys("xyzw", (-4, 5)), 0.0),
    ("Griewank", "1 + (x^2 + y^2)/4000 - cos(x)*cos(y/sqrt(2))", {"x": (-10, 11), "y": (-10, 11)}, 0.0),
]
# fmt: on
