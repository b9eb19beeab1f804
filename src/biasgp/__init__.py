"""Gaussian-process regression on measurements that contain outliers."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from biasgp.estimators import ConstantBiasGP, GaussianGP, RandomBiasGP, ScaleMixtureGP, SparseBiasGP, StudentTGP

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


def __getattr__(name: str) -> Any:
    """The estimators, when they are asked for: they bring scikit-learn, which takes longer than `biasgp --help`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from biasgp import estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return __all__
