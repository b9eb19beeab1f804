"""ConstantBiasGP: the paper's constant bias model (COB)."""

from __future__ import annotations

from typing import Any

import numpy as np

from biasgp.estimators.base import OUTLIER_SIZE, BaseGP
from biasgp.estimators.validation import check_choice, check_number
from biasgp.models import constant_bias
from biasgp.models.problem import Problem
from biasgp.response import ScaledResponse


class ConstantBiasGP(BaseGP):
    """Gaussian process with an L1-penalised bias at every reading, y = f(x) + δ + ε (the paper's COB).

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale per input when left out.
    tuning : {"ml", "paper"}
        How the penalty λ is found. "ml": λ = k/σ with k by maximum likelihood, and a cheaper penalty on the side of f
        that has more outliers, so that they do not shift it. "paper": the paper's alternation, which has no minimum; it
        is stopped and warns. Ignored when lam or k is given.
    lam : float, optional
        The penalty itself, in 1/(unit of y). 0 gives the unpenalised estimate of the paper's Figure 1.
    k : float, optional
        The penalty as λ = k/σ: a residual beyond k standard deviations of the noise is given a bias. A large k is a
        plain GP.
    response : {"identity", "log", "yeo-johnson", "auto"}
        Transform of y in which the model holds; "auto" takes the one whose rough fit predicts readings best. Results
        come back in y's units, but for kernel_, which is the covariance of the transformed f. "auto" leaves fewer than
        20 readings as they are; beyond the range of the readings a transform goes on as a straight line.
    max_iter : int
        Most iterations of the search for the covariance parameters.
    approximation : {"auto", "exact", "vecchia"}
        "vecchia" conditions each reading on its nearest neighbours: time and memory grow as the number of readings.
        "auto" does so beyond 1,500 readings.
    neighbors : int
        How many neighbours that is; with one less than there are readings it is exact.
    max_time : float, optional
        Seconds after which the search ends with the best parameters so far, and a TimeLimitWarning.
    verbose : bool
        Show where the search stands: on a terminal, or as log records of "biasgp".

    Attributes
    ----------
    response_ : Transform
        The transform of y that was used.
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
    kernel_, noise_variance_, n_iter_
        As in GaussianGP.
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        tuning: str = "ml",
        lam: float | None = None,
        k: float | None = None,
        response: str = "identity",
        max_iter: int = 200,
        approximation: str = "auto",
        neighbors: int = 20,
        max_time: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.response = response
        self.tuning = tuning
        self.lam = lam
        self.k = k
        self.max_iter = max_iter
        self.approximation = approximation
        self.neighbors = neighbors
        self.max_time = max_time
        self.verbose = verbose

    def _fit_model(self, problem: Problem, response: ScaledResponse) -> constant_bias.ConstantBiasFit:
        scale, strategy = response.scaling.scale, self._strategy(problem)
        check_choice("tuning", self.tuning, ("ml", "paper"))
        if self.lam is not None and self.k is not None:
            raise ValueError("Give lam or k, not both: lam = k/σ.")
        lam = None if self.lam is None else check_number("lam", self.lam, above=0.0, inclusive=True) * scale
        k = None if self.k is None else check_number("k", self.k, above=0.0)
        paper = self.tuning == "paper" and k is None and lam is None
        if not strategy.exact and (paper or lam == 0.0):
            what = "lam=0" if lam == 0.0 else "tuning='paper'"
            raise ValueError(f"{what} has no nearest-neighbour form: pass approximation='exact', or fewer readings.")
        if lam == 0.0:
            model = constant_bias.fit_unregularised(problem, self.max_iter)
        elif paper:
            model = constant_bias.alternate(problem, self.max_iter)
        else:
            model = constant_bias.fit(problem, self.max_iter, strategy, k=k, lam=lam)
        self.bias_ = response.bias(model.bias)
        self.outlier_mask_ = np.abs(model.bias) > OUTLIER_SIZE * np.sqrt(model.noise_variance + problem.known)
        self.k_ = model.k
        self.lam_ = (model.box.down / scale, model.box.up / scale)
        self.optimality_ = model.optimality
        self.objective_ = model.objective - response.log_jacobian
        return model
