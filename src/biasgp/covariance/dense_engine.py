"""The exact engine: K as a dense matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import DenseFactor, add_outer, factorise
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.protocol import Density
from biasgp.kernels import Kernel, Pullback

_LEAST_LEFT = float(np.finfo(float).eps ** 0.25)
"""Least share of the variance along a column that may be left where it is subtracted: it costs a quarter of the digits,
and not all digits of an inverse are good."""


@dataclass(frozen=True)
class Inverse:
    """Q = (C + noise)⁻¹ that is at hand, and the logarithm of the determinant of C + noise."""

    C: Array
    Q: Array
    logdet: float
    jitter: float = 0.0

    def with_columns(self, C: Array, U: Array) -> Inverse:
        """That of C, which has UUᵀ more than this one's, in O(N²) for each column."""
        if not U.shape[1]:
            return replace(self, C=C, Q=self.Q.copy())
        QU = self.Q @ U
        root = factorise(U.T @ QU, np.ones(U.shape[1]))
        half = root.half_solve(QU.T)
        return Inverse(C, self.Q - half.T @ half, self.logdet + root.logdet, self.jitter)

    def without_columns(self, C: Array, U: Array) -> Inverse | None:
        """That of C, which has UUᵀ less than this one's; None where too many digits would cancel."""
        if not U.shape[1]:
            return replace(self, C=C, Q=self.Q.copy())
        QU = self.Q @ U
        left = np.eye(U.shape[1]) - U.T @ QU
        if np.linalg.eigvalsh(left)[0] < _LEAST_LEFT:
            return None
        root = factorise(left, np.zeros(len(left)))
        half = root.half_solve(QU.T)
        return Inverse(C, self.Q + half.T @ half, self.logdet + root.logdet, self.jitter)


@dataclass(frozen=True)
class DenseEngine:
    """The exact engine: any inputs, any kernel, O(N³) time and O(N²) memory."""

    X: Array
    shared: Array | None = None
    """Columns whose outer products are part of K at any parameters; f does not include them."""

    def covariance(self, kernel: Kernel, noise: Array) -> DenseCovariance:
        C, pullback = kernel.vjp(self.X)
        if self.shared is not None:
            C = C + self.shared @ self.shared.T
        return DenseCovariance(self.X, kernel, noise, C, pullback, factorise(C, noise))

    def from_inverse(self, kernel: Kernel, noise: Array, pullback: Pullback, known: Inverse) -> DenseCovariance:
        """The same from an inverse that is at hand, with the pullback of the kernel there: nothing is factorised."""
        return DenseCovariance(self.X, kernel, noise, known.C, pullback, known)


class DenseCovariance:
    """K = C(θ) + diag(noise) while it is being learnt: at most four N×N arrays alive at once.

    The inverse overwrites the factor, and the density's gradient overwrites the inverse; ask in that order.
    """

    def __init__(
        self, X: Array, kernel: Kernel, noise: Array, C: Array, pullback: Pullback, factor: DenseFactor | Inverse
    ) -> None:
        self.X, self.kernel, self.noise, self.C, self.pullback = X, kernel, noise, C, pullback
        self._factor = factor if isinstance(factor, DenseFactor) else None
        self._inverse = factor.Q if isinstance(factor, Inverse) else None
        self.logdet, self.jitter = factor.logdet, factor.jitter

    def solve(self, b: Array) -> Array:
        """K⁻¹b, by the factor, or by the inverse once that has taken its place."""
        return self._factor.solve(b) if self._factor is not None else np.asarray(self.inverse() @ b)

    def matvec(self, v: Array) -> Array:
        """Kv."""
        return np.asarray(self.C @ v + (self.noise + self.jitter) * v)

    def inverse(self) -> Array:
        """Q = K⁻¹, whole and symmetric."""
        if self._inverse is None:
            if self._factor is None:
                raise RuntimeError("The inverse was used up by gradient().")
            self._inverse = self._factor.inverse(overwrite=True)
            self._factor = None
        return self._inverse

    def known(self) -> Inverse:
        """The inverse for whoever goes on with it."""
        return Inverse(self.C, self.inverse(), self.logdet, self.jitter)

    def inverse_diagonal(self) -> Array:
        return self.inverse().diagonal().copy()

    def posterior(self, residual: Array) -> DensePosterior:
        """f given y − δ = residual. The factor is the posterior's from then on."""
        factor = self._factor or factorise(self.C, self.noise)
        self._factor = None
        return DensePosterior(self.kernel, self.X, factor.solve(residual), factor)

    def negative_log_density(
        self, residual: Array, alpha: Array | None = None, *, each_noise: bool = False, keep_inverse: bool = False
    ) -> Density:
        """−log N(residual; 0, K) and its gradient, for which the inverse is used up unless it is to be kept.

        `alpha` is K⁻¹ times the residual, if it is known.
        """
        alpha = self.solve(residual) if alpha is None else alpha
        value = 0.5 * (len(residual) * np.log(2.0 * np.pi) + self.logdet + residual @ alpha)
        by_theta, by_noise = self.gradient(alpha, keep_inverse=keep_inverse)
        return Density(float(value), by_theta, by_noise if each_noise else by_noise.sum(keepdims=True))

    def gradient(self, alpha: Array, *, keep_inverse: bool = False) -> tuple[Array, Array]:
        """Gradient of ½log|K| + ½rᵀK⁻¹r at α = K⁻¹r: in the kernel's theta, and in each noise variance.

        With W = ½(Q − ααᵀ) these are the kernel's contraction of W, and W's diagonal.
        """
        Q = self.inverse()
        if not keep_inverse:
            self._inverse = None
        W = np.multiply(Q, 0.5, out=None if keep_inverse else Q)
        W = add_outer(W, -0.5, alpha)
        return self.pullback(W), W.diagonal().copy()

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """By the block of K on the free points or that of Q on the others: whichever is smaller."""
        alpha = np.where(free, 0.0, alpha)
        n_free = int(free.sum())
        if 2 * n_free <= len(y):
            inside = np.flatnonzero(free)
            if n_free:
                block = factorise(self.C[inside[:, None], inside], self.noise[inside] + self.jitter)
                alpha[inside] = block.solve((y - self.matvec(alpha))[inside])
            delta = y - self.matvec(alpha)
        else:
            delta = np.zeros_like(y)
            outside = np.flatnonzero(~free)
            Q = self.inverse()
            if len(outside):
                block = factorise(Q[outside[:, None], outside], np.zeros(len(outside)))
                delta[outside] = block.solve((Q @ y - alpha)[outside])
            alpha = np.where(free, Q @ (y - delta), alpha)
        delta[free] = 0.0
        return alpha, delta
