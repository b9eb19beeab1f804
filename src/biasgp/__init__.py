"""Gaussian-process regression on measurements that contain outliers.

>>> import biasgp
>>> biasgp.__version__.split(".")[0]
'0'
"""

from __future__ import annotations

from biasgp.messages import (
    AmbiguousOutliersWarning,
    BiasGPWarning,
    ClusteredOutliersWarning,
    ConstantResponseWarning,
    ConvergenceWarning,
    CovarianceError,
    HiddenOutliersWarning,
    InterruptedWarning,
    JitterWarning,
    MixingWarning,
    NoLabelsWarning,
    OverflaggingWarning,
    RunawayTuningWarning,
    TimeLimitWarning,
    UntrustworthyFitWarning,
)

# As typing has it, which takes longer to import than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from biasgp import plot
    from biasgp.estimators import (
        ConstantBiasGP,
        GaussianGP,
        RandomBiasGP,
        RobustConjugateGP,
        ScaleMixtureGP,
        SparseBiasGP,
        StudentTGP,
        clean,
    )
    from biasgp.persistence import load, save

__version__ = "0.2.0"

__all__ = [
    "AmbiguousOutliersWarning",
    "BiasGPWarning",
    "ClusteredOutliersWarning",
    "ConstantBiasGP",
    "ConstantResponseWarning",
    "ConvergenceWarning",
    "CovarianceError",
    "GaussianGP",
    "HiddenOutliersWarning",
    "InterruptedWarning",
    "JitterWarning",
    "MixingWarning",
    "NoLabelsWarning",
    "OverflaggingWarning",
    "RandomBiasGP",
    "RobustConjugateGP",
    "RunawayTuningWarning",
    "ScaleMixtureGP",
    "SparseBiasGP",
    "StudentTGP",
    "TimeLimitWarning",
    "UntrustworthyFitWarning",
    "__version__",
    "clean",
    "load",
    "plot",
    "save",
]


if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name):
        """The estimators, when they are asked for: they bring scikit-learn, which takes longer than `biasgp --help`."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in ("load", "save"):
            from biasgp import persistence

            return getattr(persistence, name)
        if name == "plot":
            from importlib import import_module

            return import_module("biasgp.plot")
        from biasgp import estimators

        return getattr(estimators, name)


def __dir__() -> list[str]:
    return __all__
