"""Gaussian-process regression on measurements that contain outliers."""

from biasgp.estimators import ConstantBiasGP, GaussianGP, RandomBiasGP
from biasgp.messages import (
    BiasGPWarning,
    ConstantResponseWarning,
    ConvergenceWarning,
    CovarianceError,
    JitterWarning,
    RunawayTuningWarning,
)

__version__ = "0.1.0"

__all__ = [
    "BiasGPWarning",
    "ConstantBiasGP",
    "ConstantResponseWarning",
    "ConvergenceWarning",
    "CovarianceError",
    "GaussianGP",
    "JitterWarning",
    "RandomBiasGP",
    "RunawayTuningWarning",
    "__version__",
]
