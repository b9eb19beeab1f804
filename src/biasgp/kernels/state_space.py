"""Kernels of time as states that forget all but the present: what makes the exact GP cost O(N).

A kernel has a state-space form when f(x) = h(x)ᵀs(t), where the state s at time t is Gaussian with covariance P at any
time and, over a gap τ, s(t + τ) = A(τ)s(t) + N(0, Q(τ)), with Q = P − APAᵀ and A = exp(τF). Then k(x, x') =
h(x)ᵀA(t − t')P h(x') for t ≥ t'. Sums stack the states of their parts; products have the Kronecker product of them.
The parameters of these kernels change F by matrices that commute with it, so that dA = τ dF A.

No Q is computed as the difference that defines it: over short gaps that would be rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ive

from biasgp._typing import Array

PERIODIC_ACCURACY, _MOST_COSINES = 1e-12, 40
"""What the cosines that are left out of a periodic kernel may add up to, as a share of its variance; and how many there
are at most, which is enough for length-scales down to .2. The cost grows as the cube of their number."""
_FORGOTTEN = 700.0
"""Decay lengths of a gap over which nothing is left of a state: exp(−700) is near the smallest double."""

_SERIES_UP_TO, _ROUNDING = 2.0, 1e-17
"""Up to which 2r the series is summed, and the share of its first term at which it ends."""

Moves = tuple[Array, Array]
"""A and Q of each gap: (n, s, s) both."""


@dataclass(frozen=True)
class StateSpace:
    """The state-space form of a kernel at fixed parameters; see the module for A, Q, P and h."""

    prior: Array
    """P, (s, s)."""
    observe: Callable[[Array], Array]
    """h at the rows of X: (n, s)."""
    move: Callable[[Array], Moves]
    """A and Q of gaps ≥ 0."""
    pull: Callable[[Array, Array, Array, Array], Array]
    """Of gaps, and weights of F (s, s), Q (n, s, s) and P (s, s): the gradient in θ of Σ weights times entries."""
    column: int | None
    """The input that is time; None where the state does not move."""
    accuracy: float = 0.0
    """What the form may differ by from the kernel, as a share of its variance; 0 where it is exact."""

    @property
    def size(self) -> int:
        """Numbers in a state."""
        return len(self.prior)


def _first(size: int) -> Callable[[Array], Array]:
    """h that reads the first number of a state."""
    return lambda X: np.broadcast_to(np.eye(1, size), (len(X), size))


# The state of a Matérn kernel is f and its derivatives, in units in which time runs in decay lengths. The drift matrix
# is N − I with N nilpotent, so that A(r) = e⁻ʳ Σ Nᵏrᵏ/k! is a finite sum. The last derivative is driven by white noise.
_NILPOTENT = (
    np.zeros((1, 1)),
    np.array([[1.0, 1.0], [-1.0, -1.0]]),
    np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [-1.0, -3.0, -2.0]]),
)
_DRIVE = (2.0, 4.0, 16.0 / 3.0)
"""Variance of that noise per decay length, for a variance of 1."""
_STATIONARY = (np.eye(1), np.eye(2), np.array([[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]))


def matern(order: int, variance: float, length_scale: float, column: int) -> StateSpace:
    """Matérn with smoothness order + ½: exponential (0), 3/2 (1), 5/2 (2)."""
    size, rate = order + 1, math.sqrt(2 * order + 1) / length_scale
    nilpotent, drive = _NILPOTENT[order], variance * _DRIVE[order]
    powers = [np.linalg.matrix_power(nilpotent, k) / math.factorial(k) for k in range(size)]
    last = [power[:, -1] for power in powers]
    P = variance * _STATIONARY[order]
    outer = np.zeros((2 * size - 1, size * size))
    for k, a in enumerate(last):
        for j, b in enumerate(last):
            outer[k + j] += drive * np.outer(a, b).ravel()

    def decay(gaps: Array) -> Array:
        return np.minimum(rate * gaps, _FORGOTTEN)

    def move(gaps: Array) -> Moves:
        r = decay(gaps)
        A = _decaying_powers(r, size) @ np.array(powers).reshape(size, -1)
        return A.reshape(-1, size, size), (_moments(r, 2 * size - 1) @ outer).reshape(-1, size, size)

    def pull(gaps: Array, by_F: Array, by_Q: Array, by_P: Array) -> Array:
        r, weights = decay(gaps), by_Q.reshape(len(gaps), size * size).T
        by_variance = np.vdot((weights @ _moments(r, 2 * size - 1)).T, outer) + np.vdot(by_P, P)
        # A moment's slope in log r is r^(k + 1) e⁻²ʳ.
        slopes = _decaying_powers(2.0 * r, 2 * size)[:, 1:] * 0.5 ** np.arange(1, 2 * size)
        by_log_r = np.vdot((weights @ slopes).T, outer) + np.vdot(by_F, rate * (nilpotent - np.eye(size)))
        return np.array([by_variance, -by_log_r])

    return StateSpace(P, _first(size), move, pull, column)


def _decaying_powers(r: Array, count: int) -> Array:
    """rᵏ e⁻ʳ for k < count, (n, count)."""
    terms = np.empty((count, len(r)))
    np.exp(-r, out=terms[0])
    for k in range(1, count):
        np.multiply(terms[k - 1], r, out=terms[k])
    return terms.T


def _moments(r: Array, count: int) -> Array:
    """∫₀ʳ ρᵏ e⁻²ᵖ dρ for k < count, (n, count).

    The highest by the series of the incomplete gamma function, whose terms are positive, or, for large r, by its finite
    sum; the others from there by a recurrence of positive terms, which loses no digits for small r.
    """
    if count == 1:
        return np.asarray(-0.5 * np.expm1(-2.0 * r))[:, None]
    u, top, moments = 2.0 * r, count - 1, np.empty((count, len(r)))
    decayed, small = np.exp(-u), np.minimum(u, _SERIES_UP_TO)
    powers = [np.ones_like(r)]
    for _ in range(top):
        powers.append(powers[-1] * r)
    # ∫ = e⁻²ʳ r^count/count · (1 + u/(count + 1)(1 + u/(count + 2)(1 + …)))
    highest = np.ones_like(u)
    for k in range(_terms(float(small.max(initial=0.0)), count), 0, -1):
        highest *= small
        highest *= 1.0 / (count + k)
        highest += 1.0
    highest *= powers[top] * r
    highest *= decayed / count
    if (large := u > _SERIES_UP_TO).any():
        far = u[large]
        whole = 1.0 - decayed[large] * sum(far**k / math.factorial(k) for k in range(count))
        highest[large] = whole * (math.factorial(top) / 2.0**count)
    moments[top] = highest
    for k in range(top, 0, -1):
        np.multiply(moments[k], 2.0 / k, out=moments[k - 1])
        moments[k - 1] += powers[k] * (decayed / k)
    return moments.T


def _terms(u: float, count: int) -> int:
    """Terms of the series of `_moments` until they are below rounding error."""
    terms, term = 1, u / (count + 1)
    while term > _ROUNDING:
        terms += 1
        term *= u / (count + terms)
    return terms


def constants(variances: Array, shared: bool, features: Callable[[Array], Array]) -> StateSpace:
    """Coefficients of some functions of x that never change; `shared` where all have the variance of one parameter."""
    P = np.diag(variances)

    def move(gaps: Array) -> Moves:
        A = np.broadcast_to(np.eye(len(P)), (len(gaps), *P.shape))
        return A, np.zeros(A.shape)

    def pull(gaps: Array, by_F: Array, by_Q: Array, by_P: Array) -> Array:
        each = by_P.diagonal() * variances
        return np.array([each.sum()]) if shared else each

    return StateSpace(P, features, move, pull, None)


def periodic(variance: float, length_scale: float, period: float, column: int) -> StateSpace:
    """exp(−(1 − cos ωτ)/ℓ²) as a sum of cosines, each of which is a state of two numbers that turns.

    Its coefficients are Bessel functions of 1/ℓ², and as many are taken as PERIODIC_ACCURACY asks for.
    """
    z, omega = length_scale**-2.0, 2.0 * math.pi / period
    number = np.arange(_MOST_COSINES + 1)
    left: Array = 1.0 - np.cumsum(np.where(number == 0, 1.0, 2.0) * ive(number, z))
    enough = np.flatnonzero(left[1:] <= PERIODIC_ACCURACY)
    order = 1 + int(enough[0]) if len(enough) else _MOST_COSINES
    turns = np.repeat(np.arange(order + 1), 2)[1:]  # cosines per period: one number for the mean, two for each other
    weights = np.where(turns == 0, 1.0, 2.0) * ive(turns, z)
    slopes = np.where(turns == 0, 1.0, 2.0) * (0.5 * (ive(turns - 1, z) + ive(turns + 1, z)) - ive(turns, z))
    cosine, sine = np.arange(1, len(turns), 2), np.arange(2, len(turns), 2)
    P = variance * np.diag(weights)
    reading = np.zeros((1, len(turns)))
    reading[0, 0] = 1.0
    reading[0, cosine] = 1.0

    def move(gaps: Array) -> Moves:
        angle = np.multiply.outer(omega * gaps, turns[cosine])
        A = np.zeros((len(gaps), len(turns), len(turns)))
        A[:, 0, 0] = 1.0
        A[:, cosine, cosine] = A[:, sine, sine] = np.cos(angle)
        A[:, sine, cosine] = np.sin(angle)
        A[:, cosine, sine] = -A[:, sine, cosine]
        return A, np.zeros(A.shape)

    def pull(gaps: Array, by_F: Array, by_Q: Array, by_P: Array) -> Array:
        by_z = variance * float(by_P.diagonal() @ slopes)
        # F turns: its entries are ∓ω times the turns per period.
        by_omega = float(turns[cosine] @ (by_F[sine, cosine] - by_F[cosine, sine]))
        return np.array([np.vdot(by_P, P), -2.0 * z * by_z, -omega * by_omega])

    accuracy = max(float(left[order]), PERIODIC_ACCURACY)
    return StateSpace(P, lambda X: np.broadcast_to(reading, (len(X), len(turns))), move, pull, column, accuracy)


def _one_clock(left: StateSpace, right: StateSpace) -> bool:
    return left.column is None or right.column is None or left.column == right.column


def stacked(left: StateSpace | None, right: StateSpace | None) -> StateSpace | None:
    """The form of a sum; None where a part has none, or where the parts run in different inputs."""
    if left is None or right is None or not _one_clock(left, right):
        return None
    n, size = left.size, left.size + right.size
    first, second = slice(None, n), slice(n, None)

    def blocks(A: Array, B: Array) -> Array:
        joined = np.zeros((*A.shape[:-2], size, size))
        joined[..., first, first], joined[..., second, second] = A, B
        return joined

    def move(gaps: Array) -> Moves:
        (A, Q), (B, S) = left.move(gaps), right.move(gaps)
        return blocks(A, B), blocks(Q, S)

    def pull(gaps: Array, *weights: Array) -> Array:  # of F, Q and P
        return np.concatenate([
            part.pull(gaps, *(w[..., rows, rows] for w in weights)) for part, rows in ((left, first), (right, second))
        ])  # fmt: skip

    return StateSpace(
        blocks(left.prior, right.prior),
        lambda X: np.hstack([left.observe(X), right.observe(X)]),
        move,
        pull,
        right.column if left.column is None else left.column,
        left.accuracy + right.accuracy,
    )


def multiplied(left: StateSpace | None, right: StateSpace | None) -> StateSpace | None:
    """The form of a product; None as in `stacked`.

    Q = Q₁⊗P₂ + (A₁P₁A₁ᵀ)⊗Q₂: a sum of positive terms again.
    """
    if left is None or right is None or not _one_clock(left, right):
        return None
    n, m = left.size, right.size
    size = n * m

    def kron(A: Array, B: Array) -> Array:
        return np.asarray(np.einsum("...ij,...kl->...ikjl", A, B)).reshape(
            *np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), size, size
        )

    def parted(W: Array) -> Array:
        return W.reshape(*W.shape[:-2], n, m, n, m)

    def move(gaps: Array) -> Moves:
        (A, Q), (B, S) = left.move(gaps), right.move(gaps)
        return kron(A, B), kron(Q, right.prior) + kron(A @ left.prior @ A.swapaxes(-1, -2), S)

    def pull(gaps: Array, by_F: Array, by_Q: Array, by_P: Array) -> Array:
        (A, Q), (_, S) = left.move(gaps), right.move(gaps)
        kept = A @ left.prior @ A.swapaxes(-1, -2)
        of_F, of_Q, of_P = parted(by_F), parted(by_Q), parted(by_P)
        by_kept = np.einsum("tikjl,tkl->tij", of_Q, S)
        by_left = (
            np.einsum("ikjk->ij", of_F) + 2.0 * np.einsum("t,tik,tkj->ij", gaps, by_kept, kept),
            np.einsum("tikjl,kl->tij", of_Q, right.prior),
            np.einsum("ikjl,kl->ij", of_P, right.prior) + np.einsum("tki,tkl,tlj->ij", A, by_kept, A),
        )
        by_right = (
            np.einsum("ikil->kl", of_F),
            np.einsum("tikjl,tij->tkl", of_Q, kept),
            np.einsum("ikjl,ij->kl", of_P, left.prior) + np.einsum("tikjl,tij->kl", of_Q, Q),
        )
        return np.concatenate([left.pull(gaps, *by_left), right.pull(gaps, *by_right)])

    def observe(X: Array) -> Array:
        return np.asarray(np.einsum("ni,nk->nik", left.observe(X), right.observe(X))).reshape(len(X), size)

    return StateSpace(
        kron(left.prior, right.prior),
        observe,
        move,
        pull,
        right.column if left.column is None else left.column,
        left.accuracy + right.accuracy,
    )
