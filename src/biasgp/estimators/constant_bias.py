"""ConstantBiasGP: the paper's constant bias model (COB)."""

from __future__ import annotations

from dataclasses import dataclass

from biasgp.estimators.base import LargeGP
from biasgp.estimators.validation import check_choice, check_number
from biasgp.models import constant_bias
from biasgp.models.problem import Problem
from biasgp.response import ScaledResponse


@dataclass(eq=False, repr=False, kw_only=True)
class ConstantBiasGP(LargeGP):
    """Gaussian process with an L1-penalised bias at every reading, y = f(x) + δ + ε (the paper's COB).

    Parameters
    ----------
    {inherited}
    tuning : {"ml", "paper"}
        How the penalty λ is found. "ml": λ = k/σ with k by maximum likelihood, and a cheaper penalty on the side of f
        that has more outliers, so that they do not shift it. "paper": the paper's alternation, which has no minimum; it
        is stopped and warns. Ignored when lam or k is given.
    lam : float, optional
        The penalty itself, in 1/(unit of y). 0 gives the unpenalised estimate of the paper's Figure 1.
    k : float, optional
        The penalty as λ = k/σ: a residual beyond k standard deviations of the noise is given a bias. A large k is a
        plain GP.

    Attributes
    ----------
    {inherited}
    bias_ : ndarray of shape (n_samples,)
        δ, in y's unit; exactly 0 for the readings within the penalty.
    outlier_mask_ : ndarray of bool
        Readings whose bias exceeds 2.5 standard deviations of their noise.
    k_ : tuple of float
        k downwards and upwards (NaN where lam was given).
    lam_ : tuple of two ndarrays
        λ of each reading, downwards and upwards, in 1/(unit of y).
    optimality_ : float
        Distance of δ to its optimality conditions, without unit; about 0.
    objective_ : float
        The minimised negative regularised log-likelihood, in y's unit.

    Examples
    --------
    >>> from biasgp import ConstantBiasGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 8)
    >>> model = ConstantBiasGP().fit(data.X, data.y)
    >>> float(model.bias_[data.is_outlier].mean()) > 3.0
    True
    """

    tuning: str = "ml"
    lam: float | None = None
    k: float | None = None

    def _fit_model(self, problem: Problem) -> constant_bias.ConstantBiasFit:
        check_choice("tuning", self.tuning, ("ml", "paper"))
        if self.lam is not None and self.k is not None:
            raise ValueError("Give lam or k, not both: lam = k/σ.")
        lam = None if self.lam is None else check_number("lam", self.lam, above=0.0, inclusive=True) * problem.scale
        k = None if self.k is None else check_number("k", self.k, above=0.0)
        paper = self.tuning == "paper" and k is None and lam is None
        strategy = self._strategy(problem, inverse=paper or lam == 0.0)
        if not strategy.exact and (paper or lam == 0.0):
            what = "lam=0" if lam == 0.0 else "tuning='paper'"
            raise ValueError(f"{what} needs all of K: pass approximation='exact', or fewer readings.")
        if paper:
            return constant_bias.alternate(problem, self.max_iter)
        return constant_bias.fit(problem, self.max_iter, strategy, k=k, lam=lam)

    def _unpack(self, model: constant_bias.ConstantBiasFit, response: ScaledResponse) -> None:
        self.bias_ = response.bias(model.bias)
        self.outlier_mask_ = model.outliers
        self.k_ = model.k
        self.lam_ = (model.box.down / response.scaling.scale, model.box.up / response.scaling.scale)
        self.optimality_ = model.optimality
        self.objective_ = model.objective - response.log_jacobian
        super()._unpack(model, response)
