"""Other people's methods beside ours, where they are installed: `register_peers()` and then their names.

scikit-learn's plain GPR is also the example of how a method of your own is added.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import MinMaxScaler

from biasgp._typing import Array
from biasgp.estimators.student_t import MAX_NU
from biasgp.models.t_noise import StudentT
from biasgp.study.methods import MakeEstimator, Setting, register

LENGTH_SCALE_BOUNDS = (1e-2, 1e3)
"""Of scikit-learn's kernel, in the unit of the inputs; narrower than its default, (1e-5, 1e5)."""


def _sklearn_gpr(setting: Setting) -> Any:
    """scikit-learn's plain GP with our squared exponential kernel; its std is that of a reading already."""
    scales = np.ones(setting.n_features if setting.ard else 1)
    kernel = ConstantKernel() * RBF(scales, LENGTH_SCALE_BOUNDS) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=setting.seed)


class _TrimmedGP:
    """Iteratively trimmed GP of PyPI's robustgp, as an estimator."""

    def __init__(self, ard: bool) -> None:
        self.ard = ard

    def fit(self, X: Array, y: Array) -> _TrimmedGP:
        """Trim and fit with the package's defaults, on y scaled to mean 0 and standard deviation 1."""
        import GPy  # type: ignore[import-not-found,unused-ignore]
        from robustgp import ITGP  # type: ignore[import-not-found,unused-ignore]

        self.center_, self.scale_ = float(np.mean(y)), float(np.std(y)) or 1.0
        kernel = GPy.kern.RBF(X.shape[1], ARD=self.ard)
        result = ITGP(X, ((y - self.center_) / self.scale_)[:, None], kernel=kernel)
        self.model_, self.consistency_ = result.gp, float(result.consistency)
        self.outlier_mask_ = ~np.asarray(result.ix_sub, dtype=bool)
        return self

    def predict(self, X: Array, return_std: bool = False) -> tuple[Array, Array]:
        """Mean and standard deviation of the next reading."""
        mean, variance = self.model_.predict(X)
        std = np.sqrt(np.ravel(variance) * self.consistency_) * self.scale_
        return np.ravel(mean) * self.scale_ + self.center_, std


class _RelevancePursuitGP:
    """BoTorch's robust relevance pursuit, as an estimator."""

    def __init__(self, n_scales: int | None) -> None:
        self.n_scales = n_scales

    def fit(self, X: Array, y: Array) -> _RelevancePursuitGP:
        """Fit with BoTorch's own defaults, on inputs in [0, 1] and a standardised response."""
        import torch  # type: ignore[import-not-found,unused-ignore]
        from botorch.fit import fit_gpytorch_mll  # type: ignore[import-not-found,unused-ignore]
        from botorch.models.robust_relevance_pursuit_model import (  # type: ignore[import-not-found,unused-ignore]
            RobustRelevancePursuitSingleTaskGP,
        )
        from gpytorch.kernels import RBFKernel, ScaleKernel  # type: ignore[import-not-found,unused-ignore]
        from gpytorch.mlls import ExactMarginalLogLikelihood  # type: ignore[import-not-found,unused-ignore]

        self.scaler_ = MinMaxScaler().fit(X)
        self.model_ = RobustRelevancePursuitSingleTaskGP(
            torch.as_tensor(self.scaler_.transform(X)),
            torch.as_tensor(np.asarray(y, dtype=float))[:, None],
            covar_module=ScaleKernel(RBFKernel(ard_num_dims=self.n_scales)),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model_.likelihood, self.model_))
        self.outlier_mask_ = np.zeros(len(y), dtype=bool)
        self.outlier_mask_[list(self.model_.likelihood.noise_covar.support)] = True
        return self

    def predict(self, X: Array, return_std: bool = False) -> tuple[Array, Array]:
        """Mean and standard deviation of the next reading."""
        import torch

        with torch.no_grad():
            posterior = self.model_.posterior(torch.as_tensor(self.scaler_.transform(X)), observation_noise=True)
            return posterior.mean.numpy().ravel(), posterior.variance.sqrt().numpy().ravel()


class _BoostedStudentTGP:
    """GPBoost's GP with Student-t noise by Laplace's approximation, as an estimator."""

    def __init__(self, ard: bool) -> None:
        self.ard = ard

    def fit(self, X: Array, y: Array) -> _BoostedStudentTGP:
        """Fit with the package's defaults, all of K, on inputs in [0, 1] and y scaled by its median and deviation."""
        import gpboost  # type: ignore[import-not-found,unused-ignore]

        self.scaler_ = MinMaxScaler().fit(X)
        self.center_, self.scale_ = float(np.median(y)), float(np.std(y)) or 1.0
        self.model_ = gpboost.GPModel(
            gp_coords=self.scaler_.transform(X),
            cov_function="gaussian_ard" if self.ard else "gaussian",
            likelihood="t",
            num_parallel_threads=1,
        )
        self.model_.fit(y=(y - self.center_) / self.scale_)
        scale, nu = map(float, np.ravel(self.model_.get_aux_pars(format_pandas=False)))
        self.noise_ = StudentT(scale**2, min(nu, MAX_NU))
        return self

    def _latent(self, X: Array) -> tuple[Array, Array]:
        at = self.scaler_.transform(X)
        found = self.model_.predict(gp_coords_pred=at, predict_var=True, predict_response=False)
        return np.asarray(found["mu"]), np.maximum(np.asarray(found["var"]), 0.0)

    def predict(self, X: Array, return_std: bool = False) -> tuple[Array, Array]:
        """Mean and standard deviation of the next reading that is no outlier, its noise as `StudentTGP` has it."""
        mean, variance = self._latent(X)
        return mean * self.scale_ + self.center_, np.sqrt(variance + self.noise_.core_variance) * self.scale_

    def log_predictive_density(self, X: Array, y: Array) -> Array:
        """Log density of readings: the t convolved with the Gaussian of f."""
        z = (y - self.center_) / self.scale_
        return np.asarray(self.noise_.tilt(z, *self._latent(X)).log_normaliser - np.log(self.scale_))


PEERS: dict[str, tuple[str, MakeEstimator]] = {
    "sklearn": ("sklearn", _sklearn_gpr),
    "itgp": ("robustgp", lambda setting: _TrimmedGP(setting.ard)),
    "rrp": ("botorch", lambda setting: _RelevancePursuitGP(setting.n_features if setting.ard else None)),
    "gpboost-t": ("gpboost", lambda setting: _BoostedStudentTGP(setting.ard)),
}
"""Name in the tables, the package it needs, and the function that makes it."""


def register_peers() -> list[str]:
    """Register those whose package is installed, and return a note for each that is not."""
    notes = []
    for name, (package, make) in PEERS.items():
        if find_spec(package) is None:
            notes.append(f"{name} is left out: {package} is not installed.")
        else:
            register(name, make)
    return notes
