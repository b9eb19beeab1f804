"""The exact covariance. The only place that calls LAPACK, with one jitter policy that reports itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from biasgp._typing import Array, Mask
from biasgp.kernels import Kernel
from biasgp.messages import CovarianceError

# Tried in turn, as shares of the mean diagonal: the least that makes the matrix positive definite.
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
LEAF = 64
"""Triangular matrices up to this size are left to LAPACK's own inversion."""
_STRICTLY_LOWER = np.tri(64, k=-1, dtype=bool)


@dataclass(frozen=True)
class DenseFactor:
    """K = LLᵀ. `lower` is in Fortran order and holds L below its diagonal; above it is scratch."""

    lower: Array
    jitter: float

    @property
    def logdet(self) -> float:
        return 2.0 * float(np.log(self.lower.diagonal()).sum())

    def solve(self, b: Array) -> Array:
        """K⁻¹b."""
        return np.asarray(lapack.dpotrs(self.lower, b, lower=1)[0])

    def half_solve(self, B: Array) -> Array:
        """L⁻¹B, whose columns' squared norms are the variances that the data explain."""
        return np.asarray(lapack.dtrtrs(self.lower, B, lower=1)[0])

    def multiply(self, B: Array) -> Array:
        """LB, which has covariance K where the rows of B are independent and standard."""
        return np.asarray(np.tril(self.lower) @ B)


def factorise(C: Array, noise: Array) -> DenseFactor:
    """Cholesky factor of C + diag(noise), with as little jitter as it takes."""
    scale = float(np.mean(C.diagonal() + noise))
    for jitter in JITTERS:
        K = C.copy()
        K.flat[:: len(K) + 1] += noise + jitter * scale
        # K is symmetric, so its transpose is itself in the order that LAPACK wants.
        lower, info = lapack.dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return DenseFactor(lower, jitter * scale)
    raise CovarianceError(
        "The covariance matrix is not positive definite, even with jitter "
        f"{JITTERS[-1]:g} of its diagonal. Look for inputs or responses of extreme size, or use a less smooth kernel."
    )


class DenseCovariance:
    """K = C(θ) + diag(noise) while it is being learnt: at most four N×N arrays alive at once.

    The inverse overwrites the factor, and the gradient overwrites the inverse; ask in that order.
    """

    def __init__(self, kernel: Kernel, X: Array, noise: Array) -> None:
        self.C, self._pullback = kernel.vjp(X)
        self.noise = noise
        self._factor: DenseFactor | None = factorise(self.C, noise)
        self._inverse: Array | None = None
        self.logdet = self._factor.logdet
        self.jitter = self._factor.jitter

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
            self._inverse = inverse_of(self._factor, overwrite=True)
            self._factor = None
        return self._inverse

    def gradient(self, alpha: Array) -> tuple[Array, Array]:
        """Gradient of ½log|K| + ½rᵀK⁻¹r at α = K⁻¹r: in the kernel's theta, and in each noise variance.

        With W = ½(Q − ααᵀ) these are the kernel's contraction of W, and W's diagonal.
        """
        W = self.inverse()
        self._inverse = None
        W *= 0.5
        W = add_outer(W, -0.5, alpha)
        return self._pullback(W), W.diagonal().copy()

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """Keep α where it is not free; where it is, choose it so that (Kα)ᵢ = yᵢ. Returns α and y − Kα.

        By the block of K on the free points or that of Q on the others: whichever is smaller.
        """
        alpha = np.where(free, 0.0, alpha)
        n_free = int(free.sum())
        if 2 * n_free <= len(y):
            inside = np.flatnonzero(free)
            if n_free:
                block = factorise(self.C[np.ix_(inside, inside)], self.noise[inside] + self.jitter)
                alpha[inside] = block.solve((y - self.matvec(alpha))[inside])
            delta = y - self.matvec(alpha)
        else:
            delta = np.zeros_like(y)
            outside = np.flatnonzero(~free)
            Q = self.inverse()
            if len(outside):
                block = factorise(Q[np.ix_(outside, outside)], np.zeros(len(outside)))
                delta[outside] = block.solve((Q @ y - alpha)[outside])
            alpha = np.where(free, Q @ (y - delta), alpha)
        delta[free] = 0.0
        return alpha, delta


def inverse_of(factor: DenseFactor, *, overwrite: bool = False) -> Array:
    """K⁻¹, whole and symmetric; with `overwrite`, in the memory of the factor, which is then used up."""
    lower = factor.lower if overwrite else factor.lower.copy(order="F")
    _invert_lower(lower)
    return mirror(lapack.dlauum(lower, lower=1, overwrite_c=1)[0])


def add_outer(A: Array, factor: float, v: Array) -> Array:
    """A + factor·vvᵀ for a symmetric A in C order, in its place: its transpose is what BLAS can write to."""
    return np.asarray(blas.dger(factor, v, v, a=A.T, overwrite_a=1).T)


def half_inverse_of(factor: DenseFactor) -> Array:
    """L⁻¹, zero above its diagonal."""
    lower = factor.lower.copy(order="F")
    _invert_lower(lower)
    return np.tril(lower)


def _invert_lower(L: Array) -> None:
    """A triangular matrix's inverse, in its place, by halves: mostly products, and BLAS is far better at those."""
    n = len(L)
    if n <= LEAF:
        inverse, info = lapack.dtrtri(L, lower=1)
        if info != 0:
            raise CovarianceError("The covariance matrix is singular to working precision.")
        L[...] = inverse
        return
    half = n // 2
    first, second, below = L[:half, :half], L[half:, half:], L[half:, :half]
    _invert_lower(first)
    _invert_lower(second)
    product = blas.dtrmm(-1.0, second, below, lower=1)
    below[...] = blas.dtrmm(1.0, first, product, side=1, lower=1, overwrite_b=1)


def mirror(lower: Array) -> Array:
    """The symmetric matrix whose lower triangle (Fortran order) is given, made in place; in C order."""
    A = lower.T  # C order: the triangle to copy is now the upper one
    n, size = len(A), len(_STRICTLY_LOWER)
    for start in range(0, n, size):
        stop = min(start + size, n)
        block = A[start:stop, start:stop]
        np.copyto(block, block.T, where=_STRICTLY_LOWER[: stop - start, : stop - start])
        A[stop:, start:stop] = A[start:stop, stop:].T
    return A
