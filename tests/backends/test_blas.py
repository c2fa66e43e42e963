"""Factorizations of many columns have the same bits, however many threads NumPy's library may use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from autodiff_cli.backends import reductions
from autodiff_cli.training.rows import triangular_factor

PROGRAM = """
import hashlib, numpy as np
from autodiff_cli.backends.reductions import eigh, svd
from autodiff_cli.training.rows import triangular_factor
matrix = np.random.default_rng(0).normal(size=(8192, 80))
square = triangular_factor(np.random.default_rng(0).normal(size=(2000, 200)))
for part in (triangular_factor(matrix), *svd(square), *eigh(square + square.T)):
    print(hashlib.sha256(part.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_bits_do_not_depend_on_threads() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)},
            capture_output=True,
            check=True,
        ).stdout
        for threads in (1, 2, 4)
    }
    assert len(found) == 1


def test_the_number_of_threads_is_what_it_was() -> None:
    library = reductions._openblas_functions()
    if library is None:
        pytest.skip("NumPy has no OpenBLAS of its own")
    get, put = library
    before = get()
    put(2)
    try:
        counts = []

        def within() -> None:
            with reductions.single_threaded_blas():
                triangular_factor(np.ones((4, 2)))
                counts.append(get())

        threads = [threading.Thread(target=within) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [1] * 8
        assert get() == 2
    finally:
        put(before)


@pytest.mark.parametrize("name", ["svd", "eigh", "qr"])
def test_large_matrices_are_factorized_on_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other programs, several threads take far longer."""
    library = reductions._openblas_functions()
    if library is None:
        pytest.skip("NumPy has no OpenBLAS of its own")
    get, put = library
    before, counts, factorize = get(), [], getattr(np.linalg, name)
    monkeypatch.setattr(np.linalg, name, lambda *args, **more: (counts.append(get()), factorize(*args, **more))[1])
    function = triangular_factor if name == "qr" else getattr(reductions, name)
    put(2)
    try:
        function(np.eye(100))
        function(np.eye(10))
        assert counts == [1, 2]
    finally:
        put(before)


def test_without_such_a_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "_openblas_functions", lambda: None)
    assert triangular_factor(np.array([[3.0], [4.0]])).tolist() == [[-5.0]]
