"""StudentTGP: a Gaussian process with Student-t noise, by expectation propagation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.protocol import Posterior
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.base import BaseGP
from biasgp.estimators.validation import check_choice, check_number
from biasgp.models import student_t
from biasgp.models.diagnosis import Finding
from biasgp.models.problem import FitResult, Problem
from biasgp.models.t_noise import StudentT, StudentTNoiseFit
from biasgp.response import ScaledResponse

MAX_NU = 1e6
"""More degrees of freedom than this and the t is a Gaussian to six digits."""


@dataclass(eq=False, repr=False, kw_only=True)
class StudentTNoiseGP(BaseGP):
    """A Gaussian process with Student-t noise, however it is inferred.

    Parameters
    ----------
    {inherited}
    nu : float, optional
        Degrees of freedom of the noise. When left out they are learnt: between 1 and 1000 by EP, 0.5 and 200 by MCMC.
    noise : {"core", "scale"}
        What stands for the noise of the next reading that is not an outlier: the variance of the Gaussian that is as
        high as the t at its centre, or the t's scale², as in the paper and GPstuff. (With ν ≤ 2 a t has no variance.)

    Attributes
    ----------
    {inherited}
    scale_ : float
        The t's scale σ, in y's unit (root of the posterior mean of σ², where it is sampled).
    degrees_of_freedom_ : float
        ν (its posterior median, where it is sampled).
    weights_ : ndarray of shape (n_samples,)
        Expected precision of each reading's noise, in units of 1/σ²: E (ν + 1)/(ν + (y − f)²/σ²). Near 0 for an
        outlier; (ν + 1)/ν at most.
    outlier_probability_ : ndarray of shape (n_samples,)
        Posterior probability that `|y − f|` exceeds 2.5 s, s the standard deviation of the Gaussian that has the t's
        quartiles. (A t has no outliers as such, only large errors.)
    outlier_mask_ : ndarray of bool
        Where that is above one half.
    bias_ : ndarray of shape (n_samples,)
        Posterior mean, in y's unit, of the error where it exceeds 2.5 s, and of 0 where it does not.
    """

    nu: float | None = None
    noise: str = "core"

    def _fit_model(self, problem: Problem) -> FitResult:
        check_choice("noise", self.noise, ("core", "scale"))
        nu = None if self.nu is None else check_number("nu", self.nu, above=0.0)
        if nu is not None and nu > MAX_NU:
            raise ValueError(f"nu must be at most {MAX_NU:g}, got {self.nu!r}: the noise is Gaussian, use GaussianGP.")
        model = self._infer(problem, nu)
        return replace(model, noise_variance=model.scale2) if self.noise == "scale" else model

    def _infer(self, problem: Problem, nu: float | None) -> StudentTNoiseFit:
        raise NotImplementedError

    def _unpack(self, model: Any, response: ScaledResponse) -> None:
        self.bias_ = response.bias(model.bias)
        self.outlier_probability_ = model.outlier_probability
        self.outlier_mask_ = model.outlier_probability > 0.5
        self.weights_ = model.weights
        self.degrees_of_freedom_ = model.nu
        self.scale_ = response.scaling.spread(model.scale2)
        super()._unpack(model, response)

    def _findings(self, model: Any) -> Iterator[Finding]:
        if self.nu is None and model.hidden_outliers:
            advice = "outliers may have been taken for noise, as where they are many and lie on one side."
            yield Finding("hidden-outliers", f"{model.hidden_outliers}: {advice}", ("compare sparse bias",))
        yield from super()._findings(model)

    def _log_density(self, X: Array, readings: Array) -> Array:
        """The t convolved with the Gaussian of f, exactly; averaged over the draws of the parameters, if there are."""
        z, n = self._scaling.forward(readings), 0
        total = np.full(len(z), -np.inf)
        with blas_threads_for(len(self._posterior.X)):
            for t, posterior in self._draws_of_noise():
                total, n = np.logaddexp(total, t.tilt(z, *posterior.mean_and_variance(X)).log_normaliser), n + 1
        return np.asarray(total - np.log(n) + self._scaling.log_slope(readings))

    def _draws_of_noise(self) -> Iterator[tuple[StudentT, Posterior]]:
        """The noise, and f given its parameters: for each draw, or once where they were estimated."""
        raise NotImplementedError


@dataclass(eq=False, repr=False, kw_only=True)
class StudentTGP(StudentTNoiseGP):
    """Gaussian process with Student-t noise, y = f(x) + ε, ε ~ σ·t_ν, by robust fractional EP (the paper's EP).

    Parameters
    ----------
    {inherited}
    inference : {"ep", "laplace"}
        "ep": fractional expectation propagation; where it does not converge, Laplace's approximation is returned with
        a ConvergenceWarning. "laplace": that approximation from the start; faster, and less accurate in many inputs.
    fraction : float
        EP's fraction η, above 0 and at most 1. 1 is plain EP. Where EP does not converge with it, 0.5 is tried.

    Attributes
    ----------
    {inherited}
    log_marginal_likelihood_ : float
        log p(y) at the fitted parameters, as EP or Laplace has it.
    inference_ : {"ep", "laplace"}
        What the fit rests on; differs from `inference` where EP did not converge.
    fraction_ : float
        The fraction that EP converged with; 1 under Laplace.
    converged_ : bool
        Whether `inference` converged as asked for, and the search for the parameters too.
    n_sweeps_ : int
        Updates of all sites (or of the mode) in the whole search.

    Notes
    -----
    `fit(X, y, noise_variance=...)` takes known variances as those of a Gaussian error beside the t.
    `predict(include_noise=True)` adds `noise_variance_` to the variance of f. The density of the next reading,
    whatever it is, is `log_predictive_density`.

    References
    ----------
    Jylänki, Vanhatalo and Vehtari (2011), Robust Gaussian process regression with a Student-t likelihood, JMLR 12.

    Examples
    --------
    >>> from biasgp import StudentTGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> mean, std = StudentTGP().fit(data.X, data.y).predict(data.X_test, return_std=True)
    """

    inference: str = "ep"
    fraction: float = student_t.FRACTION

    def _infer(self, problem: Problem, nu: float | None) -> student_t.StudentTFit:
        check_choice("inference", self.inference, ("ep", "laplace"))
        fraction = check_number("fraction", self.fraction, above=0.0)
        if fraction > 1.0:
            raise ValueError(f"fraction must be above 0 and at most 1, got {self.fraction!r}.")
        return student_t.fit(problem, self.max_iter, inference=self.inference, nu=nu, fraction=fraction)

    def _unpack(self, model: student_t.StudentTFit, response: ScaledResponse) -> None:
        super()._unpack(model, response)
        self._scale2 = model.scale2
        self.log_marginal_likelihood_ = model.log_likelihood + response.log_jacobian
        self.inference_, self.fraction_ = model.inference, model.fraction
        self.n_sweeps_ = model.n_sweeps
        self.converged_ = model.report.converged and not model.trouble

    def _findings(self, model: student_t.StudentTFit) -> Iterator[Finding]:
        if not model.trouble:
            yield from super()._findings(model)
            return
        remedy = ("compare constant bias", "fix nu" if self.inference == "ep" else "expectation propagation")
        yield Finding("not-converged", f"{model.trouble}. This fit is Laplace's approximation.", remedy)

    def _draws_of_noise(self) -> Iterator[tuple[StudentT, Posterior]]:
        yield StudentT(self._scale2, self.degrees_of_freedom_), self._posterior
