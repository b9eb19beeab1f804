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


class _ByChunks:
    """Means and variances of f at many points, a block at a time."""

    kernel: Kernel
    X: Array
    alpha: Array

    def explained(self, cross: Array) -> Array:
        """What the readings take off the variance of f at each row of c*ᵀ."""
        raise NotImplementedError

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        return np.concatenate([self.kernel(X[rows], self.X) @ self.alpha for rows in self._chunks(len(X))])

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""
        mean, variance = np.empty(len(X)), self.kernel.diag(X)
        for rows in self._chunks(len(X)):
            cross = self.kernel(X[rows], self.X)
            mean[rows] = cross @ self.alpha
            variance[rows] -= self.explained(cross)
        return mean, np.maximum(variance, 0.0)

    def _chunks(self, n: int) -> Iterator[slice]:
        step = max(1, CHUNK_ENTRIES // len(self.X))
        return (slice(start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True)
class Posterior(_ByChunks):
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

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    def explained(self, cross: Array) -> Array:
        half = self.factor.half_solve(cross.T)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        cross = self.kernel(X, self.X)
        half = self.factor.half_solve(cross.T)
        return cross @ self.alpha, self.kernel(X) - half.T @ half


@dataclass(frozen=True)
class AveragedPosterior(_ByChunks):
    """The same with K⁻¹ replaced by a matrix that holds an average over several K (see label_average.Moments)."""

    kernel: Kernel
    X: Array
    alpha: Array
    precision: Array
    jitter: float = 0.0

    def explained(self, cross: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", cross @ self.precision, cross))

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        cross = self.kernel(X, self.X)
        return cross @ self.alpha, self.kernel(X) - cross @ self.precision @ cross.T
