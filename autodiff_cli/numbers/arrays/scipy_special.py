"""SciPy's special functions. Importing them takes longer than importing NumPy, so it waits for one that is needed."""

from __future__ import annotations

from typing import Any


def scipy(name: str, *arguments: Any) -> Any:
    """The function of `scipy.special` with this name, at some numbers or arrays."""
    from scipy import special

    return getattr(special, name)(*arguments)
