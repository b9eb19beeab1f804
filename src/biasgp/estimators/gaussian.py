"""GaussianGP: the plain GP, for reference and for clean data."""

from __future__ import annotations

from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.estimators.base import BaseGP
from biasgp.kernels import Kernel
from biasgp.models import gaussian
from biasgp.response import Scaling


class GaussianGP(BaseGP):
    """Exact Gaussian process regression, y = f(x) + ε; not robust.

    Parameters
    ----------
    kernel : kernel of biasgp.kernels or of scikit-learn, optional
        Covariance of f. Squared exponential with one length-scale an input when left out.
    max_iter : int
        Most iterations of the search for the covariance parameters.

    Attributes
    ----------
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

    def __init__(self, kernel: Any = None, *, max_iter: int = 200) -> None:
        self.kernel = kernel
        self.max_iter = max_iter

    def _fit_model(self, X: Array, z: Array, kernel: Kernel, known: Array, scaling: Scaling) -> gaussian.GaussianFit:
        model = gaussian.fit(X, z, kernel, known, self.max_iter)
        self.log_marginal_likelihood_ = model.log_likelihood - len(z) * float(np.log(scaling.scale))
        return model
