"""Random effects beside TMB: its example `orange_big`, five trees copied 1,000 times, each with an effect of its own.

`python benchmarks/random_effects.py` prints estimates and standard errors beside those of TMB, and the seconds of the
fit in one process, with the imports. The expected values are those of `tmb_examples/orange_big.expected.RData` of
https://github.com/kaskr/adcomp (Kristensen et al. 2016), which also has its times: 3.3 s to compile, 2.8 s to run.
"""

from __future__ import annotations

import time

START = time.perf_counter()

import numpy as np  # noqa: E402 - its import is part of the time

import autodiff_cli as ad  # noqa: E402

AGES = (118, 484, 664, 1004, 1231, 1372, 1582)
SIZES = (
    *(30, 58, 87, 115, 120, 142, 145, 33, 69, 111, 156, 172, 203, 203, 30, 51, 75, 108, 115, 139, 140),
    *(32, 62, 112, 167, 179, 209, 214, 30, 49, 81, 125, 142, 174, 177),
)
COPIES = 1000
EXPECTED = {  # estimates and standard errors
    "A": (192.053151945854, 0.4951388661),
    "m": (727.906338949406, 1.1146602428),
    "c": (348.073042277803, 0.8563382188),
    "s": (31.6462977670786, 0.3244955068),
    "sigma": (7.84301302559632, 0.0320189942),
}


def main() -> None:
    """Fit, and print a table."""
    data = {
        "age": np.tile(AGES, 5 * COPIES),
        "size": np.tile(SIZES, COPIES),
        "tree": np.repeat(np.arange(5 * COPIES), len(AGES)),
    }
    model = "size ~ (A + u[tree])/(1 + exp(-(age - m)/c))"
    fit = ad.fit(model, data, laplace="u", priors={"u[tree]": "normal(0, s)"})
    seconds = time.perf_counter() - START
    print("parameter     estimate          TMB  difference |     error          TMB  difference")
    for name, (value, error) in EXPECTED.items():
        found, its = fit.parameters[name], fit.stderr[name]
        print(
            f"{name:9} {found:12.6f} {value:12.6f}  {found / value - 1:10.1e} | "
            f"{its:9.6f} {error:12.6f}  {its / error - 1:10.1e}"
        )
    print(f"{5 * COPIES} effects, {fit.rows} rows, {fit.epochs} iterations: {seconds:.1f} s with imports")


if __name__ == "__main__":
    main()
