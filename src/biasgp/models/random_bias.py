"""Random bias, RAB (the paper's Section 2.2): δᵢ ~ N(μ, τᵢ²), so y ~ N(μ1, C + diag τ̃²), τ̃ᵢ² = τᵢ² + σ².

RL₂ = −log N(y; μ1, C + diag τ̃²) + λ₁μ² + Σ (λ₂ log τ̃ᵢ² + λ₃/τ̃ᵢ²): an inverse-gamma prior on each τ̃ᵢ².

The paper fits (λ₂, λ₃) to the point estimates τ̃², on which they collapse. But the inverse-gamma mixture is a
Student-t (ν = 2λ₂, scale² = λ₃/λ₂), and minimising RL₂ over τ̃² is a step of variational inference for it: with
q(τ̃ᵢ²) inverse-gamma of shape A = λ₂ + ½ and mean precision 1/τ̃ᵢ²,

    −log p(y | θ, λ₂, λ₃) ≤ RL₂ + N·[A log A − A − log Γ(A) + log Γ(λ₂) − λ₂ log λ₃].

So RL₂ plus this bracket bounds the Student-t's marginal likelihood, and minimising the sum over everything, λ₂ and λ₃
included, is what `tuning="ml"` does. (The last two terms are the paper's 𝓡₂ for λ₂ + 1, with the N that it lacks.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import gammaln, psi

from biasgp._typing import Array
from biasgp.covariance import DenseCovariance
from biasgp.kernels import Kernel
from biasgp.models import constant_bias
from biasgp.models.gaussian import LOG_2PI
from biasgp.models.posterior import Posterior
from biasgp.models.search import NOISE_RANGE, covariance_bounds
from biasgp.optimize import Report, minimize

SHAPE_RANGE = (0.25, 200.0)
SCALE_RANGE = (1e-8, 1e4)
PAPER_STEP, MAX_ALTERNATIONS = 10.0, 20

Lambdas = tuple[float, float | None, float | None]
"""(λ₁, λ₂, λ₃); those that are None are to be found."""


@dataclass(frozen=True)
class RandomBiasFit:
    """A fitted random bias model; `lambdas` are (λ₁, λ₂, λ₃), λ₁ infinite where μ is held at 0."""

    kernel: Kernel
    noise_variance: float
    posterior: Posterior
    mean_bias: float
    bias: Array
    bias_variance: Array
    lambdas: tuple[float, float, float]
    optimality: float
    objective: float
    report: Report
    runaway: str = ""


class Solver(Protocol):
    """A covariance that can be solved with."""

    def solve(self, b: Array) -> Array: ...


class RegularisedLikelihood:
    """RL₂ with μ profiled out, plus the bracket above, and the gradient in (θ, log τ̃², log λ₂, log λ₃)."""

    def __init__(self, X: Array, y: Array, kernel: Kernel, known: Array, lambda_mean: float) -> None:
        self.X, self.y, self.kernel, self.known, self.lambda_mean = X, y, kernel, known, lambda_mean

    def level(self, K: Solver) -> float:
        """μ that minimises RL₂."""
        Q1 = K.solve(np.ones_like(self.y))
        return float(Q1 @ self.y / (Q1.sum() + 2.0 * self.lambda_mean))

    def gaussian(self, kernel: Kernel, noise: Array) -> tuple[float, float, Array, Array]:
        """μ; −log N(y; μ1, C + noise), and its gradient in the kernel's theta and in each noise variance."""
        K = DenseCovariance(kernel, self.X, noise)
        mu = self.level(K)
        residual = self.y - mu
        alpha = K.solve(residual)
        value = 0.5 * float(len(self.y) * LOG_2PI + K.logdet + residual @ alpha)
        return mu, value, *K.gradient(alpha)

    def split(self, x: Array) -> tuple[Array, Array, float, float]:
        """θ, τ̃², λ₂, λ₃."""
        n = len(self.y)
        return x[: -n - 2], np.exp(x[-n - 2 : -2]), float(np.exp(x[-2])), float(np.exp(x[-1]))

    def penalty(self, mu: float, variances: Array, shape: float, scale: float) -> float:
        """RL₂ less the density, plus the bracket above."""
        A = shape + 0.5
        bracket = A * np.log(A) - A - gammaln(A) + gammaln(shape)
        prior = (shape * np.log(variances / scale) + scale / variances).sum() + len(self.y) * bracket
        return float(prior) + (self.lambda_mean * mu**2 if mu else 0.0)

    def __call__(self, x: Array) -> tuple[float, Array]:
        theta, variances, shape, scale = self.split(x)
        n = len(self.y)
        mu, value, by_theta, by_noise = self.gaussian(self.kernel.with_theta(theta), variances + self.known)
        value += self.penalty(mu, variances, shape, scale)
        A = shape + 0.5
        by_shape = shape * (np.log(variances / scale).sum() + n * (np.log(A) - psi(A) + psi(shape)))
        by_scale = (scale / variances).sum() - n * shape
        by_variances = variances * by_noise + shape - scale / variances
        return float(value), np.concatenate([by_theta, by_variances, [by_shape, by_scale]])


def fit(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    max_iter: int,
    *,
    lambdas: tuple[float, float, float] | None = None,
) -> RandomBiasFit:
    """Minimise RL₂ for given (λ₁, λ₂, λ₃), or its bound over (λ₂, λ₃) too; from where the constant bias model ends."""
    x = _start(X, y, kernel, known, max_iter)
    if lambdas is not None:
        return _minimise(X, y, kernel, known, x, max_iter, lambdas)
    # A bias common to all readings cannot be told from the level of f, so no μ is looked for.
    return _minimise(X, y, kernel, known, x, max_iter, (np.inf, None, None))


def _start(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> Array:
    """Parameters at the constant bias fit, each τ̃² as a Student-t of ν = 3 would have it there."""
    cob = constant_bias.fit(X, y, kernel, known, max_iter)
    return start_at(cob.kernel, cob.noise_variance, y - cob.posterior.mean(X))


def start_at(kernel: Kernel, noise_variance: float, residual: Array) -> Array:
    """Parameters at a fit with these residuals, each τ̃² as a Student-t of ν = 3 would have it there."""
    shape, scale = 1.5, 1.5 * noise_variance
    variances = (scale + 0.5 * residual**2) / (shape + 0.5)
    return np.concatenate([kernel.theta, np.log(variances), np.log([shape, scale])])


def _minimise(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    x: Array,
    max_iter: int,
    lambdas: Lambdas,
) -> RandomBiasFit:
    """From x, for the given λs; those that are None are found as well."""
    objective = RegularisedLikelihood(X, y, kernel, known, lambdas[0])
    bounds = parameter_bounds(X, y, kernel, lambdas)
    report = minimize(objective, x, bounds, max_iter)
    return _at(X, y, known, objective, report, bounds)


def parameter_bounds(X: Array, y: Array, kernel: Kernel, lambdas: Lambdas) -> Array:
    """Bounds of (θ, log τ̃², log λ₂, log λ₃); a λ that is given stays there."""
    variance = max(1.0, float(np.var(y)))
    ranges = [SHAPE_RANGE, SCALE_RANGE]
    for i, value in enumerate(lambdas[1:]):
        if value is not None:
            ranges[i] = (value, value)
    highest = 1e3 * max(variance, float(np.abs(y).max()) ** 2)
    return np.vstack(
        [
            covariance_bounds(kernel, X, y)[:-1],
            np.log(np.tile([NOISE_RANGE[0], highest], (len(y), 1))),
            np.log(ranges),
        ]
    )


def _at(
    X: Array, y: Array, known: Array, objective: RegularisedLikelihood, report: Report, bounds: Array
) -> RandomBiasFit:
    theta, variances, shape, scale = objective.split(report.x)
    kernel = objective.kernel.with_theta(theta)
    mu = objective.level(DenseCovariance(kernel, X, variances + known)) if np.isfinite(objective.lambda_mean) else 0.0
    posterior = Posterior.of(kernel, X, variances + known, y - mu)
    # Most readings share one small variance, the noise; what goes beyond it is the bias's.
    noise = float(np.median(variances))
    gradient = objective(report.x)[1]
    moved = report.x - np.clip(report.x - gradient, bounds[:, 0], bounds[:, 1])
    return RandomBiasFit(
        kernel=kernel,
        noise_variance=noise,
        posterior=posterior,
        mean_bias=mu,
        bias=mu + np.maximum(variances - noise, 0.0) * posterior.alpha,
        bias_variance=variances,
        lambdas=(objective.lambda_mean, shape, scale),
        optimality=float(np.abs(moved).max()),
        objective=report.value,
        report=report,
    )


def alternate(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> RandomBiasFit:
    """The paper's Section 2.3 to the letter: minimise RL₂ for (λ₁, λ₂, λ₃), then RL₂ + 𝓡₂ over them, until they settle.

    The second step has no minimum inside: μ → 0 sends λ₁ = 1/(2μ²) to infinity, and without the factor N that the
    paper's 𝓡₂ lacks, λ₂ runs off. So each λ is looked for within a factor of its last value, and the fit that one
    runs away from is returned.
    """
    lambdas = (1.0, 2.5, 0.5)
    x = _start(X, y, kernel, known, max_iter)
    for _ in range(MAX_ALTERNATIONS):
        found = _minimise(X, y, kernel, known, x, max_iter, lambdas)
        chosen = _least_by_the_papers_rule(found.mean_bias, found.bias_variance, lambdas)
        moves = np.abs(np.log(np.array(chosen) / lambdas))
        farthest = int(moves.argmax())
        if moves[farthest] > 0.999 * np.log(PAPER_STEP):
            path = f"from {lambdas[farthest]:.3g} to {chosen[farthest]:.3g} and on"
            return replace(found, runaway=f"λ{'₁₂₃'[farthest]} ({path})")
        if moves[farthest] < 0.05:
            return found
        lambdas, x = chosen, found.report.x
    return replace(found, runaway=f"the λs (still moving after {MAX_ALTERNATIONS} alternations)")


def _least_by_the_papers_rule(
    mu: float, variances: Array, lambdas: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The λs of least λ₁μ² + Σ(λ₂ log τ̃² + λ₃/τ̃²) + 𝓡₂, each within a factor of the present one."""
    factors = np.geomspace(1.0 / PAPER_STEP, PAPER_STEP, 201)
    firsts, seconds = lambdas[0] * factors, 1.0 + (lambdas[1] - 1.0) * factors
    # λ₃ = (λ₂ − 1)/Σ τ̃⁻² in closed form.
    precision = float((1.0 / variances).sum())
    thirds = np.clip((seconds - 1.0) / precision, lambdas[2] / PAPER_STEP, lambdas[2] * PAPER_STEP)
    costs = seconds * np.log(variances).sum() + thirds * precision
    costs += gammaln(seconds - 1.0) - (seconds - 1.0) * np.log(thirds)
    best = int(np.argmin(costs))
    first = firsts[int(np.argmin(firsts * mu**2 - 0.5 * np.log(firsts)))]
    return float(first), float(seconds[best]), float(thirds[best])
