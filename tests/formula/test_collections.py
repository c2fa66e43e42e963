"""Formulas as collections have them: physics, textbooks, integral tables, statistics, benchmark functions. Value,
gradient, Hessian and the printed derivatives hold against mpmath, which reads the same text as Python."""

from __future__ import annotations

import itertools
import random
from typing import Any

import mpmath
import pytest

import autodiff_cli as ad
from tests.each import each

FUNCTIONS = "acos acosh asin asinh atan atan2 atanh beta cos cosh cot csc digamma erf erfc exp gamma hypot lambertw ln"
FUNCTIONS += " log sec sech sin sinh sqrt tan tanh"
WORDS = {name: getattr(mpmath, name) for name in FUNCTIONS.split()}
WORDS |= {"pi": mpmath.pi, "e": mpmath.e, "abs": abs, "Ei": mpmath.ei, "Si": mpmath.si, "Ci": mpmath.ci}
WORDS |= {"lgamma": mpmath.loggamma, "normal_cdf": mpmath.ncdf, "fresnels": mpmath.fresnels, "log10": mpmath.log10}
WORDS |= {"sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "softplus": lambda x: mpmath.log(1 + mpmath.exp(x))}

# By the interval in which the variables lie.
COLLECTIONS: dict[tuple[float, float], str] = {
    (0.4, 1.6): """
        exp(-((theta - mu)/sigma)^2/2)/(sqrt(2*pi)*sigma)
        sqrt((x2 - x1)^2 + (y2 - y1)^2)
        G*m1*m2/((x2 - x1)^2 + (y2 - y1)^2 + (z2 - z1)^2)
        q1*q2*r/(4*pi*epsilon*r^3)
        q*(Ef + B*v*sin(theta))
        G*m1*m2*(1/r2 - 1/r1)
        m*(v^2 + u^2 + w^2)/2
        (m1*r1 + m2*r2)/(m1 + m2)
        1/(1/d1 + n/d2)
        I0*sin(n*theta/2)^2/sin(theta/2)^2
        I1 + I2 + 2*sqrt(I1*I2)*cos(delta)
        n0*exp(-m*g*x/(kb*T))
        h*omega^3/(pi^2*c^2*(exp(h*omega/(2*pi*kb*T)) - 1))
        n*kb*T*ln(V2/V1)
        sqrt(gamma*pr/rho)
        x1*(cos(omega*t) + alpha*cos(omega*t)^2)
        3*p*z*sqrt(x^2 + y^2)/(4*pi*epsilon*r^5)
        n*rho*tanh(rho*B/(kb*T))
        n0/(exp(mom*B/(kb*T)) + exp(-mom*B/(kb*T)))
        p*t*sin((w - w0)*t/2)^2/((w - w0)*t/2)^2
        2*pi*d^(3/2)/sqrt(G*(m1 + m2))
        F0/(m*sqrt((w0^2 - w^2)^2 + gamma^2*w^2))
        4*eps*((s/r)^12 - (s/r)^6)
        D*(1 - exp(-a*(r - re)))^2
        Vmax*S/(Km*(1 + I/Ki) + S)
        K/(1 + (K - P0)/P0*exp(-r*t))
        A*sin(2*pi*f*t + phi)*exp(-t/tc)
        P*r*(1 + r)^n/((1 + r)^n - 1)
        S*normal_cdf((ln(S/K) + (r + s^2/2)*T)/(s*sqrt(T)))
        n*R*T/(V + n*b) - a*n^2/V^2
        sqrt(R^2 + (w*L - 1/(w*C))^2)
        2*pi*sqrt(l/g)*(1 + sin(theta/2)^2/4)
        x^(2/3) - x^(1/3)
        (x^2 + 1)*(x^3 - 2)
        sqrt(x)*(1 - x)
        sin(x)/(1 + cos(x))
        tan(sqrt(x))
        sec(x)*tan(x)
        csc(x) + cot(x)
        x^2*exp(-x^2)
        (exp(x) - exp(-x))/(exp(x) + exp(-x))
        exp(x)*exp(-x^2)*exp(y)
        2^x*x^2
        x^x
        x^sin(x)
        sin(x)^x
        ln(x)/x
        ln(x + sqrt(x^2 + 1))
        ln(sec(x) + tan(x))
        log10(x^2 + 1)
        x*atan(x) - ln(1 + x^2)/2
        asinh(x/a)
        sqrt(x + sqrt(x + sqrt(x)))
        (x^2 + 3*x + 2)^5
        1/(1 + 1/(1 + 1/x))
        (1 + 1/x)^x
        x^2*y^3 - 3*x*y + y^2
        x*y*z/(x + y + z)
        x^y*y^x
        atan2(y, x)
        x^a*x^b/x
        (x^a)^b
        e^(2*x)*e^-x
        a*b/(c*d)/(a + b)*x
        sqrt(4*x) + sqrt(x^3)/sqrt(x)
        x*sqrt(a^2 + x^2)/2 + a^2/2*ln(x + sqrt(a^2 + x^2))
        x/a - b/a^2*ln(a*x + b)
        2*(3*a*x - 2*b)/(15*a^2)*(a*x + b)^(3/2)
        -1/b*ln((a*x + b)/x)
        exp(a*x)*(a*sin(b*x) - b*cos(b*x))/(a^2 + b^2)
        exp(a*x)*(x^2/a - 2*x/a^2 + 2/a^3)
        sin(x)^3/3 - sin(x)
        tan(a*x/2)/a - x
        x*(ln(x)^2 - 2*ln(x) + 2)
        x^(n + 1)*(ln(x)/(n + 1) - 1/(n + 1)^2)
        ln((x + 1)^2/(x^2 - x + 1))/6 + atan((2*x - 1)/sqrt(3))/sqrt(3)
        -x/(2*(x^2 + a^2)) + atan(x/a)/(2*a)
        -sqrt(x^2 + a^2)/(a^2*x)
        (a + b*x)^m*(c + d*x)^n
        x^m*(a + b*x^n)^p
        (d + f*x)/(a + b*x + c*x^2)
        cos(x)^2/sqrt(1 + cos(x)^2 + cos(x)^4)
        x*ln(1 + x^2)*ln(x + sqrt(1 + x^2))/sqrt(1 + x^2)
        x*erf(x) + exp(-x^2)/sqrt(pi)
        sqrt(pi/(4*a))*exp(b^2/(4*a))*erf(sqrt(a)*x + b/(2*sqrt(a)))
        x*Ei(x) - exp(x)
        x*Si(x) + cos(x)
        x*Ci(x) - sin(x)
        x*fresnels(x) + cos(pi*x^2/2)/pi
        x*(lambertw(x) - 1 + 1/lambertw(x))
        gamma(x + 1)/gamma(x)
        x*beta(x, y)
        lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1)*ln(x)
        x^(k - 1)*exp(-x/theta)/(gamma(k)*theta^k)
        gamma((n + 1)/2)/(sqrt(n*pi)*gamma(n/2))*(1 + t^2/n)^(-(n + 1)/2)
        k/l*(x/l)^(k - 1)*exp(-(x/l)^k)
        exp(-(ln(x) - m)^2/(2*s^2))/(x*s*sqrt(2*pi))
        k*ln(l) - l - lgamma(k + 1)
        exp(-(x^2 + y^2)/(4*D*t))/(4*pi*D*t)^(3/2)
        sqrt(x)/ln(y + 1)*exp(z)/v^2
        tan(x/2)/tan(y/2)*tan(z/2)/tan(v/2)
    """,
    (-1.7, 1.7): """
        x^3 - 4*x + 7
        sin(x)*cos(x)
        cos(3*x - 1)^4
        exp(sin(x))*cos(x)
        exp(x)/(1 + exp(x))
        sinh(x)*cosh(x) - tanh(x)^2 + sech(x)^2
        exp(x*y)*sin(x + y)
        x/(1 + x^2 + y^2)
        cos(x - c*t) + cos(x + c*t)
        (x + 1)^2*(x - 1)^3/(x^2 + 1)
        ln(1 + x^2 + y^2)
        sqrt(1 + x^2) - 1
        abs(x)*x + abs(-x)^3
        sin(-x)*cos(-x)
        sin(x)^2 + cos(x)^2
        (x + y)^2 - x^2 - 2*x*y - y^2
        hypot(x, y)
        (1 - x)^2 + 100*(y - x^2)^2
        (x^2 + y - 11)^2 + (x + y^2 - 7)^2
        -20*exp(-sqrt((1 + x^2 + y^2)/2)/5) - exp((cos(2*pi*x) + cos(2*pi*y))/2) + e + 20
        -cos(x)*cos(y)*exp(-((x - pi)^2 + (y - pi)^2))
        (4 - 2*x^2 + x^4/3)*x^2 + x*y + (4*y^2 - 4)*y^2
        1 + (x^2 + y^2)/4000 - cos(x)*cos(y/sqrt(2))
        sin(x^2)*cos(x) - 1
        exp(-x)*x^3*cos(x)*sin(x)*(cos(x)*sin(x)^2 - 1)*(y - 5)
        x*y + sin((x - 1)*(y - 1))
        10/(5 + (x - 3)^2 + (y - 3)^2)
        x*sigmoid(x)
        x*tanh(softplus(x))
        x/2*(1 + erf(x/sqrt(2)))
        x/2*(1 + tanh(sqrt(2/pi)*(x + x^3/22)))
        ln(cosh(x))
        ln(1 + exp(-y*x))
        exp(x)/(exp(x) + exp(y) + exp(z))
        x^2*sin(1/(2 + x))/(2 + sin(x*y))
        erfc(x)*exp(x^2)
        atan(sinh(x))*asinh(tan(x/2))
    """,
    (0.1, 0.45): """
        m0*v/sqrt(1 - v^2/c^2*(1/10))
        (u + v)/(1 + u*v)
        asin(n*sin(theta))
        acos((cos(theta) - v)/(1 - v*cos(theta)))
        x*asin(x) + sqrt(1 - x^2)
        acos(x)/sqrt(1 - x^2)
        ln((1 + x)/(1 - x))/2
        atanh(sin(x))
        sqrt((1 - x)/(1 + x))
        x^3*asin(x)/sqrt(1 - x^4)
        x^3*exp(asin(x))/sqrt(1 - x^2)
        x*atan(x + sqrt(1 - x^2))/sqrt(1 - x^2)
        asin(x)/(1 + sqrt(1 - x^2))
        (1 + x^2)/((1 - x^2)*sqrt(1 + x^4))
        ln(sin(x))*sqrt(1 + sin(x))
        (1 - p)^g*ln(p)
        -y*ln(p) - (1 - y)*ln(1 - p)
        2*asin(sqrt(sin((a - b)/2)^2 + cos(a)*cos(b)*sin((c - d)/2)^2 + x^4))
        gamma(x)*gamma(1 - x)
        digamma(x + 1) - 1/x
    """,
    (1.2, 1.9): """
        x*acosh(x) - sqrt(x^2 - 1)
        acosh(x)/sqrt(x - 1)
        x/2*sqrt(x^2 - 1) - ln(x + sqrt(x^2 - 1))/2
        ln(x)/(x^2*sqrt(x^2 - 1))
        acos(1/x)
        ln(ln(x))
        sqrt(k^2 - w^2/100 + pi^2/d^2)
        x*ln(x + sqrt(x^2 - 1))/sqrt(x^2 - 1)
    """,
}
TABLE = [(text.strip(), ends) for ends, texts in COLLECTIONS.items() for text in texts.strip().splitlines()]


def reference(text: str, names: tuple[str, ...]) -> Any:
    code = compile(text.replace("^", "**"), text, "eval")
    return lambda *point: mpmath.re(eval(code, {**WORDS, **dict(zip(names, point, strict=True))}))


def orders(count: int, *places: int) -> tuple[int, ...]:
    return tuple(places.count(i) for i in range(count))


@pytest.mark.slow
@each(("text", "ends"), TABLE, ids=[text for text, _ in TABLE], sampled=True)
def test_value_gradient_hessian_and_what_is_printed(text: str, ends: tuple[float, float]) -> None:
    f = ad.parse(text)
    names, count = f.variables, len(f.variables)
    chance = random.Random(text)
    point = {name: round(chance.uniform(*ends), 3) for name in names}
    hessian = f.hessian(point)
    slopes = {name: f.derivative(name) for name in names}
    with mpmath.workdps(40):
        exact, at = reference(text, names), tuple(map(mpmath.mpf, point.values()))
        value = float(exact(*at))
        gradient = [float(mpmath.diff(exact, at, orders(count, i))) for i in range(count)]
        size = max(abs(value), *map(abs, gradient))
        assert f(point) == pytest.approx(value, rel=1e-12, abs=1e-14)
        assert list(f.grad(point).values()) == pytest.approx(gradient, rel=1e-11, abs=1e-13 * size)
        for name, slope in zip(names, gradient, strict=True):
            assert value_of(str(slopes[name]), point) == pytest.approx(slope, rel=1e-10, abs=1e-12 * size)
        for i, j in itertools.combinations_with_replacement(range(min(count, 3)), 2):
            second = float(mpmath.diff(exact, at, orders(count, i, j)))
            close = pytest.approx(second, rel=1e-9, abs=1e-11 * size)
            assert hessian[i, j] == close
            assert value_of(str(slopes[names[i]].derivative(names[j])), point) == close


def value_of(text: str, point: dict[str, float]) -> Any:
    f = ad.parse(text, variables=point)
    return f({name: point[name] for name in f.variables})
