"""GaussianGP: the plain GP, for reference and for clean data."""

from __future__ import annotations

from dataclasses import dataclass

from biasgp.estimators.base import LargeGP
from biasgp.models import gaussian
from biasgp.models.problem import FitResult, Problem
from biasgp.models.varying_noise import CONSTANT
from biasgp.response import ScaledResponse


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianGP(LargeGP):
    """Gaussian process regression, y = f(x) + ε; not robust.

    Parameters
    ----------
    {inherited}
    noise_model : {"constant", "auto", "varying", "proportional"}
        Of the noise: "constant": one σ². "varying": log σ²(x) is a Gaussian process of the same inputs.
        "proportional": σ² + κ²f(x)², for a response that has a zero. "auto": one σ², unless another has clearly more
        evidence.

    Attributes
    ----------
    {inherited}
    log_marginal_likelihood_ : float
        log p(y) at the fitted parameters. Of censored readings it has the probability of lying beyond their limits: to
        1e-9 where there are at most 4, by expectation propagation where there are more.

    Examples
    --------
    >>> from biasgp import GaussianGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> mean, std = GaussianGP().fit(data.X, data.y).predict(data.X_test, return_std=True)
    """

    noise_model: str = CONSTANT

    _knows_censored = True

    def _fit_model(self, problem: Problem) -> FitResult:
        noise_model = self._checked_noise_model(problem)
        return gaussian.fit(problem, self.max_iter, self._strategy(problem), noise_model)

    def _unpack(self, model: FitResult, response: ScaledResponse) -> None:
        super()._unpack(model, response)
        self.log_marginal_likelihood_ = response.log_jacobian - model.report.value
