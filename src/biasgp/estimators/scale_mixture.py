"""ScaleMixtureGP: a Gaussian process with Student-t noise, by Markov chain Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, check_random_state

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.estimators.base import OUTLIER_SIZE, BaseGP
from biasgp.estimators.student_t import MAX_NU, NOISES, warn_of_hidden_outliers
from biasgp.estimators.validation import (
    check_choice,
    check_number,
    check_positive_integer,
    check_query,
    check_readings,
)
from biasgp.kernels import Kernel
from biasgp.models import scale_mixture
from biasgp.models.diagnosis import Finding
from biasgp.models.problem import FitResult, Problem
from biasgp.models.tilted import tilt
from biasgp.response import ScaledResponse

MAX_R_HAT = 1.05


class ScaleMixtureGP(BaseGP):
    """Gaussian process with Student-t noise, y = f(x) + ε, ε ~ σ·t_ν, by MCMC (the paper's MCMC).

    The t is a mixture of Gaussians: each reading has a variance of its own, drawn by Gibbs sampling. The kernel's
    parameters are drawn by Hamiltonian Monte Carlo with f integrated out. Slower than the other estimators, and the
    only one whose predictions account for not knowing the parameters.

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale per input when left out. Values given to it are the
        middle of its parameters' priors.
    nu : float, optional
        Degrees of freedom of the noise. Drawn too, between 0.5 and 200, when left out.
    draws : int
        Iterations kept, of each chain.
    tune : int
        Iterations before those, of each chain, in which the sampler is tuned; they are not kept.
    chains : int
        Chains, from starts that are further apart than the posterior is wide.
    random_state : int, RandomState instance or None
        Seed of the draws. None: another one each time.
    noise : {"core", "scale"}
        What stands for the noise of the next reading that is not an outlier: the variance of the Gaussian that is as
        high as the t at its centre, or the t's scale², as in the paper and GPstuff. (With ν ≤ 2 a t has no variance.)
    response : {"identity", "log", "yeo-johnson", "auto"}
        Transform of y in which the model holds; "auto" takes the one whose rough fit predicts readings best. Results
        come back in y's units, but for kernel_, which is the covariance of the transformed f. "auto" leaves fewer than
        20 readings as they are; beyond the range of the readings a transform goes on as a straight line.
    max_iter : int
        Most iterations of the search for a start.
    progress : bool
        Show a bar while sampling, where rich is installed.
    on_interrupt : {"raise", "return"}
        What Ctrl-C does while draws are taken: "return" ends the fit with those taken so far and an
        InterruptedWarning. Before the first draw it always raises.

    Attributes
    ----------
    response_ : Transform
        The transform of y that was used.
    kernel_ : Kernel
        The covariance at the parameters' geometric means, in y's unit squared.
    noise_variance_ : float
        Noise variance of readings that are not outliers (see `noise`), in y's unit squared; posterior mean.
    scale_ : float
        The t's scale σ, in y's unit: root of the posterior mean of σ².
    degrees_of_freedom_ : float
        Posterior median of ν.
    draws_ : dict of str to ndarray of shape (chains, draws)
        The draws of each parameter that is not fixed, by name; variances in y's unit squared. (Parameters of a
        scikit-learn kernel are in units of the scaled response.)
    r_hat_, effective_sample_size_ : dict of str to float
        Split-R̂ and bulk effective sample size of each of these.
    converged_ : bool
        Whether every R̂ is at most 1.05 and nothing was interrupted.
    weights_ : ndarray of shape (n_samples,)
        Expected precision of each reading's noise, in units of 1/σ²: E (ν + 1)/(ν + (y − f)²/σ²). Near 0 for an
        outlier.
    outlier_probability_ : ndarray of shape (n_samples,)
        Posterior probability that |y − f| exceeds 2.5 s, s the standard deviation of the Gaussian that has the t's
        quartiles. (A t has no outliers as such, only large errors.)
    outlier_mask_ : ndarray of bool
        Where that is above one half.
    bias_ : ndarray of shape (n_samples,)
        Posterior mean, in y's unit, of the error where it exceeds 2.5 s, and of 0 where it does not.
    n_iter_ : int
        Draws taken, of each chain.

    Notes
    -----
    `fit(X, y, noise_variance=...)` takes known variances as those of a Gaussian error beside the t.
    Predictions average over some hundred draws: the mean of their means; the mean of their variances plus the variance
    of their means. `predict(include_noise=True)` adds `noise_variance_` to that, and quantiles are those of the
    Gaussian with these moments. The density of the next reading, `log_predictive_density`, is exact.

    Examples
    --------
    >>> from biasgp import ScaleMixtureGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> mean, std = ScaleMixtureGP().fit(data.X, data.y).predict(data.X_test, return_std=True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        nu: float | None = None,
        draws: int = 300,
        tune: int = 100,
        chains: int = 4,
        random_state: Any = 0,
        noise: str = "core",
        response: str = "identity",
        max_iter: int = 200,
        progress: bool = False,
        on_interrupt: str = "raise",
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.random_state = random_state
        self.noise = noise
        self.response = response
        self.max_iter = max_iter
        self.progress = progress
        self.on_interrupt = on_interrupt

    def _fit_model(self, problem: Problem, response: ScaledResponse) -> FitResult:
        plan = scale_mixture.Plan(
            draws=check_positive_integer("draws", self.draws),
            tune=check_positive_integer("tune", self.tune),
            chains=check_positive_integer("chains", self.chains),
        )
        if find_spec("arviz_stats") is None:
            raise ImportError("ScaleMixtureGP judges its chains with arviz-stats: pip install 'biasgp[mcmc]'.")
        check_choice("on_interrupt", self.on_interrupt, ("raise", "return"))
        check_choice("noise", self.noise, NOISES)
        nu = None if self.nu is None else check_number("nu", self.nu, above=0.0)
        if nu is not None and nu > MAX_NU:
            raise ValueError(f"nu must be at most {MAX_NU:g}, got {self.nu!r}: the noise is Gaussian, use GaussianGP.")
        seed = np.random.SeedSequence(check_random_state(self.random_state).randint(2**31, size=4).tolist())
        with _bar(bool(self.progress)) as progress:
            model = scale_mixture.fit(
                problem,
                self.max_iter,
                plan,
                seed,
                nu=nu,
                size=OUTLIER_SIZE,
                progress=progress,
                keep_on_interrupt=self.on_interrupt == "return",
            )
        self._unpack(model, response, problem.kernel)
        if nu is None:
            warn_of_hidden_outliers(response.z - model.posterior.mean(problem.X), model.nu, stacklevel=4)
        if self.noise == "scale":
            model = replace(model, noise_variance=model.scale2)
        # What predictions need of a posterior it has, though it is not one closed form.
        return model

    def _unpack(self, model: scale_mixture.ScaleMixtureFit, response: ScaledResponse, kernel: Kernel) -> None:
        self.bias_ = response.bias(model.bias)
        self.outlier_probability_ = model.outlier_probability
        self.outlier_mask_ = model.outlier_probability > 0.5
        self.weights_ = model.weights
        self.degrees_of_freedom_ = model.nu
        self.scale_ = response.scaling.spread(model.scale2)
        self.draws_ = _in_units_of_y(model.draws, kernel, response.scaling.scale**2)
        self.r_hat_, self.effective_sample_size_ = model.r_hat, model.effective_sample_size
        self.converged_ = not model.interrupted and not _unmixed(model.r_hat)
        self._draws = model.posterior, model.scales2, model.nus

    def _warn_about(self, model: FitResult) -> None:
        super()._warn_about(model)
        found = cast("scale_mixture.ScaleMixtureFit", model)
        if found.interrupted:
            text = f"Interrupted: this fit rests on {found.report.n_iter} of the {self.draws} draws of each chain."
            Finding("interrupted", text).warn(stacklevel=3)
        worst = _unmixed(found.r_hat)
        if worst:
            text = (
                f"The chains do not agree on {worst} (R̂ = {found.r_hat[worst]:.2f}, above {MAX_R_HAT}) after "
                f"{self.draws} draws and {self.tune} to tune. More draws do not help where the readings have more than "
                "one explanation."
            )
            Finding("not-mixed", text, ("more draws", "compare sparse bias")).warn(stacklevel=3)

    def log_predictive_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density of readings y at the rows of X, one each: the t convolved with f's Gaussian, averaged over draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        """
        check_is_fitted(self)
        array, readings = check_query(self, X), check_readings(y, X)
        z = self._scaling.forward(readings)
        total = np.full(len(z), -np.inf)
        draws, scales2, nus = self._draws
        with blas_threads_for(len(draws.X)):
            for posterior, scale2, nu in zip(draws.each(), scales2, nus, strict=True):
                mean, variance = posterior.mean_and_variance(array)
                total = np.logaddexp(total, tilt(z, mean, variance, scale2, nu).log_normaliser)
        return np.asarray(total - np.log(len(nus)) + self._scaling.log_slope(readings))


def _unmixed(r_hat: dict[str, float]) -> str:
    """The parameter with the worst R̂ above the limit, or not known; empty where all are fine."""
    bad = {name: value for name, value in r_hat.items() if not value <= MAX_R_HAT}
    return max(bad, key=lambda name: np.nan_to_num(bad[name], nan=np.inf)) if bad else ""


def _in_units_of_y(draws: dict[str, Array], kernel: Kernel, unit: float) -> dict[str, Array]:
    """Draws of variances multiplied by the square of y's unit."""
    factors = {"scale2": unit}
    scaled = kernel.scaled(unit)
    if scaled.parameter_names == kernel.parameter_names:
        factors |= dict(zip(kernel.parameter_names, np.exp(scaled.theta - kernel.theta).tolist(), strict=True))
    return {name: factors.get(name, 1.0) * values for name, values in draws.items()}


@contextmanager
def _bar(wanted: bool) -> Iterator[scale_mixture.Progress | None]:
    """A progress bar of rich's, if it is wanted and there."""
    if not wanted:
        yield None
        return
    try:
        from rich.progress import Progress
    except ImportError:
        yield None
        return
    with Progress() as bar:
        task = bar.add_task("sampling", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
