"""Draws from a posterior: whether their chains agree, and what f is on average over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.posterior import CHUNK_ENTRIES, DensePosterior
from biasgp.kernels import Kernel

FEWEST = 4
"""Draws of a chain that split-R̂ needs."""


def diagnose(draws: dict[str, Array]) -> tuple[dict[str, float], dict[str, float]]:
    """Split-R̂ (of ranks, and of their distance from the middle: the worse) and bulk effective sample size, by name.

    Each array has one row per chain. NaN where there are too few draws to tell.
    """
    array_stats: Any = import_module("arviz_stats.base").array_stats  # takes a second to import

    if any(values.shape[1] < FEWEST for values in draws.values()):
        return dict.fromkeys(draws, np.nan), dict.fromkeys(draws, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # a chain that never moved has no variance
        r_hat = {name: float(array_stats.rhat(values, method="rank")) for name, values in draws.items()}
        ess = {name: float(array_stats.ess(values, method="bulk")) for name, values in draws.items()}
    return r_hat, ess


@dataclass(frozen=True)
class DrawsPosterior:
    """f averaged over draws of (θ, noise): the mean of the means; the mean of the variances plus the means' variance.

    Only the parameters and α = K⁻¹y of each draw are kept: a variance costs a factorisation per draw, a mean does not.

    Attributes
    ----------
    kernel : Kernel
        The covariance at the average θ.
    thetas, noises, alphas : arrays
        A row a draw.
    """

    kernel: Kernel
    X: Array
    y: Array
    thetas: Array
    noises: Array
    alphas: Array
    jitter: float = 0.0

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        total = np.zeros(len(X))
        step = max(1, CHUNK_ENTRIES // len(self.X))
        for theta, alpha in zip(self.thetas, self.alphas, strict=True):
            kernel = self.kernel.with_theta(theta)
            for at in range(0, len(X), step):
                total[at : at + step] += kernel(X[at : at + step], self.X) @ alpha
        return total / len(self.thetas)

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X."""
        return _mixed(*self.moments(X))

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given all the others, averaged over the draws as they are."""
        pairs = [posterior.leave_one_out() for posterior in self.each()]
        return _mixed(np.stack([mean for mean, _ in pairs]), np.stack([variance for _, variance in pairs]))

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        means, covariance = np.empty((len(self.thetas), len(X))), np.zeros((len(X), len(X)))
        for mean, posterior in zip(means, self.each(), strict=True):
            mean[:], one = posterior.mean_and_covariance(X)
            covariance += one
        apart = means - means.mean(axis=0)
        return means.mean(axis=0), (covariance + apart.T @ apart) / len(means)

    def moments(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f given each draw; one row per draw."""
        pairs = [posterior.mean_and_variance(X) for posterior in self.each()]
        return np.stack([mean for mean, _ in pairs]), np.stack([variance for _, variance in pairs])

    def each(self) -> Iterator[DensePosterior]:
        """The posterior given each draw, made when asked for."""
        for theta, noise in zip(self.thetas, self.noises, strict=True):
            yield DensePosterior.of(self.kernel.with_theta(theta), self.X, noise, self.y)


def _mixed(means: Array, variances: Array) -> tuple[Array, Array]:
    """Moments of an equal mixture; one row per component."""
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
