"""Posteriors beside the references of posteriordb, and the time of a fit with draws from the shell.

`python benchmarks/posterior.py [FOLDER]`: FOLDER is `posterior_database` of a clone of
https://github.com/stan-dev/posteriordb, which has the data and the reference draws (Magnusson et al. 2025). For each
posterior it prints the largest difference of a mean from that of the reference, in Monte Carlo standard errors of both,
the seconds of the fit, and effective draws of the slowest parameter per second. The goal is 4 standard errors. With
PyMC installed, it also prints effective draws per second beside those of nutpie with the model compiled by PyMC.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import autodiff_cli as ad
from autodiff_cli.training.fitting.posterior import summarize_draws

FLAT = ["sigma ~ uniform(0, 1e6)"]
HALF_CAUCHY = ["sigma ~ half_cauchy(2.5)"]
NES = (
    "partyid7 ~ b1 + b2*real_ideo + b3*race_adj + b4*(age_discrete == 2) + b5*(age_discrete == 3) + "
    "b6*(age_discrete == 4) + b7*educ1 + b8*gender + b9*income"
)
MESQUITE = "weight ~ b1 + b2*diam1 + b3*diam2 + b4*canopy_height + b5*total_height + b6*density + b7*group"
LOG_MESQUITE = (
    "log(weight) ~ b1 + b2*log(diam1) + b3*log(diam2) + b4*log(canopy_height) + b5*log(total_height) + "
    "b6*log(density) + b7*group"
)
BLR = ("y ~ " + " + ".join(f"b{k}*X{k}" for k in range(1, 6)), [*(f"b{k} ~ normal(0, 10)" for k in range(1, 6))])
AUTOREGRESSION = "y ~ alpha + " + " + ".join(f"b{k}*lag{k}" for k in range(1, 6))
AR_PRIORS = [f"{name} ~ normal(0, 10)" for name in ("alpha", *(f"b{k}" for k in range(1, 6)))]
MIXTURE = [("mu", "normal(0, 2)"), ("sigma", "half_normal(2)")]
SCHOOLS = ["a[school] ~ normal(mu, tau)", "mu ~ normal(0, 5)", "tau ~ half_cauchy(5)"]

# The reference, the data, the model, its priors, and the options of the fit.
POSTERIORS: list[tuple[str, str, str, list[str], dict[str, Any]]] = [
    ("kidiq-kidscore_momiq", "kidiq", "kid_score ~ b1 + b2*mom_iq", HALF_CAUCHY, {}),
    ("kidiq-kidscore_momhs", "kidiq", "kid_score ~ b1 + b2*mom_hs", HALF_CAUCHY, {}),
    (
        "kidiq-kidscore_interaction",
        "kidiq",
        "kid_score ~ b1 + b2*mom_hs + b3*mom_iq + b4*mom_hs*mom_iq",
        HALF_CAUCHY,
        {},
    ),
    ("kidiq-kidscore_momhsiq", "kidiq", "kid_score ~ b1 + b2*mom_hs + b3*mom_iq", HALF_CAUCHY, {}),
    ("earnings-logearn_height_male", "earnings", "log(earn) ~ b1 + b2*height + b3*male", FLAT, {}),
    ("arK-arK", "arK", AUTOREGRESSION, [*AR_PRIORS, "sigma ~ half_cauchy(2.5)"], {}),
    (
        "low_dim_gauss_mix-low_dim_gauss_mix",
        "low_dim_gauss_mix",
        "-log(theta*normal_pdf(y, mu1, sigma1) + (1 - theta)*normal_pdf(y, mu2, sigma2))",
        ["theta ~ beta(5, 5)", *(f"{p}{k} ~ {d}" for k in (1, 2) for p, d in MIXTURE)],
        {"likelihood": True, "bounds": {"mu2": ("mu1", None)}, "start": {"mu1": -1.0, "mu2": 1.0}},
    ),
    ("earnings-earn_height", "earnings", "earn ~ b1 + b2*height", FLAT, {}),
    ("earnings-logearn_height", "earnings", "log(earn) ~ b1 + b2*height", FLAT, {}),
    ("earnings-logearn_interaction", "earnings", "log(earn) ~ b1 + b2*height + b3*male + b4*height*male", FLAT, {}),
    ("mesquite-mesquite", "mesquite", MESQUITE, FLAT, {}),
    ("mesquite-logmesquite", "mesquite", LOG_MESQUITE, FLAT, {}),
    ("nes1980-nes", "nes1980", NES, FLAT, {}),
    ("sblri-blr", "sblri", BLR[0], [*BLR[1], "sigma ~ half_normal(10)"], {}),
    ("sblrc-blr", "sblrc", BLR[0], [*BLR[1], "sigma ~ half_normal(10)"], {}),
    ("kilpisjarvi_mod-kilpisjarvi", "kilpisjarvi_mod", "y ~ alpha + beta*x", FLAT, {}),
    (
        "eight_schools-eight_schools_noncentered",
        "eight_schools",
        "y ~ a[school]",
        SCHOOLS,
        {"sigma": "sigma", "absolute_sigma": True},
    ),
]


def read_zip(path: Path) -> Any:
    """The JSON document in an archive of one file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def read_columns(document: dict[str, Any]) -> dict[str, Any]:
    """The columns of the data: vectors, and those of a matrix as X1, X2 and so on."""
    if "K" in document and "T" in document:  # a series, with its earlier values as columns
        series, order = np.array(document["y"], float), document["K"]
        return {"y": series[order:], **{f"lag{k}": series[order - k : -k] for k in range(1, order + 1)}}
    rows = document.get("N", document.get("J"))
    columns = {name: np.array(values, float) for name, values in document.items() if np.shape(values) == (rows,)}
    for name, values in document.items():
        if np.ndim(values) == 2:
            columns |= {f"{name}{k}": column for k, column in enumerate(np.array(values, float).T, 1)}
    return columns | ({"school": [f"s{k}" for k in range(1, rows + 1)]} if "J" in document else {})


def reference_name(name: str) -> str:
    """The name of a parameter in posteriordb."""
    if name.startswith("a["):
        return f"theta[{name[3:-1]}]"
    base, number = name.rstrip("0123456789"), name[len(name.rstrip("0123456789")) :]
    return f"{'beta' if base == 'b' else base}[{number}]" if number else name


def compare_with_reference(folder: Path) -> None:
    """Print a line for each posterior."""
    for reference, data, model, priors, options in POSTERIORS:
        document = read_zip(folder / "data" / "data" / f"{data}.json.zip")
        if "pmualpha" in document:
            priors = [
                *priors,
                f"alpha ~ normal({document['pmualpha']}, {document['psalpha']})",
                f"beta ~ normal({document['pmubeta']}, {document['psbeta']})",
            ]
        began = time.perf_counter()
        fit = ad.fit(model, read_columns(document), priors=priors, posterior=1000, no_columns=True, **options)
        seconds = time.perf_counter() - began
        chains = read_zip(folder / "reference_posteriors" / "draws" / "draws" / f"{reference}.json.zip")
        exact = summarize_draws({name: np.array([chain[name] for chain in chains]) for name in chains[0]})
        worst, who = 0.0, ""
        for name, found in fit.posterior.items():
            known = exact[reference_name(name)]
            error = math.hypot(found.sd / math.sqrt(found.ess_bulk), known.sd / math.sqrt(known.ess_bulk))
            worst, who = max((worst, who), (abs(found.mean - known.mean) / error, name))
        rate = min(each.ess_bulk for each in fit.posterior.values()) / seconds
        line = f"{reference:42} {worst:5.2f} standard errors ({who:5}) {seconds:6.2f} s {rate:7.0f} draws/s"
        print(line, fit.divergences, "divergent", *fit.warnings)


def decay_columns() -> dict[str, np.ndarray]:
    """Return 50 rows of an exponential decay with noise."""
    x = np.linspace(0, 4, 50)
    return {"x": x, "y": 2.5 * np.exp(-1.3 * x) + np.random.default_rng(0).normal(0, 0.05, len(x))}


def compare_with_pymc() -> None:
    """Print effective draws of the slowest parameter of `y ~ a*exp(-b*x)` per second of processor time, of this program
    and of nutpie with the model compiled by PyMC, with and without the time of compiling; and their ratios.
    """
    import nutpie
    import pymc

    columns = decay_columns()
    x, y = columns["x"], columns["y"]

    def compile_model() -> Any:
        with pymc.Model() as model:
            a, b, sigma = pymc.Flat("a"), pymc.Flat("b"), pymc.HalfNormal("sigma", y.std(ddof=1))
            pymc.Normal("y", a * pymc.math.exp(-b * x), sigma, observed=y)
        return nutpie.compile_pymc_model(model)

    def draw_peer(seed: int) -> dict[str, Any]:
        settings = {"draws": 1000, "tune": 400, "chains": 4, "seed": seed, "progress_bar": False}
        trace = nutpie.sample(compiled, **settings)
        return summarize_draws({name: trace.posterior[name].values for name in ("a", "b", "sigma")})

    def draw_own(seed: int) -> dict[str, Any]:
        return ad.fit("y ~ a*exp(-b*x)", columns, posterior=1000, seed=seed).posterior

    began, wall = time.process_time(), time.perf_counter()
    compiled = compile_model()
    compiling, wall = time.process_time() - began, time.perf_counter() - wall
    print(f"PyMC compiles for {compiling:.1f} s of processor time, {wall:.1f} s of wall time")
    rates: dict[str, list[float]] = {"own": [], "peer": [], "peer, compiled for it": []}
    draw_own(0)  # caches of both are warm
    for seed in range(1, 6):
        for name, draw in (("own", draw_own), ("peer", draw_peer)):
            began = time.process_time()
            size = min(each.ess_bulk for each in draw(seed).values())
            seconds = time.process_time() - began
            rates[name].append(size / seconds)
            if name == "peer":
                rates["peer, compiled for it"].append(size / (seconds + compiling))
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    for name, rate in medians.items():
        print(f"{name:22} {rate:7.0f} effective draws/s; this program has {medians['own'] / rate:.2f} times as many")


def time_from_shell() -> None:
    """Print the seconds of `y ~ a*exp(-b*x)` with 4 x 1,000 draws, start included."""
    columns = decay_columns()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decay.csv")
        path.write_text(
            "x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(*columns.values(), strict=True)), encoding="utf-8"
        )
        words = [sys.executable, "-m", "autodiff_cli", "train", "y ~ a*exp(-b*x)", str(path), "--posterior", "1000"]
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run([*words, "--json"], check=True, capture_output=True)
            print(f"y ~ a*exp(-b*x), 4 x 1,000 draws from the shell: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    time_from_shell()
    if find_spec("pymc"):
        compare_with_pymc()
    if len(sys.argv) > 1:
        compare_with_reference(Path(sys.argv[1]))
