"""Robust and conjugate GP regression, RCGP (Altamirano, Briol and Knoblauch, ICML 2024).

Generalised Bayes with a weighted score-matching loss in place of the likelihood. In f that loss is quadratic, so the
posterior is that of a plain GP with other readings and other noise variances (their Proposition 3.1, prior mean m):

    mean m + C (C + σ²J)⁻¹ (y − m_w),  J = diag(½σ²/w²),  m_w = m + σ² ∂/∂y log w².

With the inverse multiquadric weight w = β (1 + (y − m)²/c²)^(−½), β = σ/√2, and r = y − m these are

    noise variance σ² (1 + r²/c²),  residual y − m_w = r + 2σ²r/(c² + r²).

c → ∞ is the plain GP. Here m = 0, for readings are centred by their median; c is the .9 quantile of |r|, as in the
authors' experiments. A loss has no marginal likelihood: (θ, σ²) maximise the leave-one-out predictive density.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import factorise
from biasgp.covariance.posterior import DensePosterior
from biasgp.models.problem import LOG_2PI, FitResult, Problem
from biasgp.models.strategy import covariance_bounds, covariance_starts, search

QUANTILE = 0.9
"""Of |y − m|, which c is when it is not given."""
FARTHEST = 1e4
"""Distance from the prior mean, in units of c, beyond which a reading is taken to be that far: its weight is 1e-8 of
the largest then, and a smaller one would be lost in the rounding of 1/Qᵢᵢ − noise."""


@dataclass(frozen=True, kw_only=True)
class RobustConjugateFit(FitResult):
    """A fitted RCGP; `weights` are w²/β², `bias` is what the noise beyond σ² takes of each reading."""

    c: float
    weights: Array
    bias: Array
    outliers: Mask


@dataclass(frozen=True)
class _Weighted:
    """The readings and noise variances of the plain GP that has RCGP's posterior; and how they change with σ²."""

    residual: Array
    noise: Array
    clean: Array  # σ² and what is known of each reading's own noise
    residual_slope: Array
    noise_slope: Array

    @classmethod
    def of(cls, problem: Problem, c: float, noise_variance: float) -> _Weighted:
        r, clean = problem.y, noise_variance + problem.known
        inflation = 1.0 + (r / c) ** 2
        pull = 2.0 * r / (c**2 * inflation) if np.isfinite(c) else np.zeros(len(r))
        return cls(r + clean * pull, clean * inflation, clean, pull, inflation)


class LeaveOneOut:
    """Negative leave-one-out log predictive density of the readings, and its gradient in (θ, log σ²).

    With Q = (C + diag noise)⁻¹ and α = Q·residual, f at a reading given the others has mean residual − α/Qᵢᵢ and
    variance 1/Qᵢᵢ − noise (Rasmussen and Williams, Section 5.4.2), and the reading itself has σ² more.
    """

    def __init__(self, problem: Problem, c: float) -> None:
        self.problem, self.c = problem, c

    def __call__(self, x: Array) -> tuple[float, Array]:
        problem, sigma2 = self.problem, float(np.exp(x[-1]))
        here = _Weighted.of(problem, self.c, sigma2)
        C, pullback = problem.kernel.with_theta(x[:-1]).vjp(problem.X)
        Q = factorise(C, here.noise).inverse(overwrite=True)
        alpha, own = Q @ here.residual, Q.diagonal().copy()
        error = problem.y - here.residual + alpha / own
        variance = np.maximum(1.0 / own - here.noise, 0.0) + here.clean
        value = 0.5 * float((LOG_2PI + np.log(variance) + error**2 / variance).sum())
        by_error = error / variance
        by_variance = 0.5 * (1.0 - error * by_error) / variance
        # dα = Q(d residual − dK α) and dQ = −Q dK Q make the change of the value tr(W dK) + …
        by_residual = Q @ (by_error / own)
        by_own = -(by_error * alpha + by_variance) / own**2
        cross = np.outer(by_residual, alpha)
        W = -(Q * by_own) @ Q - 0.5 * (cross + cross.T)
        by_noise = W.diagonal() - by_variance
        slope = by_noise * here.noise_slope + by_variance + (by_residual - by_error) * here.residual_slope
        return value, np.append(pullback(W), sigma2 * slope.sum())


def fit(problem: Problem, max_iter: int, *, c: float | None = None) -> RobustConjugateFit:
    """The parameters of highest leave-one-out density, for a given c or the usual one."""
    if c is None:
        # Where most readings are one value there is no such distance: one robust standard deviation stands in.
        c = float(np.quantile(np.abs(problem.y), QUANTILE)) or 1.0
    near = problem.clipped(FARTHEST * c)
    starts, bounds = covariance_starts(problem.kernel), covariance_bounds(near)
    report = search(lambda _, few: LeaveOneOut(few, c), near, starts, bounds, max_iter)
    kernel, noise_variance = problem.kernel.with_theta(report.x[:-1]), float(np.exp(report.x[-1]))
    found = _Weighted.of(near, c, noise_variance)
    posterior = DensePosterior.of(kernel, problem.X, found.noise, found.residual)
    # As in the random bias model: what goes beyond the usual noise is the bias's.
    bias = (found.noise - found.clean) * posterior.alpha
    return RobustConjugateFit(
        kernel=kernel,
        noise_variance=noise_variance,
        posterior=posterior,
        report=report,
        c=c,
        weights=1.0 / found.noise_slope,
        bias=bias,
        outliers=near.outliers(bias, noise_variance),
    )
