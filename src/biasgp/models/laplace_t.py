"""Laplace's approximation for y ~ Student-t about f ~ N(0, C): the mode of f, the curvature there, the evidence.

The t is not log-concave, so the posterior of f may have several modes and Newton's step may lead uphill. Where it does
a step of expectation–maximisation (the t as a scale mixture: reweighted least squares) is taken, which never does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import psi

from biasgp._typing import Array
from biasgp.covariance.signed import SignedFactor
from biasgp.models.t_noise import StudentT

MAX_STEPS = 200
TOLERANCE = 1e-8
"""The mode is found when a step moves no f by more than this many scales of the t."""
ROUNDING = 1e-10
"""Relative fall of the log posterior that is not taken for a step uphill."""


@dataclass(frozen=True)
class Mode:
    """A mode of f at residuals y − f, b = C⁻¹f there, and the factors of C⁻¹ + diag(curvature of −log t)."""

    t: StudentT
    residual: Array
    mean: Array
    b: Array
    factor: SignedFactor
    n_steps: int
    converged: bool

    @property
    def variance(self) -> Array:
        return self.factor.marginal_variances()

    @property
    def weights(self) -> Array:
        return self.t.weight(self.residual)

    @property
    def log_evidence(self) -> float:
        """Laplace's log p(y)."""
        return _log_posterior(self.t, self.residual, self.b, self.mean) - 0.5 * self.factor.logdet

    def gradient(self) -> tuple[Array, Array]:
        """Gradient of −log p(y): W to be contracted with ∂C, and that in (log σ², log ν). The mode moves with both.

        With s = ∂log p(y)/∂f at the mode and u = (I + diag(W)C)⁻¹s, the mode's own move adds ub' ∂C and (Cu)·∂(first).
        """
        r, nu, n, c = self.residual, self.t.nu, self.t.nu + 1.0, self.t.nu * self.t.scale2
        D, variance = c + r**2, self.variance
        third = 2.0 * n * r * (r**2 - 3.0 * c) / D**3
        u, Cu = self.factor.solve(0.5 * variance * third)
        cross = np.outer(0.5 * self.b, u + 0.5 * self.b)
        W = 0.5 * self.factor.inverse() - cross - cross.T
        # By log c at fixed ν, of log t, of its first and of its second derivative.
        value_c = -0.5 + 0.5 * n * r**2 / D
        first_c = -n * r * c / D**2
        second_c = -n * c / D**2 - 2.0 * n * (r**2 - c) * c / D**3
        by_c = float((value_c + 0.5 * variance * second_c + Cu * first_c).sum())
        # By log ν at fixed c; c itself rises with both parameters.
        value_nu = 0.5 * nu * (psi(0.5 * n) - psi(0.5 * nu) - np.log1p(r**2 / c))
        first_nu, second_nu = nu * r / D, nu * (r**2 - c) / D**2
        by_nu = float((value_nu + 0.5 * variance * second_nu + Cu * first_nu).sum())
        return W, -np.array([by_c, by_c + by_nu])

    @classmethod
    def climb(cls, C: Array, y: Array, t: StudentT, f: Array) -> Mode | None:
        """Climb from f to a mode of the posterior; None where none with a proper curvature was reached."""
        b, value, moved = np.zeros_like(f), -np.inf, np.inf
        for n_steps in range(1, MAX_STEPS + 1):
            first, second = _slopes(t, y - f)
            factor = SignedFactor.factorise(C, -second)
            if factor is not None and moved <= TOLERANCE * np.sqrt(t.scale2):
                return cls(t, y - f, f, b, factor, n_steps, True)
            stepped = None if factor is None or n_steps == 1 else factor.solve(first - second * f)
            if stepped is None or _log_posterior(t, y - stepped[1], *stepped) < value - ROUNDING * abs(value):
                shift, precision = t.sites(y, f)
                easy = SignedFactor.factorise(C, precision)
                if easy is None:
                    return None
                stepped = easy.solve(shift)
            moved = float(np.abs(stepped[1] - f).max())
            b, f = stepped
            value = _log_posterior(t, y - f, b, f)
        return None if factor is None else cls(t, y - f, f, b, factor, MAX_STEPS, False)

    @classmethod
    def reweighted(cls, C: Array, y: Array, t: StudentT, f: Array) -> Mode:
        """Reweighted least squares from f, with the weights' curvature for the posterior's, which always exists."""
        n_steps = 0
        while True:
            shift, precision = t.sites(y, f)
            factor = SignedFactor.factorise(C, precision)
            assert factor is not None  # no precision is negative
            before, (b, f) = f, factor.solve(shift)
            n_steps += 1
            if n_steps == MAX_STEPS or np.abs(f - before).max() <= TOLERANCE * np.sqrt(t.scale2):
                return cls(t, y - f, f, b, factor, n_steps, False)


def _slopes(t: StudentT, residual: Array) -> tuple[Array, Array]:
    """First and second derivative of log t(y | f) in f."""
    n, c = t.nu + 1.0, t.nu * t.scale2
    D = c + residual**2
    return n * residual / D, n * (residual**2 - c) / D**2


def _log_posterior(t: StudentT, residual: Array, b: Array, f: Array) -> float:
    log_t = t.log_peak - 0.5 * (t.nu + 1.0) * np.log1p(residual**2 / (t.nu * t.scale2))
    return float(log_t.sum() - 0.5 * b @ f)
