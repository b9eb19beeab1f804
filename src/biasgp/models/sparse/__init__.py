"""Sparse bias: which readings are outliers, of what kinds, and what the others say of f."""

from __future__ import annotations

import numpy as np

from biasgp.models.problem import Problem
from biasgp.models.sparse import exact, leave_one_out
from biasgp.models.sparse.exact import SparseBiasFit
from biasgp.models.strategy import Strategy

__all__ = ["SparseBiasFit", "fit"]


def fit(problem: Problem, max_iter: int, rng: np.random.Generator, strategy: Strategy) -> SparseBiasFit:
    """With all of K⁻¹ at hand labels are searched and averaged over; without it they come from leave-one-out odds."""
    if strategy.exact:
        return exact.fit(problem, max_iter, rng)
    return leave_one_out.fit(problem, max_iter, rng, strategy)
