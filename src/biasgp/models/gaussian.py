"""The plain GP: y = f(x) + ε."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance import DenseCovariance
from biasgp.kernels import Kernel
from biasgp.models.posterior import Posterior
from biasgp.models.search import covariance_bounds, covariance_starts, search
from biasgp.optimize import Report

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class GaussianFit:
    """A fitted plain GP."""

    kernel: Kernel
    noise_variance: float
    posterior: Posterior
    log_likelihood: float
    report: Report


class Likelihood:
    """Negative log marginal likelihood of y ~ N(0, C(θ) + σ²I + diag(known)) and its gradient in (θ, log σ²)."""

    def __init__(self, X: Array, y: Array, kernel: Kernel, known: Array) -> None:
        self.X, self.y, self.kernel, self.known = X, y, kernel, known

    def __call__(self, x: Array) -> tuple[float, Array]:
        variance = np.exp(x[-1])
        K = DenseCovariance(self.kernel.with_theta(x[:-1]), self.X, variance + self.known)
        alpha = K.solve(self.y)
        value = 0.5 * (len(self.y) * LOG_2PI + K.logdet + self.y @ alpha)
        by_theta, by_noise = K.gradient(alpha)
        return float(value), np.append(by_theta, variance * by_noise.sum())


def fit(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> GaussianFit:
    """Maximum likelihood for (θ, σ²)."""
    report = search(
        lambda rows: Likelihood(X[rows], y[rows], kernel, known[rows]),
        X,
        y,
        covariance_starts(kernel),
        covariance_bounds(kernel, X, y),
        max_iter,
    )
    return at(X, y, kernel.with_theta(report.x[:-1]), float(np.exp(report.x[-1])), known, report)


def at(X: Array, y: Array, kernel: Kernel, noise_variance: float, known: Array, report: Report) -> GaussianFit:
    """The fit at given parameters."""
    posterior = Posterior.of(kernel, X, noise_variance + known, y)
    log_likelihood = -0.5 * (len(y) * LOG_2PI + posterior.factor.logdet + y @ posterior.alpha)
    return GaussianFit(kernel, noise_variance, posterior, float(log_likelihood), report)


def leave_one_out(K: DenseCovariance, alpha: Array) -> tuple[Array, Array]:
    """Residual of each reading from the prediction without it, and that prediction's variance (noise included)."""
    variance = 1.0 / K.inverse().diagonal()
    return alpha * variance, variance
