"""The types of the arrays that the package passes around: declared once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]  # real numbers of any shape
Mask: TypeAlias = NDArray[np.bool_]  # which elements are selected
