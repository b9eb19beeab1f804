"""What models ask of K = C(θ) + diag(noise): the one door between the science and the algebra.

An engine is one way to compute with K for fixed inputs X: `dense` (exact, O(N³)) or `vecchia` (nearest neighbours,
O(N)). A model's objective is written once, against `Engine` and `Covariance`. A new engine is one new file with these
two classes and a posterior, and a line in `models/strategy.py` that says when it is used.

Precisions that may be negative, which only expectation propagation has, are a contract of their own: `signed.py`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from biasgp._typing import Array, Mask
from biasgp.kernels import Kernel


class Density(NamedTuple):
    """−log N(residual; 0, K), with its gradient in theta and in the noise: of each reading, or summed (shape (1,))."""

    value: float
    by_theta: Array
    by_noise: Array


class Posterior(Protocol):
    """f given the readings."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def X(self) -> Array: ...
    @property
    def jitter(self) -> float:
        """What was added to the diagonal of K to factorise it, where that was needed."""

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading of the fit given all the others; NaN where it was dropped."""


class Covariance(Protocol):
    """K at fixed parameters."""

    @property
    def noise(self) -> Array: ...
    @property
    def jitter(self) -> float: ...

    def solve(self, b: Array) -> Array:
        """K⁻¹b."""

    def inverse_diagonal(self) -> Array:
        """The diagonal of K⁻¹."""

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """Keep α where it is not free; where it is, choose it so that (Kα)ᵢ = yᵢ. Returns α and y − Kα."""

    def posterior(self, residual: Array) -> Posterior:
        """f given y − δ = residual."""

    def negative_log_density(self, residual: Array, *, each_noise: bool = False) -> Density:
        """−log N(residual; 0, K) with its gradient. Ask for it last: the dense engine uses up what it has for it."""


class Engine(Protocol):
    """The inputs, prepared for one way of computing with K."""

    def covariance(self, kernel: Kernel, noise: Array) -> Covariance:
        """K at these parameters."""
