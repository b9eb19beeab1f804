"""GaussianGP: the plain GP, for reference and for clean data."""

from __future__ import annotations

from biasgp.estimators.base import LargeGP
from biasgp.models import gaussian
from biasgp.models.problem import FitResult, Problem
from biasgp.response import ScaledResponse


class GaussianGP(LargeGP):
    """Gaussian process regression, y = f(x) + ε; not robust.

    Parameters
    ----------
    {inherited}

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

    _knows_censored = True

    def _fit_model(self, problem: Problem) -> FitResult:
        return gaussian.fit(problem, self.max_iter, self._strategy(problem))

    def _unpack(self, model: FitResult, response: ScaledResponse) -> None:
        super()._unpack(model, response)
        self.log_marginal_likelihood_ = response.log_jacobian - model.report.value
