"""Gaussian-process regression on measurements that contain outliers."""

from biasgp.estimators import ConstantBiasGP, GaussianGP, RandomBiasGP, ScaleMixtureGP, SparseBiasGP, StudentTGP
from biasgp.messages import (
    AmbiguousOutliersWarning,
    BiasGPWarning,
    BoundWarning,
    ClusteredOutliersWarning,
    ConstantResponseWarning,
    ConvergenceWarning,
    CovarianceError,
    HeavyTailWarning,
    HiddenOutliersWarning,
    InterruptedWarning,
    JitterWarning,
    MixingWarning,
    OverflaggingWarning,
    RunawayTuningWarning,
    TimeLimitWarning,
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
    "HiddenOutliersWarning",
    "InterruptedWarning",
    "JitterWarning",
    "MixingWarning",
    "OverflaggingWarning",
    "RandomBiasGP",
    "RunawayTuningWarning",
    "ScaleMixtureGP",
    "SparseBiasGP",
    "StudentTGP",
    "TimeLimitWarning",
    "UntrustworthyFitWarning",
    "__version__",
]
