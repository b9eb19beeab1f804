"""S = (C⁻¹ + diag τ)⁻¹ where some of the precisions τ are negative, by Cholesky factors alone.

Readings of positive precision are conditioned on first, which is the plain GP's algebra. What the others take away
again is a second, small factorisation on their rows, and it exists exactly where S is positive definite.
C itself is never factorised, so no jitter is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.dense import DenseFactor, factorise
from biasgp.messages import CovarianceError

_WEAK = 1e-5
"""Below this |τᵢ|Cᵢᵢ a division by τᵢ would lose too many digits, and such readings are computed without one."""


@dataclass(frozen=True)
class SignedFactor:
    """A = (C + diag τ⁻¹)⁻¹ in factors. With r₊ the roots of the positive τ and r₋ those of |τ| elsewhere:

    first    LLᵀ = I + r₊Cr₊, over all rows: those of negative τ are the identity's, so that nothing is gathered
    G        L⁻¹r₊Cr₋, on the columns `minus`, where τ < 0
    second   E = I − r₋Cr₋ + GᵀG on the rows `minus`; None where there are none
    """

    C: Array
    precision: Array
    first: DenseFactor
    G: Array
    second: DenseFactor | None

    @classmethod
    def factorise(cls, C: Array, precision: Array) -> SignedFactor | None:
        """The factors for C and τ; None where S is not positive definite."""
        positive, minus = _positive_roots(precision), np.flatnonzero(precision < 0.0)
        if len(minus) == len(precision):
            return None
        F = C * positive[:, None]
        F *= positive
        first = factorise(F, np.ones(len(F)))
        if len(minus) == 0:
            return cls(C, precision, first, np.empty((len(C), 0)), None)
        negative = np.sqrt(-precision[minus])
        G = first.half_solve(C[:, minus] * positive[:, None] * negative)
        E = G.T @ G - negative[:, None] * C[np.ix_(minus, minus)] * negative
        if not np.all(E.diagonal() > -1.0):
            return None
        try:
            second = factorise(E, np.ones(len(minus)))
        except CovarianceError:
            return None
        return None if second.jitter > 0.0 else cls(C, precision, first, G, second)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From the fields alone: model files of format 1 also hold what is computed from them."""
        vars(self).update({field.name: state[field.name] for field in fields(self)})

    @cached_property
    def minus(self) -> NDArray[np.intp]:
        """The rows where τ < 0."""
        return np.flatnonzero(self.precision < 0.0)

    @cached_property
    def positive(self) -> Array:
        """r₊, 0 where τ < 0."""
        return _positive_roots(self.precision)

    @cached_property
    def negative(self) -> Array:
        """r₋, of the rows where τ < 0."""
        return np.asarray(np.sqrt(-self.precision[self.minus]))

    @cached_property
    def cross(self) -> Array:
        """r₊Cr₋."""
        return self.C[:, self.minus] * self.positive[:, None] * self.negative

    @property
    def logdet(self) -> float:
        """log|I + C diag τ|."""
        return self.first.logdet + (self.second.logdet if self.second is not None else 0.0)

    def solve(self, shift: Array) -> tuple[Array, Array]:
        """b = (I + diag τ · C)⁻¹ν and m = Cb = Sν, without a product that cancels where τ is strong."""
        weak = np.abs(self.precision) * self.C.diagonal() < _WEAK
        safe = np.where(weak, 1.0, self.precision)
        target = np.where(weak, 0.0, shift / safe)
        held = np.where(weak, shift, 0.0)
        if weak.any():
            target -= self.C @ held
        b = self._solve(target) + held
        mean = (shift - b) / safe
        if weak.any():
            mean[weak] = self.C[weak] @ b
        return b, mean

    def _solve(self, x: Array) -> Array:
        """Ax."""
        scaled = self.positive * x
        if self.second is None:
            return self.positive * self.first.solve(scaled)
        below = self.second.solve(self.G.T @ self.first.half_solve(scaled) - self.negative * x[self.minus])
        out = self.positive * self.first.solve(scaled - self.cross @ below)
        out[self.minus] = self.negative * below
        return out

    def explain(self, cross: Array) -> tuple[Array, Array | None]:
        """U and V with cᵀAc = UᵀU − VᵀV for the columns c of `cross`."""
        explained = self.first.half_solve(self.positive[:, None] * cross)
        if self.second is None:
            return explained, None
        return explained, self.second.half_solve(self.negative[:, None] * cross[self.minus] - self.G.T @ explained)

    def inverse(self) -> Array:
        """A, whole and symmetric (0 where τ is)."""
        A = self.first.inverse()
        if self.second is None:
            A *= self.positive[:, None]
            A *= self.positive
            return A
        H, E = self.first.solve(self.cross), self.second.inverse()
        HE = H @ E
        A -= HE @ H.T
        A *= self.positive[:, None]
        A *= self.positive
        HE *= self.positive[:, None]
        HE *= self.negative
        A[:, self.minus] = HE
        A[self.minus] = HE.T
        A[np.ix_(self.minus, self.minus)] = -self.negative[:, None] * E * self.negative
        return A

    def marginal_variances(self) -> Array:
        """The diagonal of S = C − CAC: half the work of A itself."""
        weak = np.abs(self.precision) * self.C.diagonal() < _WEAK
        # 1 − diag of |τ|^−½ A |τ|^−½, whose sign is τ's.
        R = self.first.half_inverse()
        share = 1.0 - np.einsum("ij,ij->j", R, R)
        if self.second is not None:
            RE = self.second.half_inverse()
            H = R.T @ (self.G @ RE.T)
            share += np.einsum("ij,ij->i", H, H)
            share[self.minus] = 1.0 - np.einsum("ij,ij->j", RE, RE)
        variances = share / np.where(weak, 1.0, self.precision)
        if weak.any():
            rows = self.C[weak]
            U, V = self.explain(rows.T)
            variances[weak] = self.C.diagonal()[weak] - np.einsum("ij,ij->j", U, U)
            if V is not None:
                variances[weak] += np.einsum("ij,ij->j", V, V)
        return np.asarray(variances)


def _positive_roots(precision: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(precision, 0.0)))
