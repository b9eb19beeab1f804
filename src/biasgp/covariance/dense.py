"""Cholesky factors and inverses. The only place that calls LAPACK, with one jitter policy that reports itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from biasgp._typing import Array
from biasgp.messages import CovarianceError
from biasgp.watch import ledger

FACTORISATIONS = "factorisations"
"""Kind of work of the exact models, in cubes of the number of rows."""
JITTERS = (1e-10, 1e-8, 1e-6, 1e-4)
"""Tried in turn after none, as shares of the usual diagonal: the least that makes the matrix positive definite is used.
"""
_EPS = float(np.finfo(float).eps)
_TILE = 64
"""Rows of a block: triangles up to this size are left to LAPACK's own inversion, and are copied in one go."""
_STRICTLY_LOWER = np.tri(_TILE, k=-1, dtype=bool)


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

    def inverse(self, *, overwrite: bool = False) -> Array:
        """K⁻¹, whole and symmetric; with `overwrite`, in the memory of the factor, which is then used up."""
        lower = self.lower if overwrite else self.lower.copy(order="F")
        _invert_lower(lower)
        return _mirror(lapack.dlauum(lower, lower=1, overwrite_c=1)[0])

    def half_inverse(self) -> Array:
        """L⁻¹, zero above its diagonal."""
        lower = self.lower.copy(order="F")
        _invert_lower(lower)
        return np.tril(lower)

    def __getstate__(self) -> dict[str, Any]:
        """Half of the matrix: the triangle alone."""
        return {"packed": packed(self.lower), "jitter": self.jitter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a packed triangle, or from the whole matrix of a model file of format 1."""
        lower = unpacked(state["packed"]) if "packed" in state else state["lower"]
        vars(self).update(lower=lower, jitter=state["jitter"])


def jitters(prior: Array, noise: Array) -> Iterator[float]:
    """What to add to the diagonal of K until it can be factorised, from nothing to the most.

    Shares of the usual diagonal: a reading of very large noise must not raise the jitter of all.
    """
    yield 0.0  # as a rule it ends here: a median takes longer than the factor of a few dozen rows
    unit = float(np.mean(prior) + np.median(noise))
    yield from (share * unit for share in JITTERS)


def factorise(C: Array, noise: Array) -> DenseFactor:
    """Cholesky factor of C + diag(noise), with as little jitter as it takes.

    A pivot is what is left of a diagonal entry, and its rounding error is about n·eps of that entry: one that is
    smaller says nothing, and the matrix is singular to working precision.
    """
    for jitter in jitters(C.diagonal(), noise):
        K = C.copy()
        diagonal = K.reshape(-1)[:: len(K) + 1]
        diagonal += noise + jitter
        least = len(K) * _EPS * diagonal
        # K is symmetric, so its transpose is itself in the order that LAPACK wants.
        lower, info = lapack.dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        ledger().did(FACTORISATIONS, len(K) ** 3)
        if info == 0 and np.all(lower.diagonal() ** 2 > least):
            return DenseFactor(lower, jitter)
    raise CovarianceError(
        "The covariance matrix is not positive definite, even with jitter "
        f"{JITTERS[-1]:g} of its diagonal. Look for inputs or responses of extreme size, or use a less smooth kernel."
    )


def semidefinite_root(C: Array, noise: Array) -> Array:
    """R with RRᵀ = C + diag(noise), for a covariance that is a difference of two and that rounding made indefinite.

    The rounding error is that of the minuend, which can exceed any share of the difference: where jitter does not help,
    negative eigenvalues are set to zero.
    """
    try:
        return np.tril(factorise(C, noise).lower)
    except CovarianceError:
        if not np.isfinite(C).all():
            raise
        values, vectors, _ = lapack.dsyevd(C + np.diag(noise))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def add_outer(A: Array, factor: float, v: Array) -> Array:
    """A + factor·vvᵀ for a symmetric A in C order, in its place: its transpose is what BLAS can write to."""
    return np.asarray(blas.dger(factor, v, v, a=A.T, overwrite_a=1).T)


def add_product(A: Array, U: Array, V: Array) -> Array:
    """A + UVᵀ for a symmetric A in C order and a symmetric product, in A's place; U and V in Fortran order."""
    return np.asarray(blas.dgemm(1.0, U, V, 1.0, A.T, trans_b=1, overwrite_c=1).T)


def _invert_lower(L: Array) -> None:
    """A triangular matrix's inverse, in its place, by halves: mostly products, and BLAS is far better at those."""
    n = len(L)
    if n <= _TILE:
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


def _mirror(lower: Array) -> Array:
    """The symmetric matrix whose lower triangle (Fortran order) is given, made in place; in C order."""
    A = lower.T  # C order: the triangle to copy is now the upper one
    n = len(A)
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        block = A[start:stop, start:stop]
        np.copyto(block, block.T, where=_STRICTLY_LOWER[: stop - start, : stop - start])
        A[stop:, start:stop] = A[start:stop, stop:].T
    return A


def packed(lower: Array) -> Array:
    """The lower triangle of a matrix in Fortran order, column after column in one dimension."""
    return np.asarray(lapack.dtrttp(lower, uplo="L")[0])


def unpacked(triangle: Array) -> Array:
    """The matrix in Fortran order whose lower triangle was packed; zero above its diagonal."""
    n = (math.isqrt(8 * triangle.size + 1) - 1) // 2
    if triangle.shape != (n * (n + 1) // 2,):
        raise ValueError(f"An array of shape {triangle.shape} is not a packed triangle.")
    return np.asarray(lapack.dtpttr(n, triangle, uplo="L")[0])
