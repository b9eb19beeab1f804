"""Predictions of f and of readings, in the user's units, averaged over fits where there are several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array
from biasgp.covariance.dense import semidefinite_root
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.averaging import (
    mixed,
    mixed_draws,
    mixed_joint_moments,
    mixed_log_density,
    mixed_moments,
    mixed_quantiles,
)
from biasgp.estimators.validation import check_positive_integer, check_query, check_readings
from biasgp.models.noise_tails import Tails
from biasgp.models.sparse.kinds import log_normal
from biasgp.models.transform_choice import Weighted
from biasgp.models.varying_noise import Noise
from biasgp.response import Scaling

ROUNDING = 1e-10
"""Share of the prior variance by which rounding can make a covariance indefinite."""


class Predictions:
    """What every estimator predicts. Methods without an underscore take what a user gives, the others checked arrays.

    A fit may be one of several, under other transforms of the response (`_others`, with their weights): then those of
    all of them are averaged.
    """

    _posterior: Any
    _scaling: Scaling
    _scaled_noise_variance: float
    _own_noise_variance: float
    _tails: Tails | None = None
    _transforms: tuple[Weighted, ...]
    _given_transforms: tuple[Weighted, ...] = ()  # by which the choice is made already
    _others: tuple[tuple[float, Any], ...] = ()

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Mean of f at the rows of X, with its standard deviation or covariance on request.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With the columns of fit, and times where those had them. With a kernel that has `Same` in it, f is what all
            labels share: labels make no difference here, and may be new or missing.
        return_std, return_cov : bool
            Return (mean, std) or (mean, covariance); one of them at most.
        include_noise : bool
            False: the uncertainty is that of f. True: that of the next (not outlying) reading, f plus noise.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("Ask for return_std or return_cov, not both.")
        array = check_query(self, X)
        if return_cov:
            weights, each = self._of_members(lambda member: member._joint_moments(array, include_noise))
            return each[0] if len(each) == 1 else mixed_joint_moments(weights, *zip(*each, strict=True))
        if return_std:
            return self._moments(array, include_noise)
        weights, means = self._of_members(lambda member: member._mean(array, include_noise))
        return means[0] if len(means) == 1 else mixed(weights, means)

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike, include_noise: bool = False) -> Array:
        """Quantiles of f (of the next, not outlying, reading with include_noise); shape (len(X), len(q)).

        Exact under any response transform: quantiles move with it, as means do not.
        """
        check_is_fitted(self)
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(f"q must be numbers between 0 and 1, got {q!r}.")
        return self._quantiles(check_query(self, X), levels, include_noise)

    def log_predictive_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density of a reading y at each row of X, as the model has it.

        Where there are labels, it is a reading of that sensor, with the error of its own; that of a new one is unknown.
        """
        check_is_fitted(self)
        array, readings = check_query(self, X, shared=False), check_readings(y, X)
        weights, each = self._of_members(lambda member: member._log_density(array, readings))
        return each[0] if len(each) == 1 else mixed_log_density(weights, each)

    def _gaussian_log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density of readings that are not outliers, as if their noise were Gaussian."""
        array, readings = check_query(self, X, shared=False), check_readings(y, X)
        weights, each = self._of_members(lambda member: Predictions._log_density(member, array, readings))
        return each[0] if len(each) == 1 else mixed_log_density(weights, each)

    @property
    def _is_symmetric(self) -> bool:
        """Whether predictions are normal in y's units."""
        return self._scaling.is_linear and not self._others

    def _mean(self, X: Array, include_noise: bool) -> Array:
        """Mean of f, or of readings, which differ under a transform; of this fit alone."""
        if not self._scaling.is_linear:
            return self._scaling.moments(*self._latent(X, include_noise))[0]
        with blas_threads_for(len(self._posterior.X)):
            return self._scaling.backward(self._posterior.mean(X))

    def _moments(self, X: Array, include_noise: bool = False) -> tuple[Array, Array]:
        """Mean and standard deviation of f, or of readings, of all fits."""
        weights, each = self._of_members(lambda member: member._scaling.moments(*member._latent(X, include_noise)))
        return each[0] if len(each) == 1 else mixed_moments(weights, *zip(*each, strict=True))

    def _quantiles(self, X: Array, levels: Array, include_noise: bool, known: Array | None = None) -> Array:
        """Quantiles of f, or of readings with known variances beside σ², of all fits."""
        parts = [
            (weight * share, member._scaling, mean, std)
            for weight, member in self._members()
            for share, mean, std in member._normals(X, include_noise, known)
        ]
        each = [scaling.backward(mean[:, None] + std[:, None] * ndtri(levels)) for _, scaling, mean, std in parts]
        if len(each) == 1:
            return np.asarray(each[0])

        def probability_below(k: int, y: Array) -> Array:
            _, scaling, mean, std = parts[k]
            return np.asarray(ndtr((scaling.forward(y) - mean[:, None]) / std[:, None]))

        return mixed_quantiles([weight for weight, *_ in parts], each, probability_below, levels)

    def _normals(self, X: Array, include_noise: bool, known: Array | None) -> list[tuple[float, Array, Array]]:
        """Share, mean and standard deviation in model units of the normals that f, or a reading, is a mixture of;
        `known` are further variances, in y's unit squared."""
        mean, variance = self._latent(X, include_noise)
        if known is not None and known.any():
            variance = variance + known * np.exp(2.0 * self._scaling.log_slope(self._scaling.backward(mean)))
        if not include_noise or self._tails is None:
            each = [(1.0, variance)]
        else:
            noise = self._noise_at(X)
            each = [(share, variance + (times - 1.0) * noise) for share, times in self._tails.parts]
        return [(share, mean, np.sqrt(np.maximum(one, np.finfo(float).tiny))) for share, one in each]

    def _log_density(self, X: Array, readings: Array) -> Array:
        """Log density of a reading at each row of X, of this fit alone."""
        mean, variance = self._latent(X, include_noise=True)
        z = self._scaling.forward(readings)
        return np.asarray(log_normal(z - mean, variance) + self._scaling.log_slope(readings))

    def _latent(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Mean and variance in model units."""
        with blas_threads_for(len(self._posterior.X)):
            mean, variance = self._posterior.mean_and_variance(X)
        return mean, variance + (self._noise_at(X) if include_noise else 0.0)

    def _noise_at(self, X: Array) -> Array | float:
        """Variance of the noise at the rows of X, in model units."""
        noise: Noise | None = getattr(self, "_noise", None)  # models of earlier versions have none
        if noise is None:
            return float(self._scaled_noise_variance)
        return np.asarray(self._own_noise_variance + noise(X, self._posterior))

    def _joint_moments(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Mean and covariance of f, or of readings, in y's units, of this fit alone."""
        with blas_threads_for(len(self._posterior.X)):
            mean, covariance = self._joint(X)
        covariance.flat[:: len(covariance) + 1] += self._noise_at(X) if include_noise else 0.0
        return self._scaling.joint_moments(mean, covariance)

    def _joint(self, X: Array) -> tuple[Array, Array]:
        """Mean and covariance of f in model units; what rounding does to its symmetry and diagonal is undone."""
        mean, covariance = self._posterior.mean_and_covariance(X)
        covariance = 0.5 * (covariance + covariance.T)
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
        return mean, covariance

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = 0,
        include_noise: bool = False,
    ) -> Array:
        """Draws of f (or of readings, with include_noise) at the rows of X; shape (len(X), n_samples)."""
        check_is_fitted(self)
        check_positive_integer("n_samples", n_samples)
        array, rng = check_query(self, X), np.random.default_rng(random_state)
        weights, draws = self._of_members(lambda member: member._samples(array, n_samples, rng, include_noise))
        return draws[0] if len(draws) == 1 else mixed_draws(weights, draws, rng)

    def _samples(self, X: Array, n_samples: int, rng: np.random.Generator, include_noise: bool) -> Array:
        """Draws of f, or of readings, of this fit alone."""
        mean, covariance = self._joint(X)
        # Where f is known exactly, rounding can make its covariance indefinite by a little of the prior's, which may
        # itself be 0 (a linear kernel on a column that does not vary).
        prior = np.maximum(self._posterior.kernel.diag(X), covariance.diagonal())
        extra = np.maximum(ROUNDING * prior, np.finfo(float).tiny)
        shape = len(mean), n_samples
        further: Array | float = 0.0
        if include_noise and self._tails is not None:
            variances = self._tails.draw(shape, rng) * np.broadcast_to(self._noise_at(X), len(mean))[:, None]
            further = np.sqrt(variances) * rng.standard_normal(shape)
        elif include_noise:
            extra = extra + self._noise_at(X)
        standard = rng.standard_normal(shape)
        return self._scaling.backward(mean[:, None] + semidefinite_root(covariance, extra) @ standard + further)

    def _members(self) -> list[tuple[float, Self]]:
        """The fits that predictions are averaged over, this one first, with weights whose sum is 1."""
        return [(1.0 - sum(weight for weight, _ in self._others), self), *self._others]

    def _of_members(self, ask: Callable[[Self], Any]) -> tuple[list[float], list[Any]]:
        """Weights, and what each says."""
        members = self._members()
        return [weight for weight, _ in members], [ask(each) for _, each in members]
