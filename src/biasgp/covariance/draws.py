"""f on average over draws of the parameters from their posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.posterior import DensePosterior, chunks, mixture_moments
from biasgp.kernels import Kernel


@dataclass(frozen=True)
class DrawsPosterior:
    """f averaged over draws of (θ, noise): the mean of the means; the mean of the variances plus the means' variance.

    Only the parameters and α = K⁻¹y of each draw are kept: a variance costs a factorisation per draw, a mean does not.

    Attributes
    ----------
    kernel : Kernel
        The covariance at the average θ.
    thetas, noises, alphas : arrays
        One row per draw.
    """

    kernel: Kernel
    X: Array
    y: Array
    thetas: Array
    noises: Array
    alphas: Array
    jitter: float = 0.0

    @property
    def _weights(self) -> Array:
        return np.full(len(self.thetas), 1.0 / len(self.thetas))

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        total = np.zeros(len(X))
        for theta, alpha in zip(self.thetas, self.alphas, strict=True):
            kernel = self.kernel.with_theta(theta)
            for rows in chunks(len(X), len(self.X)):
                total[rows] += kernel(X[rows], self.X) @ alpha
        return total / len(self.thetas)

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""
        return mixture_moments(self._weights, [posterior.mean_and_variance(X) for posterior in self.each()])

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given all the others, averaged over the draws as they are."""
        return mixture_moments(self._weights, [posterior.leave_one_out() for posterior in self.each()])

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        means, covariance = np.empty((len(self.thetas), len(X))), np.zeros((len(X), len(X)))
        for mean, posterior in zip(means, self.each(), strict=True):
            mean[:], one = posterior.mean_and_covariance(X)
            covariance += one
        apart = means - means.mean(axis=0)
        return means.mean(axis=0), (covariance + apart.T @ apart) / len(means)

    def each(self) -> Iterator[DensePosterior]:
        """The posterior given each draw, made when asked for."""
        for theta, noise in zip(self.thetas, self.noises, strict=True):
            yield DensePosterior.of(self.kernel.with_theta(theta), self.X, noise, self.y)
