"""What a fit keeps of its last readings, so that a stream can go on from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.kernels import Kernel

KEPT = 2000
"""Readings of a large fit that are kept, the last ones: as many as a stream re-learns its parameters from."""


@dataclass(frozen=True)
class LastReadings:
    """The last readings of a fit in order of time, in the user's units; `rows` says which they were."""

    rows: NDArray[np.int64]
    X: Array
    y: Array
    known: Array


def last_readings(kernel: Kernel, X: Array, y: Array, known: Array, every: bool) -> LastReadings | None:
    """Those of a fit, or all of them; None for kernels that no stream can go on with."""
    form = kernel.state_space(X.shape[1])
    if form is None:
        return None
    order = np.argsort(X[:, form.column or 0], kind="stable").astype(np.int64)
    rows = order if every else order[-KEPT:]
    return LastReadings(rows, X[rows], y[rows], known[rows])
