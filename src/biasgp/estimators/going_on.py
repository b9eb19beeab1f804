"""What a fit keeps of its last readings, so that a stream can go on from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

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

    @classmethod
    def of(cls, kernel: Kernel, X: Array, y: Array, known: Array, every: bool) -> LastReadings | None:
        """Those of a fit, or all of them; None for kernels that no stream can go on with."""
        form = kernel.state_space(X.shape[1])
        if form is None:
            return None
        order = np.argsort(X[:, form.column or 0], kind="stable").astype(np.int64)
        rows = order if every else order[-KEPT:]
        return cls(rows, X[rows], y[rows], known[rows])


def unfitted(model: Any, column: int) -> Any:
    """An estimator that learns again from where a fit ended: columns by number, times as seconds in one of them."""
    again = clone(model).set_params(kernel=model.kernel_)
    return again.set_params(order=None if model.order is None else column) if hasattr(model, "order") else again
