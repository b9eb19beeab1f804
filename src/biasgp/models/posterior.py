"""f given the readings: the closed form (the paper's eq. 2) that every model ends in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance import DenseFactor
from biasgp.covariance.dense import factorise
from biasgp.kernels import Kernel

CHUNK_ENTRIES = 2**22
"""Predictions hold one block of about this many covariances (32 MiB) at a time."""


@dataclass(frozen=True)
class Posterior:
    """Mean c*ᵀα and covariance c** − c*ᵀK⁻¹c* of f, α = K⁻¹(y − δ)."""

    kernel: Kernel
    X: Array
    alpha: Array
    factor: DenseFactor

    @classmethod
    def of(cls, kernel: Kernel, X: Array, noise: Array, residual: Array) -> Posterior:
        """Condition on y − δ, given the variance of each reading's noise."""
        factor = factorise(kernel(X), noise)
        return cls(kernel, X, factor.solve(residual), factor)

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        return np.concatenate([self.kernel(X[rows], self.X) @ self.alpha for rows in self._chunks(len(X))])

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""
        mean, variance = np.empty(len(X)), self.kernel.diag(X)
        for rows in self._chunks(len(X)):
            cross = self.kernel(X[rows], self.X)
            mean[rows] = cross @ self.alpha
            explained = self.factor.half_solve(cross.T)
            variance[rows] -= np.einsum("ij,ij->j", explained, explained)
        return mean, np.maximum(variance, 0.0)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        cross = self.kernel(X, self.X)
        explained = self.factor.half_solve(cross.T)
        return cross @ self.alpha, self.kernel(X) - explained.T @ explained

    def _chunks(self, n: int) -> Iterator[slice]:
        step = max(1, CHUNK_ENTRIES // len(self.X))
        return (slice(start, min(start + step, n)) for start in range(0, n, step))
