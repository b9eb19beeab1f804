"""The plain GP on many readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Kernel
from biasgp.models import gaussian
from biasgp.models.large.posterior import VecchiaPosterior
from biasgp.models.large.search import Scheme, climb, patches
from biasgp.models.search import covariance_bounds, covariance_starts
from biasgp.optimize import Report, multistart


@dataclass(frozen=True)
class LargeGaussianFit:
    """As `gaussian.GaussianFit`, with the approximate likelihood."""

    kernel: Kernel
    noise_variance: float
    posterior: VecchiaPosterior
    log_likelihood: float
    report: Report


class Likelihood:
    """`gaussian.Likelihood` by nearest neighbours."""

    def __init__(self, vecchia: Vecchia, y: Array, kernel: Kernel, known: Array) -> None:
        self.vecchia, self.y, self.kernel, self.known = vecchia, y, kernel, known

    def __call__(self, x: Array) -> tuple[float, Array]:
        variance = np.exp(x[-1])
        value, by_theta, by_noise = self.vecchia.negative_log_density(
            self.kernel.with_theta(x[:-1]), self.y, variance + self.known
        )
        return value, np.append(by_theta, variance * by_noise)


def fit(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int, scheme: Scheme) -> LargeGaussianFit:
    """Maximum approximate likelihood for (θ, σ²)."""
    bounds = covariance_bounds(kernel, X, y)
    rows = patches(kernel, X)
    few = gaussian.Likelihood(X[rows], y[rows], kernel, known[rows])
    with blas_threads_for(len(rows)):
        first = multistart(few, covariance_starts(kernel), bounds, max_iter)
    _, report = climb(
        lambda vecchia: Likelihood(vecchia, y, kernel, known), kernel, X, first, len(rows), bounds, max_iter, scheme
    )
    return at(X, y, kernel.with_theta(report.x[:-1]), float(np.exp(report.x[-1])), known, report, scheme)


def at(
    X: Array, y: Array, kernel: Kernel, noise_variance: float, known: Array, report: Report, scheme: Scheme
) -> LargeGaussianFit:
    """The fit at given parameters."""
    posterior = VecchiaPosterior.of(kernel, X, noise_variance + known, y, scheme.neighbours)
    return LargeGaussianFit(kernel, noise_variance, posterior, -report.value, report)
