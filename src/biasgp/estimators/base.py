"""What every estimator shares: validate → scale → model → attributes in the user's units → predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array
from biasgp.covariance.blocks import MakePool, on_threads
from biasgp.covariance.cluster import on_cluster
from biasgp.covariance.dense import semidefinite_root
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.progress import foreseen, watching
from biasgp.estimators.validation import (
    MIN_READINGS,
    check_choice,
    check_kernel,
    check_noise_variance,
    check_number,
    check_positive_integer,
    check_query,
    check_readings,
    check_spread,
    check_training,
    column_names,
)
from biasgp.models.diagnosis import Finding
from biasgp.models.problem import FitResult, Problem
from biasgp.models.sparse.kinds import log_normal
from biasgp.models.strategy import Strategy, approximation_names, choose_strategy
from biasgp.models.transform_choice import RESPONSES, choose_transform
from biasgp.optimize import OUT_OF_TIME
from biasgp.response import ScaledResponse, Scaling

OUTLIER_SIZE = 2.5
"""A reading counts as an outlier when its estimated bias is more than this many standard deviations of its noise."""


class BaseGP(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A Gaussian process on a robustly scaled, perhaps transformed, response; subclasses supply the model."""

    kernel: Any
    response: str
    max_iter: int
    approximation: str = "exact"
    neighbors: int = 20
    max_time: float | None = None
    verbose: bool = False
    _make_pool: MakePool = staticmethod(on_threads)

    @abstractmethod
    def _fit_model(self, problem: Problem, response: ScaledResponse) -> FitResult:
        """Fit the model to response.z, and set the attributes that are the model's own, in the user's units."""

    def _strategy(self, problem: Problem) -> Strategy:
        """Which engine is used for these readings, and how."""
        check_choice("approximation", self.approximation, approximation_names())
        neighbours = check_positive_integer("neighbors", self.neighbors)
        return choose_strategy(self.approximation, problem.kernel, problem.X, neighbours, self._make_pool)

    def fit(self, X: ArrayLike, y: ArrayLike, noise_variance: ArrayLike | None = None, *, client: Any = None) -> Self:
        """Fit to readings y at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; a pandas or polars frame brings its column names along.
        y : array-like of shape (n_samples,)
            Readings, some of which may be outliers.
        noise_variance : array-like of shape (n_samples,), optional
            Known variance of each reading's error, in y's unit squared, added to the σ² that is learnt.
        client : dask.distributed.Client, optional
            Where the readings live during the fit, if nearest neighbours are used; the result is the same.
        """
        check_positive_integer("max_iter", self.max_iter)
        check_choice("response", self.response, RESPONSES)
        kernel = check_kernel(self.kernel)
        X_array, y_array = check_training(self, X, y)
        check_spread(y_array)
        known = check_noise_variance(noise_variance, len(y_array))
        max_time = None if self.max_time is None else check_number("max_time", self.max_time, above=0.0)
        with watching(max_time, self.verbose) as watch, self._on(client), blas_threads_for(len(y_array)):
            transform = choose_transform(self.response, X_array, y_array, kernel, column_names(self))
            scaling = Scaling.of(y_array, transform).supported_by(y_array)
            if scaling.constant:
                text = f"All readings are {y_array[0]:g}: predictions will be that, and their std means nothing."
                Finding("constant", text, ("right column",)).warn(stacklevel=2)
            response = ScaledResponse(y_array, scaling)
            bound = kernel.bind(X_array, column_names(self), scaling.scale**2)
            problem = Problem(X_array, response.z, bound, response.variances(known))
            with foreseen(type(self).__name__ if self._strategy(problem).exact else "", len(problem)):
                model = self._fit_model(problem, response)
        # What was flagged says nothing of the range of f.
        clean = ~getattr(self, "outlier_mask_", np.zeros(len(y_array), dtype=bool))
        scaling = scaling.supported_by(y_array[clean] if clean.sum() >= MIN_READINGS else y_array)
        self._scaling, self._posterior = scaling, model.posterior
        self._scaled_noise_variance = model.noise_variance
        self.response_ = scaling.transform
        self.kernel_ = model.kernel.scaled(scaling.scale**2)
        self.noise_variance_ = scaling.spread(model.noise_variance) ** 2
        self.n_iter_ = max(1, model.report.n_iter)
        if watch.expired:
            self._out_of_time().warn(stacklevel=2)
        self._warn_about(model)
        return self

    @contextmanager
    def _on(self, client: Any) -> Iterator[None]:
        """Inside, blocks of readings live on the client's cluster."""
        if client is None:
            yield
            return
        self._make_pool = on_cluster(client)
        try:
            yield
        finally:
            del self._make_pool

    def _warn_about(self, model: FitResult) -> None:
        if model.runaway:
            Finding("runaway", f"The tuning ran away: {model.runaway}.", ("maximum likelihood",)).warn(stacklevel=3)
        elif model.report.message != OUT_OF_TIME:
            for finding in self._not_converged(model):
                finding.warn(stacklevel=3)
        jitter = model.posterior.jitter
        if jitter > 0.0:
            text = (
                f"The covariance matrix was singular to working precision: {jitter:.1e} was added to its diagonal (for "
                "readings scaled to 1)."
            )
            Finding("jitter", text, ("less smooth kernel",)).warn(stacklevel=3)

    def _out_of_time(self) -> Finding:
        text = f"The fit was ended after {self.max_time:g} s with the best parameters so far."
        return Finding("time-limit", text, ("more time",))

    def _not_converged(self, model: FitResult) -> tuple[Finding, ...]:
        """The finding that the search did not converge, where that is so."""
        if model.report.converged:
            return ()
        if model.report.message == OUT_OF_TIME:
            return (self._out_of_time(),)
        text = "The search for the parameters stopped before it converged"
        if model.report.n_iter >= self.max_iter:
            return (Finding("not-converged", f"{text}, after {self.max_iter} iterations.", ("more iterations",)),)
        text += ": the covariance is nearly singular, as for readings without noise."
        return (Finding("not-converged", text, ("less smooth kernel",)),)

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Mean of f at the rows of X, with its standard deviation or covariance on request.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std, return_cov : bool
            Return (mean, std) or (mean, covariance); one of them at most.
        include_noise : bool
            False: the uncertainty is that of f. True: that of the next (not outlying) reading, f plus noise.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("Ask for return_std or return_cov, not both.")
        array = check_query(self, X)
        noise = self._scaled_noise_variance if include_noise else 0.0
        scaling = self._scaling
        with blas_threads_for(len(self._posterior.X)):
            if not (return_std or return_cov) and scaling.is_linear:
                return scaling.backward(self._posterior.mean(array))
            if return_cov:
                mean, covariance = self._joint(array)
                covariance.flat[:: len(covariance) + 1] += noise
                return scaling.joint_moments(mean, covariance)
            mean, variance = self._posterior.mean_and_variance(array)
            moments = scaling.moments(mean, variance + noise)
            return moments if return_std else moments[0]

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike, include_noise: bool = False) -> Array:
        """Quantiles of f (of the next, not outlying, reading with include_noise); shape (len(X), len(q)).

        Exact under any response transform: quantiles move with it, as means do not.
        """
        check_is_fitted(self)
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(f"q must be numbers between 0 and 1, got {q!r}.")
        mean, variance = self._latent(check_query(self, X), include_noise)
        return self._scaling.backward(mean[:, None] + np.sqrt(variance)[:, None] * ndtri(levels))

    def log_predictive_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density of a reading y at each row of X, as the model has it."""
        check_is_fitted(self)
        array, readings = check_query(self, X), check_readings(y, X)
        mean, variance = self._latent(array, include_noise=True)
        z = self._scaling.forward(readings)
        return np.asarray(log_normal(z - mean, variance) + self._scaling.log_slope(readings))

    def _latent(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Mean and variance in model units."""
        with blas_threads_for(len(self._posterior.X)):
            mean, variance = self._posterior.mean_and_variance(X)
        return mean, variance + (self._scaled_noise_variance if include_noise else 0.0)

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
        array = check_query(self, X)
        mean, covariance = self._joint(array)
        # Where f is known exactly, rounding can make its covariance indefinite by a little of the prior's, which may
        # itself be nothing (a linear kernel on a column that does not vary).
        prior = np.maximum(self._posterior.kernel.diag(array), covariance.diagonal())
        extra = np.maximum(1e-10 * prior, np.finfo(float).tiny)
        if include_noise:
            extra = extra + self._scaled_noise_variance
        standard = np.random.default_rng(random_state).standard_normal((len(mean), n_samples))
        return self._scaling.backward(mean[:, None] + semidefinite_root(covariance, extra) @ standard)
