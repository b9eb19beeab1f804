"""Gaussian-process regression on measurements that contain outliers."""

from biasgp.estimators import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, StudentTGP
from biasgp.messages import (
    AmbiguousOutliersWarning,
    BiasGPWarning,
    BoundWarning,
    ClusteredOutliersWarning,
    ConstantResponseWarning,
    ConvergenceWarning,
    CovarianceError,
    HeavyTailWarning,
    JitterWarning,
    OverflaggingWarning,
    RunawayTuningWarning,
    UntrustworthyFitWarning,
)

__version__ = "0.1.0"

__all__ = [
    "AmbiguousOutliersWarning",
    "BiasGPWarning",
    "BoundWarning",
    "ClusteredOutliersWarning",
    "ConstantBiasGP",
    "ConstantResponseWarning",
    "ConvergenceWarning",
    "CovarianceError",
    "GaussianGP",
    "HeavyTailWarning",
    "JitterWarning",
    "OverflaggingWarning",
    "RandomBiasGP",
    "RunawayTuningWarning",
    "SparseBiasGP",
    "StudentTGP",
    "UntrustworthyFitWarning",
    "__version__",
]
