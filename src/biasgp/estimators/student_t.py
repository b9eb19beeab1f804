"""StudentTGP: a Gaussian process with Student-t noise, by expectation propagation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array
from biasgp.estimators.base import OUTLIER_SIZE, BaseGP
from biasgp.estimators.validation import check_choice, check_number, check_query, check_readings
from biasgp.models import student_t
from biasgp.models.diagnosis import Finding
from biasgp.models.problem import FitResult, Problem
from biasgp.models.tilted import tilt
from biasgp.response import ScaledResponse

NOISES = ("core", "scale")
MAX_NU = 1e6
"""More degrees of freedom than this and the t is a Gaussian to six digits."""


class StudentTGP(BaseGP):
    """Gaussian process with Student-t noise, y = f(x) + ε, ε ~ σ·t_ν, by robust fractional EP (the paper's EP).

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale per input when left out.
    nu : float, optional
        Degrees of freedom of the noise. Learnt, between 1 and 1000, when left out.
    inference : {"ep", "laplace"}
        "ep": fractional expectation propagation; where it does not converge, Laplace's approximation is returned with
        a ConvergenceWarning. "laplace": that approximation from the start; faster, and less accurate in many inputs.
    fraction : float
        EP's fraction η, above 0 and at most 1. 1 is plain EP. Where EP does not converge with it, 0.5 is tried.
    noise : {"core", "scale"}
        What stands for the noise of the next reading that is not an outlier: the variance of the Gaussian that is as
        high as the t at its centre, or the t's scale², as in the paper and GPstuff. (With ν ≤ 2 a t has no variance.)
    response : {"identity", "log", "yeo-johnson", "auto"}
        Transform of y in which the model holds; "auto" takes the one whose rough fit predicts readings best. Results
        come back in y's units, but for kernel_, which is the covariance of the transformed f. "auto" leaves fewer than
        20 readings as they are; beyond the range of the readings a transform goes on as a straight line.
    max_iter : int
        Most iterations of the search for the parameters.

    Attributes
    ----------
    response_ : Transform
        The transform of y that was used.
    kernel_ : Kernel
        The fitted covariance, in y's unit squared.
    noise_variance_ : float
        Noise variance of readings that are not outliers (see `noise`), in y's unit squared.
    scale_ : float
        The t's scale σ, in y's unit.
    degrees_of_freedom_ : float
        ν.
    log_marginal_likelihood_ : float
        log p(y) at the fitted parameters, as EP or Laplace has it.
    weights_ : ndarray of shape (n_samples,)
        Expected precision of each reading's noise, in units of 1/σ²: E (ν + 1)/(ν + (y − f)²/σ²). Near 0 for an
        outlier; (ν + 1)/ν at most.
    outlier_probability_ : ndarray of shape (n_samples,)
        Posterior probability that |y − f| exceeds 2.5 s, s the standard deviation of the Gaussian that has the t's
        quartiles. (A t has no outliers as such, only large errors.)
    outlier_mask_ : ndarray of bool
        Where that is above one half.
    bias_ : ndarray of shape (n_samples,)
        Posterior mean, in y's unit, of the error where it exceeds 2.5 s, and of 0 where it does not.
    inference_ : {"ep", "laplace"}
        What the fit rests on; differs from `inference` where EP did not converge.
    fraction_ : float
        The fraction that EP converged with; 1 under Laplace.
    converged_ : bool
        Whether `inference` converged as asked for, and the search for the parameters too.
    n_iter_ : int
        Iterations of the search.
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

    def __init__(
        self,
        kernel: Any = None,
        *,
        nu: float | None = None,
        inference: str = "ep",
        fraction: float = 0.9,
        noise: str = "core",
        response: str = "identity",
        max_iter: int = 200,
    ) -> None:
        self.kernel = kernel
        self.response = response
        self.nu = nu
        self.inference = inference
        self.fraction = fraction
        self.noise = noise
        self.max_iter = max_iter

    def _fit_model(self, problem: Problem, response: ScaledResponse) -> student_t.StudentTFit:
        z = response.z
        check_choice("inference", self.inference, ("ep", "laplace"))
        check_choice("noise", self.noise, NOISES)
        fraction = check_number("fraction", self.fraction, above=0.0)
        if fraction > 1.0:
            raise ValueError(f"fraction must be above 0 and at most 1, got {self.fraction!r}.")
        nu = None if self.nu is None else check_number("nu", self.nu, above=0.0)
        if nu is not None and nu > MAX_NU:
            raise ValueError(f"nu must be at most {MAX_NU:g}, got {self.nu!r}: the noise is Gaussian, use GaussianGP.")
        model = student_t.fit(problem, self.max_iter, inference=self.inference, nu=nu, fraction=fraction)
        probability, bias = student_t.judge(z, model, OUTLIER_SIZE)
        self.bias_ = response.bias(bias)
        self.outlier_probability_ = probability
        self.outlier_mask_ = probability > 0.5
        self.weights_ = model.marginals.weight
        self.degrees_of_freedom_ = model.nu
        self._scale2, self.scale_ = model.scale2, response.scaling.spread(model.scale2)
        self.log_marginal_likelihood_ = model.log_likelihood + response.log_jacobian
        self.inference_, self.fraction_ = model.inference, model.fraction
        self.n_sweeps_ = model.n_sweeps
        self.converged_ = model.report.converged and not model.trouble
        warn_of_hidden_outliers(z - model.marginals.mean, model.nu if nu is None else 0.0, stacklevel=4)
        return replace(model, noise_variance=model.scale2) if self.noise == "scale" else model

    def _warn_about(self, model: FitResult) -> None:
        trouble = getattr(model, "trouble", "")
        if not trouble:
            super()._warn_about(model)
            return
        remedy = ("compare constant bias", "fix nu" if self.inference == "ep" else "expectation propagation")
        Finding("not-converged", f"{trouble}. This fit is Laplace's approximation.", remedy).warn(stacklevel=3)

    def log_predictive_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density of readings y at the rows of X, one each: the t convolved with the Gaussian of f, exactly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        """
        check_is_fitted(self)
        array, readings = check_query(self, X), check_readings(y, X)
        mean, variance = self._latent(array, include_noise=False)
        z = self._scaling.forward(readings)
        density = tilt(z, mean, variance, self._scale2, self.degrees_of_freedom_).log_normaliser
        return np.asarray(density + self._scaling.log_slope(readings))


def warn_of_hidden_outliers(residuals: Array, nu: float, stacklevel: int) -> None:
    """Warn where ν was learnt to be large and the residuals say otherwise."""
    found = student_t.hidden_outliers(residuals, nu)
    if found:
        text = f"{found}: outliers may have been taken for noise, as where they are many and lie on one side."
        Finding("hidden-outliers", text, ("compare sparse bias",)).warn(stacklevel)
