"""How long many fits of one model take, against loops over single fits of SciPy and iminuit.

Every case runs here and with its peer in the same minute; seconds and their ratio are printed. Peers get NumPy
functions and slices of arrays, and some of them only a share of the fits, which is scaled up.

    python benchmarks/batch.py [CASE ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import curve_fit, least_squares

import autodiff_cli as ad

ROWS = 20  # of a group
SHARE = 10  # one group in so many is fitted by a slow peer


def decay(x: Any, a: float, b: float) -> Any:
    """The model of least-squares groups."""
    return a * np.exp(-b * x)


def groups(count: int, noise: float = 0.02) -> dict[str, Any]:
    """Decays with a little noise."""
    generator = np.random.default_rng(0)
    x = np.tile(np.linspace(0, 3, ROWS), count)
    a, b = (np.repeat(generator.uniform(*ends, count), ROWS) for ends in ((1, 5), (0.2, 2)))
    y = decay(x, a, b) + noise * generator.normal(size=len(x))
    return {"x": x, "y": y, "group": np.repeat(np.arange(count), ROWS)}


def counts(count: int) -> dict[str, Any]:
    """Poisson counts that decay."""
    generator = np.random.default_rng(0)
    x = np.tile(np.linspace(0, 3, ROWS), count)
    a, b = (np.repeat(generator.uniform(*ends, count), ROWS) for ends in ((20, 100), (0.2, 1)))
    y = generator.poisson(decay(x, a, b)).astype(float)
    return {"x": x, "y": y, "group": np.repeat(np.arange(count), ROWS)}


def seconds(run: Callable[[], Any]) -> float:
    """Return how long a function takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def poisson_loss(x: Any, y: Any) -> Callable[[float, float], float]:
    """Return the negative log-likelihood of counts as a function of two parameters."""

    def loss(a: float, b: float) -> float:
        mean = decay(x, a, b)
        return float(np.sum(mean - y * np.log(mean)))

    return loss


def slices(count: int, share: int = 1) -> list[slice]:
    """Return the rows of one group in `share`."""
    return [slice(k * ROWS, (k + 1) * ROWS) for k in range(0, count, share)]


def poisson_groups() -> tuple[float, float]:
    """2,000 groups with a Poisson likelihood, against iminuit."""
    from iminuit import Minuit

    data = counts(2000)

    def peer() -> None:
        for rows in slices(2000, SHARE):
            minuit = Minuit(poisson_loss(data["x"][rows], data["y"][rows]), a=1, b=1)
            minuit.errordef = Minuit.LIKELIHOOD
            minuit.migrad()
            minuit.hesse()

    ours = seconds(lambda: ad.fit_by("y ~ a*exp(-b*x)", data, "group", family="poisson"))
    return ours, SHARE * seconds(peer)


def huber_groups() -> tuple[float, float]:
    """50 groups with Huber's loss and outliers, against SciPy."""
    data = groups(50)
    generator = np.random.default_rng(1)
    data["y"] = data["y"] + 3.0 * (generator.random(len(data["y"])) < 0.05)

    def peer() -> None:
        for rows in slices(50):
            x, y = data["x"][rows], data["y"][rows]
            least_squares(lambda p, x=x, y=y: decay(x, *p) - y, [1, 1], loss="huber", f_scale=0.03)  # type: ignore[misc]

    return seconds(lambda: ad.fit_by("y ~ a*exp(-b*x)", data, "group", loss="huber")), seconds(peer)


def bootstrap() -> tuple[float, float]:
    """2,000 resamples of 12 rows, against SciPy."""
    generator = np.random.default_rng(0)
    x = np.linspace(0, 3, 12)
    y = decay(x, 2.5, 1.3) + 0.05 * generator.normal(size=12)

    def peer() -> None:
        for _ in range(2000):
            rows = generator.integers(12, size=12)
            try:
                curve_fit(decay, x[rows], y[rows], [2.5, 1.3])
            except RuntimeError:
                continue

    return seconds(lambda: ad.fit("y ~ a*exp(-b*x)", {"x": x, "y": y}, bootstrap=2000)), seconds(peer)


def least_squares_groups() -> tuple[float, float]:
    """10,000 groups by least squares, against SciPy."""
    data = groups(10_000)

    def peer() -> None:
        for rows in slices(10_000, SHARE):
            curve_fit(decay, data["x"][rows], data["y"][rows], [1, 1])

    return seconds(lambda: ad.fit_by("y ~ a*exp(-b*x)", data, "group")), SHARE * seconds(peer)


def starts() -> tuple[float, float]:
    """200 starting points of a sum of a decay and a sinusoid, against SciPy."""
    generator = np.random.default_rng(0)
    x = np.linspace(0, 3, 100)

    def model(x: Any, a: float, b: float, c: float, d: float) -> Any:
        return a * np.exp(-b * x) + c * np.sin(d * x)

    y = model(x, 2.5, 1.3, 0.7, 3.1) + 0.02 * generator.normal(size=len(x))

    def peer() -> None:
        for _ in range(200):
            try:
                with np.errstate(all="ignore"):
                    curve_fit(model, x, y, generator.normal(size=4) * 3)
            except (RuntimeError, ValueError):
                continue

    return seconds(lambda: ad.fit("y ~ a*exp(-b*x) + c*sin(d*x)", {"x": x, "y": y}, starts=200)), seconds(peer)


def single() -> tuple[float, float]:
    """A fit of 50 rows, the median of 20, against SciPy."""
    generator = np.random.default_rng(0)
    x = np.linspace(0, 3, 50)
    y = decay(x, 2.5, 1.3) + 0.02 * generator.normal(size=50)
    ours, peers = [], []
    for _ in range(20):
        ours.append(seconds(lambda: ad.fit("y ~ a*exp(-b*x)", {"x": x, "y": y})))
        peers.append(seconds(lambda: curve_fit(decay, x, y, [1, 1])))
    return float(np.median(ours)), float(np.median(peers))


CASES = (poisson_groups, huber_groups, bootstrap, least_squares_groups, starts, single)


def main(*names: str) -> None:
    """Run the cases named, or all, and print seconds and ratios."""
    ad.fit("y ~ a*exp(-b*x)", {"x": [0.0, 1, 2, 3], "y": [3.0, 2, 1.2, 0.8]})  # imports are not measured
    print(f"{'case':22}  {'autodiff':>10}  {'peer':>10}  {'ratio':>7}")
    for case in CASES:
        if not names or case.__name__ in names:
            ours, peer = case()
            print(f"{case.__name__:22}  {ours:10.4f}  {peer:10.4f}  {ours / peer:7.2f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
