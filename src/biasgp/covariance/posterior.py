"""f given the readings: the closed form (the paper's eq. 2) that every model ends in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import DenseFactor, factorise, packed, unpacked
from biasgp.covariance.protocol import Posterior
from biasgp.kernels import Kernel

CHUNK_ENTRIES = 2**22
"""Predictions hold one block of about this many covariances (32 MiB) at a time."""


def chunks(n: int, width: int) -> Iterator[slice]:
    """Blocks of n rows of a matrix that is `width` wide."""
    step = max(1, CHUNK_ENTRIES // width)
    return (slice(start, start + step) for start in range(0, n, step))


class _ByChunks(ABC):
    """Means and variances of f from α and from what stands for K⁻¹, at many points a block at a time."""

    kernel: Kernel
    X: Array
    alpha: Array

    @abstractmethod
    def explained(self, cross: Array) -> Array:
        """What the readings take off the variance of f at each row of c*ᵀ."""

    @abstractmethod
    def inverse(self) -> Array:
        """What stands for K⁻¹: N×N."""

    def mean(self, X: Array) -> Array:
        return np.concatenate([self.kernel(X[rows], self.X) @ self.alpha for rows in chunks(len(X), len(self.X))])

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        mean, variance = np.empty(len(X)), self.kernel.diag(X)
        for rows in chunks(len(X), len(self.X)):
            cross = self.kernel(X[rows], self.X)
            mean[rows] = cross @ self.alpha
            variance[rows] -= self.explained(cross)
        return mean, np.maximum(variance, 0.0)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given all the others, whose biases, labels or sites are held.

        With w = (CQ)ᵢᵢ the weight of yᵢ in E fᵢ, what yᵢ adds to E fᵢ is (w/Qᵢᵢ)αᵢ, and it takes w²/Qᵢᵢ off Var fᵢ. A
        reading that is not in the GP (Qᵢᵢ = 0) adds nothing.
        """
        C, Q = self.kernel(self.X), self.inverse()
        CQ = C @ Q
        own, weight = Q.diagonal(), CQ.diagonal()
        gain = np.where(own != 0.0, weight / np.where(own != 0.0, own, 1.0), 0.0)
        variance = C.diagonal() - np.einsum("ij,ij->i", CQ, C) + gain * weight
        return C @ self.alpha - gain * self.alpha, np.maximum(variance, 0.0)


@dataclass(frozen=True)
class DensePosterior(_ByChunks):
    """Mean c*ᵀα and covariance c** − c*ᵀK⁻¹c* of f, α = K⁻¹(y − δ)."""

    kernel: Kernel
    X: Array
    alpha: Array
    factor: DenseFactor

    @classmethod
    def of(cls, kernel: Kernel, X: Array, noise: Array, residual: Array) -> DensePosterior:
        """Condition on y − δ, given the variance of each reading's noise."""
        factor = factorise(kernel(X), noise)
        return cls(kernel, X, factor.solve(residual), factor)

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    def explained(self, cross: Array) -> Array:
        half = self.factor.half_solve(cross.T)
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def inverse(self) -> Array:
        return self.factor.inverse()

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        cross = self.kernel(X, self.X)
        half = self.factor.half_solve(cross.T)
        return cross @ self.alpha, self.kernel(X) - half.T @ half


@dataclass(frozen=True)
class AveragedPosterior(_ByChunks):
    """The same with K⁻¹ replaced by a matrix that holds an average over several K (see models/sparse/average.py).

    `precision` is made symmetric to the bit and kept in C order, so that one triangle of it is all there is to store.
    """

    kernel: Kernel
    X: Array
    alpha: Array
    precision: Array
    jitter: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", _symmetric(self.precision))

    def __getstate__(self) -> dict[str, Any]:
        """With one triangle of the precision."""
        return {**vars(self), "precision": packed(self.precision.T)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a packed triangle, or from the whole matrix of a model file of format 1."""
        whole = state["precision"]
        if whole.ndim == 1:
            lower = unpacked(whole)
            whole = lower + np.tril(lower, -1).T
        vars(self).update(state, precision=_symmetric(whole))

    def explained(self, cross: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", cross @ self.precision, cross))

    def inverse(self) -> Array:
        return self.precision

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        cross = self.kernel(X, self.X)
        return cross @ self.alpha, self.kernel(X) - cross @ self.precision @ cross.T


@dataclass(frozen=True)
class PartialPosterior:
    """f given some of the readings of a fit; `kept` says which."""

    posterior: Posterior
    kept: Mask

    @property
    def kernel(self) -> Kernel:
        return self.posterior.kernel

    @property
    def X(self) -> Array:
        return self.posterior.X

    @property
    def jitter(self) -> float:
        return self.posterior.jitter

    def mean(self, X: Array) -> Array:
        return self.posterior.mean(X)

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        return self.posterior.mean_and_variance(X)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        return self.posterior.mean_and_covariance(X)

    def leave_one_out(self) -> tuple[Array, Array]:
        mean, variance = np.full(len(self.kept), np.nan), np.full(len(self.kept), np.nan)
        mean[self.kept], variance[self.kept] = self.posterior.leave_one_out()
        return mean, variance


@dataclass(frozen=True)
class MixturePosterior:
    """f where several explanations of the readings are averaged over: the two moments of a mixture of posteriors.

    `kernel` and `X` are those of the first part, which has the largest weight.
    """

    weights: tuple[float, ...]
    parts: tuple[Posterior, ...]

    @property
    def kernel(self) -> Kernel:
        return self.parts[0].kernel

    @property
    def X(self) -> Array:
        return self.parts[0].X

    @property
    def jitter(self) -> float:
        return max(part.jitter for part in self.parts)

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        return np.asarray(sum(w * part.mean(X) for w, part in zip(self.weights, self.parts, strict=True)))

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""
        return mixture_moments(self.weights, [part.mean_and_variance(X) for part in self.parts])

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and Cov f at the rows of X."""
        mean = self.mean(X)
        covariance = np.zeros((len(X), len(X)))
        for w, part in zip(self.weights, self.parts, strict=True):
            own, within = part.mean_and_covariance(X)
            covariance += w * (within + np.outer(own - mean, own - mean))
        return mean, covariance

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading of the fit given all the others."""
        return mixture_moments(self.weights, [part.leave_one_out() for part in self.parts])


def mixture_moments(weights: Sequence[float] | Array, moments: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and variance of a mixture from those of its parts."""
    mean = np.asarray(sum(w * own for w, (own, _) in zip(weights, moments, strict=True)))
    spread = sum(w * (variance + (own - mean) ** 2) for w, (own, variance) in zip(weights, moments, strict=True))
    return mean, np.asarray(spread)


def _symmetric(A: Array) -> Array:
    """(A + Aᵀ)/2, in C order."""
    total = np.add(A, A.T, order="C")
    total *= 0.5
    return total
