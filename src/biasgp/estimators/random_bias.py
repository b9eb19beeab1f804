"""RandomBiasGP: the paper's random bias model (RAB)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp.estimators.base import LargeGP
from biasgp.estimators.validation import check_choice, check_number
from biasgp.models import random_bias
from biasgp.models.problem import Problem
from biasgp.response import ScaledResponse


@dataclass(eq=False, repr=False, kw_only=True)
class RandomBiasGP(LargeGP):
    """Gaussian process with a random bias at every reading, δᵢ ~ N(μ, τᵢ²) (the paper's RAB).

    Parameters
    ----------
    {inherited}
    tuning : {"ml", "paper"}
        How (λ₁, λ₂, λ₃) are found. "ml": by a bound on the marginal likelihood of the Student-t that the model implies.
        "paper": the paper's alternation, which has no minimum; it is stopped and warns. Ignored when lambdas are given.
        A bias common to all readings cannot be told from the level of f, so "ml" holds μ at 0 (λ₁ infinite).
    lambdas : tuple of three floats, optional
        (λ₁, λ₂, λ₃) themselves, for y in units of its robust standard deviation (1.4826 times the median absolute
        deviation). λ₁ may be infinite: no common bias.

    Attributes
    ----------
    {inherited}
    bias_ : ndarray of shape (n_samples,)
        Posterior mean of δ, in y's unit.
    bias_variance_ : ndarray of shape (n_samples,)
        τ̃² = τ² + σ² of each reading, in y's unit squared. σ² is taken to be their median: most readings share it.
    mean_bias_ : float
        μ, in y's unit.
    lambdas_ : tuple of three floats
        (λ₁, λ₂, λ₃), in the units of `lambdas`.
    outlier_mask_ : ndarray of bool
        Readings whose bias exceeds 2.5 standard deviations of their noise.
    optimality_ : float
        Size of the objective's gradient at the fit.
    objective_ : float
        The minimised bound on −log p(y), in y's unit: RL₂ plus its normaliser.

    Examples
    --------
    >>> from biasgp import RandomBiasGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 8)
    >>> model = RandomBiasGP().fit(data.X, data.y)
    >>> float(model.bias_[data.is_outlier].mean()) > 3.0
    True
    """

    tuning: str = "ml"
    lambdas: tuple[float, float, float] | None = None

    def _fit_model(self, problem: Problem) -> random_bias.RandomBiasFit:
        check_choice("tuning", self.tuning, ("ml", "paper"))
        lambdas = None if self.lambdas is None else _check_lambdas(self.lambdas)
        strategy = self._strategy(problem, inverse=self.tuning == "paper" and lambdas is None)
        if self.tuning == "ml" or lambdas is not None:
            return random_bias.fit(problem, self.max_iter, strategy, lambdas=lambdas)
        if not strategy.exact:
            raise ValueError("tuning='paper' needs all of K: pass approximation='exact'.")
        return random_bias.alternate(problem, self.max_iter)

    def _unpack(self, model: random_bias.RandomBiasFit, response: ScaledResponse) -> None:
        self.bias_ = response.bias(model.bias)
        self.bias_variance_ = model.bias_variance * response.scaling.scale**2
        self.mean_bias_ = model.mean_bias * response.scaling.scale
        self.lambdas_ = model.lambdas
        self.outlier_mask_ = model.outliers
        self.optimality_ = model.optimality
        self.objective_ = model.objective - response.log_jacobian
        super()._unpack(model, response)


def _check_lambdas(lambdas: Any) -> tuple[float, float, float]:
    if np.shape(lambdas) != (3,):
        raise ValueError(f"lambdas must be three numbers (λ₁, λ₂, λ₃), got {lambdas!r}.")
    first, second, third = (value.item() if isinstance(value, np.generic) else value for value in lambdas)
    first = np.inf if first == np.inf else check_number("lambdas[0]", first, above=0.0, inclusive=True)
    return first, check_number("lambdas[1]", second, above=0.0), check_number("lambdas[2]", third, above=0.0)
