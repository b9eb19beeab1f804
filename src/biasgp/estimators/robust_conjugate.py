"""RobustConjugateGP: robust and conjugate Gaussian process regression (RCGP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp.estimators.base import BaseGP
from biasgp.estimators.validation import check_number
from biasgp.models import robust_conjugate
from biasgp.models.problem import Problem
from biasgp.response import ScaledResponse


@dataclass(eq=False, repr=False, kw_only=True)
class RobustConjugateGP(BaseGP):
    """Gaussian process whose readings weigh less the further they are from the prior mean (RCGP), for comparison.

    The prior mean is the median of the readings. An outlier that lies inside the range of f keeps its weight: where f
    varies by more than the outliers do, this is a plain GP.

    Parameters
    ----------
    {inherited}
    c : float, optional
        Distance from the prior mean, in the unit of (the transformed) y, at which a reading has half of the largest
        weight. The .9 quantile of the readings' distances when left out; `numpy.inf` gives a plain GP whose parameters
        maximise the leave-one-out density.

    Attributes
    ----------
    {inherited}
    c_ : float
        The c that was used, in the unit of (the transformed) y.
    weights_ : ndarray of shape (n_samples,)
        1/(1 + (y − m)²/c²): σ² over the variance that the reading's noise is given.
    bias_ : ndarray of shape (n_samples,)
        What the noise beyond σ² takes of each reading's residual, in y's unit. (The method itself has no biases.)
    outlier_mask_ : ndarray of bool
        Readings whose bias exceeds 2.5 standard deviations of their noise.
    leave_one_out_ : float
        The maximised leave-one-out log predictive density of all readings.

    References
    ----------
    Altamirano, Briol and Knoblauch (2024), Robust and conjugate Gaussian process regression, ICML.

    Examples
    --------
    >>> from biasgp import RobustConjugateGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> mean, std = RobustConjugateGP().fit(data.X, data.y).predict(data.X_test, return_std=True)
    """

    c: float | None = None

    def _fit_model(self, problem: Problem) -> robust_conjugate.RobustConjugateFit:
        c = self.c
        if c is not None and c != np.inf:
            c = check_number("c", c, above=0.0) / problem.scale
        return robust_conjugate.fit(problem, self.max_iter, c=c)

    def _unpack(self, model: robust_conjugate.RobustConjugateFit, response: ScaledResponse) -> None:
        self.c_ = model.c * response.scaling.scale
        self.weights_ = model.weights
        self.bias_ = response.bias(model.bias)
        self.outlier_mask_ = model.outliers
        self.leave_one_out_ = response.log_jacobian - model.report.value
        super()._unpack(model, response)
