"""Run the tests as on older processors. Digits may differ from processor to processor, verdicts and warnings may not.

python .ci/processors.py PROCESSOR [ARGUMENT OF PYTEST]...

NumPy, its BLAS, the C library's functions and our compiled kernels each choose among instruction sets when they start.
Each has a variable that takes the newer ones away.
"""

from __future__ import annotations

import os
import subprocess
import sys

from numpy._core import _multiarray_umath as numpy_core

# By the name that AUTODIFF_CPU has for it: the core that OpenBLAS takes, and the beginnings of the names of the
# features that NumPy and the C library must not use.
PROCESSORS = {
    "x86-64": ("Prescott", ("",), ("AVX512F", "AVX512DQ", "AVX2", "FMA", "AVX")),
    "x86-64-v3": ("Haswell", ("AVX512", "X86_V4"), ("AVX512F", "AVX512DQ")),
}


def environment(name: str) -> dict[str, str]:
    """Return the environment in which programs run as on a processor."""
    core, prefixes, functions = PROCESSORS[name]
    present = [each for each in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__[each]]
    return {
        **os.environ,
        "AUTODIFF_CPU": name,
        "OPENBLAS_CORETYPE": core,
        "NPY_DISABLE_CPU_FEATURES": " ".join(each for each in present if each.startswith(prefixes)),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{each}" for each in functions),
    }


if __name__ == "__main__":
    processor, *arguments = sys.argv[1:]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    sys.exit(subprocess.run(command, env=environment(processor)).returncode)
