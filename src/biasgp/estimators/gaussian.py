"""GaussianGP: the plain GP, for reference and for clean data."""

from __future__ import annotations

from typing import Any

from biasgp.estimators.base import BaseGP
from biasgp.models import gaussian
from biasgp.models.problem import Problem
from biasgp.response import ScaledResponse


class GaussianGP(BaseGP):
    """Gaussian process regression, y = f(x) + ε; not robust.

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale per input when left out.
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
    kernel_ : Kernel
        The fitted covariance, in y's unit squared.
    noise_variance_ : float
        σ², in y's unit squared.
    log_marginal_likelihood_ : float
        log p(y) at the fitted parameters.
    n_iter_ : int
        Iterations of the final search.

    Examples
    --------
    >>> from biasgp import GaussianGP
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> mean, std = GaussianGP().fit(data.X, data.y).predict(data.X_test, return_std=True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        response: str = "identity",
        max_iter: int = 200,
        approximation: str = "auto",
        neighbors: int = 20,
        max_time: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.response = response
        self.max_iter = max_iter
        self.approximation = approximation
        self.neighbors = neighbors
        self.max_time = max_time
        self.verbose = verbose

    def _fit_model(self, problem: Problem, response: ScaledResponse) -> gaussian.GaussianFit:
        model = gaussian.fit(problem, self.max_iter, self._strategy(problem))
        self.log_marginal_likelihood_ = model.log_likelihood + response.log_jacobian
        return model
