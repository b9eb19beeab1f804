"""Laplace's approximation for y ~ Student-t about f ~ N(0, C): the mode of f, the curvature there, the evidence.

The t is not log-concave, so the posterior of f may have several modes and Newton's step may lead uphill. Where it does
a step of expectation–maximisation (the t as a scale mixture: reweighted least squares) is taken, which never does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from biasgp._typing import Array
from biasgp.covariance.signed import SignedFactor
from biasgp.models.ep import weighted_sites
from biasgp.models.t_noise import StudentT

MAX_STEPS = 200
TOLERANCE = 1e-8
"""The mode is found when a step moves no f by more than this many scales of the t."""


@dataclass(frozen=True)
class Derivatives:
    """log t(y | f) and its derivatives in f, each a reading's."""

    value: Array
    first: Array
    second: Array
    third: Array


@dataclass(frozen=True)
class Mode:
    """A mode of f, b = C⁻¹f there, and the factors of C⁻¹ + diag(−second)."""

    f: Array
    b: Array
    factor: SignedFactor
    derivatives: Derivatives
    n_steps: int
    converged: bool


def log_density(y: Array, f: Array, t: StudentT) -> Derivatives:
    """log t(y | f) with its derivatives in f."""
    r, c = y - f, t.nu * t.scale2
    D = c + r**2
    constant = gammaln(0.5 * (t.nu + 1.0)) - gammaln(0.5 * t.nu) - 0.5 * np.log(np.pi * c)
    n = t.nu + 1.0
    return Derivatives(
        value=constant - 0.5 * n * np.log1p(r**2 / c),
        first=n * r / D,
        second=n * (r**2 - c) / D**2,
        third=2.0 * n * r * (r**2 - 3.0 * c) / D**3,
    )


def find_mode(C: Array, y: Array, t: StudentT, f: Array) -> Mode | None:
    """Climb from f to a mode of the posterior; None where none with a proper curvature was reached."""
    b, value = np.zeros_like(f), -np.inf
    moved = np.inf
    for n_steps in range(1, MAX_STEPS + 1):
        d = log_density(y, f, t)
        factor = SignedFactor.factorise(C, -d.second)
        if factor is not None and moved <= TOLERANCE * np.sqrt(t.scale2):
            return Mode(f, b, factor, d, n_steps, True)
        stepped = None if factor is None or n_steps == 1 else factor.solve(d.first - d.second * f)
        if stepped is None or _log_posterior(y, *stepped, t) < value - 1e-10 * abs(value):
            sites = weighted_sites(y, f, t)
            easy = SignedFactor.factorise(C, sites.precision)
            if easy is None:
                return None
            stepped = easy.solve(sites.shift)
        moved = float(np.abs(stepped[1] - f).max())
        b, f = stepped
        value = _log_posterior(y, b, f, t)
    return None if factor is None else Mode(f, b, factor, d, MAX_STEPS, False)


def reweighted(C: Array, y: Array, t: StudentT, f: Array) -> Mode:
    """Reweighted least squares from f, with the weights' curvature for the posterior's: it exists for any readings."""
    n_steps = 0
    while True:
        sites = weighted_sites(y, f, t)
        factor = SignedFactor.factorise(C, sites.precision)
        assert factor is not None  # no precision is negative
        before, (b, f) = f, factor.solve(sites.shift)
        n_steps += 1
        if n_steps == MAX_STEPS or np.abs(f - before).max() <= TOLERANCE * np.sqrt(t.scale2):
            return Mode(f, b, factor, log_density(y, f, t), n_steps, False)


def _log_posterior(y: Array, b: Array, f: Array, t: StudentT) -> float:
    return float(log_density(y, f, t).value.sum() - 0.5 * b @ f)


def evidence(mode: Mode) -> float:
    """Laplace's log p(y)."""
    return float(mode.derivatives.value.sum() - 0.5 * mode.b @ mode.f - 0.5 * mode.factor.logdet)


def gradient(mode: Mode, y: Array, t: StudentT) -> tuple[Array, Array]:
    """Gradient of −evidence: W to be contracted with ∂C, and that in (log scale², log ν). The mode moves with both.

    With s = ∂evidence/∂f at the mode and u = (I + diag(W)C)⁻¹s, the mode's own move adds ub' ∂C and (Cu)·∂(first).
    """
    d, variance = mode.derivatives, mode.factor.marginal_variances()
    u, Cu = mode.factor.solve(0.5 * variance * d.third)
    cross = np.outer(0.5 * mode.b, u + 0.5 * mode.b)
    W = 0.5 * mode.factor.inverse() - cross - cross.T
    by_likelihood = _by_likelihood(y, mode.f, t, variance, Cu)
    return W, by_likelihood


def _by_likelihood(y: Array, f: Array, t: StudentT, variance: Array, Cu: Array) -> Array:
    r2, r, n = (y - f) ** 2, y - f, t.nu + 1.0
    c = t.nu * t.scale2
    D = c + r2
    # By log c at fixed ν, of log t, of its first and of its second derivative.
    value_c = -0.5 + 0.5 * n * r2 / D
    first_c = -n * r * c / D**2
    second_c = -n * c / D**2 - 2.0 * n * (r2 - c) * c / D**3
    # By log ν at fixed c; c itself rises with both parameters.
    value_nu = 0.5 * t.nu * (psi(0.5 * n) - psi(0.5 * t.nu) - np.log1p(r2 / c))
    first_nu, second_nu = t.nu * r / D, t.nu * (r2 - c) / D**2
    by_c = value_c + 0.5 * variance * second_c + Cu * first_c
    by_nu = value_nu + 0.5 * variance * second_nu + Cu * first_nu
    return -np.array([by_c.sum(), by_c.sum() + by_nu.sum()])
