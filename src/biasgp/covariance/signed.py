"""S = (C⁻¹ + diag τ)⁻¹ where some of the precisions τ are negative, by Cholesky factors alone.

Readings of positive precision are conditioned on first, which is the plain GP's algebra. What the others take away
again is a second, small factorisation on their rows, and it exists exactly where S is positive definite.
C itself is never factorised, so no jitter is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.dense import DenseFactor, factorise, half_inverse_of, inverse_of
from biasgp.messages import CovarianceError

# Below this |τᵢ|Cᵢᵢ a division by τᵢ would lose too many digits, and such readings go the long way.
WEAK = 1e-5


@dataclass(frozen=True)
class SignedFactor:
    """A = (C + diag τ⁻¹)⁻¹ in factors. With F = |τ|^½ C |τ|^½ (`root` is |τ|^½):

    first      LLᵀ = I + F₊₊ on the rows `plus`, where τ ≥ 0
    cross, G   F₊₋ and L⁻¹F₊₋
    second     E = I − F₋₋ + GᵀG on the rows `minus`; None where there are none
    """

    C: Array
    precision: Array
    root: Array
    plus: NDArray[np.intp]
    minus: NDArray[np.intp]
    first: DenseFactor
    cross: Array
    G: Array
    second: DenseFactor | None

    @property
    def logdet(self) -> float:
        """log|I + C diag τ|."""
        return self.first.logdet + (self.second.logdet if self.second is not None else 0.0)

    def solve(self, shift: Array) -> tuple[Array, Array]:
        """b = (I + diag τ · C)⁻¹ν and m = Cb = Sν, without a product that cancels where τ is strong."""
        weak = np.abs(self.precision) * self.C.diagonal() < WEAK
        safe = np.where(weak, 1.0, self.precision)
        target = np.where(weak, 0.0, shift / safe)
        held = np.where(weak, shift, 0.0)
        if weak.any():
            target -= self.C @ held
        b = self.root * self._scaled_solve(self.root * target) + held
        mean = (shift - b) / safe
        if weak.any():
            mean[weak] = self.C[weak] @ b
        return b, mean

    def _scaled_solve(self, x: Array) -> Array:
        """|τ|^−½ A |τ|^−½ x."""
        if self.second is None:
            return self.first.solve(x)
        half = self.first.half_solve(x[self.plus])
        out = np.empty_like(x)
        out[self.minus] = self.second.solve(self.G.T @ half - x[self.minus])
        out[self.plus] = self.first.solve(x[self.plus] - self.cross @ out[self.minus])
        return out

    def explain(self, cross: Array) -> tuple[Array, Array | None]:
        """U and V with cᵀAc = UᵀU − VᵀV for the columns c of `cross`."""
        scaled = self.root[:, None] * cross
        explained = self.first.half_solve(scaled[self.plus])
        if self.second is None:
            return explained, None
        return explained, self.second.half_solve(scaled[self.minus] - self.G.T @ explained)

    def inverse(self) -> Array:
        """A, whole and symmetric (0 where τ is)."""
        A = inverse_of(self.first)
        if self.second is not None:
            H, E = self.first.solve(self.cross), inverse_of(self.second)
            HE = H @ E
            A -= HE @ H.T
            # The rows come back in their own order by one gather, which is cheaper than four scattered writes.
            order = np.argsort(np.concatenate([self.plus, self.minus]))
            A = np.block([[A, HE], [HE.T, -E]])[order[:, None], order]
        A *= self.root[:, None]
        A *= self.root
        return A

    def marginal_variances(self) -> Array:
        """The diagonal of S = C − CAC: half the work of A itself."""
        weak = np.abs(self.precision) * self.C.diagonal() < WEAK
        # 1 − diag of |τ|^−½ A |τ|^−½, whose sign is τ's.
        share = np.empty_like(self.root)
        R = half_inverse_of(self.first)
        diagonal = np.einsum("ij,ij->j", R, R)
        if self.second is not None:
            RE = half_inverse_of(self.second)
            H = R.T @ (self.G @ RE.T)
            diagonal -= np.einsum("ij,ij->i", H, H)
            share[self.minus] = 1.0 - np.einsum("ij,ij->j", RE, RE)
        share[self.plus] = 1.0 - diagonal
        variances = share / np.where(weak, 1.0, self.precision)
        if weak.any():
            rows = self.C[weak]
            U, V = self.explain(rows.T)
            variances[weak] = self.C.diagonal()[weak] - np.einsum("ij,ij->j", U, U)
            if V is not None:
                variances[weak] += np.einsum("ij,ij->j", V, V)
        return np.asarray(variances)


def signed_factor(C: Array, precision: Array) -> SignedFactor | None:
    """The factors for C and τ; None where S is not positive definite."""
    root = np.sqrt(np.abs(precision))
    F = C * root[:, None]
    F *= root
    negative = precision < 0.0
    plus, minus = np.flatnonzero(~negative), np.flatnonzero(negative)
    if len(plus) == 0:
        return None
    whole = len(minus) == 0
    first = factorise(F if whole else F[np.ix_(plus, plus)], np.ones(len(plus)))
    cross = F[np.ix_(plus, minus)]
    if whole:
        return SignedFactor(C, precision, root, plus, minus, first, cross, cross, None)
    G = first.half_solve(cross)
    E = G.T @ G - F[np.ix_(minus, minus)]
    if not np.all(E.diagonal() > -1.0):
        return None
    try:
        second = factorise(E, np.ones(len(minus)))
    except CovarianceError:
        return None
    return None if second.jitter > 0.0 else SignedFactor(C, precision, root, plus, minus, first, cross, G, second)
